"""Kernels that compile filters: from cuts to codes, from conditions to words, from filters to places."""

from typing import NamedTuple

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel, outlined
from penstock.matching.kernels.match import (
    CODE_BITS,
    DOWN,
    LEVEL,
    NOT_PATTERN,
    PATTERN,
    RANGE,
    SET,
    SLOT_BITS,
    TRUE_WORD,
    UP,
)
from penstock.matching.kernels.resolve import NUMBERS, Cells, strings_start, times_start
from penstock.matching.kernels.search import Array, count_below, key_of_bits

# Kinds of condition, as in `columns`.
_ABSENT, _BOOL, _NUMBER, _TIME, _STRING, _NAN, _EXISTS, _PATTERN_ONLY = range(8)

# Kinds of place that a filter can be given.
NOWHERE, ALWAYS, ABSENT, LISTED, PATTERNED, PLANED = range(6)

POINTS_MAX = 1 << 17
"""A list of more values than this is found by the range that it lies in."""

_KIND = np.uint64(62)
_SLOT = np.uint64(2 * CODE_BITS)
_SLOT_MASK = np.uint64((1 << SLOT_BITS) - 1)
_CODE = np.uint64(CODE_BITS)
_CODE_MASK = np.uint64((1 << CODE_BITS) - 1)
_REST = np.uint64((1 << 62) - 1)
_HALF = np.uint64(32)
_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_EXACT = 2.0**52
_LEAST_NUMBER = np.int64(np.array(-np.inf).view(np.int64)) ^ np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST_TIME = np.int64(-(2**63))


class Draft(NamedTuple):
    """Filters before they have their places: words in the order of the columns, sets apart from them."""

    ids: Array
    word_offsets: Array
    words: Array
    set_slot: Array
    set_offsets: Array
    set_codes: Array


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
    number_offsets: Array, number_high: Array, first: Array, offsets: Array, codes: Array
) -> None:
    """The code of each integer of each slot's range."""
    for s in range(len(first)):
        at = number_offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            key = key_of_bits(np.float64(first[s] + i - offsets[s]).view(np.int64))
            while at < number_offsets[s + 1] and number_high[at] <= key:
                at += 1
            codes[i] = NUMBERS + at - number_offsets[s]


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
    cells: Cells,
    code_offsets: Array,
    codes: Array,
) -> None:
    """The codes at which each condition toggles; always an even number of them.

    `rank` gives the rank of each literal. `codes` has room for all cuts and two more for each condition.
    """
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
                    at = count_below(string_key, first, string_offsets[s + 1], key)
                    codes[n] = strings_start(number_offsets, time_offsets, s) + 1 + at
                n += 1
            if (cut_offsets[c + 1] - cut_offsets[c]) & 1:
                if k == _BOOL:
                    end = NUMBERS
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
                        (np.uint64(s) << _SLOT)
                        | (np.uint64(codes[last - 3]) << _CODE)
                        | np.uint64(codes[first + 1])
                    )
                elif last - first == 2 and fits:
                    words[n] = (
                        (np.uint64(s) << _SLOT)
                        | (np.uint64(codes[first]) << _CODE)
                        | np.uint64(codes[last - 1])
                    )
                else:
                    words[n] = (np.uint64(SET) << _KIND) | np.uint64(sets)
                    set_slot[sets] = s
                    set_offsets[sets] = set_end
                    for i in range(first, last):
                        set_codes[set_end] = codes[i]
                        set_end += 1
                    sets += 1
                n += 1
            for p in range(pattern_offsets[c], pattern_offsets[c + 1]):
                sign = np.uint64(PATTERN) if pattern[p] >= 0 else np.uint64(NOT_PATTERN)
                words[n] = (sign << _KIND) | np.uint64(pattern_number[p])
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
        kind = word >> _KIND
        if kind == RANGE:
            base = cell_base[np.int64((word >> _SLOT) & _SLOT_MASK)]
            low = np.int64((word >> _CODE) & _CODE_MASK)
            high = np.int64(word & _CODE_MASK)
            found[w] = cumulative[base + high] - cumulative[base + low] if low < high else 0.9
        elif kind == SET:
            at = np.int64(word & _REST)
            base = cell_base[set_slot[at]]
            total = 0.0
            for i in range(set_offsets[at], set_offsets[at + 1], 2):
                total += cumulative[base + set_codes[i + 1]] - cumulative[base + set_codes[i]]
            found[w] = total
        else:
            p = pattern_chance[np.int64(word & _REST)]
            found[w] = p if kind == PATTERN else np.float32(1.0) - p
    return found


