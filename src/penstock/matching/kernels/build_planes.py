"""Kernels that lay filters out on planes: buckets of codes, and the cells that a filter touches."""

import numpy as np

from penstock.matching.kernels.build_places import POINTS_MAX
from penstock.matching.kernels.jit import kernel, outlined
from penstock.matching.kernels.search import Array
from penstock.matching.kernels.words import (
    KIND_SHIFT,
    RANGE,
    REST_MASK,
    SET,
    TRUE_WORD,
    Draft,
    word_high,
    word_low,
    word_slot,
)


@kernel
def are_points(filters: Draft, at: Array) -> Array:
    """Whether each of the words at some positions is one single cell, or several."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.empty(len(at), np.bool_)
    for i in range(len(at)):
        word = words[at[i]]
        if word >> KIND_SHIFT == RANGE:
            found[i] = word_high(set_offsets, set_codes, word) - word_low(set_offsets, set_codes, word) == 1
        else:
            number = np.int64(word & REST_MASK)
            found[i] = True
            for k in range(set_offsets[number], set_offsets[number + 1], 2):
                found[i] = found[i] and set_codes[k + 1] - set_codes[k] == 1
    return found


@kernel
def widths(filters: Draft, at: Array, chance: Array) -> Array:
    """The chance of one interval of each of the words at some positions."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.empty(len(at), np.float64)
    for i in range(len(at)):
        word = words[at[i]]
        found[i] = chance[at[i]]
        if word >> KIND_SHIFT == SET:
            number = np.int64(word & REST_MASK)
            found[i] /= (set_offsets[number + 1] - set_offsets[number]) // 2
    return found


@kernel
def mark_lows(filters: Draft, chosen_words: Array, cell_base: Array, marks: Array) -> None:
    """Mark the codes at which intervals of the words begin, and where they end."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    for i in range(len(chosen_words)):
        word = words[chosen_words[i]]
        base = cell_base[word_slot(set_slot, word)]
        if word >> KIND_SHIFT == RANGE:
            marks[base + word_low(set_offsets, set_codes, word)] = True
            if word_high(set_offsets, set_codes, word) - word_low(set_offsets, set_codes, word) > 1:
                marks[base + word_high(set_offsets, set_codes, word)] = True
        else:
            at = np.int64(word & REST_MASK)
            for k in range(set_offsets[at], set_offsets[at + 1], 2):
                marks[base + set_codes[k]] = True


@kernel
def mark_values(filters: Draft, chosen_words: Array, base: Array, marks: Array) -> None:
    """Mark every code that the words, ranges or sets, hold."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    for i in range(len(chosen_words)):
        word = words[chosen_words[i]]
        start = base[word_slot(set_slot, word)]
        if word >> KIND_SHIFT == RANGE:
            for code in range(
                word_low(set_offsets, set_codes, word), word_high(set_offsets, set_codes, word)
            ):
                marks[start + code] = True
        else:
            at = np.int64(word & REST_MASK)
            for k in range(set_offsets[at], set_offsets[at + 1], 2):
                for code in range(set_codes[k], set_codes[k + 1]):
                    marks[start + code] = True


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
    if word >> KIND_SHIFT == SET:
        number = np.int64(word & REST_MASK)
        intervals = (set_offsets[number + 1] - set_offsets[number]) // 2
    for i in range(intervals):
        if word >> KIND_SHIFT == SET:
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
def probes(filters: Draft, chosen: Array, access: Array, second: Array, chance: Array) -> Array:
    """For each filter its most selective range besides two words, or TRUE_WORD."""
    ids_of, word_offsets, words, set_slot, set_offsets, set_codes = filters
    found = np.full(len(chosen), TRUE_WORD, np.uint64)
    for i in range(len(chosen)):
        f = chosen[i]
        best = np.float32(2.0)
        for w in range(word_offsets[f], word_offsets[f + 1]):
            if w == access[f] or w == second[f] or words[w] >> KIND_SHIFT != RANGE:
                continue
            if chance[w] < best:
                best = chance[w]
                found[i] = words[w]
    return found


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
