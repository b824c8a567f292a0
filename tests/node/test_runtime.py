"""The runtime of a broker without sockets: what comes in frames, and what time does."""

from typing import Any, Literal

import pytest

from net_cases import events_frame, numbered
from node_cases import FakeWorld
from penstock.broker.effects import Missed
from penstock.broker.grants import EVERYTHING
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.broker.trees.broker import Broker
from penstock.errors import WireError
from penstock.filters.parsing import parse
from penstock.net.matching import EngineMatching
from penstock.node.identity import Identity
from penstock.node.links import Link, LinkPhase
from penstock.node.passing import ATTEMPTS_MAX
from penstock.node.runtime import Runtime
from penstock.node.settings import Limits, Times
from penstock.wire.codec import Returned, TraceReport
from penstock.wire.frames import FrameReader, Kind, frame
from penstock.wire.greetings import VERSION, Hello
from penstock.wire.messages import Advertise, Message, Subscribe, Sync
from penstock.wire.requests import Offer, Want, write_request
from penstock.wire.sessions import Stage
from penstock.wire.stamps import stamped, unstamped

TIMES = Times(settle=1.0, resume=3.0, grace=3.0, patience=10.0, linger=30.0)
LATER = 2.0
"""When all who want events of a new advertisement have said so."""

TREES = protocol_named("trees")
NOBODY = Identity(subject="", grants=EVERYTHING)


class Wire:
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        self.is_writable = True
        self.heard_at = 0.0
        self.frames: list[tuple[Kind, bytes]] = []
        self.closed: list[str] = []

    def write(self, frames: list[bytes]) -> None:
        for data in frames:
            self.frames += [(kind, bytes(payload)) for kind, payload in FrameReader(2**30).feed(data)]

    def close(self, code: str = "", reason: str = "") -> None:
        self.closed.append(code)

    @property
    def acked(self) -> int:
        """The number up to which frames were acknowledged."""
        acks = [int.from_bytes(payload, "big") for kind, payload in self.frames if kind is Kind.ACK]
        return acks[-1] if acks else 0

    @property
    def reached(self) -> list[tuple[int, int]]:
        """The stages that frames were said to have reached."""
        said = [payload for kind, payload in self.frames if kind is Kind.REACHED]
        return [(int.from_bytes(one[:8], "big"), one[8]) for one in said]

    def events(self) -> list[int]:
        """The numbers of the frames of events."""
        return [int.from_bytes(content[:8], "big") for kind, content in self.frames if kind is Kind.EVENTS]


class Case:
    """A runtime, with publisher p, reader q and neighbour n."""

    def __init__(self, **limits: Any) -> None:
        core = TREES.make("b", EngineMatching(), CoreSettings(lease=30.0))
        self.world = FakeWorld()
        self.runtime = Runtime(core, TREES.codec, Limits(**limits), TIMES, self.world)
        self.wires: dict[str, Wire] = {}

    def client(self, name: str, session: int = 0) -> Link:
        hello = Hello(VERSION, "client", name, "", f"{name}:{session}", 0)
        return self.bound(self.runtime.add_client(hello, NOBODY, 0.0))

    def neighbour(self) -> Link:
        link = self.bound(self.runtime.add_neighbour("n", "s", 1, 0.0, dialed=False))
        core = self.runtime.core
        assert isinstance(core, Broker)
        trees = frozenset(tree for tree, _branch in core.trees.items())
        self.spoken(link, 1, Sync((1, 1), 0, (), (Subscribe("k", parse("true"), trees),)))
        return link

    def bound(self, link: Link) -> Link:
        link.connection = self.wires[link.peer] = Wire()
        return link

    def hear(self, link: Link, data: bytes, now: float = 0.0) -> None:
        self.world.now = now
        for kind, payload in FrameReader(2**30).feed(data):
            self.runtime.on_frame(link, kind, payload, now)
        self.flush()

    def spoken(self, link: Link, number: int, message: Message, now: float = 0.0) -> None:
        self.hear(link, numbered(Kind.MESSAGE, number, stamped(TREES.codec.write(message), now)), now)

    def flush(self) -> None:
        self.runtime.flush()

    def tick(self, now: float) -> None:
        self.world.now = now
        self.runtime.tick(now)
        self.flush()


def publishing(case: Case) -> Link:
    link = case.client("p")
    case.hear(link, numbered(Kind.MESSAGE, 1, write_request(Offer(1, 1, "true"))))
    return link


def test_a_frame_is_acknowledged_when_everybody_further_on_has_acknowledged_it() -> None:
    case = Case()
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
    n = case.neighbour()
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    (to_q,), (to_n,) = case.wires["q"].events(), case.wires["n"].events()
    assert case.wires["p"].acked == 1
    q.session.on_ack(to_q.to_bytes(8, "big"))
    case.flush()
    assert case.wires["p"].acked == 1
    n.session.on_ack(to_n.to_bytes(8, "big"))
    case.flush()
    assert case.wires["p"].acked == 2


