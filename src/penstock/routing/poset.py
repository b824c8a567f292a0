"""The Siena filters poset: every filter with those that immediately cover it and that it immediately covers.

Salo 2010, section 5.1, after Carzaniga, Rosenblum, Wolf 2001 [CRW01]. One implementation for subscriptions
and for advertisements: it is generic over its items, which have a covering relation.

What differs from the paper:

- Adding an entry does not walk the graph from the roots. The shapes of all entries are compared with the
  new one at once (see `bag`), which gives all that may cover it; of those the immediate predecessors are
  they of whose immediate successors none covers it. Where shapes are exact, the nearest of them are told by
  comparing them with one another (see `frontier`), without a covering test and without looking at any link.
- Deleting connects a predecessor p of the deleted entry with a successor s unless p covers another
  immediate predecessor of s, which is the same as that an immediate successor of p covers s.
- Identical items in different representation share an entry. Its `item` is the first of those still in the
  table.
- Covering is only sound for some patterns, so the algebra may know that p covers f, f covers s and s covers
  p, but not that f covers p. All are identical then, and share an entry: a circle would have no root.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

import numpy as np

from penstock.routing.bag import Bag
from penstock.routing.frontier import covering_any, innermost, outermost
from penstock.routing.shape import Shape
from penstock.routing.table import Change, CoveringRelation, Node, T, in_order, unknown

I = TypeVar("I", bound=Hashable)  # noqa: E741 - the papers' letter for an interface


class Entry(Node[T], Generic[T, I]):
    """An item with its immediate predecessors and successors.

    `held` counts references by representation, `subscribers` are the interfaces that subscribed.
    """

    __slots__ = ("held", "predecessors", "subscribers", "successors")

    def __init__(self, item: T, shape: Shape, number: int) -> None:
        super().__init__(item, shape, number)
        self.predecessors: set[Entry[T, I]] = set()
        self.successors: set[Entry[T, I]] = set()
        self.held: dict[T, int] = {}
        self.subscribers: set[I] = set()


Known = dict[tuple[Entry[T, I], Entry[T, I]], bool]


class FiltersPoset(Generic[T, I]):
    """The Siena filters poset of items T: a `CoveringTable`, and the routing table of interfaces I.

    `covers` and `shape` are for items that are not predicates. `shape(a)` may only be exact where it
    tells all about `a`; see `penstock.routing.shape`. How a router uses it: `penstock.routing.siena`.
    """

    def __init__(
        self, *, covers: Callable[[T, T], bool] | None = None, shape: Callable[[T], Shape] | None = None
    ) -> None:
        self.covering = CoveringRelation(covers, shape)
        self._entries: dict[T, Entry[T, I]] = {}
        self._bag: Bag[Entry[T, I]] = Bag()
        self._roots: dict[Entry[T, I], None] = {}
        self._number = 0

    def add(self, item: T) -> Change[T]:
        """Add an item, or a reference to it. Where an identical one is there, they share its entry."""
        known = self._entries.get(item)
        change: Change[T] = Change()
        if known is None:
            known, change = self._find_or_insert(item)
            self._entries[item] = known
        known.held[item] = known.held.get(item, 0) + 1
        return change

    def remove(self, item: T) -> Change[T]:
        """Remove a reference to an item, and with the last one the item.

        A root that goes while an identical item remains hands its place over: one falls, the other rises.
        """
        entry = self._entries.get(item)
        if entry is None or item not in entry.held:
            raise unknown(item)
        entry.held[item] -= 1
        if entry.held[item]:
            return Change()
        del entry.held[item]
        if not entry.held and not entry.subscribers:
            return self._delete(entry)
        if item != entry.item:
            del self._entries[item]
        elif entry.held:
            return self._hand_over(entry)
        return Change()

    def roots(self) -> list[T]:
        """The root set, in the order in which the items came."""
        return [entry.item for entry in in_order(self._roots)]

    def immediate_predecessors(self, item: T) -> list[T]:
        """ImPred: the items that cover this one with none between, in the order in which they came."""
        return [entry.item for entry in in_order(self.entry(item).predecessors)]

    def immediate_successors(self, item: T) -> list[T]:
        """ImSucc: the items that this one covers with none between, in the order in which they came."""
        return [entry.item for entry in in_order(self.entry(item).successors)]

    def entry(self, item: T) -> Entry[T, I]:
        """The entry of an item in the representation in which it was added."""
        entry = self._entries.get(item)
        if entry is None:
            raise unknown(item)
        return entry

    def entries(self) -> Iterable[Entry[T, I]]:
        """All entries, in no order."""
        return self._bag

    def depth(self) -> int:
        """How many entries the longest chain has, from a root down."""
        waiting = {entry: len(entry.predecessors) for entry in self._bag}
        layer, depth = list(self._roots), 0
        while layer:
            depth += 1
            following = []
            for entry in layer:
                for successor in entry.successors:
                    waiting[successor] -= 1
                    if not waiting[successor]:
                        following.append(successor)
            layer = following
        return depth

    @property
    def tests(self) -> int:
        """How often a full covering test was made."""
        return self.covering.tests

    def __len__(self) -> int:
        return len(self._bag)

    def __iter__(self) -> Iterator[T]:
        return (entry.item for entry in self._bag)

    def __contains__(self, item: object) -> bool:
        return item in self._entries

    def _find_or_insert(self, item: T) -> tuple[Entry[T, I], Change[T]]:
        """The entry of an identical item, or a new one between its predecessors and successors."""
        new: Entry[T, I] = Entry(item, self.covering.shape(item), self._number)
        twin, above, below = self._place_of(new)
        if twin is not None:
            return twin, Change()
        self._number += 1
        if above and below:
            for entry in above:
                entry.successors -= below
            for entry in below:
                entry.predecessors -= above
        fallen = in_order(entry for entry in below if entry in self._roots)
        for entry in fallen:
            del self._roots[entry]
        for entry in above:
            entry.successors.add(new)
        for entry in below:
            entry.predecessors.add(new)
        new.predecessors, new.successors = above, below
        if not above:
            self._roots[new] = None
        self._bag.add(new)
        self._entries[item] = new
        risen = () if above else (item,)
        return new, Change(risen, tuple(entry.item for entry in fallen))

    def _place_of(self, new: Entry[T, I]) -> tuple[Entry[T, I] | None, set[Entry[T, I]], set[Entry[T, I]]]:
        """An identical entry, or ImPred and ImSucc."""
        above, sure_above = self._nearest(new, upward=True)
        # Between exact shapes an identical entry is the nearest, and hides all others.
        if len(above) == 1 or not sure_above:
            for entry in in_order(above):
                if self.covering.holds(new, entry):
                    return entry, above, set()
        below, sure_below = self._nearest(new, upward=False)
        if not (sure_above and sure_below) and above and below:
            circle = below & self._all_above(above)
            if circle:
                return in_order(circle)[0], above, below
        return None, above, below

    def _nearest(self, new: Entry[T, I], *, upward: bool) -> tuple[set[Entry[T, I]], bool]:
        """ImPred or ImSucc of a new entry, and whether shapes alone told."""
        covering = self.covering
        hits = self._bag.covering(new.shape) if upward else self._bag.covered(new.shape)
        covering.ruled_out += len(self._bag) - sum(len(rows) for _group, rows in hits)
        exact = [new.shape.exact and not group.loose and group.ends is not None for group, _rows in hits]
        candidates: list[Entry[T, I]] = []
        for (group, rows), sure in zip(hits, exact, strict=True):
            if sure and group.ends is not None and len(rows) > 1:
                covering.decided += len(rows)
                near = (innermost if upward else outermost)(group.ends[:, rows])
                rows = np.asarray(rows)[near]
            members = group.members
            candidates += [members[row] for row in (rows if isinstance(rows, list) else rows.tolist())]
        if len(hits) <= 1 and all(exact):
            return set(candidates), True
        known: dict[Entry[T, I], bool] = {}

        def related(entry: Entry[T, I]) -> bool:
            answer = known.get(entry)
            if answer is None:
                answer = covering.holds(entry, new) if upward else covering.holds(new, entry)
                known[entry] = answer
            return answer

        found = [entry for entry in candidates if related(entry)]
        if upward:
            return {entry for entry in found if not any(map(related, entry.successors))}, False
        return {entry for entry in found if not any(map(related, entry.predecessors))}, False

    def _all_above(self, entries: Iterable[Entry[T, I]]) -> set[Entry[T, I]]:
        """The entries and all their predecessors, immediate or not."""
        seen = set(entries)
        stack = list(seen)
        while stack:
            fresh = stack.pop().predecessors - seen
            seen |= fresh
            stack += fresh
        return seen

    def _delete(self, entry: Entry[T, I]) -> Change[T]:
        """Take an entry out and connect its predecessors with its successors, where nothing else does."""
        above = in_order(entry.predecessors)
        for predecessor in above:
            predecessor.successors.discard(entry)
        risen = []
        known: Known[T, I] = {}
        for successor in in_order(entry.successors):
            successor.predecessors.discard(entry)
            if not above and not successor.predecessors:
                self._roots[successor] = None
                risen.append(successor.item)
            for predecessor in self._unblocked(above, successor.predecessors, known):
                predecessor.successors.add(successor)
                successor.predecessors.add(predecessor)
        self._bag.discard(entry)
        for item in (entry.item, *entry.held):
            self._entries.pop(item, None)
        if entry not in self._roots:
            return Change()
        del self._roots[entry]
        return Change(tuple(risen), (entry.item,))

    def _unblocked(
        self, above: list[Entry[T, I]], others: set[Entry[T, I]], known: Known[T, I]
    ) -> list[Entry[T, I]]:
        """Those of `above` that cover none of the others."""
        if not above or not others:
            return above
        group = above[0].group
        if (
            group is not None
            and group.ends is not None
            and not group.loose
            and all(entry.group is group for entry in chain(above, others))
        ):
            self.covering.decided += len(above) * len(others)
            ends = group.ends
            mine, theirs = ends[:, [e.row for e in above]], ends[:, [e.row for e in others]]
            return [above[i] for i in (~covering_any(mine, theirs)).nonzero()[0]]

        def covers(p: Entry[T, I], other: Entry[T, I]) -> bool:
            answer = known.get((p, other))
            if answer is None:
                answer = known[p, other] = self.covering.holds(p, other)
            return answer

        return [p for p in above if not any(covers(p, other) for other in others)]

    def _hand_over(self, entry: Entry[T, I]) -> Change[T]:
        """Let another representation stand for an entry whose item has gone."""
        gone, entry.item = entry.item, next(iter(entry.held))
        del self._entries[gone]
        return Change((entry.item,), (gone,)) if entry in self._roots else Change()
