"""Kernels that compile conditions: from cuts to codes, from codes to words."""

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel, outlined
from penstock.matching.kernels.resolve import LISTS, NUMBERS, Cells, strings_start, times_start
from penstock.matching.kernels.search import Array, count_below, key_of_bits
from penstock.matching.kernels.words import (
    CODE_BITS,
    CODE_MASK,
    CODE_SHIFT,
    KIND_SHIFT,
    NOT_PATTERN,
    PATTERN,
    RANGE,
    REST_MASK,
    SET,
    SLOT_MASK,
    SLOT_SHIFT,
    Draft,
)

# Kinds of condition, as in `columns`.
_ABSENT, _BOOL, _NUMBER, _TIME, _STRING, _NAN, _EXISTS, _PATTERN_ONLY = range(8)

_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_EXACT = 2.0**52
_LEAST_NUMBER = np.int64(np.array(-np.inf).view(np.int64)) ^ _SIGN
_LEAST_TIME = np.int64(-(2**63))


@kernel
def unique_in_groups(keys: Array, starts: Array, offsets: Array) -> int:
    """Sort the keys of each group and keep each once, at the front of `keys`; returns how many are left."""
    n = 0
    for g in range(len(starts) - 1):
        group = np.sort(keys[starts[g] : starts[g + 1]])
        offsets[g] = n
        for i in range(len(group)):
            if i == 0 or group[i] != group[i - 1]:
                keys[n] = group[i]
                n += 1
    offsets[len(starts) - 1] = n
    return n


@kernel
def group_by(groups: Array, keys: Array, starts: Array, grouped: Array) -> None:
    """Bring keys together by their group (negative: leave out); `starts` has a place more than groups."""
    starts[:] = 0
    for i in range(len(groups)):
        if groups[i] >= 0:
            starts[groups[i] + 1] += 1
    for g in range(len(starts) - 1):
        starts[g + 1] += starts[g]
    at = starts[:-1].copy()
    for i in range(len(groups)):
        g = groups[i]
        if g >= 0:
            grouped[at[g]] = keys[i]
            at[g] += 1


@kernel
def integer_range(number_offsets: Array, number_high: Array, first: Array, size: Array) -> None:
    """For each slot the integers from just below its least finite cut to just above its greatest.

    The size is 0 where they are many more than the cuts.
    """
    for s in range(len(first)):
        low = np.inf
        high = -np.inf
        for at in range(number_offsets[s], number_offsets[s + 1]):
            key = number_high[at]
            double = np.int64(key if key >= 0 else key ^ _SIGN).view(np.float64)
            if -_EXACT < double < _EXACT:
                low = min(low, double)
                high = max(high, double)
        first[s] = 0
        size[s] = 0
        if low <= high and high - low < 2 * (number_offsets[s + 1] - number_offsets[s]) + 64:
            first[s] = np.int64(np.floor(low)) - 1
            size[s] = np.int64(np.ceil(high)) + 2 - first[s]


@kernel
def integer_codes(
    number_offsets: Array, number_high: Array, number_low: Array, first: Array, offsets: Array, codes: Array
) -> None:
    """The code of each integer of each slot's range."""
    for s in range(len(first)):
        at = number_offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            key = key_of_bits(np.float64(first[s] + i - offsets[s]).view(np.int64))
            while at < number_offsets[s + 1] and (
                number_high[at] < key
                or (number_high[at] == key and (len(number_low) == 0 or number_low[at] == 0))
            ):
                at += 1
            codes[i] = NUMBERS + at - number_offsets[s]


@kernel
def mark_ordered(
    slot: Array,
    kind: Array,
    cut_offsets: Array,
    cut_high: Array,
    cut_low: Array,
    rank: Array,
    empty: int,
    ordered: Array,
) -> None:
    """Mark the slots where a condition tells apart strings that are no literals.

    None does if all sets consist of single strings or lack single strings: then cuts come in pairs, a
    literal and what is just after it, but for the empty string (its rank is `empty`), which starts the set of
    all strings.
    """
    for c in range(len(kind)):
        if kind[c] != _STRING:
            continue
        at = cut_offsets[c]
        end = cut_offsets[c + 1]
        if (end - at) & 1 and rank[cut_high[at]] == empty and cut_low[at] == 0:
            at += 1
        while at < end:
            is_pair = at + 1 < end and cut_low[at] == 0 and cut_low[at + 1] == 1
            if not is_pair or rank[cut_high[at]] != rank[cut_high[at + 1]]:
                ordered[slot[c]] = True
                break
            at += 2


@inlined
def _find_number(
    number_offsets: Array, number_high: Array, number_low: Array, slot: int, high: int, low: int
) -> int:
    first = number_offsets[slot]
    at = first + count_below(number_high, first, number_offsets[slot + 1], high)
    if len(number_low) > 0:
        while number_low[at] != low:
            at += 1
    return at - first


