"""Kernels that give filters their places: by which word each is found, and in which order they stand."""

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel
from penstock.matching.kernels.places import DOWN, LEVEL, UP
from penstock.matching.kernels.resolve import NUMBERS
from penstock.matching.kernels.search import Array
from penstock.matching.kernels.words import (
    HALF,
    KIND_SHIFT,
    NOT_PATTERN,
    PATTERN,
    RANGE,
    REST_MASK,
    SET,
    SLOT_SHIFT,
    TRUE_WORD,
    Draft,
    word_high,
    word_low,
    word_slot,
)

# Kinds of place that a filter can be given.
NOWHERE, ALWAYS, ABSENT, LISTED, PATTERNED, PLANED = range(6)

POINTS_MAX = 1 << 17
"""A list of more values than this is found by the range that it lies in."""


@inlined
def _is_points(set_offsets: Array, set_codes: Array, word: int) -> bool:
    """Whether a set is a list of single cells, or of few intervals that are nearly so."""
    at = np.int64(word & REST_MASK)
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
    kind = word >> KIND_SHIFT
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
                base = cell_base[set_slot[np.int64(word & REST_MASK)]]
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
def access_slots(filters: Draft, at: Array) -> Array:
    """The slots of the words at some positions (-1 where a position is negative)."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    slots = np.full(len(at), -1, np.int64)
    for i in range(len(at)):
        if at[i] >= 0 and words[at[i]] >> KIND_SHIFT <= SET:
            slots[i] = word_slot(set_slot, words[at[i]])
    return slots


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
        exact = word >> KIND_SHIFT == RANGE
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
        record[at, 1] = (np.uint64(n) << HALF) | np.uint64(ids_of[f])
        for i in range(count):
            word = sorted_words[i]
            number = np.int64(word & REST_MASK)
            is_set = word >> KIND_SHIFT == SET
            first = 0
            toggles = 0
            if is_set:
                first = set_offsets[number]
                toggles = set_offsets[number + 1] - first
                word = (
                    (np.uint64(SET) << KIND_SHIFT)
                    | (np.uint64(set_slot[number]) << SLOT_SHIFT)
                    | np.uint64(toggles)
                )
            if i == 0:
                record[at, 0] = word
            else:
                if not counting:
                    words[n] = word
                n += 1
            for k in range(0, toggles, 2):
                if not counting:
                    words[n] = np.uint64(set_codes[first + k]) | (np.uint64(set_codes[first + k + 1]) << HALF)
                n += 1
    record[len(order), 0] = TRUE_WORD
    record[len(order), 1] = np.uint64(n) << HALF
    return n


@kernel
def dense_positions(keys: Array, first: int, size: int, low: int, high: int, out: Array, at: int) -> None:
    """For each code from `low` to `high` how many of the sorted keys lie below it."""
    k = 0
    for code in range(low, high + 1):
        while k < size and keys[first + k] < code:
            k += 1
        out[at + code - low] = k
