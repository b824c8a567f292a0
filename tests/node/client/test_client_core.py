"""The client without asyncio: what it promises when connections are lost, and when they are not."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from node_cases import TRIP, FakeBroker, FakeWorld, block_for
from penstock.errors import AccessError, FilterError, LimitError, NetworkError, PenstockError, WireError
from penstock.model.events import Event
from penstock.node.client.core import ClientCore
from penstock.node.client.notices import Notice
from penstock.node.client.outlet import RejectedError
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.frames import Kind, frame
from penstock.wire.greetings import read_refused, write_refused
from penstock.wire.requests import (
    Ask,
    Behind,
    Bye,
    Denied,
    Done,
    Notify,
    Offer,
    Rejected,
    Request,
    Traced,
    Unoffer,
    Unwant,
    Want,
)
from penstock.wire.sessions import Custody

ONE = encode_event(Event({"n": 1}))
RESTATED = 2**62 - 1


class Taken:
    """A sink that keeps what comes."""

    def __init__(self, *, holds: bool = False) -> None:
        self.numbers: list[int] = []
        self.late: list[int] = []
        self.held: list[Custody] = []
        self.ended: list[Exception | None] = []
        self._holds = holds

    def put(self, _data: bytes, _header: Header, number: int, late: bool, custody: Custody) -> None:
        self.numbers.append(number)
        if late:
            self.late.append(number)
        if self._holds:
            custody.hold()
            self.held.append(custody)

    def end(self, error: Exception | None = None) -> None:
        self.ended.append(error)


class Case:
    """A client of brokers a and b, of which it is told where they are."""

    def __init__(self, *there: FakeBroker, ways: str = "ab", **options: Any) -> None:
        self.world = FakeWorld()
        self.a, self.b = FakeBroker("a"), FakeBroker("b")
        self.world.there = {"a": self.a, "b": self.b}
        for broker in there:
            self.world.there[broker.name] = broker
            setattr(self, broker.name, broker)
        self.notices: list[Notice] = []
        self.told: list[object] = []
        self.core = ClientCore(
            self.world, list(ways), name="c", on_notice=self.notices.append, **{"timeout": 3.0, **options}
        )

    def open(self) -> "Case":
        self.core.open(lambda: self.told.append("open"), self.told.append)
        self.world.run(0.1)
        return self

    def tell(self, what: str) -> Callable[[], None]:
        return lambda: self.told.append(what)

    def advertise(self, text: str = "n >= 0") -> int:
        key = self.core.new_key()
        self.core.advertise(key, text, self.tell(f"advertised {key}"), self.told.append)
        self.world.run()
        return key

    def subscribe(self, text: str = "n >= 0", *, holds: bool = False) -> tuple[int, Taken]:
        key, taken = self.core.new_key(), Taken(holds=holds)
        self.core.subscribe(key, text, taken, self.tell(f"subscribed {key}"), self.told.append)
        self.world.run()
        return key, taken

    def publish(self, key: int, events: int = 1) -> None:
        for _ in range(events):
            self.core.outlet.put(str(key), ONE, self.told.append)
        self.world.run()

    def die(self, broker: FakeBroker) -> None:
        """A broker is gone, and nobody is there in its place."""
        del self.world.there[broker.name]
        broker.end()

    @property
    def kinds(self) -> list[str]:
        return [notice.kind for notice in self.notices]

    def texts(self, kind: str) -> list[str]:
        return [notice.text for notice in self.notices if notice.kind == kind]


def sent(broker: FakeBroker) -> list[tuple[str, list[int], bool]]:
    """What was published: under which key, with which numbers, and whether again."""
    return [(block.header.tree, block.numbers.tolist(), block.header.rescued != 0) for block in broker.blocks]


# Connecting


def asked(broker: FakeBroker) -> list[Request]:
    """What a broker was asked, but for how long nothing had been heard before."""
    wants = [request for request in broker.requests if isinstance(request, Want)]
    assert all(want.seconds == 0.0 or want.seconds > 0.5 for want in wants)
    return [
        msgspec.structs.replace(request, seconds=0.0, age=0.0, before=())
        if isinstance(request, Want)
        else request
        for request in broker.requests
    ]


def test_the_first_broker_that_answers_is_taken() -> None:
    case = Case()
    del case.world.there["a"]
    case.open()
    assert case.told == ["open"]
    assert case.core.line.broker == "b"
    assert case.core.line.is_connected
    assert not case.notices


def test_when_no_broker_answers_every_reason_is_told() -> None:
    case = Case(ways="xb")
    case.b.refusal = "busy", "no more are taken"
    case.open()
    (error,) = case.told
    assert isinstance(error, NetworkError)
    assert str(error) == "x: connection refused; b: no more are taken"
    assert not case.world.waiting


def test_a_token_that_is_not_taken_is_told_without_asking_others() -> None:
    case = Case(token="t")  # noqa: S106 - of tests
    case.a.refusal = "access", "the token has expired"
    case.open()
    (error,) = case.told
    assert isinstance(error, AccessError)
    assert str(error) == "a: the token has expired"
    assert not case.b.hellos
    assert case.a.hellos[0].token == "t"  # noqa: S105


def test_who_gives_up_connecting_may_try_again() -> None:
    case, ended = Case(), list[str]()
    case.a.is_mute = True
    case.open()
    case.core.line.stop_opening(lambda: ended.append("ended"))
    case.world.run(60)
    assert ended == ["ended"]
    assert case.told == []
    case.a.is_mute = False
    case.open()
    assert case.told == ["open"]


# Lost connections


def test_a_lost_connection_is_made_again_and_the_session_goes_on() -> None:
    case = Case().open()
    key, taken = case.subscribe()
    case.a.send(block_for([key], 1))
    case.a.wire.cut()
    assert not case.core.line.is_connected
    # What is sent meanwhile is not lost, neither way.
    case.a.send(block_for([key], 2))
    case.publish(case.advertise())
    case.world.run(0.1)
    assert case.told == ["open", f"subscribed {key}", "advertised 2", None]
    assert taken.numbers == [1, 2]
    assert sent(case.a) == [("2", [1], False)]
    assert [notice.text for notice in case.notices] == [
        "the connection to a is lost",
        "connected to a again; nothing was missed, and what came meanwhile follows",
    ]
    assert [hello.session for hello in case.a.hellos] == [case.a.hellos[0].session] * 2
    assert not case.b.hellos
    assert [type(request) for request in case.a.requests] == [Want, Offer]


def test_when_a_broker_is_gone_the_next_is_told_everything_and_sent_what_was_not_acknowledged() -> None:
    case = Case().open()
    case.a.acks = False
    offered, (wanted, _taken) = case.advertise(), case.subscribe("n > 1")
    other, _taken = case.subscribe("n > 2")
    case.publish(offered, 2)
    case.core.outlet.put_many(str(offered), [ONE] * 3, lambda: case.told.append)
    case.world.run()
    assert sent(case.a) == [("1", [1, 2], False), ("1", [3, 4, 5], False)]
    told = len(case.told)
    case.die(case.a)
    case.world.run(1)
    assert case.core.line.broker == "b"
    assert asked(case.b) == [
        Offer(0, offered, "n >= 0", turn=2),
        Want(0, wanted, "n > 1"),
        Want(RESTATED, other, "n > 2"),
    ]
    assert sent(case.b) == [("1", [1, 2], True), ("1", [3, 4, 5], True)]
    # Under one mark, and acknowledged at last.
    assert len({block.header.rescued for block in case.b.blocks}) == 1
    assert case.told[told:] == [None, None, None]
    assert case.kinds == ["disconnected", "reconnected"]
    assert case.notices[-1].text == (
        "connected to b; a did not keep the session: what was missed is sent again, and may come late; "
        "5 events were published again"
    )
    assert case.notices[-1].count == 5
    # What follows is numbered on.
    case.publish(offered)
    assert sent(case.b)[2:] == [("1", [6], False)]


def test_what_is_published_again_has_another_mark_each_time() -> None:
    case = Case().open()
    case.a.acks = case.b.acks = False
    case.publish(case.advertise())
    case.die(case.a)
    case.world.run(1)
    case.world.there["a"] = case.a
    case.die(case.b)
    case.world.run(1)
    assert case.core.line.broker == "a"
    marks = [block.header.rescued for block in [*case.b.blocks, *case.a.blocks[1:]]]
    assert len(set(marks)) == 2
    assert 0 not in marks


def test_tries_to_come_back_are_made_less_and_less_often_and_go_round() -> None:
    case = Case().open()
    case.world.dialed.clear()
    case.world.there.clear()
    case.a.end()
    case.world.run(20)
    gaps = [round(later - at - TRIP, 4) for (at, _), (later, _way) in pairwise(case.world.dialed)]
    assert [way for _at, way in case.world.dialed[:6]] == ["a", "b"] * 3
    assert gaps[:7] == [0.0375, 0.0375, 0.075, 0.075, 0.15, 0.15, 0.3]
    assert gaps[-3:] == [1.5, 1.5, 1.5]
    assert case.kinds == ["disconnected"]
    case.world.there["b"] = case.b
    case.world.run(4)
    assert case.core.line.broker == "b"
    # The one that answered is the first to be tried next time.
    case.world.dialed.clear()
    case.b.wire.cut()
    case.world.run(0.1)
    assert [way for _at, way in case.world.dialed] == ["b"]


def test_a_session_that_another_took_the_place_of_is_not_gone_on_with() -> None:
    case = Case().open()
    key = case.advertise()
    case.a.refusal = "draining", "the broker is about to end"
    case.a.wire.cut()
    case.world.run(1)
    assert case.core.line.broker == "b"
    case.a.refusal = None
    case.die(case.b)
    case.world.run(1)
    # It would have gone on with the first session, in which other numbers were given.
    assert [hello.session[-2:] for hello in case.a.hellos] == [":0", ":0", ":0", ":1"]
    assert case.core.line.broker == "a"
    case.publish(key)
    assert case.told[-1] is None


def test_a_token_that_is_not_taken_any_longer_ends_it() -> None:
    case = Case().open()
    _key, taken = case.subscribe()
    case.a.refusal = "access", "the token has expired"
    case.a.wire.cut()
    case.world.run(1)
    (error,) = taken.ended
    assert isinstance(error, AccessError)
    assert str(error) == "a: the token has expired"
    with pytest.raises(AccessError, match="expired"):
        case.core.check_open()
    assert not case.world.waiting


@pytest.mark.parametrize(
    ("code", "kind", "notices"),
    [("slow", NetworkError, ["dropped"]), ("access", AccessError, []), ("protocol", WireError, [])],
)
def test_who_is_sent_away_for_a_reason_does_not_come_back(
    code: str, kind: type[Exception], notices: list[str]
) -> None:
    case = Case().open()
    _key, taken = case.subscribe()
    case.a.wire.say(write_refused(code, "enough"))
    case.world.run()
    case.a.wire.cut()
    case.world.run(10)
    (error,) = taken.ended
    assert isinstance(error, kind)
    assert str(error) == "a: enough"
    assert case.kinds == notices
    assert len(case.a.hellos) == 1


def test_without_reconnection_everybody_who_waits_is_told() -> None:
    case = Case(reconnect=False).open()
    case.a.acks = False
    offered, (_wanted, taken) = case.advertise(), case.subscribe()
    case.publish(offered)
    case.a.answer = lambda _request: None
    case.core.status(case.told.append, case.told.append)
    case.core.outlet.when_settled(case.tell("settled"))
    case.told.clear()
    case.a.wire.cut()
    (error,) = taken.ended
    assert str(error) == "the connection to a is lost"
    assert case.told == [error, "settled", error]
    with pytest.raises(NetworkError, match="the connection to a is lost"):
        case.core.status(case.told.append, case.told.append)
    assert not case.notices


def test_a_broker_that_says_nothing_any_more_is_left() -> None:
    case = Case().open()
    case.world.run(60)
    assert not case.notices
    assert (Kind.PING, b"") in case.a.heard
    case.a.is_mute = True
    case.world.run(4)
    assert not case.notices
    case.world.run(16)
    assert case.kinds == ["disconnected", "reconnected"]
    assert case.a.wires[0].is_aborted
    assert case.core.line.broker == "b"


@pytest.mark.parametrize(("later", "seconds"), [(1.0, 42.0), (70.0, 111.0), (900.0, 941.0)])
def test_the_next_broker_is_asked_for_what_the_last_one_had_yet_to_send(later: float, seconds: float) -> None:
    case = Case().open()
    case.subscribe()
    case.a.tell(Behind(40.0))
    case.world.run(later)
    case.die(case.a)
    case.world.run(1)
    (want,) = case.b.requests
    assert isinstance(want, Want)
    assert want.seconds == pytest.approx(seconds, abs=3)
    # Until it has come, however long that takes.
    case.world.there["a"] = case.a
    case.b.end()
    del case.world.there["b"]
    case.world.run(1)
    again = case.a.requests[-1]
    assert isinstance(again, Want)
    assert again.seconds == pytest.approx(want.seconds + 1, abs=1)


@pytest.mark.parametrize(
    ("told", "seconds"), [([40.0, 20.0], 40.0), ([40.0, 0.0], 1.0), ([40.0, 0.0, 9.0], 9.0)]
)
def test_what_is_missing_grows_until_all_has_come(told: list[float], seconds: float) -> None:
    # What a broker said before this process stood still is read late, and seems to be of later.
    case = Case().open()
    case.subscribe()
    for one in told:
        case.a.tell(Behind(one))
        case.world.run(0.1)
    case.die(case.a)
    case.world.run(1)
    (want,) = case.b.requests
    assert isinstance(want, Want)
    assert want.seconds == pytest.approx(seconds, abs=1.5)


FAILOVER_MAX = 8.5
"""Seconds from the last word of a broker that hangs to the next of two, as docs/OPERATIONS.md says."""


def test_leaving_a_broker_that_hangs_takes_seconds() -> None:
    # Stopped, it still has its connections accepted by the system, and answers nothing.
    case = Case(timeout=10.0).open()
    case.world.run(60)
    case.a.is_mute = True
    case.world.run(FAILOVER_MAX)
    assert case.core.line.broker == "b"
    assert case.core.line.is_connected


def test_a_first_broker_that_hangs_while_greeting_is_passed_over_in_seconds() -> None:
    case = Case(timeout=10.0)
    case.a.is_mute = True
    case.open()
    case.world.run(2.5)
    assert case.told == ["open"]
    assert case.core.line.broker == "b"


def test_brokers_that_all_are_slow_to_answer_are_given_the_whole_time() -> None:
    case = Case(timeout=10.0)
    case.a.is_mute = case.b.is_mute = True
    case.open()
    case.world.run(4.5)
    assert case.told == []
    case.a.is_mute = False
    case.a.wires[-1].say(frame(Kind.PONG))
    hello = [payload for kind, payload in case.a.heard if kind is Kind.HELLO][-1]
    case.a.hear(case.a.wires[-1], Kind.HELLO, memoryview(hello))
    case.world.run(1)
    assert case.told == ["open"]
    assert case.core.line.broker == "a"


def test_each_round_of_tries_to_connect_again_has_more_patience() -> None:
    case = Case(timeout=10.0).open()
    case.a.is_mute = case.b.is_mute = True
    case.a.wire.cut()
    case.world.run(60)
    times = [at for at, _way in case.world.dialed[1:]]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert all(2 <= wait < 4 for wait in waits[:2])
    assert all(10 <= wait < 13 for wait in waits[6:])


# Requests


def test_what_was_asked_and_not_answered_is_asked_again() -> None:
    case = Case().open()
    case.a.answer = lambda _request: None
    number = case.core.status(case.told.append, case.told.append)
    key, _taken = case.subscribe()
    case.b.answer = lambda request: Done(request.request, b"{}" if isinstance(request, Ask) else b"")
    case.die(case.a)
    case.world.run(1)
    assert case.told == ["open", b"{}", f"subscribed {key}"]
    assert asked(case.b) == [Want(RESTATED, key, "n >= 0"), Ask(number), Want(number + 1, key, "n >= 0")]


@pytest.mark.parametrize(
    ("code", "kind"),
    [("access", AccessError), ("filter", FilterError), ("quota", NetworkError), ("protocol", NetworkError)],
)
def test_what_is_denied_is_told_whoever_asked(code: str, kind: type[Exception]) -> None:
    case = Case().open()
    case.a.answer = lambda request: Denied(request.request, code, "no")
    key, taken = case.subscribe()
    assert isinstance(case.told[-1], kind)
    # And nothing is wanted, here or there.
    assert case.a.requests[-1] == Unwant(0, key)
    assert not case.core.wanted
    case.a.send(block_for([key], 1))
    case.world.run()
    assert taken.numbers == []


def test_a_denial_that_nobody_waits_for_is_a_notice() -> None:
    case = Case().open()
    case.a.answer = lambda _request: None
    number = case.core.status(case.told.append, case.told.append)
    case.world.run()
    case.core.forget(number)
    case.a.tell(Denied(number, "access", "no"))
    case.world.run()
    assert case.notices == [Notice("rejected", "no")]
    assert case.told == ["open"]


def test_an_advertisement_that_is_taken_back_or_withdrawn_is_not_said_again() -> None:
    case = Case().open()
    first, second, third = (case.advertise(f"n = {n}") for n in range(3))
    case.core.take_back(first)
    case.core.withdraw(second, case.tell("withdrawn"), case.told.append)
    case.core.withdraw(second, case.tell("was"), case.told.append)
    case.world.run()
    assert case.told[-2:] == ["was", "withdrawn"]
    assert Unoffer(0, first) in case.a.requests
    case.die(case.a)
    case.world.run(1)
    assert asked(case.b) == [Offer(0, third, "n = 2", turn=2)]


def test_what_is_taken_back_before_it_was_answered_is_not_asked_again() -> None:
    # A new broker was asked for it all the same, after it was told everything else, and kept it for good.
    case = Case().open()
    case.a.answer = lambda _request: None
    subscribed, _taken = case.subscribe()
    case.core.change(subscribed, "n > 5", case.tell("changed"), case.told.append)
    case.core.unsubscribe(subscribed)
    advertised = case.advertise()
    case.core.take_back(advertised)
    case.world.run()
    assert [type(told) for told in case.told[1:]] == [NetworkError] * 3
    case.die(case.a)
    case.world.run(1)
    assert asked(case.b) == []


def test_what_is_granted_is_advertised_once_for_all_who_need_it() -> None:
    case = Case(FakeBroker("a", granted="n > 5")).open()
    for _ in range(2):
        case.core.advertise_granted(case.told.append, case.told.append)
    case.world.run()
    assert case.told[1:] == ["1", "1"]
    assert case.a.requests == [Offer(1, 1, "n > 5", turn=1)]
    assert case.core.advertised == {1: "n > 5"}


def test_who_may_advertise_nothing_is_told_what_to_do() -> None:
    case = Case().open()
    case.a.answer = lambda request: Denied(request.request, "access", "you may not")
    case.core.advertise_granted(case.told.append, case.told.append)
    case.world.run()
    assert isinstance(case.told[-1], AccessError)
    assert str(case.told[-1]) == "advertise what you publish, with advertise(filter): you may not"


def test_a_changed_filter_is_the_one_that_is_said_again() -> None:
    case = Case().open()
    key, _taken = case.subscribe("n > 1")
    case.core.change(key, "n > 2", case.tell("changed"), case.told.append)
    assert case.core.wanted == {key: "n > 1"}
    case.world.run()
    assert case.told[-1] == "changed"
    case.die(case.a)
    case.world.run(1)
    assert asked(case.b) == [Want(RESTATED, key, "n > 2")]


def test_the_end_of_a_subscription_is_told_when_the_broker_knows_as_far_as_there_is_one() -> None:
    case = Case().open()
    (first, _taken), (second, _other) = case.subscribe(), case.subscribe()
    case.core.end_subscription(first, case.tell("ended"), case.told.append)
    assert "ended" not in case.told
    case.world.run()
    assert "ended" in case.told
    assert isinstance(case.a.requests[-1], Unwant)
    case.world.there.clear()
    case.a.end()
    case.core.end_subscription(second, case.tell("ended too"), case.told.append)
    assert "ended too" in case.told
    assert not case.core.wanted


def test_what_the_broker_says_by_itself_is_a_notice() -> None:
    case = Case().open()
    case.a.tell(Notify("paused", "too slow", 3), Rejected(1, [1, 2], "access", "not granted"))
    case.world.run()
    assert case.notices == [Notice("paused", "too slow", 3), Notice("rejected", "not granted", 2)]


# Publishing


def test_what_is_published_together_goes_in_one_block() -> None:
    case = Case().open()
    key = case.advertise()
    case.publish(key, 3)
    assert sent(case.a) == [("1", [1, 2, 3], False)]
    assert case.told[-3:] == [None, None, None]


def test_of_events_published_together_only_the_one_that_is_refused_fails() -> None:
    case = Case().open()
    case.a.acks = False
    key = case.advertise()
    case.publish(key, 3)
    case.core.outlet.put_many(str(key), [ONE] * 3, lambda: case.told.append)
    case.world.run()
    case.told.clear()
    case.a.tell(Rejected(key, [2, 4, 5], "access", "not granted"))
    case.a.acknowledge()
    case.world.run()
    first, refused, third, block = case.told
    assert (first, third) == (None, None)
    assert isinstance(refused, RejectedError)
    assert (str(refused), refused.count) == ("not granted", 1)
    assert isinstance(block, RejectedError)
    assert block.count == 2


def test_blocks_are_as_long_as_the_broker_takes_them() -> None:
    case = Case(FakeBroker("a", frame_bytes=2**16)).open()
    key, events = str(case.advertise()), [bytes(30_000)] * 5
    with pytest.raises(LimitError, match="frame_bytes"):
        case.core.outlet.put(key, bytes(70_000), case.told.append)
    with pytest.raises(LimitError, match="frame_bytes"):
        case.core.trace(key, bytes(70_000), case.told.append, case.told.append)
    case.told.clear()
    case.core.outlet.put_many(key, events, lambda: case.told.append)
    case.world.run()
    assert [number for _key, numbers, _again in sent(case.a) for number in numbers] == [1, 2, 3, 4, 5]
    assert case.told == [None] * len(case.a.blocks)
    assert all(block.size() < 2**16 for block in case.a.blocks)


def test_publishers_wait_when_two_windows_are_full() -> None:
    case = Case(FakeBroker("a", window=2**16)).open()
    case.a.acks = False
    key, outlet = str(case.advertise()), case.core.outlet
    case.told.clear()
    for _ in range(2):
        outlet.put_many(key, [bytes(60_000)], lambda: case.told.append)
        outlet.when_room(case.tell("room"))
    assert case.told == ["room", "room"]
    outlet.put_many(key, [bytes(60_000)], lambda: case.told.append)
    assert outlet.is_full
    assert not outlet.has_room
    outlet.when_room(case.tell("room again"))
    outlet.when_settled(case.tell("settled"))
    case.world.run()
    assert len(case.a.blocks) == 2
    case.a.acknowledge()
    case.world.run()
    assert case.told[2:] == [None, "room again", None]
    case.a.acknowledge()
    case.world.run()
    assert case.told[-2:] == [None, "settled"]


def test_the_way_of_an_event_is_reported_or_why_it_is_not() -> None:
    case = Case().open()
    case.a.acks = False
    key = str(case.advertise())
    for _ in range(2):
        case.core.trace(key, ONE, case.told.append, case.told.append)
    case.world.run()
    first, second = (block.header.trace for block in case.a.blocks)
    assert first != second
    case.told.clear()
    case.a.tell(Traced(first, b"{}"), Traced("other", b"[]"))
    case.a.acknowledge()
    case.world.run()
    report, error = case.told
    assert report == b"{}"
    assert isinstance(error, AccessError)
    assert str(error) == "the broker traced nothing: that needs the right to monitor"


# Receiving


def test_events_are_acknowledged_when_whoever_has_them_lets_go() -> None:
    case = Case().open()
    key, taken = case.subscribe(holds=True)
    case.a.send(block_for([key], 1, 2))
    case.world.run()
    assert taken.numbers == [1, 2]
    assert not case.a.session.is_idle
    for custody in taken.held:
        custody.release()
    case.world.run()
    assert case.a.session.is_idle


def test_events_come_once_and_late_ones_are_marked() -> None:
    case = Case().open()
    key, taken = case.subscribe()
    for numbers in ((1, 2, 5), (2, 3), (4, 6)):
        case.a.send(block_for([key], *numbers))
    case.a.send(block_for([key], 1, origin="another"))
    case.world.run()
    assert taken.numbers == [1, 2, 5, 3, 4, 6, 1]
    assert taken.late == [3, 4]
    assert case.a.session.is_idle


def test_events_come_once_though_two_brokers_send_them() -> None:
    case = Case().open()
    key, taken = case.subscribe()
    case.a.send(block_for([key], 1, 2))
    case.world.run()
    case.die(case.a)
    case.world.run(1)
    case.b.send(block_for([key], 1, 2, 3))
    case.world.run()
    assert taken.numbers == [1, 2, 3]


def test_while_subscriptions_are_said_again_an_event_may_come_for_each_of_them_in_turn() -> None:
    case = Case().open()
    (one, first), (other, second) = case.subscribe("n > 1"), case.subscribe("n > 2")
    answers: list[Request] = []
    # Answered later.
    case.b.answer = answers.append
    case.die(case.a)
    case.world.run(1)
    # The broker knows of one subscription only.
    case.b.send(block_for([one], 7))
    case.b.tell(*(Done(request.request) for request in answers))
    case.world.run()
    for _again in range(2):
        case.b.send(block_for([one, other], 7))
        case.world.run()
    assert (first.numbers, second.numbers) == ([7], [7])
    # When all have been said, what comes comes for all that it is for.
    case.b.send(block_for([one], 8))
    case.b.send(block_for([one, other], 8))
    case.world.run()
    assert (first.numbers, second.numbers) == ([7, 8], [7])


def test_events_that_do_not_say_for_whom_they_are_end_the_connection() -> None:
    case = Case().open()
    case.a.send(Block.of(Header("t", "o"), [1], [ONE]))
    case.world.run()
    assert case.a.wires[0].is_closed
    refusals = [payload for kind, payload in case.a.heard if kind is Kind.REFUSED]
    assert [read_refused(memoryview(payload)).reason for payload in refusals] == [
        "events came without saying for which subscriptions"
    ]


# The end


def test_who_closes_says_goodbye() -> None:
    case = Case().open()
    _key, taken = case.subscribe()
    case.a.acks = False
    case.publish(case.advertise())
    case.told.clear()
    for _ in range(2):
        case.core.close(case.tell("closed"))
    case.world.run()
    assert isinstance(case.a.requests[-1], Bye)
    (unacknowledged, *closed) = case.told
    assert isinstance(unacknowledged, NetworkError)
    assert str(unacknowledged) == "the client was closed before this was acknowledged"
    assert closed == ["closed", "closed"]
    assert taken.ended == [None]
    assert case.a.wire.is_closed
    assert not case.notices
    assert not case.world.waiting
    with pytest.raises(NetworkError, match="the client is closed"):
        case.core.check_open()
    case.core.close(case.tell("again"))
    assert case.told[-1] == "again"


def test_a_broker_that_does_not_answer_a_goodbye_is_not_waited_for() -> None:
    case = Case().open()
    case.a.answer = lambda _request: None
    case.core.close(case.tell("closed"))
    case.world.run(1.9)
    assert case.told == ["open"]
    case.world.run(0.2)
    assert case.told == ["open", "closed"]
    assert not case.world.waiting


def test_a_connection_that_is_lost_while_closing_ends_it() -> None:
    case = Case(reconnect=False).open()
    case.a.is_mute = True
    case.core.close(case.tell("closed"))
    case.world.run()
    case.a.wire.cut()
    assert case.told == ["open", "closed"]
    case.world.run(10)
    assert case.told == ["open", "closed"]


@pytest.mark.parametrize("seconds", [0.0, 0.0015, 0.02])
def test_who_closes_while_there_is_no_connection_is_done_at_once(seconds: float) -> None:
    case = Case().open()
    case.world.there.clear()
    case.a.is_mute = True
    case.a.end()
    case.world.run(seconds)
    case.core.status(case.told.append, case.told.append)
    case.core.close(case.tell("closed"))
    _open, error, closed = case.told
    assert isinstance(error, PenstockError)
    assert str(error) == "the client is closed"
    assert closed == "closed"
    case.world.run(60)
    assert not case.world.waiting
