"""The broker core, message by message, and small networks of it."""

from collections.abc import Iterable, Sequence

import pytest

from penstock.broker.effects import Deliver, Effect, Refuse, Send, Wake
from penstock.broker.local import LinkDown, LinkUp, Tick, Woken
from penstock.broker.needs import Scan
from penstock.broker.trees.broker import Broker
from penstock.broker.trees.trees import HERE
from penstock.errors import PenstockError
from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.checkers.trees import tree_broker
from penstock.sim.clients import Client
from penstock.sim.links import LinkModel
from penstock.sim.network import Network
from penstock.sim.observers import Observer
from penstock.wire.blocks import Header
from penstock.wire.messages import (
    Advertise,
    Alive,
    Control,
    Lost,
    Publish,
    Resync,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
)


def broker(scheme: str = "covering", **more: object) -> Broker:
    return Broker("b", SCHEMES[scheme], Scan(), **more)  # type: ignore[arg-type]


def published(number: int, key: str = "a", **attributes: int) -> Publish:
    """An event as a client publishes it: under the key of an advertisement, with a number."""
    return Publish(Event(attributes), Header(key, ""), number)


def sent(effects: Iterable[object]) -> list[object]:
    """What neighbours are told, without the numbers."""
    messages = [effect.message for effect in effects if isinstance(effect, Send)]
    return [body for message in messages if isinstance(message, Control) for body in message.bodies]


def test_an_event_goes_where_it_is_wanted_and_comes_once_to_each_client() -> None:
    b = broker()
    b.handle(LinkUp(client=True), "p", 0)
    b.handle(LinkUp(client=True), "q", 0)
    b.handle(Advertise("a", as_predicate("x >= 0")), "p", 0)
    b.handle(Subscribe("s", as_predicate("x > 1")), "q", 0)
    b.handle(Subscribe("t", as_predicate("x > 2")), "q", 0)
    (delivered,) = b.handle(published(1, x=3), "p", 0)
    assert isinstance(delivered, Deliver)
    assert isinstance(delivered.events, Publish)
    assert (delivered.link, set(delivered.events.keys or ())) == ("q", {"s", "t"})
    assert b.handle(published(2, x=1), "p", 0) == []
    b.handle(Unsubscribe("s"), "q", 0)
    (delivered,) = b.handle(published(3, x=3), "p", 0)
    assert isinstance(delivered, Deliver)
    assert isinstance(delivered.events, Publish)
    assert delivered.events.keys == ("t",)
    # What has come is not delivered again, and what came late is.
    assert b.handle(published(1, x=3), "p", 0) == []
    assert b.facts().duplicates == 1


def test_what_a_client_has_not_advertised_is_refused() -> None:
    b = broker()
    b.handle(LinkUp(client=True), "p", 0)
    b.handle(Advertise("a", as_predicate("x < 5")), "p", 0)
    event = published(1, x=5)
    (refused,) = b.handle(event, "p", 0)
    assert isinstance(refused, Refuse)
    assert "not among what was advertised" in refused.reason
    assert refused.events == event
    (refused,) = b.handle(published(1, "b", x=1), "p", 0)
    assert isinstance(refused, Refuse)
    assert "advertise before publishing" in refused.reason


def test_what_nobody_may_say_is_an_error() -> None:
    b = broker()
    with pytest.raises(PenstockError, match="Subscribe is for clients; 'p' is not connected"):
        b.handle(Subscribe("s", as_predicate("x > 1")), "p", 0)
    b.handle(LinkUp(), "n", 0)
    with pytest.raises(PenstockError, match="'n' is a neighbour, which says so in a Control"):
        b.handle(Subscribe("s", as_predicate("x > 1")), "n", 0)
    with pytest.raises(PenstockError, match="a broker is not sent Lost by itself"):
        b.handle(Lost("b", (0, 1), ()), "n", 0)


def test_clients_may_write_filters_as_text() -> None:
    b = broker()
    b.handle(LinkUp(client=True), "p", 0)
    b.handle(Advertise("a", "x >= 0"), "p", 0)  # type: ignore[arg-type]
    b.handle(Subscribe("s", "x > 1"), "p", 0)  # type: ignore[arg-type]
    (delivered,) = b.handle(published(1, x=3), "p", 0)
    assert isinstance(delivered, Deliver)
    assert isinstance(delivered.events, Publish)
    assert delivered.events.event == Event({"x": 3})
    with pytest.raises(PenstockError, match="expected"):
        b.handle(Subscribe("t", "x >"), "p", 0)  # type: ignore[arg-type]
    assert len(b.table) == 1


def test_a_filter_that_changes_in_place_leaves_no_gap() -> None:
    b = broker("simple", advertisements=False)
    b.handle(LinkUp(client=True), "q", 0)
    b.handle(LinkUp(), "n", 0)
    everything = as_predicate("true")
    b.handle(Sync((0, 1), 0, (Advertise("n/0.1", everything),), ()), "n", 0)
    b.handle(Subscribe("s", as_predicate("x > 1")), "q", 0)
    first, second = sent(b.handle(Subscribe("s", as_predicate("x > 2")), "q", 0))
    assert isinstance(first, Subscribe)
    assert isinstance(second, Unsubscribe)


