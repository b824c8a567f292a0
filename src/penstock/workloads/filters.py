"""Random filters of a realistic shape, from a seed: one to four constraints on flights' attributes."""

from collections.abc import Iterator
from random import Random

_STRINGS = {
    "carrier": ("UA", "AA", "DL", "B6", "WN", "EV"),
    "origin": ("JFK", "LGA", "EWR"),
    "dest": ("LAX", "SFO", "ORD", "ATL", "MIA", "BOS", "SEA", "HNL"),
}
_NUMBERS = {"dep_delay": 300, "arr_delay": 300, "distance": 3000, "air_time": 600, "hour": 24, "flight": 6000}

Condition = tuple[str, str, object]


def conditions(seed: int) -> Iterator[list[Condition]]:
    """Yield without end lists of (attribute, operator, value), for all operators that take one value."""
    random = Random(seed)
    names = [*_STRINGS, *_NUMBERS]
    while True:
        made: list[Condition] = []
        for name in random.sample(names, random.choice((1, 2, 2, 3, 4))):
            if name in _STRINGS:
                made.append((name, random.choice(("=", "=", "=", "!=")), random.choice(_STRINGS[name])))
            else:
                value = random.randrange(_NUMBERS[name])
                made.append((name, random.choice(("=", "<", "<=", ">", ">=")), value))
        yield made


def simple_sql(seed: int) -> Iterator[str]:
    """Yield without end filters as SQL text, such as `origin = 'JFK' and dep_delay > 60`."""
    for made in conditions(seed):
        yield " and ".join(
            f"{name} {operator} '{value}'" if isinstance(value, str) else f"{name} {operator} {value}"
            for name, operator, value in made
        )


def json_form(seed: int) -> Iterator[dict[str, object]]:
    """Yield without end filters in the JSON form."""
    for made in conditions(seed):
        parts = [{"attribute": name, "op": operator, "value": value} for name, operator, value in made]
        yield {"all": parts}