@inlined
def slot_end(number_offsets: Array, time_offsets: Array, string_offsets: Array, slot: int) -> int:
    """One more than the last code of a slot."""
    first = strings_start(number_offsets, time_offsets, slot)
    return first + 1 + string_offsets[slot + 1] - string_offsets[slot]


@kernel
def slot_ends(cells: Cells, slots: int) -> Array:
    """For each slot the codes at which its families start and end: times, strings, end."""
    number_offsets = cells.number_offsets
    string_offsets = cells.string_offsets
    time_offsets = cells.time_offsets
    ends = np.empty((slots, 3), np.int64)
    for s in range(slots):
        ends[s, 0] = times_start(number_offsets, s)
        ends[s, 1] = strings_start(number_offsets, time_offsets, s)
        ends[s, 2] = slot_end(number_offsets, time_offsets, string_offsets, s)
    return ends


@kernel
def codes_of_cuts(
    slot: Array,
    kind: Array,
    cut_offsets: Array,
    cut_high: Array,
    cut_low: Array,
    rank: Array,
    string_place: Array,
    cells: Cells,
    code_offsets: Array,
    codes: Array,
) -> None:
    """The codes at which each condition toggles; always an even number of them.

    `rank` gives the rank of each literal. `codes` has room for all cuts and two more for each condition.
    `string_place` has the place of each key of a string in each slot; if it is empty, places are searched.
    """
    string_keys = 2 * len(cells.literal_offsets)
    number_high = cells.number_high
    number_low = cells.number_low
    number_offsets = cells.number_offsets
    string_key = cells.string_key
    string_offsets = cells.string_offsets
    time_key = cells.time_key
    time_offsets = cells.time_offsets
    n = 0
    for c in range(len(kind)):
        code_offsets[c] = n
        s = slot[c]
        k = kind[c]
        if k == _ABSENT:
            codes[n] = 0
            codes[n + 1] = 1
            n += 2
        elif k == _NAN:
            codes[n] = 1
            codes[n + 1] = 2
            n += 2
        elif k == _EXISTS:
            codes[n] = 1
            codes[n + 1] = slot_end(number_offsets, time_offsets, string_offsets, s)
            n += 2
        elif k <= _STRING:
            end = 0
            for i in range(cut_offsets[c], cut_offsets[c + 1]):
                high = cut_high[i]
                if k == _BOOL:
                    codes[n] = 2 + high
                elif k == _NUMBER:
                    codes[n] = (
                        NUMBERS
                        + 1
                        + _find_number(number_offsets, number_high, number_low, s, high, cut_low[i])
                    )
                elif k == _TIME:
                    first = time_offsets[s]
                    at = count_below(time_key, first, time_offsets[s + 1], high)
                    codes[n] = times_start(number_offsets, s) + 1 + at
                else:
                    first = string_offsets[s]
                    key = 2 * rank[high] + cut_low[i]
                    if len(string_place) > 0:
                        at = np.int64(string_place[s * string_keys + key])
                    else:
                        at = count_below(string_key, first, string_offsets[s + 1], key)
                    codes[n] = strings_start(number_offsets, time_offsets, s) + 1 + at
                n += 1
            if (cut_offsets[c + 1] - cut_offsets[c]) & 1:
                if k == _BOOL:
                    end = LISTS
                elif k == _NUMBER:
                    end = times_start(number_offsets, s)
                elif k == _TIME:
                    end = strings_start(number_offsets, time_offsets, s)
                else:
                    end = slot_end(number_offsets, time_offsets, string_offsets, s)
                codes[n] = end
                n += 1
    code_offsets[len(kind)] = n


@outlined
def _lacks_points(codes: Array, first: int, last: int, cells: Cells, slot: int) -> bool:
    """Whether a set is all numbers, times or strings but for one single cell, or two."""
    toggles = last - first
    if toggles != 4 and toggles != 6:
        return False
    times = times_start(cells.number_offsets, slot)
    strings = strings_start(cells.number_offsets, cells.time_offsets, slot)
    low = codes[first]
    begin = NUMBERS if low < times else times if low < strings else strings
    end = (
        times
        if low < times
        else strings
        if low < strings
        else slot_end(cells.number_offsets, cells.time_offsets, cells.string_offsets, slot)
    )
    if low != begin + 1 or codes[last - 1] != end or codes[first + 1] == low:
        return False
    for i in range(first + 1, last - 1, 2):
        if codes[i + 1] - codes[i] != 1:
            return False
    # The first cut has to be the family's least value: then nothing of the family lies below it.
    if low < times:
        return cells.number_high[cells.number_offsets[slot]] == _LEAST_NUMBER
    if low < strings:
        return cells.time_key[cells.time_offsets[slot]] == _LEAST_TIME
    return cells.string_key[cells.string_offsets[slot]] == 0 and cells.literal_offsets[1] == 0


