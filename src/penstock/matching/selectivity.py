"""The selectivity table: Carzaniga and Wolf, "Fast Forwarding for Content-Based Networking" (2002), §4.3.

A name is a determinant of an interface if every filter of the interface constrains it: a message without
the name cannot go out there. The table maps names to the interfaces that they determine, the most selective
names first. Before counting, some rounds over its first rows exclude the interfaces of names that the
message lacks; excluded and matched interfaces are one set. Without rounds this is the counting algorithm.

What differs: rows become bit sets when a number of rounds first asks for them. A table of a thousand names
and a million interfaces would fill 125 MB, of which ten rounds read one hundredth.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.matching.counting import NO_ROWS, Batch, CountingTable, SelectivityRows, batch_of_events
from penstock.matching.paper_table import NUMBER_OPERATORS, ForwardingTable, nbytes
from penstock.model.events import Event

ROUNDS: Final = 10
"""What the paper used in all its experiments but one."""


class SelectivityTable:
    """A counting table with its selectivity table; `rounds` is the default number of rounds."""

    def __init__(self, counting: CountingTable, rounds: int = ROUNDS) -> None:
        self.counting = counting
        self.rounds = rounds
        attributes, bounds, interfaces = determinants(counting.table)
        self._attributes = attributes
        self._bounds = bounds
        self._interfaces = interfaces
        self._rows = NO_ROWS

    def __len__(self) -> int:
        """How many names determine an interface."""
        return len(self._attributes)

    def rows(self) -> list[tuple[str, list[int]]]:
        """Each row: a name, and the interfaces that it determines."""
        names = self.counting.attribute_names()
        ids = self.counting.table.interface_ids
        ends = zip(self._attributes.tolist(), self._bounds[:-1], self._bounds[1:], strict=True)
        return [
            (names[attribute], ids[self._interfaces[begin:end]].tolist()) for attribute, begin, end in ends
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of both tables."""
        own = (self._attributes, self._bounds, self._interfaces, self._rows)
        return self.counting.nbytes + nbytes(own)

    def forward(self, event: Event | Mapping[str, object], rounds: int | None = None) -> list[int]:
        """The interfaces, sorted, on which the event goes out."""
        _offsets, interfaces = self.forward_many(batch_of_events([event]), rounds)
        return sorted(interfaces.tolist())

    def forward_many(
        self, batch: Batch, rounds: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The interfaces of each message, as `CountingTable.forward_many` gives them."""
        if rounds is None:
            rounds = self.rounds
        self.prepare(rounds)
        return self.counting.run(batch, self._rows, rounds)

    def prepare(self, rounds: int) -> None:
        """Make the bit sets of so many rows, if they have not been made."""
        known, wanted = len(self._rows.names), min(rounds, len(self))
        if wanted <= known:
            return
        width = (len(self.counting.table.interface_ids) + 63) // 64
        made = [
            _bit_set(self._interfaces[self._bounds[row] : self._bounds[row + 1]], width)
            for row in range(known, wanted)
        ]
        self._rows = SelectivityRows(
            names=self._attributes[:wanted].copy(),
            rows=np.concatenate([self._rows.rows, *made]),
        )


def determinants(table: ForwardingTable) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """The selectivity table as names, the bounds of their rows, and rows of interfaces.

    A name that no interface needs has no row; rows of one length are in the order of the names.
    """
    names = np.int64(max(len(table.strings.bounds) - 1, 1))
    pairs = np.sort(table.filters * names + np.repeat(_attribute_of_constraint(table), np.diff(table.links)))
    pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]  # a filter counts once for each of its names
    wanted, filters = np.unique(table.interface[pairs // names] * names + pairs % names, return_counts=True)
    interface, attribute = wanted // names, wanted % names
    determined = filters == np.bincount(table.interface, minlength=1)[interface]
    interface, attribute = interface[determined], attribute[determined]

    cardinality = np.bincount(attribute, minlength=int(names))
    by_selectivity = np.argsort(-cardinality, kind="stable")[: np.count_nonzero(cardinality)]
    row_of = np.empty(int(names), dtype=np.int64)
    row_of[by_selectivity] = np.arange(len(by_selectivity))
    order = np.argsort(row_of[attribute], kind="stable")
    bounds = np.append(0, np.cumsum(cardinality[by_selectivity])).astype(np.int64)
    return by_selectivity.astype(np.int32), bounds, interface[order].astype(np.int32)


def _attribute_of_constraint(table: ForwardingTable) -> NDArray[np.int64]:
    """The attribute of each constraint, by the bounds of the two indexes, which number them all."""
    bounds = (table.numbers.bounds[::NUMBER_OPERATORS], table.strings.bounds)
    return np.concatenate([np.repeat(np.arange(len(ends) - 1), np.diff(ends)) for ends in bounds])


def _bit_set(members: NDArray[np.int32], width: int) -> NDArray[np.uint64]:
    flags = np.zeros(width * 64, dtype=np.bool_)
    flags[members] = True
    return np.packbits(flags, bitorder="little").view(np.uint64)
