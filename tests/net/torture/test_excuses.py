"""The contract excuses a loss if somebody was told."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.events import Event
from penstock.net.torture.excuses import ACK_MAX, AFTERMATH, Excuses, Happened
from penstock.net.torture.faults import KINDS, Fault
from penstock.net.torture.networks import Client, Network
from penstock.net.torture.records import Published, Told

CLIENTS = (Client("p0", (0, 1), range=(0, 9)), Client("s0", (3, 4), subscriptions=(0,)))
RING = Network(0, 7, tuple((b, (b + 1) % 7) for b in range(7)), CLIENTS)
CHAIN = Network(0, 7, tuple((b, b + 1) for b in range(6)), CLIENTS)
PUBLISHER, SUBSCRIBER = 0, 1


def published(at: float = 10.0, acked: float | None = 10.5, broker: str = "b0") -> Published:
    return Published(PUBLISHER, 0, Event({"x": 1}), at, acked, brokers=frozenset([broker]))


def fault(kind: str, on: str, target: int, begin: float, end: float, side: tuple[int, ...] = ()) -> Happened:
    return Happened(Fault(kind, on, target, begin, end - begin, side=side), begin, end)


@pytest.mark.property
@given(st.sampled_from([RING, CHAIN]), st.sampled_from(KINDS), st.integers(0, 6), st.floats(0, 30))
def test_no_fault_alone_excuses_a_loss(network: Network, kind: str, target: int, length: float) -> None:
    for on in ("broker", "link", "client", "network"):
        one = fault(kind, on, target, 9.0, 9.0 + length, side=(0, 1))
        assert Excuses(network, [one]).excuse(published(), SUBSCRIBER) == ""


@pytest.mark.parametrize("kind", ["missed", "resumed", "dropped"])
def test_a_subscriber_that_is_told_may_have_missed_what_was_published_before(kind: str) -> None:
    for told in (Told(9.0, SUBSCRIBER, kind), Told(11.0, PUBLISHER, kind), Told(11.0, SUBSCRIBER, "slow")):
        assert Excuses(RING, [], [told]).excuse(published(), SUBSCRIBER) == ""
    for told in (Told(10.0, SUBSCRIBER, kind), Told(60.0, SUBSCRIBER, kind)):
        assert Excuses(RING, [], [told]).excuse(published(), SUBSCRIBER) == "told"


def test_a_publisher_may_be_told_that_events_are_given_up() -> None:
    assert Excuses(RING, [], [Told(11.0, PUBLISHER, "lost")]).excuse(published(), SUBSCRIBER) == "given up"
    assert Excuses(RING, [], [Told(9.0, PUBLISHER, "lost")]).excuse(published(), SUBSCRIBER) == ""


def test_a_broker_that_kept_events_and_ended_is_no_excuse() -> None:
    apart = fault("split", "network", 0, 9.0, 17.0, side=(3, 4, 5))
    died = fault("kill", "broker", 0, 12.0, 13.0)
    assert Excuses(RING, [apart, died]).excuse(published(), SUBSCRIBER) == ""


def test_who_is_told_of_a_number_that_nobody_knows_may_have_missed_any() -> None:
    told = [Told(11.0, SUBSCRIBER, "missed", 3), Told(12.0, SUBSCRIBER, "missed", 0)]
    assert Excuses(RING, [], told[:1]).most_missed(SUBSCRIBER) == 3
    assert Excuses(RING, [], told).most_missed(SUBSCRIBER) == math.inf


LONG = ACK_MAX + 10


@pytest.mark.parametrize(
    "one",
    [
        fault("manual", "broker", 0, 10.0, 40.0),
        fault("hostile", "broker", 0, 10.0, 40.0),
        fault("dead", "client", SUBSCRIBER, 10.0, 40.0),
        fault("freeze", "client", SUBSCRIBER, 10.0, 40.0),
    ],
)
def test_no_reader_and_no_stranger_may_hold_an_acknowledgement(one: Happened) -> None:
    assert Excuses(RING, [one]).held(published(10.0, 10.0 + LONG)) == LONG


def test_acknowledgements_may_wait_while_the_network_or_their_publisher_suffers() -> None:
    event = published(10.0, 10.0 + LONG)
    assert Excuses(RING).held(event) == LONG
    for kind, on in (("freeze", "client"), ("pause", "broker"), ("long", "link")):
        suffers = fault(kind, on, PUBLISHER, 10.0, 10.0 + LONG)
        assert Excuses(RING, [suffers]).held(event) == 0
    # What overlaps is counted once, and what comes after a fault belongs to it for a while.
    first, second = fault("long", "link", 0, 10.0, 12.0), fault("long", "link", 1, 11.0, 13.0)
    late = published(10.0, 13.0 + AFTERMATH + 7)
    assert Excuses(RING, [first, second]).held(late) == pytest.approx(7)
    assert Excuses(RING).held(published(10.0, None)) == 0
