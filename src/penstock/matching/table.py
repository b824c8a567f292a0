"""The compiled table: filters as arrays that kernels match with, and how to read them back."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.matching.kernels.patterns import Automaton, Patterns
from penstock.matching.kernels.places import Filters, Lists, Places
from penstock.matching.kernels.resolve import Cells


class Table(NamedTuple):
    """A compiled set of filters. Nothing in it ever changes."""

    names: list[str]
    """The attribute of each slot."""
    cells: Cells
    automaton: Automaton
    patterns: Patterns
    needles: tuple[NDArray[np.uint8], NDArray[np.int64]]
    """The bytes of the needles, and where each starts; to read patterns back."""
    filters: Filters
    lists: Lists
    places: Places
    constraints: int
    """How many conditions the filters have in all."""
    distinct: bool
    """Whether no id has two filters."""
    distinct_ids: int
    """How many ids have filters."""

    @property
    def size(self) -> int:
        """How many filters there are."""
        return len(self.filters.ids)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def with_ids(self, ids: NDArray[np.int32]) -> "Table":
        """The same filters under other ids."""
        record = self.filters.record.copy()
        record[:-1, 1] = (record[:-1, 1] & ~np.uint64(0xFFFFFFFF)) | ids.astype(np.uint64)
        members = self.places.members.copy()
        position = (members[:-1, 1] >> np.uint64(32)) & np.uint64(0x7FFFFFFF)
        members[:-1, 1] = (members[:-1, 1] & ~np.uint64(0xFFFFFFFF)) | ids[position].astype(np.uint64)
        return self._replace(
            filters=self.filters._replace(ids=ids, record=record),
            places=self.places._replace(members=members),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name: `cells.number_high` and so on."""
        found: dict[str, NDArray[Any]] = {}
        for part in ("cells", "automaton", "patterns", "filters", "lists", "places"):
            group = getattr(self, part)
            for field in group._fields:
                found[f"{part}.{field}"] = getattr(group, field)
        found["needles.bytes"], found["needles.offsets"] = self.needles
        return found


def from_arrays(
    names: list[str], arrays: dict[str, NDArray[Any]], constraints: int, distinct: bool, distinct_ids: int
) -> Table:
    """The table of arrays as `Table.arrays` gives them."""

    def part(kind: Any, name: str) -> Any:
        return kind(*(arrays[f"{name}.{field}"] for field in kind._fields))

    return Table(
        names=names,
        cells=part(Cells, "cells"),
        automaton=part(Automaton, "automaton"),
        patterns=part(Patterns, "patterns"),
        needles=(arrays["needles.bytes"], arrays["needles.offsets"]),
        filters=part(Filters, "filters"),
        lists=part(Lists, "lists"),
        places=part(Places, "places"),
        constraints=constraints,
        distinct=distinct,
        distinct_ids=distinct_ids,
    )
