"""Processes and connections under virtual time: what reaches whom, and when."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.node.connection import FrameConnection
from penstock.sim.clock import Clock
from penstock.sim.whole.lines import Lines
from penstock.sim.whole.process import Process
from penstock.wire.frames import HELLO_BYTES_MAX, Kind, frame


class Owner:
    """Keeps what comes."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.lost = 0

    def on_frames(self, _connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        self.frames += [bytes(payload) for _kind, payload in frames]

    def on_lost(self, _connection: FrameConnection) -> None:
        self.lost += 1

    def on_writable(self, _connection: FrameConnection) -> None:
        pass


class Case:
    """Two processes, a and b, and a connection from a to b."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = Clock()
        self.lines = Lines(self.clock, Random(seed))
        self.a, self.b = self.process("a"), self.process("b")
        self.lines.line("a", "b").latency = 0.1
        self.ours, self.theirs = Owner(), Owner()
        self.failed: list[Exception] = []
        self.accepted: list[FrameConnection] = []
        self.lines.listen("b", listening(self))
        self.dialed: FrameConnection | None = None

    def process(self, name: str, drift: float = 0.0) -> Process:
        return Process(name, self.clock, self.lines, Random(name), drift)

    def accept(self) -> FrameConnection:
        connection = FrameConnection(self.theirs, self.b, HELLO_BYTES_MAX)
        self.accepted.append(connection)
        return connection

    def make(self) -> FrameConnection:
        self.dialed = FrameConnection(self.ours, self.a, HELLO_BYTES_MAX)
        return self.dialed

    def connect(self) -> FrameConnection:
        self.a.dial("b", self.make, self.failed.append)
        self.clock.run(self.clock.now + 0.3)
        assert self.dialed is not None
        return self.dialed


def listening(case: Case) -> Any:
    """The case as a process that listens."""

    class Listener:
        process = case.b
        accept = staticmethod(case.accept)

    return Listener()


@pytest.fixture
def case() -> Case:
    return Case()


def said(count: int) -> list[bytes]:
    return [frame(Kind.MESSAGE, bytes([number]) * 20) for number in range(count)]


def test_frames_arrive_whole_and_in_order_after_the_latency(case: Case) -> None:
    connection = case.connect()
    connection.write(said(50))
    case.clock.run(case.clock.now + 0.05)
    assert case.theirs.frames == []
    case.clock.run()
    assert case.theirs.frames == [bytes([number]) * 20 for number in range(50)]


def test_nobody_listens_or_the_line_is_cut_is_a_refusal(case: Case) -> None:
    case.a.dial("c", case.make, case.failed.append)
    case.lines.line("a", "b").is_cut = True
    case.a.dial("b", case.make, case.failed.append)
    case.clock.run()
    assert [str(error) for error in case.failed] == ["c: connection refused", "b: connection refused"]
    assert all(isinstance(error, PenstockError) for error in case.failed)


def test_a_machine_that_is_gone_without_a_word_answers_nothing(case: Case) -> None:
    case.connect()
    case.lines.silence("b")
    case.a.dial("b", case.make, case.failed.append)
    case.clock.run()
    assert case.failed == []
    assert case.ours.lost == 0
    case.lines.reset("b")
    case.clock.run()
    assert case.ours.lost == 1


@given(st.integers(0, 2**32), st.floats(0.0, 0.2))
def test_a_cut_delivers_a_prefix_of_the_bytes_and_ends_both_sides(seed: int, when: float) -> None:
    case = Case(seed)
    connection = case.connect()
    for data in said(10):
        connection.write([data])
    case.clock.run(case.clock.now + when)
    case.lines.sever("a", "b")
    case.clock.run()
    count = len(case.theirs.frames)
    assert case.theirs.frames == [bytes([number]) * 20 for number in range(count)]
    assert (case.ours.lost, case.theirs.lost) == (1, 1)


def test_a_stalled_direction_keeps_what_is_said_until_it_flows(case: Case) -> None:
    connection = case.connect()
    case.lines.stall("a", "b")
    connection.write(said(3))
    case.accepted[0].write(said(1))
    case.clock.run(case.clock.now + 60)
    assert case.theirs.frames == []
    assert len(case.ours.frames) == 1
    case.lines.flow("a", "b")
    case.clock.run()
    assert len(case.theirs.frames) == 3


def test_a_flipped_bit_damages_what_is_said_next_and_is_noticed() -> None:
    for seed in range(40):
        case = Case(seed)
        connection = case.connect()
        case.lines.line("a", "b").flips.add("a")
        connection.write(said(1))
        connection.write(said(2))
        case.clock.run()
        assert not case.lines.line("a", "b").flips
        assert (case.theirs.frames, case.theirs.lost) == ([], 1)


def test_a_paused_process_takes_bytes_first_and_then_what_is_overdue(case: Case) -> None:
    connection = case.connect()
    happened: list[str] = []
    case.b.call_later(1.0, happened.append, "timer")
    case.theirs.on_frames = lambda *_: happened.append("bytes")  # type: ignore[method-assign]
    case.b.pause()
    connection.write(said(1))
    case.clock.run(case.clock.now + 30)
    assert happened == []
    case.b.go_on()
    assert happened == ["bytes", "timer"]


def test_a_dead_process_does_nothing_and_its_connections_end(case: Case) -> None:
    case.connect()
    happened: list[str] = []
    case.b.call_later(1.0, happened.append, "timer")
    case.lines.hang_up("b")
    case.b.die()
    case.clock.run()
    assert happened == []
    assert case.ours.lost == 1


def test_a_clock_that_drifts_goes_by_its_own_time(case: Case) -> None:
    fast = case.process("fast", drift=0.1)
    fired: list[float] = []
    began = fast.time()
    fast.call_later(11.0, lambda: fired.append(fast.time() - began))
    case.clock.run()
    assert case.clock.now == pytest.approx(10.0)
    assert fired == [pytest.approx(11.0)]


def test_a_timer_that_was_cancelled_does_not_fire(case: Case) -> None:
    happened: list[str] = []
    case.a.call_later(1.0, happened.append, "late").cancel()
    case.clock.run()
    assert happened == []


def test_who_writes_more_than_is_read_is_told_to_wait(case: Case) -> None:
    connection = case.connect()
    case.b.pause()
    big = frame(Kind.MESSAGE, bytes(2**14 - 100))
    for _ in range(100):
        connection.write([big])
    assert not connection.is_writable
    case.b.go_on()
    case.clock.run()
    assert connection.is_writable
    assert len(case.theirs.frames) == 100
