"""A client that sends more than its quota: its events wait, and nothing else that it sends does."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.parsing import parse
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.node.passing import _from_client, _older
from penstock.node.settings import Limits
from penstock.sim.clients import Client as SimClient
from penstock.sim.observers import Observer
from penstock.sim.whole.network import WholeNetwork
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.frames import Kind
from penstock.wire.messages import Publish
from penstock.wire.requests import Offer, Want
from turns_cases import Case, Client

ALL = parse("x >= 0")


def quick_and_other(**limits: Any) -> tuple[Case, Client, Client]:
    """A broker with eve, who is going to send too much, and ann; both publish and want everything."""
    case = Case(events_per_second=10, **limits)
    case.world.run(2)
    eve, ann = Client(case, "eve"), Client(case, "ann")
    for client in (eve, ann):
        client.ask(Offer(1, 1, "x >= 0"), Want(2, 1, "x >= 0"))
    case.world.run(1)
    return case, eve, ann


def test_who_is_over_its_quota_is_still_heard_so_that_it_holds_nobody() -> None:
    case, eve, ann = quick_and_other()
    # A hundred events where ten are allowed in a second: nine seconds for the last of them.
    for n in range(1, 101):
        eve.publish(1, n)
    assert eve.got == ann.got == list(range(1, 11))
    ann.publish(1, 1_000)
    assert eve.got[-1] == 1_000
    for client in (eve, ann):
        client.acknowledge()
    # Ann's event is acknowledged, though one of its readers is over its quota; eve's request is answered.
    assert ann.acked == 3
    eve.ask(Want(3, 2, "x = 7"))
    assert eve.answered == [1, 2, 3]
    case.world.run(10)
    assert [n for n in ann.got if n != 1_000] == list(range(1, 101))


def test_events_over_a_quota_keep_their_order_and_wait_within_a_window() -> None:
    _case, eve, ann = quick_and_other(window_bytes=2**16, frame_bytes=2**16)
    for n in range(1, 200):
        eve.publish(1, *range(100 * n, 100 * n + 100))
        if [kind for kind, _data in eve.heard][-1] is Kind.REFUSED:
            break
    else:
        raise AssertionError("more than a window was taken")
    assert ann.got == []


def test_what_waits_for_a_quota_makes_no_reader_slow() -> None:
    case, eve, ann = quick_and_other(window_bytes=2**16, frame_bytes=2**16)
    link = next(link for link in case.runtime.links.values() if link.peer == "eve")
    for n in range(100):
        eve.publish(1, *range(100 * n + 1, 100 * n + 101))
        if link.session.undealt_bytes >= 2**16:
            break
    assert link.session.undealt_bytes >= 2**16
    case.world.run(30)
    assert not case.runtime._watch._is_held_up
    assert not [answer for answer in ann.answers if getattr(answer, "kind", "") in ("slow", "paused")]


@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([0.0, 0.05, 0.3, 1.1])), min_size=1, max_size=12)
)
def test_events_over_a_quota_come_in_their_order_whenever_they_were_sent(
    frames: list[tuple[int, float]],
) -> None:
    case, eve, ann = quick_and_other()
    sent = 0
    for count, pause in frames:
        eve.publish(1, *range(sent + 1, sent + count + 1))
        sent += count
        case.world.run(pause)
    case.world.run(sent / 10 + 2)
    assert ann.got == list(range(1, sent + 1))
    assert all(not link.metered_bytes for link in case.runtime.links.values())


class Settled(Observer):
    """Whose events are acknowledged, and when."""

    def __init__(self) -> None:
        self.at: dict[str, list[float]] = {}
        self.got: dict[str, int] = {}

    def on_deliver(
        self, client: SimClient, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        assert not late
        self.got[client.name] = self.got.get(client.name, 0) + 1

    def on_settled(
        self, client: SimClient, name: tuple[str, int], error: Exception | None, now: float
    ) -> None:
        assert error is None
        self.at.setdefault(client.name, []).append(now)


def test_in_virtual_time_a_reader_over_its_quota_holds_no_publisher_anywhere() -> None:
    network = WholeNetwork(seed=3, limits=Limits(events_per_second=10))
    settled = Settled()
    network.observers.append(settled)
    for name in ("a", "b"):
        network.add_broker(name)
    network.add_link("a", "b")
    eve, ann = network.add_client("eve", "a"), network.add_client("ann", "b")
    network.run(3.0)
    for client in (eve, ann):
        network.advertise(client, "t", ALL)
        network.subscribe(client, "s", ALL)
    network.run(10.0)
    for x in range(200):
        network.publish(eve, Event({"x": x}))
        network.run(network.now + 0.001)
    began = network.now
    network.publish(ann, Event({"x": 1_000}))
    network.run(began + 2.0)
    assert settled.at["ann"]
    assert settled.at["ann"][0] < began + 1.0
    assert settled.got["ann"] < 100
    network.run(began + 40.0)
    assert len(settled.at["eve"]) == 200
    assert settled.got == {"ann": 201, "eve": 201}


@given(st.floats(), st.integers(0, 255), st.booleans())
def test_of_their_way_clients_may_say_when_events_were_acknowledged_and_nothing_else(
    age: float, hops: int, replay: bool
) -> None:
    event = encode_event(Event({"x": 1}))
    block = Block.of(Header("1", "", hops, 7, "trace", replay=replay, age=age), [1], [event])
    header = _from_client(block).header
    assert (header.tree, header.hops, header.rescued, header.replay) == ("1", 0, 7, False)
    assert header.age == (age if 0 < age < 1e9 else 0.0)


def test_events_that_wait_grow_older_if_they_have_an_age() -> None:
    block = Block.of(Header("1", "", age=5.0), [1], [encode_event(Event({"x": 1}))])
    assert _older(block, 3.0).header.age == 8.0
    new = Block.of(Header("1", ""), [1], [encode_event(Event({"x": 1}))])
    assert _older(new, 3.0) is new