def test_a_missing_number_is_noticed_and_all_is_said_again() -> None:
    b = broker(advertisements=False)
    b.handle(LinkUp(), "n", 0)
    b.handle(Sync((0, 1), 0, (), ()), "n", 0)
    wanted = Subscribe("k", as_predicate("x > 1"), frozenset({"b/0.1"}))
    assert b.handle(Control((0, 1), 2, (wanted,)), "n", 0) == [Send("n", Resync())]
    assert len(b.table) == 0
    # Asked once; what comes in the meantime is in what will be said.
    assert b.handle(Control((0, 1), 3, (wanted,)), "n", 0) == []
    assert b.handle(Alive((0, 1), 3), "n", 0) == [Send("n", Resync())]
    b.handle(Sync((0, 1), 3, (), (wanted,)), "n", 0)
    assert len(b.table) == 1
    # What was said before is old now, whenever it comes.
    b.handle(Control((0, 1), 1, (Unsubscribe("k"),)), "n", 0)
    b.handle(Sync((0, 1), 0, (), ()), "n", 0)
    assert len(b.table) == 1


def test_a_lease_that_runs_out_ends_what_it_was_for() -> None:
    b = broker(advertisements=False, lease=10.0)
    b.handle(LinkUp(), "n", 0)
    b.handle(Sync((0, 1), 0, (), (Subscribe("k", as_predicate("x > 1"), frozenset({"b/0.1"})),)), "n", 0)
    b.handle(Tick(), "", 5)
    b.handle(Alive((0, 1), 0), "n", 6)
    b.handle(Tick(), "", 15)
    assert len(b.table) == 1
    b.handle(Tick(), "", 17)
    assert len(b.table) == 0
    # Heard again, it is asked what it wants.
    assert b.handle(Alive((0, 1), 0), "n", 18) == [Send("n", Resync())]


def circle(scheme: str, *, advertisements: bool = True) -> Network:
    """Six brokers in a circle with a bridge, as in figure 1 of seed paper 004: 1-2-4-5-6-1, with 3 inside."""
    network = Network(scheme, advertisements=advertisements)
    for name in "123456":
        network.add_broker(name)
    for at, ends in enumerate(["12", "24", "45", "56", "16", "13", "34", "35"]):
        network.add_link(ends[0], ends[1], LinkModel(latency=0.01 + at / 1000))
    network.run()
    return network


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_in_a_circle_events_come_once_and_no_broker_gets_one_twice(scheme: str) -> None:
    network = circle(scheme)
    one, two = network.add_client("one", "1"), network.add_client("two", "6")
    sub = network.add_client("sub", "4")
    network.advertise(one, "a", as_predicate("x between 0 and 10"))
    network.advertise(two, "a", as_predicate("x between 5 and 15"))
    network.subscribe(sub, "s", as_predicate("x between 3 and 12"))
    network.run()
    got = []

    class Noting(Observer):
        def on_deliver(
            self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
        ) -> None:
            got.append((client.name, publish.event["x"]))

    network.observers.append(Noting())
    for x in (1, 4, 7):
        network.publish(one, Event({"x": x}))
    for x in (7, 12, 14):
        network.publish(two, Event({"x": x}))
    network.run()
    assert sorted(got) == [("sub", 4), ("sub", 7), ("sub", 7), ("sub", 12)]
    if scheme != "flooding":
        assert sum(broker.facts().duplicates for broker in network.running()) == 0


def test_each_advertisement_spans_a_tree_and_only_its_copies_are_dropped() -> None:
    network = circle("simple")
    one = network.add_client("one", "1")
    network.advertise(one, "a", as_predicate("x > 0"))
    network.run()
    ways = {name: tree_broker(network, name).trees.get("1/0.1") for name in network.nodes}
    assert all(branch is not None for branch in ways.values())
    assert {name: branch.way for name, branch in ways.items() if branch} == {
        "1": HERE,
        "2": "1",
        "3": "1",
        "4": "2",
        "5": "6",
        "6": "1",
    }


@pytest.mark.parametrize(("scheme", "matched"), [("simple", 1), ("identity", 1), ("covering", 3)])
def test_where_all_filters_are_known_an_event_is_matched_at_the_first_broker_only(
    scheme: str, matched: int
) -> None:
    network = circle(scheme)
    one, sub = network.add_client("one", "1"), network.add_client("sub", "4")
    network.advertise(one, "a", as_predicate("x > 0"))
    network.subscribe(sub, "s", as_predicate("x > 1"))
    network.run()
    network.publish(one, Event({"x": 5}))
    network.run()
    assert network.counts.delivered == 1
    assert sum(broker.facts().matched for broker in network.running()) == matched


