"""Brokers, links and clients under a virtual clock.

Brokers run whatever `penstock.broker.protocols` makes; this is their runtime, and carries out all effects.
Deterministic: what happens at the same time happens in the order in which it was caused, and every draw
comes from one seeded generator. So the same seed gives the same run, to the byte of its trace.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, Final

import msgspec

from penstock.broker.effects import Deliver, Effect, Keep, Missed, Refuse, Replay, Send, Wake
from penstock.broker.local import LinkDown, LinkUp, Load, Replayed, Tick, Woken
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.errors import PenstockError
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.model.packed import decode_event
from penstock.node.replaying import SLACK_S
from penstock.sim.clients import ANY_KEY, Client
from penstock.sim.clock import Clock
from penstock.sim.counts import Counts
from penstock.sim.links import Direction, LinkModel
from penstock.sim.matching import SharedMatching
from penstock.sim.observers import Observers
from penstock.sim.overlay import Node, Overlay
from penstock.sim.service import ServiceModel
from penstock.wire.blocks import Block, Header
from penstock.wire.messages import Advertise, Events, Message, Publish, Subscribe, Unadvertise, Unsubscribe

_LOAD_EVERY_S: Final = 0.25
"""How often cores that ask for it are told how busy their links are."""


class Network(Clock, Overlay):
    """A simulated network, whose brokers run a protocol; under one of its routing schemes, if it has any."""

    def __init__(
        self,
        scheme: str = "covering",
        *,
        protocol: str = "trees",
        advertisements: bool = True,
        lease: float | None = None,
        linger: float = 0.0,
        condenses: bool = False,
        keep: float = 0.0,
        seed: int = 0,
        service: ServiceModel | None = None,
    ) -> None:
        Clock.__init__(self)
        Overlay.__init__(self)
        self.protocol = protocol_named(protocol)
        self.settings = CoreSettings(
            scheme=scheme,
            advertisements=advertisements,
            lease=lease,
            linger=linger,
            condenses=condenses,
            keep=keep,
        )
        self.counts = Counts()
        self.random = Random(seed)
        self.clients: dict[str, Client] = {}
        self.matching = SharedMatching()
        self.observers = Observers()
        self._on_carry = self.observers.on_carry
        self._on_deliver = self.observers.on_deliver
        self._on_handle = self.observers.on_handle
        service = service or ServiceModel()
        self._service = None if service.is_free else service
        self._hears_load = False
        self._published_at: dict[str, list[float]] = {}
        """When each event of an origin was published, in the order of their numbers."""

    # Building

    def add_broker(self, name: str) -> None:
        """A new broker, running."""
        node = self.nodes[name] = Node(name)
        self._directions[name] = {}
        self._start(node)
        if self.settings.lease is not None:
            # Not all at the same moment.
            self.at(self.now + self.random.uniform(0, self.settings.lease / 4), self._tick, node)

    def add_link(self, a: str, b: str, model: LinkModel | None = None) -> None:
        """A link between two brokers, up."""
        for name in (a, b):
            self._need(name)
        if a == b or b in self._directions[a]:
            raise PenstockError(f"{a} and {b} are the same broker, or linked already")
        model = model or LinkModel()
        self._directions[a][b] = Direction(b, a, model, measured=self._hears_load)
        self._directions[b][a] = Direction(a, b, model, measured=self._hears_load)
        self._raise_link(a, b)

    def add_client(self, name: str, home: str) -> Client:
        """A client of a broker."""
        self._need(home)
        if name in self.clients or name in self.nodes:
            raise PenstockError(f"there is a {name} already")
        client = self.clients[name] = Client(name, home)
        self._handle(self.nodes[home], client.introduction(), name)
        return client

    def _need(self, broker: str) -> None:
        if broker not in self.nodes:
            raise PenstockError(f"there is no broker {broker!r}")

    def foresee(self, events: Sequence[Event]) -> None:
        """Match events that will be published soon, all at once."""
        self.matching.foresee(events)

    # What clients do

    def advertise(self, client: Client, key: Key, predicate: Predicate) -> None:
        """A client says what it will publish."""
        client.advertisements[key] = predicate
        self._say(client, Advertise(str(key), predicate))

    def unadvertise(self, client: Client, key: Key) -> None:
        """A client will publish no more of it."""
        del client.advertisements[key]
        self._say(client, Unadvertise(str(key)))

    def subscribe(self, client: Client, key: Key, predicate: Predicate) -> None:
        """A client asks for events."""
        client.wants(key, predicate)
        self._say(client, Subscribe(key, predicate))

    def unsubscribe(self, client: Client, key: Key) -> None:
        """A client asks no more."""
        del client.subscriptions[key]
        self._say(client, Unsubscribe(key))

    def publish(self, client: Client, event: Event) -> Publish | None:
        """A client publishes an event: as the network knows it, or None if its broker is down."""
        if self.nodes[client.home].broker is None:
            return None
        key = client.key_for(event) if self.settings.advertisements else ANY_KEY
        origin, number = client.origin(key), client.next_number(key)
        published = Publish(event, Header(key, origin), number)
        self.counts.published += 1
        self._published_at.setdefault(origin, []).append(self.now)
        for told in self.observers.on_publish:
            told(client, published, self.now)
        self._say(client, Publish(event, Header(key, ""), number))
        return published

    def published_at(self, publish: Publish) -> float:
        """When an event was published."""
        return self._published_at[publish.header.origin][publish.numbers - 1]

    def leave(self, client: Client) -> None:
        """A client goes, with all that it wanted; it may come back without."""
        client.subscriptions.clear()
        client.advertisements.clear()
        self._say(client, LinkDown())
        self._say(client, client.introduction())

    def _say(self, client: Client, message: Message) -> None:
        node = self.nodes[client.home]
        if node.broker is not None:
            self._arrive(node, message, client.name)

    # Faults: `penstock.sim.faults` has them happen.

    def crash(self, name: str) -> None:
        """A broker stops at once; what is in its queue is gone."""
        self._tell("Crash", name)
        node = self.nodes[name]
        node.kept, node.broker = node.broker, None
        node.queue.clear()
        for other in self._directions[name]:
            self._lower_link(name, other)

    def restart(self, name: str, *, with_state: bool) -> None:
        """A crashed broker comes back, with its state or without; its clients find it again."""
        self._tell("Restart", name, state=with_state)
        node = self.nodes[name]
        if with_state and node.kept is not None:
            node.broker, node.kept = node.kept, None
            for other in self._directions[name]:
                self._handle(node, LinkDown(), other)
            if node.overslept:
                self._wake(node, node.lives)
        else:
            if node.kept is not None:
                node.kept.close()
            self._start(node)
        for other in self._directions[name]:
            if self.is_up(name, other):
                self._raise_link(name, other)
        for client in self.clients.values():
            if client.home == name:
                self._return(client, node)

    def _return(self, client: Client, node: Node) -> None:
        """A client finds its broker again, and tells it everything anew."""
        self._handle(node, LinkDown(), client.name)
        self._handle(node, client.introduction(), client.name)
        for key, predicate in client.advertisements.items():
            self._say(client, Advertise(str(key), predicate))
        for key, predicate in client.subscriptions.items():
            self._say(client, Subscribe(key, predicate))

    def cut(self, a: str, b: str) -> None:
        """A link goes down; what is under way on it is lost."""
        self._tell("Cut", a, b)
        for direction in (self._directions[a][b], self._directions[b][a]):
            direction.up = False
        self._lower_link(a, b)

    def heal(self, a: str, b: str) -> None:
        """A link comes up again."""
        self._tell("Heal", a, b)
        for direction in (self._directions[a][b], self._directions[b][a]):
            direction.up = True
        if self.is_up(a, b):
            self._raise_link(a, b)

    def set_model(self, a: str, b: str, model: LinkModel) -> None:
        """A link behaves otherwise from now on."""
        self._tell("Degrade", a, b, **msgspec.structs.asdict(model))
        for direction in (self._directions[a][b], self._directions[b][a]):
            direction.model = model
            direction.note_model()

    def _tell(self, what: str, broker: str, link: str = "", **about: Any) -> None:
        for told in self.observers.on_fault:
            told(what, broker, link, about, self.now)

    def _raise_link(self, a: str, b: str) -> None:
        self._handle(self.nodes[a], LinkUp(), b)
        self._handle(self.nodes[b], LinkUp(), a)

    def _lower_link(self, a: str, b: str) -> None:
        for direction in (self._directions[a][b], self._directions[b][a]):
            direction.lower()
        for name, other in ((a, b), (b, a)):
            if self.nodes[name].broker is not None:
                self._handle(self.nodes[name], LinkDown(), other)

    def _start(self, node: Node) -> None:
        settings = msgspec.structs.replace(self.settings, incarnation=node.lives)
        node.broker = self.protocol.make(node.name, self.matching, settings)
        node.lives += 1
        node.since = self.now
        node.kept = None
        node.overslept = False
        node.history = []
        if node.broker.hears_load and not self._hears_load:
            self._hears_load = True
            self.every(_LOAD_EVERY_S, self._say_loads)

    # Time

    def _tick(self, node: Node) -> None:
        if node.broker is not None:
            self._handle(node, Tick(), "")
        self.at(self.now + (self.settings.lease or 0) / 4, self._tick, node)

    def _wake(self, node: Node, life: int) -> None:
        """The time has come that a core has asked for; one that is down is woken when it is back."""
        if node.lives == life:
            node.overslept = node.broker is None
            if node.broker is not None:
                self._handle(node, Woken(), "")

    def _say_loads(self) -> None:
        """Tell the cores that ask for it how busy their links are."""
        for name, node in self.nodes.items():
            if node.broker is not None and node.broker.hears_load:
                ends = [direction for direction in self._directions[name].values() if direction.up]
                loads = [direction.load(self.now, _LOAD_EVERY_S) for direction in ends]
                self._handle(node, Load(tuple(loads)), "")

    # Messages

    def backlogs(self) -> Iterable[float]:
        """Seconds that messages wait for bandwidth now, for each direction of a link."""
        return (d.backlog(self.now) for ends in self._directions.values() for d in ends.values())

    def _arrive(self, node: Node, message: Message | Block, link: str) -> None:
        """A message is there; it waits its turn."""
        if self._service is None:
            self._handle(node, message, link)
            return
        node.queue.append((message, link))
        longest = self.counts.queue_longest
        if len(node.queue) > longest[node.name]:
            longest[node.name] = len(node.queue)
        if not node.busy:
            node.busy = True
            self.at(self.now + self._service.time_for(message), self._served, node, node.lives)

    def _served(self, node: Node, life: int) -> None:
        """A broker is done with the first message of its queue."""
        if self._service is None:
            return
        if node.broker is not None and node.lives == life and node.queue:
            self._handle(node, *node.queue.popleft())
        if node.queue:
            self.at(self.now + self._service.time_for(node.queue[0][0]), self._served, node, node.lives)
        else:
            node.busy = False

    def _handle(self, node: Node, message: Message | Block, link: str) -> None:
        broker = node.broker
        if broker is None:
            return
        self.counts.handled += 1
        for told in self._on_handle:
            told(node.name, link, message, self.now)
        self._carry_out(node, broker.handle(message, link, self.now))

    def _carry_out(self, node: Node, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send:
                direction = self._directions[node.name].get(effect.link)
                if direction is not None:
                    self._send(direction, effect.message)
            elif type(effect) is Deliver:
                client, events = self.clients.get(effect.link), effect.events
                if client is None:
                    continue
                if type(events) is Publish:
                    self._deliver(client, events)
                else:
                    for publish in one_by_one(events):
                        self._deliver(client, publish)
            else:
                self._carry_out_rest(node, effect)

    def _carry_out_rest(self, node: Node, effect: Effect) -> None:
        if type(effect) is Wake:
            self.at(max(effect.at, self.now), self._wake, node, node.lives)
        elif type(effect) is Refuse and effect.link in self.clients:
            # What neighbours are refused is lost: there is no custody on these links.
            self.counts.refused += 1 if effect.events is None else len(effect.events)
        elif type(effect) is Keep:
            node.history.append((self.now, effect.events))
        elif type(effect) is Replay:
            self.at(self.now, self._replay, node, node.lives, effect)
        elif type(effect) is Missed:
            self.counts.missed += effect.count
        # Behind is for clients that go to another broker, which these do not.

    def _replay(self, node: Node, life: int, replay: Replay) -> None:
        """Send kept events again. All are kept here, for as long as their broker lives."""
        if node.lives != life:
            return
        since = self.now - replay.seconds - SLACK_S
        kept = [events for at, events in node.history if at >= since and events.header.tree == replay.tree]
        mark = self.random.getrandbits(62) | 1
        for events in kept if replay.seconds else ():
            header = msgspec.structs.replace(events.header, rescued=mark, replay=True)
            self._handle(node, events.with_header(header), "")
        self._handle(node, Replayed(replay.tree, replay.number, 0), "")

    def _send(self, direction: Direction, message: Message | Block) -> None:
        if not direction.up:
            self._lose(direction, message)
            return
        if type(message) is Publish or type(message) is Block:
            # Most messages are events.
            self.counts.frames += 1
            self.counts.carried["Publish"] += 1
            for told in self._on_carry:
                told(direction.link, direction.end, message, self.now)
        else:
            self.counts.carry(message)
        if direction.plain:
            self.after(direction.model.latency, self._come, direction, direction.session, message)
            return
        if direction.model.bandwidth:
            self.counts.wait((direction.link, direction.end), direction.backlog(self.now))
        arrivals = direction.arrivals(message, self.now, self.random)
        if not arrivals:
            self._lose(direction, message)
        for arrival in arrivals:
            self.at(arrival, self._come, direction, direction.session, message)

    def _come(self, direction: Direction, session: int, message: Message | Block) -> None:
        """A message comes to the end of a link, if the link is still what it was."""
        node = self.nodes[direction.end]
        if direction.session != session or node.broker is None:
            self._lose(direction, message)
        elif self._service is None:
            self._handle(node, message, direction.link)
        else:
            self._arrive(node, message, direction.link)

    def _lose(self, direction: Direction, message: Message | Block) -> None:
        self.counts.lost += 1
        for told in self.observers.on_lose:
            told(direction.link, direction.end, message, self.now)

    def _deliver(self, client: Client, publish: Publish) -> None:
        origin, number = publish.header.origin, publish.numbers
        late = client.take(origin, number)
        counts = self.counts
        if late is None:
            counts.repeated += 1
            for told in self.observers.on_repeat:
                told(client, publish, self.now)
            return
        counts.delivered += 1
        counts.late += late
        counts.delays.append(self.now - self._published_at[origin][number - 1])
        for deliver in self._on_deliver:
            deliver(client, publish, publish.keys or (), self.now, late)


def one_by_one(events: Events) -> Iterable[Publish]:
    """The events of a block."""
    block = events.as_block()
    keys = [] if block.keys is None else block.keys.tolist()
    ends = [0] * (len(block) + 1) if block.key_offsets is None else block.key_offsets.tolist()
    for number, data, (at, end) in zip(block.numbers.tolist(), block.events(), pairwise(ends), strict=True):
        yield Publish(decode_event(data), block.header, number, None, tuple(keys[at:end]))
