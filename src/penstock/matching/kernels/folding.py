"""Kernels that fold case, with the table of `penstock.filters.folding`."""

import numpy as np

from penstock.filters.folding import RUNS
from penstock.matching.kernels.jit import inlined, leaf
from penstock.matching.kernels.search import Array, count_to

_FIRST, _LAST, _STEP, _ADDED = (np.array(column, np.int32) for column in zip(*RUNS, strict=True))


@inlined
def _folded(code: int) -> int:
    if code < 0x80:
        return code + 32 if code >= 65 and code <= 90 else code
    run = count_to(_FIRST, 0, len(_FIRST), code) - 1
    if code <= _LAST[run] and (code - _FIRST[run]) % _STEP[run] == 0:
        return code + _ADDED[run]  # type: ignore[no-any-return]
    return code


@leaf
def fold_points(text: Array, size: int) -> None:
    """Fold code points where they stand."""
    for at in range(size):
        text[at] = _folded(text[at])


@leaf
def fold_bytes(arena: Array, start: int, length: int, folded: Array) -> int:
    """Fold valid UTF-8 into `folded`; returns the number of bytes, at most one and a half times as many."""
    n = 0
    at = start
    end = start + length
    while at < end:
        b = np.int32(arena[at])
        if b < 0x80:
            folded[n] = _folded(b)
            at += 1
            n += 1
            continue
        if b < 0xE0:
            code = ((b & 0x1F) << 6) | (np.int32(arena[at + 1]) & 0x3F)
            at += 2
        elif b < 0xF0:
            code = (
                ((b & 0x0F) << 12)
                | ((np.int32(arena[at + 1]) & 0x3F) << 6)
                | (np.int32(arena[at + 2]) & 0x3F)
            )
            at += 3
        else:
            code = (
                ((b & 0x07) << 18)
                | ((np.int32(arena[at + 1]) & 0x3F) << 12)
                | ((np.int32(arena[at + 2]) & 0x3F) << 6)
                | (np.int32(arena[at + 3]) & 0x3F)
            )
            at += 4
        code = _folded(code)
        # The Kelvin sign folds to a k.
        if code < 0x80:
            folded[n] = code
            n += 1
        elif code < 0x800:
            folded[n] = 0xC0 | (code >> 6)
            folded[n + 1] = 0x80 | (code & 0x3F)
            n += 2
        elif code < 0x10000:
            folded[n] = 0xE0 | (code >> 12)
            folded[n + 1] = 0x80 | ((code >> 6) & 0x3F)
            folded[n + 2] = 0x80 | (code & 0x3F)
            n += 3
        else:
            folded[n] = 0xF0 | (code >> 18)
            folded[n + 1] = 0x80 | ((code >> 12) & 0x3F)
            folded[n + 2] = 0x80 | ((code >> 6) & 0x3F)
            folded[n + 3] = 0x80 | (code & 0x3F)
            n += 4
    return n
