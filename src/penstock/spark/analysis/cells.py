"""Cells: a block of filters looked at against a block that may cover some of it.

A *column* is one block with all the blocks it is looked at against, one after the other. For each of its
filters the nearest covers found so far are kept: those that cover none of the others. What covers one of the
others in some block is no immediate predecessor among all filters either (Salo 2010, section 5.1), so that
when all blocks have been seen, the immediate predecessors are left. The pairs of filters of which one covers
the other, nearly as many as there are pairs in some tables, are never written down.

Within a cell an index (`penstock.matching.cover_index`) finds the filters that may cover another. Shapes,
bags of them and the frontier, all of room `routing`, tell which of these are nearest. Filters that are an
interval of one attribute each (`amount > 5`) often cover one another by the thousand. They are sorted, and a
sweep finds the nearest (`penstock.matching.intervals`).

A *summary* of a block tells, for each set of attributes in it, between which bounds the ends of its shapes
lie. Where no shape within the bounds of one block can cover one within those of the other, the cell is left
out; no pair is lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters.predicate import Predicate
from penstock.matching.cover_index import CoverIndex
from penstock.matching.covered import is_exact
from penstock.matching.intervals import nearest_holding
from penstock.routing.bag import Bag, Group
from penstock.routing.frontier import innermost
from penstock.routing.shape import NEVER, NO_HULL, Key, Shape, alignment, shape_of
from penstock.routing.table import CoveringRelation, Node
from penstock.spark.analysis.predicates import decode

_FEW: Final = 512
"""In so few filters those that may cover another are found quicker by their ends than by an index."""

_CHAIN: Final = 64
"""So many filters on one attribute, an interval each, are sorted and linked, and not looked up one by one."""

_KEYS_MAX: Final = 16
"""A block with more sets of attributes is summed up by attributes alone: the driver has many to compare."""


Rows: TypeAlias = NDArray[np.intp]


class Hits(NamedTuple):
    """Rows of a group that may cover a filter."""

    group: "Group[Held]"
    rows: "list[int] | Rows"
    are_nearest: bool = False
    """Whether rows that one of these covers are left out: then all members are exact."""


class Held(Node[Predicate]):
    """A filter of a block, with the ids that have it, the smallest first."""

    __slots__ = ("ids",)

    def __init__(self, ids: list[str], item: Predicate, number: int) -> None:
        super().__init__(item, shape_of(item), number)
        self.ids = ids


class Bounds(NamedTuple):
    """Of the shapes with one key: the least and the greatest of each end."""

    key: Key
    least: tuple[float, ...]
    greatest: tuple[float, ...]


class Summary(msgspec.Struct):
    """What a block's filters have in common.

    `bounds` is None where there are too many keys. `all_demand` are the attributes that each filter demands,
    `some_demand` those that one does; `never`: one of them matches nothing, and so is covered by any.
    """

    bounds: list[Bounds] | None
    all_demand: set[str]
    some_demand: set[str]
    never: bool

    def may_cover(self, other: "Summary") -> bool:
        """False only if no filter of this block covers one of the other."""
        if other.never:
            return True
        if self.bounds is None or other.bounds is None:
            return self.all_demand <= other.some_demand
        return any(_may_cover(mine, theirs) for mine in self.bounds for theirs in other.bounds)


class Links(NamedTuple):
    """What is known of one filter: its ids, the nearest that cover it, and others that are identical."""

    ids: list[str]
    parents: list[str]
    twins: list[str]


def pack(rows: Iterable[tuple[str, bytes]]) -> tuple[bytes, bytes]:
    """A block of rows (id, predicate's bytes), each predicate once, and its summary."""
    ids: dict[bytes, list[str]] = {}
    for name, data in rows:
        ids.setdefault(data, []).append(name)
    block = msgspec.msgpack.encode([(sorted(names), data) for data, names in ids.items()])
    return block, msgspec.msgpack.encode(summarise(shape_of(decode(data)) for data in ids))


def unpack(block: bytes) -> list[Held]:
    """The filters of a block."""
    rows = msgspec.msgpack.decode(block, type=list[tuple[list[str], bytes]])
    return [Held(ids, decode(data), number) for number, (ids, data) in enumerate(rows)]


def read_summary(data: bytes) -> Summary:
    """The summary that `pack` wrote."""
    return msgspec.msgpack.decode(data, type=Summary)


def summarise(shapes: Iterable[Shape]) -> Summary:
    """The summary of filters with these shapes, of which there is one at least."""
    bounds: dict[Key, tuple[list[float], list[float]]] = {}
    for shape in shapes:
        known = bounds.get(shape.key)
        if known is None:
            bounds[shape.key] = list(shape.ends), list(shape.ends)
        else:
            least, greatest = known
            least[:] = map(min, least, shape.ends)
            greatest[:] = map(max, greatest, shape.ends)
    demands = [{name for name, _family in key} for key in bounds if key != NEVER.key]
    return Summary(
        [Bounds(key, tuple(a), tuple(b)) for key, (a, b) in bounds.items()]
        if len(bounds) <= _KEYS_MAX
        else None,
        set.intersection(*demands) if demands else set(),
        set().union(*demands),
        NEVER.key in bounds,
    )


def cells(summaries: Sequence[Summary]) -> list[tuple[int, int]]:
    """Pairs of blocks (covered, covering) to look at, each block with itself among them."""
    return [
        (special, general)
        for special, theirs in enumerate(summaries)
        for general, mine in enumerate(summaries)
        if special == general or mine.may_cover(theirs)
    ]


class Column:
    """A block, and what covers its filters in the blocks seen so far, its own the first."""

    def __init__(self, block: bytes) -> None:
        self.relation: CoveringRelation[Predicate] = CoveringRelation(None, None)
        self._filters = unpack(block)
        self._parents: list[list[Held]] = [[] for _ in self._filters]
        self._twins: list[list[Held]] = [[] for _ in self._filters]
        self._look(self._filters)

    def against(self, block: bytes) -> None:
        """Look for covers in another block."""
        self._look(unpack(block))

    def links(self) -> list[Links]:
        """What has been found of each filter."""
        return [
            Links(f.ids, sorted(p.ids[0] for p in parents), sorted(t.ids[0] for t in twins))
            for f, parents, twins in zip(self._filters, self._parents, self._twins, strict=True)
        ]

    def _look(self, filters: list[Held]) -> None:
        for at, (f, hits) in enumerate(zip(self._filters, _hits(self._filters, filters), strict=True)):
            found, same = self._covers_of(f, hits)
            self._twins[at] += same
            if found:
                self._parents[at] = self._nearest(self._parents[at] + found)

    def _covers_of(self, f: Held, groups: Iterable[Hits]) -> tuple[list[Held], list[Held]]:
        """Of those that may cover a filter, those that do and are not identical, and those that are.

        Of the former, some that cover others may be missing.
        """
        found: list[Held] = []
        same: list[Held] = []
        for group, hits, are_nearest in groups:
            rows = np.asarray(hits)
            if f.group is group:
                rows = rows[rows != f.row]
            if f.shape.exact and not group.loose:
                found += _innermost(group, rows)
                continue
            if are_nearest and not all(self._is_above(group.members[row], f) for row in rows.tolist()):
                # What was left out is covered by one that does not cover the filter after all.
                rows = np.asarray(group.covering(f.shape))
            for row in rows.tolist():
                other = group.members[row]
                if self.relation.confirms(other, f):
                    (same if self.relation.holds(f, other) else found).append(other)
        return found, same

    def _nearest(self, found: list[Held]) -> list[Held]:
        """Those that cover none of the others, but for identical ones."""
        if len(found) < 2:
            return found
        key = found[0].shape.key
        if all(f.shape.exact and f.shape.key == key for f in found):
            return [found[at] for at in innermost(np.array([f.shape.ends for f in found]).T)]
        # Those with many conditions first: they are mostly the nearest, and the others cover one of them.
        nearest: list[Held] = []
        compared: list[Held] = []
        for f in sorted(found, key=_generality):
            is_above = any(self._is_above(f, other) for other in compared)
            if not is_above:
                nearest.append(f)
            if not (is_above and is_exact(f.item)):
                # What covers it need not be known to cover what it covers.
                compared.append(f)
        for f in list(nearest):
            # One at a time, so that where covering is only sound a circle leaves one of its members.
            if any(self._is_above(f, other) for other in nearest):
                nearest.remove(f)
        return nearest

    def _is_above(self, a: Held, b: Held) -> bool:
        return a is not b and self.relation.holds(a, b) and not self.relation.holds(b, a)


def _generality(f: Held) -> int:
    """Smaller for filters that ask for more."""
    return -max((len(one.conditions) for one in f.item.filters), default=0)


def _hits(specials: list[Held], generals: list[Held]) -> Iterator[Iterable[Hits]]:
    """For each filter, the groups and rows of those that may cover it."""
    bag: Bag[Held] = Bag()
    for general in generals:
        bag.add(general)
    if len(generals) <= _FEW:
        yield from ([Hits(*hit) for hit in bag.covering(special.shape)] for special in specials)
        return
    groups = {general.shape.key: cast("Group[Held]", general.group) for general in generals}
    chains = {key[0]: _Chain(group) for key, group in groups.items() if _is_chain(group)}
    names = {name for name, _family in chains}
    # What has no interval on the attribute of a chain is looked up after all.
    apart: list[int] = []
    for at, special in enumerate(specials):
        for place, pair in enumerate(special.shape.key):
            if pair in chains:
                chains[pair].ask(at, special, place)
        if special.shape.key == NEVER.key or any(
            name in names for name, family in special.shape.key if family == NO_HULL
        ):
            apart.append(at)
    for chain in chains.values():
        chain.link()
    linked = [member for chain in chains.values() for member in chain.group.members]
    rest = [general for general in generals if not _is_linked(general, chains)]
    found = iter(_looked_up([specials[at] for at in apart], linked if apart else []))
    turns = iter([*apart, -1])
    turn = next(turns)
    for at, hits in enumerate(_looked_up(specials, rest)):
        key = specials[at].shape.key
        hits += [chains[pair].hits(at) for pair in key if pair in chains]
        if at == turn:
            hits += [hit for hit in next(found) if hit.group.key[0] not in key]
            turn = next(turns)
        yield hits


def _is_linked(f: Held, chains: "dict[tuple[str, int], _Chain]") -> bool:
    return len(f.shape.key) == 1 and f.shape.key[0] in chains


def _is_chain(group: Group[Held]) -> bool:
    """Whether all filters of a group are intervals of one attribute, and many."""
    return len(group.key) == 1 and group.key != NEVER.key and not group.loose and len(group.members) > _CHAIN


class _Chain:
    """Filters that are an interval each of one attribute; and which are the nearest that cover others."""

    def __init__(self, group: Group[Held]) -> None:
        self.group = group
        self._asked: dict[int, int] = {}
        self._ends: list[tuple[float, ...]] = []
        self._own: list[int] = []
        self._offsets = self._rows = np.zeros(1, np.int64)

    def ask(self, at: int, special: Held, place: int) -> None:
        """Ask what covers a filter, by its ends on the attribute, which is at some place of its key."""
        self._asked[at] = len(self._ends)
        self._ends.append(special.shape.ends[2 * place : 2 * place + 2])
        self._own.append(special.row if special.group is self.group else -1)

    def link(self) -> None:
        """Answer all questions at once."""
        known = np.array([member.shape.ends for member in self.group.members]).T
        asked = np.array(self._ends).reshape(-1, 2).T
        self._offsets, self._rows = nearest_holding(known, asked, np.array(self._own, np.int64))

    def hits(self, at: int) -> Hits:
        """The answer."""
        asked = self._asked[at]
        return Hits(self.group, self._rows[self._offsets[asked] : self._offsets[asked + 1]], True)


def _looked_up(specials: list[Held], generals: list[Held]) -> Iterator[list[Hits]]:
    """For each filter, the groups and rows of those that may cover it, by an index."""
    if not generals:
        yield from ([] for _ in specials)
        return
    groups: dict[Key, Group[Held]] = {}
    row_of = np.empty(len(generals), np.int64)
    for at, general in enumerate(generals):
        groups.setdefault(general.shape.key, cast("Group[Held]", general.group))
        row_of[at] = general.row
    numbers = {key: number for number, key in enumerate(groups)}
    group_of = np.array([numbers[general.shape.key] for general in generals], np.int64)
    known = list(groups.values())
    index = CoverIndex([general.item for general in generals])
    for special, found in zip(specials, index.candidates(f.item for f in specials), strict=True):
        some = group_of[found]
        yield [
            Hits(group, rows)
            for number in np.unique(some).tolist()
            for group in (known[number],)
            if len(rows := group.covering_among(special.shape, row_of[found[some == number]]))
        ]


def _innermost(group: Group[Held], rows: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> list[Held]:
    """The members in these rows that cover none of the others, or all where they are few."""
    if group.ends is not None and len(rows) > 1:
        rows = rows[innermost(group.ends[:, rows])]
    return [group.members[row] for row in rows.tolist()]


def _may_cover(f: Bounds, g: Bounds) -> bool:
    """False only if nothing within the bounds of `f` covers anything within those of `g`."""
    pairs = alignment(f.key, g.key)
    return pairs is not None and all(f.least[i] <= g.greatest[j] for i, j in pairs)
