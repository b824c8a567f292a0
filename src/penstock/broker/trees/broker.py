"""The broker: messages in, effects out.

Advertisements span trees (`trees`, `advertising`), subscriptions are bound to the trees whose advertisements
they overlap and travel towards their publishers (`subscribing`), and events come back the way that
subscriptions went (`pathways`), as in seed paper 004, section 3.2. Which subscriptions a neighbour needs
to know of is the scheme's affair (`penstock.routing.schemes`). Without advertisements, each broker
advertises everything in its own name, so that there are trees all the same, and all of it works on overlays
with circles too.

State is soft: each neighbour's is kept while it is heard of, and is put in place as a whole when a link
comes up or something was missed (`sessions`). The core reads no clock, draws nothing at random and knows no
sockets.
"""

from collections.abc import Callable, KeysView
from typing import Final

from penstock.broker.clients import Client, Clients
from penstock.broker.core import Facts, Prospects
from penstock.broker.effects import Effect, Refuse, Wake
from penstock.broker.forwarding import EVERYTHING, Forwarding
from penstock.broker.local import Ending, LinkDown, LinkUp, Replayed, Tick, Woken
from penstock.broker.needs import Matching
from penstock.broker.publishers import ANSWERED_KEEPS, Publisher
from penstock.broker.table import Table
from penstock.broker.trees.advertising import Advertising
from penstock.broker.trees.catching import Catching
from penstock.broker.trees.outbox import Outbox
from penstock.broker.trees.pathways import Pathways
from penstock.broker.trees.reports import SILENT
from penstock.broker.trees.sessions import Arrival, LinkState
from penstock.broker.trees.subscribing import Subscribing
from penstock.broker.trees.trees import HERE, Trees
from penstock.errors import PenstockError
from penstock.filters.parsing import as_predicate
from penstock.model.names import Tree
from penstock.routing.schemes.scheme import Scheme
from penstock.wire.blocks import Block
from penstock.wire.messages import (
    Advertise,
    Alive,
    Body,
    CatchUp,
    CaughtUp,
    Control,
    Message,
    Publish,
    Resync,
    Subscribe,
    Sync,
    Unadvertise,
    Unreachable,
    Unsubscribe,
)

_OF_CLIENTS: Final = (Advertise, Unadvertise, Subscribe, Unsubscribe)

_GONE_MAX: Final = 1_000
"""Trees that are gone, of which a neighbour is told, the last ones. Each has a filter, which may be long."""

_UNADVERTISED_MAX: Final = 10_000
"""Subscriptions that no advertisement overlaps, of which the node is told."""

_RETIRING_MAX: Final = 10_000
"""Trees that are kept though nothing more is published on them, the last ones."""


