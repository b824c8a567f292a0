"""Distinct values and how often they came, in bounded memory, from parts in any order.

Values go by a hash of 64 bits: of numbers it is a bijection, of strings two in 2**64 may be taken for one.
Two ways to keep few of many:

`smallest` keeps the values with the smallest hashes (Bar-Yossef and others, *Counting distinct elements in a
data stream*, 2002; Beyer and others, *On synopses for distinct-value estimation under multiset operations*,
2007). What is kept in the end was never dropped before, so its count is exact, and it is the same whatever
the order and the parts were: an even sample of the distinct values, and their number by how dense they lie.

`frequent` keeps those that came most often (Misra and Gries, 1982; merged as in Agarwal and others,
*Mergeable summaries*, 2012). Counts are too low by a share of at most 1 / (size + 1) of all, so whatever came
more often than that is among them.
"""

from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_HASHES: Final = 2.0**64


class Counted(NamedTuple):
    """Distinct values by rising hash, with counts."""

    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]
    values: NDArray[Any]
    """Integers, doubles or objects: strings, and None for a string that is too long to be kept."""


def hash_numbers(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hashes of 64-bit integers or doubles: the finalizer of splitmix64 over their bits."""
    bits = values.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def hash_texts(texts: list[str]) -> NDArray[np.uint64]:
    """Hashes of strings, the same in every process."""
    digests = b"".join([blake2b(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, np.uint64)


def counted(
    hashes: NDArray[np.uint64], values: NDArray[Any], counts: NDArray[np.int64] | None = None
) -> Counted:
    """Values with their hashes, each once; each came once, or so many times."""
    if counts is None:
        distinct, first, times = np.unique(hashes, return_index=True, return_counts=True)
        return Counted(distinct, times.astype(np.int64), values[first])
    distinct, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, counts)
    return Counted(distinct, sums, values[first])


def nothing(kind: str) -> Counted:
    """No value, of a dtype's kind."""
    return Counted(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, dtype=_DTYPES[kind]))


def united(a: Counted, b: Counted) -> Counted:
    """The values of both."""
    if not len(a.hashes) or not len(b.hashes):
        return b if len(b.hashes) else a
    joined = (np.concatenate(pair) for pair in zip(a, b, strict=True))
    hashes, counts, values = joined
    return counted(hashes, values, counts)


def smallest(values: Counted, size: int) -> Counted:
    """The values with the smallest hashes."""
    return Counted(values.hashes[:size], values.counts[:size], values.values[:size])


def frequent(values: Counted, size: int) -> Counted:
    """Those that came most often, with counts lowered by that of the first that is not kept."""
    if len(values.hashes) <= size:
        return values
    lowered = values.counts - np.partition(values.counts, -(size + 1))[-(size + 1)]
    kept = lowered > 0
    return Counted(values.hashes[kept], lowered[kept], values.values[kept])


def distinct_values(sample: Counted, size: int) -> tuple[int, bool]:
    """How many distinct values there were, from the `size` + 1 smallest hashes; and whether this is exact."""
    if len(sample.hashes) <= size:
        return len(sample.hashes), True
    # The size-th smallest of n even draws from 0 to 1 lies near size / n.
    return round((size - 1) * _HASHES / (float(sample.hashes[size - 1]) + 1)), False


_DTYPES: Final = {"i": np.int64, "f": np.float64, "O": np.object_}


def pack(values: Counted) -> tuple[Any, ...]:
    """As plain Python, to be sent."""
    return values.values.dtype.kind, values.hashes.tolist(), values.counts.tolist(), values.values.tolist()


def unpack(sent: tuple[Any, ...]) -> Counted:
    """What `pack` made."""
    kind, hashes, counts, values = sent
    kept: NDArray[Any] = np.empty(len(values), dtype=_DTYPES[kind])
    kept[:] = values
    return Counted(np.array(hashes, np.uint64), np.array(counts, np.int64), kept)
