"""The broker: messages in, effects out.

Advertisements span trees (`trees`), subscriptions are bound to the trees whose advertisements they overlap
and travel towards their publishers, and events come back the way that subscriptions went (seed paper 004,
section 3.2). Which subscriptions a neighbour needs to know of is the scheme's affair
(`penstock.routing.schemes`). Without advertisements, each broker advertises everything in its own name, so
that there are trees all the same, and all of it works on overlays with circles too.

State is soft: each neighbour's is kept while it is heard of, and is put in place as a whole when a link
comes up or something was missed (`sessions`). The core reads no clock, draws nothing at random and knows no
sockets.
"""

from collections.abc import Callable, Iterable
from typing import Final

from penstock.broker.effects import Deliver, Effect, Refuse, Send
from penstock.broker.needs import Matching
from penstock.broker.sessions import Arrival, LinkState
from penstock.broker.table import Entry, Table
from penstock.broker.trees import HERE, Trees
from penstock.errors import PenstockError
from penstock.filters.filter import ALWAYS
from penstock.filters.predicate import Predicate
from penstock.filters.relations import overlaps
from penstock.model.names import Key, Tree
from penstock.routing.offers import Offer
from penstock.routing.schemes.scheme import Scheme, Source, Steps
from penstock.wire.messages import (
    NO_TREES,
    Advertise,
    Alive,
    Body,
    Control,
    LinkDown,
    LinkUp,
    Lost,
    Message,
    Publish,
    Resync,
    Subscribe,
    Sync,
    Tick,
    Unadvertise,
    Unreachable,
    Unsubscribe,
)

_OF_CLIENTS: Final = (Advertise, Unadvertise, Subscribe, Unsubscribe)
_EVERYTHING: Final = Predicate([ALWAYS])


