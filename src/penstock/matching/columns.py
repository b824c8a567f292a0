"""Filters as flat arrays: what a table is compiled from, and what it can be turned back into.

Nothing here depends on other filters: points are written so that their order can be told, strings as
numbers of literals. `Columns` of several tables can be laid end to end (`concatenate`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from penstock.filters.filter import Filter
from penstock.filters.order import After
from penstock.filters.valuesets import ValueSet
from penstock.matching.computed import IS_TRUE, is_held_apart, lowered, name_of, names_behind
from penstock.model.values import SCALARS, Family

if TYPE_CHECKING:
    from penstock.matching.bulk_texts import BulkTexts

_EXACT: Final = 2**53

PATTERN_ONLY: Final = 7
"""A condition that is about patterns and nothing else, beside the kinds of Family and Presence."""

NEVER: Final = 8
"""The only condition of a filter that no event can match."""

_FAMILIES = tuple(int(family) for family in SCALARS)
_LIST: Final = Family.LIST
_BOOL, _NUMBER, _TIME, _STRING = _FAMILIES

_NO_NAME: Final = ""
_NEVER_SET: Final = ValueSet(cast("Family", NEVER), ())
"""What stands for the only condition of a filter that no event can match."""


class Columns(NamedTuple):
    """Conjunctions of conditions. A condition is a value set of one attribute: cuts and patterns."""

    names: Sequence[str]
    """The attributes' names, by number."""
    literals: Sequence[bytes]
    """The strings of cuts, in UTF-8, by number."""
    patterns: Sequence[str]
    """The patterns, as `penstock.filters.patterns` keeps them, by number."""
    ids: NDArray[np.int32]
    """For each filter, the number of its id."""
    offsets: NDArray[np.int64]
    """Where the conditions of each filter start."""
    attribute: NDArray[np.int32]
    kind: NDArray[np.uint8]
    """For each condition: a Family, a Presence, PATTERN_ONLY or NEVER."""
    cut_offsets: NDArray[np.int64]
    """Where the cuts of each condition start."""
    cut_high: NDArray[np.int64]
    """Numbers: the key of the greatest double not above; times: nanoseconds; bools: 0 or 1; strings: the
    number of a literal."""
    cut_low: NDArray[np.int16]
    """Numbers: twice what is left over; numbers and strings: 1 more where the cut is just after."""
    pattern_offsets: NDArray[np.int64]
    """Where the patterns of each condition start."""
    pattern: NDArray[np.int32]
    """The number of a required pattern; of a forbidden one, its complement (-1 - number)."""

    @property
    def filters(self) -> int:
        """How many filters there are."""
        return len(self.ids)


