"""Dialing and greeting: what comes of a try is told once, and by then nothing of it is left."""

import pytest

from node_cases import FakeBroker, FakeWorld, Peer
from penstock.errors import NetworkError, WireError
from penstock.node.connection import FrameConnection, Owner
from penstock.node.opening import Opening, RefusedError
from penstock.wire.frames import Kind, frame
from penstock.wire.greetings import VERSION, Hello, Welcome, write_welcome

HELLO = Hello(VERSION, "client", "c", "", "s", 0)
WELCOME = Welcome("b", 1, False, 0, 2**20, 2**20, "")


class Case:
    """One try, and what is told of it."""

    def __init__(self, peer: Peer | None = None, fails_with: Exception | None = None) -> None:
        self.world = FakeWorld()
        if peer is not None:
            self.world.there["b"] = peer
        self.told: list[object] = []
        self.taken: list[bytes] = []
        self.fails_with = fails_with
        self.opening = Opening(
            self.world,
            "b",
            HELLO,
            3.0,
            on_welcome=self.on_welcome,
            on_open=lambda _connection: self.told.append("open"),
            on_failed=self.told.append,
        )
        self.opening.start()

    def on_welcome(self, connection: FrameConnection, welcome: Welcome) -> Owner:
        if self.fails_with is not None:
            raise self.fails_with
        connection.reader.limit = welcome.frame_bytes
        self.told.append(welcome.broker)
        return self

    def on_frames(self, _connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        self.taken += [bytes(payload) for _kind, payload in frames]

    def on_lost(self, _connection: FrameConnection) -> None:
        self.told.append("lost")

    def on_writable(self, _connection: FrameConnection) -> None:
        pass

    @property
    def error(self) -> Exception:
        (error,) = self.told
        assert isinstance(error, Exception)
        return error


def test_who_is_welcomed_has_the_connection() -> None:
    broker = FakeBroker("b")
    case = Case(broker)
    case.world.run()
    assert case.told == ["b", "open"]
    assert broker.hellos == [HELLO]
    case.world.run(60)
    assert case.told == ["b", "open"]
    broker.wire.cut()
    assert case.told == ["b", "open", "lost"]


def test_frames_of_any_size_may_come_together_with_the_welcome() -> None:
    peer = Peer()
    case = Case(peer)
    case.world.run()
    peer.wire.say(write_welcome(WELCOME), frame(Kind.EVENTS, bytes(100_000)), frame(Kind.EVENTS, b"x"))
    case.world.run()
    assert [len(payload) for payload in case.taken] == [100_000, 1]


def test_who_is_refused_is_told_why_when_the_connection_is_closed() -> None:
    broker = FakeBroker("b")
    broker.refusal = "busy", "no more are taken"
    case = Case(broker)
    case.world.run()
    assert isinstance(case.error, RefusedError)
    assert (case.error.code, str(case.error)) == ("busy", "no more are taken")
    assert broker.wire.is_closed
    assert not case.world.waiting


def test_a_welcome_that_is_not_good_ends_the_connection() -> None:
    case = Case(FakeBroker("b"), NetworkError("not you"))
    case.world.run()
    assert str(case.error) == "not you"
    assert case.world.there["b"].wire.is_closed


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (
            frame(Kind.ACK, bytes(8)),
            WireError,
            "a broker answers a greeting with a welcome; is there a broker",
        ),
        (frame(Kind.WELCOME, b"?"), WireError, "the answer to a greeting that cannot be read"),
        (
            b"HTTP/1.1 400 Bad Request",
            NetworkError,
            "the connection was closed before any answer; is it a br",
        ),
    ],
)
def test_what_is_no_answer_is_told(said: bytes, kind: type[Exception], text: str) -> None:
    peer = Peer()
    case = Case(peer)
    case.world.run()
    peer.wire.say(said)
    case.world.run()
    assert isinstance(case.error, kind)
    assert str(case.error).startswith(text)
    assert not case.world.waiting


def test_nobody_there_and_a_connection_that_is_cut_are_told() -> None:
    nobody = Case()
    nobody.world.run()
    assert str(nobody.error) == "b: connection refused"
    case = Case(Peer())
    case.world.run()
    case.world.there["b"].wire.cut()
    assert str(case.error).endswith("is it a broker, and is TLS right?")


@pytest.mark.parametrize("is_reachable", [True, False])
def test_no_answer_is_told_in_time(is_reachable: bool) -> None:
    peer = Peer()
    peer.is_reachable = is_reachable
    case = Case(peer)
    case.world.run(2.9)
    assert case.told == []
    case.world.run(0.2)
    assert str(case.error) == "b: no answer within 3 s"
    assert all(wire.is_aborted and wire.is_closed for wire in peer.wires)
    assert len(peer.wires) == is_reachable


@pytest.mark.parametrize("after", [0.0, 1.0])
def test_of_what_is_cancelled_nothing_is_told_and_nothing_is_left(after: float) -> None:
    peer, ended = Peer(), list[bool]()
    case = Case(peer)
    case.world.run(after)
    case.opening.cancel(lambda: ended.append(all(wire.is_closed for wire in peer.wires)))
    case.world.run(10)
    assert ended == [True]
    assert case.told == []
    assert all(wire.is_aborted for wire in peer.wires)
    assert not case.world.waiting


def test_a_try_may_be_cancelled_while_its_connection_is_being_closed() -> None:
    broker = FakeBroker("b")
    broker.refusal = "busy", "no more are taken"
    case = Case(broker)
    while not broker.hellos:
        case.world.run(0.001)
    case.world.run(0.001)
    assert not broker.wire.is_closed
    case.opening.cancel()
    case.world.run(10)
    assert case.told == []
    assert broker.wire.is_closed
