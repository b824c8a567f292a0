"""The kernel that reads words back into conditions."""

import numpy as np

from penstock.matching.kernels.build_words import slot_end
from penstock.matching.kernels.jit import kernel, outlined
from penstock.matching.kernels.places import Filters
from penstock.matching.kernels.resolve import LISTS, NUMBERS, Cells, strings_start, times_start
from penstock.matching.kernels.search import Array
from penstock.matching.kernels.words import (
    CODE_MASK,
    CODE_SHIFT,
    HALF,
    KIND_SHIFT,
    LOW_HALF,
    PATTERN,
    RANGE,
    REST_MASK,
    SLOT_MASK,
    SLOT_SHIFT,
    TRUE_WORD,
)

_ABSENT, _BOOL, _NUMBER, _TIME, _STRING, _NAN, _EXISTS, _PATTERN_ONLY = range(8)


@outlined
def _without(cells: Cells, slot: int, greater: int, lesser: int) -> Array:
    """The toggles of all values of a family but two, or but one where both are the same."""
    times = times_start(cells.number_offsets, slot)
    strings = strings_start(cells.number_offsets, cells.time_offsets, slot)
    toggles = np.empty(4 if greater == lesser else 6, np.int32)
    toggles[0] = 1 + (NUMBERS if greater < times else times if greater < strings else strings)
    toggles[1] = lesser
    toggles[2] = lesser + 1
    if greater != lesser:
        toggles[3] = greater
        toggles[4] = greater + 1
    toggles[-1] = (
        times
        if greater < times
        else strings
        if greater < strings
        else slot_end(cells.number_offsets, cells.time_offsets, cells.string_offsets, slot)
    )
    return toggles


@kernel
def read_conditions(
    cells: Cells, filters: Filters, pattern_slot: Array, positions: Array
) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
    """The conditions of some filters, as the arrays of `Columns`, with slots for attributes."""
    total = 0
    codes = 0
    record = filters.record
    words = filters.words
    for i in range(len(positions)):
        f = positions[i]
        w = np.int64(record[f, 1] >> HALF)
        last = np.int64(record[f + 1, 1] >> HALF)
        # No condition takes less than a word; no toggle less than half of one, but where values are left out.
        total += last - w + 1
        codes += 2 * (last - w + 1)
        for k in range(w - 1, last):
            word = record[f, 0] if k < w else words[k]
            if word >> KIND_SHIFT == RANGE and (word >> CODE_SHIFT) & CODE_MASK >= word & CODE_MASK:
                codes += 4
    offsets = np.zeros(len(positions) + 1, np.int64)
    slot = np.zeros(total, np.int32)
    kind = np.empty(total, np.uint8)
    cut_offsets = np.zeros(total + 1, np.int64)
    cut_high = np.empty(codes, np.int64)
    cut_low = np.zeros(codes, np.int16)
    pattern_offsets = np.zeros(total + 1, np.int64)
    pattern = np.empty(total, np.int32)
    toggles = np.empty(2, np.int32)
    c = 0
    cut = 0
    patterns = 0
    for i in range(len(positions)):
        f = positions[i]
        w = np.int64(record[f, 1] >> HALF)
        last = np.int64(record[f + 1, 1] >> HALF)
        word = record[f, 0]
        while word != TRUE_WORD:
            what = word >> KIND_SHIFT
            if what >= PATTERN:
                number = np.int32(word & REST_MASK)
                pattern[patterns] = number if what == PATTERN else -1 - number
                patterns += 1
                kind[c] = _PATTERN_ONLY
                slot[c] = pattern_slot[number]
            else:
                if what == RANGE:
                    s = np.int64((word >> SLOT_SHIFT) & SLOT_MASK)
                    low = np.int32((word >> CODE_SHIFT) & CODE_MASK)
                    high = np.int32(word & CODE_MASK)
                    if low < high:
                        toggles = np.empty(2, np.int32)
                        toggles[0] = low
                        toggles[1] = high
                    else:
                        toggles = _without(cells, s, low, high)
                else:
                    s = np.int64((word >> SLOT_SHIFT) & SLOT_MASK)
                    toggles = np.empty(np.int64(word & CODE_MASK), np.int32)
                    for k in range(len(toggles)):
                        toggles[k] = np.int32((words[w + (k >> 1)] >> (HALF * np.uint64(k & 1))) & LOW_HALF)
                    w += (len(toggles) + 1) >> 1
                slot[c] = s
                times = times_start(cells.number_offsets, s)
                strings = strings_start(cells.number_offsets, cells.time_offsets, s)
                first = toggles[0]
                if first == 0:
                    kind[c] = _ABSENT
                elif first == 1:
                    kind[c] = _NAN if toggles[1] == 2 else _EXISTS
                else:
                    if first < NUMBERS:
                        family = _BOOL
                        end = LISTS
                        base = 1
                    elif first < times:
                        family = _NUMBER
                        end = times
                        base = NUMBERS
                    elif first < strings:
                        family = _TIME
                        end = strings
                        base = times
                    else:
                        family = _STRING
                        end = slot_end(cells.number_offsets, cells.time_offsets, cells.string_offsets, s)
                        base = strings
                    kind[c] = family
                    for t in range(len(toggles)):
                        code = toggles[t]
                        if code == end:
                            continue
                        k = code - base - 1
                        if family == _BOOL:
                            cut_high[cut] = k
                        elif family == _NUMBER:
                            cut_high[cut] = cells.number_high[cells.number_offsets[s] + k]
                            if len(cells.number_low) > 0:
                                cut_low[cut] = cells.number_low[cells.number_offsets[s] + k]
                        elif family == _TIME:
                            cut_high[cut] = cells.time_key[cells.time_offsets[s] + k]
                        else:
                            key = cells.string_key[cells.string_offsets[s] + k]
                            cut_high[cut] = key >> 1
                            cut_low[cut] = key & 1
                        cut += 1
            c += 1
            cut_offsets[c] = cut
            pattern_offsets[c] = patterns
            if w >= last:
                break
            word = words[w]
            w += 1
        offsets[i + 1] = c
    return (
        offsets,
        slot[:c],
        kind[:c],
        cut_offsets[: c + 1],
        cut_high[:cut],
        cut_low[:cut],
        pattern_offsets[: c + 1],
        pattern[:patterns],
    )
