"""`protocol = "flood"`: every event goes to every node, and is matched only against the clients' own filters.

The smallest protocol there is: nodes know no trees, pass on events, and drop what has come before. Where
events are kept for who is away, nodes also ask for what they have missed, and tell each other who publishes
where (`losses`).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from penstock.broker.clients import Client, Clients
from penstock.broker.core import Facts, Prospects
from penstock.broker.effects import Behind, Effect, Missed, Refuse, Replay, Send
from penstock.broker.flood.absences import Absences
from penstock.broker.flood.losses import Losses
from penstock.broker.flood.messages import Apart, Ended, Gone, Missing, Whereabouts
from penstock.broker.flood.whereabouts import Register
from penstock.broker.forwarding import EVERYTHING, Forwarding
from penstock.broker.local import LinkDown, LinkUp, Replayed, Tick
from penstock.broker.needs import Matching
from penstock.broker.publishers import ANSWERED_KEEPS, Publisher
from penstock.broker.table import Entry, Table
from penstock.errors import PenstockError
from penstock.filters.languages import sql
from penstock.filters.parsing import as_predicate
from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.routing.schemes.scheme import Source
from penstock.wire.blocks import Block, Header
from penstock.wire.messages import (
    Advertise,
    Events,
    Message,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)

_ANYWHERE: Final = ""
"""What all events have for a tree."""

_HEARD_MAX: Final = 10_000
"""Questions and answers of other nodes that are remembered, the last ones."""

_advertised = lru_cache(4096)(sql.parse)


class _Everywhere:
    """The routes of this protocol: to all targets, and to clients here that want it."""

    def __init__(
        self, table: Table, links: set[str], targets: Callable[[str], Iterable[str]], *, advertisements: bool
    ) -> None:
        self.links = links
        self.trees = frozenset({_ANYWHERE})
        self._table = table
        self._targets = targets
        self._advertisements = advertisements
        self.match = table.match

    def tree_of(self, client: Client, key: str) -> tuple[str, Predicate] | None:
        if not self._advertisements:
            return _ANYWHERE, client.grants.advertise or EVERYTHING
        text = client.advertisements.get(key)
        return None if text is None else (_ANYWHERE, _advertised(text))

    def asks(self, _tree: str, _link: str) -> bool:
        return True

    def wanting(self, events: Events, found: Any, header: Header, link: str) -> Iterable[tuple[str, Events]]:
        passed = events.with_header(header)
        everywhere: list[tuple[str, Events]] = [(to, passed) for to in self._targets(link) if to != link]
        return everywhere + list(self._table.wanting(events, found, header))


class FloodNode:
    """One node."""

    hears_load = False

    def __init__(
        self,
        name: str,
        matching: Matching,
        *,
        advertisements: bool = True,
        incarnation: int = 0,
        linger: float = 0.0,
        keep: float = 0.0,
    ) -> None:
        self.name = name
        self._incarnation = incarnation
        self._linger = linger
        self._keep = keep
        self._asked = 0
        self._heard: dict[tuple[str, tuple[int, int], str], None] = {}
        self._missing: dict[str, tuple[float, float]] = {}
        """When something was last heard from neighbours that are away, or by clients that were; and until
        when to go on asking for it."""
        self._absences = Absences(keep)
        """Since when other nodes may be missing something."""
        self._said_missing = float("inf"), 0.0
        """Since when this node has said that it may be missing something, and when it said so."""
        self._away: dict[str, float] = {}
        """The neighbours that are away, and since when; of those who stay away, clients are told."""
        self._began_at = float("inf")
        """When something happened here for the first time."""
        self._lives: dict[str, int] = {}
        """Of each neighbour, which life it was last seen in."""
        self._behind: set[str] = set()
        """The clients that know that events are yet to come."""
        self._replays: dict[int, Apart] = {}
        self._clients = Clients()
        self._register = Register(name, incarnation, keep)
        self._losses = Losses(self._register, self._clients, keep=keep, linger=linger)
        self._table = Table(matching, self._clients)
        self.links: set[str] = set()
        """The neighbours."""
        routes = _Everywhere(self._table, self.links, self.targets, advertisements=advertisements)
        self._forwarding = Forwarding(routes, self._clients, matching, keeps=keep > 0)

    def targets(self, _link: str) -> Iterable[str]:
        """The neighbours that are sent events which came over a link: all, but that nothing goes back."""
        return sorted(self.links)

    def handle(self, message: Message | Block, link: str, now: float) -> list[Effect]:
        """Take a message that came over a link; return what is to be done about it."""
        effects: list[Effect] = []
        self._began_at = min(self._began_at, now)
        if isinstance(message, Publish | Block):
            self._forwarding.on_events(message, link, effects, now)
        elif isinstance(message, LinkUp | LinkDown):
            self._on_link(message, link, now, effects)
        elif isinstance(message, Apart):
            self._on_apart(message, link, effects)
        elif isinstance(message, Missing):
            self._on_missing(message, link, now, effects)
        elif isinstance(message, Gone):
            self._on_gone(message, link, effects)
        elif isinstance(message, Whereabouts):
            self._on_whereabouts(message, link, now, effects)
        elif isinstance(message, Ended):
            self._on_ended(message, link, now, effects)
        elif isinstance(message, Tick):
            self._on_tick(now, effects)
        elif isinstance(message, Replayed):
            asked = self._replays.pop(message.number)
            if message.missed:
                self._on_gone(Gone(asked.node, asked.count, self.name, message.missed), "", effects)
        elif isinstance(message, Subscribe | Unsubscribe | Advertise | Unadvertise):
            self._on_client(message, link, now, effects)
        return effects

    def _on_client(
        self,
        message: Subscribe | Unsubscribe | Advertise | Unadvertise,
        link: str,
        now: float,
        effects: list[Effect],
    ) -> None:
        if link not in self._clients:
            raise PenstockError(f"{self.name}: {message.kind} is for clients, which {link!r} is not")
        why_not = self._change(message, link, self._clients[link], now)
        if why_not is not None:
            effects.append(Refuse(link, why_not))
        elif isinstance(message, Subscribe) and message.seconds:
            self._on_back(link, now - message.seconds, now, effects)
        elif isinstance(message, Advertise):
            publisher = Publisher.of(message, now)._replace(origin=self._origin(link, message.tree))
            self._tell_whereabouts(self._register.come(publisher, now), effects)
        elif isinstance(message, Unadvertise):
            left = self._register.leave(self._origin(link, message.tree), now)
            self._tell_whereabouts(left, effects)

    def _on_link(self, message: LinkUp | LinkDown, link: str, now: float, effects: list[Effect]) -> None:
        if isinstance(message, LinkDown):
            if link in self.links:
                since, _until = self._missing.get(link, (now, now))
                # What it was missing may come some other way, or never.
                since = min(since, now - message.silent, self._absences.since(now, link))
                self._missing[link] = since, float("inf")
                if not message.ended:
                    self._away.setdefault(link, now)
                self._tell_clients(now, effects)
            # One that may come back is still sent events, which the runtime keeps for it meanwhile.
            if not message.keep:
                self._leave(link, now, effects)
            self._tell_missing(now, effects)
            return
        self._leave(link, now, effects)
        if message.client:
            self._clients[link] = Client.of(message, now)
        else:
            self._meet(link, now)
            self.links.add(link)
            self._on_life(link, message.incarnation, now, effects)
            if link in self._missing:
                self._missing[link] = self._missing[link][0], now + self._keep
            if self._keep:
                effects += [Send(link, known) for known in self._register.all(now)]
                effects += [Send(link, ended) for ended in self._losses.all(now)]
                effects += [Send(link, missing) for missing in self._absences.all(now)]
                self._tell_missing(now, effects, again=True)
            self._ask(now, effects)

    def _meet(self, link: str, now: float) -> None:
        """A neighbour that was not there in this life has been apart for as long as that lasts.

        One that comes to a network that has been there for long is new, and has nothing for anybody here.
        """
        is_young = now - self._began_at < ANSWERED_KEEPS * self._keep
        if link not in self._lives and (is_young or not self.links):
            self._missing[link] = self._began_at, float("inf")
            for one, client in self._clients.items():
                self._losses.miss_unheard(one, max(self._began_at, client.wants_since), now)

    def _on_tick(self, now: float, effects: list[Effect]) -> None:
        self._forwarding.on_tick()
        self._give_up(now, effects)
        self._register.forget(now)
        effects += self._losses.on_tick(now)
        self._tell_missing(now, effects)
        self._tell_clients(now, effects)

    # Those who were apart. There is no telling when all has come, so that a node goes on asking for the same
    # for as long as it is kept.

    def _ask(self, now: float, effects: list[Effect]) -> None:
        """Have all nodes send again what this one may have missed."""
        since = self._since(now)
        if since < now and self._keep:
            self._asked += 1
            self._on_apart(Apart(self.name, (self._incarnation, self._asked), now - since), "", effects)

    def _since(self, now: float) -> float:
        """Since when events may be missing."""
        self._missing = {link: missing for link, missing in self._missing.items() if missing[1] > now}
        return min((since for since, _until in self._missing.values()), default=now)

    def _tell_clients(self, now: float, effects: list[Effect]) -> None:
        """Have clients know what may be missing, as long as that is not certain to have come."""
        since = min(self._since(now), self._absences.since(now))
        self._behind &= self._clients.keys()
        for link in self._clients:
            earliest = min(since, self._losses.since(link))
            if earliest < now and self._keep:
                effects.append(Behind(link, now - earliest))
                self._behind.add(link)
            elif link in self._behind:
                # It asks its next broker for no more than what it misses then.
                effects.append(Behind(link, 0.0))
                self._behind.discard(link)

    def _tell_missing(self, now: float, effects: list[Effect], *, again: bool = False) -> None:
        """Tell everybody since when something may be missing here: when that changes, and now and then."""
        since = self._apart_since(now)
        said, said_at = self._said_missing
        is_due = since < now and (again or now - said_at >= self._keep)
        if self._keep and (since != said or is_due):
            self._said_missing = since, now
            self._asked += 1
            seconds = max(0.0, now - since) if since < float("inf") else None
            message = Missing(self.name, (self._incarnation, self._asked), seconds)
            effects += [Send(to, message) for to in sorted(self.links)]

    def _apart_since(self, now: float) -> float:
        """Since when something may be missing here, as a neighbour is away; inf if none is."""
        missing = (self._missing[link] for link in self._missing.keys() & self._lives.keys())
        return min((since for since, until in missing if until > now), default=float("inf"))

    def _on_missing(self, message: Missing, link: str, now: float, effects: list[Effect]) -> None:
        if message.node != self.name and self._absences.learn(message, now):
            effects += [Send(to, message) for to in sorted(self.links) if to != link]
            self._tell_clients(now, effects)

    def _on_back(self, link: str, since: float, now: float, effects: list[Effect]) -> None:
        """A client has come that may have missed events since a time, at another node or here."""
        # A node that has just started and is alone does not know who is missing.
        is_alone = not self._lives
        young_until = self._began_at + ANSWERED_KEEPS * self._keep if is_alone else now
        self._missing[link] = since, max(now + self._keep, young_until)
        self._behind.add(link)
        self._clients[link].missing_since = since
        self._losses.come(link, since, now)
        self._ask(now, effects)

    def _on_apart(self, message: Apart, link: str, effects: list[Effect]) -> None:
        if self._is_news(message.node, message.count, ""):
            effects += [Send(to, message) for to in sorted(self.links) if to != link]
            self._asked += 1
            self._replays[self._asked] = message
            effects.append(Replay(_ANYWHERE, self._asked, message.seconds))

    def _on_gone(self, message: Gone, link: str, effects: list[Effect]) -> None:
        if self._is_news(message.node, message.count, message.keeper):
            effects += [Send(to, message) for to in sorted(self.links) if to != link]
            wanting = (name for name, client in self._clients.items() if client.subscriptions)
            effects += [Missed(client, message.events) for client in wanting]

    # Those who died with what they kept, or stay away with it.

    def _on_life(self, link: str, incarnation: int, now: float, effects: list[Effect]) -> None:
        """A neighbour is there again: what it kept in an earlier life is gone.

        Nothing was missed in a time that is shorter than that for which nodes wait for who is away.
        """
        before, self._lives[link] = self._lives.get(link, incarnation), incarnation
        since, _until = self._missing.get(link, (now, now))
        if link in self._away and incarnation != before and since < now - self._linger:
            self._end(link, before, since, now, effects)
        self._away.pop(link, None)

    def _give_up(self, now: float, effects: list[Effect]) -> None:
        """Neighbours that stay away for longer than anything is kept may not come back."""
        for link in [link for link, since in self._away.items() if now - since > self._keep]:
            del self._away[link]
            since, _until = self._missing.get(link, (now, now))
            self._end(link, self._lives.get(link, 0), since, now, effects)

    def _end(self, link: str, incarnation: int, since: float, now: float, effects: list[Effect]) -> None:
        """A life of a neighbour may be over: tell everybody, and ask who publishes where."""
        keeps_events = self._keep > 0
        if keeps_events:
            self._asked += 1
            count = self._incarnation, self._asked
            self._on_ended(Ended(link, incarnation, self.name, count, now - since), "", now, effects)

    def _on_ended(self, message: Ended, link: str, now: float, effects: list[Effect]) -> None:
        if not self._is_news(message.by, message.count, message.node):
            return
        # Whoever was apart itself may have missed more than the neighbour that says so.
        own = min((self._missing[one][0] for one in self._missing if one not in self._clients), default=now)
        message = msgspec.structs.replace(message, seconds=max(message.seconds, now - own))
        effects += [Send(to, message) for to in sorted(self.links) if to != link]
        if (message.node, message.incarnation) != (self.name, self._incarnation):
            self._losses.open(message, now)
        for answer in self._register.answer(now):
            self._tell_whereabouts(answer, effects)

    def _on_whereabouts(self, message: Whereabouts, link: str, now: float, effects: list[Effect]) -> None:
        before = self._register.renewals
        self._tell_whereabouts(self._register.learn(message, now), effects, but=link)
        since = min(self._apart_since(now), self._absences.since(now))
        if self._register.renewals > before and since < now:
            # Whoever would have noticed may have ended itself.
            for one, client in self._clients.items():
                self._losses.miss_unheard(one, max(since, client.wants_since), now)

    def _tell_whereabouts(self, message: Whereabouts | None, effects: list[Effect], *, but: str = "") -> None:
        if message is not None and self._keep:
            effects += [Send(to, message) for to in sorted(self.links) if to != but]

    def _origin(self, link: str, key: Key) -> str:
        """In whose name a client's events are numbered, at whichever node it is."""
        return f"{self._clients[link].origin}/{key}"

    def _is_news(self, *what: Any) -> bool:
        if what in self._heard:
            return False
        self._heard[what] = None
        if len(self._heard) > _HEARD_MAX:
            del self._heard[next(iter(self._heard))]
        return True

    def _change(
        self,
        message: Subscribe | Unsubscribe | Advertise | Unadvertise,
        link: str,
        client: Client,
        now: float,
    ) -> str | None:
        """Change what a client wants or publishes; return why not, if it may not."""
        if isinstance(message, Advertise):
            predicate = as_predicate(message.filter)
            why_not = client.why_not_advertise(message.tree, predicate)
            if why_not is None:
                client.advertisements[message.tree] = predicate.to_sql()
            return why_not
        if isinstance(message, Unadvertise):
            client.advertisements.pop(message.tree, None)
            return None
        if isinstance(message, Subscribe):
            predicate = as_predicate(message.filter)
            why_not = client.why_not_subscribe(message.key, predicate)
            if why_not is None:
                client.subscriptions[message.key] = str(message.key)
                client.names[message.key] = message.key
                client.make(message, now)
                self._table.put(Source(link, message.key), Entry(predicate, frozenset({_ANYWHERE})))
            return why_not
        if client.subscriptions.pop(message.key, None) is not None:
            del client.names[message.key]
            client.unmake(message.key)
            self._table.drop(Source(link, message.key))
        return None

    def _leave(self, link: str, now: float, effects: list[Effect]) -> None:
        self.links.discard(link)
        for key in self._clients[link].advertisements if link in self._clients else ():
            self._tell_whereabouts(self._register.leave(self._origin(link, key), now), effects)
        self._losses.leave(link)
        client = self._clients.pop(link, None)
        for key in [] if client is None else client.names:
            self._table.drop(Source(link, key))

    def facts(self) -> Facts:
        """What may be asked of any core."""
        forwarding = self._forwarding
        return Facts(
            subscriptions=len(self._table),
            filters=self._table.filters,
            matched=self._table.matched,
            duplicates=forwarding.duplicates,
            late=forwarding.late,
            withheld=forwarding.withheld,
            unrouted=forwarding.unrouted,
        )

    def prospects(self) -> Prospects:
        """All events pass here; who advertises what, only the publisher's own node knows."""
        return Prospects(sees_all=True, elsewhere=(), subscribers=self._table.clients_of)

    def client(self, link: str) -> Client:
        """What is known of a client that is there."""
        return self._clients[link]

    def close(self) -> None:
        """Have a matcher that others share forget what was known here."""
        self._table.clear()
