"""What whoever reaches a broker's port can take of it before it is known, or with frames that never end."""

from typing import Any

import pytest

from node_cases import FakeWorld
from penstock.broker.grants import NOTHING
from penstock.broker.needs import Matching
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.node import asking
from penstock.node.admission import Admission
from penstock.node.connection import FrameConnection
from penstock.node.hub import Hub
from penstock.node.identity import Identity
from penstock.node.runtime import TICK, Runtime
from penstock.node.settings import Limits, Times
from penstock.sim.matching import SharedMatching
from penstock.wire.frames import FrameReader, Kind, frame
from penstock.wire.greetings import VERSION, Hello, read_refused, write_hello
from penstock.wire.requests import Denied, Offer, Request, Want, read_answer, write_request

MIB = 2**20


class Line:
    """A transport that keeps what is written."""

    def __init__(self, connection: FrameConnection) -> None:
        self.is_closed = False
        self.reader = FrameReader(2**30)
        self.heard: list[tuple[Kind, bytes]] = []
        self._connection = connection

    def write(self, data: bytes) -> None:
        self.heard += [(kind, bytes(payload)) for kind, payload in self.reader.feed(data)]

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._connection.connection_lost()

    abort = close

    @property
    def refusals(self) -> list[str]:
        return [read_refused(memoryview(data)).code for kind, data in self.heard if kind is Kind.REFUSED]


class Case:
    """A broker under a clock that is moved by hand."""

    def __init__(self, limits: Limits | None = None, times: Times | None = None, **admission: Any) -> None:
        self.world = FakeWorld()
        trees = protocol_named("trees")
        matching: Matching = SharedMatching()
        core = trees.make("b", matching, CoreSettings(lease=30.0))
        self.runtime = Runtime(core, trees.codec, limits or Limits(), times or Times(), self.world)
        self.hub = Hub("b", "trees", self.runtime, Admission(**admission), 1, self.world)
        self._tick()

    def _tick(self) -> None:
        self.hub.tick()
        self.world.call_later(TICK, self._tick)

    def come(self, address: str = "10.0.0.1") -> Line:
        connection = self.hub.accept()
        line = Line(connection)
        connection.connection_made(line, address=address)
        return line

    def say(self, line: Line, data: bytes) -> None:
        line._connection.data_received(data)

    def greet(self, line: Line, name: str = "c", role: Any = "client", token: str = "") -> None:
        self.say(line, write_hello(Hello(VERSION, role, name, token, f"{name}:0", 0, protocol="trees")))
        assert Kind.WELCOME in [kind for kind, _data in line.heard]


def half_a_frame(length: int, have: int) -> bytes:
    return frame(Kind.MESSAGE, bytes(length))[: 12 + have]


def request(number: int, request: Request) -> bytes:
    return frame(Kind.MESSAGE, number.to_bytes(8, "big"), write_request(request))


# Filters of those who have nothing granted


def test_a_filter_is_not_parsed_for_a_token_that_grants_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Checker:
        def check(self, token: str) -> Identity:
            return Identity(subject=token, grants=NOTHING)

    def refuse(_text: str) -> None:
        raise AssertionError("it is parsed")

    monkeypatch.setattr(asking, "parse", refuse)
    case = Case(checker=Checker(), required=True)
    line = case.come()
    case.greet(line, token="eve")  # noqa: S106
    case.say(line, request(1, Want(7, 1, "x = 1")) + request(2, Offer(8, 1, "x = 1")))
    case.hub.flush()
    answers = [read_answer(memoryview(data)[8:]) for kind, data in line.heard if kind is Kind.MESSAGE]
    assert [(answer.request, answer.code) for answer in answers if isinstance(answer, Denied)] == [
        (7, "access"),
        (8, "access"),
    ]


# Frames that are never whole


