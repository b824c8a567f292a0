"""Witnesses: a few values of a value set that tell it from others.

Whoever covers a value set admits all its witnesses. So they show quickly what does not cover it; whether
something does is for `ValueSet.covers` to say. The witnesses are the least and the greatest value, or numbers
near the ends that are open, and one in between where there are several intervals: an interval that admits the
first two covers everything from one to the other.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import inf, nan
from typing import Final, NamedTuple, cast

from penstock.filters import lists
from penstock.filters.filter import Filter
from penstock.filters.order import LEAST, Point, first_value, last_value, predecessor, successor
from penstock.filters.patterns import Pattern, is_regex, symbols
from penstock.filters.regex_patterns import example
from penstock.filters.valuesets import Presence, ValueSet
from penstock.filters.wildcards import ONE, RUN
from penstock.model.events import Event
from penstock.model.limits import INTEGER_MAX
from penstock.model.values import Family, Time, Value

_FILLS: Final = (("\ue123", "\ue123"), ("\U000f3210\U000f3210", "\U000f3210"), ("", "\ue123"), ("", "a"))
"""What % and _ are replaced by: symbols for private use first, which hardly any other pattern asks for."""

_HIGH: Final = "\U0010ffff" * 3
"""Greater than most texts."""

_STARTS: Final = 8
"""Intervals whose starts are tried where patterns must match too."""


class Witnesses(NamedTuple):
    """Values of one set; they need not be different."""

    low: Value
    high: Value
    middle: Value


def witnesses(states: ValueSet) -> Witnesses | None:
    """Witnesses of a value set of some family; None where none is found, as may be with patterns."""
    if not isinstance(states.kind, Family) or not states.cuts:
        return None
    if states.kind is Family.LIST:
        return _of_lists(states)
    if states.required or states.forbidden:
        return _of_patterns(states)
    family, cuts = states.kind, states.cuts
    low = cuts[0]
    if len(cuts) == 2 and cuts[1] == successor(family, low):
        high = low
    elif len(cuts) & 1:
        high = _last(family, cuts[-1])
    else:
        high = _before(family, cuts[-1], cuts[-2])
    at = (len(cuts) // 4) * 2
    middle = cuts[at]
    if family is Family.NUMBER:
        # Where an interval has no least value, one near its start will do.
        low, middle = (first_value(cuts[i], cuts[i + 1] if i + 1 < len(cuts) else None) for i in (0, at))
        if low is None or middle is None or high is None:
            return None
    if family is Family.TIME:
        return Witnesses(Time(low), Time(high), Time(middle))
    return Witnesses(low, high, middle)


def _last(family: Family, start: Point) -> Point:
    """A great value of the interval that starts here and does not end."""
    if family is Family.NUMBER:
        return inf
    if family is Family.TIME:
        return INTEGER_MAX
    if family is Family.BOOL:
        return True
    return max(_HIGH, cast("str", start))


def _before(family: Family, end: Point, start: Point) -> Point:
    """A great value of an interval, which ends before `end`."""
    if family is Family.NUMBER:
        return last_value(start, end)
    found = predecessor(family, end)
    if found is None and family is Family.STRING:
        code = ord(end[-1]) - 1
        # The surrogates, U+D800 to U+DFFF, are no characters.
        found = end[:-1] + chr(0xD7FF if code == 0xDFFF else code) + _HIGH
    return start if found is None else max(found, start)


def _of_patterns(states: ValueSet) -> Witnesses | None:
    found: list[str] = []
    for text in _attempts(states):
        if text not in found and states.admits(text):
            found.append(text)
            if len(found) == 3:
                break
    if not found:
        return None
    return Witnesses(found[0], found[-1], found[len(found) // 2])


def _of_lists(states: ValueSet) -> Witnesses | None:
    """A list with an element for each condition, if that is one; one element of no kind will do where none
    is asked for."""
    elements = [_element(lists.filters_of(asked)[0]) for asked in states.required] or [Event.from_flat({})]
    if None in elements:
        return None
    made = tuple(element for element in elements if element is not None)
    return Witnesses(made, made, made) if states.admits(made) else None


def _element(asked: Filter) -> Value | Event | None:
    """An element that matches a filter, if one is found."""
    attributes: dict[str, Value] = {}
    for name, states in asked.conditions.items():
        if states.kind is Presence.ABSENT:
            continue
        found = Witnesses(nan, nan, nan) if states.kind is Presence.EXISTS else witnesses(states)
        if found is None:
            return None
        attributes[name] = found.low
    return attributes[lists.ELEMENT] if attributes.keys() == {lists.ELEMENT} else Event.from_flat(attributes)


def _attempts(states: ValueSet) -> Iterator[str]:
    """Texts that may be in a set with patterns."""
    plain = witnesses(ValueSet(states.kind, states.cuts))
    for run, one in _FILLS:
        filled = [_filled(pattern, run, one) for pattern in states.required]
        yield from filled
        joined = run.join(filled)
        yield run + joined + run
        for start in states.cuts[: 2 * _STARTS : 2]:
            yield start + joined
            yield start + run + joined + run
    if plain is not None:
        yield from (str(text) for text in plain)


@lru_cache(maxsize=1024)
def _filled(pattern: Pattern, run: str, one: str) -> str:
    if is_regex(pattern):
        return example(pattern)
    return symbols(pattern).replace(RUN, run).replace(ONE, one)


def excluded_points(states: ValueSet) -> tuple[Point, ...] | None:
    """The values that a set lacks of its family, where these are single points; None where they are not.

    So a list of `not in`, or the value of `!=`.
    """
    if not is_open(states) or states.required or states.forbidden:
        return None
    family, cuts = cast("Family", states.kind), states.cuts
    points = cuts[1::2]
    if any(
        successor(family, point) != cuts[at] for point, at in zip(points, range(2, len(cuts), 2), strict=True)
    ):
        return None
    return points


def is_open(states: ValueSet) -> bool:
    """Whether a value set has neither a least nor a greatest value, and gaps between."""
    cuts, family = states.cuts, states.kind
    return len(cuts) > 2 and len(cuts) & 1 == 1 and isinstance(family, Family) and cuts[0] == LEAST[family]
