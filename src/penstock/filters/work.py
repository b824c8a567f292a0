"""Counted work: what bringing an expression into a disjunction may cost, in steps and not in seconds.

Whoever writes a filter decides how much there is to do. So everything that can take more than linear time
(expanding, merging, absorbing, comparing patterns) counts its steps, and raises LimitError when there are too
many. A step is about a microsecond: a condition visited, or a pair of small filters compared.

`EXPANSION_WORK_MAX` is the allowance for a text of any length. Each constraint adds a few steps to it, so
that a long list of plain filters can be read. Requests of clients get no such addition, and their canonical
form must be cheap to print and to read as well, because the next broker reads it: see `Work.for_request`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from penstock.errors import LimitError
from penstock.filters.filter import Filter
from penstock.filters.patterns import regex_size
from penstock.filters.valuesets import ValueSet
from penstock.model.limits import EXPANSION_WORK_MAX

_PACED: Final = 100
"""Steps between two calls of whoever keeps the pace: a tenth of a millisecond or so."""

_EACH: Final = 12
"""Steps added for each constraint: enough to read a disjunction in which few filters have to be compared."""

_CUTS: Final = 64
"""Cuts of a value set that are passed over in one step."""

_CHARACTERS: Final = 16
"""Characters of a pattern that are passed over in one step."""

_COMPARED: Final = 2
_COMPARED_CHARACTERS: Final = 8
"""Steps that comparing two patterns takes, and how many of their characters are compared in one more."""

_SIMPLIFIED: Final = 24
"""Steps that bringing a value set with patterns into canonical form takes, however few there are."""

_PIECES: Final = 8
"""Steps that a piece takes that is left when a pattern is cut out of a value set."""

_COMPILED: Final = 12
"""Steps that making an automaton takes for each character or class of a regular expression."""

_READ: Final = 2
"""Characters of a client's text that are read in one step."""

_PRINTED: Final = 10
"""Steps that printing a condition, and finding it in a text, take."""

_SHORT: Final = 16
_SWEPT: Final = 4
"""Cuts that are not counted where value sets are brought together, and how many are gone over in one step."""