@pytest.mark.parametrize(("role", "name"), [("client", "c"), ("broker", "n")])
def test_a_frame_that_is_not_whole_in_time_ends_its_connection(role: str, name: str) -> None:
    case = Case()
    line = case.come()
    case.greet(line, name, role)
    case.say(line, half_a_frame(10 * MIB, MIB))
    until = case.world.now + 10 + 8
    while case.world.now < until - 1:
        # A byte now and then, and answers to pings, are no way to go on for ever.
        case.world.run(2)
        case.say(line, b"\0")
        assert not line.is_closed
    case.world.run(2)
    assert line.is_closed
    assert line.refusals == ["protocol"]


def test_frames_that_come_one_after_another_are_never_late() -> None:
    case = Case()
    line = case.come()
    case.greet(line)
    ping = frame(Kind.PING)
    case.say(line, ping[:3])
    for _ in range(200):
        case.world.run(1)
        # Each read ends in the middle of a frame.
        case.say(line, ping[3:] + ping[:3])
    assert not line.is_closed


def test_a_long_frame_on_a_slow_line_is_waited_for_as_long_as_it_goes_on() -> None:
    case = Case()
    line = case.come()
    case.greet(line)
    case.say(line, half_a_frame(15 * MIB, 0))
    for _ in range(110):
        case.world.run(1)
        case.say(line, bytes(130 * 2**10))
        assert not line.is_closed
    case.world.run(15)
    assert line.is_closed


def test_unfinished_frames_of_all_together_are_bounded_and_clients_go_before_neighbours() -> None:
    case = Case(Limits(frame_bytes=16 * MIB, peer_frame_bytes=64 * MIB, unfinished_bytes=64 * MIB))
    neighbour = case.come()
    case.greet(neighbour, "n", "broker")
    case.say(neighbour, half_a_frame(60 * MIB, 40 * MIB))
    lines = [case.come(f"10.0.0.{at}") for at in range(4)]
    for at, line in enumerate(lines):
        case.greet(line, f"c{at}")
        case.say(line, half_a_frame(15 * MIB, (at + 5) * MIB))
    # 40 + 5 + 6 + 7 + 8 are more than 64: whoever holds most goes.
    assert [line.is_closed for line in [neighbour, *lines]] == [False, False, False, False, True]
    case.say(neighbour, bytes(10 * MIB))
    assert [line.is_closed for line in [neighbour, *lines]] == [False, False, False, True, True]
    assert lines[3].refusals == ["busy"]
    for line in [neighbour, *lines]:
        line.close()
    assert case.hub._held == 0


def test_a_frame_that_comes_byte_by_byte_takes_no_more_memory_than_its_bytes() -> None:
    reader = FrameReader(MIB)
    for byte in half_a_frame(MIB, 20_000):
        assert reader.feed(bytes([byte])) == []
    assert reader.held == 20_012
    assert len(reader._parts) < 20
    rest = bytes(MIB - 20_000)
    ((kind, payload),) = reader.feed(rest)
    assert (kind, len(payload)) == (Kind.MESSAGE, MIB)
    assert reader.held == 0


# Connections of one address


def test_one_address_has_so_many_connections_and_its_silent_ones_make_room() -> None:
    case = Case(Limits(connections_per_address=3))
    silent = [case.come() for _ in range(3)]
    other = case.come("10.0.0.2")
    fourth = case.come()
    assert [line.is_closed for line in silent] == [True, False, False]
    for at, line in enumerate((*silent[1:], fourth)):
        case.greet(line, f"c{at}")
    fifth = case.come()
    assert fifth.refusals == ["busy"]
    assert not other.is_closed
    silent[1].close()
    assert not case.come().is_closed


def test_connections_without_an_address_are_not_counted_by_it() -> None:
    # Those of the gateway, which counts its own.
    case = Case(Limits(connections_per_address=1))
    assert not any(line.is_closed for line in [case.come("") for _ in range(5)])


def test_who_says_nothing_is_forgotten() -> None:
    case = Case()
    lines = [case.come() for _ in range(5)]
    case.world.run(6)
    assert all(line.is_closed for line in lines)
    assert not case.hub._addresses
    assert not case.hub._strangers
