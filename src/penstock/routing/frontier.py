"""Of many boxes the nearest: the smallest of those that cover one, or the largest of those it covers.

Boxes are columns of ends as in `Shape.ends`: one covers another where each of its ends is at most the
other's. A few of the nearest show of most others that they are not on the frontier; the rest is compared
with one another. This is the block-nested-loops way to a skyline.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_FEW: Final = 64
"""So many are compared with one another."""

_NEAREST: Final = 12
"""So many are compared with all others, as long as these are more than a few."""


def innermost(ends: NDArray[np.float64]) -> NDArray[np.intp]:
    """The columns that cover no other column. No two columns are equal."""
    left = np.arange(ends.shape[1])
    if len(left) <= _FEW:
        return left[~_covering_another(ends)]
    score = _nearness(ends)
    kept = []
    while len(left) > _FEW:
        order = np.argpartition(score[left], -_NEAREST)
        near = left[order[-_NEAREST:]]
        kept.append(near)
        left = left[order[:-_NEAREST]]
        left = left[~covering_any(ends[:, left], ends[:, near])]
    found = np.concatenate((*kept, left))
    return found[~_covering_another(ends[:, found])]


def outermost(ends: NDArray[np.float64]) -> NDArray[np.intp]:
    """The columns that no other column covers. No two columns are equal."""
    return innermost(-ends)


def covering_any(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns of `a` cover a column of `b`."""
    hit: NDArray[np.bool_] = np.logical_or.reduce(_covering(a, b), axis=1)
    return hit


def _covering_another(boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns cover another than themselves."""
    covering = _covering(boxes, boxes)
    covering.reshape(-1)[:: boxes.shape[1] + 1] = False
    hit: NDArray[np.bool_] = np.logical_or.reduce(covering, axis=1)
    return hit


def _covering(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    covering = np.ones((a.shape[1], b.shape[1]), bool)
    for mine, theirs in zip(a, b, strict=True):
        np.logical_and(covering, mine[:, None] <= theirs, out=covering)
    return covering


def _nearness(ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """A number that is greater for a box than for most that cover it. It only decides how fast it goes."""
    with np.errstate(all="ignore"):
        score: NDArray[np.float64] = ends.sum(axis=0)
    if not np.isfinite(score).all():
        # Infinite ends drown the others: take ranks.
        score = np.argsort(np.argsort(ends, axis=1), axis=1).sum(axis=0).astype(np.float64)
    return score
