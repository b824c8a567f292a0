"""Numbering anew what filters no longer name: ids and attributes.

Kernels know both by numbers, which are handed out in turn. Where most have gone, those that are left are
numbered again. All that depends on numbers is made anew; a reader keeps what it has, in its snapshot.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.matching.computed import with_attributes
from penstock.matching.homes import NOWHERE, Homes
from penstock.matching.ids import IdTable
from penstock.matching.parts import Part
from penstock.matching.sampling import Sample


class Ids(NamedTuple):
    """Ids that are numbered anew, and what depends on their numbers."""

    ids: IdTable
    homes: Homes
    parts: tuple[Part, ...]


class Names(NamedTuple):
    """Attributes that are numbered anew, and what depends on their numbers."""

    names: dict[str, int]
    sample: Sample
    parts: tuple[Part, ...]


def renumbered_ids(ids: IdTable, homes: Homes, parts: Sequence[Part]) -> Ids:
    """Leave out ids that have no filters."""
    live = np.flatnonzero(homes.places != NOWHERE)
    fewer = IdTable()
    fewer.intern([ids.get(number) for number in live.tolist()])
    new_number = np.full(len(homes.places), -1, np.int32)
    new_number[live] = np.arange(len(live), dtype=np.int32)
    made = []
    for part in parts:
        numbers = new_number[part.ids]
        # The dead may belong to ids that are gone; no match asks for theirs.
        numbers[numbers < 0] = 0
        made.append(part.with_table(part.table.with_ids(numbers)))
    return Ids(fewer, Homes(homes.places[live]), tuple(made))


def renumbered_names(names: dict[str, int], sample: Sample, parts: Sequence[Part]) -> Names:
    """Leave out attributes that the tables have no slot for."""
    used = with_attributes(name for part in parts for name in part.table.names)
    kept = [name for name in names if name in used]
    number_of = np.full(len(names), -1, np.int32)
    number_of[[names[name] for name in kept]] = np.arange(len(kept), dtype=np.int32)
    return Names(
        {name: number for number, name in enumerate(kept)},
        sample.renumbered(number_of),
        tuple(part.with_table(part.table) for part in parts),
    )
