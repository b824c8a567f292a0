"""The second look at events: how many values fall in each bin, and how often the likely ones came."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.spark.analysis.sketches import Counted
from penstock.spark.analysis.summaries import COMMON, Summary, usable

if TYPE_CHECKING:
    import pyarrow as pa


class Question(NamedTuple):
    """What is asked about an attribute: counts for these bins, and of these values."""

    edges: NDArray[Any]
    """Of numbers, rising: [e0, e1), [e1, e2) … and the last bin with both ends; infinities fall in the outer
    bins. [v, v] where there is one value, empty where there is none, or where values are strings."""
    values: list[Any]


def question(summary: Summary, bins: int) -> Question:
    """What to ask about an attribute after a first look."""
    return Question(_edges(summary, bins), [v for v in summary.common.values.tolist() if v is not None])


def _edges(summary: Summary, bins: int) -> NDArray[Any]:
    """Edges between which about equally many values lie, as far as the sample of distinct values shows."""
    sample = summary.sample
    if summary.first is None:
        return np.empty(0, np.int64)
    dtype = sample.values.dtype
    if summary.first == summary.last:
        return np.array([summary.first, summary.last], dtype)
    ends = np.array([summary.first, summary.last], dtype)
    finite = np.flatnonzero(np.isfinite(sample.values))
    if not len(finite):
        return ends
    order = finite[np.argsort(sample.values[finite])]
    sums = np.cumsum(sample.counts[order])
    targets = sums[-1] * np.arange(1, bins) / bins
    inner = sample.values[order[np.searchsorted(sums, targets, side="right")]]
    return np.unique(np.concatenate([ends, inner]))


def answer(array: "pa.Array", asked: Question) -> NDArray[np.int64]:
    """The counts of a column of a batch: of the bins, then of the values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = usable(array).values
    counts = np.zeros(bin_count(asked) + len(asked.values), np.int64)
    if len(asked.edges):
        numbers = values.to_numpy(zero_copy_only=False)
        counts[: bin_count(asked)] = np.bincount(_bins(numbers, asked), minlength=bin_count(asked))
    if asked.values:
        places = pc.index_in(values, value_set=pa.array(asked.values, values.type)).drop_null()
        found = np.bincount(places.to_numpy(zero_copy_only=False), minlength=len(asked.values))
        counts[bin_count(asked) :] = found
    return counts


def bin_count(asked: Question) -> int:
    """How many bins there are."""
    return max(0, len(asked.edges) - 1)


def answer_from_sample(sample: Counted, asked: Question) -> NDArray[np.int64]:
    """The counts of the bins, where the sample has every value."""
    counts = np.zeros(bin_count(asked), np.int64)
    if len(counts):
        np.add.at(counts, _bins(sample.values, asked), sample.counts)
    return counts


def _bins(numbers: NDArray[Any], asked: Question) -> NDArray[np.intp]:
    return np.searchsorted(asked.edges[1:-1], numbers, side="right")


def frequencies(
    summary: Summary, asked: Question, answered: NDArray[np.int64] | None
) -> list[tuple[Any, int]]:
    """Values with their counts, the most frequent first: all of them, or those that are surely not missed."""
    if answered is None:
        pairs = zip(summary.sample.values.tolist(), summary.sample.counts.tolist(), strict=True)
    else:
        total = summary.present - summary.nan
        counts = answered[bin_count(asked) :]
        sure = np.flatnonzero(counts * (COMMON + 1) > total)
        pairs = zip([asked.values[at] for at in sure], counts[sure].tolist(), strict=True)
    found = [(value, count) for value, count in pairs if value is not None]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))
