"""Subscriptions and unsubscriptions at a router: Salo 2010, sections 5.1.1 and 5.1.2, after [CRW01].

The table is a filters poset whose entries know the interfaces that subscribed. Equation (1),

    forwards(F) = neighbors - NST(F) - union of forwards(F') over all F' that cover F,

is computed when it is asked for. The overlay is acyclic, so NST(F) is the interface through which F came;
where F came through several, each is reached by the spanning tree of another, and NST(F) is empty. By
induction the union is that of neighbors - NST(F') over all F' that cover F: two subscribers above F make it
all neighbors, one subscriber X all but X. So a walk up from F ends as soon as it has met two.

What differs from the paper:

- When F comes through a second interface (case 2) it has to go to the first one now, and is forwarded
  there. The paper, which forwards in case 3 only, would leave out what publishers behind that interface
  send.
- An unsubscription is forwarded as one for each entry that lost the interface, to where that entry need not
  be any more. For an F that the interface subscribed this is the paper's f_old - f_new. For one that it did
  not, and that covers several subscriptions, equation (1) says nothing; the unsubscription of F would
  cancel subscriptions of others downstream that nothing sends again.
"""

from collections.abc import Iterable
from typing import Generic, NamedTuple

from penstock.routing.poset import Entry, FiltersPoset, I
from penstock.routing.table import T


class Forwarding(NamedTuple, Generic[T, I]):
    """What to forward through which interface: first the unsubscriptions, then the subscriptions."""

    unsubscriptions: dict[I, tuple[T, ...]]
    subscriptions: dict[I, tuple[T, ...]]


class SienaTable(FiltersPoset[T, I]):
    """A filters poset that is told of subscriptions, and says what its router has to forward.

    An item that is added, rather than subscribed, counts as a subscription of the router itself.
    """

    def forwards(self, item: T, neighbors: Iterable[I]) -> frozenset[I]:
        """Equation (1): the interfaces to which an item of the table needs to be forwarded."""
        return _forwards(self.entry(item), frozenset(neighbors))

    def subscribers(self, item: T) -> frozenset[I]:
        """The interfaces that subscribed to an item of the table, and to nothing that covers it."""
        return frozenset(self.entry(item).subscribers)

    def subscribe(self, item: T, interface: I, neighbors: Iterable[I]) -> Forwarding[T, I]:
        """Handle a subscription that came through an interface."""
        probe = self._probe(item)
        if any(self._covers(entry, probe) for entry in self._subscribed_above(probe, interface)):
            return Forwarding({}, {})
        all_neighbors = frozenset(neighbors)
        entry = self._entries.get(item)
        if entry is None:
            entry, _change = self._find_or_insert(item)
        before = _forwards(entry, all_neighbors) if entry.subscribers or entry.held else frozenset()
        entry.subscribers.add(interface)
        covered = [e for e in self._subscribed_below(probe, interface) if e is not entry]
        self._withdraw(covered, interface)
        return Forwarding({}, dict.fromkeys(_forwards(entry, all_neighbors) - before, (entry.item,)))

    def unsubscribe(self, item: T, interface: I, neighbors: Iterable[I]) -> Forwarding[T, I]:
        """Handle an unsubscription: it cancels all subscriptions of the interface that the item covers."""
        all_neighbors = frozenset(neighbors)
        cancelled = self._subscribed_below(self._probe(item), interface)
        # Nothing changes but for these and what they cover.
        touched = sorted(_all_below(cancelled), key=lambda entry: entry.number)
        before = [_forwards(entry, all_neighbors) for entry in touched]
        self._withdraw(cancelled, interface)
        unsubscriptions: dict[I, list[T]] = {}
        subscriptions: dict[I, list[T]] = {}
        for entry, old in zip(touched, before, strict=True):
            alive = entry.subscribers or entry.held
            new = _forwards(entry, all_neighbors) if alive else frozenset()
            for neighbor in old - new:
                unsubscriptions.setdefault(neighbor, []).append(entry.item)
            for neighbor in new - old:
                subscriptions.setdefault(neighbor, []).append(entry.item)
        return Forwarding(
            {neighbor: tuple(items) for neighbor, items in unsubscriptions.items()},
            {neighbor: tuple(items) for neighbor, items in subscriptions.items()},
        )

    def _probe(self, item: T) -> Entry[T, I]:
        """The item's entry, or one that is not in the table."""
        return self._entries.get(item) or Entry(item, self.covering.shape(item), -1)

    def _covers(self, a: Entry[T, I], b: Entry[T, I]) -> bool:
        return a is b or self.covering.confirms(a, b)

    def _subscribed_above(self, probe: Entry[T, I], interface: I) -> list[Entry[T, I]]:
        """The entries that the interface subscribed to and that may cover the probe."""
        return [e for e in self._bag.may_cover(probe.shape) if interface in e.subscribers]

    def _subscribed_below(self, probe: Entry[T, I], interface: I) -> list[Entry[T, I]]:
        """The entries that the interface subscribed to and that the probe covers."""
        candidates = self._bag.may_be_covered(probe.shape)
        return [e for e in candidates if interface in e.subscribers and self._covers(probe, e)]

    def _withdraw(self, entries: list[Entry[T, I]], interface: I) -> None:
        for entry in entries:
            entry.subscribers.discard(interface)
            if not entry.subscribers and not entry.held:
                self._delete(entry)


def _forwards(entry: Entry[T, I], neighbors: frozenset[I]) -> frozenset[I]:
    own = neighbors - entry.subscribers if _has_one_source(entry) else neighbors
    seen: set[Entry[T, I]] = set(entry.predecessors)
    stack = list(seen)
    source: set[I] = set()
    while stack:
        above = stack.pop()
        source |= above.subscribers
        if above.held or len(source) > 1:
            return frozenset()
        fresh = above.predecessors - seen
        seen |= fresh
        stack += fresh
    return own & source if seen else own


def _has_one_source(entry: Entry[T, I]) -> bool:
    return len(entry.subscribers) == 1 and not entry.held


def _all_below(entries: Iterable[Entry[T, I]]) -> set[Entry[T, I]]:
    """The entries and all their successors, immediate or not."""
    seen = set(entries)
    stack = list(seen)
    while stack:
        fresh = stack.pop().successors - seen
        seen |= fresh
        stack += fresh
    return seen
