"""Who gets an event: one procedure, for events one by one and by the block, simulated and live.

An event is named by its origin, the publisher and its advertisement, and by the number that the publisher
gave it. Whatever way it takes, and however often it comes, it is passed on once; and once more each time that
it is sent again after a failure, because those behind the failure may not have had it. What has not come is
taken even if later numbers have: it is late, not lost.

Where events go is the protocol's affair (`Routes`). Whether they are carried as `Publish`, one event, or as a
`Block` of bytes, the steps are the same; what differs is below them: how events are matched, which numbers
are new, which of a block are taken.
"""

from collections.abc import Container, Iterable
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.broker.clients import Client, Clients
from penstock.broker.effects import Deliver, Effect, Keep, Refuse, Send
from penstock.broker.needs import Matching
from penstock.broker.seen import Marked, Seen
from penstock.filters.filter import ALWAYS
from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.wire.blocks import HOPS_MAX, Block, Header
from penstock.wire.messages import Events, Publish

EVERYTHING: Final = Predicate([ALWAYS])

KEYS_MAX: Final = 2**20
"""Keys of subscriptions in one block for a client: 4 MiB of a frame."""


class Routes(Protocol):
    """Where a protocol sends events."""

    @property
    def links(self) -> Container[str]:
        """The neighbours: where events may come from."""

    @property
    def trees(self) -> Container[str]:
        """The trees whose events there is anywhere to send to."""

    def tree_of(self, client: Client, key: str) -> tuple[str, Predicate] | None:
        """The tree for what a client publishes under a key, and what it must match; None to refuse it."""

    def match(self, events: Events) -> Any:
        """What events match, for `wanting`. Raises EventError where one is not an event."""

    def wanting(self, events: Events, found: Any, header: Header, link: str) -> Iterable[tuple[str, Events]]:
        """The links that want events, with those that each wants, under a new header.

        Those for clients come with the keys of their subscriptions. The neighbour that events came from may
        be among the links; nothing is sent back to it.
        """

    def asks(self, tree: str, link: str) -> bool:
        """Whether events of a tree that are sent again, and that have passed here, are for this link."""


