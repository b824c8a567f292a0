"""What a batch of events matched."""

from collections.abc import Iterator
from operator import index
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, cast, overload

import numpy as np
from numpy.typing import NDArray

from penstock.filters import html
from penstock.matching.arrival import is_interpreting
from penstock.matching.columns import offsets_of
from penstock.matching.ids import IdTable
from penstock.model.names import Id

if TYPE_CHECKING:
    import pyarrow as pa


_IDS_SHOWN: Final = 10
"""Ids of an event that a notebook shows."""


class Matches:
    """The ids that each event of a batch matched, each id once.

    `offsets` has a place more than there are events: the ids of event i are those from `offsets[i]` to
    `offsets[i + 1]` of `ids()`. They are in no order; indexing, iterating and `to_arrow(ordered=True)` sort
    them.

    What `ids()` and `to_arrow()` give is told by the ids that the matcher had when it matched, not by those
    that were found: all batches that it matches as it is have the same type.
    """

    def __init__(
        self,
        offsets: NDArray[np.int64],
        numbers: NDArray[np.int32],
        table: IdTable,
        *,
        integers: bool,
    ) -> None:
        """`integers`: whether all ids that the matcher has are."""
        self.offsets = offsets
        self.numbers = numbers
        """The ids as the matcher numbers them."""
        self._table = table
        self._integers = integers

    @property
    def integers(self) -> bool:
        """Whether all ids that the matcher has are integers."""
        return self._integers

    @property
    def table(self) -> IdTable:
        """Which id each number stands for."""
        return self._table

    def ids(self) -> NDArray[Any]:
        """The ids of all events, end to end: an array of integers where all ids of the matcher are; else of
        objects, text and integers as they were added."""
        if self._integers:
            return self._table.integers_of(self.numbers)
        return self._table.objects_of(self.numbers)

    def to_arrow(self, *, ordered: bool = False) -> "pa.Array":
        """A list of ids for each event: integers where all ids of the matcher are, else strings.

        Where some ids are integers and some text, the integers become text: 1 and "1" are then the same. Take
        `ids()` and `offsets` to tell them apart.
        """
        import pyarrow as pa

        if ordered:
            return self.sorted().to_arrow()
        if self._integers:
            known = pa.array(self._table.integers_of(self.numbers))
        else:
            known = self._table.texts_of(self.numbers)
        if len(known) < 2**31:
            return pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), known)
        return pa.LargeListArray.from_arrays(pa.array(self.offsets), known)

    def sorted(self) -> "Matches":
        """The same with the ids of each event in order: integers first, then text by code point."""
        by_id = self._table.ordered(np.unique(self.numbers))
        rank = np.zeros(self._table.count + 1, np.int64)
        rank[by_id] = np.arange(len(by_id))
        if is_interpreting():
            event = np.repeat(np.arange(len(self)), np.diff(self.offsets))
            return self._with(self.offsets, self.numbers[np.lexsort((rank[self.numbers], event))])
        from penstock.matching.kernels.results import sort_runs

        numbers = self.numbers.copy()
        sort_runs(self.offsets, numbers, rank)
        return self._with(self.offsets, numbers)

    def places(self, place: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of all ids, sorted for each event; `place` has that of each number of an id."""
        if is_interpreting():
            found = place[self.numbers]
            event = np.repeat(np.arange(len(self)), np.diff(self.offsets))
            return found[np.lexsort((found, event))]
        from penstock.matching.kernels.results import sort_places

        return cast("NDArray[np.int64]", sort_places(self.offsets, self.numbers, place))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, event: SupportsIndex) -> list[Id]: ...

    @overload
    def __getitem__(self, event: slice) -> "Matches": ...

    def __getitem__(self, event: "SupportsIndex | slice") -> "list[Id] | Matches":
        """The sorted ids of an event, counted from the end where it is below 0; or the matches of a slice."""
        if isinstance(event, slice):
            return self._slice(*event.indices(len(self)))
        at = index(event)
        if not -len(self) <= at < len(self):
            raise IndexError(f"there are {len(self):,} events; {at} is none of them")
        at %= len(self)
        return self._table.sorted_ids(self.numbers[self.offsets[at] : self.offsets[at + 1]])

    def _slice(self, start: int, stop: int, step: int) -> "Matches":
        if step == 1:
            offsets = self.offsets[start : max(start, stop) + 1]
            return self._with(offsets - offsets[0], self.numbers[offsets[0] : offsets[-1]])
        return self.take(np.arange(start, stop, step))

    def take(self, events: NDArray[np.int64]) -> "Matches":
        """The matches of some events, by their numbers."""
        first, counts = self.offsets[:-1][events], np.diff(self.offsets)[events]
        offsets = offsets_of(counts)
        places = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], counts)
        return self._with(offsets, self.numbers[places])

    def _with(self, offsets: NDArray[np.int64], numbers: NDArray[np.int32]) -> "Matches":
        """What other events of the same matcher matched."""
        return Matches(offsets, numbers, self._table, integers=self._integers)

    def __iter__(self) -> Iterator[list[Id]]:
        return (self[event] for event in range(len(self)))

    def __repr__(self) -> str:
        return f"<Matches of {len(self):,} events: {len(self.numbers):,} ids>"

    def _repr_html_(self) -> str:
        told = f"{len(self):,} events, {int(np.count_nonzero(np.diff(self.offsets))):,} of them matched; "
        told += f"{len(self.numbers):,} ids"
        rows = ((str(at), _few(self[at])) for at in range(min(len(self), html.ROWS)))
        return html.paragraph(told) + html.table(("event", "ids"), rows, len(self))


def _few(ids: list[Id]) -> str:
    shown = ", ".join(map(str, ids[:_IDS_SHOWN]))
    return shown if len(ids) <= _IDS_SHOWN else f"{shown}, … ({len(ids):,})"