@kernel
def make_words(
    offsets: Array,
    slot: Array,
    kind: Array,
    code_offsets: Array,
    codes: Array,
    pattern_offsets: Array,
    pattern: Array,
    pattern_number: Array,
    cells: Cells,
    word_offsets: Array,
    words: Array,
    set_slot: Array,
    set_offsets: Array,
    set_codes: Array,
) -> tuple[int, int, int]:
    """The words of each filter; returns how many words, sets and codes of sets there are.

    The arrays have room for a word for each condition and each pattern, and for all codes.
    `pattern_number` says for each entry of `pattern` its number in the table.
    """
    literal_offsets = cells.literal_offsets
    number_offsets = cells.number_offsets
    string_key = cells.string_key
    string_offsets = cells.string_offsets
    time_offsets = cells.time_offsets
    n = 0
    sets = 0
    set_end = 0
    for f in range(len(offsets) - 1):
        word_offsets[f] = n
        for c in range(offsets[f], offsets[f + 1]):
            k = kind[c]
            s = slot[c]
            required = False
            for p in range(pattern_offsets[c], pattern_offsets[c + 1]):
                required |= pattern[p] >= 0
            first = code_offsets[c]
            last = code_offsets[c + 1]
            whole = (
                required
                and last - first == 2
                and k == _STRING
                and codes[first] == strings_start(number_offsets, time_offsets, s) + 1
                and codes[last - 1] == slot_end(number_offsets, time_offsets, string_offsets, s)
            )
            # A required pattern says that there is a string; a set of all strings adds nothing to it,
            # where the first cut is the empty string (then no string lies below it).
            if whole:
                key = string_key[string_offsets[s]]
                whole = key == 0 and literal_offsets[1] == 0
            if k <= _EXISTS and not whole:
                fits = codes[last - 1] < (1 << CODE_BITS)
                several = last - first == 4 or last - first == 6
                if fits and several and _lacks_points(codes, first, last, cells, s):
                    # All of a family but one value or two: these, the greater first, as no range has them.
                    words[n] = (
                        (np.uint64(s) << SLOT_SHIFT)
                        | (np.uint64(codes[last - 3]) << CODE_SHIFT)
                        | np.uint64(codes[first + 1])
                    )
                elif last - first == 2 and fits:
                    words[n] = (
                        (np.uint64(s) << SLOT_SHIFT)
                        | (np.uint64(codes[first]) << CODE_SHIFT)
                        | np.uint64(codes[last - 1])
                    )
                else:
                    words[n] = (np.uint64(SET) << KIND_SHIFT) | np.uint64(sets)
                    set_slot[sets] = s
                    set_offsets[sets] = set_end
                    for i in range(first, last):
                        set_codes[set_end] = codes[i]
                        set_end += 1
                    sets += 1
                n += 1
            for p in range(pattern_offsets[c], pattern_offsets[c + 1]):
                sign = np.uint64(PATTERN) if pattern[p] >= 0 else np.uint64(NOT_PATTERN)
                words[n] = (sign << KIND_SHIFT) | np.uint64(pattern_number[p])
                n += 1
    word_offsets[len(offsets) - 1] = n
    set_offsets[sets] = set_end
    return n, sets, set_end


@kernel
def chances(filters: Draft, cumulative: Array, cell_base: Array, pattern_chance: Array) -> Array:
    """For each word the share of events for which it is expected to hold.

    `cumulative` holds for each slot, from its `cell_base` on, the share of events below each code.
    """
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.empty(len(words), np.float32)
    for w in range(len(words)):
        word = words[w]
        kind = word >> KIND_SHIFT
        if kind == RANGE:
            base = cell_base[np.int64((word >> SLOT_SHIFT) & SLOT_MASK)]
            low = np.int64((word >> CODE_SHIFT) & CODE_MASK)
            high = np.int64(word & CODE_MASK)
            found[w] = cumulative[base + high] - cumulative[base + low] if low < high else 0.9
        elif kind == SET:
            at = np.int64(word & REST_MASK)
            base = cell_base[set_slot[at]]
            total = 0.0
            for i in range(set_offsets[at], set_offsets[at + 1], 2):
                total += cumulative[base + set_codes[i + 1]] - cumulative[base + set_codes[i]]
            found[w] = total
        else:
            p = pattern_chance[np.int64(word & REST_MASK)]
            found[w] = p if kind == PATTERN else np.float32(1.0) - p
    return found