class Forwarding:
    """Passes events on."""

    def __init__(self, routes: Routes, clients: Clients, matching: Matching, *, keeps: bool = False) -> None:
        """`keeps`: what is published here is kept for those who are apart from here."""
        self.duplicates = 0
        """Events that came again, and were dropped."""
        self.late = 0
        """Events that came after later ones of the same publisher."""
        self.withheld = 0
        """Events that a client was not to see."""
        self.unrouted = 0
        """Events of trees that were not known any more."""
        self.published: set[str] = set()
        """The trees on which something was published here that is kept."""
        self._routes = routes
        self._clients = clients
        self._matching = matching
        self._keeps = keeps
        self._seen = Seen()
        self._rescued = Marked()

    def on_tick(self) -> None:
        """A while has passed: remember what has come of those who are silent in little room."""
        self._seen.fold_idle()

    def on_events(self, events: Events, link: str, effects: list[Effect], now: float) -> None:
        """Events come from a client or from a neighbour, or are sent again after a failure (from nowhere)."""
        client = self._clients.get(link)
        if client is not None:
            admitted = self._admitted(events, link, client, effects)
            if admitted is not None:
                if self._keeps:
                    self.published.add(admitted.header.tree)
                    effects.append(Keep(admitted))
                self._forward(admitted, link, effects, now)
        elif link and link not in self._routes.links:
            return
        elif events.header.tree not in self._routes.trees:
            # The tree is not known yet, or another has taken its place: the publisher's broker knows.
            self.unrouted += len(events)
            if link:
                effects.append(Refuse(link, "the tree of these events is not known here", events))
        elif events.header.replay:
            self._replay(events, link, effects, now)
        else:
            self._forward(events, link, effects, now)

    def _admitted(self, events: Events, link: str, client: Client, effects: list[Effect]) -> Events | None:
        """What a client may publish, in its name and on its tree; the rest is refused."""
        key = events.header.tree
        tree = self._routes.tree_of(client, key)
        if tree is None:
            why = "nothing is advertised under this key; advertise before publishing"
            effects.append(Refuse(link, why, events))
            return None
        name, offered = tree
        admitted: Events | None = events
        if offered != EVERYTHING:
            admitted, refused = events.split(self._matching.holds(offered, events))
            if refused is not None:
                why = f"the event is not among what was advertised or granted: {offered.to_sql():.200}"
                effects.append(Refuse(link, why, refused))
        if admitted is None:
            return None
        given = events.header
        return admitted.with_header(
            Header(name, f"{client.origin}/{key}", given.hops, given.rescued, given.trace, age=given.age)
        )

    def _forward(self, events: Events, link: str, effects: list[Effect], now: float) -> None:
        # Bytes are matched before they are taken for come, because this is what finds events that are none.
        found = None if type(events) is Publish else self._routes.match(events)
        new = self._new(events)
        fresh = events
        # Of one event that has not come there is nothing to split.
        if new is not True:
            kept, _known = events.split(new)
            if kept is None:
                return
            if kept is not events and found is not None:
                fresh, found = kept, found.only(new)
        if found is None:
            found = self._routes.match(events)
        header = events.header
        # What is rescued is not dropped for having come, so that nothing else would end a circle of ways.
        goes_on = header.hops < HOPS_MAX
        if goes_on:
            header = Header(
                header.tree, header.origin, header.hops + 1, header.rescued, header.trace, age=header.age
            )
        clients = self._clients
        for to, part in self._routes.wanting(fresh, found, header, link):
            if to in clients:
                due = part if not header.age else self._due(part, clients[to], now)
                if due is not None:
                    self._deliver(to, due, effects)
            elif goes_on and to != link:
                effects.append(Send(to, part))

    def _replay(self, events: Events, link: str, effects: list[Effect], now: float) -> None:
        """Pass on events that are sent again: to all who want them if they come for the first time.

        What has passed here before has been missed only by those who ask. Subscriptions that were made after
        the events get none of them.
        """
        found = self._routes.match(events)
        origin, numbers = events.header.origin, _array(events)
        new = _array_of(self._seen.take(origin, events.numbers)[0])
        due = self._rescued.add(origin, events.header.rescued, events.numbers)
        kept, _done = events.split(due)
        if kept is None:
            return
        if kept is not events:
            found = found.only(due)
        given = events.header
        goes_on = given.hops < HOPS_MAX
        header = Header(
            given.tree, given.origin, min(given.hops + 1, HOPS_MAX), given.rescued, replay=True, age=given.age
        )
        for to, part in self._routes.wanting(kept, found, header, link):
            missed: Events | None = part
            if not self._routes.asks(header.tree, to):
                is_new = np.isin(_array(part), numbers[new])
                missed, _had = part.split(is_new if type(part) is Block else bool(is_new[0]))  # type: ignore[arg-type]
            client = self._clients.get(to)
            if missed is not None and client is not None:
                missed = self._due(missed, client, now)
            if missed is None:
                continue
            if client is not None:
                self._deliver(to, missed, effects)
            elif goes_on and to != link:
                effects.append(Send(to, missed))

    def _due(self, events: Events, client: Client, now: float) -> Events | None:
        """Of events that are sent again, those that subscriptions wanted when they were published too."""
        keys: Iterable[Key] = () if events.keys is None else dict.fromkeys(events.keys)
        refused: dict[Key, Any] = {}
        for key, before in client.younger_than(events.header.age, now, keys).items():
            held = False if before is None else self._matching.holds(before, events)
            refused[key] = not held if type(events) is Publish else ~np.broadcast_to(held, len(events))
        return events.without_keys(refused)

    def _new(self, events: Events) -> Any:
        """Which events are to be passed on, because they have not come before."""
        header = events.header
        one = events.number if type(events) is Block else None
        numbers: Any = events.numbers if one is None else one
        new, top = self._seen.take(header.origin, numbers)
        if header.rescued:
            # Those behind the failure may not have had it; others will drop it.
            new = self._rescued.add(header.origin, header.rescued, numbers)
        if new is True and numbers > top:
            # Most are like this, where they come one by one.
            return True
        if one is not None:
            new, numbers = np.array([new]), events.numbers
        self.duplicates += len(events) - events.count(new)
        self.late += events.count(new & (numbers < top))
        return new

    def _deliver(self, link: str, events: Events, effects: list[Effect]) -> None:
        """Give events to a client, those that it may see."""
        granted = self._clients[link].grants.subscribe
        if granted is not None:
            allowed, withheld = events.split(self._matching.holds(granted, events))
            if withheld is not None:
                self.withheld += len(withheld)
            if allowed is None:
                return
            events = allowed
        if type(events) is Publish:
            effects.append(Deliver(link, events))
        elif type(events) is Block:
            effects += [Deliver(link, part) for part in events.parts_of(KEYS_MAX)]


def _array(events: Events) -> NDArray[np.int64]:
    """The numbers of one event or several."""
    return np.atleast_1d(np.asarray(events.numbers, np.int64))


def _array_of(which: Any) -> NDArray[np.bool_]:
    return np.atleast_1d(np.asarray(which, np.bool_))