class Work:
    """Counts the steps of one operation; raises LimitError past its limit.

    `pace` is called every so many steps, by which somebody can have the work pause for others.
    """

    __slots__ = ("_paced_at", "compared", "kept", "left", "limit", "pace", "strict")

    def __init__(
        self,
        limit: int = EXPANSION_WORK_MAX,
        *,
        strict: bool = False,
        pace: Callable[[], object] | None = None,
    ) -> None:
        self.limit = limit
        self.left = limit
        self.pace = pace
        self._paced_at = 0 if pace is None else limit - _PACED
        """Below so many steps left, there is something to do."""
        self.strict = strict
        """Whether what is made must be cheap to read, too."""
        self.compared = 0
        """Steps of comparing filters when the latest disjunction is brought into canonical form again."""
        self.kept = 0
        """Steps of bringing clauses that were kept into canonical form again; see `clauses`."""

    @classmethod
    def of_size(cls, size: int) -> "Work":
        """Work on something of a size: on so many constraints, where none has very many values."""
        return cls(EXPANSION_WORK_MAX + _EACH * size)

    @classmethod
    def on(cls, filters: Iterable[Filter]) -> "Work":
        """Work on filters."""
        return cls.of_size(sum(map(_size, filters)))

    @classmethod
    def for_request(cls, length: int = 0, pace: Callable[[], object] | None = None) -> "Work":
        """Work on a client's request of so many characters: no broker may be kept waiting by it."""
        work = cls(strict=True, pace=pace)
        work.spend(length // _READ)
        return work

    @property
    def spent(self) -> int:
        """How many steps were counted."""
        return self.limit - self.left

    def spend(self, steps: int) -> None:
        """Count steps; raise when there were too many."""
        self.left -= steps
        if self.left < self._paced_at:
            self._pause()

    def _pause(self) -> None:
        if self.left < 0:
            self._refuse("takes too many steps to bring into a disjunction of filters")
        self._paced_at = max(0, self.left - _PACED)
        if self.pace is not None:
            self.pace()

    def make(self, filters: int, conditions: int) -> None:
        """Count the steps of making so many filters of so many conditions together."""
        if self.strict and _PRINTED * conditions > EXPANSION_WORK_MAX:
            self._refuse("becomes a disjunction of filters that takes too many steps to read")
        self.spend(4 * filters + conditions // 3)

    def check_readable(self, filters: Sequence[Filter]) -> None:
        """Raise if the canonical form that was made would not be read again: what is printed must be.

        For a request it must also be cheap to print and to read.
        """
        if len(filters) > 1 or self.kept:
            steps = self.compared + self.kept + sum(map(_reading, filters))
            allowed = EXPANSION_WORK_MAX + _EACH * sum(map(_size, filters))
            if self.strict:
                steps += sum(map(_printing, filters))
                allowed = EXPANSION_WORK_MAX
            if steps > allowed:
                self._refuse("becomes a disjunction of filters that takes too many steps to read")

    def _refuse(self, what: str) -> None:
        shorter = "say it in several shorter filters"
        raise LimitError(f"the filter {what} ({shorter})", "EXPANSION_WORK_MAX", EXPANSION_WORK_MAX)


def size_of(states: ValueSet) -> int:
    """The size of one condition."""
    return 1 + len(states.cuts) // _CUTS


def _size(f: Filter) -> int:
    size = sum(map(size_of, f.conditions.values()))
    return size + sum(_size(one) for clause in f.clauses for one in clause) if f.clauses else size


def weight(f: Filter) -> int:
    """The steps that passing over a filter once takes."""
    steps = 1 + len(f.conditions)
    for states in f.conditions.values():
        if len(states.cuts) > _CUTS:
            steps += len(states.cuts) // _CUTS
        if states.required or states.forbidden:
            steps += weight_of_patterns(states)
    return steps + sum(map(weight, chain.from_iterable(f.clauses))) if f.clauses else steps


def weight_of_patterns(states: ValueSet) -> int:
    """The steps that passing once over the patterns of a value set takes."""
    return sum(1 + len(pattern) // _CHARACTERS for pattern in states.required + states.forbidden)


def compiling(states: ValueSet) -> int:
    """The steps of making what finds the regular expressions of a value set."""
    found = states.required + states.forbidden
    return _COMPILED * sum(map(regex_size, found)) if found else 0


def combining(sets: Collection[ValueSet]) -> int:
    """The steps that the intersection of value sets takes: each pattern is compared with each."""
    cuts = 0
    lengths: list[int] = []
    for states in sets:
        cuts += len(states.cuts)
        if states.required or states.forbidden:
            lengths += map(len, states.required + states.forbidden)
    steps = cuts // _SWEPT * len(sets).bit_length() if cuts > _SHORT else 0
    if len(lengths) > 1:
        steps += len(lengths) * (_COMPARED * len(lengths) + sum(lengths) // _COMPARED_CHARACTERS)
    return steps


def crossing(a: Filter, b: Filter) -> int:
    """The steps that the intersection of two filters takes."""
    if len(a.conditions) > len(b.conditions):
        a, b = b, a
    steps = 1 + len(b.conditions) // 2
    for name, states in a.conditions.items():
        other = b.conditions.get(name)
        if other is not None:
            steps += 1 + combining((states, other))
    return steps


def cutting(box: Filter, part: Filter) -> int:
    """The steps that the patterns of two filters take where one is cut out of the other.

    Each pattern of the part makes a piece, in which each pattern is compared with each.
    """
    steps = 0
    for name, states in part.conditions.items():
        known = box.conditions.get(name)
        cut = len(states.required) + len(states.forbidden)
        if known is not None and cut and (known.required or known.forbidden):
            steps += _PIECES * cut + (cut + 2) * combining((known, states))
            steps += compiling(states) + compiling(known)
    return steps


class Heft(NamedTuple):
    """What makes comparing a filter with others expensive."""

    cuts: int
    """The steps for its long value sets."""
    patterns: int
    """The steps for its patterns."""

    @classmethod
    def of(cls, f: Filter) -> "Heft":
        """The heft of a filter."""
        cuts = patterns = 0
        for states in f.conditions.values():
            if len(states.cuts) > _SHORT:
                cuts += len(states.cuts) // _SWEPT
            if states.required or states.forbidden:
                patterns += weight_of_patterns(states)
        return cls(cuts, patterns)

    @classmethod
    def greatest(cls, filters: Iterable[Filter]) -> "Heft":
        """No filter of several has more of either."""
        hefts = [cls.of(f) for f in filters]
        return cls(max(heft.cuts for heft in hefts), max(heft.patterns for heft in hefts))

    def covering(self, other: "Heft") -> int:
        """The steps that telling whether one filter covers another takes at the most."""
        if self.patterns and other.patterns:
            return 1 + min(self.cuts, other.cuts) + self.patterns * other.patterns
        return 1 + min(self.cuts, other.cuts) if self.cuts and other.cuts else 1

    def overlapping(self, other: "Heft") -> int:
        """The steps that telling whether two filters overlap takes at the most: all patterns are compared."""
        steps = 1 + min(self.cuts, other.cuts)
        if self.patterns and other.patterns:
            steps += _SIMPLIFIED + _COMPARED * (self.patterns + other.patterns) ** 2
        return steps


def _reading(f: Filter) -> int:
    """The steps of reading a filter as part of a disjunction, without comparing it with the others.

    Those for its clauses are counted where they are made.
    """
    steps = 4 * weight(f.without_clauses())
    for states in f.conditions.values():
        if len(states.required) + len(states.forbidden) > 1:
            steps += combining((states,))
    return steps


def _printing(f: Filter) -> int:
    """The steps that printing a filter, and cutting its text into constraints, take."""
    steps = 2 + sum(_PRINTED + len(states.cuts) for states in f.conditions.values())
    return steps + sum(map(_printing, chain.from_iterable(f.clauses))) if f.clauses else steps
