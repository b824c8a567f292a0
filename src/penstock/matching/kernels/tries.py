"""Kernels that lay out ternary search tries: see `matching.strings_index`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.matching.kernels.jit import inlined, kernel

LESS_BIT = 1 << 1
GREATER_BIT = 1 << 2
TERMINATOR = 0


@inlined
def _char(words: Any, offsets: Any, data: Any, entry: int, depth: int) -> Any:
    """The character of an entry's word at a depth: a byte plus one, or the terminator at its end."""
    place = offsets[words[entry]] + depth
    return TERMINATOR if place == offsets[words[entry] + 1] else np.int64(data[place]) + 1


@inlined
def _first_at_least(words: Any, offsets: Any, data: Any, low: int, high: int, depth: int, char: int) -> int:
    """The first entry of a sorted stretch whose character at a depth is not below one."""
    while low < high:
        middle = (low + high) // 2
        if _char(words, offsets, data, middle, depth) < char:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _push(stack: Any, height: int, low: int, high: int, depth: int, link: int) -> int:
    """Put a stretch of entries on the stack, unless it is empty; return the new height."""
    if low == high:
        return height
    stack[4 * height] = low
    stack[4 * height + 1] = high
    stack[4 * height + 2] = depth
    stack[4 * height + 3] = link
    return height + 1


@inlined
def _rooms(bounds: Any, words: Any, offsets: Any) -> Any:
    """How many nodes all tries, and the largest of them, may need: no word shares a node with another."""
    total, largest = np.int64(0), np.int64(0)
    for t in range(bounds.size - 1):
        needed = np.int64(0)
        for entry in range(bounds[t], bounds[t + 1]):
            needed += offsets[words[entry] + 1] - offsets[words[entry]] + 1
        total += needed
        largest = max(largest, needed)
    return total, largest


@kernel
def build(
    bounds: NDArray[np.int64], words: NDArray[np.int32], offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> tuple[Any, ...]:
    """Build a trie over each stretch of sorted distinct entries: roots, number of nodes, node arrays.

    Each node takes the character of its stretch's middle entry, which keeps the siblings balanced. The node
    arrays are longer than the number of nodes; the caller cuts them.
    """
    tries = bounds.size - 1
    room, largest = _rooms(bounds, words, offsets)
    root = np.full(tries, -1, np.int32)
    root_partial = np.full(tries, -1, np.int32)
    char = np.empty(room, np.int16)
    partial = np.full(room, -1, np.int32)
    # lo, eq and hi one after another, so that a link to a child is one number.
    children = np.full(3 * room, -1, np.int32)
    # Stretches still to be built: their ends, their depth, and the link that shall lead to them. Each node
    # takes one from the stack and puts three there at most.
    stack = np.empty(4 * (2 * largest + 1), np.int64)
    nodes = 0
    for t in range(tries):
        height = _push(stack, 0, bounds[t], bounds[t + 1], 0, -1)
        if height == 0:
            continue
        root[t] = nodes
        if _char(words, offsets, data, bounds[t], 0) == TERMINATOR:
            root_partial[t] = bounds[t]
        while height > 0:
            height -= 1
            low, high = stack[4 * height], stack[4 * height + 1]
            depth, link = stack[4 * height + 2], stack[4 * height + 3]
            here = _char(words, offsets, data, (low + high) // 2, depth)
            begin = _first_at_least(words, offsets, data, low, high, depth, here)
            end = _first_at_least(words, offsets, data, begin, high, depth, here + 1)
            char[nodes] = here
            if link >= 0:
                children[link] = nodes
            height = _push(stack, height, end, high, depth, 2 * room + nodes)
            height = _push(stack, height, low, begin, depth, nodes)
            if here == TERMINATOR:
                children[room + nodes] = begin
            else:
                if _char(words, offsets, data, begin, depth + 1) == TERMINATOR:
                    partial[nodes] = begin
                height = _push(stack, height, begin, end, depth + 1, room + nodes)
            nodes += 1
    lo, eq, hi = children[:room], children[room : 2 * room], children[2 * room :]
    return root, root_partial, nodes, char, lo, eq, hi, partial


@kernel
def link_chains(
    bounds: NDArray[np.int64], mask: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For each entry, the nearest one after it with a less-than, before it with a greater-than constraint."""
    next_less = np.full(mask.size, -1, np.int32)
    next_greater = np.full(mask.size, -1, np.int32)
    for t in range(bounds.size - 1):
        nearest = -1
        for entry in range(bounds[t], bounds[t + 1]):
            next_greater[entry] = nearest
            if mask[entry] & GREATER_BIT:
                nearest = entry
        nearest = -1
        for entry in range(bounds[t + 1] - 1, bounds[t] - 1, -1):
            next_less[entry] = nearest
            if mask[entry] & LESS_BIT:
                nearest = entry
    return next_less, next_greater