def number_keys(points: Sequence[float | After]) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Numbers in canonical form (int or float), and places just after them, as keys that order exactly."""
    from penstock.matching.kernels.search import keys_of_integers

    after = np.fromiter((type(point) is After for point in points), np.int16, len(points))
    values = [point.value if type(point) is After else point for point in points]
    doubles = np.array(values, np.float64)
    high = double_keys(doubles)
    low = after.copy()
    large = np.flatnonzero(np.abs(doubles) >= _EXACT)
    exact = [at for at in large.tolist() if type(values[at]) is int]
    if exact:
        integers = np.array([values[at] for at in exact], np.int64)
        int_high, int_low = np.empty(len(integers), np.int64), np.empty(len(integers), np.int64)
        keys_of_integers(integers, int_high, int_low)
        high[exact], low[exact] = int_high, int_low + after[exact]
    return high, low


def double_keys(doubles: NDArray[np.float64]) -> NDArray[np.int64]:
    """Doubles, none of them NaN, as integers that order the same way."""
    bits = (doubles + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(0x7FFFFFFFFFFFFFFF))


class ColumnsBuilder:
    """Collects filters one by one; `build` turns them into arrays all at once."""

    def __init__(self, names: dict[str, int]) -> None:
        self.names = names
        """Numbers of attributes; `build` gives new names the next number."""
        self.ids: list[int] = []
        self.removed: set[int] = set()
        """Filters, by their place, that are not to be built."""
        self._conditions: list[int] = []
        self._attributes: list[str] = []
        self._sets: list[ValueSet] = []
        self._behind: dict[str, None] = {}
        """The attributes that computed ones depend on."""
        self.texts: BulkTexts | None = None
        """Filters that are given as text."""

    def add(self, number: int, given: Filter) -> None:
        """Add a filter under the number of an id."""
        self.ids.append(number)
        if is_held_apart(given):
            self._conditions.append(1)
            name = name_of(given)
            self._attributes.append(name)
            self._sets.append(IS_TRUE)
            self._behind.update(dict.fromkeys(names_behind(name)))
        elif given.satisfiable:
            conditions = given.conditions
            for states in conditions.values():
                if states.kind is _LIST:
                    self._behind.update(dict.fromkeys(conditions))
                    conditions = lowered(conditions)
                    break
            self._conditions.append(len(conditions))
            self._attributes += conditions
            self._sets += conditions.values()
        else:
            self._conditions.append(1)
            self._attributes.append(_NO_NAME)
            self._sets.append(_NEVER_SET)

    def extend(self, other: "ColumnsBuilder", ids: list[int]) -> None:
        """Add all filters of another builder, none of them removed or in `texts`, under other ids."""
        self.ids += ids
        self._conditions += other._conditions
        self._attributes += other._attributes
        self._sets += other._sets
        self._behind.update(other._behind)

    def __len__(self) -> int:
        return len(self.ids) - len(self.removed) + (len(self.texts) if self.texts else 0)

    def new_names(self) -> list[str]:
        """Attributes that have no number yet."""
        named = dict.fromkeys((*self._attributes, *self._behind))
        if self.texts:
            named.update(self.texts.attributes())
        return [name for name in named if name not in self.names and name != _NO_NAME]

    def conditions(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
        """Where the conditions of each filter start, and for each its attribute and its kind."""
        known = list(map(self.names.get, self._attributes))
        if None in known:
            for name in self.new_names():
                self.names[name] = len(self.names)
            known = [self.names.get(name, 0) for name in self._attributes]
        attribute = np.array(known, np.int32)
        kind = np.fromiter([states.kind for states in self._sets], np.uint8, len(self._sets))
        return offsets_of(np.array(self._conditions, np.int64)), attribute, kind

    def build(self) -> Columns:
        """All filters that were added and not removed."""
        if not self.texts:
            return self._build()
        for name in self.new_names():
            self.names[name] = len(self.names)
        texts = self.texts.build(self.names)
        return concatenate([self._build(), texts], texts.names) if self.ids else texts

    def _build(self) -> Columns:
        sets, count = self._sets, len(self._sets)
        offsets, attribute, kind = self.conditions()
        cuts = np.fromiter([len(states.cuts) for states in sets], np.int64, count)
        # Only families have cuts that say something.
        cuts[(kind < _BOOL) | (kind > _STRING)] = 0
        of_cut = np.repeat(kind, cuts)
        high = np.empty(len(of_cut), np.int64)
        low = np.zeros(len(of_cut), np.int16)
        points = {family: _points(sets, np.flatnonzero(kind == family).tolist()) for family in _FAMILIES}
        for family in (_BOOL, _TIME):
            if points[family]:
                high[of_cut == family] = np.array(points[family], np.int64)
        numbers, strings = of_cut == _NUMBER, of_cut == _STRING
        high[numbers], low[numbers] = number_keys(points[_NUMBER])
        literals, high[strings], low[strings] = string_cuts(points[_STRING])
        patterns: dict[str, int] = {}
        counts = np.zeros(count, np.int64)
        references: list[int] = []
        for at in np.flatnonzero(kind == _STRING).tolist():
            states = sets[at]
            if states.required or states.forbidden:
                counts[at] = len(states.required) + len(states.forbidden)
                references += [patterns.setdefault(p, len(patterns)) for p in states.required]
                references += [~patterns.setdefault(p, len(patterns)) for p in states.forbidden]
        made = Columns(
            names=list(self.names),
            literals=literals,
            patterns=list(patterns),
            ids=np.array(self.ids, np.int32),
            offsets=offsets,
            attribute=attribute,
            kind=kind,
            cut_offsets=offsets_of(cuts),
            cut_high=high,
            cut_low=low,
            pattern_offsets=offsets_of(counts),
            pattern=np.array(references, np.int32),
        )
        if not self.removed:
            return made
        keep = np.ones(len(self.ids), np.bool_)
        keep[list(self.removed)] = False
        return take(made, np.flatnonzero(keep))


def _points(sets: list[ValueSet], chosen: list[int]) -> list[Any]:
    """The cuts of some sets, in order."""
    return [point for at in chosen for point in sets[at].cuts]


def string_cuts(cuts: Sequence[str]) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.int16]]:
    """Strings as numbers of literals; what ends in NUL is said as "just after" what comes before it."""
    after = [cut[-1:] == "\0" for cut in cuts]
    texts = [cut[:-1] if just_after else cut for cut, just_after in zip(cuts, after, strict=True)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    high = np.array([numbers[text] for text in texts], np.int64)
    return [literal.encode() for literal in numbers], high, np.array(after, np.int16)


def literals_in_order(
    literals: Sequence[bytes], used: NDArray[np.int64]
) -> tuple[list[int], NDArray[np.int64]]:
    """The literals that are in use, sorted; and for each literal its place among them, if it has one."""
    are_used = np.zeros(len(literals), np.bool_)
    are_used[used] = True
    numbers: list[int] = np.flatnonzero(are_used).tolist()
    numbers.sort(key=literals.__getitem__)
    rank = np.zeros(len(literals), np.int64)
    rank[numbers] = np.arange(len(numbers))
    return numbers, rank


def offsets_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where runs of the given lengths start, and where the last one ends."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def take(columns: Columns, positions: NDArray[np.int64]) -> Columns:
    """Some filters; names, literals and patterns stay as they are."""
    conditions, of_condition = runs(columns.offsets, positions)
    cuts, of_cut = runs(columns.cut_offsets, of_condition)
    patterns, of_pattern = runs(columns.pattern_offsets, of_condition)
    return columns._replace(
        ids=columns.ids[positions],
        offsets=conditions,
        attribute=columns.attribute[of_condition],
        kind=columns.kind[of_condition],
        cut_offsets=cuts,
        cut_high=columns.cut_high[of_cut],
        cut_low=columns.cut_low[of_cut],
        pattern_offsets=patterns,
        pattern=columns.pattern[of_pattern],
    )


def runs(
    offsets: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The offsets of some runs when they stand by themselves, and which items they consist of."""
    starts = offsets[chosen]
    made = offsets_of(offsets[chosen + 1] - starts)
    return made, np.repeat(starts - made[:-1], np.diff(made)) + np.arange(made[-1])