def test_an_event_is_not_accepted_before_the_last_broker_has_it() -> None:
    case = Case()
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
    n = case.neighbour()
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    (to_n,) = case.wires["n"].events()
    case.tick(LATER + 0.5)
    assert case.wires["p"].reached == []
    case.hear(n, frame(Kind.REACHED, to_n.to_bytes(8, "big"), bytes([Stage.ACCEPTED])), LATER + 0.6)
    assert case.wires["p"].reached == [(2, Stage.ACCEPTED)]
    # Each client has to have taken it, here and there, before it counts as taken.
    case.hear(n, frame(Kind.REACHED, to_n.to_bytes(8, "big"), bytes([Stage.TAKEN])), LATER + 0.7)
    assert case.wires["p"].reached == [(2, Stage.ACCEPTED)]
    (to_q,) = case.wires["q"].events()
    case.hear(q, frame(Kind.REACHED, to_q.to_bytes(8, "big"), bytes([Stage.TAKEN])), LATER + 0.8)
    assert case.wires["p"].reached[-1] == (2, Stage.TAKEN)
    assert case.wires["p"].acked == 1


def test_what_fails_is_sent_again_while_others_are_slow() -> None:
    case = Case()
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
    n = case.neighbour()
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    case.world.now = LATER
    case.runtime.end(n, LATER, failed=True)
    case.tick(LATER + TIMES.settle + 0.1)
    # It was sent again, though q has acknowledged neither.
    assert len(case.wires["q"].events()) == 2
    assert case.wires["p"].reached[-1] == (2, Stage.ACCEPTED)
    assert case.wires["p"].acked == 1


def test_what_a_link_that_failed_had_is_sent_again_after_a_while() -> None:
    case = Case()
    p = publishing(case)
    n = case.neighbour()
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    case.world.now = 5.0
    case.runtime.end(n, 5.0, failed=True)
    case.tick(5.5)
    assert case.wires["p"].acked == 1
    assert not case.runtime.is_idle
    case.tick(6.5)
    # Nobody wants it any more.
    assert case.wires["p"].acked == 2
    assert case.runtime.counts["rescued"] == 1


def test_what_is_to_be_sent_again_is_not_mixed_up_with_a_new_session_of_its_publisher() -> None:
    case = Case()
    p = publishing(case)
    n = case.neighbour()
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    case.runtime.end(n, 5.0, failed=True)
    again = case.client("p")
    assert p.phase is LinkPhase.GONE
    case.tick(7.0)
    # It has sent no frame 2, nor even a frame 1.
    assert again.session.ack_due() is None
    assert case.wires["p"].acked == 0
    case.hear(again, numbered(Kind.MESSAGE, 1, write_request(Offer(1, 1, "true"))))
    assert case.wires["p"].acked == 1
    # This broker keeps nothing that it could send again without the publisher.
    assert case.runtime.lost == {"unkept": 1}


def test_what_a_neighbour_returns_has_failed_here_too() -> None:
    case = Case()
    p = publishing(case)
    n = case.neighbour()
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    (number,) = case.wires["n"].events()
    case.spoken(n, 2, Returned(number), LATER)
    n.session.on_ack(number.to_bytes(8, "big"))
    case.tick(2.5)
    assert case.wires["p"].acked == 1
    case.tick(3.5)
    assert len(case.wires["n"].events()) == 2


def test_events_of_a_neighbour_that_cannot_be_passed_on_are_returned_to_it() -> None:
    case = Case()
    n = case.neighbour()
    m = case.bound(case.runtime.add_neighbour("m", "s", 1, 0.0, dialed=False))
    offer = Advertise("m/0.1", parse("true"))
    case.spoken(m, 1, Sync((1, 1), 0, (offer,), ()))
    want = Subscribe("k", parse("true"), frozenset(("m/0.1",)))
    case.spoken(n, 2, Sync((1, 1), 1, (), (want,)))
    case.hear(m, events_frame(2, "m/0.1", {"x": 1}))
    assert len(case.wires["n"].events()) == 1
    case.runtime.end(n, 1.0, failed=True)
    case.flush()
    told = [
        TREES.codec.read(unstamped(memoryview(payload)[8:])[1])
        for kind, payload in case.wires["m"].frames
        if kind is Kind.MESSAGE
    ]
    assert told[-1] == Returned(2)
    # It must have been told before the acknowledgement.
    assert case.wires["m"].acked == 1


def test_a_reader_that_is_sent_less_than_a_window_is_in_the_way_if_it_holds_up_a_publisher() -> None:
    case = Case(window_bytes=2**16)
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "x = 1"))))
    # All but one of the events are for nobody; together they fill the window of their publisher.
    case.hear(p, events_frame(2, "1", {"x": 1}, *({"x": n, "s": "s" * 1000} for n in range(2, 80))))
    assert not q.session.is_waiting
    case.tick(6.0)
    assert q.is_warned
    case.tick(11.0)
    assert q.is_paused
    assert case.wires["p"].acked == 2
    # It still gets what it was sent, and goes on when it has taken it.
    q.session.on_ack(len(case.wires["q"].frames[:-1]).to_bytes(8, "big"))
    case.tick(12.0)
    assert not q.is_paused


