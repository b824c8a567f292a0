"""What simulated brokers say of subscriptions that match nothing is true of all that was published."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.asked import kinds_in
from penstock.filters.disagreements import Disagreement
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.filters.relations import overlaps
from penstock.model.events import Event
from penstock.model.values import family_of
from penstock.net import matching
from penstock.net.matching import EngineMatching
from penstock.node.node import Node
from penstock.sim.whole.clients import WholeClient
from penstock.sim.whole.network import WholeNetwork

WANTED = ["a > 5", "a = 'x'", "b > 5", "bb > 5", "a > 5 and b > 5", "c = true or a < 0", "a is not null"]
OFFERED = ["true", "a >= 0", "b >= 0 and a is not null", "c = 'y'", "a = 'x' or b = 1"]
EVENTS: list[dict[str, Any]] = [{"a": 1}, {"a": 7, "b": 7}, {"a": "x"}, {"b": 1, "c": "y"}, {"c": True}]

CLIENTS = st.tuples(
    st.integers(0, 2), st.lists(st.sampled_from(WANTED), max_size=3), st.sampled_from([None, *OFFERED])
)
PUBLISHED = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(EVENTS)), min_size=5, max_size=30)
PROTOCOLS = st.sampled_from(
    [("trees", "covering", True), ("trees", "covering", False), ("trees", "flooding", True),
     ("trees", "identity", True), ("flood", "covering", True)]
)  # fmt: skip


def two_looks(node: Node, engine: EngineMatching) -> list[tuple[Disagreement, Predicate]]:
    """What a broker finds at the second look: disagreements, each with every filter that it is about."""
    for _ in range(2):
        look = node.look()
        look.compare(engine)
        look.finish()
    return [(found, predicate) for found, filters in look.found for predicate in filters]


def check(found: Disagreement, predicate: Predicate, events: list[Event]) -> None:
    """What is said of a filter is so of the events of all publishers that may publish what it matches."""
    values = [event[found.attribute] for event in events if found.attribute in event]
    assert found.problem in ("unknown", "family", "mixed")
    if found.problem == "unknown":
        assert not values
    elif found.problem == "family":
        assert not {family_of(value) for value in values} & kinds_in(predicate.filters)[found.attribute]


@given(PROTOCOLS, st.lists(CLIENTS, min_size=1, max_size=4), PUBLISHED)
def test_no_broker_says_of_a_subscription_what_is_not_so(
    kind: tuple[str, str, bool],
    given_clients: list[tuple[int, list[str], str | None]],
    published: list[tuple[int, dict[str, Any]]],
) -> None:
    protocol, scheme, advertisements = kind
    engines: list[EngineMatching] = []

    def make() -> EngineMatching:
        engines.append(EngineMatching())
        engines[-1].sees_all = protocol == "flood"
        return engines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_PATIENCE", 1)
        network = WholeNetwork(protocol, scheme, advertisements=advertisements, make_matching=make)
        for at in range(3):
            network.add_broker(f"b{at}")
        for at in range(2):
            network.add_link(f"b{at}", f"b{at + 1}")
        clients: list[tuple[WholeClient, Predicate | None]] = []
        for at, (home, wanted, offered) in enumerate(given_clients):
            client = network.add_client(f"c{at}", f"b{home}")
            clients.append((client, None if offered is None else parse(offered)))
            for key, text in enumerate(wanted):
                network.subscribe(client, key, parse(text))
            if offered is not None:
                network.advertise(client, "ad", parse(offered))
        network.run(30.0)
        # What each publisher may publish, as brokers know it, and what it has.
        everything = parse("true")
        sent: list[tuple[Predicate, Event]] = []
        here: Counter[str] = Counter()
        for at, attributes in published:
            event = Event(attributes)
            client, offer = clients[at % len(clients)]
            if offer is not None and offer.matches(event) and network.publish(client, event) is not None:
                sent.append((offer if advertisements else everything, event))
                here[client.home] += 1
        network.run(60.0)
        offers = [offer for _client, offer in clients if offer is not None]
        for whole, engine in zip(network.nodes.values(), engines, strict=True):
            assert whole.node is not None
            for found, predicate in two_looks(whole.node, engine):
                if found.events is None:
                    assert not any(overlaps(predicate, offer) for offer in offers)
                else:
                    assert found.events <= (len(sent) if protocol == "flood" else here[whole.name])
                    check(found, predicate, [event for offer, event in sent if overlaps(predicate, offer)])


def test_simulated_brokers_find_what_does_not_go_together_and_tell_the_client() -> None:
    engines: list[EngineMatching] = []

    def make() -> EngineMatching:
        engines.append(EngineMatching())
        return engines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_PATIENCE", 3)
        network = WholeNetwork(make_matching=make)
        network.add_broker("b0")
        network.add_broker("b1")
        network.add_link("b0", "b1")
        ann, bob = network.add_client("ann", "b0"), network.add_client("bob", "b1")
        told: list[tuple[str, str]] = []
        network.observers.on_notice.append(
            lambda client, notice, _now: told.append((client.name, notice.kind))
        )
        network.subscribe(ann, "x", parse("a > 5"))
        network.subscribe(bob, "y", parse("b > 5"))
        network.subscribe(bob, "z", parse("a < 0"))
        network.advertise(bob, "ad", parse("a = 'x'"))
        network.run(30.0)
        for _ in range(4):
            network.publish(bob, Event({"a": "x"}))
        network.run(60.0)
        nodes = [whole.node for whole in network.nodes.values()]
        found = [
            two_looks(node, engine) for node, engine in zip(nodes, engines, strict=True) if node is not None
        ]
        assert [[(one.problem, predicate.to_sql()) for one, predicate in some] for some in found] == [
            [("family", "a > 5")],
            [("family", "a < 0"), ("unknown", "b > 5"), ("family", "a < 0")],
        ]
        network.run(70.0)
        assert sorted(told) == [("ann", "disagreement"), ("bob", "disagreement"), ("bob", "disagreement")]
