"""Kernels about intervals: of many the nearest that hold others, by one sweep."""

import numpy as np

from penstock.matching.kernels.jit import kernel
from penstock.matching.kernels.search import Array


@kernel
def nearest_intervals(
    level: Array,
    upto: Array,
    below: Array,
    tree: Array,
    first: int,
    inserted: int,
    offsets: Array,
    found: Array,
) -> tuple[int, int]:
    """For each question, from `first` on, the nearest of the intervals that hold it.

    Intervals are numbered by their starts, then from the widest to the narrowest; `level` ranks their ends,
    the furthest first. Question k is about the first `upto[k]` intervals, those whose level is below
    `below[k]`; `upto` never falls. One of them is among the nearest if it holds none of the others: so each
    of these has a lower level than the one before it.

    `tree` is a binary tree over levels, all -1 at first: the greatest number inserted below each node. What
    is found for question k ends at `offsets[k + 1]`. Returns how many questions are answered and how many
    intervals inserted; where `found` has no room for more, it ends early.
    """
    leaves = len(tree) // 2
    for k in range(first, len(upto)):
        while inserted < upto[k]:
            node = leaves + level[inserted]
            while node > 0:
                tree[node] = inserted
                node >>= 1
            inserted += 1
        end = offsets[k]
        lowest = np.int64(0)
        while True:
            greatest = np.int64(-1)
            low = lowest + leaves
            high = below[k] + leaves
            while low < high:
                if low & 1:
                    greatest = max(greatest, tree[low])
                    low += 1
                if high & 1:
                    high -= 1
                    greatest = max(greatest, tree[high])
                low >>= 1
                high >>= 1
            if greatest < 0:
                break
            if end == len(found):
                return k, inserted
            found[end] = greatest
            end += 1
            lowest = level[greatest] + 1
        offsets[k + 1] = end
    return len(upto), inserted
