"""The elements of lists, matched as events: which conditions on a list are true.

What filters ask of one list (`penstock.filters.lists`) are computed attributes. Each stands here with the
filters that an element may match. The elements of all lists of a batch become a batch of their own, where an
element that is no record has the one attribute `this`. It is matched as any other, and what an element
matches is true of its list. Elements may have lists themselves, and filters on them clauses: then the batch
of elements is completed first, as the outer one is.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.filters import lists
from penstock.matching.batch import ArrowLists, Batch, ListColumn, with_lists
from penstock.matching.computed import Alternatives, Computed, Groups
from penstock.matching.encode import BatchBuilder
from penstock.matching.observed import Observed
from penstock.model.events import list_with_times
from penstock.model.values import List

_PAIRS_MAX: Final = 2**21
"""Pairs of an element and a condition that are found at a time: tens of MB."""

_LOOKED_AT: Final = 16
"""Lists of a batch, and elements of a list, whose names are looked at."""


class Elements:
    """What is asked of the elements of one list. Never changed, but for names that come at the end."""

    def __init__(
        self, names: dict[str, int], groups: Groups, computed: Computed, observed: Observed | None = None
    ) -> None:
        self.names = names
        """The attributes of elements that filters name, numbered."""
        self.observed = observed or Observed()
        """What elements had, counted."""
        self._groups = groups
        self._computed = computed

    @property
    def lists(self) -> "Mapping[str, Elements]":
        """By attribute: what is asked of the elements of lists that elements have."""
        return self._computed.lists

    def extended(self, known: list[Alternatives], numbers: NDArray[np.int32]) -> "Elements":
        """With more conditions: computed attributes that have these numbers."""
        names = dict(self.names)
        observed = self.observed if names else Observed()
        for each in known:
            for name in each.builder.new_names():
                if name not in names:
                    observed.begin(len(names))
                    names[name] = len(names)
        groups = self._groups.extended(known, numbers, names)
        return Elements(names, groups, self._computed.extended(names), observed)

    def found(
        self, column: ListColumn, *, counted: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Rows of the column, and for each of them the number of an attribute that is true of it."""
        batch, owner = _batch_of_elements(column.rows, self.names)
        completed = self._computed.completed(batch, self.names, counted=counted)
        if counted:
            if self.observed.is_curious:
                self.observed.look(_names_in(column.rows))
            self.observed.see(batch)
        rows: list[NDArray[np.int64]] = []
        numbers: list[NDArray[np.int32]] = []
        # An element may satisfy all conditions, and a list have thousands of elements.
        step = max(1, _PAIRS_MAX // max(1, self._groups.size))
        for first in range(0, len(owner), step):
            some = completed._replace(
                start=completed.start[first : first + step], count=completed.count[first : first + step]
            )
            element, number = self._groups.found(some, self.names, batch.lists)
            width = int(number.max(initial=0)) + 1
            pairs = np.unique(owner[first + element] * width + number)
            rows.append(pairs // width)
            numbers.append((pairs % width).astype(np.int32))
        if len(rows) == 1:
            return rows[0], numbers[0]
        width = max((int(number.max(initial=0)) + 1 for number in numbers), default=1)
        all_pairs = [row * width + number for row, number in zip(rows, numbers, strict=True)]
        pairs = np.unique(np.concatenate(all_pairs)) if all_pairs else np.zeros(0, np.int64)
        return pairs // width, (pairs % width).astype(np.int32)


def _names_in(rows: Sequence[List] | ArrowLists) -> Sequence[str]:
    """The attributes that some elements have."""
    if isinstance(rows, ArrowLists):
        return rows.names
    some = (element for row in rows[:_LOOKED_AT] for element in row[:_LOOKED_AT])
    return list(dict.fromkeys(name for element in some for name in lists.attributes_of(element)))


NONE: Final = Elements({}, Groups(), Computed())
"""Nothing is asked."""


def _batch_of_elements(
    rows: Sequence[List] | ArrowLists, names: dict[str, int]
) -> tuple[Batch, NDArray[np.int64]]:
    """The elements of lists as a batch, and for each of them the row of its list."""
    if isinstance(rows, ArrowLists):
        return _renumbered(rows, names), rows.owner
    builder = BatchBuilder(names)
    for row in rows:
        for element in row:
            builder.add(lists.attributes_of(element))
    return builder.build(), np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))


def lists_of(batch: Batch) -> Mapping[int, List]:
    """The lists of a batch, by their places in its table of values."""
    return {
        int(place): row
        for column in batch.lists
        for place, row in zip(column.places, _plain(column.rows), strict=True)
    }


def _renumbered(rows: ArrowLists, names: dict[str, int]) -> Batch:
    """The elements, with the numbers that attributes have here; the others are left out."""
    batch = rows.elements
    number_of = np.array([names.get(name, -1) for name in rows.names] or [-1], np.int32)
    attribute = number_of[batch.value_attribute]
    kept = attribute[batch.entries] >= 0
    before = np.append(0, np.cumsum(kept))
    start = before[batch.start]
    made = Batch(*batch)._replace(
        start=start,
        count=(before[batch.start + batch.count] - start).astype(np.int32),
        entries=batch.entries[kept],
        # Values that nothing has any more are of no attribute that filters name.
        value_attribute=np.where(attribute < 0, np.int32(len(names)), attribute),
    )
    inner = [column._replace(attribute=int(number_of[column.attribute])) for column in batch.lists]
    return with_lists(made, [column for column in inner if column.attribute >= 0])


def _plain(rows: Sequence[List] | ArrowLists) -> Sequence[List]:
    """Lists as the model has them."""
    if not isinstance(rows, ArrowLists):
        return rows
    from penstock.model.arrow import lists_from_arrow

    found = [row for row in lists_from_arrow(rows.array) if row is not None]
    return [list_with_times(row, rows.times) for row in found] if rows.times else found
