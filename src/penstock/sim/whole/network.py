"""Brokers, clients and the lines between them under virtual time, as bytes: `links = "reliable"`.

The same surface as `penstock.sim.network.Network`, so that plans, scenarios and checkers run on either. Here
nothing stands for a broker or a client: they are those of production, and what happens to them happens to
their connections and processes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, Final

from penstock.broker.core import Core
from penstock.broker.needs import Matching, Scan
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.errors import PenstockError
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.node.client.notices import Notice
from penstock.node.settings import Limits, Times
from penstock.sim.clock import Clock
from penstock.sim.counts import Counts
from penstock.sim.links import LinkModel
from penstock.sim.observers import Observers
from penstock.sim.parts import part_of, parts_of
from penstock.sim.whole.brokers import WholeNode
from penstock.sim.whole.burdens import Burdens
from penstock.sim.whole.clients import WholeClient
from penstock.sim.whole.lines import Lines
from penstock.sim.whole.process import Process
from penstock.sim.whole.timeline import Timeline
from penstock.wire.messages import Publish

_KILLED_AFTER: Final = 5.0
"""Seconds after `drain` in which a broker that drains is killed."""

_DRIFT_MAX: Final = 0.01
"""Clocks go wrong by so much at the most: a hundred times as much as bad ones do."""


class WholeNetwork(Clock):
    """A simulated network of whole nodes.

    `is_sliced`: what brokers tell each other is taken and told in the smallest slices, with time between
    them, as where there are very many subscriptions.
    """

    def __init__(
        self,
        protocol: str = "trees",
        scheme: str = "covering",
        *,
        advertisements: bool = True,
        seed: int = 0,
        times: Times | None = None,
        limits: Limits | None = None,
        is_sliced: bool = False,
        make_matching: Callable[[], Matching] = Scan,
    ) -> None:
        super().__init__()
        self.protocol_name = protocol
        self.protocol = protocol_named(protocol)
        self.settings = CoreSettings(scheme=scheme, advertisements=advertisements)
        self.times = times or Times()
        self.limits = limits or Limits()
        self.is_sliced = is_sliced
        self.make_matching = make_matching
        self.random = Random(f"whole {seed}")
        self.counts = Counts()
        self.observers = Observers()
        self.timeline = Timeline()
        """What fails."""
        self.burdens = Burdens(self)
        """What clients do that others must not notice."""
        self.splits = 0
        """Times that a cut has parted brokers that could reach each other."""
        self.lines = Lines(self, self.random)
        self.nodes: dict[str, WholeNode] = {}
        self.clients: dict[str, WholeClient] = {}
        self._edges: dict[tuple[str, str], LinkModel] = {}
        self._sent_at: dict[tuple[str, int], float] = {}

    def new_process(self, name: str) -> Process:
        """A process whose clock is its own."""
        drift = self.random.choice([0.0, self.random.uniform(-_DRIFT_MAX, _DRIFT_MAX)])
        return Process(name, self, self.lines, Random(self.random.getrandbits(64)), drift)

    # Building

    def add_broker(self, name: str) -> None:
        """A new broker, running."""
        node = self.nodes[name] = WholeNode(self, name)
        node.start()
        self._note()

    def add_link(self, a: str, b: str, model: LinkModel | None = None) -> None:
        """A link between two brokers: one of them connects to the other, or each to each."""
        self._edges[_pair(a, b)] = model = model or LinkModel()
        self.lines.line(a, b).latency = model.latency
        ways = self.random.choice([[(a, b)], [(b, a)], [(a, b), (b, a)]])
        for name, peer in ways:
            node = self.nodes[name]
            node.peers.append(peer)
            if node.node is not None:
                node.node.add_peer(peer, peer)
        self._note()

    def add_client(
        self, name: str, home: str, others: Iterable[str] = (), *, is_gateway: bool = False
    ) -> WholeClient:
        """A client of a broker, which may go to others."""
        if name in self.clients or name in self.nodes:
            raise PenstockError(f"there is a {name} already")
        process = self.nodes[home].process if is_gateway else self.new_process(name)
        client = WholeClient(self, name, [home, *others], process, is_gateway=is_gateway)
        self.clients[name] = client
        return client

    # Looking

    def links(self) -> Iterable[tuple[str, str]]:
        """All links, each once."""
        return self._edges

    def has_link(self, a: str, b: str) -> bool:
        """Whether there is a link, up or down."""
        return _pair(a, b) in self._edges

    def is_cut(self, a: str, b: str) -> bool:
        """Whether a link is down by itself, whoever is at its ends."""
        return self.lines.line(a, b).is_cut

    def model(self, a: str, b: str) -> LinkModel:
        """How a link behaves."""
        return self._edges[_pair(a, b)]

    def set_model(self, a: str, b: str, model: LinkModel) -> None:
        """A link behaves otherwise from now on: only its latency can."""
        self._edges[_pair(a, b)] = model
        self.set_latency(a, b, model.latency + model.delay)

    def is_up(self, a: str, b: str) -> bool:
        """Whether messages can go over a link, both ways."""
        line = self.lines.line(a, b)
        return not line.is_cut and not line.stalled and self.is_running(a) and self.is_running(b)

    def is_running(self, name: str) -> bool:
        """Whether a broker is there, and not paused."""
        return self.nodes[name].broker is not None

    def broker(self, name: str) -> Core:
        """The core of a broker that is running."""
        core = self.nodes[name].broker
        if core is None:
            raise PenstockError(f"{name} is not running")
        return core

    def is_lossy(self) -> bool:
        """Whether something is wrong with a line."""
        return not self.timeline.is_quiet

    def foresee(self, events: Sequence[Event]) -> None:
        """Each broker matches by itself."""

    def backlogs(self) -> Iterable[float]:
        """Lines have no bandwidth here."""
        return ()

    def running(self) -> list[Core]:
        """The cores of brokers that run."""
        return [node.broker for node in self.nodes.values() if node.broker is not None]

    def component(self, name: str) -> set[str]:
        """The brokers that can be reached from one that is running, itself among them."""
        return part_of(name, self._near().__getitem__)

    def components(self) -> list[set[str]]:
        """The running brokers, those that can reach each other together."""
        return parts_of(filter(self.is_running, self.nodes), self._near().__getitem__)

    def _near(self) -> dict[str, list[str]]:
        """The brokers one link away from each, as links are now."""
        near: dict[str, list[str]] = {name: [] for name in self.nodes}
        for a, b in self._edges:
            if self.is_up(a, b):
                near[a].append(b)
                near[b].append(a)
        return near

    def _note(self) -> None:
        """Write down who can reach whom from now on."""
        parts = {name: frozenset(members) for members in self.components() for name in members}
        self.timeline.note(self.now, parts)

    # What clients do

    def advertise(self, client: WholeClient, key: Key, predicate: Predicate) -> None:
        """A client says what it will publish."""
        client.advertisements[key] = predicate
        client.advertised_at = self.now
        client.process.take(client.say_advertise, key, predicate)

    def unadvertise(self, client: WholeClient, key: Key) -> None:
        """A client will publish no more of it."""
        del client.advertisements[key]
        client.process.take(client.say_unadvertise, key)

    def subscribe(self, client: WholeClient, key: Key, predicate: Predicate) -> None:
        """A client asks for events."""
        client.wants(key, predicate)
        client.process.take(client.say_subscribe, key, predicate)

    def unsubscribe(self, client: WholeClient, key: Key) -> None:
        """A client asks no more."""
        del client.subscriptions[key]
        client.process.take(client.say_unsubscribe, key)

    def publish(self, client: WholeClient, event: Event) -> Publish | None:
        """A client publishes an event; None if it cannot."""
        if client.process.is_paused or not client.process.is_alive:
            return None
        name: tuple[str, int] | None = None

        def settled(error: Exception | None) -> None:
            if name is not None:
                self._settled(client, name, error)

        publish = client.say_publish(event, settled)
        if publish is None:
            return None
        name = publish.name
        self.counts.published += 1
        self._sent_at[name] = self.now
        for on_publish in self.observers.on_publish:
            on_publish(client, publish, self.now)
        return publish

    def _settled(self, client: WholeClient, name: tuple[str, int], error: Exception | None) -> None:
        for on_settled in self.observers.on_settled:
            on_settled(client, name, error, self.now)

    # What clients hear

    def subscribed(self, client: WholeClient, key: Key) -> None:
        """A client's broker has taken a subscription."""
        for on_subscribed in self.observers.on_subscribed:
            on_subscribed(client, key, self.now)

    def delivered(self, client: WholeClient, publish: Publish, keys: tuple[Key, ...], late: bool) -> None:
        """A client has got an event."""
        self.counts.delivered += 1
        sent_at = self._sent_at.get(publish.name)
        if sent_at is not None:
            self.counts.delays.append(self.now - sent_at)
        for on_deliver in self.observers.on_deliver:
            on_deliver(client, publish, keys, self.now, late)

    def noticed(self, client: WholeClient, notice: Notice) -> None:
        """A client has been told something about its connection."""
        for on_notice in self.observers.on_notice:
            on_notice(client, notice, self.now)

    # Faults: processes

    def crash(self, name: str, *, silent: bool = False) -> None:
        """A broker's process is killed; or its whole machine is gone, of which nothing tells."""
        node = self.nodes[name]
        if node.is_down:
            return
        self.tell_fault("Crash", name, silent=silent)
        self.timeline.begin("vanish" if silent else "crash", (name,), self.now)
        for kind in ("pause", "drain"):
            self.timeline.end(kind, (name,), self.now)
        # What it knows is there until it is started again, should it be with its memory.
        node.process.pause()
        node.is_down = True
        if silent:
            self.lines.silence(name)
        else:
            self.lines.hang_up(name)
        self._note()

    def restart(self, name: str, *, with_state: bool = False) -> None:
        """A broker that was killed comes back, knowing nothing; or all it knew, as a machine that slept."""
        node = self.nodes[name]
        if not node.is_down:
            return
        self.tell_fault("Restart", name, state=with_state)
        node.is_down = False
        with_state = with_state and not node.is_draining
        self.timeline.end("stop", (name,), self.now)
        for kind in ("crash", "vanish"):
            self.timeline.end(kind, (name,), self.now, "sleep" if with_state else kind)
        self.lines.reset(name)
        if with_state:
            self.lines.listen(name, node)
            node.process.go_on()
        else:
            node.die()
            node.start()
            self._return_gateways(name)
        self._note()

    def drain(self, name: str, seconds: float) -> int:
        """A broker ends, as by SIGTERM, when all that it has taken is acknowledged; return whether it does.

        So many seconds after it has ended it is started again.
        """
        node = self.nodes[name]
        if node.is_down or node.process.is_paused or node.is_draining:
            return 0
        self.tell_fault("Drain", name)
        self.timeline.begin("drain", (name,), self.now)
        node.drain(lambda: self._drained(node, seconds))
        self.at(self.now + self.times.drain + _KILLED_AFTER, self._kill, node, node.lives, seconds)
        return 1

    def _kill(self, node: WholeNode, lives: int, seconds: float) -> None:
        """A supervisor has no more patience with a broker that drains."""
        if node.lives == lives and not node.is_down and not node.process.is_paused:
            self._drained(node, seconds)

    def _drained(self, node: WholeNode, seconds: float) -> None:
        self.timeline.end("drain", (node.name,), self.now)
        self.timeline.begin("stop", (node.name,), self.now)
        node.process.pause()
        node.is_down = True
        self.lines.hang_up(node.name)
        self._note()
        self.at(self.now + seconds, self._start_again, node, node.lives)

    def _start_again(self, node: WholeNode, lives: int) -> None:
        if node.lives == lives:
            self.restart(node.name)

    def _return_gateways(self, name: str) -> None:
        """Clients of a gateway are made anew by whoever uses it."""
        for client in self.clients.values():
            if client.is_gateway and client.brokers[0] == name:
                client.come_back(self.nodes[name].process)

    def pause(self, name: str) -> int:
        """A process stands still, as by SIGSTOP; return whether it did not before."""
        process = self._process(name)
        if process.is_paused:
            return 0
        self.tell_fault("Pause", name)
        self.timeline.begin("pause", (name,), self.now)
        process.pause()
        self._note()
        return 1

    def go_on(self, name: str) -> int:
        """It goes on; return whether it had to."""
        if not self._process(name).is_paused or self._is_down(name):
            return 0
        self.tell_fault("Continue", name)
        self._go_on(name)
        return 1

    def _go_on(self, name: str) -> None:
        process = self._process(name)
        if process.is_paused:
            self.timeline.end("pause", (name,), self.now)
            process.go_on()
            self._note()

    def _is_down(self, name: str) -> bool:
        return name in self.nodes and self.nodes[name].is_down

    def exit(self, client: WholeClient) -> None:
        """A client's process dies, and its program is started again: another client, that wants the same."""
        if client.is_gateway:
            return
        self.tell_fault("Exit", client.name)
        self.timeline.strike("exit", (client.name,), self.now)
        self.lines.hang_up(client.name)
        client.process.die()
        client.come_back(self.new_process(client.name))

    def _process(self, name: str) -> Process:
        return self.nodes[name].process if name in self.nodes else self.clients[name].process

    def leave(self, client: WholeClient) -> None:
        """A client goes, with all that it wanted; it may come back without."""
        for key in list(client.subscriptions):
            self.unsubscribe(client, key)
        for key in list(client.advertisements):
            self.unadvertise(client, key)

    # Faults: lines

    def cut(self, a: str, b: str) -> None:
        """A line breaks in the middle of what is under way, and no connection can be made."""
        self.tell_fault("Cut", a, b)
        self.timeline.begin("cut", _pair(a, b), self.now)
        before = len(self.components())
        self.lines.line(a, b).is_cut = True
        self.splits += len(self.components()) > before
        self.lines.sever(a, b)
        self._note()

    def heal(self, a: str, b: str) -> None:
        """A line works again."""
        line = self.lines.line(a, b)
        if line.is_cut:
            self.tell_fault("Heal", a, b)
            self.timeline.end("cut", _pair(a, b), self.now)
            line.is_cut = False
            self._note()

    def sever(self, a: str, b: str) -> None:
        """The connections between two processes end, and may be made again at once."""
        self.tell_fault("Sever", a, b)
        self.timeline.strike("sever", _pair(a, b), self.now)
        self.lines.sever(a, b)

    def stall(self, a: str, b: str) -> None:
        """Nothing that one process says gets to the other; neither is told."""
        self.tell_fault("Stall", a, b)
        self.timeline.begin("stall", (a, b), self.now)
        self.lines.stall(a, b)
        self._note()

    def flow(self, a: str, b: str) -> None:
        """It gets there again, with all that has waited."""
        if a in self.lines.line(a, b).stalled:
            self.tell_fault("Flow", a, b)
            self.timeline.end("stall", (a, b), self.now)
            self.lines.flow(a, b)
            self._note()

    def flip(self, a: str, b: str) -> None:
        """A bit of what one process says next to the other is wrong when it gets there."""
        self.tell_fault("Flip", a, b)
        self.timeline.strike("flip", (a, b), self.now)
        self.lines.line(a, b).flips.add(a)

    def set_latency(self, a: str, b: str, latency: float) -> None:
        """What goes over a line takes so long from now on."""
        self.tell_fault("Latency", a, b, latency=latency)
        self.lines.line(a, b).latency = latency

    def mend(self) -> None:
        """All lines work again, and all processes go on."""
        for a, b in list(self._pairs()):
            self.heal(a, b)
            self.flow(a, b)
            self.flow(b, a)
            self.lines.line(a, b).flips.clear()
        for (a, b), model in self._edges.items():
            self.lines.line(a, b).latency = model.latency
        for name in [*self.nodes, *self.clients]:
            self.go_on(name)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        yield from self._edges
        for client in self.clients.values():
            for broker in client.brokers:
                yield client.name, broker

    def tell_fault(self, what: str, broker: str, link: str = "", **about: Any) -> None:
        """Something happens to a broker, a client or a line."""
        for on_fault in self.observers.on_fault:
            on_fault(what, broker, link, about, self.now)


def _pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)