@inlined
def word_slot(set_slot: Array, word: int) -> int:
    """The slot of a range or set."""
    if word >> _KIND == RANGE:
        slot = np.int64((word >> _SLOT) & _SLOT_MASK)
    else:
        slot = np.int64(set_slot[np.int64(word & _REST)])
    return slot


@inlined
def word_low(set_offsets: Array, set_codes: Array, word: int) -> int:
    """The first code of a range or set."""
    if word >> _KIND == RANGE:
        low = np.int64((word >> _CODE) & _CODE_MASK)
    else:
        low = np.int64(set_codes[set_offsets[np.int64(word & _REST)]])
    return low


@inlined
def word_high(set_offsets: Array, set_codes: Array, word: int) -> int:
    """One more than the last code of a range or set."""
    if word >> _KIND == RANGE:
        high = np.int64(word & _CODE_MASK)
    else:
        high = np.int64(set_codes[set_offsets[np.int64(word & _REST) + 1] - 1])
    return high


@inlined
def _is_points(set_offsets: Array, set_codes: Array, word: int) -> bool:
    """Whether a set is a list of single cells, or of few intervals that are nearly so."""
    at = np.int64(word & _REST)
    total = 0
    first = set_offsets[at]
    last = set_offsets[at + 1]
    for i in range(first, last, 2):
        total += set_codes[i + 1] - set_codes[i]
    return total <= last - first and total <= POINTS_MAX


@inlined
def _offer(
    words: Array,
    set_slot: Array,
    set_offsets: Array,
    set_codes: Array,
    w: int,
    chance: Array,
    cumulative: Array,
    cell_base: Array,
) -> tuple[int, float, bool]:
    """The place that a word could give access at, at what cost, and whether it could be a side of a plane."""
    word = words[w]
    kind = word >> _KIND
    p = np.float64(chance[w])
    where = NOWHERE
    planable = False
    if kind == PATTERN:
        where = PATTERNED
    elif kind != NOT_PATTERN:
        low = word_low(set_offsets, set_codes, word)
        high = word_high(set_offsets, set_codes, word)
        if low == 0:
            # Absence; or a set that holds it, which no place is for.
            where = ABSENT if high == 1 else NOWHERE
        elif low < high:
            # (Otherwise it is all values but some: no way to find anything.)
            if kind == RANGE:
                where = LISTED
                planable = True
                if high - low > 1:
                    # Of the ranges found together in a list some will not do.
                    p = min(1.0, 1.2 * p)
            elif _is_points(set_offsets, set_codes, word):
                where = PLANED
                planable = True
            else:
                where = LISTED
                base = cell_base[set_slot[np.int64(word & _REST)]]
                p = np.float64(cumulative[base + high] - cumulative[base + low])
    return where, p, planable


@kernel
def choose(
    filters: Draft,
    never: Array,
    chance: Array,
    cumulative: Array,
    cell_base: Array,
    place: Array,
    access: Array,
    second: Array,
    cost: Array,
    second_cost: Array,
) -> None:
    """For each filter the kind of its place, the word that gives access to it, and the next best.

    `access` and `second` are positions of words, -1 where there is none; `second` is set only where both
    could be the sides of a plane. `cost` is the share of events that will find the filter by its access.
    """
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    for f in range(len(ids_of)):
        place[f] = NOWHERE if never[f] else ALWAYS
        access[f] = -1
        second[f] = -1
        cost[f] = 1.0
        second_cost[f] = 1.0
        if never[f]:
            continue
        best = 2.0
        side = False
        for w in range(word_offsets[f], word_offsets[f + 1]):
            where, p, planable = _offer(
                words, set_slot, set_offsets, set_codes, w, chance, cumulative, cell_base
            )
            if where != NOWHERE and p < best:
                best = p
                access[f] = w
                place[f] = where
                cost[f] = p
                side = planable
        if not side:
            continue
        slot = word_slot(set_slot, words[access[f]])
        best = 2.0
        for w in range(word_offsets[f], word_offsets[f + 1]):
            where, p, planable = _offer(
                words, set_slot, set_offsets, set_codes, w, chance, cumulative, cell_base
            )
            if planable and p < best and word_slot(set_slot, words[w]) != slot:
                best = p
                second[f] = w
                second_cost[f] = p