class Broker:
    """One broker. `handle` is all that a runtime calls.

    `incarnation` must be higher than in any earlier life of a broker of this name that did not keep its
    state. `lease` is for how long a neighbour's state stays without hearing of it, in the unit of `now`; the
    runtime then says Tick a few times in that time. Without a lease, only LinkDown ends it. `linger` is for
    how long events of a tree are still asked for on a way that another has taken the place of. `condenses`:
    neighbours are told once of what one message changes several times. `keep` is for how long events are
    kept for those who were apart (see `catching`); a tree lives as long as what was published on it is kept.
    `slice_size` is how many subscriptions are asked for, or told, at a time (see `subscribing`).
    """

    hears_load = False

    def __init__(
        self,
        name: str,
        make_scheme: Callable[[], Scheme],
        matching: Matching,
        *,
        advertisements: bool = True,
        incarnation: int = 0,
        lease: float | None = None,
        linger: float = 0.0,
        condenses: bool = False,
        keep: float = 0.0,
        slice_size: int = 128,
    ) -> None:
        scheme = make_scheme()
        self.name = name
        self.floods = scheme.floods
        self.trees = Trees()
        self._clients = clients = Clients()
        self.table = Table(matching, clients, knows_all=scheme.knows_all)
        self._advertisements = advertisements
        self._incarnation = incarnation
        self._lease = lease
        self._ups = self._made = 0
        self._outbox = outbox = Outbox(packs=scheme.packs, condenses=condenses, part=slice_size)
        self._subscribing = Subscribing(self.table, self.trees, clients, outbox, make_scheme, slice_size)
        self._slice_size = slice_size
        self._catching = catching = Catching(
            self.table,
            self.trees,
            clients,
            outbox,
            self._subscribing,
            keep=keep,
            linger=linger,
            own_trees=not advertisements,
        )
        self._advertising = Advertising(
            name, incarnation, self.trees, self._subscribing, outbox, catching, clients, linger
        )
        self._away: set[str] = set()
        own = None if advertisements else self._new_name()
        pathways = Pathways(
            self.table,
            self.trees,
            clients,
            outbox,
            self._away,
            scheme,
            catching,
            own=own,
        )
        self._forwarding = Forwarding(pathways, clients, matching, keeps=keep > 0)
        self._keep = keep
        self._retiring: dict[Tree, float] = {}
        self._unused: set[Tree] = set()
        """Those of them that nothing was published on: they say what earlier brokers have acknowledged."""
        self._wakes_at = float("inf")
        self._handlers: Final[dict[type, Callable[..., None]]] = {
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
            Woken: self._on_woken,
            Replayed: self._on_replayed,
            Ending: self._on_ending,
        }
        if own is not None:
            self._advertising.plant(own, EVERYTHING, 0, HERE, 0.0)

    @property
    def schemes(self) -> dict[str, Scheme]:
        """What looks after each neighbour."""
        return self._subscribing.schemes

    @property
    def retiring(self) -> KeysView[Tree]:
        """The trees of clients on which nothing more is published; they stay for a while."""
        return self._retiring.keys()

    def facts(self) -> Facts:
        """What may be asked of any core."""
        forwarding = self._forwarding
        return Facts(
            subscriptions=len(self.table),
            filters=self.table.filters,
            trees=len(self.trees),
            matched=self.table.matched,
            covering_tests=sum(scheme.tests for scheme in self.schemes.values()),
            duplicates=forwarding.duplicates,
            late=forwarding.late,
            withheld=forwarding.withheld,
            unrouted=forwarding.unrouted,
        )

    def prospects(self) -> Prospects:
        """What may be published, for looking after subscriptions that match nothing.

        Without advertisements, brokers advertise everything, whoever publishes there: that there are
        publishers is known from their silent trees, where events are kept.
        """
        others = [branch.filter for _tree, branch in self.trees.items() if branch.way != HERE]
        if self._advertisements:
            advertised = [branch.filter for _tree, branch in self.trees.items()]
            unadvertised = self.table.unbound(_UNADVERTISED_MAX)
        else:
            advertised, unadvertised = [], []
            publish_there = [other for other in others if not self._keep or other == SILENT]
            others = [EVERYTHING] if publish_there else []
        return Prospects(
            elsewhere=others,
            advertised=advertised,
            unadvertised=unadvertised,
            subscribers=self.table.clients_of,
        )

    def client(self, link: str) -> Client:
        """What is known of a client that is there."""
        return self._clients[link]

    def close(self) -> None:
        """Have a matcher that others share forget what was known here."""
        self.table.clear()

    def handle(self, message: Message | Block, link: str, now: float) -> list[Effect]:
        """Take a message that came over a link; return what is to be done about it, in this order.

        Events that are sent again after a failure come from the link "".
        """
        kind = type(message)
        if kind is Publish or kind is Block:
            forwarded: list[Effect] = []
            self._forwarding.on_events(message, link, forwarded, now)  # type: ignore[arg-type]
            return forwarded
        effects = self._outbox.open()
        handler = self._handlers.get(kind)
        if handler is None:
            raise PenstockError(f"{self.name}: a broker is not sent {kind.__name__} by itself")
        if kind in _OF_CLIENTS and link not in self._clients:
            is_neighbour = link in self._outbox.links
            how = "is a neighbour, which says so in a Control" if is_neighbour else "is not connected"
            raise PenstockError(f"{self.name}: {kind.__name__} is for clients; {link!r} {how}")
        try:
            self._subscribing.begin(now)
            handler(message, link, now)
            self._subscribing.go_on()
        except Exception:
            self._outbox.discard()
            raise
        self._outbox.close()
        self._ask_to_be_woken(effects, now)
        return effects

    def _ask_to_be_woken(self, effects: list[Effect], now: float) -> None:
        """When ways that were left are to be let go of; at once, if neighbours are yet to be asked."""
        owed_at = now if self._subscribing.owes else float("inf")
        at = min(self.trees.leaves_at, owed_at, *self._retiring.values())
        if at < self._wakes_at:
            self._wakes_at = at
            effects.append(Wake(at))

    def _on_woken(self, _message: Woken, _link: str, now: float) -> None:
        self._wakes_at = float("inf")
        self._advertising.let_go(now)
        self._fell_retired(now)

    def _on_replayed(self, message: Replayed, _link: str, now: float) -> None:
        self._catching.on_caught_up(message.tree, message.number, message.missed, HERE, now)

    def _on_ending(self, _message: Ending, _link: str, now: float) -> None:
        """Whoever has yet to catch up with what was published here will not, and should know."""
        for tree in sorted(self.trees.through(HERE)):
            used = tree in self._forwarding.published or tree in self._retiring.keys() - self._unused
            self._advertising.fell(tree, now, used=used, ended=True)

    # Clients

    def _retire(self, tree: Tree, now: float) -> None:
        """Nothing more is published on a tree; it stays for those who have yet to catch up with it.

        So does what its publisher has said of its earlier brokers, for those who are not back yet.
        """
        used = tree in self._forwarding.published
        if self._keep and (used or (self._advertisements and self.trees.publisher(tree).acked)):
            self._forwarding.published.discard(tree)
            if not used:
                self._unused.add(tree)
            self._retiring[tree] = now + ANSWERED_KEEPS * self._keep
            if len(self._retiring) > _RETIRING_MAX:
                self._fell_retired(min(self._retiring.values()))
            self._fell_retired(now)
        else:
            self._advertising.fell(tree, now, used=False)

    def _fell_retired(self, now: float) -> None:
        for tree in [tree for tree, at in self._retiring.items() if at <= now]:
            del self._retiring[tree]
            used = tree not in self._unused
            self._unused.discard(tree)
            self._advertising.fell(tree, now, used=used)

    def _refuse(self, link: str, why: str) -> None:
        self._outbox.effects.append(Refuse(link, why))

    def _on_client_advertise(self, message: Advertise, link: str, now: float) -> None:
        client = self._clients[link]
        predicate = as_predicate(message.filter)
        why_not = client.why_not_advertise(message.tree, predicate)
        if why_not is not None:
            self._refuse(link, why_not)
            return
        if not self._advertisements:
            if not self._keep:
                return
            predicate = SILENT
        known = client.advertisements
        before = known.get(message.tree)
        known[message.tree] = tree = self._new_name()
        publisher = Publisher.of(message, now)._replace(origin=f"{client.origin}/{message.tree}")
        self._advertising.plant(tree, predicate, 0, HERE, now, publisher)
        if before is not None:
            self._retire(before, now)

    def _on_client_unadvertise(self, message: Unadvertise, link: str, now: float) -> None:
        tree = self._clients[link].advertisements.pop(message.tree, None)
        if tree is not None:
            self._retire(tree, now)

    def _on_client_subscribe(self, message: Subscribe, link: str, now: float) -> None:
        client = self._clients[link]
        predicate = as_predicate(message.filter)
        why_not = client.why_not_subscribe(message.key, predicate)
        if why_not is not None:
            self._refuse(link, why_not)
            return
        is_new = message.key not in client.subscriptions
        # A name of its own for each filter, so that nobody has to compare the filters of one subscription.
        name = self._new_name()

        def on_bound(trees: list[Tree], at: float) -> None:
            # Who comes says once for each subscription what it has missed.
            if message.seconds and is_new:
                client.missing_since = now - message.seconds
                client.unheard_since = now - max(message.seconds, message.unheard)
                self._catching.miss_for(link, trees, client.missing_since, at)
                self._catching.miss_gone(link, predicate, client.missing_since, at)

        self._subscribing.on_client_subscribe(message, link, name, on_bound)
        client.make(message, now)

    def _on_client_unsubscribe(self, message: Unsubscribe, link: str, _now: float) -> None:
        self._subscribing.on_client_unsubscribe(message, link)

    def _new_name(self) -> str:
        self._made += 1
        return f"{self.name}/{self._incarnation}.{self._made}"

    # Links

    def _on_link_up(self, message: LinkUp, link: str, now: float) -> None:
        if not link:
            raise PenstockError(f"{self.name}: a link has a name")
        if link in self._outbox.links or link in self._clients:
            # It must have been down for a while, unnoticed.
            self._on_link_down(LinkDown(silent=self._lease or 0.0), link, now)
        if message.client:
            self._clients[link] = Client.of(message, now)
            return
        self._away.discard(link)
        self._ups += 1
        self._outbox.links[link] = state = LinkState((self._incarnation, self._ups))
        state.heard_at = now
        self._subscribing.meet(link)
        self._say_all(link, now)

    def _on_link_down(self, message: LinkDown, link: str, now: float) -> None:
        self._catching.part(link)
        client = self._clients.pop(link, None)
        if client is not None:
            self._subscribing.drop_client(link)
            for tree in client.advertisements.values():
                self._retire(tree, now)
        elif link in self._outbox.links:
            lingering = self.trees.lingering(link)
            self._outbox.forget(link)
            self._subscribing.part(link)
            self._catching.miss(lingering, now - message.silent, now)
            if message.keep:
                self._away.add(link)
                self._advertising.forget(link, now, message.silent)
            else:
                self._forget(link, now, message.silent)
            self._catching.lose(link, now - message.silent, now)
        elif link in self._away:
            self._away.discard(link)
            self._subscribing.drop_all(link)

    def _forget(self, link: str, now: float, silent: float) -> None:
        """Drop all that was known from a neighbour."""
        self._subscribing.drop_all(link)
        self._advertising.forget(link, now, silent)

    def _say_all(self, link: str, now: float) -> None:
        state = self._outbox.links[link]
        advertised = self._advertising.offered_to(link, now)
        asked = self._subscribing.asked_of(link)
        size = self._slice_size
        gone = self._advertising.gone(now - ANSWERED_KEEPS * self._keep, now) if self._keep else ()
        knows_gone = self._catching.knows_gone(now) and len(gone) <= _GONE_MAX
        gone = gone[-_GONE_MAX:]
        for part, at in enumerate(range(0, max(1, len(asked)), size)):
            more = at + size < len(asked)
            some = asked[at : at + size]
            message = Sync(state.session, state.sent, advertised, some, part, more, gone, knows_gone)
            self._outbox.send(link, message)
            advertised, gone = (), ()

    def _on_control(self, message: Control, link: str, now: float) -> None:
        if self._is_next(message, link, now):
            try:
                for body in message.bodies:
                    self._take(body, link, now)
            except Exception:
                # What was meant is not known: have all of it said again.
                self._outbox.links[link].forget()
                raise

    def _take(self, body: Body, link: str, now: float) -> None:
        if isinstance(body, Subscribe):
            self._subscribing.on_subscribe(body, link)
        elif isinstance(body, Unsubscribe):
            self._subscribing.on_unsubscribe(body, link)
        elif isinstance(body, Advertise):
            self._advertising.on_advertise(body, link, now)
        elif isinstance(body, Unadvertise):
            self._advertising.on_unadvertise(body, link, now)
        elif isinstance(body, Unreachable):
            self._advertising.on_unreachable(body, link, now)
        elif isinstance(body, CatchUp):
            self._catching.on_catch_up(body, link, now)
        elif isinstance(body, CaughtUp):
            self._catching.on_caught_up(body.tree, body.number, body.missed, link, now)
        else:
            self._advertising.on_lost(body, link, now)

    def _on_alive(self, message: Alive, link: str, now: float) -> None:
        self._is_next(message, link, now)

    def _is_next(self, message: Control | Alive, link: str, now: float) -> bool:
        """Whether a message follows on what was heard before; ask for everything if something is missing."""
        state = self._outbox.links.get(link)
        if state is None:
            return False
        arrival = state.judge(message)
        if arrival is Arrival.ASK:
            self._outbox.send(link, Resync())
        if arrival is not Arrival.DROP:
            state.heard_at = now
        return arrival is Arrival.TAKE

    def _on_resync(self, _message: Resync, link: str, now: float) -> None:
        state = self._outbox.links.get(link)
        if state is not None:
            state.heard_at = now
            self._say_all(link, now)

    def _on_sync(self, message: Sync, link: str, now: float) -> None:
        state = self._outbox.links.get(link)
        if state is None:
            return
        state.heard_at = now
        anew = state.their_session not in (None, message.session)
        arrival = state.judge_sync(message)
        if arrival is Arrival.ASK:
            self._outbox.send(link, Resync())
        if arrival is not Arrival.TAKE:
            return
        if not message.part:
            silent = self._lease or 0.0
            self._advertising.on_all(message.advertisements, link, now, anew=anew, silent=silent)
            self._advertising.on_gone(message.gone, now, all_of_them=message.knows_gone)
        for subscription in message.subscriptions:
            self._subscribing.on_subscribe(subscription, link)
            state.synced.add(subscription.key)
        if not message.more:
            self._subscribing.drop_others(link, state.synced)
            state.synced = set()

    def _on_tick(self, _message: Tick, _link: str, now: float) -> None:
        self._advertising.let_go(now)
        self._fell_retired(now)
        self._catching.on_tick(now)
        self._forwarding.on_tick()
        if self._lease is None:
            return
        for link, state in self._outbox.links.items():
            if state.their_session is not None and now - state.heard_at > self._lease:
                state.forget()
                self._forget(link, now, now - state.heard_at)
                self._catching.lose(link, state.heard_at, now)
                if self._keep:
                    # It has to ask anew for what it wants, and for what it has missed meanwhile.
                    self._ups += 1
                    state.session, state.sent = (self._incarnation, self._ups), 0
                    self._say_all(link, now)
            self._outbox.send(link, state.alive())
        self._advertising.on_tick(now, self._lease)
