"""A world without asyncio for nodes and clients: a clock moved by hand, and brokers that follow a script."""

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

import numpy as np

from penstock.errors import NetworkError
from penstock.model.events import Event
from penstock.node.connection import FrameConnection
from penstock.node.world import Pace, Spent, no_pace
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.frames import FrameReader, Kind, frame
from penstock.wire.greetings import Hello, Welcome, read_hello, write_refused, write_welcome
from penstock.wire.requests import Answer, Done, Request, read_request, write_answer
from penstock.wire.sessions import Session

TRIP = 0.001
"""Seconds that bytes are under way."""


T = TypeVar("T")


class FakeTimer:
    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeWorld:
    """Time, chance and connections. A way is a name: of somebody who is `there`, or of nobody."""

    def __init__(self) -> None:
        self.now = 100.0
        self.there: dict[str, Peer] = {}
        self.dialed: list[tuple[float, str]] = []
        """When who was dialed."""
        self.next_share = 0.5
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = count()
        self._secrets = count(1)
        self._marks = count(1)

    def time(self) -> float:
        return self.now

    def wall_time(self) -> float:
        return 1e9 + self.now

    def cpu_time(self) -> float:
        return 0.0

    def compute(self, work: Callable[[Pace], T], on_done: Callable[[T, Spent], object]) -> None:
        on_done(work(no_pace), Spent(0.0))

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> FakeTimer:
        timer = FakeTimer(callback, arguments)
        heapq.heappush(self._timers, (self.now + seconds, next(self._order), timer))
        return timer

    def dial(
        self, way: Any, make: Callable[[], FrameConnection], on_failed: Callable[[Exception], None]
    ) -> FakeTimer:
        self.dialed.append((self.now, str(way)))
        return self.call_later(TRIP, self._reach, str(way), make, on_failed)

    def _reach(
        self, way: str, make: Callable[[], FrameConnection], on_failed: Callable[[Exception], None]
    ) -> None:
        peer = self.there.get(way)
        if peer is None:
            on_failed(NetworkError(f"{way}: connection refused"))
        elif peer.is_reachable:
            connection = make()
            wire = Wire(self, connection, peer)
            peer.wires.append(wire)
            connection.connection_made(wire)

    def secret(self) -> str:
        return f"{next(self._secrets):032x}"

    def mark(self) -> int:
        return next(self._marks)

    def share(self) -> float:
        return self.next_share

    # What a test does

    @property
    def waiting(self) -> int:
        """How many timers will go off."""
        return sum(not timer.is_cancelled for _at, _order, timer in self._timers)

    def run(self, seconds: float = 10 * TRIP) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            self.now, _order, timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                timer.callback(*timer.arguments)
        self.now = until


class Wire:
    """A transport between a connection under test and a peer."""

    def __init__(self, world: FakeWorld, connection: FrameConnection, peer: "Peer") -> None:
        self.is_closed = False
        self.is_aborted = False
        self.peer = peer
        self.reader = FrameReader(2**30)
        self.session: Session | None = None
        self._world = world
        self._connection = connection

    # What the connection calls

    def write(self, data: bytes) -> None:
        self._world.call_later(TRIP, self._arrive, data)

    def _arrive(self, data: bytes) -> None:
        if not self.is_aborted:
            self.peer.take(self, self.reader.feed(data))

    def close(self) -> None:
        self._world.call_later(TRIP, self.cut)

    def abort(self) -> None:
        self.is_aborted = True
        self._world.call_later(0, self.cut)

    # What the peer, or the test, calls

    def say(self, *data: bytes) -> None:
        if data and not self.is_closed:
            self._world.call_later(TRIP, self._deliver, b"".join(data))

    def _deliver(self, data: bytes) -> None:
        if not self.is_closed:
            self._connection.data_received(data)

    def cut(self) -> None:
        """The connection breaks."""
        if not self.is_closed:
            self.is_closed = True
            self._connection.connection_lost()


