"""A broker whose clients speak frames by hand, in a world where things are computed when a test says so."""

from collections.abc import Callable
from typing import Any, TypeVar

from node_cases import FakeWorld
from penstock.broker.grants import EVERYTHING, Grants
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.model.events import Event
from penstock.model.schema import Schema
from penstock.node.admission import Admission, quotas_of
from penstock.node.connection import FrameConnection
from penstock.node.hub import Hub
from penstock.node.identity import Identity
from penstock.node.runtime import Runtime
from penstock.node.settings import Limits, Times
from penstock.node.world import Pace, Spent, no_pace
from penstock.sim.matching import SharedMatching
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.frames import FrameReader, Kind, frame
from penstock.wire.greetings import VERSION, Hello, write_hello
from penstock.wire.requests import Denied, Done, Request, read_answer, write_request

T = TypeVar("T")


class Busy(FakeWorld):
    """A world in which something is computed when the test says so, and takes the time that it says."""

    def __init__(self) -> None:
        super().__init__()
        self.computing: list[Callable[[float, float], None]] = []
        self.worked = 0.0

    def cpu_time(self) -> float:
        return self.worked

    def compute(self, work: Callable[[Pace], T], on_done: Callable[[T, Spent], object]) -> None:
        def finish(seconds: float, rested: float) -> None:
            on_done(work(no_pace), Spent(seconds, rested))

        self.computing.append(finish)

    def finish(self, seconds: float = 0.001, rested: float = 0.0) -> None:
        """What is being computed is done, took so much of a processor, and paused for so long."""
        self.computing.pop(0)(seconds, rested)


class Checker:
    """Whoever says a name has it."""

    def check(self, token: str) -> Identity:
        subject, _colon, grant = token.partition(":")
        granted = Grants.of(subscribe=[grant], advertise=[grant]) if grant else EVERYTHING
        return Identity(subject=subject, grants=granted)


class Case:
    """A broker whose clients all have their names from their tokens."""

    def __init__(
        self, world: FakeWorld | None = None, *, schema: Schema | None = None, **limits: Any
    ) -> None:
        self.world = world or Busy()
        trees = protocol_named("trees")
        core = trees.make("b", SharedMatching(), CoreSettings(lease=30.0))
        allowed = Limits(**limits)
        self.runtime = Runtime(core, trees.codec, allowed, Times(), self.world, schema=schema)
        self.hub = Hub(
            "b", "trees", self.runtime, Admission(quotas_of(allowed), checker=Checker()), 1, self.world
        )
        self._tick()

    def _tick(self) -> None:
        self.runtime.tick(self.world.now)
        self.runtime.flush()
        self.world.call_later(0.25, self._tick)

    @property
    def computing(self) -> int:
        assert isinstance(self.world, Busy)
        return len(self.world.computing)

    def finish(self, seconds: float = 0.001, rested: float = 0.0) -> None:
        assert isinstance(self.world, Busy)
        self.world.finish(seconds, rested)


class Client:
    """A connection that speaks frames by hand."""

    def __init__(self, case: Case, name: str, token: str = "", address: str = "10.0.0.1") -> None:
        self.heard: list[tuple[Kind, bytes]] = []
        self._reader = FrameReader(2**30)
        self._sent = 0
        self._requests = 0
        self._connection: FrameConnection = case.hub.accept()
        self._connection.connection_made(self, address=address)
        hello = Hello(VERSION, "client", name, token, f"{name}:0", 0, protocol="trees")
        self._connection.data_received(write_hello(hello))
        self._case = case

    def write(self, data: bytes) -> None:
        self.heard += [(kind, bytes(payload)) for kind, payload in self._reader.feed(data)]

    def close(self) -> None:
        self._connection.connection_lost()

    abort = close

    def ask(self, *requests: Request) -> None:
        frames = []
        for request in requests:
            self._sent += 1
            frames.append(frame(Kind.MESSAGE, self._sent.to_bytes(8, "big"), write_request(request)))
        self._connection.data_received(b"".join(frames))

    def publish(self, key: int, *numbers: int) -> None:
        self._sent += 1
        events = [encode_event(Event({"x": n})) for n in numbers]
        block = Block.of(Header(str(key), ""), numbers, events)
        self._connection.data_received(frame(Kind.EVENTS, self._sent.to_bytes(8, "big"), block.encode()))

    def acknowledge(self) -> None:
        """Acknowledge all that has come."""
        numbered = [data for kind, data in self.heard if kind in (Kind.MESSAGE, Kind.EVENTS)]
        self._connection.data_received(frame(Kind.ACK, numbered[-1][:8]))

    @property
    def answers(self) -> list[Any]:
        return [read_answer(memoryview(data)[8:]) for kind, data in self.heard if kind is Kind.MESSAGE]

    @property
    def answered(self) -> list[int]:
        return [answer.request for answer in self.answers if isinstance(answer, Done | Denied)]

    @property
    def got(self) -> list[int]:
        blocks = [Block.decode(memoryview(data)[8:]) for kind, data in self.heard if kind is Kind.EVENTS]
        return [number for block in blocks for number in block.numbers.tolist()]

    @property
    def acked(self) -> int:
        acks = [data for kind, data in self.heard if kind is Kind.ACK]
        numbers = (data[at : at + 8] for data in acks for at in range(0, len(data), 8))
        return max((int.from_bytes(number, "big") for number in numbers), default=0)
