"""Homes: where the filters of each id stand.

Most ids have one filter. Where that stands is kept for each of them, so that removing an id is no search;
the filters of an id that has several are looked for.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

NOWHERE: Final = -1
SEVERAL: Final = -2
BUFFERED: Final = -3
"""Homes of an id that has no filter, more than one, or (this and below) one in the buffer."""


class Homes:
    """For each id, by its number, the position of its only filter, in whichever part has it there; or a
    constant above."""

    def __init__(self, places: NDArray[np.int32] | None = None) -> None:
        self.places: NDArray[np.int32] = np.full(64, NOWHERE, np.int32)
        self.live = 0
        """How many ids have filters."""
        if places is not None:
            self.have_room(len(places))
            self.places[: len(places)] = places
            self.live = int((places != NOWHERE).sum())

    def have_room(self, ids: int) -> None:
        """Have a place for so many ids."""
        if ids > len(self.places):
            grown = np.full(ids + ids // 4 + 64, NOWHERE, np.int32)
            grown[: len(self.places)] = self.places
            self.places = grown

    def buffer(self, numbers: Iterable[int], first: int) -> tuple[bool, NDArray[np.int64]]:
        """Note that filters of ids come into the buffer, from some place on; whether one of the ids has
        others, and which had none."""
        places, others = self.places, False
        fresh = []
        for at, number in enumerate(numbers, first):
            if places[number] == NOWHERE:
                fresh.append(number)
                places[number] = BUFFERED - at
            else:
                places[number] = SEVERAL
                others = True
        self.live += len(fresh)
        return others, np.array(fresh, np.int64)

    def register(self, numbers: NDArray[np.int32], ids: int) -> tuple[bool, NDArray[np.signedinteger]]:
        """Note that filters come, past the buffer, of some of so many ids; as `buffer` says."""
        self.have_room(ids)
        if len(numbers) * 16 < ids:
            known, counts = np.unique(numbers, return_counts=True)
        else:
            counts = np.bincount(numbers)
            known = np.flatnonzero(counts).astype(np.int32)
            counts = counts[known]
        fresh = self.places[known] == NOWHERE
        self.live += int(fresh.sum())
        # Until they are settled, "in the buffer" stands for the new home of an only filter.
        self.places[known] = np.where(fresh & (counts == 1), BUFFERED, SEVERAL)
        return not fresh.all(), known[fresh]

    def settle(self, numbers: NDArray[np.int32], positions: NDArray[np.signedinteger]) -> bool:
        """Give ids whose only filter is now at a position their home there; whether all have no other."""
        single = self.places[numbers] != SEVERAL
        self.places[numbers[single]] = positions[single]
        return bool(single.all())

    def forget(self, numbers: NDArray[np.signedinteger]) -> None:
        """Note that nothing is left of what ids had, each of them something."""
        self.places[numbers] = NOWHERE
        self.live -= len(numbers)
