"""The names of attributes that are wanted, as a trie over the parts between dots.

The edges are in one hash table; `index_names` builds it. So `{"a": {"b": 1}}` and `{"a.b": 1}` come to the
same node.
"""

from typing import Final

from penstock.matching.kernels.jit import ZERO, inlined, kernel, outlined
from penstock.matching.kernels.json_blocks import (
    BLOCK,
    Bytes,
    Ints,
    Longs,
    differences,
    dots_in,
    lowest_bit,
    pointer_to,
    word_at,
)

Trie = tuple[Ints, int, Longs, Bytes]
"""The slots of the hash table, their number less one, the nodes, the bytes of the names."""

NODE_WIDTH: Final = 6
"""The numbers of a node of the trie: where its part of a name starts, that part's length, its hash, the
parent, the attribute that it is (or -1), and whether it has children."""

_PART, _LENGTH, _HASH, _PARENT, NODE_ATTRIBUTE, NODE_INNER = range(NODE_WIDTH)
ROOT: Final = ZERO
UNWANTED: Final = -1

_HASH_FACTOR: Final = -7046029254386353131


@outlined
def _hash(text: Bytes, at: int, stop: int, parent: int) -> int:
    value = (parent + 1) * _HASH_FACTOR
    while at + 8 <= stop:
        value = (value ^ word_at(text, at)) * _HASH_FACTOR
        value ^= value >> 31
        at += 8
    if at < stop:
        value = (value ^ (word_at(text, at) & ((1 << 8 * (stop - at)) - 1))) * _HASH_FACTOR
        value ^= value >> 31
    return value


@inlined
def is_same(one: Bytes, at: int, other: Bytes, there: int, length: int) -> bool:
    """Whether so many bytes of two texts are the same."""
    while length > BLOCK:
        if differences(one, at, other, there) != 0:
            return False
        at += BLOCK
        there += BLOCK
        length -= BLOCK
    return bool(differences(one, at, other, there) & ((1 << length) - 1) == 0)


@outlined
def _slot(text: Bytes, at: int, stop: int, parent: int, value: int, trie: Trie) -> int:
    """Where in the table the child of a node is, or would be."""
    slots, slot_mask, nodes, names = trie
    slot = value & slot_mask
    while slots[slot] >= 0:
        node = slots[slot] * NODE_WIDTH
        if (
            nodes[node + _HASH] == value
            and nodes[node + _PARENT] == parent
            and nodes[node + _LENGTH] == stop - at
            and is_same(text, at, names, nodes[node + _PART], stop - at)
        ):
            break
        slot = (slot + 1) & slot_mask
    return slot


@outlined
def _part_end(text: Bytes, at: int, stop: int) -> int:
    """Where the part of a name that starts here ends: at a dot, or where the name does."""
    while at < stop:
        bits = dots_in(text, at)
        if bits != 0:
            at += lowest_bit(bits)
            break
        at += BLOCK
    return min(at, stop)


@kernel
def index_names(names: Bytes, name_stop: Longs, slots: Ints, nodes: Longs) -> int:
    """Build the trie of names that are laid end to end; return how many nodes it has.

    `slots` is full of -1, a power of two long, and at least twice as long as there are parts of names.
    """
    text = pointer_to(names)
    trie = (pointer_to(slots), slots.size - 1, pointer_to(nodes), text)
    nodes[_PARENT] = UNWANTED
    nodes[NODE_ATTRIBUTE] = UNWANTED
    size = 1
    at = 0
    for attribute in range(name_stop.size):
        stop = name_stop[attribute]
        node = ROOT
        end = at - 1
        while end < stop:
            at = end + 1
            end = _part_end(text, at, stop)
            value = _hash(text, at, end, node)
            slot = _slot(text, at, end, node, value, trie)
            if slots[slot] < 0:
                slots[slot] = size
                nodes[size * NODE_WIDTH + _PART] = at
                nodes[size * NODE_WIDTH + _LENGTH] = end - at
                nodes[size * NODE_WIDTH + _HASH] = value
                nodes[size * NODE_WIDTH + _PARENT] = node
                nodes[size * NODE_WIDTH + NODE_ATTRIBUTE] = UNWANTED
                size += 1
            nodes[node * NODE_WIDTH + NODE_INNER] = 1
            node = slots[slot]
        nodes[node * NODE_WIDTH + NODE_ATTRIBUTE] = attribute
        at = stop
    return size


@outlined
def find_node(text: Bytes, at: int, stop: int, parent: int, trie: Trie) -> int:
    """The node of a name, seen from that of the object which it stands in, or UNWANTED."""
    slots = trie[0]
    node: int = parent
    while True:
        end = _part_end(text, at, stop)
        value = _hash(text, at, end, node)
        node = slots[_slot(text, at, end, node, value, trie)]
        if node < 0 or end == stop:
            return node
        at = end + 1
