"""Reliable links: nothing is lost, repeated or out of order, whatever happens to connections."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.errors import WireError
from penstock.wire.blocks import Block, Header
from penstock.wire.frames import FrameReader, Kind, frame
from penstock.wire.sessions import Custody, Session

WINDOW = 200


class Releases:
    """Custodies that were given to frames, and how each ended."""

    def __init__(self) -> None:
        self.ends: dict[bytes, list[bool]] = {}

    def make(self, payload: bytes) -> Custody:
        self.ends[payload] = []
        return Custody(self.ends[payload].append)


class End:
    """One side: what it has pushed, what came to it, what of that it has dealt with."""

    def __init__(self) -> None:
        self.session = Session(WINDOW)
        self.pushed: list[bytes] = []
        self.got: list[bytes] = []
        self.open: list[tuple[int, bytes]] = []
        self.dealt: set[bytes] = set()
        self.releases = Releases()
        self.reader = FrameReader(2**20)
        self.wire = b""
        """On its way to this side."""

    def push(self, payload: bytes) -> None:
        custody = self.releases.make(payload)
        self.session.push_message(payload, custody)
        custody.release()
        self.pushed.append(payload)

    def flushed(self) -> bytes:
        """What `Link.flush` would write."""
        frames = self.session.sendable()
        ack = self.session.ack_due()
        return b"".join([*frames, *([] if ack is None else [ack])])

    def hear(self, data: bytes) -> None:
        for kind, payload in self.reader.feed(data):
            if kind is Kind.ACK:
                self.session.on_ack(payload)
                continue
            taken = self.session.take(payload)
            if taken is not None:
                number, content = taken
                self.got.append(bytes(content))
                self.open.append((number, bytes(content)))


class Resuming(RuleBasedStateMachine):
    """Two sessions joined by a connection that carries any number of bytes and is cut anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = (End(), End())
        self.is_joined = True
        self.count = 0

    def write(self, side: int) -> None:
        if self.is_joined:
            self.ends[1 - side].wire += self.ends[side].flushed()

    @rule(side=st.integers(0, 1), size=st.integers(0, 150))
    def push(self, side: int, size: int) -> None:
        self.count += 1
        self.ends[side].push(self.count.to_bytes(4, "big") + bytes(size))
        self.write(side)

    @rule(side=st.integers(0, 1), amount=st.integers(1, 400))
    def carry(self, side: int, amount: int) -> None:
        end = self.ends[side]
        data, end.wire = end.wire[:amount], end.wire[amount:]
        end.hear(data)
        self.write(side)

    @rule(side=st.integers(0, 1), which=st.integers(0, 20))
    def deal_with(self, side: int, which: int) -> None:
        end = self.ends[side]
        if end.open:
            number, payload = end.open.pop(which % len(end.open))
            end.dealt.add(payload)
            end.session.dealt_with(number)
            self.write(side)

    @precondition(lambda self: self.is_joined)
    @rule(lost=st.tuples(st.integers(0, 500), st.integers(0, 500)))
    def cut(self, lost: tuple[int, int]) -> None:
        """Some of what is under way comes still, the rest never."""
        self.is_joined = False
        for end, amount in zip(self.ends, lost, strict=True):
            data, end.wire, end.reader = end.wire[:amount], b"", end.reader
            end.hear(data)

    @precondition(lambda self: not self.is_joined)
    @rule()
    def resume(self) -> None:
        """The one that dials says what it had; the other answers, and sends what is missing; so does it."""
        dialing, other = self.ends
        for end in self.ends:
            end.reader, end.wire = FrameReader(2**20), b""
        said = dialing.session.received
        dialing.wire += b"".join(other.session.resume(said))
        other.wire += b"".join(dialing.session.resume(other.session.received))
        self.is_joined = True
        self.write(0)
        self.write(1)

    @invariant()
    def all_that_came_is_a_beginning_of_what_was_pushed(self) -> None:
        for end, other in (self.ends, self.ends[::-1]):
            assert other.got == end.pushed[: len(other.got)]

    @invariant()
    def custody_is_released_at_most_once_and_only_by_whoever_dealt_with_it(self) -> None:
        for end, other in (self.ends, self.ends[::-1]):
            for payload, ends in end.releases.ends.items():
                assert ends in ([], [True])
                assert not ends or payload in other.dealt

    @invariant()
    def no_more_than_the_window_and_one_frame_is_unacknowledged(self) -> None:
        for end in self.ends:
            assert end.session._unacked_bytes < WINDOW + 154
            assert end.session._unacked_bytes == sum(out.size for out in end.session._unacked.values())
            left = [*end.session._unacked.values(), *end.session._pending]
            assert end.session.queued_bytes == sum(out.size for out in left)
            assert end.session.unacked_frames == len(left)
            assert end.session.undealt_bytes == sum(len(payload) for _number, payload in end.open)

    def teardown(self) -> None:
        """With a connection and time, everything comes, and everything is released."""
        if not self.is_joined:
            self.resume()
        for _ in range(4 * self.count + 4):
            for side in (0, 1):
                self.carry(side, 10**6)
                while self.ends[side].open:
                    self.deal_with(side, 0)
        for end, other in (self.ends, self.ends[::-1]):
            assert other.got == end.pushed
            assert end.session.is_idle
            assert all(ends == [True] for ends in end.releases.ends.values())


