"""Matching events one after another with a delta: the nodes that each visits, and what stands there.

Everything here works in arrays that are there already: see `delta` for who makes them.
"""

from typing import Any

import numpy as np

from penstock.matching.kernels.delta_keys import BETWEEN, NUMBERS, STRINGS
from penstock.matching.kernels.delta_nodes import (
    ENTRY_FILTER,
    ENTRY_HIGH,
    ENTRY_LOW,
    ENTRY_NODE,
    ENTRY_PLACE,
    ENTRY_PROBE,
    EXACT,
    GRAM_SPACE,
    PRESENT_FLAG,
    PRESENT_SPACE,
    SUFFIX_SPACE,
    bucket_of,
    gram_at,
    grid_of,
    lowest_bit,
    node_hash,
    packed,
    packed_filter,
    space_of_grid,
)
from penstock.matching.kernels.delta_tests import (
    ATTRIBUTE_MASK,
    LOOSE_TEXT,
    RANGE_TESTS,
    SHORT_SUFFIX,
    SHORT_TEXT,
    SUBSTRING_TEST,
    TEST_HIGH,
    TEST_LOW,
    TEST_SHIFT,
    TEST_WHAT,
    holds,
    occurs,
)
from penstock.matching.kernels.jit import inlined, leaf
from penstock.matching.kernels.search import Array, is_gone

_ONE = np.uint64(1)


@inlined
def _may_stand(h: Any, occupied: Array) -> bool:
    """Whether anything may stand at a node of some hash."""
    bit = h >> np.uint64(24)
    word = occupied[np.int64(bit >> np.uint64(6)) & (len(occupied) - 1)]
    return (word >> (bit & np.uint64(63))) & _ONE != 0


@inlined
def _scan(
    first: int,
    last: int,
    node: int,
    place: int,
    entries: Array,
    at: Array,
    families: Array,
    key: Array,
    tail: Array,
    value_length: Array,
    visits: Array,
    candidates: Array,
    n: int,
) -> int:
    """Put what stands at a node, and passes its probe, among the candidates; returns how many there are."""
    for e in range(first, last):
        if entries[e, ENTRY_NODE] != node or entries[e, ENTRY_PLACE] != place:
            continue
        if len(visits) > 0:
            visits[packed_filter(entries[e, ENTRY_FILTER])] += 1
        what = entries[e, ENTRY_PROBE]
        if what >= 0:
            v = np.int64(at[what & ATTRIBUTE_MASK]) - 1
            if v < 0:
                continue
            test = what >> TEST_SHIFT
            low = entries[e, ENTRY_LOW]
            high = entries[e, ENTRY_HIGH]
            if test <= RANGE_TESTS:
                ok = families[v] == test and key[v] >= low and key[v] <= high
                if not ok and test == NUMBERS and families[v] == BETWEEN:
                    candidates[n] = entries[e, ENTRY_FILTER] & ~1
                    n += 1
                    continue
            elif test == SHORT_TEXT:
                ok = families[v] == STRINGS and key[v] == low and value_length[v] == high
            elif test == SHORT_SUFFIX:
                ok = families[v] == STRINGS and tail[v] >= low and tail[v] <= high
            else:
                ok = families[v] == STRINGS and key[v] >= low and key[v] <= high
                if ok and (key[v] == low or key[v] == high):
                    candidates[n] = entries[e, ENTRY_FILTER] & ~1
                    n += 1
                    continue
            if not ok:
                continue
        candidates[n] = entries[e, ENTRY_FILTER]
        n += 1
    return n