def test_a_reader_that_nobody_waits_for_may_take_its_time() -> None:
    case = Case()
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    case.tick(1000.0)
    assert not q.is_paused
    assert not q.is_warned


def test_a_reader_that_never_acknowledges_holds_nobody_for_longer_than_the_patience() -> None:
    case = Case()
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    case.tick(1.0)
    case.tick(10.5)
    assert case.wires["p"].acked == 1
    case.tick(11.5)
    assert case.wires["p"].acked == 2
    # It has been sent it, and may have it again after a cut; what comes later waits no more than a moment.
    assert q.session.first_unacked
    case.hear(p, events_frame(3, "1", {"x": 2}, first=2), 12.0)
    case.tick(12.25)
    assert case.wires["p"].acked == 3
    assert len(q.session.resume(0)) >= 2


def test_a_client_that_is_gone_with_an_event_is_waited_for_as_long_as_a_session_may_resume() -> None:
    # It used to hold its publisher for as long as its session was kept.
    case = Case()
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    case.runtime.on_cut(q, 1.0)
    case.tick(3.9)
    assert case.wires["p"].acked == 1
    case.tick(4.5)
    case.tick(6.0)
    assert case.wires["p"].acked == 2


def test_a_neighbour_that_acknowledges_everything_but_one_frame_of_events_has_failed() -> None:
    case = Case()
    publishing(case)
    n = case.neighbour()
    p = case.runtime.links[next(name for name, link in case.runtime.links.items() if link.peer == "p")]
    case.hear(p, events_frame(2, "1", {"x": 1}), LATER)
    assert n.session.first_unacked
    for now in range(1, 30):
        case.runtime.core_tick(float(now))
        case.flush()
        stuck = n.session.first_unacked
        done = [*range(1, stuck), *range(stuck + 1, n.session.sent + 1)]
        n.on_ack(b"".join(number.to_bytes(8, "big") for number in (stuck - 1, *done)), float(now))
        case.tick(float(now))
    assert case.wires["n"].closed == []
    case.tick(32.0)
    assert case.wires["n"].closed == ["slow"]


def test_a_neighbour_that_is_away_too_long_is_over_and_its_wants_with_it() -> None:
    case = Case()
    publishing(case)
    n = case.neighbour()
    case.runtime.on_cut(n, 0.0)
    seen = []
    for now in (2.0, 4.0, 8.0):
        case.tick(now)
        seen.append((n.phase, case.runtime.core.facts().subscriptions))
    assert seen == [(LinkPhase.CUT, 1), (LinkPhase.AWAY, 1), (LinkPhase.GONE, 0)]


@pytest.mark.parametrize("report", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_report_of_a_trace_that_is_none_is_not_passed_on(report: bytes) -> None:
    case = Case()
    n = case.neighbour()
    with pytest.raises(WireError, match="no JSON"):
        case.spoken(n, 2, TraceReport("t", report))


# What is counted as lost


@pytest.mark.parametrize("reason", ["expired", "unreachable"])
def test_what_clients_may_have_missed_is_counted_by_its_reason(
    reason: Literal["expired", "unreachable"],
) -> None:
    case = Case()
    q = case.client("q")
    case.runtime.carry_out([Missed(q.name, 3, reason)], 0.0)
    assert case.runtime.lost == {reason: 3}
    # Of a number that nobody knows, it is one at least.
    case.runtime.carry_out([Missed(q.name, 0, reason)], 0.0)
    assert case.runtime.lost == {reason: 4}


def test_what_a_slow_reader_is_not_sent_is_counted() -> None:
    case = Case(window_bytes=2**16)
    p, q = publishing(case), case.client("q")
    case.hear(q, numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
    case.hear(p, events_frame(2, "1", *({"x": n, "s": "s" * 1000} for n in range(80))))
    case.tick(11.0)
    assert q.is_paused
    before = case.runtime.lost["slow"]
    case.hear(p, events_frame(3, "1", {"x": 1}, {"x": 2}, first=81), 11.5)
    assert case.runtime.lost == {"slow": before + 2}


def test_what_is_given_up_after_so_many_tries_is_counted() -> None:
    case = Case()
    p = publishing(case)
    n = case.neighbour()
    now = LATER
    case.hear(p, events_frame(2, "1", {"x": 1}, {"x": 2}), now)
    for attempt in range(ATTEMPTS_MAX + 1):
        assert case.runtime.lost == {}
        number = case.wires["n"].events()[-1]
        case.spoken(n, attempt + 2, Returned(number), now)
        n.session.on_ack(number.to_bytes(8, "big"))
        now += 2.0
        case.tick(now)
    assert case.runtime.lost == {"retries": 2}