TestResuming = pytest.mark.property(Resuming.TestCase)


def block(*numbers: int) -> Block:
    return Block.of(Header("1", ""), numbers, [b"\x81\xa1x\x01"] * len(numbers))


def sent(session: Session) -> int:
    return len(session.sendable())


def acked(session: Session, number: int) -> None:
    session.on_ack(number.to_bytes(8, "big"))


def test_what_is_pending_can_be_dropped_and_messages_stay() -> None:
    session, releases = Session(1), Releases()
    for number in (1, 2, 3):
        custody = releases.make(b"%d" % number)
        session.push_block(block(number, number + 10), custody)
        custody.release()
    session.push_message(b"told")
    assert sent(session) == 1
    assert session.drop_pending() == 4
    assert releases.ends == {b"1": [], b"2": [True], b"3": [True]}
    assert session.is_waiting
    acked(session, 1)
    assert releases.ends[b"1"] == [True]
    # The numbers of those that went have no gap.
    ((_kind, payload),) = FrameReader().feed(session.sendable()[0])
    assert (int.from_bytes(payload[:8], "big"), bytes(payload[8:])) == (2, b"told")
    acked(session, 2)
    assert session.is_idle
    assert session.queued_bytes == 0


def test_nobody_waits_for_what_was_let_go_but_it_is_sent_again_after_a_cut() -> None:
    session, releases = Session(50), Releases()
    for number in (1, 2, 3):
        custody = releases.make(b"%d" % number)
        session.push_block(block(number), custody)
        custody.release()
    told = releases.make(b"told")
    session.push_message(b"told", told)
    told.release()
    assert sent(session) == 2
    assert session.let_go() == 1
    assert releases.ends == {b"1": [True], b"2": [True], b"3": [True], b"told": []}
    assert len(session.resume(0)) == 2
    acked(session, 2)
    assert sent(session) == 1
    acked(session, 3)
    assert releases.ends == {b"1": [True], b"2": [True], b"3": [True], b"told": [True]}
    assert session.is_idle


def test_who_is_let_go_and_acknowledges_all_the_same_does_not_count_for_somebody_else() -> None:
    slow, other, releases = Session(1000), Session(1000), Releases()
    custody = releases.make(b"1")
    for session in (slow, other):
        session.push_block(block(1), custody)
        assert sent(session) == 1
    custody.release()
    slow.let_go()
    acked(slow, 1)
    assert releases.ends == {b"1": []}
    acked(other, 1)
    assert releases.ends == {b"1": [True]}


