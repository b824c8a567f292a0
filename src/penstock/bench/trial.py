"""One workload under one scheme in the simulator, and what it cost.

Phases follow one another, each until nothing is under way: the overlay comes up, publishers advertise,
clients subscribe, some unsubscribe, events are published. Links lose nothing and nothing fails. So the same
scene gives the same counts on every machine; seconds are given beside them and decide nothing.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from penstock.errors import PenstockError
from penstock.model.names import Key
from penstock.sim.clients import Client
from penstock.sim.network import Network
from penstock.sim.observers import Observer
from penstock.wire.blocks import Block
from penstock.wire.messages import (
    Advertise,
    Events,
    Lost,
    Message,
    Publish,
    Subscribe,
    Unadvertise,
    Unreachable,
    Unsubscribe,
)
from penstock.workloads.scenes import Scene

Advance = Callable[[int], None]

_ADVERTISING: Final = [kind.__name__ for kind in (Advertise, Unadvertise, Unreachable, Lost)]
_SUBSCRIBING: Final = [kind.__name__ for kind in (Subscribe, Unsubscribe)]
"""Kinds of messages about advertisements, and about subscriptions."""

PHASES: Final = ("overlay", "advertising", "subscribing", "unsubscribing", "publishing")

_MIX: Final = 0x9E3779B97F4A7C15
_WORD: Final = 2**64 - 1


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheme cost."""

    scheme: str
    advertisements: bool
    messages: dict[str, dict[str, int]]
    """Between brokers, by phase and kind; the parts of a packed one each by itself."""
    frames: dict[str, int]
    """The same by phase, a packed one as one."""
    entries: dict[str, int]
    """Table entries of each broker, after unsubscriptions."""
    own: int
    """Those among all entries that are of brokers' own clients, and so under every scheme the same."""
    trees: int
    """Advertisements known, over all brokers."""
    tests: int
    """Covering tests."""
    published: int
    received: dict[str, int]
    """Publications that each broker took, from clients and from brokers."""
    false_positives: int
    """Publications that a broker got from another, and neither delivered nor passed on."""
    matched: int
    """Full matching operations: events that were tried on the filters of a broker."""
    delivered: int
    digest: int
    """Of who got which event, in whatever order."""
    seconds: dict[str, float]

    def count(self, kinds: Iterable[str], phases: Iterable[str] = PHASES[1:]) -> int:
        """Messages of these kinds in these phases."""
        kinds = tuple(kinds)
        return sum(self.messages[phase].get(kind, 0) for phase in phases for kind in kinds)

    @property
    def advertising(self) -> int:
        """Messages about advertisements of clients."""
        return self.count(_ADVERTISING)

    @property
    def subscribing(self) -> int:
        """Messages about subscriptions while clients subscribe; some schemes take back what is covered."""
        return self.count(_SUBSCRIBING, ("advertising", "subscribing"))

    @property
    def unsubscribing(self) -> int:
        """Messages about subscriptions while clients unsubscribe; some schemes have to ask for others."""
        return self.count(_SUBSCRIBING, ("unsubscribing",))

    @property
    def control(self) -> int:
        """Messages about advertisements and subscriptions in all, but for the setting up of the overlay."""
        return self.count(_ADVERTISING + _SUBSCRIBING)

    @property
    def control_frames(self) -> int:
        """The same, a packed one as one."""
        return sum(self.frames[phase] for phase in ("advertising", "subscribing", "unsubscribing"))

    @property
    def entries_total(self) -> int:
        """Table entries of all brokers."""
        return sum(self.entries.values())

    @property
    def entries_largest(self) -> int:
        """Those of the broker that has the most."""
        return max(self.entries.values())

    @property
    def carried(self) -> int:
        """Publications from broker to broker."""
        return self.count(["Publish"])

    @property
    def handled(self) -> int:
        """Publications that brokers took: as many matching operations as matching at every hop needs."""
        return sum(self.received.values())

    @property
    def entries_met(self) -> int:
        """Table entries that publications met: what trying the whole table at every hop looks at."""
        return sum(times * self.entries[broker] for broker, times in self.received.items())


def run(
    scene: Scene, scheme: str, *, advertisements: bool, advance: Advance = lambda _step: None
) -> Measured:
    """Play a scene under a scheme."""
    return _Trial(scene, scheme, advertisements=advertisements).play(advance)