class Peer:
    """Somebody who can be dialed and takes whatever is said. `mute` ones answer nothing, not even pings."""

    def __init__(self) -> None:
        self.is_reachable = True
        """Else a dial comes to nothing, ever."""
        self.is_mute = False
        self.wires: list[Wire] = []
        self.heard: list[tuple[Kind, bytes]] = []

    @property
    def wire(self) -> Wire:
        """The last connection."""
        return self.wires[-1]

    def take(self, wire: Wire, frames: Sequence[tuple[Kind, memoryview]]) -> None:
        for kind, payload in frames:
            self.heard.append((kind, bytes(payload)))
            if not self.is_mute:
                self.hear(wire, kind, payload)

    def hear(self, wire: Wire, kind: Kind, payload: memoryview) -> None:
        if kind is Kind.PING:
            wire.say(frame(Kind.PONG))


class FakeBroker(Peer):
    """Welcomes clients, goes on with their sessions, answers Done, and acknowledges."""

    def __init__(self, name: str, **welcome: Any) -> None:
        super().__init__()
        self.name = name
        self.incarnation = 1
        self.welcome = {"window": 2**20, "frame_bytes": 2**20, "proof": "", **welcome}
        self.refusal: tuple[str, str] | None = None
        """The code and reason with which it takes nobody."""
        self.keeps_sessions = True
        self.answer: Callable[[Request], Answer | None] = lambda request: Done(request.request)
        self.acks = True
        """Whether what is published is acknowledged at once."""
        self.hellos: list[Hello] = []
        self.requests: list[Request] = []
        self.blocks: list[Block] = []
        self.session = Session(2**20)
        self._session_id = ""
        self._unacked: list[tuple[Session, int]] = []

    def hear(self, wire: Wire, kind: Kind, payload: memoryview) -> None:
        if kind is Kind.HELLO:
            self._greet(wire, read_hello(payload))
        elif kind is Kind.ACK:
            self.session.on_ack(payload)
        elif kind in (Kind.MESSAGE, Kind.EVENTS):
            taken = self.session.take(payload)
            if taken is not None:
                self._take(kind, *taken)
            self.flush()
        else:
            super().hear(wire, kind, payload)

    def _greet(self, wire: Wire, hello: Hello) -> None:
        self.hellos.append(hello)
        if self.refusal is not None:
            wire.say(write_refused(*self.refusal))
            return
        resumed = self.keeps_sessions and hello.session == self._session_id
        if not resumed:
            self.session, self._session_id = Session(2**20), hello.session
        received = self.session.received if resumed else 0
        wire.say(write_welcome(Welcome(self.name, self.incarnation, resumed, received, **self.welcome)))
        if resumed:
            wire.say(*self.session.resume(hello.received))

    def _take(self, kind: Kind, number: int, content: memoryview) -> None:
        if kind is Kind.MESSAGE:
            self.session.dealt_with(number)
            request = read_request(content)
            self.requests.append(request)
            answer = self.answer(request)
            if answer is not None:
                self.tell(answer)
            return
        self.blocks.append(Block.decode(content))
        if self.acks:
            self.session.dealt_with(number)
        else:
            self._unacked.append((self.session, number))

    def acknowledge(self) -> None:
        """Acknowledge all that was published."""
        for session, number in self._unacked:
            session.dealt_with(number)
        self._unacked.clear()
        self.flush()

    def tell(self, *answers: Answer) -> None:
        for answer in answers:
            self.session.push_message(write_answer(answer))
        self.flush()

    def send(self, block: Block) -> None:
        self.session.push_block(block)
        self.flush()

    def flush(self) -> None:
        ack = self.session.ack_due()
        self.wire.say(*self.session.sendable(), *([] if ack is None else [ack]))

    def end(self) -> None:
        """It dies, and forgets; whoever is started in its place is another."""
        self.incarnation += 1
        self._session_id = ""
        for wire in self.wires:
            wire.cut()


def block_for(keys: Sequence[int], *numbers: int, origin: str = "o") -> Block:
    """Events as a broker sends them to a client, each for the same subscriptions."""
    events = [encode_event(Event({"n": number})) for number in numbers]
    offsets = np.arange(len(numbers) + 1) * len(keys)
    return Block.of(Header("t", origin), numbers, events).with_keys(
        np.array([*keys] * len(numbers), np.int64), offsets
    )