@leaf
def match_events(
    first_event: int,
    n: int,
    event_start: Array,
    event_count: Array,
    entries: Array,
    value_attribute: Array,
    value_state: Array,
    value_bits: Array,
    value_length: Array,
    arena: Array,
    key: Array,
    low: Array,
    exact: Array,
    families: Array,
    tail: Array,
    ids: Array,
    filter_offsets: Array,
    tests: Array,
    kind: Array,
    cut_offsets: Array,
    cut_high: Array,
    cut_low: Array,
    pattern_offsets: Array,
    pattern: Array,
    literal_offsets: Array,
    literals: Array,
    literal_key: Array,
    pattern_kind: Array,
    needle_offsets: Array,
    needles: Array,
    program_offsets: Array,
    symbols: Array,
    levels: Array,
    flags: Array,
    always: Array,
    older_occupied: Array,
    older_starts: Array,
    older_entries: Array,
    newer_occupied: Array,
    newer_starts: Array,
    newer_entries: Array,
    distinct: bool,
    as_filters: bool,
    gone: Array,
    at: Array,
    path: Array,
    hit: Array,
    candidates: Array,
    seen: Array,
    stamp: Array,
    text: Array,
    epoch: int,
    visits: Array,
    offsets: Array,
    out: Array,
) -> tuple[int, int, int, int, int, int]:
    """Match events until all are done, or there is not enough room for what one may find.

    Returned are the event that comes next, how many ids there are, the last epoch, how much room is needed
    (0 where there is enough), how much was tested slowly, and a number that means nothing. Nothing is
    allocated here.
    """
    touched = np.int64(0)
    slow = 0
    for event in range(first_event, len(event_start)):
        epoch += 1
        begin = n
        entries_first = event_start[event]
        entries_last = entries_first + event_count[event]
        # The nodes that the event visits.
        steps = 0
        for e in range(entries_first, entries_last):
            v = entries[e]
            name = np.int64(value_attribute[v])
            if name >= len(flags) or flags[name] == 0:
                continue
            at[name] = v + 1
            flag = flags[name]
            if flag & PRESENT_FLAG:
                path[steps, 0] = 0
                path[steps, 1] = grid_of(name, PRESENT_SPACE, 0)
                steps += 1
            space = np.int64(families[v])
            if space == BETWEEN:
                space = np.int64(NUMBERS)
            if space < 0:
                continue
            if (flag >> space) & 1:
                path[steps, 0] = exact[v]
                path[steps, 1] = grid_of(name, space, EXACT)
                steps += 1
            mask = levels[name, space]
            while mask != 0:
                level = lowest_bit(mask)
                mask &= mask - _ONE
                path[steps, 0] = key[v] >> level
                path[steps, 1] = grid_of(name, space, level)
                steps += 1
            if space != STRINGS:
                continue
            mask = levels[name, SUFFIX_SPACE]
            while mask != 0:
                level = lowest_bit(mask)
                mask &= mask - _ONE
                path[steps, 0] = tail[v] >> level
                path[steps, 1] = grid_of(name, SUFFIX_SPACE, level)
                steps += 1
            for grams in range(1, 4):
                if (flag >> (GRAM_SPACE + grams)) & 1:
                    for i in range(np.int64(value_length[v]) - grams + 1):
                        path[steps, 0] = gram_at(arena, value_bits[v] + i, grams)
                        path[steps, 1] = grid_of(name, GRAM_SPACE, grams)
                        steps += 1

        # Those where something may stand; most can be told from bits that stay in the processor's cache.
        hits = 0
        for s in range(steps):
            h = node_hash(path[s, 0], path[s, 1])
            if _may_stand(h, older_occupied):
                bucket = bucket_of(h, len(older_starts) - 1)
                hit[hits, 0] = older_starts[bucket]
                hit[hits, 1] = older_starts[bucket + 1]
                hit[hits, 2] = s
                hits += 1
            if _may_stand(h, newer_occupied):
                bucket = bucket_of(h, len(newer_starts) - 1)
                hit[hits, 0] = newer_starts[bucket]
                hit[hits, 1] = newer_starts[bucket + 1]
                hit[hits, 2] = ~s
                hits += 1

        most = n + len(always)
        for i in range(hits):
            most += hit[i, 1] - hit[i, 0]
        if most > len(out):
            for e in range(entries_first, entries_last):
                name = np.int64(value_attribute[entries[e]])
                if name < len(flags):
                    at[name] = 0
            return event, begin, epoch, most, slow, touched

        found = 0
        for i in range(hits):
            s = np.int64(hit[i, 2])
            before = found
            if s >= 0:
                found = _scan(
                    hit[i, 0],
                    hit[i, 1],
                    path[s, 0],
                    path[s, 1],
                    older_entries,
                    at,
                    families,
                    key,
                    tail,
                    value_length,
                    visits,
                    candidates,
                    found,
                )
            else:
                s = ~s
                found = _scan(
                    hit[i, 0],
                    hit[i, 1],
                    path[s, 0],
                    path[s, 1],
                    newer_entries,
                    at,
                    families,
                    key,
                    tail,
                    value_length,
                    visits,
                    candidates,
                    found,
                )
            if space_of_grid(path[s, 1]) == GRAM_SPACE:
                # A string may have the same bytes again.
                kept = before
                for j in range(before, found):
                    f = packed_filter(candidates[j])
                    if seen[f] != epoch:
                        seen[f] = epoch
                        candidates[kept] = candidates[j]
                        kept += 1
                found = kept
        for j in range(len(always)):
            candidates[found + j] = packed(ids[always[j]], always[j])
            if len(visits) > 0:
                visits[always[j]] += 1
        found += len(always)

        # Touched in turn, so that the processor fetches many at a time.
        for j in range(found):
            f = packed_filter(candidates[j])
            if candidates[j] & 1 == 0:
                # A filter without conditions, if it is the last, has no test at all.
                touched += tests[min(filter_offsets[f], len(tests) - 1), TEST_WHAT]
        for j in range(found):
            f = packed_filter(candidates[j])
            if len(gone) > 0 and is_gone(gone, f):
                continue
            ok = True
            c_first = 0
            c_last = 0
            if candidates[j] & 1 == 0:
                c_first = filter_offsets[f]
                c_last = filter_offsets[f + 1]
            for c in range(c_first, c_last):
                what = tests[c, TEST_WHAT]
                v = np.int64(at[what & ATTRIBUTE_MASK]) - 1
                test = what >> TEST_SHIFT
                if test <= RANGE_TESTS and (v < 0 or families[v] != BETWEEN):
                    # A range of keys of one family; most conditions are.
                    ok = v >= 0 and families[v] == test
                    ok = ok and key[v] >= tests[c, TEST_LOW] and key[v] <= tests[c, TEST_HIGH]
                elif test == SHORT_TEXT:
                    ok = v >= 0 and families[v] == STRINGS
                    ok = ok and key[v] == tests[c, TEST_LOW] and value_length[v] == tests[c, TEST_HIGH]
                elif test == SHORT_SUFFIX:
                    ok = v >= 0 and families[v] == STRINGS
                    ok = ok and tail[v] >= tests[c, TEST_LOW] and tail[v] <= tests[c, TEST_HIGH]
                elif test == SUBSTRING_TEST:
                    ok = v >= 0 and families[v] == STRINGS
                    slow += 1
                    ok = ok and occurs(
                        needles,
                        tests[c, TEST_LOW],
                        tests[c, TEST_HIGH],
                        arena,
                        value_bits[v],
                        np.int64(value_length[v]),
                    )
                elif test == LOOSE_TEXT and (
                    v < 0
                    or families[v] != STRINGS
                    or key[v] < tests[c, TEST_LOW]
                    or key[v] > tests[c, TEST_HIGH]
                ):
                    ok = False
                elif test != LOOSE_TEXT or key[v] == tests[c, TEST_LOW] or key[v] == tests[c, TEST_HIGH]:
                    slow += 1
                    ok = holds(
                        c,
                        v,
                        value_state,
                        value_bits,
                        value_length,
                        arena,
                        key,
                        low,
                        kind,
                        cut_offsets,
                        cut_high,
                        cut_low,
                        pattern_offsets,
                        pattern,
                        literal_offsets,
                        literals,
                        literal_key,
                        pattern_kind,
                        needle_offsets,
                        needles,
                        program_offsets,
                        symbols,
                        text,
                    )
                if not ok:
                    break
            if not ok:
                continue
            number = candidates[j] >> 32
            if not distinct:
                if stamp[number] == epoch:
                    continue
                stamp[number] = epoch
            out[n] = f if as_filters else number
            n += 1

        for e in range(entries_first, entries_last):
            name = np.int64(value_attribute[entries[e]])
            if name < len(flags):
                at[name] = 0
        offsets[event + 1] = n
    return len(event_start), n, epoch, 0, slow, touched