class Broker:
    """One broker. `handle` is all that a runtime calls.

    `incarnation` must be higher than in any earlier life of a broker of this name that did not keep its
    state. `lease` is for how long a neighbour's state stays without hearing of it, in the unit of `now`; the
    runtime then says Tick a few times in that time. Without a lease, only LinkDown ends it.
    """

    def __init__(
        self,
        name: str,
        make_scheme: Callable[[], Scheme],
        matching: Matching,
        *,
        advertisements: bool = True,
        incarnation: int = 0,
        lease: float | None = None,
    ) -> None:
        self.name = name
        self.trees = Trees()
        self.table = Table(matching)
        self.schemes: dict[str, Scheme] = {}
        self.duplicates = 0
        """Events that came again, and were dropped."""
        self._make_scheme = make_scheme
        self._advertisements = advertisements
        self._incarnation = incarnation
        self._lease = lease
        scheme = make_scheme()
        self.floods, self._knows_all, self._packs = scheme.floods, scheme.knows_all, scheme.packs
        self._links: dict[str, LinkState] = {}
        self._clients: dict[str, Client] = {}
        self._ups = self._made = self._losses = 0
        self._last: dict[Tree, int] = {}
        self._lost_by: dict[str, tuple[int, int]] = {}
        self._offered: dict[str, set[Source]] = {}
        self._pending: dict[str, list[Body]] = {}
        self._effects: list[Effect] = []
        self._handlers: dict[type, Callable[..., None]] = {
            Advertise: self._on_client_advertise,
            Unadvertise: self._on_client_unadvertise,
            Subscribe: self._on_client_subscribe,
            Unsubscribe: self._on_client_unsubscribe,
            Control: self._on_control,
            Sync: self._on_sync,
            Resync: self._on_resync,
            Alive: self._on_alive,
            LinkUp: self._on_link_up,
            LinkDown: self._on_link_down,
            Tick: self._on_tick,
        }
        self._bodies: dict[type, Callable[..., None]] = {
            Advertise: self._on_advertise,
            Unadvertise: self._on_unadvertise,
            Unreachable: self._on_unreachable,
            Subscribe: self._on_subscribe,
            Unsubscribe: self._on_unsubscribe,
            Lost: self._on_lost,
        }
        if not advertisements:
            self.trees.plant(self._new_name(), _EVERYTHING, 0, HERE)

    def handle(self, message: Message, link: str, now: float) -> list[Effect]:
        """Take a message that came over a link; return what is to be done about it, in this order."""
        effects: list[Effect] = []
        self._effects = effects
        if type(message) is Publish:
            self._on_publish(message, link)
            return effects
        handler = self._handlers[type(message)]
        if type(message) in _OF_CLIENTS and link not in self._clients:
            raise PenstockError(f"{self.name}: {link!r} is not a client that is connected")
        handler(message, link, now)
        self._flush()
        return effects

    # Links

    def _on_link_up(self, message: LinkUp, link: str, now: float) -> None:
        if link in self._links or link in self._clients:
            # It must have been down for a while, unnoticed.
            self._on_link_down(LinkDown(), link, now)
        if message.client:
            self._clients[link] = Client()
            return
        self._ups += 1
        self._links[link] = state = LinkState((self._incarnation, self._ups))
        state.heard_at = now
        self.schemes[link] = self._make_scheme()
        self._offered[link] = set()
        self._send_sync(link)

    def _on_link_down(self, _message: LinkDown, link: str, now: float) -> None:
        client = self._clients.pop(link, None)
        if client is not None:
            for name in client.names:
                self._drop(Source(link, name))
            for tree in client.advertisements.values():
                self._unadvertise(tree, "", now)
            return
        if self._links.pop(link, None) is not None:
            del self.schemes[link], self._offered[link]
            self._pending.pop(link, None)
            self._forget(link, now)

    def _forget(self, link: str, now: float) -> None:
        """Drop all that was known from a neighbour."""
        for key in self.table.keys(link):
            self._drop(Source(link, key))
        self.trees.retract(link)
        self._cut(self.trees.through(link), link, now)

    def _on_control(self, message: Control, link: str, now: float) -> None:
        if self._heard(message, link, now):
            for body in message.bodies:
                self._bodies[type(body)](body, link, now)

    def _on_alive(self, message: Alive, link: str, now: float) -> None:
        self._heard(message, link, now)

    def _heard(self, message: Control | Alive, link: str, now: float) -> bool:
        state = self._links.get(link)
        if state is None:
            return False
        arrival = state.judge(message)
        if arrival is Arrival.ASK:
            self._effects.append(Send(link, Resync()))
        if arrival is not Arrival.DROP:
            state.heard_at = now
        return arrival is Arrival.TAKE

    def _on_resync(self, _message: Resync, link: str, now: float) -> None:
        if link in self._links:
            self._links[link].heard_at = now
            self._send_sync(link)

    def _send_sync(self, link: str) -> None:
        state = self._links[link]
        advertisements = tuple(
            Advertise(tree, branch.filter, branch.epoch)
            for tree, branch in self.trees.items()
            if branch.way is not None and branch.way != link
        )
        subscriptions = tuple(
            Subscribe(key, offer.filter, offer.trees) for key, offer in self.schemes[link].asked.items()
        )
        self._effects.append(Send(link, Sync(state.session, state.sent, advertisements, subscriptions)))

    def _on_sync(self, message: Sync, link: str, now: float) -> None:
        state = self._links.get(link)
        if state is None:
            return
        state.heard_at = now
        before = state.their_session
        if state.judge_sync(message) is not Arrival.TAKE:
            return
        if before is not None and before != message.session:
            # A neighbour that began anew may have forgotten which way it came to a tree by.
            self._cut(self.trees.through(link), link, now)
        self.trees.retract(link)
        there = {advertised.tree for advertised in message.advertisements}
        self._cut(self.trees.through(link) - there, link, now)
        for advertised in message.advertisements:
            self._on_advertise(advertised, link, now)
        wanted = {subscribed.key for subscribed in message.subscriptions}
        for subscribed in message.subscriptions:
            self._on_subscribe(subscribed, link, now)
        for key in self.table.keys(link):
            if key not in wanted:
                self._drop(Source(link, key))

    def _on_tick(self, _message: Tick, _link: str, now: float) -> None:
        if self._lease is None:
            return
        for link, state in self._links.items():
            if state.their_session is not None and now - state.heard_at > self._lease:
                state.forget()
                self._forget(link, now)
            self._effects.append(Send(link, state.alive()))
        for tree, branch in list(self.trees.orphans()):
            if now - branch.orphan_since > self._lease:
                self.trees.fell(tree, now, unadvertised=False)
                self._unbind(tree)
        orphans = [tree for tree, _branch in self.trees.orphans()]
        missed = [tree for tree in self.trees.declined() if tree not in self.trees]
        self._ask_for(orphans + missed, now, every=self._lease / 3)

    # Advertisements

    def _on_client_advertise(self, message: Advertise, link: str, now: float) -> None:
        if not self._advertisements:
            return
        known = self._clients[link].advertisements
        if message.tree in known:
            self._unadvertise(known.pop(message.tree), "", now)
        tree = self._new_name()
        known[message.tree] = tree
        self._plant(Advertise(tree, message.filter, 0), HERE)

    def _on_client_unadvertise(self, message: Unadvertise, link: str, now: float) -> None:
        tree = self._clients[link].advertisements.pop(message.tree, None)
        if tree is not None:
            self._unadvertise(tree, "", now)

    def _on_advertise(self, message: Advertise, link: str, now: float) -> None:
        tree = message.tree
        if self.trees.is_news(tree, message.epoch):
            self._plant(message, link)
        elif self.trees.is_missed(tree):
            self.trees.decline(tree, link)
            self._ask_for([tree], now, every=0.0)

    def _plant(self, message: Advertise, way: str) -> None:
        """Take the first copy of an advertisement, pass it on, and bind to its tree what overlaps it."""
        tree = message.tree
        before = self.trees.plant(tree, message.filter, message.epoch, way)
        self._tell_all(message, way)
        if before is not None and before != way:
            self._reoffer_all(tree, before)
        for link, client in self._clients.items():
            for name in client.names:
                source = Source(link, name)
                entry = self.table.get(source)
                if entry and tree not in entry.trees and _overlap(entry.filter, message.filter):
                    self.table.put(source, Entry(entry.filter, entry.trees | {tree}))
        self._reoffer_all(tree, way)

    def _on_unadvertise(self, message: Unadvertise, link: str, now: float) -> None:
        self.trees.retract(link, message.tree)
        if message.tree in self.trees:
            self._unadvertise(message.tree, link, now)

    def _unadvertise(self, tree: Tree, link: str, now: float) -> None:
        way = self.trees[tree].way
        self.trees.fell(tree, now, unadvertised=True)
        self._last.pop(tree, None)
        self._tell_all(Unadvertise(tree), link)
        if way:
            self._reoffer_all(tree, way)
        self._unbind(tree)

    def _on_unreachable(self, message: Unreachable, link: str, now: float) -> None:
        self.trees.retract(link, message.tree)
        branch = self.trees.get(message.tree)
        if branch is not None and branch.way == link:
            self._cut([message.tree], link, now, ask=False)

    def _cut(self, trees: Iterable[Tree], link: str, now: float, *, ask: bool = True) -> None:
        """The link was the way to these trees, and is so no longer: have them advertised anew."""
        trees = list(trees)
        if not trees:
            return
        self.trees.orphan(trees, now)
        for tree in trees:
            self._tell_all(Unreachable(tree), link)
            if link in self._links:
                self._reoffer_all(tree, link)
        if ask:
            self._ask_for(trees, now, every=0.0)

    def _ask_for(self, trees: Iterable[Tree], now: float, *, every: float) -> None:
        """Ask whoever these trees come from to advertise them anew, unless that was asked lately."""
        wanted = []
        for tree in trees:
            branch = self.trees.get(tree)
            if branch is not None:
                if now - branch.asked_at < every:
                    continue
                branch.asked_at = now
            wanted.append((tree, self.trees.last_epoch(tree)))
        if wanted:
            self._losses += 1
            count = (self._incarnation, self._losses)
            self._tell_all(Lost(self.name, count, tuple(wanted)), "")

    def _on_lost(self, message: Lost, link: str, now: float) -> None:
        if message.broker == self.name or self._lost_by.get(message.broker, (-1, 0)) >= message.count:
            return
        self._lost_by[message.broker] = message.count
        self._tell_all(message, link)
        for tree, epoch in message.trees:
            branch = self.trees.get(tree)
            if branch is None:
                continue
            branch.asked_at = now
            if branch.way == HERE and branch.epoch <= epoch:
                self._plant(Advertise(tree, branch.filter, epoch + 1), HERE)

    def _unbind(self, tree: Tree) -> None:
        """Clients' subscriptions no longer wait for events of a tree."""
        for source in self.table.bound(tree):
            if source.link in self._clients:
                entry = self.table.get(source)
                if entry is not None:
                    self.table.put(source, Entry(entry.filter, entry.trees - {tree}))

    # Subscriptions

    def _on_client_subscribe(self, message: Subscribe, link: str, now: float) -> None:
        client = self._clients[link]
        before = client.subscriptions.get(message.key)
        # A name of its own for each filter, so that nobody has to compare the filters of one subscription.
        name = client.subscriptions[message.key] = self._new_name()
        client.names[name] = message.key
        self._put(Source(link, name), message.filter, self._trees_for(message.filter))
        if before is not None:
            del client.names[before]
            self._drop(Source(link, before))

    def _on_client_unsubscribe(self, message: Unsubscribe, link: str, _now: float) -> None:
        client = self._clients[link]
        name = client.subscriptions.pop(message.key, None)
        if name is not None:
            del client.names[name]
            self._drop(Source(link, name))

    def _trees_for(self, predicate: Predicate) -> frozenset[Tree]:
        return frozenset(tree for tree, branch in self.trees.items() if _overlap(predicate, branch.filter))

    def _on_subscribe(self, message: Subscribe, link: str, _now: float) -> None:
        self._put(Source(link, message.key), message.filter, message.trees)
        for key in message.replaces:
            if self.table.get(Source(link, key)) is not None:
                self._drop(Source(link, key))

    def _on_unsubscribe(self, message: Unsubscribe, link: str, _now: float) -> None:
        if self.table.get(Source(link, message.key)) is not None:
            self._drop(Source(link, message.key))

    def _put(self, source: Source, predicate: Predicate, trees: frozenset[Tree]) -> None:
        self.table.put(source, Entry(predicate, trees))
        for link in self.schemes:
            self._reoffer(source, link)

    def _drop(self, source: Source) -> None:
        self.table.drop(source)
        for link in self.schemes:
            self._reoffer(source, link)

    def _reoffer_all(self, tree: Tree, link: str) -> None:
        """The way to a tree has come to be this link, or is so no longer."""
        if link in self.schemes:
            for source in self.table.bound(tree):
                self._reoffer(source, link)

    def _reoffer(self, source: Source, link: str) -> None:
        """Bring up to date what a subscription asks of a neighbour."""
        if source.link == link:
            return
        offered = self._offered[link]
        entry = self.table.get(source)
        trees = NO_TREES if entry is None else entry.trees & self.trees.through(link)
        if entry is not None and trees:
            offered.add(source)
            self._tell(link, self.schemes[link].put(source, Offer(entry.filter, trees)))
        elif source in offered:
            offered.discard(source)
            self._tell(link, self.schemes[link].drop(source))

    def _tell(self, link: str, steps: Steps) -> None:
        if steps.ask or steps.take_back:
            bodies = self._pending.setdefault(link, [])
            bodies += [Subscribe(a.key, a.offer.filter, a.offer.trees, a.replaces) for a in steps.ask]
            bodies += [Unsubscribe(key) for key in steps.take_back]

    def _tell_all(self, body: Body, but: str) -> None:
        for link in self._links:
            if link != but:
                self._pending.setdefault(link, []).append(body)

    def _flush(self) -> None:
        """Send what has been said to neighbours: each by itself, or packed."""
        if not self._pending:
            return
        for link, bodies in self._pending.items():
            state = self._links[link]
            if self._packs:
                self._effects.append(Send(link, state.number(tuple(bodies))))
            else:
                self._effects += [Send(link, state.number((body,))) for body in bodies]
        self._pending = {}

    # Events

    def _on_publish(self, message: Publish, link: str) -> None:
        client = self._clients.get(link)
        if client is not None:
            tree = self._tree_of(message, client)
            if tree is None:
                self._effects.append(Refuse(link, "the event matches none of the client's advertisements"))
                return
            number = self._last.get(tree, 0) + 1
            message = Publish(message.event, tree, number)
        elif link not in self._links:
            return
        tree, number = message.tree, message.number
        if client is None and self._last.get(tree, 0) >= number:
            self.duplicates += 1
            return
        if self.floods:
            self._flood(message, link)
            return
        self._last[tree] = number
        filters: Iterable[Predicate] | None = message.filters
        if filters is None:
            filters = self.table.matching(message.event)
        for to, wanted in self.table.wanting(filters, tree).items():
            if to in self._clients:
                self._deliver(to, message, wanted)
            elif to != link and to in self._links:
                known = tuple({predicate: None for _key, predicate in wanted}) if self._knows_all else None
                self._effects.append(Send(to, Publish(message.event, tree, number, known)))

    def _tree_of(self, message: Publish, client: "Client") -> Tree | None:
        """The tree that an event of a client goes down."""
        if not self._advertisements:
            return next(iter(self.trees.through(HERE)))
        for tree in client.advertisements.values():
            if self.trees[tree].filter.matches(message.event):
                return tree
        return None

    def _flood(self, message: Publish, link: str) -> None:
        """Send an event on to everybody, if it came the way that its tree goes."""
        branch = self.trees.get(message.tree)
        if branch is None or branch.way not in (link, HERE):
            return
        self._last[message.tree] = message.number
        for to, wanted in self.table.wanting(self.table.matching(message.event), message.tree).items():
            if to in self._clients:
                self._deliver(to, message, wanted)
        self._effects += [Send(to, message) for to in self._links if to != link]

    def _deliver(self, link: str, message: Publish, wanted: list[tuple[Key, Predicate]]) -> None:
        names = self._clients[link].names
        self._effects.append(Deliver(link, message, tuple([names[key] for key, _filter in wanted])))

    def _new_name(self) -> str:
        self._made += 1
        return f"{self.name}/{self._incarnation}.{self._made}"


class Client:
    """What a client has asked for and advertised: its own names, and those that the network knows them by."""

    def __init__(self) -> None:
        self.subscriptions: dict[Key, str] = {}
        self.names: dict[Key, Key] = {}
        self.advertisements: dict[Key, Tree] = {}


def _overlap(f: Predicate, g: Predicate) -> bool:
    return g == _EVERYTHING or overlaps(f, g)