@pytest.mark.parametrize("failed", [True, False])
def test_a_session_that_is_over_lets_go_of_everything_once(failed: bool) -> None:
    session, releases = Session(1), Releases()
    for number in (1, 2):
        custody = releases.make(b"%d" % number)
        session.push_block(block(number, number + 10), custody)
        custody.release()
    session.push_message(b"told")
    sent(session)
    assert session.abandon(failed=failed) == 4
    assert session.abandon(failed=failed) == 0
    assert releases.ends == {b"1": [not failed], b"2": [not failed]}
    assert session.is_idle
    assert session.queued_bytes == 0


def test_a_frame_that_the_other_side_could_not_pass_on_has_failed_when_it_is_acknowledged() -> None:
    session, releases = Session(1000), Releases()
    for number in (1, 2):
        custody = releases.make(b"%d" % number)
        session.push_block(block(number), custody)
        custody.release()
    sent(session)
    session.fail(2)
    session.fail(99)
    acked(session, 2)
    assert releases.ends == {b"1": [True], b"2": [False]}


def test_what_is_handed_over_goes_on_in_another_session_and_is_released_by_that() -> None:
    old, new, releases = Session(1), Session(1000), Releases()
    for number in (1, 2, 3):
        custody = releases.make(b"%d" % number)
        old.push_block(block(number), custody)
        custody.release()
    old.push_message(b"told")
    sent(old)
    acked(old, 1)
    sent(old)
    for handed, custody_ in old.hand_over():
        assert custody_ is not None
        new.push_block(handed, custody_)
        custody_.release()
    assert old.is_idle
    assert old.queued_bytes == 0
    assert releases.ends == {b"1": [True], b"2": [], b"3": []}
    assert sent(new) == 2
    acked(new, 2)
    assert releases.ends == {b"1": [True], b"2": [True], b"3": [True]}


def test_a_custody_waits_for_all_who_hold_it() -> None:
    ends: list[bool] = []
    custody = Custody(ends.append)
    custody.hold()
    custody.release()
    assert not ends
    custody.fail()
    custody.release()
    assert ends == [False]


def test_frames_that_come_twice_are_dropped_and_gaps_are_errors() -> None:
    session = Session(100)
    assert session.take(memoryview((1).to_bytes(8, "big") + b"x")) == (1, memoryview(b"x"))
    assert session.take(memoryview((1).to_bytes(8, "big") + b"x")) is None
    assert session.take(memoryview((0).to_bytes(8, "big"))) is None
    with pytest.raises(WireError, match="frame 3 came after 1"):
        session.take(memoryview((3).to_bytes(8, "big")))
    with pytest.raises(WireError, match="no number"):
        session.take(memoryview(b"1234567"))


@pytest.mark.parametrize("payload", [b"", b"\0" * 7, b"\0" * 9, (1).to_bytes(8, "big"), b"\xff" * 8])
def test_an_acknowledgement_of_what_was_never_sent_is_an_error(payload: bytes) -> None:
    with pytest.raises(WireError):
        Session(100).on_ack(payload)


@pytest.mark.parametrize("received", [0, 4, 2**62])
def test_a_session_does_not_go_on_from_where_it_never_was(received: int) -> None:
    session = Session(100)
    for _ in range(3):
        session.push_message(b"x")
    sent(session)
    acked(session, 1)
    with pytest.raises(WireError):
        session.resume(received)
    assert len(session.resume(1)) == 2
    assert len(session.resume(3)) == 0


def test_acknowledgements_are_said_once_out_of_turn_too_and_again_after_a_new_connection() -> None:
    session = Session(100)
    for number in (1, 2, 3):
        session.take(memoryview(number.to_bytes(8, "big")))
    session.dealt_with(2)
    assert session.ack_due() == frame(Kind.ACK, (0).to_bytes(8, "big"), (2).to_bytes(8, "big"))
    session.dealt_with(1)
    assert session.ack_due() == frame(Kind.ACK, (2).to_bytes(8, "big"))
    assert session.ack_due() is None
    session.resume(0)
    assert session.ack_due() == frame(Kind.ACK, (2).to_bytes(8, "big"))
