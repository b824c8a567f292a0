"""A broker keeps trying to reach a peer, less and less often, and says why it cannot."""

import logging
from itertools import pairwise

import pytest

from node_cases import FakeBroker, FakeWorld
from penstock.node.connection import FrameConnection
from penstock.node.dialing import Dialer
from penstock.node.opening import RefusedError
from penstock.wire.frames import Kind
from penstock.wire.greetings import VERSION, Hello, Welcome


class Hub:
    """What a dialer sees of a broker."""

    def __init__(self) -> None:
        self.has_link = False
        self.session = "s", 0
        self.asked_about: list[str | None] = []
        self.connections: list[FrameConnection] = []
        self.fails_with: Exception | None = None

    def hello(self, session_id: str, received: int) -> Hello:
        return Hello(VERSION, "broker", "a", "", session_id, received)

    def session_with(self, peer: str | None) -> tuple[str, int]:
        self.asked_about.append(peer)
        return self.session

    def waits_for(self, _peer: str | None) -> bool:
        return self.has_link

    def welcomed(self, connection: FrameConnection, _hello: Hello, _welcome: Welcome) -> None:
        if self.fails_with is not None:
            raise self.fails_with
        self.connections.append(connection)

    def on_frames(self, _connection: FrameConnection, _frames: list[tuple[Kind, memoryview]]) -> None:
        pass

    def on_lost(self, _connection: FrameConnection) -> None:
        pass

    def on_writable(self, _connection: FrameConnection) -> None:
        pass


class Case:
    def __init__(self, *, is_there: bool = True) -> None:
        self.world = FakeWorld()
        self.hub = Hub()
        self.broker = FakeBroker("b")
        if is_there:
            self.world.there["penstock://b:1"] = self.broker
        self.dialer = Dialer(self.hub, "penstock://b:1", "penstock://b:1", self.world, 3.0)
        self.dialer.start()

    @property
    def gaps(self) -> list[float]:
        """Seconds between tries, without those that the tries took."""
        times = [at for at, _way in self.world.dialed]
        return [round(later - at - 0.001, 4) for at, later in pairwise(times)]


def test_a_peer_is_linked_and_linked_again_when_the_connection_is_lost() -> None:
    case = Case()
    assert (case.dialer.name, case.dialer.error) == (None, "not tried yet")
    case.world.run()
    assert (case.dialer.name, case.dialer.error) == ("b", "")
    case.world.run(60)
    assert len(case.hub.connections) == 1
    case.broker.wire.cut()
    assert case.dialer.error == "the connection was lost"
    case.hub.session = "t", 7
    case.world.run(0.1)
    assert case.dialer.error == ""
    assert [(hello.session, hello.received) for hello in case.broker.hellos] == [("s", 0), ("t", 7)]
    assert case.hub.asked_about == [None, "b"]


def test_tries_are_made_less_and_less_often() -> None:
    case = Case(is_there=False)
    case.world.run(4)
    assert case.gaps[:7] == [0.0375, 0.075, 0.15, 0.3, 0.6, 0.75, 0.75]
    assert case.dialer.error == "connection refused"


def test_a_link_that_was_there_is_tried_soon_again() -> None:
    case = Case(is_there=False)
    case.world.run(10)
    case.world.there["penstock://b:1"] = case.broker
    case.world.run(1)
    assert case.dialer.error == ""
    del case.world.there["penstock://b:1"]
    tries = len(case.world.dialed)
    case.broker.wire.cut()
    case.world.run(0.2)
    assert case.gaps[tries:] == [0.075]


@pytest.mark.parametrize(("share", "first"), [(0.0, 0.025), (1.0, 0.05)])
def test_not_all_try_at_the_same_moment(share: float, first: float) -> None:
    case = Case(is_there=False)
    case.world.next_share = share
    case.world.run(1)
    assert case.gaps[0] == first


def test_who_is_linked_by_the_other_side_is_not_dialed() -> None:
    case = Case()
    case.hub.has_link = True
    case.world.run()
    case.broker.wire.cut()
    case.world.run(5)
    assert len(case.world.dialed) == 1
    case.hub.has_link = False
    case.world.run(0.3)
    assert len(case.world.dialed) == 2


def test_who_is_not_what_was_expected_is_tried_again() -> None:
    case = Case()
    case.hub.fails_with = RefusedError("name", "two have the same name")
    case.world.run(1)
    assert case.dialer.error == "two have the same name"
    assert all(wire.is_closed for wire in case.broker.wires[:-1])
    case.hub.fails_with = None
    case.world.run(2)
    assert case.dialer.error == ""


def test_a_peer_that_is_missing_for_long_is_told_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = Case(is_there=False)
    with caplog.at_level(logging.WARNING, "penstock.net"):
        case.world.run(4.9)
        assert not caplog.messages
        case.world.run(30)
        assert caplog.messages == ["no link to penstock://b:1: connection refused"]
        case.broker.refusal = "access", "not you"
        case.world.there["penstock://b:1"] = case.broker
        case.world.run(30)
        assert caplog.messages[1:] == ["no link to penstock://b:1: not you"]


def test_that_two_are_linked_already_is_told_nobody(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.broker.refusal = "linked", "these two brokers are linked already"
    with caplog.at_level(logging.WARNING, "penstock.net"):
        case.world.run(60)
    assert case.dialer.error == "these two brokers are linked already"
    assert not caplog.messages


@pytest.mark.parametrize("after", [0.0, 0.0015, 0.02])
def test_who_is_stopped_tries_no_more(after: float) -> None:
    dead = Case(is_there=False)
    dead.world.run(after)
    live = Case()
    live.broker.is_mute = True
    live.world.run(after)
    for case in (dead, live):
        case.dialer.stop()
        tries = len(case.world.dialed)
        case.world.run(60)
        assert len(case.world.dialed) == tries
        assert not case.world.waiting


def test_who_is_stopped_leaves_the_connection_to_the_hub() -> None:
    case = Case()
    case.world.run()
    case.dialer.stop()
    case.world.run(10)
    assert not case.broker.wire.is_closed
    case.broker.wire.cut()
    case.world.run(10)
    assert len(case.world.dialed) == 1