def concatenate(parts: Sequence[Columns], names: Sequence[str]) -> Columns:
    """Several columns, whose attributes are numbered alike, as one; literals and patterns are unified."""
    if len(parts) == 1:
        return parts[0]._replace(names=names)
    # The part that has most of them keeps its numbers: there may be millions.
    most = max(parts, key=lambda part: len(part.literals))
    literals = {literal: number for number, literal in enumerate(most.literals)}
    patterns: dict[str, int] = {}
    highs, references = [], []
    for part in parts:
        are_kept = part is most and len(literals) >= len(most.literals)
        literal_of = np.fromiter(
            (literals.setdefault(literal, len(literals)) for literal in (() if are_kept else part.literals)),
            np.int64,
            0 if are_kept else len(part.literals),
        )
        pattern_of = np.fromiter(
            (patterns.setdefault(pattern, len(patterns)) for pattern in part.patterns),
            np.int32,
            len(part.patterns),
        )
        high = part.cut_high
        if not are_kept:
            high = high.copy()
            strings = np.repeat(part.kind == _STRING, np.diff(part.cut_offsets))
            high[strings] = literal_of[high[strings]]
        highs.append(high)
        forbidden = part.pattern < 0
        plain = pattern_of[np.where(forbidden, ~part.pattern, part.pattern)]
        references.append(np.where(forbidden, ~plain, plain).astype(np.int32))
    return Columns(
        names=names,
        literals=list(literals),
        patterns=list(patterns),
        ids=np.concatenate([part.ids for part in parts]),
        offsets=_joined([part.offsets for part in parts]),
        attribute=np.concatenate([part.attribute for part in parts]),
        kind=np.concatenate([part.kind for part in parts]),
        cut_offsets=_joined([part.cut_offsets for part in parts]),
        cut_high=np.concatenate(highs),
        cut_low=np.concatenate([part.cut_low for part in parts]),
        pattern_offsets=_joined([part.pattern_offsets for part in parts]),
        pattern=np.concatenate(references),
    )


def _joined(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return offsets_of(np.concatenate([np.diff(part) for part in offsets]))