class _Trial(Observer):
    def __init__(self, scene: Scene, scheme: str, *, advertisements: bool) -> None:
        self._scene = scene
        self._scheme = scheme
        self._advertisements = advertisements
        self._network = network = Network(scheme, advertisements=advertisements)
        self._clients: list[Client] = []
        self._number: dict[str, int] = {}
        self._messages: dict[str, dict[str, int]] = {}
        self._frames: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._received: Counter[str] = Counter()
        self._at_event = 0
        self._digest = 0
        self._false = 0
        self._idle = False
        network.observers.append(self)

    def play(self, advance: Advance) -> Measured:
        """All phases."""
        scene, network = self._scene, self._network
        with self._phase("overlay"):
            for broker in scene.brokers:
                network.add_broker(broker)
            for a, b in scene.edges:
                network.add_link(a, b)
        self._clients = [network.add_client(f"c{i}", home) for i, home in enumerate(scene.homes)]
        self._number = {client.name: i for i, client in enumerate(self._clients)}
        with self._phase("advertising"):
            for key, (client, predicate) in enumerate(scene.advertisements):
                network.advertise(self._clients[client], key, predicate)
                network.run()
        with self._phase("subscribing"):
            for key, (client, predicate) in enumerate(scene.subscriptions):
                network.subscribe(self._clients[client], key, predicate)
                network.run()
                advance(1)
        with self._phase("unsubscribing"):
            for key in scene.unsubscriptions:
                network.unsubscribe(self._clients[scene.subscriptions[key][0]], key)
                network.run()
                advance(1)
        with self._phase("publishing"):
            for client, event in scene.events():
                self._at_event += 1
                network.publish(self._clients[client], event)
                network.run()
                # Nobody asks for them here, and of many events there are millions.
                network.counts.delays.clear()
                advance(1)
        self._note_idle()
        return self._measured()

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Count what is carried until nothing is under way any more."""
        counts = self._network.counts
        carried, frames, started = Counter(counts.carried), counts.frames, time.perf_counter()
        yield
        self._network.run()
        self._seconds[name] = time.perf_counter() - started
        self._messages[name] = dict(counts.carried - carried)
        self._frames[name] = counts.frames - frames

    # A broker's effects follow the message that caused them at once, before any other message is handled.

    def on_handle(self, broker: str, link: str, message: Message | Block, now: float) -> None:
        """A broker takes a message."""
        self._note_idle()
        if type(message) is Publish:
            self._received[broker] += 1
            self._idle = link in self._network.nodes

    def on_carry(self, a: str, b: str, events: Events, now: float) -> None:
        """A broker passes an event on."""
        self._idle = False

    def on_deliver(
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        """A client gets an event."""
        self._idle = False
        # One event is under way at a time, so that the last one published is the one delivered.
        mixed = (self._at_event * len(self._clients) + self._number[client.name]) * _MIX & _WORD
        self._digest = (self._digest + (mixed ^ (mixed >> 29)) * _MIX) & _WORD

    def _note_idle(self) -> None:
        """Whether the last message was a publication that the broker had no use for."""
        if self._idle:
            self._false += 1
            self._idle = False

    def _measured(self) -> Measured:
        network = self._network
        facts = {name: network.broker(name).facts() for name in network.nodes}
        if network.counts.refused:
            raise PenstockError(f"{network.counts.refused} events match no advertisement of their publisher")
        return Measured(
            scheme=self._scheme,
            advertisements=self._advertisements,
            messages=self._messages,
            frames=self._frames,
            entries={name: known.subscriptions for name, known in facts.items()},
            own=len(self._scene.subscriptions) - len(self._scene.unsubscriptions),
            trees=sum(known.trees for known in facts.values()),
            tests=sum(known.covering_tests for known in facts.values()),
            published=network.counts.published,
            received=dict(self._received),
            false_positives=self._false,
            matched=sum(known.matched for known in facts.values()),
            delivered=network.counts.delivered,
            digest=self._digest,
            seconds=self._seconds,
        )


def check_same_deliveries(rows: Iterable[Measured]) -> None:
    """Raise unless every scheme delivered the same events to the same clients."""
    first, *others = rows
    for row in others:
        if (row.delivered, row.digest) != (first.delivered, first.digest):
            raise PenstockError(
                f"{row.scheme} delivered {row.delivered:,} events, not the same {first.delivered:,} as "
                f"{first.scheme}; this is a bug"
            )
