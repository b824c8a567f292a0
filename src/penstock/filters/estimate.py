"""How many events a filter is likely to match: shares of an event stream, from what is known of it.

A distribution says, for one attribute, what share of the events has it in a given value set. Attributes
are taken as independent. Where nothing is known, `Assumed` makes do with the constants that the filters
themselves mention: half of the weight is spread evenly over the cells into which these cut the family,
half by the cells' length where the family has lengths (numbers and times).
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, Protocol

from penstock.errors import FilterError, PenstockError
from penstock.filters import cuts
from penstock.filters.constraint import literal
from penstock.filters.filter import Filter
from penstock.filters.order import LEAST, Point, successor
from penstock.filters.valuesets import Presence, ValueSet
from penstock.model.values import Family, Value, to_value

_PATTERN_SHARE: Final = 0.1
"""The share of strings that a pattern is assumed to match when there are no values to try it on."""


class Distribution(Protocol):
    """What is known of one attribute's values."""

    def share(self, states: ValueSet) -> float:
        """The share of all events, 0 to 1, in which the attribute is in one of these states."""


class ValueCounts:
    """A distribution by counts of values; None counts the events without the attribute.

    >>> from penstock.filters.constraint import value_set
    >>> ValueCounts({"JFK": 60, "LGA": 30, None: 10}).share(value_set("=", "JFK"))
    0.6
    """

    def __init__(self, counts: Mapping[Value | None, float]) -> None:
        shares = _shares(list(counts.values()))
        self._shares: list[tuple[Value | None, float]] = []
        for value, share in zip(counts, shares, strict=True):
            try:
                self._shares.append((None if value is None else to_value(value), share))
            except PenstockError as error:
                raise FilterError(f"a distribution counts values of events: {error}") from None

    def share(self, states: ValueSet) -> float:
        """The share of the counted values that are in the set."""
        return math.fsum(share for value, share in self._shares if states.admits(value))


class Histogram:
    """A distribution of numbers or times by bins: `counts[i]` fall evenly in [edges[i], edges[i + 1]).

    `absent` counts the events without the attribute.
    """

    def __init__(self, edges: Sequence[Value], counts: Sequence[float], *, absent: float = 0) -> None:
        points = [literal(edge) for edge in edges]
        families = {family for family, _point in points}
        if len(families) != 1 or not families <= {Family.NUMBER, Family.TIME}:
            raise FilterError("the edges of a histogram are numbers, or times")
        self._family = families.pop()
        self._edges = [point for _family, point in points]
        if len(edges) != len(counts) + 1 or any(
            a >= b for a, b in zip(self._edges, self._edges[1:], strict=False)
        ):
            raise FilterError("a histogram has rising edges, one more than counts")
        *self._shares, self._absent = _shares([*counts, absent])

    def share(self, states: ValueSet) -> float:
        """The share of the bins, cut evenly, that lies in the set."""
        if states.kind is Presence.ABSENT:
            return self._absent
        if states.kind is Presence.EXISTS:
            return 1 - self._absent
        if states.kind is not self._family:
            return 0.0
        parts = []
        for start, end, share in zip(self._edges, self._edges[1:], self._shares, strict=False):
            inside = cuts.intersection(states.cuts, (start, end))
            parts.append(
                share
                * math.fsum(_width(a, b) for a, b in cuts.intervals(inside) if b is not None)
                / _width(start, end)
            )
        return math.fsum(parts)


def _shares(counts: list[float]) -> list[float]:
    try:
        total = math.fsum(counts)
    except (OverflowError, TypeError, ValueError):
        total = math.nan
    if not 0 < total < math.inf or any(count < 0 for count in counts):
        raise FilterError("the counts of a distribution are finite, not negative and not all zero")
    return [count / total for count in counts]


def _width(start: float, end: float) -> float:
    """The length of an interval, a quarter of it in fact, as that cannot overflow."""
    return float(end) * 0.25 - float(start) * 0.25


