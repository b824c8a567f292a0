"""Plans of torture: the same for the same seed, and such that they can be carried out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.filters.parsing import as_predicate
from penstock.net.torture.faults import ENDING, KINDS, STRANGERS, Fault
from penstock.net.torture.networks import TOPOLOGIES, Network, components, draw_network
from penstock.net.torture.plan import Round, draw_round, final_round
from penstock.node.settings import Times

RESUME = Times().resume

networks = st.builds(draw_network, st.integers(0, 10_000), st.integers(4, 12))
shaped = st.builds(
    draw_network,
    st.integers(0, 10_000),
    st.integers(4, 12),
    topology=st.sampled_from(TOPOLOGIES),
    subscribers=st.integers(1, 8),
    single_homed=st.booleans(),
)
kinds = st.lists(st.sampled_from(KINDS), unique=True).map(tuple)


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Network, Round]:
    network = draw(shaped)
    seconds, events = draw(st.floats(0.5, 30)), draw(st.integers(0, 60))
    number, count = draw(st.integers(1, 20)), draw(st.none() | st.integers(1, 20))
    plan = draw_round(network, number, kinds=draw(kinds), seconds=seconds, events=events, count=count)
    return network, plan


@pytest.mark.property
@given(networks)
def test_overlays_stay_connected_when_any_broker_is_gone(network: Network) -> None:
    for gone in range(network.brokers):
        reached = {next(broker for broker in range(network.brokers) if broker != gone)}
        for _step in range(network.brokers):
            reached |= {b for link in network.links if reached & set(link) for b in link if b != gone}
        assert reached == set(range(network.brokers)) - {gone}
        assert sum(gone in link for link in network.links) >= 2
    assert len(set(map(frozenset, network.links))) == len(network.links)
    assert network == draw_network(network.seed, network.brokers)


@pytest.mark.property
@given(networks)
def test_clients_have_several_brokers_unless_single_ones_are_asked_for(network: Network) -> None:
    assert all(len(set(client.homes)) > 1 for client in network.clients)
    other = draw_network(network.seed, network.brokers, single_homed=True)
    for clients in (other.publishers, other.subscribers):
        assert [len(other.clients[number].homes) == 1 for number in clients] == [
            number == clients[0] for number in clients
        ]


@pytest.mark.property
@given(st.integers(4, 20), st.integers(0, 1000))
def test_chains_and_rings_are_what_they_are_called(brokers: int, seed: int) -> None:
    for topology, links, ends in (("chain", brokers - 1, 2), ("ring", brokers, 0)):
        network = draw_network(seed, brokers, topology=topology)
        assert len(network.links) == links
        assert len(set(components(range(brokers), network.links).values())) == 1
        degrees = [sum(broker in link for link in network.links) for broker in range(brokers)]
        assert sorted(degrees) == [1] * ends + [2] * (brokers - ends)


def are_together(a: Fault, b: Fault) -> bool:
    return a.begin <= b.end and b.begin <= a.end


@pytest.mark.property
@given(rounds())
def test_faults_are_at_different_places_or_times_and_last_as_their_kind_says(
    drawn: tuple[Network, Round],
) -> None:
    network, plan = drawn
    for number, fault in enumerate(plan.faults):
        for other in plan.faults[:number]:
            if not {fault.kind, other.kind} & set(STRANGERS) and are_together(fault, other):
                assert (fault.on, fault.target) != (other.on, other.target)
    counts = {
        "network": 1,
        "broker": network.brokers,
        "link": len(network.links),
        "client": len(network.clients),
    }
    for fault in plan.faults:
        assert 0 <= fault.target < counts[fault.on]
        assert fault.length < Times().keep / 2 + 1
        if fault.kind in ("short", "stall"):
            assert fault.length <= RESUME / 2
        if fault.kind == "long":
            assert fault.length > RESUME
        if fault.kind in ("short", "stall") and fault.on == "client":
            assert len(network.clients[fault.target].homes) == 1
        if fault.kind == "failover":
            assert len(network.clients[fault.target].homes) > 1
        assert (fault.kind == "split") == bool(fault.side)


@pytest.mark.property
@given(rounds())
def test_a_split_is_of_two_parts_the_first_of_which_holds_together(drawn: tuple[Network, Round]) -> None:
    network, plan = drawn
    for fault in plan.faults:
        if fault.side:
            assert 0 < len(set(fault.side)) < network.brokers
            assert len(set(components(fault.side, network.links).values())) == 1


@pytest.mark.property
@given(shaped, st.integers(1, 5))
def test_there_are_as_many_faults_as_asked_for_and_brokers_end_apart(network: Network, number: int) -> None:
    plan = draw_round(network, number, kinds=KINDS, seconds=25, events=1, count=12)
    assert 10 <= len(plan.faults) <= 12
    kinds = {
        fault.kind
        for n in range(1, 6)
        for fault in draw_round(network, n, kinds=KINDS, seconds=25, events=1, count=12).faults
    }
    assert kinds == set(KINDS)
    # Who keeps events ends only while nobody is away for long, but for some rounds.
    ends = [fault for fault in plan.faults if fault.kind in ENDING]
    away = ("pause", "freeze", "split", "oneway", "long", "dead")
    assert not ends or not any(fault.kind in away for fault in plan.faults)


@pytest.mark.property
@given(networks, st.integers(1, 20), st.integers(0, 200))
def test_a_round_has_all_its_events_and_each_is_advertised(
    network: Network, number: int, events: int
) -> None:
    plan = draw_round(network, number, kinds=KINDS, seconds=5, events=events)
    assert sum(len(burst.events) for burst in plan.bursts) == events
    for burst in (*plan.bursts, *plan.tail):
        advertised = as_predicate(network.clients[burst.publisher].advertisement)
        assert all(advertised.matches(event) for event in burst.events)
    assert [burst.at for burst in plan.bursts] == sorted(burst.at for burst in plan.bursts)
    assert plan == draw_round(network, number, kinds=KINDS, seconds=5, events=events)


@pytest.mark.property
@given(networks, st.integers(1, 20))
def test_probes_come_to_everybody_and_to_nobody_with_older_filters(network: Network, number: int) -> None:
    plan = draw_round(network, number, kinds=(), seconds=1, events=10)
    later = draw_round(network, number + 1, kinds=(), seconds=1, events=10)
    probe = {"probe": plan.probe}
    assert all(as_predicate(text).matches(probe) for text in plan.filters)
    assert not any(as_predicate(text).matches(probe) for text in later.filters)
    last = final_round(network, number + 1)
    assert last.filters == plan.filters
    assert all(as_predicate(f).matches(event) for f in last.filters for b in last.tail for event in b.events)


@pytest.mark.property
@given(networks)
def test_every_kind_of_fault_has_its_turn(network: Network) -> None:
    plans = [draw_round(network, n, kinds=KINDS, seconds=9, events=1) for n in range(1, len(KINDS) + 1)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(KINDS)


def test_an_event_is_wanted_by_two_of_eight_subscriptions_or_more() -> None:
    wanted = events = 0
    for seed in range(20):
        plan = draw_round(draw_network(seed, 7), 1, kinds=(), seconds=5, events=50)
        filters = [as_predicate(text) for text in plan.filters]
        drawn = [event for burst in plan.bursts for event in burst.events]
        events += len(drawn)
        wanted += sum(f.matches(event) for event in drawn for f in filters)
    assert wanted > 2 * events


@pytest.mark.parametrize("brokers", [0, 3, 51])
def test_too_few_or_too_many_brokers_are_refused(brokers: int) -> None:
    with pytest.raises(InputError, match="4 to 50 brokers"):
        draw_network(1, brokers)


def test_other_topologies_and_too_many_subscribers_are_refused() -> None:
    with pytest.raises(InputError, match="no topology 'star'; there are chain, ring, mesh"):
        draw_network(1, 7, topology="star")
    with pytest.raises(InputError, match="1 to 50 subscribers"):
        draw_network(1, 7, subscribers=51)
