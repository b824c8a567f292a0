"""A part of a matcher: a compiled table, and which of its filters have been removed since."""

import threading
from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from penstock.filters.filter import Filter
from penstock.matching.batch import Batch
from penstock.matching.columns import Columns
from penstock.matching.deaths import Deaths
from penstock.matching.explain import found_by
from penstock.matching.kernels.jit import direct
from penstock.matching.kernels.match import Scratch, match
from penstock.matching.kernels.resolve import resolve
from penstock.matching.reading import (
    Conditions,
    columns_like,
    columns_of,
    conditions_at,
    conditions_of,
    filters_at,
)
from penstock.matching.table import Table

_NONE: NDArray[np.int64] = np.empty(0, np.int64)
_local = threading.local()


class _Workspace:
    """The arrays that one thread matches one part with."""

    def __init__(self, table: Table) -> None:
        slots = len(table.names) + 1
        self.seen = np.zeros(len(table.automaton.fail), np.int64)
        self.epoch = 0
        self.match_epoch = 0
        self.scratch = Scratch(
            code=np.zeros(slots, np.int32),
            present=np.zeros(slots, np.int32),
            bits=np.zeros(len(table.patterns.slot), np.uint8),
            stamp=np.zeros(0, np.int64),
        )

    def stamps(self, count: int) -> None:
        """Have a place for each id."""
        if len(self.scratch.stamp) < count:
            self.scratch = self.scratch._replace(stamp=np.zeros(count + count // 4 + 16, np.int64))
            self.match_epoch = 0


class Found(NamedTuple):
    """Offsets and ids, or filters, found by a part."""

    offsets: NDArray[np.int64]
    numbers: NDArray[np.int32]


_NOTHING = Found(_NONE, np.empty(0, np.int32))


class _Shared:
    """What a part and its views share: things that are made once from the table."""

    def __init__(self) -> None:
        self.by_id: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None
        self.slot_of: NDArray[np.int32] = np.empty(0, np.int32)


class Part(Deaths):
    """A table and its deaths."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table
        self._shared = _Shared()
        self._view: Part | None = None

    @property
    def size(self) -> int:
        """How many filters there are, dead or alive."""
        return self.table.size

    @property
    def ids(self) -> NDArray[np.int32]:
        """For each filter, the number of its id."""
        found: NDArray[np.int32] = self.table.filters.ids
        return found

    @property
    def constraints(self) -> int:
        """How many conditions the living filters have in all."""
        if not self.dead:
            return self.table.constraints
        return self.table.constraints - conditions_at(self.table, np.flatnonzero(~self.alive()))

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self.table.nbytes + self.gone.nbytes

    def view(self) -> "Part":
        """The part as it is now; what is removed later is there still."""
        if self._view is None or self._view.gone is not self.gone:
            self._view = Part(self.table)
            self._view.gone, self._view.dead, self._view._shared = self.gone, self.dead, self._shared
        return self._view

    def with_table(self, table: Table) -> "Part":
        """The same filters under other numbers; nothing that depends on those is shared."""
        made = Part(table)
        made.gone, made.dead = self.gone, self.dead
        return made

    def columns(self, keep: NDArray[np.bool_], names: dict[str, int]) -> Columns:
        """The filters that are to be kept, as columns."""
        return columns_of(self.table, keep, names)

    def conditions(self, names: dict[str, int]) -> Iterator[Conditions]:
        """The conditions of the living filters, some thousand filters at a time."""
        return self.conditions_at(np.flatnonzero(self.alive()), names)

    def conditions_at(self, positions: NDArray[np.int64], names: dict[str, int]) -> Iterator[Conditions]:
        """The conditions of some filters."""
        number_of = np.array([names[name] for name in self.table.names] or [0], np.int32)
        for some, offsets, slot, kind in conditions_of(self.table, positions):
            yield Conditions(some, offsets, number_of[slot], kind)

    def filters_at(self, positions: NDArray[np.int64], names: dict[str, int]) -> list[Filter]:
        """Some of the filters."""
        return filters_at(self.table, positions)

    def columns_like(self, positions: NDArray[np.int64], names: dict[str, int], wanted: Columns) -> Columns:
        """Some filters with the numbers of other columns; see `signatures`."""
        return columns_like(self.table, positions, wanted)

    def found_by(self, position: int, f: Filter, names: dict[str, int]) -> Filter:
        """The conditions of a filter by which events find it."""
        return found_by(self.table, position, f)

    def positions_of(self, number: int) -> NDArray[np.int64]:
        """Where the living filters of an id stand."""
        if self._shared.by_id is None:
            order = np.argsort(self.ids, kind="stable")
            self._shared.by_id = order, self.ids[order]
        order, ids = self._shared.by_id
        first, last = np.searchsorted(ids, [number, number + 1])
        found = order[first:last]
        return found[self.are_alive(found)]

    def slot_of(self, names: dict[str, int]) -> NDArray[np.int32]:
        """For each attribute of the matcher its slot here, or -1."""
        known = self._shared.slot_of
        if len(known) <= len(names):
            made = np.full(len(names) + 64, -1, np.int32)
            for slot, name in enumerate(self.table.names):
                made[names[name]] = slot
            self._shared.slot_of = known = made
        return known

    def match(
        self,
        batch: Batch,
        names: dict[str, int],
        ids: int,
        *,
        filters: bool = False,
        visits: NDArray[np.int64] = _NONE,
        more: Found | None = None,
    ) -> Found:
        """The ids of the filters that match each event; or, with `filters`, the filters themselves.

        `more`: ids that were found elsewhere, to come after them; none of them may be found here.
        """
        table = self.table
        workspaces: WeakKeyDictionary[_Shared, _Workspace] | None = getattr(_local, "workspaces", None)
        if workspaces is None:
            workspaces = _local.workspaces = WeakKeyDictionary()
        space = workspaces.get(self._shared)
        if space is None:
            space = workspaces[self._shared] = _Workspace(table)
        distinct = table.distinct or filters
        if not distinct:
            space.stamps(ids)
        slot_of = self.slot_of(names)
        is_one = len(batch.start) == 1
        codes, pattern_offsets, pattern_numbers, space.epoch = (direct(resolve) if is_one else resolve)(
            batch, slot_of, table.cells, table.automaton, table.patterns, space.seen, space.epoch
        )
        if filters:
            table = table.with_ids(np.arange(table.size, dtype=np.int32))
        offsets, numbers, space.match_epoch, _ = (direct(match) if is_one else match)(
            batch,
            slot_of,
            codes,
            pattern_offsets,
            pattern_numbers,
            table.filters,
            table.lists,
            table.places,
            distinct,
            table.size if filters else table.distinct_ids,
            self.gone,
            space.scratch,
            space.match_epoch,
            visits,
            *(more or _NOTHING),
        )
        return Found(offsets, numbers)
