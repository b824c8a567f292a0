"""Sessions: every frame comes once and in order, and whoever sent it learns when it has been dealt with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import WireError
from penstock.wire.frames import FrameReader
from penstock.wire.sessions import Custody, Session

WINDOW = 1_000_000


class Line:
    """Two sessions, and what is on its way between them."""

    def __init__(self) -> None:
        self.here, self.there = Session(WINDOW), Session(WINDOW)
        self.taken: list[int] = []
        self.done: list[int] = []

    def push(self, number: int) -> None:
        custody = Custody(lambda _succeeded: self.done.append(number))
        self.here.push_message(number.to_bytes(4, "big"), custody)
        custody.release()

    def carry(self, frames: list[bytes]) -> None:
        for data in frames:
            for _kind, payload in FrameReader(WINDOW).feed(data):
                taken = self.there.take(payload)
                if taken is not None:
                    self.taken.append(int.from_bytes(taken[1], "big"))

    def acknowledge(self, *, lost: bool = False) -> None:
        ack = self.there.ack_due()
        if ack is not None and not lost:
            ((_kind, payload),) = FrameReader(WINDOW).feed(ack)
            self.here.on_ack(payload)

    def reconnect(self) -> None:
        self.there.resume(0)
        self.carry(self.here.resume(self.there.received))


actions = st.lists(
    st.sampled_from(["push", "send", "send in vain", "deal", "acknowledge", "acknowledge in vain"]),
    min_size=20,
    max_size=80,
)


@pytest.mark.property
@given(actions, st.randoms())
def test_frames_come_once_in_order_and_are_done_once_whatever_is_lost(
    drawn: list[str], random: object
) -> None:
    line, pushed, dealt = Line(), 0, set[int]()
    choice = random.choice  # type: ignore[attr-defined]
    for action in drawn:
        undone = [number for number in range(1, line.there.received + 1) if number not in dealt]
        if action == "push":
            pushed += 1
            line.push(pushed)
        elif action == "send":
            line.carry(line.here.sendable())
        elif action == "send in vain":
            line.here.sendable()
            line.reconnect()
        elif action == "deal" and undone:
            number = choice(undone)
            dealt.add(number)
            line.there.dealt_with(number)
        elif action == "acknowledge":
            line.acknowledge()
            assert set(line.done) == dealt
        elif action == "acknowledge in vain":
            line.acknowledge(lost=True)
            line.reconnect()
        assert set(line.done) <= dealt
        assert len(set(line.done)) == len(line.done)
    line.carry(line.here.sendable())
    assert line.taken == list(range(1, pushed + 1))
    for number in range(1, pushed + 1):
        if number not in dealt:
            line.there.dealt_with(number)
    line.acknowledge()
    assert sorted(line.done) == line.taken
    assert line.here.is_idle
    assert line.here.queued_bytes == 0


def test_acknowledgements_do_not_wait_for_each_other_in_a_circle() -> None:
    """The first frame of each of three lines is dealt with when the second of the next one is done."""
    lines = [Line() for _ in range(3)]
    for at, line in enumerate(lines):
        line.push(1)
        before = lines[at - 1]
        custody = Custody(lambda _succeeded, before=before: before.there.dealt_with(1))  # type: ignore[misc]
        line.here.push_message(bytes(4), custody)
        custody.release()
        line.carry(line.here.sendable())
        line.there.dealt_with(2)
    for _time in range(2):
        for line in lines:
            line.acknowledge()
    assert [line.done for line in lines] == [[1], [1], [1]]
    assert all(line.here.is_idle for line in lines)


def test_an_acknowledgement_of_what_was_never_sent_is_an_error() -> None:
    session = Session(WINDOW)
    session.push_message(b"x")
    session.sendable()
    for payload in (b"", b"1234567", bytes(7) + b"\2", bytes(15) + b"\2"):
        with pytest.raises(WireError):
            session.on_ack(payload)
    session.on_ack(bytes(7) + b"\1")
    assert session.is_idle
