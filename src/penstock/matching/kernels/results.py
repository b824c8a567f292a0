"""Kernels for ids and results."""

import numpy as np

from penstock.matching.kernels.jit import kernel
from penstock.matching.kernels.search import Array, find_string, hash_bytes

SHORT = 16
"""Runs of so few are sorted by insertion."""


@kernel
def intern(
    arena: Array, offsets: Array, count: int, slots: Array, text: Array, text_offsets: Array, numbers: Array
) -> int:
    """Give each string its number, a new one if it has none; returns how many strings there are then.

    The arrays have room for all of them.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(len(text_offsets) - 1):
        start = text_offsets[i]
        length = text_offsets[i + 1] - start
        found = find_string(arena, offsets, slots, text, start, length)
        if found < 0:
            found = count
            begin = offsets[count]
            for k in range(length):
                arena[begin + k] = text[start + k]
            offsets[count + 1] = begin + length
            at = hash_bytes(text, start, length) & mask
            while slots[at] != 0:
                at = (at + np.uint64(1)) & mask
            slots[at] = count + 1
            count += 1
        numbers[i] = found
    return count


@kernel
def find_all(
    arena: Array, offsets: Array, slots: Array, text: Array, text_offsets: Array, numbers: Array
) -> None:
    """The number of each string, or -1."""
    for i in range(len(text_offsets) - 1):
        start = text_offsets[i]
        numbers[i] = find_string(arena, offsets, slots, text, start, text_offsets[i + 1] - start)


@kernel
def join(
    a_offsets: Array, a_ids: Array, b_offsets: Array, b_ids: Array, stamp: Array, epoch: int
) -> tuple[Array, Array, int]:
    """The ids of two tables, event by event, each id once."""
    events = len(a_offsets) - 1
    offsets = np.zeros(events + 1, np.int64)
    ids = np.empty(len(a_ids) + len(b_ids), np.int32)
    n = 0
    for event in range(events):
        epoch += 1
        for i in range(a_offsets[event], a_offsets[event + 1]):
            ids[n] = a_ids[i]
            n += 1
            stamp[a_ids[i]] = epoch
        for i in range(b_offsets[event], b_offsets[event + 1]):
            if stamp[b_ids[i]] == epoch:
                continue
            ids[n] = b_ids[i]
            n += 1
        offsets[event + 1] = n
    return offsets, ids[:n], epoch


@kernel
def append(a_offsets: Array, a_ids: Array, b_offsets: Array, b_ids: Array) -> tuple[Array, Array]:
    """The ids of two tables that share none, event by event."""
    events = len(a_offsets) - 1
    offsets = np.zeros(events + 1, np.int64)
    ids = np.empty(len(a_ids) + len(b_ids), np.int32)
    n = 0
    for event in range(events):
        for i in range(a_offsets[event], a_offsets[event + 1]):
            ids[n] = a_ids[i]
            n += 1
        for i in range(b_offsets[event], b_offsets[event + 1]):
            ids[n] = b_ids[i]
            n += 1
        offsets[event + 1] = n
    return offsets, ids


@kernel
def sort_runs(offsets: Array, ids: Array, rank: Array) -> None:
    """Sort the ids of each event by their rank."""
    for event in range(len(offsets) - 1):
        first = offsets[event]
        last = offsets[event + 1]
        if last - first > 1:
            run = ids[first:last].copy()
            order = np.argsort(rank[run])
            for i in range(last - first):
                ids[first + i] = run[order[i]]


@kernel
def sort_places(offsets: Array, ids: Array, place: Array) -> Array:
    """The places of the ids, sorted for each event."""
    found = np.empty(len(ids), np.int64)
    for i in range(len(ids)):
        found[i] = place[ids[i]]
    for event in range(len(offsets) - 1):
        first = offsets[event]
        last = offsets[event + 1]
        if last - first > SHORT:
            found[first:last].sort()
            continue
        for i in range(first + 1, last):
            moved = found[i]
            at = i
            while at > first and found[at - 1] > moved:
                found[at] = found[at - 1]
                at -= 1
            found[at] = moved
    return found
