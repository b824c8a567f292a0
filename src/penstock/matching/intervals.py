"""Of many intervals, the nearest that hold others: a chain of thresholds is linked without trying pairs."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.matching.kernels.intervals import nearest_intervals

_ROOM: Final = 2
"""How many times as many intervals as are asked about fit in at first."""


def nearest_holding(
    known: NDArray[np.float64], asked: NDArray[np.float64], own: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each interval asked about, those known ones that hold it and hold no other that does.

    Intervals are columns of two ends, as in `penstock.routing.shape`: the low one, and the negative of the
    high one. No two of the known ones are equal. `own` is the place of what is asked about among the known
    ones, which do not hold themselves, or -1. Returns offsets, and places among the known ones.

    The cost: a logarithm of how many there are, for each known, each asked about and each found.
    """
    count, questions = known.shape[1], asked.shape[1]
    # By the low end, then from the widest to the narrowest: what holds another comes before it.
    order = np.lexsort((known[1], known[0]))
    levels, level = np.unique(known[1][order], return_inverse=True)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    upto = np.searchsorted(known[0][order], asked[0], side="right").astype(np.int64)
    is_known = own >= 0
    upto[is_known] = place[own[is_known]]
    below = np.searchsorted(levels, asked[1], side="right").astype(np.int64)
    turn = np.argsort(upto, kind="stable")
    leaves = 1 << max(1, len(levels)).bit_length()
    tree = np.full(2 * leaves, -1, np.int64)
    offsets = np.zeros(questions + 1, np.int64)
    found = np.empty(_ROOM * questions + 1, np.int64)
    done = inserted = 0
    while True:
        done, inserted = nearest_intervals(
            level.astype(np.int64), upto[turn], below[turn], tree, done, inserted, offsets, found
        )
        if done == questions:
            break
        found = np.concatenate((found, np.empty_like(found)))
    return _in_order(turn, offsets, order[found[: offsets[-1]]])


def _in_order(
    turn: NDArray[np.int64], offsets: NDArray[np.int64], found: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What was found in the order of the turns, in the order of the questions."""
    lengths = np.empty(len(turn), np.int64)
    lengths[turn] = np.diff(offsets)
    made = np.zeros(len(turn) + 1, np.int64)
    np.cumsum(lengths, out=made[1:])
    first = np.empty(len(turn), np.int64)
    first[turn] = offsets[:-1]
    return made, found[np.repeat(first - made[:-1], lengths) + np.arange(len(found))]
