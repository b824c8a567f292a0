"""Saying why: which filters matched, and how they were found."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from penstock.filters import html
from penstock.filters.disagreements import lines_of
from penstock.filters.filter import Filter, box
from penstock.matching.batch import Batch
from penstock.matching.computed import is_held_apart
from penstock.matching.kernels.places import FIRST, GRID, OTHER, SIZE
from penstock.matching.table import Table
from penstock.model.names import Id, id_order

if TYPE_CHECKING:
    from penstock.filters.disagreements import Disagreement
    from penstock.matching.store import Snapshot


class Explanation(msgspec.Struct, frozen=True):
    """A filter that matched."""

    id: Id
    filter: Filter
    """The whole filter; of a disjunction, the one that matched."""
    found_by: Filter
    """Those of its conditions by which it was found; the others were tested then. None: it is tried on
    every event."""

    def __str__(self) -> str:
        how = f"found by {self.found_by}" if self.found_by.conditions else "tried on every event"
        return f"{self.id}: {self.filter} ({how})"

    def _repr_html_(self) -> str:
        return Explanations([self])._repr_html_()


class Explanations(list[Explanation]):
    """All filters that matched an event; printed, with what filters and events disagree about."""

    def __init__(
        self,
        found: Iterable[Explanation] = (),
        look: "Callable[[], Iterable[Disagreement]]" = tuple,
    ) -> None:
        """`look`: what filters and events disagree about, which takes longer: asked for when it is shown."""
        super().__init__(found)
        self._look = look

    @cached_property
    def disagreements(self) -> "list[Disagreement]":
        """What filters and the events seen by then disagree about: `Matcher.disagreements`."""
        return list(self._look())

    def __str__(self) -> str:
        return "\n".join([*map(str, self), *lines_of(self.disagreements)])

    def _repr_html_(self) -> str:
        rows = ((str(one.id), one.filter, one.found_by if one.found_by.conditions else "") for one in self)
        told = "".join(map(html.paragraph, lines_of(self.disagreements)))
        return html.table(("id", "matched", "found by"), rows, len(self)) + told


def explanations(snapshot: "Snapshot", names: dict[str, int], batch: Batch) -> Explanations:
    """All filters that match the one event of the batch."""
    made = []
    for part in snapshot.parts:
        found = part.match(batch, names, snapshot.ids.count, filters=True)
        positions = found.numbers.astype(np.int64)
        for position, f in zip(positions.tolist(), part.filters_at(positions, names), strict=True):
            number = int(part.ids[position])
            made.append(Explanation(snapshot.ids.get(number), f, part.found_by(position, f, names)))
    return Explanations(sorted(made, key=lambda one: (id_order(one.id), one.filter.sort_key())))


def found_by(table: Table, position: int, f: Filter) -> Filter:
    """The conditions of a filter that its place is about."""
    if is_held_apart(f):
        return f
    names = {table.names[slot] for slot in access_slots(table, position)}
    return box({name: states for name, states in f.conditions.items() if name in names})


def access_slots(table: Table, position: int) -> Sequence[int]:
    """The slots by which a filter is found."""
    places, lists = table.places, table.lists
    if position < places.always[2]:
        return ()
    absent = int(np.searchsorted(places.absent_first, position, side="right")) - 1
    if absent >= 0 and position < places.absent_last[absent]:
        return (int(places.absent_slot[absent]),)
    first = lists.record[:, FIRST]
    at = int(np.searchsorted(first, position, side="right")) - 1
    if at >= 0 and position < first[at] + lists.record[at, SIZE]:
        return (int(np.searchsorted(lists.slot_last, at, side="right")),)
    if places.pattern_first[0] <= position < places.pattern_first[-1]:
        pattern = int(np.searchsorted(places.pattern_first, position, side="right")) - 1
        return (int(table.patterns.slot[pattern]),)
    at = (places.members[:-1, 1] >> np.uint64(32)) & np.uint64(0x7FFFFFFF)
    cell = np.flatnonzero(at == position)[0]
    cell = int(np.searchsorted(places.grid, cell, side="right")) - 1
    starts = places.plane_record[:, GRID]
    plane = max((int(start), at) for at, start in enumerate(starts) if start <= cell)[1]
    slot = int(np.searchsorted(places.slot_planes, plane, side="right")) - 1
    other = int(places.plane_record[plane, OTHER])
    return (slot,) if other < 0 else (slot, other)
