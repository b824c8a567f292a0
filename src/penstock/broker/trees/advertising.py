"""Advertisements: how trees grow through a broker, fall, and are mended (see `trees`)."""

from collections.abc import Iterable

from penstock.broker.clients import Clients
from penstock.broker.publishers import NOBODY, Publisher
from penstock.broker.trees.catching import Catching
from penstock.broker.trees.outbox import Outbox
from penstock.broker.trees.subscribing import Subscribing
from penstock.broker.trees.trees import HERE, Branch, Stump, Trees
from penstock.filters.predicate import Predicate
from penstock.model.names import Tree
from penstock.wire.messages import Advertise, Felled, Lost, Unadvertise, Unreachable


class Advertising:
    """Keeps the trees, and has what is bound to them follow."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        trees: Trees,
        subscribing: Subscribing,
        outbox: Outbox,
        catching: Catching,
        clients: Clients,
        linger: float,
    ) -> None:
        self._name = name
        self._incarnation = incarnation
        self._trees = trees
        self._subscribing = subscribing
        self._outbox = outbox
        self._catching = catching
        self._clients = clients
        self._linger = linger
        self._losses = 0
        self._lost_by: dict[str, tuple[int, int]] = {}

    def offered_to(self, link: str, now: float) -> tuple[Advertise, ...]:
        """All that a neighbour can reach through this broker."""
        return tuple(
            self._advertise(tree, branch, now)
            for tree, branch in self._trees.items()
            if branch.way is not None and branch.way != link
        )

    def gone(self, since: float, now: float) -> tuple[Felled, ...]:
        """The trees to which there is no way since a time or later, for a neighbour that has just started."""
        return tuple(
            Felled(self._advertise(tree, stump, now), now - stump.since, stump.unadvertised, stump.ended)
            for tree, stump in self._trees.gone_since(since)
        )

    def on_gone(self, gone: tuple[Felled, ...], now: float, *, all_of_them: bool) -> None:
        """A neighbour knows of trees that are gone, perhaps of all; clients may have missed something."""
        new: list[tuple[Tree, Stump]] = []
        for felled in gone:
            said, since = felled.tree, now - felled.seconds
            publisher = Publisher.of(said, now)
            planted_at = now - said.age
            unadvertised, ended = felled.unadvertised, felled.ended
            stump = Stump(said.epoch, unadvertised, since, True, said.filter, publisher, planted_at, ended)
            if self._trees.remember(said.tree, stump):
                new.append((said.tree, stump))
        self._catching.learn(new, now, all_of_them=all_of_them)

    def _advertise(self, tree: Tree, branch: Branch | Stump, now: float) -> Advertise:
        publisher = branch.publisher
        origin, turn, _acked = publisher
        age = max(0.0, now - branch.planted_at)
        return Advertise(tree, branch.filter, branch.epoch, origin, turn, publisher.ages(now), age)

    def plant(
        self,
        tree: Tree,
        predicate: Predicate,
        epoch: int,
        way: str,
        now: float,
        publisher: Publisher = NOBODY,
        age: float = 0.0,
    ) -> None:
        """Take the first copy of an advertisement, pass it on, and bind to its tree what overlaps it.

        Events are asked for on a new way before they are no longer asked for on the old one, if brokers
        linger: until all along the new way know of it, events come the old way.
        """
        known, lost_since = self._trees.get(tree), self._trees.lost_since(tree)
        before = self._trees.plant(tree, predicate, epoch, way, publisher, now - age)
        self._outbox.tell_all(self._advertise(tree, self._trees[tree], now), way)
        self._catching.heed(tree, publisher, now)
        # What may be missing from here on: nothing while the old way is still there.
        since = now
        if before != way:
            if before is not None and way != HERE:
                # It was told that the tree can be reached through here, which is so no longer.
                self._outbox.tell(way, [Unreachable(tree)])
            if before is not None and self._linger and self._subscribing.knows(before):
                since = now + self._linger
                self._trees.linger(tree, before, since)
            else:
                self._subscribing.reoffer_all(tree, before)
        if known is None or known.filter != predicate:

            def on_bound(link: str, at: float) -> None:
                if known is None and way == HERE:
                    # Its publisher may have been at another broker before.
                    self._catching.miss_earlier(link, tree, at)
                elif known is None:
                    self._miss_new(tree, link, lost_since, at)

            self._subscribing.bind(tree, predicate, on_bound)
        self._subscribing.reoffer_all(tree, way)
        if way == HERE:
            return
        if before not in (None, way):
            self._catching.miss([tree], since, now)
        else:
            self._catching.on_path(tree, now)

    def _miss_new(self, tree: Tree, link: str, lost_since: float, now: float) -> None:
        """A client wants events of a tree that is new here.

        It may have been advertised for long, and nobody here have heard of it.
        """
        client = self._clients[link]
        since = max(lost_since, client.came_at)
        if client.missing_since is not None:
            since = min(since, client.missing_since)
        self._catching.miss_for(link, [tree], since, now)

    def fell(self, tree: Tree, now: float, but: str = "", *, used: bool, ended: bool = False) -> None:
        """An advertisement is taken back: tell all but one, and unbind what was bound to its tree.

        `used`: events may have come along the tree. `ended`: its broker ends, with what it has kept of them.
        """
        self._catching.forget(tree, used=used)
        self._trees.fell(tree, now, unadvertised=True, used=used, ended=ended)
        self._outbox.tell_all(Unadvertise(tree, used, ended), but)
        self._subscribing.reoffer_everywhere(tree)
        self._subscribing.unbind(tree)

    # Messages

    def on_advertise(self, message: Advertise, link: str, now: float) -> None:
        """A neighbour can reach a tree."""
        tree = message.tree
        self._trees.offer(tree, link)
        if self._trees.is_news(tree, message.epoch):
            publisher = Publisher.of(message, now)
            self.plant(tree, message.filter, message.epoch, link, now, publisher, message.age)
        elif self._trees.is_missed(tree):
            # The neighbour knows a way, but it may lead through here; with a new epoch it will not.
            self._ask_for([tree], now)

    def on_unadvertise(self, message: Unadvertise, link: str, now: float) -> None:
        """An advertisement has been taken back."""
        self._trees.retract(link, message.tree)
        if message.tree in self._trees:
            self.fell(message.tree, now, link, used=message.used, ended=message.ended)

    def on_unreachable(self, message: Unreachable, link: str, now: float) -> None:
        """A neighbour cannot reach a tree any more."""
        self._trees.retract(link, message.tree)
        branch = self._trees.get(message.tree)
        if branch is not None and branch.way == link:
            # Whoever noticed first has asked for a new way.
            self._orphan([message.tree], link, now, message.silent)
        elif message.tree in self._trees.lingering(link):
            self._catching.miss([message.tree], now - message.silent, now)

    def on_lost(self, message: Lost, link: str, now: float) -> None:
        """A broker has lost its way to trees: pass it on, and answer for those that come from here."""
        if message.broker == self._name or self._lost_by.get(message.broker, (-1, 0)) >= message.count:
            return
        self._lost_by[message.broker] = message.count
        self._outbox.tell_all(message, link)
        for tree, epoch in message.trees:
            branch = self._trees.get(tree)
            if branch is not None:
                branch.asked_at = now
                if branch.way == HERE and branch.epoch <= epoch:
                    self.plant(tree, branch.filter, epoch + 1, HERE, now, branch.publisher)

    def on_all(
        self, messages: tuple[Advertise, ...], link: str, now: float, *, anew: bool, silent: float
    ) -> None:
        """A neighbour says all that it can reach; anew, if it may have forgotten by which way."""
        self._trees.retract(link)
        there = frozenset() if anew else frozenset(message.tree for message in messages)
        self.cut(self._trees.through(link) - there, link, now, silent)
        for message in messages:
            self.on_advertise(message, link, now)
        self._catching.on_sync(link, now)

    def forget(self, link: str, now: float, silent: float) -> None:
        """Nothing can be reached through a neighbour any more, and nothing was heard of it for a while."""
        self._trees.retract(link)
        self.cut(self._trees.through(link), link, now, silent)

    # Mending

    def cut(self, trees: Iterable[Tree], link: str, now: float, silent: float) -> None:
        """The link was the way to these trees, and is so no longer: have them advertised anew."""
        trees = sorted(trees)
        self._orphan(trees, link, now, silent)
        self._ask_for(trees, now)

    def _orphan(self, trees: list[Tree], link: str, now: float, silent: float) -> None:
        self._trees.orphan(trees, now)
        self._catching.miss(trees, now - silent, now)
        for tree in trees:
            self._outbox.tell_all(Unreachable(tree, max(silent, self._catching.silence(tree, now))), link)
            self._subscribing.reoffer_all(tree, link)

    def let_go(self, now: float) -> None:
        """Ask no more on ways that were left a while ago."""
        for tree, link in self._trees.let_go(now):
            self._subscribing.reoffer_all(tree, link)

    def on_tick(self, now: float, lease: float) -> None:
        """Forget orphans whose lease has run out; ask again for the others, and for what neighbours know."""
        over = [tree for tree, branch in self._trees.orphans() if now - branch.orphan_since > lease]
        for tree in over:
            # Events may have been missing before that was noticed.
            since = min(self._trees[tree].orphan_since, now - self._catching.silence(tree, now))
            self._catching.on_gone(tree)
            self._trees.fell(tree, since, unadvertised=False)
            self._subscribing.unbind(tree)
        orphans = [tree for tree, _branch in self._trees.orphans()]
        gone = [tree for tree in self._trees.offered() if tree not in self._trees]
        self._ask_for(orphans + gone, now, every=lease / 3)

    def _ask_for(self, trees: Iterable[Tree], now: float, *, every: float = 0.0) -> None:
        """Ask whoever these trees come from to advertise them anew, unless that was asked lately."""
        wanted = []
        for tree in trees:
            branch = self._trees.get(tree)
            if branch is not None:
                if now - branch.asked_at < every:
                    continue
                branch.asked_at = now
            wanted.append((tree, self._trees.last_epoch(tree)))
        if wanted:
            self._losses += 1
            self._outbox.tell_all(Lost(self._name, (self._incarnation, self._losses), tuple(wanted)))
