"""A delta as readers see it: what was there when they came, matched with the kernel of deltas."""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from penstock.filters.filter import Filter, box
from penstock.matching.batch import Batch
from penstock.matching.columns import offsets_of
from penstock.matching.compile import compile_table
from penstock.matching.computed import is_held_apart
from penstock.matching.deaths import alive_of
from penstock.matching.kernels.delta import Paths, match_delta
from penstock.matching.kernels.delta_nodes import ENTRY_FILTER, ENTRY_PLACE, attribute_of_grid
from penstock.matching.kernels.results import append
from penstock.matching.parts import Found, Part
from penstock.matching.reading import Conditions

if TYPE_CHECKING:
    from penstock.matching.delta import Delta

LONG: Final = 256
"""Strings longer than this are matched with compiled tables only: their automaton reads a string once,
where here each pattern that may match reads it again."""

_NONE: NDArray[np.int64] = np.empty(0, np.int64)
_local = threading.local()


class _Workspace:
    """The arrays that one thread matches one delta with."""

    def __init__(self) -> None:
        self.at = np.zeros(0, np.int32)
        self.candidates = np.zeros(0, np.int64)
        self.seen = np.zeros(0, np.int64)
        self.stamp = np.zeros(0, np.int64)
        self.epoch = 0

    def fit(self, attributes: int, filters: int, ids: int) -> None:
        """Have a place for each."""
        if len(self.at) < attributes:
            self.at = np.zeros(attributes, np.int32)
        if len(self.seen) < filters:
            # While grams are looked for, a filter may be among the candidates twice.
            self.candidates = np.zeros(4 * filters + 64, np.int64)
            self.seen = np.zeros(2 * filters + 32, np.int64)
        if len(self.stamp) < ids:
            self.stamp = np.zeros(ids + ids // 4 + 16, np.int64)


class View:
    """A delta as it was at some time: what was added later is not there."""

    def __init__(self, delta: "Delta") -> None:
        self._delta = delta
        self.size = delta.size
        self.ids = delta.ids
        self.has_patterns = bool(delta._pattern_numbers)
        self.filters_at = delta.filters_at
        self.dead = delta.dead
        self._gone = delta.gone
        self._distinct = delta.distinct
        self._raw = delta._raw()
        self._attribute = delta._attribute.view()
        self._paths = Paths(delta._levels, delta._flags)
        self._always = delta._always.view()
        self._older, self._newer = delta._older, delta._newer
        self._compiled: tuple[Part, NDArray[np.int64]] | None = None

    @property
    def live(self) -> int:
        """How many filters are not removed."""
        return self.size - self.dead

    def alive(self) -> NDArray[np.bool_]:
        """Which filters are alive."""
        return alive_of(self._gone, self.size)

    def conditions(self, names: dict[str, int]) -> Iterator[Conditions]:
        """The conditions of the living filters."""
        offsets = self._raw.offsets
        positions = np.flatnonzero(self.alive())
        counts = offsets[positions + 1] - offsets[positions]
        ends = offsets_of(counts)
        at = np.repeat(offsets[positions] - ends[:-1], counts) + np.arange(ends[-1])
        yield Conditions(positions, ends, self._attribute[at], self._raw.kind[at])

    @property
    def constraints(self) -> int:
        """How many conditions the living filters have in all."""
        counts = np.diff(self._raw.offsets[: self.size + 1])
        return int(counts[self.alive()].sum())

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._delta.nbytes

    def found_by(self, position: int, f: Filter, names: dict[str, int]) -> Filter:
        """The conditions of a filter by which events find it."""
        if is_held_apart(f):
            return f
        numbers: set[int] = set()
        # Not the delta's own entries: those of filters that have been removed since are gone.
        for run in (self._older, self._newer):
            found = run.entries[filters_of_entries(run.entries) == position, ENTRY_PLACE]
            numbers.update(map(attribute_of_grid, found.tolist()))
        return box({name: states for name, states in f.conditions.items() if names[name] in numbers})

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
        """The ids of the filters that match each event; see `Part.match`."""
        workspaces: WeakKeyDictionary[Delta, _Workspace] | None = getattr(_local, "workspaces", None)
        if workspaces is None:
            workspaces = _local.workspaces = WeakKeyDictionary()
        space = workspaces.get(self._delta)
        if space is None:
            space = workspaces[self._delta] = _Workspace()
        if self.has_patterns and batch.value_length.max(initial=0) > LONG:
            found = self._match_compiled(batch, names, ids, filters=filters, visits=visits)
            return found if more is None else Found(*append(*found, *more))
        distinct = self._distinct or filters
        space.fit(len(self._paths.flags), self.size, 0 if distinct else ids)
        offsets, numbers, space.epoch, slow, _ = match_delta(
            batch,
            self._raw,
            self._paths,
            self._always,
            self._older,
            self._newer,
            distinct,
            filters,
            self._gone,
            space.at,
            space.candidates,
            space.seen,
            space.stamp,
            space.epoch,
            visits,
        )
        # Some filters are slow here, and quick in a table: they should be there soon.
        self._delta.idle += len(batch.start) + slow
        return Found(offsets, numbers) if more is None else Found(*append(offsets, numbers, *more))

    def _match_compiled(
        self,
        batch: Batch,
        names: dict[str, int],
        ids: int,
        *,
        filters: bool,
        visits: NDArray[np.int64],
    ) -> Found:
        """The same by way of a compiled table, for long strings; the delta itself is compiled soon, too."""
        self._delta.long_strings = True
        if self._compiled is None:
            kept = np.flatnonzero(self.alive())
            table, order = compile_table(self._delta.columns_at(kept, names))
            self._compiled = Part(table), kept[order]
        part, order = self._compiled
        seen = np.zeros(part.size if len(visits) else 0, np.int64)
        found = part.match(batch, names, ids, filters=filters, visits=seen)
        if len(visits):
            visits[order] += seen
        return Found(found.offsets, order[found.numbers].astype(np.int32)) if filters else found


def filters_of_entries(entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """The filter of each entry."""
    return (entries[:, ENTRY_FILTER] & 0xFFFFFFFF) >> 1