def test_subscriptions_travel_only_towards_overlapping_advertisements() -> None:
    network = Network("simple")
    for name in "abc":
        network.add_broker(name)
    network.add_link("a", "b")
    network.add_link("b", "c")
    left, right, sub = (
        network.add_client("l", "a"),
        network.add_client("r", "c"),
        network.add_client("s", "b"),
    )
    network.advertise(left, "x", as_predicate("x < 10"))
    network.advertise(right, "x", as_predicate("x >= 10"))
    network.run()
    network.subscribe(sub, "s", as_predicate("x = 3"))
    network.run()
    assert [network.broker(name).facts().subscriptions for name in "abc"] == [1, 1, 0]
    network.unadvertise(left, "x")
    network.run()
    assert [network.broker(name).facts().subscriptions for name in "abc"] == [0, 1, 0]


def test_a_link_that_is_cut_is_gone_around() -> None:
    network = circle("covering")
    one, sub = network.add_client("one", "1"), network.add_client("sub", "6")
    network.advertise(one, "a", as_predicate("x > 0"))
    network.subscribe(sub, "s", as_predicate("x > 1"))
    network.run()
    network.cut("1", "6")
    network.run()
    network.publish(one, Event({"x": 5}))
    network.run()
    assert network.counts.delivered == 1
    network.cut("5", "6")
    network.run()
    network.publish(one, Event({"x": 5}))
    network.run()
    assert network.counts.delivered == 1
    network.heal("1", "6")
    network.run()
    network.publish(one, Event({"x": 5}))
    network.run()
    assert network.counts.delivered == 2


def test_a_link_said_to_be_up_twice_begins_anew() -> None:
    b = broker(advertisements=False)
    b.handle(LinkUp(), "n", 0)
    b.handle(Sync((0, 1), 0, (), (Subscribe("k", as_predicate("x > 1"), frozenset({"b/0.1"})),)), "n", 0)
    b.handle(LinkUp(), "n", 0)
    assert len(b.table) == 0
    b.handle(LinkDown(), "n", 0)
    b.handle(LinkDown(), "n", 0)


def rerouted(linger: float) -> tuple[Broker, Sequence[object]]:
    """A broker whose way to a tree led over n, and leads over m since time 10; and what it says about it."""
    b = broker(linger=linger)
    b.handle(LinkUp(client=True), "q", 0)
    for link in ("m", "n"):
        b.handle(LinkUp(), link, 0)
    tree = Advertise("t", as_predicate("true"), 0)
    b.handle(Sync((0, 1), 0, (tree,), ()), "n", 0)
    b.handle(Sync((0, 1), 0, (), ()), "m", 0)
    b.handle(Subscribe("s", as_predicate("x > 1")), "q", 0)
    return b, b.handle(Control((0, 1), 1, (Advertise("t", tree.filter, 1),)), "m", 10)


def said_to(link: str, effects: Iterable[object]) -> list[type]:
    return [type(body) for body in sent(e for e in effects if isinstance(e, Send) and e.link == link)]


def woken(b: Broker, now: float) -> list[Effect]:
    return b.handle(Woken(), "", now)


def test_events_are_asked_for_on_a_new_way_before_they_no_longer_are_on_the_old() -> None:
    b, effects = rerouted(linger=2)
    assert Subscribe in said_to("m", effects)
    assert Unsubscribe not in said_to("n", effects)
    assert said_to("n", woken(b, 11)) == []
    assert said_to("n", woken(b, 12)) == [Unsubscribe]
    assert woken(b, 99) == []


def test_a_broker_that_lingers_asks_to_be_woken_in_time() -> None:
    b, effects = rerouted(linger=2)
    assert [effect for effect in effects if isinstance(effect, Wake)] == [Wake(12)]
    # Once is enough; and again, should it be woken before.
    assert not [e for e in b.handle(Subscribe("t", as_predicate("x > 9")), "q", 11) if isinstance(e, Wake)]
    assert woken(b, 11) == [Wake(12)]
    assert not [effect for effect in woken(b, 12) if isinstance(effect, Wake)]


def test_a_broker_that_does_not_linger_leaves_the_old_way_at_once() -> None:
    b, effects = rerouted(linger=0)
    assert Unsubscribe in said_to("n", effects)
    assert not [effect for effect in effects if isinstance(effect, Wake)]
    assert woken(b, 99) == []


def test_a_way_that_is_taken_again_is_not_let_go_of() -> None:
    b, _effects = rerouted(linger=2)
    b.handle(Control((0, 1), 1, (Advertise("t", as_predicate("true"), 2),)), "n", 11)
    assert said_to("n", woken(b, 12)) == []
    assert said_to("m", woken(b, 13)) == [Unsubscribe]


def test_nothing_is_asked_on_any_way_for_a_tree_that_is_gone() -> None:
    b, _effects = rerouted(linger=2)
    effects = b.handle(Control((0, 1), 2, (Unadvertise("t"),)), "m", 11)
    assert Unsubscribe in said_to("m", effects)
    assert Unsubscribe in said_to("n", effects)
    assert woken(b, 99) == []


def test_a_neighbour_that_is_gone_is_not_lingered_with() -> None:
    b, _effects = rerouted(linger=2)
    b.handle(LinkDown(), "n", 11)
    assert woken(b, 99) == []