@kernel
def list_keys(
    filters: Draft,
    place: Array,
    access: Array,
    ends: Array,
    list_slot: Array,
    list_kind: Array,
    list_level: Array,
    list_skip: Array,
    list_sole: Array,
    key: Array,
) -> None:
    """For each filter whose access is a range: which list it belongs to, and by what it is sorted there."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    for f in range(len(ids_of)):
        conditions = word_offsets[f + 1] - word_offsets[f]
        list_sole[f] = conditions == 1
        if place[f] != LISTED:
            continue
        word = words[access[f]]
        s = word_slot(set_slot, word)
        low = word_low(set_offsets, set_codes, word)
        high = word_high(set_offsets, set_codes, word)
        exact = word >> _KIND == RANGE
        times = ends[s, 0]
        strings = ends[s, 1]
        begin = NUMBERS if low < times else times if low < strings else strings
        end = times if low < times else strings if low < strings else ends[s, 2]
        list_slot[f] = s
        level = 0
        while (1 << level) < high - low:
            level += 2
        if high - low == 1:
            kind = LEVEL
        elif low == 1:
            # That a value exists at all.
            kind = UP
            level = 4
        elif low >= NUMBERS and high == end:
            kind = UP
            level = 1 if low < times else 2 if low < strings else 3
        elif low == begin + 1 and high <= end:
            kind = DOWN
            level = 1 if low < times else 2 if low < strings else 3
        else:
            kind = LEVEL
        if kind == UP and level == 4 and high != ends[s, 2]:
            kind = LEVEL
            level = 0
            while (1 << level) < high - low:
                level += 2
        exact = exact and (kind != LEVEL or level == 0)
        list_kind[f] = kind
        list_level[f] = level
        list_skip[f] = exact
        list_sole[f] = exact and conditions == 1
        key[f] = high if kind == DOWN else low


@kernel
def arrange(
    filters: Draft, order: Array, access: Array, chance: Array, ids: Array, record: Array, words: Array
) -> int:
    """Write the filters in their final order: what fails most often first, the access last.

    Returned is how many words there are; with an empty array for them they are only counted.
    """
    ids_of, word_offsets, drafted, set_slot, set_offsets, set_codes = filters
    longest = 1
    for f in range(len(ids_of)):
        longest = max(longest, word_offsets[f + 1] - word_offsets[f])
    placed = np.empty(longest, np.float32)
    sorted_words = np.empty(longest, np.uint64)
    counting = len(words) == 0
    n = 0
    for at in range(len(order)):
        f = order[at]
        ids[at] = ids_of[f]
        count = 0
        for w in range(word_offsets[f], word_offsets[f + 1]):
            if w == access[f]:
                continue
            i = count
            while i > 0 and chance[w] < placed[i - 1]:
                sorted_words[i] = sorted_words[i - 1]
                placed[i] = placed[i - 1]
                i -= 1
            sorted_words[i] = drafted[w]
            placed[i] = chance[w]
            count += 1
        if access[f] >= 0:
            sorted_words[count] = drafted[access[f]]
            count += 1
        record[at, 0] = TRUE_WORD
        record[at, 1] = (np.uint64(n) << _HALF) | np.uint64(ids_of[f])
        for i in range(count):
            word = sorted_words[i]
            number = np.int64(word & _REST)
            is_set = word >> _KIND == SET
            first = 0
            toggles = 0
            if is_set:
                first = set_offsets[number]
                toggles = set_offsets[number + 1] - first
                word = (np.uint64(SET) << _KIND) | (np.uint64(set_slot[number]) << _SLOT) | np.uint64(toggles)
            if i == 0:
                record[at, 0] = word
            else:
                if not counting:
                    words[n] = word
                n += 1
            for k in range(0, toggles, 2):
                if not counting:
                    words[n] = np.uint64(set_codes[first + k]) | (
                        np.uint64(set_codes[first + k + 1]) << _HALF
                    )
                n += 1
    record[len(order), 0] = TRUE_WORD
    record[len(order), 1] = np.uint64(n) << _HALF
    return n


@kernel
def dense_positions(keys: Array, first: int, size: int, low: int, high: int, out: Array, at: int) -> None:
    """For each code from `low` to `high` how many of the sorted keys lie below it."""
    k = 0
    for code in range(low, high + 1):
        while k < size and keys[first + k] < code:
            k += 1
        out[at + code - low] = k


@outlined
def _buckets_of(
    set_offsets: Array,
    set_codes: Array,
    word: int,
    bucket_at: int,
    buckets: Array,
    bucket_first: Array,
    bucket_last: Array,
    found: Array,
    exact: Array,
    limit: int,
) -> int:
    """The buckets that a range or set touches, each once, in order; -1 if there are more than `limit`.

    `exact` says which of them lie in it wholly. `bucket_first` and `bucket_last` hold, from `bucket_at` on,
    the first code of each bucket and one more than its last (for a bucket of codes that are not neighbours,
    nothing that could lie in anything).
    """
    n = 0
    number = np.int64(0)
    intervals = 1
    if word >> _KIND == SET:
        number = np.int64(word & _REST)
        intervals = (set_offsets[number + 1] - set_offsets[number]) // 2
    for i in range(intervals):
        if word >> _KIND == SET:
            low = np.int64(set_codes[set_offsets[number] + 2 * i])
            high = np.int64(set_codes[set_offsets[number] + 2 * i + 1])
        else:
            low = np.int64(word_low(set_offsets, set_codes, word))
            high = np.int64(word_high(set_offsets, set_codes, word))
        code = low
        while code < high:
            bucket = buckets[bucket_at + code]
            first = bucket_first[bucket_at + bucket]
            last = bucket_last[bucket_at + bucket]
            # Past the bucket, where its codes are neighbours.
            code = max(code + 1, last if first >= 0 else 0)
            if n > 0 and found[n - 1] == bucket:
                exact[n - 1] = False
                continue
            if n == limit:
                return -1
            found[n] = bucket
            exact[n] = low <= first and last <= high
            n += 1
    return n


@kernel
def plane_cells(
    filters: Draft,
    chosen: Array,
    plane: Array,
    access: Array,
    second: Array,
    plane_bucket: Array,
    plane_other_bucket: Array,
    plane_slot: Array,
    plane_width: Array,
    plane_grid: Array,
    buckets: Array,
    bucket_first: Array,
    bucket_last: Array,
    limit: int,
    cell: Array,
    member: Array,
) -> tuple[Array, Array, int]:
    """The cells of the grid that each chosen filter touches, as pairs (cell, filter); and how many.

    A filter is given twice its number, and one more where everything in the cell meets the conditions of the
    plane. One that touches more than `limit` cells of a plane over two slots gets none: it has no place in
    the plane. Returned are the arrays, grown as needed.
    """
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    n = 0
    a = np.empty(POINTS_MAX, np.int64)
    b = np.empty(POINTS_MAX, np.int64)
    a_exact = np.empty(POINTS_MAX, np.bool_)
    b_exact = np.empty(POINTS_MAX, np.bool_)
    for i in range(len(chosen)):
        f = chosen[i]
        p = plane[i]
        nb = 1
        b[0] = 0
        b_exact[0] = True
        wa = words[access[f]]
        most = POINTS_MAX
        if plane_other_bucket[p] >= 0:
            most = limit
            wb = words[second[f]]
            if word_slot(set_slot, wa) != plane_slot[p]:
                wa, wb = wb, wa
            nb = _buckets_of(
                set_offsets,
                set_codes,
                wb,
                plane_other_bucket[p],
                buckets,
                bucket_first,
                bucket_last,
                b,
                b_exact,
                limit,
            )
        na = _buckets_of(
            set_offsets, set_codes, wa, plane_bucket[p], buckets, bucket_first, bucket_last, a, a_exact, most
        )
        if na < 0 or nb < 0 or na * nb > most:
            continue
        if n + na * nb > len(cell):
            grown = np.empty(2 * (n + na * nb), np.int64)
            grown[:n] = cell[:n]
            cell = grown
            grown_member = np.empty(len(cell), np.int64)
            grown_member[:n] = member[:n]
            member = grown_member
        for x in range(na):
            for y in range(nb):
                cell[n] = plane_grid[p] + a[x] * plane_width[p] + b[y]
                member[n] = 2 * f + (a_exact[x] and b_exact[y])
                n += 1
    return cell, member, n


@kernel
def bucket_bounds(starts: Array, buckets: Array, first: Array, last: Array) -> None:
    """For each bucket of each slot (which start at `starts`) its first code and one more than its last.

    Where a bucket's codes are not neighbours, bounds that nothing holds.
    """
    for s in range(len(starts) - 1):
        for at in range(starts[s], starts[s + 1]):
            first[at] = -2
        for at in range(starts[s], starts[s + 1]):
            code = at - starts[s]
            bucket = starts[s] + buckets[at]
            if first[bucket] == -2:
                first[bucket] = code
                last[bucket] = code + 1
            elif last[bucket] == code:
                last[bucket] = code + 1
            else:
                first[bucket] = -1


@kernel
def others(filters: Draft, chosen: Array, access: Array, second: Array) -> Array:
    """For each filter how many words it has besides two."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.empty(len(chosen), np.int64)
    for i in range(len(chosen)):
        f = chosen[i]
        found[i] = word_offsets[f + 1] - word_offsets[f]
        found[i] -= access[f] >= 0
        found[i] -= second[f] >= 0
    return found


