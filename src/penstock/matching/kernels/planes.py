"""Fetching what events will find in planes, before it is needed.

Planes are the largest of the places, and cells that events look into lie anywhere: see `places`.
"""

import numpy as np

from penstock.matching.kernels.jit import leaf
from penstock.matching.kernels.places import BUCKET, GRID, OTHER, OTHER_BUCKET, PLANE_WIDTH
from penstock.matching.kernels.search import Array

AHEAD = 16
"""For so many events what they find in planes is fetched at once, where it is too much for caches."""


@leaf
def fetch_planes(
    first_event: int,
    event_start: Array,
    event_count: Array,
    entries: Array,
    value_attribute: Array,
    slot_of: Array,
    codes: Array,
    slot_planes: Array,
    plane_record: Array,
    buckets: Array,
    grid: Array,
    occupied: Array,
    members: Array,
    code: Array,
    cells: Array,
) -> int:
    """Touch what the next few events will find in planes, so that they need not wait for it one by one.

    Returns a number that means nothing. `code` is all zero before and after.
    """
    touched = np.int64(0)
    found = 0
    for event in range(first_event, min(first_event + AHEAD, len(event_start))):
        first = event_start[event]
        last = first + event_count[event]
        for e in range(first, last):
            if codes[entries[e]] > 0:
                code[slot_of[value_attribute[entries[e]]]] = codes[entries[e]]
        for e in range(first, last):
            c = codes[entries[e]]
            if c <= 0:
                continue
            slot = slot_of[value_attribute[entries[e]]]
            for plane in range(slot_planes[slot], slot_planes[slot + 1]):
                other = plane_record[plane, OTHER]
                bucket = np.int64(buckets[plane_record[plane, BUCKET] + c])
                if other >= 0:
                    if code[other] == 0:
                        continue
                    bucket = (
                        bucket * plane_record[plane, PLANE_WIDTH]
                        + buckets[plane_record[plane, OTHER_BUCKET] + code[other]]
                    )
                cell = plane_record[plane, GRID] + bucket
                if found + 1 >= len(cells):
                    break
                # Written in any case, and written over: no branch to guess.
                cells[found] = cell
                found += np.int64((occupied[cell >> 6] >> np.uint64(cell & 63)) & np.uint64(1))
        for e in range(first, last):
            if codes[entries[e]] > 0:
                code[slot_of[value_attribute[entries[e]]]] = 0
    for i in range(found):
        touched += grid[cells[i]]
    for i in range(found):
        touched += np.int64(members[grid[cells[i]], 0])
    return touched
