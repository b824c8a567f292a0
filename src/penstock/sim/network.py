"""Brokers, links and clients under a virtual clock.

Deterministic: what happens at the same time happens in the order in which it was caused, and every draw
comes from one seeded generator. So the same seed gives the same run, to the byte of its trace.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from penstock.broker.core import Broker
from penstock.broker.effects import Deliver, Effect, Refuse, Send
from penstock.errors import PenstockError
from penstock.filters.merging import merge
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.routing.schemes.scheme import Scheme
from penstock.sim.counts import Counts
from penstock.sim.links import Direction, LinkModel
from penstock.sim.matching import SharedMatching
from penstock.sim.service import ServiceModel
from penstock.wire.messages import (
    Advertise,
    LinkDown,
    LinkUp,
    Message,
    Publish,
    Subscribe,
    Tick,
    Unadvertise,
    Unsubscribe,
)


class Client:
    """A client of a broker: what it wants and may publish, kept also while it is cut off."""

    def __init__(self, name: str, home: str) -> None:
        self.name = name
        self.home = home
        self.subscriptions: dict[Key, Predicate] = {}
        self.advertisements: dict[Key, Predicate] = {}
        self.ever: dict[Key, Predicate] = {}
        """All that was ever asked for under each key."""
        self.last: dict[str, int] = {}
        """The number of the last event that it got on each tree."""


class Node:
    """A broker with its input queue."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.broker: Broker | None = None
        self.kept: Broker | None = None
        """The state that a crashed broker left."""
        self.lives = 0
        self.queue: deque[tuple[Message, str]] = deque()
        self.busy = False


