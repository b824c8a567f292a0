"""The canonical value set of one attribute: what a filter lets the attribute be.

An attribute of an event is in exactly one state: absent, or present with a value of one family, or
present as NaN. A value set holds states of one kind: the values of one family that lie in `cuts` (for
strings also: that match every `required` pattern and no `forbidden` one), or one of the three special
states. `EXISTS` holds every state but absence. Of lists, `required` and `forbidden` have what elements are
asked for, in place of patterns (`lists`).

For bool, number and time, and for strings without patterns, each set has one form, and every relation here is
exact. With patterns (suffix, substring, LIKE) and lists the relations are sound: `covers` is never true
falsely, `overlaps` never false falsely, but a cover or an emptiness may go unnoticed.
"""

from bisect import bisect_right
from collections.abc import Callable
from enum import IntEnum
from itertools import combinations
from os.path import commonprefix
from typing import Final

import msgspec

from penstock.filters import cuts, lists, patterns
from penstock.filters.cuts import Cuts
from penstock.filters.folding import fold, has_case
from penstock.filters.order import LEAST, after_prefix, successor
from penstock.filters.patterns import Pattern
from penstock.filters.wildcards import RUN
from penstock.model.decimals import ExactDecimal
from penstock.model.values import Family, List, Time, Value

_POINTS_MAX: Final = 16
"""A string interval of so few values is looked at value by value. ('a' and 'a\\0' are neighbours.)"""

_TRIED_MAX: Final = 16_384
"""The size of a regular expression times the characters of values that it is tried on: some milliseconds."""


class Presence(IntEnum):
    """The kinds of value set that are about no family. The numbers go on where Family's end."""

    ABSENT = 0
    NAN = 5
    EXISTS = 6


# Enumerations are slow to look into, and `admits` is called for every condition of every filter.
_ABSENT: Final = Presence.ABSENT
_TIME: Final = Family.TIME
_LIST: Final = Family.LIST

_STATE_OF_TYPE: Final[dict[type, Family | Presence]] = {
    type(None): Presence.ABSENT,
    bool: Family.BOOL,
    int: Family.NUMBER,
    float: Family.NUMBER,
    ExactDecimal: Family.NUMBER,
    str: Family.STRING,
    Time: Family.TIME,
    tuple: Family.LIST,
}