@kernel
def probes(filters: Draft, chosen: Array, access: Array, second: Array, chance: Array) -> Array:
    """For each filter its most selective range besides two words, or TRUE_WORD."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.full(len(chosen), TRUE_WORD, np.uint64)
    for i in range(len(chosen)):
        f = chosen[i]
        best = np.float32(2.0)
        for w in range(word_offsets[f], word_offsets[f + 1]):
            if w == access[f] or w == second[f] or words[w] >> _KIND != RANGE:
                continue
            if chance[w] < best:
                best = chance[w]
                found[i] = words[w]
    return found


@kernel
def widths(filters: Draft, at: Array, chance: Array) -> Array:
    """The chance of one interval of each of the words at some positions."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.empty(len(at), np.float64)
    for i in range(len(at)):
        word = words[at[i]]
        found[i] = chance[at[i]]
        if word >> _KIND == SET:
            number = np.int64(word & _REST)
            found[i] /= (set_offsets[number + 1] - set_offsets[number]) // 2
    return found


@kernel
def are_points(filters: Draft, at: Array) -> Array:
    """Whether each of the words at some positions is one single cell, or several."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.empty(len(at), np.bool_)
    for i in range(len(at)):
        word = words[at[i]]
        if word >> _KIND == RANGE:
            found[i] = word_high(set_offsets, set_codes, word) - word_low(set_offsets, set_codes, word) == 1
        else:
            number = np.int64(word & _REST)
            found[i] = True
            for k in range(set_offsets[number], set_offsets[number + 1], 2):
                found[i] = found[i] and set_codes[k + 1] - set_codes[k] == 1
    return found


@kernel
def mark_lows(filters: Draft, chosen_words: Array, cell_base: Array, marks: Array) -> None:
    """Mark the codes at which intervals of the words begin, and where they end."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    for i in range(len(chosen_words)):
        word = words[chosen_words[i]]
        base = cell_base[word_slot(set_slot, word)]
        if word >> _KIND == RANGE:
            marks[base + word_low(set_offsets, set_codes, word)] = True
            if word_high(set_offsets, set_codes, word) - word_low(set_offsets, set_codes, word) > 1:
                marks[base + word_high(set_offsets, set_codes, word)] = True
        else:
            at = np.int64(word & _REST)
            for k in range(set_offsets[at], set_offsets[at + 1], 2):
                marks[base + set_codes[k]] = True


@kernel
def access_slots(filters: Draft, at: Array) -> Array:
    """The slots of the words at some positions (-1 where a position is negative)."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    slots = np.full(len(at), -1, np.int64)
    for i in range(len(at)):
        if at[i] >= 0 and words[at[i]] >> _KIND <= SET:
            slots[i] = word_slot(set_slot, words[at[i]])
    return slots


@kernel
def mark_values(filters: Draft, chosen_words: Array, base: Array, marks: Array) -> None:
    """Mark every code that the words, ranges or sets, hold."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    for i in range(len(chosen_words)):
        word = words[chosen_words[i]]
        start = base[word_slot(set_slot, word)]
        if word >> _KIND == RANGE:
            for code in range(
                word_low(set_offsets, set_codes, word), word_high(set_offsets, set_codes, word)
            ):
                marks[start + code] = True
        else:
            at = np.int64(word & _REST)
            for k in range(set_offsets[at], set_offsets[at + 1], 2):
                for code in range(set_codes[k], set_codes[k + 1]):
                    marks[start + code] = True