class Assumed:
    """What is assumed of an attribute of which only the filters' own constants are known."""

    def __init__(self, mentioned: Iterable[ValueSet]) -> None:
        marks: dict[Family, set[Point]] = {}
        for states in mentioned:
            if isinstance(states.kind, Family):
                marks.setdefault(states.kind, set()).update(states.cuts)
        # Two more cells: the attribute is absent, or present in a way that nobody asks about.
        count = 2 + sum(len(points | {LEAST[family]}) for family, points in marks.items())
        self._elsewhere = 1 / count
        self._cells: dict[Family, tuple[list[Point], list[float]]] = {}
        for family, points in marks.items():
            starts = sorted(points | {LEAST[family]})
            weight = len(starts) / count
            weights = (weight * (0.5 / len(starts) + 0.5 * length) for length in _lengths(family, starts))
            self._cells[family] = starts, [0.0, *accumulate(weights)]

    def share(self, states: ValueSet) -> float:
        """The weight of the cells in the set, thinned by its patterns."""
        if states.kind is Presence.ABSENT:
            return self._elsewhere
        if states.kind is Presence.EXISTS:
            return 1 - self._elsewhere
        if not isinstance(states.kind, Family) or states.kind not in self._cells:
            return 0.0
        starts, sums = self._cells[states.kind]
        share = math.fsum(
            (sums[-1] if end is None else sums[bisect_left(starts, end)]) - sums[bisect_left(starts, start)]
            for start, end in cuts.intervals(states.cuts)
        )
        thinned = _PATTERN_SHARE ** len(states.required) * (1 - _PATTERN_SHARE) ** len(states.forbidden)
        return share * thinned


def _lengths(family: Family, starts: list[Point]) -> list[float]:
    """Each cell's part of the length between the outermost constants; even where there is no length."""
    lengths = [0.0] * len(starts)
    if family in (Family.NUMBER, Family.TIME):
        for at, (start, end) in enumerate(pairwise(starts)):
            if start != LEAST[family] and end != successor(family, start):
                lengths[at] = _width(start, end)
    span = math.fsum(lengths)
    if not 0 < span < math.inf:
        return [1 / len(starts)] * len(starts)
    return [length / span for length in lengths]


class Estimator:
    """Shares of whole filters: known distributions where given, assumed ones elsewhere."""

    def __init__(
        self, filters: Iterable[Filter], distributions: Mapping[str, Distribution] | None = None
    ) -> None:
        mentioned: dict[str, list[ValueSet]] = {}
        for f in filters:
            for name, states in f.conditions.items():
                mentioned.setdefault(name, []).append(states)
        self._known: dict[str, Distribution] = {name: Assumed(sets) for name, sets in mentioned.items()}
        self._known.update(distributions or {})
        self._seen: dict[tuple[str, ValueSet], float] = {}

    def share(self, f: Filter) -> float:
        """The share of all events that the filter is likely to match."""
        if not f.satisfiable:
            return 0.0
        return math.prod(self._share(item) for item in f.conditions.items())

    def _share(self, item: tuple[str, ValueSet]) -> float:
        share = self._seen.get(item)
        if share is None:
            name, states = item
            share = self._seen[item] = self._known[name].share(states)
        return share


def as_distributions(
    given: Mapping[str, "Distribution | Mapping[Any, float]"] | None,
) -> dict[str, Distribution]:
    """Check what was given for each attribute; a mapping of values to counts will do."""
    known: dict[str, Distribution] = {}
    for name, distribution in (given or {}).items():
        if isinstance(distribution, Mapping):
            known[name] = ValueCounts(distribution)
        elif callable(getattr(distribution, "share", None)):
            known[name] = distribution
        else:
            kind = type(distribution).__name__
            raise FilterError(f"the distribution of {name!r:.80} is a ValueCounts or a Histogram, not {kind}")
    return known