class Network:
    """A simulated network."""

    def __init__(
        self,
        make_scheme: Callable[[], Scheme],
        *,
        advertisements: bool = True,
        lease: float | None = None,
        seed: int = 0,
        service: ServiceModel | None = None,
    ) -> None:
        self.now = 0.0
        self.caused_max = 10**12
        """So many messages and timers are no longer what anybody wants to simulate."""
        self.counts = Counts()
        self.random = Random(seed)
        self.nodes: dict[str, Node] = {}
        self.clients: dict[str, Client] = {}
        self.matching = SharedMatching()
        self.on_deliver: Callable[[Client, Publish, tuple[Key, ...], float], None] | None = None
        self.on_carry: Callable[[str, str, Publish], None] | None = None
        self.on_handle: Callable[[float, str, str, Message], None] | None = None
        self.on_lose: Callable[[float, str, str, Message], None] | None = None
        self.on_fault: Callable[[float, str, str, str, dict[str, Any]], None] | None = None
        self._make_scheme = make_scheme
        self.is_perfect = make_scheme().perfect
        self.advertisements = advertisements
        self._lease = lease
        service = service or ServiceModel()
        self._service = None if service.is_free else service
        self._directions: dict[str, dict[str, Direction]] = {}
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._caused = 0
        self._sent_at: dict[int, float] = {}

    # Building

    def add_broker(self, name: str) -> None:
        """A new broker, running."""
        node = self.nodes[name] = Node(name)
        self._directions[name] = {}
        self._start(node)
        if self._lease is not None:
            # Not all at the same moment.
            self.at(self.now + self.random.uniform(0, self._lease / 4), self._tick, node)

    def add_link(self, a: str, b: str, model: LinkModel | None = None) -> None:
        """A link between two brokers, up."""
        for name in (a, b):
            self._need(name)
        if a == b or b in self._directions[a]:
            raise PenstockError(f"{a} and {b} are the same broker, or linked already")
        model = model or LinkModel()
        self._directions[a][b] = Direction(b, a, model)
        self._directions[b][a] = Direction(a, b, model)
        self._raise_link(a, b)

    def add_client(self, name: str, home: str) -> Client:
        """A client of a broker."""
        self._need(home)
        if name in self.clients or name in self.nodes:
            raise PenstockError(f"there is a {name} already")
        client = self.clients[name] = Client(name, home)
        self._handle(self.nodes[home], LinkUp(client=True), name)
        return client

    def _need(self, broker: str) -> None:
        if broker not in self.nodes:
            raise PenstockError(f"there is no broker {broker!r}")

    def links(self) -> Iterable[tuple[str, str]]:
        """All links, each once."""
        return ((a, b) for a, ends in self._directions.items() for b in ends if a < b)

    def direction(self, a: str, b: str) -> Direction:
        """One direction of a link."""
        return self._directions[a][b]

    def is_up(self, a: str, b: str) -> bool:
        """Whether messages can go over a link."""
        return self._directions[a][b].up and bool(self.nodes[a].broker) and bool(self.nodes[b].broker)

    def broker(self, name: str) -> Broker:
        """A broker that is running."""
        broker = self.nodes[name].broker
        if broker is None:
            raise PenstockError(f"{name} is not running")
        return broker

    def is_running(self, name: str) -> bool:
        """Whether a broker is there."""
        return self.nodes[name].broker is not None

    def is_lossy(self) -> bool:
        """Whether some link loses or reorders messages."""
        return any(
            d.model.loss or d.model.reorder for ends in self._directions.values() for d in ends.values()
        )

    def backlogs(self) -> Iterable[float]:
        """Seconds that messages wait for bandwidth now, for each direction of a link."""
        return (d.backlog(self.now) for ends in self._directions.values() for d in ends.values())

    def component(self, name: str) -> set[str]:
        """The brokers that can be reached from one that is running, itself among them."""
        found, left = {name}, [name]
        while left:
            at = left.pop()
            near = {other for other in self._directions[at] if self.is_up(at, other)} - found
            found |= near
            left += near
        return found

    def components(self) -> list[set[str]]:
        """The running brokers, those that can reach each other together."""
        found: list[set[str]] = []
        for name in self.nodes:
            if self.is_running(name) and not any(name in members for members in found):
                found.append(self.component(name))
        return found

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
        client.subscriptions[key] = predicate
        client.ever[key] = merge([predicate, client.ever.get(key, predicate)]).predicate
        self._say(client, Subscribe(key, predicate))

    def unsubscribe(self, client: Client, key: Key) -> None:
        """A client asks no more."""
        del client.subscriptions[key]
        self._say(client, Unsubscribe(key))

    def publish(self, client: Client, event: Event) -> bool:
        """A client publishes an event; false if its broker is down."""
        if self.nodes[client.home].broker is None:
            return False
        self.counts.published += 1
        self._sent_at[id(event)] = self.now
        self._say(client, Publish(event))
        return True

    def _say(self, client: Client, message: Message) -> None:
        node = self.nodes[client.home]
        if node.broker is not None:
            self._arrive(node, message, client.name)

    # Faults

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
        else:
            if node.kept is not None:
                node.kept.table.clear()
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
        self._handle(node, LinkUp(client=True), client.name)
        for key, predicate in client.advertisements.items():
            self._say(client, Advertise(str(key), predicate))
        for key, predicate in client.subscriptions.items():
            self._say(client, Subscribe(key, predicate))

    def leave(self, client: Client) -> None:
        """A client goes, with all that it wanted; it may come back without."""
        client.subscriptions.clear()
        client.advertisements.clear()
        self._handle(self.nodes[client.home], LinkDown(), client.name)
        self._handle(self.nodes[client.home], LinkUp(client=True), client.name)

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
        if self.on_fault is not None:
            self.on_fault(self.now, what, broker, link, about)

    def _raise_link(self, a: str, b: str) -> None:
        self._handle(self.nodes[a], LinkUp(), b)
        self._handle(self.nodes[b], LinkUp(), a)

    def _lower_link(self, a: str, b: str) -> None:
        for direction in (self._directions[a][b], self._directions[b][a]):
            direction.session += 1
            direction.last_arrival = 0.0
            direction.free_at = 0.0
        for name, other in ((a, b), (b, a)):
            if self.nodes[name].broker is not None:
                self._handle(self.nodes[name], LinkDown(), other)

    def _start(self, node: Node) -> None:
        node.broker = Broker(
            node.name,
            self._make_scheme,
            self.matching,
            advertisements=self.advertisements,
            incarnation=node.lives,
            lease=self._lease,
        )
        node.lives += 1
        node.kept = None

    def _tick(self, node: Node) -> None:
        if node.broker is not None:
            self._handle(node, Tick(), "")
        self.at(self.now + (self._lease or 0) / 4, self._tick, node)

    # Running

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Have something happen at a time."""
        self._caused += 1
        heapq.heappush(self._heap, (time, self._caused, action, arguments))

    def run(self, until: float = float("inf")) -> None:
        """Let time pass, until nothing more happens or it is so late."""
        heap = self._heap
        pop = heapq.heappop
        while heap and heap[0][0] <= until:
            self.now, _caused, action, arguments = pop(heap)
            action(*arguments)
            if self._caused > self.caused_max:
                raise PenstockError(f"more than {self.caused_max:,} messages and timers: a storm")
        if until != float("inf"):
            self.now = until

    def _arrive(self, node: Node, message: Message, link: str) -> None:
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

    def _handle(self, node: Node, message: Message, link: str) -> None:
        broker = node.broker
        if broker is None:
            return
        self.counts.handled += 1
        if self.on_handle is not None:
            self.on_handle(self.now, node.name, link, message)
        self._carry_out(node.name, broker.handle(message, link, self.now))

    def _carry_out(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send:
                self._send(self._directions[name][effect.link], effect.message)
            elif type(effect) is Deliver:
                self._deliver(effect)
            elif type(effect) is Refuse:
                self.counts.refused += 1

    def _send(self, direction: Direction, message: Message) -> None:
        if not direction.up:
            self._lose(direction, message)
            return
        self.counts.carry(message)
        if self.on_carry is not None and type(message) is Publish:
            self.on_carry(direction.link, direction.end, message)
        if direction.plain:
            self._caused += 1
            item = (
                self.now + direction.model.latency,
                self._caused,
                self._come,
                (direction, direction.session, message),
            )
            heapq.heappush(self._heap, item)
            return
        if direction.model.bandwidth:
            self.counts.wait((direction.link, direction.end), direction.backlog(self.now))
        arrivals = direction.arrivals(message, self.now, self.random)
        if not arrivals:
            self._lose(direction, message)
        for arrival in arrivals:
            self.at(arrival, self._come, direction, direction.session, message)

    def _come(self, direction: Direction, session: int, message: Message) -> None:
        """A message comes to the end of a link, if the link is still what it was."""
        node = self.nodes[direction.end]
        if direction.session != session or node.broker is None:
            self._lose(direction, message)
            return
        self._arrive(node, message, direction.link)

    def _lose(self, direction: Direction, message: Message) -> None:
        self.counts.lost += 1
        if self.on_lose is not None:
            self.on_lose(self.now, direction.link, direction.end, message)

    def _deliver(self, effect: Deliver) -> None:
        client = self.clients[effect.link]
        tree, number = effect.publish.tree, effect.publish.number
        if self.nodes[client.home].lives > 1 and client.last.get(tree, 0) >= number:
            # Its broker does not remember what it delivered in an earlier life; the client does.
            self.counts.repeated += 1
            return
        client.last[tree] = number
        self.counts.delivered += 1
        self.counts.delays.append(self.now - self._sent_at[id(effect.publish.event)])
        if self.on_deliver is not None:
            self.on_deliver(client, effect.publish, effect.subscriptions, self.now)
