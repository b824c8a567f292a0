"""Sets of rules that are slow to load or to match, as SQL text from a seed."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final, Literal, get_args

Kind = Literal["prefixes", "lists", "words", "exclusions"]
KINDS: Final = get_args(Kind)

_VALUES: Final = 1_000
"""Values of a list."""

_DOMAIN: Final = 1_000_000
"""Different values in all lists."""


def texts(kind: Kind, count: int, seed: int) -> Iterator[str]:
    """Yield so many rules of a kind.

    - prefixes: each asks for a prefix of its own;
    - lists: `in` and `not in` in turn, with 1,000 integers each;
    - words: the same with 1,000 texts;
    - exclusions: `x != k`, each with a number of its own, so that an event matches nearly all.
    """
    return _MAKERS[kind](count, Random(seed))


def _prefixes(count: int, random: Random) -> Iterator[str]:
    numbers = random.sample(range(10**9), count)
    return (f"name like 'customer-{number:09d}%'" for number in numbers)


def _lists(count: int, random: Random, form: str = "{}") -> Iterator[str]:
    for number in range(count):
        values = ", ".join(map(form.format, random.sample(range(_DOMAIN), _VALUES)))
        yield f"x {'not in' if number % 2 else 'in'} ({values})"


def _words(count: int, random: Random) -> Iterator[str]:
    return _lists(count, random, "'v{}'")


def _exclusions(count: int, random: Random) -> Iterator[str]:
    return (f"x != {number}" for number in random.sample(range(10 * count), count))


_MAKERS: Final[dict[Kind, Callable[[int, Random], Iterator[str]]]] = {
    "prefixes": _prefixes,
    "lists": _lists,
    "words": _words,
    "exclusions": _exclusions,
}
