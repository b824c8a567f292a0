"""The multi-operator index for string constraints: Carzaniga and Wolf (2002), §4.2 and figure 5.

One ternary search trie for each attribute, over the UTF-8 bytes of the words that its constraints compare
with (whose order is that of the strings). A constraint hangs on

- a partial match, reached by consuming the word's last byte: prefix and substring;
- a complete match, the leaf under the terminator that follows: =, <, > and suffix.

Leaves are linked by two chains, to the nearest less-than constraint after them and the nearest greater-than
constraint before them. `kernels.counting` walks all this; here it is laid out.

What differs from the paper: a word that only prefix or substring constraints use has a leaf nevertheless.
Every branch then ends in a leaf, and the backtrack to the closest one never goes up a second time.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

OPERATOR_COUNT: Final = 6
"""Operators on strings; bit `o` of an entry's mask says that operator `o` is used with the word."""


class SortedStrings(NamedTuple):
    """Distinct strings in their order, as bytes; `rank[i]` is the place of the i-th string given."""

    rank: NDArray[np.int64]
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    @property
    def distinct(self) -> int:
        """How many distinct strings there are."""
        return len(self.offsets) - 1


class Tries(NamedTuple):
    """Ternary search tries side by side in one set of node arrays; -1 stands for none.

    Trie `t` starts at node `root[t]`. A node has its character (a byte plus one; 0 is the terminator), its
    children and the entry that ends with it (`partial`); under a terminator, `eq` is the entry of the leaf.
    `root_partial[t]` is the entry of the empty word.
    """

    root: NDArray[np.int32]
    root_partial: NDArray[np.int32]
    char: NDArray[np.int16]
    lo: NDArray[np.int32]
    eq: NDArray[np.int32]
    hi: NDArray[np.int32]
    partial: NDArray[np.int32]


class StringIndex(NamedTuple):
    """The tries of all attributes, and what hangs on them.

    An entry is one word of one attribute; entries are in alphabetical order within their attribute. Its
    constraints are numbered from `first` on, in the order of the operators, one for each bit of `mask`;
    `bounds[a]` is the first constraint of attribute `a`.
    """

    tries: Tries
    bounds: NDArray[np.int64]
    first: NDArray[np.int32]
    mask: NDArray[np.uint8]
    next_less: NDArray[np.int32]
    next_greater: NDArray[np.int32]


def sorted_strings(strings: Sequence[str]) -> SortedStrings:
    """Sort strings, telling equal ones apart no more."""
    encoded = [string.encode() for string in strings]
    distinct = sorted(set(encoded))
    place = {string: rank for rank, string in enumerate(distinct)}
    offsets = np.zeros(len(distinct) + 1, dtype=np.int64)
    np.cumsum([len(string) for string in distinct], out=offsets[1:])
    rank = np.array([place[string] for string in encoded], dtype=np.int64)
    # bytearray: the kernels are compiled for writeable arrays.
    return SortedStrings(rank, offsets, np.frombuffer(bytearray(b"".join(distinct)), dtype=np.uint8))


def build_string_index(
    keys: NDArray[np.int64], first_id: int, attributes: int, words: SortedStrings
) -> StringIndex:
    """Index constraints given as distinct ascending keys: (attribute * words + word) * operators + operator.

    They are numbered from `first_id` on.
    """
    from penstock.matching.kernels.tries import link_chains

    entry_keys, starts = np.unique(keys // OPERATOR_COUNT, return_index=True)
    bits = np.left_shift(1, keys % OPERATOR_COUNT)
    mask = np.add.reduceat(bits, starts) if len(starts) else bits
    every = np.arange(attributes + 1, dtype=np.int64) * words.distinct
    entry_bounds = np.searchsorted(entry_keys, every).astype(np.int64)
    mask = mask.astype(np.uint8)
    next_less, next_greater = link_chains(entry_bounds, mask)
    return StringIndex(
        tries=build_tries(entry_bounds, (entry_keys % max(words.distinct, 1)).astype(np.int32), words),
        bounds=np.searchsorted(keys, every * OPERATOR_COUNT) + first_id,
        first=(starts + first_id).astype(np.int32),
        mask=mask,
        next_less=next_less,
        next_greater=next_greater,
    )


def build_tries(bounds: NDArray[np.int64], words: NDArray[np.int32], strings: SortedStrings) -> Tries:
    """Build trie `t` over the entries `bounds[t]:bounds[t + 1]`, of which entry `e` is string `words[e]`."""
    from penstock.matching.kernels import tries

    root, root_partial, nodes, *columns = tries.build(bounds, words, strings.offsets, strings.data)
    return Tries(root, root_partial, *(column[:nodes].copy() for column in columns))