class ValueSet(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A set of states of one attribute; see the module. Make one with `of_cuts` or from a constraint."""

    kind: Family | Presence
    cuts: Cuts
    required: tuple[Pattern, ...] = ()
    forbidden: tuple[Pattern, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it is known that no value is in the set."""
        return not self.cuts

    @property
    def is_point(self) -> bool:
        """Whether the set is known to hold exactly one value of a family."""
        if len(self.cuts) > 2 or not self.cuts or not isinstance(self.kind, Family) or self.required:
            return False
        if self.kind is _LIST:
            return False
        following = successor(self.kind, self.cuts[0])
        return self.cuts[1:] == (() if following is None else (following,))

    def admits(self, value: Value | None) -> bool:
        """Whether a value, or None for an absent attribute, is in the set."""
        kind = self.kind
        if _STATE_OF_TYPE[type(value)] is not kind:
            if kind is Presence.EXISTS:
                return value is not None
            return kind is Presence.NAN and value != value
        if kind is _ABSENT:
            return bool(self.cuts)
        if kind is _LIST:
            elements: List = value  # type: ignore[assignment]
            return bool(self.cuts) and lists.admits(self.required, self.forbidden, elements)
        point = value.nanoseconds if kind is _TIME else value  # type: ignore[union-attr]
        # As `cuts.contains`, without the call: where filters are tried one by one, this is all the work.
        if not bisect_right(self.cuts, point) & 1 or value != value:
            return False
        return not (self.required or self.forbidden) or (
            all(patterns.matches(pattern, value) for pattern in self.required)  # type: ignore[arg-type]
            and not any(patterns.matches(pattern, value) for pattern in self.forbidden)  # type: ignore[arg-type]
        )

    def covers(self, other: "ValueSet") -> bool:
        """Whether every state in `other` is surely in this set."""
        kind = self.kind
        if kind is not other.kind:
            return (kind is Presence.EXISTS and other.kind is not Presence.ABSENT) or not other.cuts
        if not cuts.covers(self.cuts, other.cuts):
            return False
        if not (self.required or self.forbidden):
            return True
        return all(_implied(pattern, other) for pattern in self.required) and all(
            _excluded(pattern, other) for pattern in self.forbidden
        )

    def overlaps(self, other: "ValueSet") -> bool:
        """Whether a state may be in both."""
        if self._is_plain_as(other):
            return cuts.overlap(self.cuts, other.cuts)
        if self.kind is not other.kind and Presence.EXISTS not in (self.kind, other.kind):
            return False
        return not self.intersection(other).is_empty

    def intersection(self, other: "ValueSet") -> "ValueSet":
        """The states in both."""
        if self._is_plain_as(other):
            return ValueSet(self.kind, cuts.intersection(self.cuts, other.cuts))
        return intersection_of([self, other])

    def _is_plain_as(self, other: "ValueSet") -> bool:
        """Whether both are of one kind, and cuts say all: so it is with most sets that are compared."""
        return self.kind is other.kind and not (
            self.required or self.forbidden or other.required or other.forbidden
        )

    def union(self, other: "ValueSet") -> "ValueSet | None":
        """The states in either, or None where no one value set holds just these."""
        if self.kind is other.kind and self.required == other.required and self.forbidden == other.forbidden:
            return of_cuts(self.kind, cuts.union(self.cuts, other.cuts), self.required, self.forbidden)
        if self.covers(other):
            return self
        return other if other.covers(self) else None

    def difference(self, other: "ValueSet") -> "list[ValueSet]":
        """The states in this set and not in `other`, as disjoint value sets, none known to be empty."""
        if not self.overlaps(other):
            return [self]
        if self.kind is Presence.EXISTS and other.kind is not Presence.EXISTS:
            rest = (part.difference(other) for part in _PRESENT)
            return [piece for pieces in rest for piece in pieces]
        if self.kind is not other.kind or not isinstance(self.kind, Family):
            return []  # other is EXISTS, or both are the same single state
        outside = cuts.difference(self.cuts, other.cuts, LEAST[self.kind])
        pieces = [of_cuts(self.kind, outside, self.required, self.forbidden)]
        inside = self
        if other.required or other.forbidden:
            inside = self.intersection(of_cuts(self.kind, other.cuts))
        for pattern in other.required:
            pieces.append(inside.intersection(_opposite(other.kind, pattern)))
            inside = inside.intersection(_only(other.kind, pattern))
        for pattern in other.forbidden:
            pieces.append(inside.intersection(_only(other.kind, pattern)))
            inside = inside.intersection(_opposite(other.kind, pattern))
        return [piece for piece in pieces if piece.cuts]

    def sort_key(self) -> tuple[object, ...]:
        """Orders value sets in some total way."""
        return (int(self.kind), self.cuts, self.required, self.forbidden)


NOTHING: Final = ValueSet(Presence.ABSENT, ())
ABSENT: Final = ValueSet(Presence.ABSENT, (0,))
NAN: Final = ValueSet(Presence.NAN, (0,))
EXISTS: Final = ValueSet(Presence.EXISTS, (0,))
FULL: Final = {family: ValueSet(family, (least,)) for family, least in LEAST.items()}
"""Every value of a family, NaN not among the numbers."""

_PRESENT: Final = (NAN, *FULL.values())
"""EXISTS, taken apart."""


def of_cuts(
    kind: Family | Presence,
    cut: Cuts,
    required: tuple[Pattern, ...] = (),
    forbidden: tuple[Pattern, ...] = (),
) -> ValueSet:
    """The value set in canonical form."""
    if not (required or forbidden):
        return ValueSet(kind, cut)
    if kind is _LIST:
        return of_lists(required, forbidden) if cut else ValueSet(_LIST, ())
    return _simplified(cut, required, forbidden)


def of_lists(required: tuple[Pattern, ...], forbidden: tuple[Pattern, ...]) -> ValueSet:
    """The lists that have an element for each required condition, and none for a forbidden one."""
    found = lists.simplified(required, forbidden)
    return ValueSet(_LIST, ()) if found is None else ValueSet(_LIST, (0,), *found)


def intersection_of(sets: list[ValueSet]) -> ValueSet:
    """The states in all of the sets."""
    kinds = {int(states.kind) for states in sets}
    if len(kinds) > 1:
        sets = [states for states in sets if states.kind is not Presence.EXISTS]
        if len(kinds) > 2 or Presence.EXISTS not in kinds or Presence.ABSENT in kinds:
            return NOTHING
    return of_cuts(
        sets[0].kind,
        cuts.intersection_all([states.cuts for states in sets]),
        tuple(pattern for states in sets for pattern in states.required),
        tuple(pattern for states in sets for pattern in states.forbidden),
    )


def prefix_cuts(prefix: str) -> Cuts:
    """All strings that start with the prefix."""
    end = after_prefix(prefix)
    return (prefix,) if end is None else (prefix, end)


def like(pattern: Pattern) -> ValueSet:
    """The strings that match a pattern: cuts alone where they suffice, always the prefix as cuts."""
    if not patterns.has_wildcard(pattern):
        return ValueSet(Family.STRING, (pattern, pattern + "\0"))
    cut = prefix_cuts(patterns.literal_prefix(pattern))
    if patterns.is_prefix(pattern):
        return ValueSet(Family.STRING, cut)
    return ValueSet(Family.STRING, cut, (pattern,))


def not_like(pattern: Pattern) -> ValueSet:
    """The strings that do not match a pattern."""
    positive = like(pattern)
    if positive.required:
        return ValueSet(Family.STRING, ("",), (), (pattern,))
    return ValueSet(Family.STRING, cuts.complement(positive.cuts, ""))


def _only(kind: Family | Presence, pattern: Pattern) -> ValueSet:
    """What of a kind matches a pattern, or has an element that satisfies a condition."""
    return of_lists((pattern,), ()) if kind is _LIST else like(pattern)


def _opposite(kind: Family | Presence, pattern: Pattern) -> ValueSet:
    """What of a kind does not."""
    if kind is _LIST:
        return of_lists((), lists.alternatives(lists.predicate_of(pattern)))
    return not_like(pattern)


def _simplified(cut: Cuts, required: tuple[Pattern, ...], forbidden: tuple[Pattern, ...]) -> ValueSet:
    """Drop patterns and intervals that say nothing, until none is left that does."""
    while True:
        required = _minimal(required, special=True)
        forbidden = _minimal(forbidden, special=False)
        if any(patterns.covers(f, r) for f in forbidden for r in required) or any(
            patterns.disjoint(a, b) for a, b in combinations(required, 2)
        ):
            return ValueSet(Family.STRING, ())
        good, bad = (tuple(p for p in some if _may_try(p, cut)) for some in (required, forbidden))
        kept = cuts.from_intervals([p for i in cuts.intervals(cut) for p in _kept(i, good, bad)])
        bare = ValueSet(Family.STRING, kept)
        still_required = tuple(r for r in required if not _implied(r, bare))
        context = ValueSet(Family.STRING, kept, required)
        still_forbidden = tuple(f for f in forbidden if not _excluded(f, context))
        if (kept, still_required, still_forbidden) == (cut, required, forbidden):
            return ValueSet(Family.STRING, cut, required, forbidden)
        cut, required, forbidden = kept, still_required, still_forbidden


def _minimal(found: tuple[Pattern, ...], *, special: bool) -> tuple[Pattern, ...]:
    """The patterns that none of the others makes redundant: the most special, or the most general."""
    if len(found) < 2:
        return found
    kept: list[Pattern] = []
    ordered = sorted(set(found))
    for pattern in ordered:
        others = (other for other in ordered if other != pattern)
        if not any(
            patterns.covers(pattern, other) if special else patterns.covers(other, pattern)
            for other in others
        ):
            kept.append(pattern)
    return tuple(kept)


_ALL_STRINGS: Final = ("",)

Interval = tuple[str, str | None]


def _points(interval: Interval) -> list[str] | None:
    """The values of an interval that has but a few, else None."""
    start, end = interval
    if end is None or not end.startswith(start):
        return None
    count = len(end) - len(start)
    if count > _POINTS_MAX or end[len(start) :] != "\0" * count:
        return None
    return [start + "\0" * extra for extra in range(count)]


def _common_prefix(interval: Interval) -> Pattern:
    """A pattern that every string of the interval matches: a sure prefix, then anything."""
    start, end = interval
    if end is None:
        return RUN
    shared = commonprefix([start, end])  # noqa: RUF071 - character by character is meant
    longer = start[: len(shared) + 1]
    return (longer if after_prefix(longer) == end else shared) + RUN


def _kept(
    interval: Interval, required: tuple[Pattern, ...], forbidden: tuple[Pattern, ...]
) -> list[Interval]:
    """What the patterns leave of an interval, as far as can be told."""
    points = _points(interval)
    if points is not None:
        good = [
            point
            for point in points
            if all(patterns.matches(r, point) for r in required)
            and not any(patterns.matches(f, point) for f in forbidden)
        ]
        return cuts.intervals(cuts.union_all([(point, point + "\0") for point in good]))
    prefix = _common_prefix(interval)
    gone = any(patterns.covers(f, prefix) for f in forbidden) or any(
        patterns.disjoint(r, prefix) for r in required
    )
    return [] if gone else [interval]


def _may_try(pattern: Pattern, cut: Cuts) -> bool:
    """Whether a pattern may be tried on the values of a set: regular expressions only on few short ones."""
    size = patterns.regex_size(pattern)
    return not size or size * sum(map(len, cut)) <= _TRIED_MAX


def _implied(pattern: Pattern, given: ValueSet) -> bool:
    """Whether every string of the set surely matches the pattern, which not every string does.

    Of lists: whether each surely has an element that satisfies the condition.
    """
    if given.kind is _LIST:
        return any(lists.covers((pattern, *given.forbidden), other) for other in given.required)
    if any(patterns.covers(pattern, other) for other in given.required):
        return True
    return _may_try(pattern, given.cuts) and _throughout(
        given.cuts,
        lambda prefix: patterns.covers(pattern, prefix),
        lambda point: patterns.matches(pattern, point),
    )


def _excluded(pattern: Pattern, given: ValueSet) -> bool:
    """Whether surely no string of the set matches the pattern, which some string does.

    Of lists: whether surely none has an element that satisfies the condition.
    """
    if given.kind is _LIST:
        return lists.covers(given.forbidden, pattern)
    if any(patterns.covers(other, pattern) for other in given.forbidden) or any(
        patterns.disjoint(pattern, other) for other in given.required
    ):
        return True
    return _may_try(pattern, given.cuts) and _throughout(
        given.cuts,
        lambda prefix: patterns.disjoint(pattern, prefix),
        lambda point: not patterns.matches(pattern, point),
    )


def evidence(given: ValueSet) -> list[str]:
    """Texts and patterns of a set of strings, folded too. A pattern that it implies covers one of them."""
    found = list(given.required)
    if given.cuts != _ALL_STRINGS:
        first = cuts.intervals(given.cuts)[0]
        found.append((_points(first) or [_common_prefix(first)])[0])
    found += [patterns.symbols(pattern) for pattern in found if patterns.is_regex(pattern)]
    return [*found, *(fold(text) for text in found if has_case(text))]


def _throughout(cut: Cuts, prefix_test: Callable[[Pattern], bool], point_test: Callable[[str], bool]) -> bool:
    """Whether a test, which fails for some string, holds for each interval: its points, or its prefix."""
    if cut == _ALL_STRINGS:
        return False
    for interval in cuts.intervals(cut):
        points = _points(interval)
        if points is None:
            if not prefix_test(_common_prefix(interval)):
                return False
        elif not all(map(point_test, points)):
            return False
    return True
