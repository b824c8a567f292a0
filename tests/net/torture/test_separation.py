"""Who is separated from whom follows from the faults: from one alone nobody is who has several homes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.torture.plan import Client, Fault, Network, draw_network
from penstock.net.torture.records import Told
from penstock.net.torture.separation import AGAIN, KEPT, Happened, Window, windows

RING = Network(
    0,
    7,
    tuple((b, (b + 1) % 7) for b in range(7)),
    (Client("p0", (0, 1), range=(0, 9)), Client("s0", (3, 4), subscriptions=(0,))),
)
LONG = KEPT + 1


def broken(kind: str, on: str, target: int, begin: float, end: float) -> Happened:
    return Happened(Fault(kind, on, target, begin, end - begin), begin, end)


networks = st.builds(draw_network, st.integers(0, 1000), st.integers(7, 9))


@pytest.mark.property
@given(networks, st.sampled_from(["kill", "term", "long", "failover", "short"]), st.data())
def test_no_fault_alone_separates_anybody(network: Network, kind: str, data: st.DataObject) -> None:
    on = {"kill": "broker", "term": "broker", "failover": "client"}.get(kind, "link")
    count = {"broker": network.brokers, "client": len(network.clients), "link": len(network.links)}[on]
    fault = broken(kind, on, data.draw(st.integers(0, count - 1)), 3.0, 3.0 + data.draw(st.floats(0, 60)))
    assert windows(network, [fault], [], 99.0) == []


@pytest.mark.property
@given(st.integers(0, 1000), st.floats(0.1, 9))
def test_a_client_is_homeless_without_its_only_broker(seed: int, length: float) -> None:
    network = draw_network(seed, 7, single_homed=True)
    first = network.publishers[0]
    kill = broken("kill", "broker", network.clients[first].homes[0], 3.0, 3.0 + length)
    assert Window(3.0, 99.0, first) in windows(network, [kill], [], 99.0)


def test_a_client_is_homeless_when_all_its_brokers_are_gone_at_the_same_time() -> None:
    first = broken("kill", "broker", 0, 3.0, 5.0)
    assert windows(RING, [first, broken("kill", "broker", 1, 4.0, 6.0)], [], 9.0) == [Window(4.0, 9.0, 0)]
    assert windows(RING, [first, broken("failover", "client", 0, 4.0, 6.0)], [], 9.0) == [Window(4.0, 9.0, 0)]
    assert windows(RING, [first, broken("kill", "broker", 1, 5.5, 6.0)], [], 9.0) == []


def test_brokers_that_are_parted_for_long_separate_their_clients_from_each_other() -> None:
    cut = broken("long", "link", 1, 3.0, 20.0)
    assert windows(RING, [cut, broken("long", "link", 5, 4.0, 4.0 + LONG)], [], 99.0) == [
        Window(4.0, 99.0, 0, 1)
    ]
    assert windows(RING, [cut, broken("kill", "broker", 6, 4.0, 4.0 + LONG)], [], 99.0) == [
        Window(4.0, 99.0, 0, 1)
    ]


def test_being_parted_for_a_moment_is_no_excuse_nor_is_a_part_without_clients() -> None:
    cut = broken("long", "link", 1, 3.0, 20.0)
    moment = KEPT - AGAIN - 0.5
    assert windows(RING, [cut, broken("long", "link", 5, 4.0, 4.0 + moment)], [], 99.0) == []
    assert (
        windows(RING, [broken("long", "link", 4, 3.0, 20.0), broken("long", "link", 5, 3.0, 20.0)], [], 99.0)
        == []
    )


def test_a_consumer_that_reads_nothing_may_miss_events_only_if_it_is_told() -> None:
    dead = broken("dead", "client", 1, 3.0, 9.0)
    assert windows(RING, [dead], [], 12.0) == []
    for told in (
        Told(2.0, 1, "paused"),
        Told(5.0, 0, "paused"),
        Told(5.0, 1, "slow"),
        Told(5.0, 1, "missed"),
    ):
        assert windows(RING, [dead], [told], 12.0) == []
    assert windows(RING, [dead], [Told(8.0, 1, "paused")], 12.0) == [Window(3.0, 12.0, 1)]
