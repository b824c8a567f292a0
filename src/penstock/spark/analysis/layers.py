"""From the nearest covers of each filter to the poset: identical filters in one place, and layers.

A filter's layer is the length of the longest chain of covers above it: roots have 0, and the greatest is one
less than the `depth` of the poset of room `routing`.

All is arithmetic on arrays, one number a link, so that the links of millions of filters fit one task.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Numbers = NDArray[np.int64]

_ROWS: Final = 2**14
"""Rows of a batch that is handed on."""


class Poset(NamedTuple):
    """Filters by number.

    `label[i]` is the smallest that is identical with i. Only labels have a layer, and links: child[k] is
    right below parent[k]. Links are in the order of children, then of parents.
    """

    label: Numbers
    child: Numbers
    parent: Numbers
    layer: Numbers


def poset_of(count: int, links: tuple[Numbers, Numbers], twins: tuple[Numbers, Numbers]) -> Poset:
    """The poset of so many filters, given links (child, parent) to nearest covers, and identical pairs."""
    label = _joined(np.arange(count), zip(*(ends.tolist() for ends in twins), strict=True))
    while True:
        both = np.unique(label[links[0]] * count + label[links[1]])
        child, parent = both // max(count, 1), both % max(count, 1)
        child, parent = child[child != parent], parent[child != parent]
        layer = _layers(label, child, parent)
        stuck = (layer[child] < 0) & (layer[parent] < 0)
        if not stuck.any():
            return Poset(label, child, parent, layer)
        # Covering is only sound for patterns: filters in a circle are identical, though not known to be.
        pairs = zip(child[stuck].tolist(), parent[stuck].tolist(), strict=True)
        label = _joined(label, _circles(pairs))


def rows_of(links: "pa.Table") -> "Iterator[pa.RecordBatch]":
    """The rows of the job's answer, given a table of `cells.Links`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    many = pa.large_list(pa.large_string())
    columns = {name: links[name].cast(many).combine_chunks() for name in ("ids", "parents", "twins")}
    order = pc.sort_indices(pc.list_element(columns["ids"], 0))
    ids, parents, twins = (columns[name].take(order) for name in ("ids", "parents", "twins"))
    # Filters are numbered as their smallest ids are ordered, so that the smallest number has the smallest id.
    names = pc.list_element(ids, 0)
    found = poset_of(len(names), _pairs(parents, names), _pairs(twins, names))
    counts = np.bincount(found.child, minlength=len(names))
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int64())
    above = pa.LargeListArray.from_arrays(offsets, names.take(pa.array(found.parent)))
    flat, owner = pc.list_flatten(ids), np.asarray(pc.list_parent_indices(ids), np.int64)
    for start in range(0, len(flat), _ROWS):
        part = flat.slice(start, _ROWS)
        label = found.label[owner[start : start + _ROWS]]
        shown = names.take(pa.array(label))
        represents = pc.equal(part, shown)
        layer = found.layer[label]
        arrays = [
            part.cast(pa.string()),
            above.take(pa.array(label)).cast(pa.list_(pa.string())),
            pa.array(layer, pa.int32()),
            pc.and_(represents, pa.array(layer == 0)),
            pc.if_else(represents, pa.scalar(None, pa.large_string()), shown).cast(pa.string()),
        ]
        yield pa.record_batch(arrays, names=["id", "parents", "layer", "root", "same_as"])


def _pairs(lists: "pa.LargeListArray", names: "pa.LargeStringArray") -> tuple[Numbers, Numbers]:
    """The number of each list, and that of each name in it."""
    import pyarrow.compute as pc

    at = pc.index_in(pc.list_flatten(lists), value_set=names)
    return np.asarray(pc.list_parent_indices(lists), np.int64), np.asarray(at, np.int64)


def _joined(label: Numbers, pairs: Iterable[tuple[int, int]]) -> Numbers:
    """Labels under which the two of each pair, and all that had theirs, are one; the smallest stands."""
    top: dict[int, int] = {}

    def find(at: int) -> int:
        while at in top:
            at = top[at]
        return at

    for a, b in pairs:
        a, b = sorted((find(int(label[a])), find(int(label[b]))))
        if a != b:
            top[b] = a
    if not top:
        return label
    moved = np.arange(len(label))
    for at in top:
        moved[at] = find(at)
    return moved[label]


def _layers(label: Numbers, child: Numbers, parent: Numbers) -> Numbers:
    """The longest way up from each label, by taking off roots; -1 where there is a circle above."""
    count = len(label)
    layer = np.full(count, -1)
    order = np.argsort(parent, kind="stable")
    below = child[order]
    starts = np.concatenate(([0], np.cumsum(np.bincount(parent, minlength=count))))
    waiting = np.bincount(child, minlength=count)
    found = np.flatnonzero((waiting == 0) & (label == np.arange(count)))
    depth = 0
    while len(found):
        layer[found] = depth
        depth += 1
        lengths = starts[found + 1] - starts[found]
        first = np.repeat(starts[found] - np.cumsum(lengths) + lengths, lengths)
        reached, times = np.unique(below[first + np.arange(len(first))], return_counts=True)
        waiting[reached] -= times
        found = reached[waiting[reached] == 0]
    return layer


def _circles(links: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Pairs that tie together what is on one circle: strongly connected components, after Tarjan 1972."""
    above: dict[int, list[int]] = {}
    for a, b in links:
        above.setdefault(a, []).append(b)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: dict[int, None] = {}
    for start in above:
        if start in index:
            continue
        work = [(start, iter(above[start]))]
        index[start] = low[start] = len(index)
        path[start] = None
        while work:
            at, rest = work[-1]
            following = next((b for b in rest if b not in index or b in path), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    while (member := path.popitem()[0]) != at:
                        yield at, member
            elif following in index:
                low[at] = min(low[at], index[following])
            else:
                index[following] = low[following] = len(index)
                path[following] = None
                work.append((following, iter(above.get(following, ()))))
