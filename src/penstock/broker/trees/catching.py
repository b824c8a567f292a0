"""Catching up: what a broker may have missed while its path to a publisher was broken, it is sent again.

The publisher's broker keeps what was published there for a while. A broker that has found a path to a tree
again says CatchUp along it, behind its subscriptions; so when that arrives, events come by this path, and
what was kept since the old path failed is sent after it. CaughtUp follows it back: nothing is missing then,
but for what was no longer kept, of which clients are told.

A gap begins when something was last heard by the old path, and ends with the answer to the last question; if
the path breaks before, the question is asked again on the next one, about all of the gap. Brokers on the
path ask in turn, in the name of those behind them (`askers`).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.broker.clients import Clients
from penstock.broker.effects import Behind, Missed, Replay
from penstock.broker.table import Table
from penstock.broker.trees.outbox import Outbox
from penstock.broker.trees.subscribing import Subscribing
from penstock.broker.trees.trees import HERE, Trees
from penstock.model.names import Tree
from penstock.wire.messages import CatchUp, CaughtUp

OWN: Final = ""
"""The broker itself, among those who ask: it passes on what it has missed to all who want it."""

_GAPS_MAX: Final = 10_000
"""Trees of which it is remembered that something may be missing, though they are gone; the last ones."""


_LEARNT_S: Final = 5.0
"""Seconds after which a broker knows the trees that a client who comes may have missed events of."""


class Asker(NamedTuple):
    """Who has asked."""

    number: int
    """Of its own question."""
    since: float
    """When its path was broken; what it asks for may be older, of a tree that is new to it."""


class Gap:
    """What may be missing of a tree, since when, and for whom."""

    __slots__ = ("asked_at", "askers", "number", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        """May be later than now: until then, events still come by the old path."""
        self.askers: dict[str, Asker] = {}
        """By their links."""
        self.number = 0
        """Of the last question; 0 if there is no path to ask on."""
        self.asked_at = 0.0


class Catching:
    """Knows what is missing, and asks for it."""

    def __init__(
        self,
        table: Table,
        trees: Trees,
        clients: Clients,
        outbox: Outbox,
        subscribing: Subscribing,
        *,
        is_on: bool,
    ) -> None:
        self._gaps: dict[Tree, Gap] = {}
        self._table = table
        self._trees = trees
        self._clients = clients
        self._outbox = outbox
        self._subscribing = subscribing
        self.is_on = is_on
        """Whether brokers keep anything."""
        self._asked = 0
        self._behind: set[str] = set()
        """The clients that know that events are yet to come."""

    def asks(self, tree: Tree, link: str) -> bool:
        """Whether events of a tree that are sent again, and have passed here before, are for a link."""
        gap = self._gaps.get(tree)
        return gap is not None and link in gap.askers

    def silence(self, tree: Tree, now: float) -> float:
        """For how many seconds there may have been no path to a tree."""
        gap = self._gaps.get(tree)
        own = None if gap is None else gap.askers.get(OWN)
        return 0.0 if own is None else max(0.0, now - own.since)

    # Gaps

    def miss(self, trees: Iterable[Tree], since: float, now: float) -> None:
        """Events of trees may be missing since a time, if anybody here wants any."""
        for tree in trees:
            if self.is_on and self._table.bound(tree):
                self._note(tree, since, OWN, Asker(0, since))
                self._ask(tree, now)
                self._tell_clients([tree], now)

    def miss_for(self, link: str, trees: Iterable[Tree], since: float, now: float) -> None:
        """A client may have missed events of trees: they passed here while it was elsewhere, or never did."""
        self._behind.add(link)
        for tree in trees:
            if self.is_on:
                self._note(tree, since, link, Asker(0, now))
                self._ask(tree, now)

    def _note(self, tree: Tree, since: float, link: str, asker: Asker) -> None:
        gap = self._gaps.get(tree)
        if gap is None:
            gap = self._gaps[tree] = Gap(since)
            if len(self._gaps) > _GAPS_MAX:
                del self._gaps[next(iter(self._gaps))]
        gap.since = min(gap.since, since)
        known = gap.askers.get(link)
        gap.askers[link] = asker if known is None else Asker(asker.number, min(known.since, asker.since))

    def _ask(self, tree: Tree, now: float) -> None:
        gap, branch = self._gaps[tree], self._trees.get(tree)
        gap.number, gap.asked_at = 0, now
        if branch is None or branch.way is None:
            return
        self._asked += 1
        gap.number = self._asked
        seconds = max(0.0, now - gap.since)
        if branch.way == HERE:
            self._outbox.effects.append(Replay(tree, gap.number, seconds))
        else:
            self._subscribing.ask_behind(branch.way, CatchUp(tree, gap.number, seconds), now)

    def on_tick(self, now: float) -> None:
        """Time has passed: have clients know what is still missing, of trees that may come back."""
        known = [tree for tree in self._gaps if tree in self._trees]
        behind = self._tell_clients(known, now)
        if len(known) < len(self._gaps):
            # Of trees that may come back, nobody knows what is missing.
            return
        for link in sorted(self._behind.difference(behind)):
            client = self._clients.get(link)
            if client is None or now - client.came_at > _LEARNT_S:
                self._behind.discard(link)
                # It asks its next broker for no more than what it misses then.
                self._outbox.effects += [Behind(link, 0.0)] if client is not None else []

    def _tell_clients(self, trees: Iterable[Tree], now: float) -> dict[str, float]:
        behind: dict[str, float] = {}
        for tree in trees:
            for link, since in self._affected(tree).items():
                behind[link] = min(behind.get(link, now), since)
        self._outbox.effects += [Behind(link, now - since) for link, since in behind.items() if since < now]
        self._behind.update(behind)
        return behind

    def _affected(self, tree: Tree) -> dict[str, float]:
        """The clients that may be missing events of a tree, and since when."""
        askers = self._gaps[tree].askers
        found = {link: asker.since for link, asker in askers.items() if link in self._clients}
        own = askers.get(OWN)
        for source in self._table.bound(tree) if own is not None else ():
            if own is not None and source.link in self._clients:
                found[source.link] = min(found.get(source.link, own.since), own.since)
        return found

    # What happens to paths

    def on_path(self, tree: Tree, now: float) -> None:
        """There is a path to a tree, perhaps another one: ask on it for what is missing."""
        if tree in self._gaps:
            self._ask(tree, now)

    def on_sync(self, link: str, now: float) -> None:
        """A neighbour may have forgotten what it was asked."""
        for tree in [tree for tree in self._gaps if tree in self._trees.through(link)]:
            self._ask(tree, now)

    def part(self, link: str) -> None:
        """Whoever asked is gone."""
        for tree, gap in list(self._gaps.items()):
            gap.askers.pop(link, None)
            if not gap.askers:
                del self._gaps[tree]

    def forget(self, tree: Tree) -> None:
        """A tree has been taken back, by a broker that keeps nothing of it any more."""
        self._gaps.pop(tree, None)

    # Messages

    def on_catch_up(self, message: CatchUp, link: str, now: float) -> None:
        """A neighbour may have missed events."""
        tree = message.tree
        if self.is_on and tree in self._trees:
            since = now - message.seconds
            self._note(tree, since, link, Asker(message.number, since))
            self._ask(tree, now)

    def on_caught_up(self, tree: Tree, number: int, missed: int, link: str, now: float) -> None:
        """All that was asked for has come; pass it on to those who asked here."""
        gap, branch = self._gaps.get(tree), self._trees.get(tree)
        if gap is None or branch is None or branch.way != link or number != gap.number:
            return
        if gap.asked_at < gap.since < now:
            # The old path was left before this one was confirmed.
            self._ask(tree, now)
            return
        if missed:
            self._outbox.effects += [Missed(client, missed) for client in self._affected(tree)]
        del self._gaps[tree]
        for asker, (asked, _since) in gap.askers.items():
            if asker != OWN and asker not in self._clients:
                self._outbox.tell(asker, [CaughtUp(tree, asked, missed)])
