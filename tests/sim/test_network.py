"""The simulated network: it carries out every effect, tells its observers, and runs any protocol."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from penstock.broker.clients import Client as Known
from penstock.broker.core import Core, Facts, Prospects
from penstock.broker.effects import Deliver, Effect, Wake
from penstock.broker.local import LinkLoad, LinkUp, Load, Woken
from penstock.broker.needs import Matching
from penstock.broker.protocols import PROTOCOLS, CoreSettings, Protocol, protocol_named
from penstock.errors import PenstockError
from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.sim.checkers.trees import tree_broker
from penstock.sim.clients import Client
from penstock.sim.clock import Clock
from penstock.sim.links import Direction, LinkModel
from penstock.sim.matching import SharedMatching
from penstock.sim.network import Network
from penstock.sim.observers import METHODS, Observer
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.messages import Events, Message, Publish, Resync


def line(length: int = 3, **settings: Any) -> Network:
    """Brokers a, b, c… in a row."""
    network = Network(**settings)
    names = "abcdefgh"[:length]
    for name in names:
        network.add_broker(name)
    for one, other in pairwise(names):
        network.add_link(one, other)
    return network


def with_clients(network: Network, home: str = "c") -> tuple[Client, Client]:
    """A publisher at a, and a subscriber."""
    pat, ann = network.add_client("pat", "a"), network.add_client("ann", home)
    network.advertise(pat, "prices", as_predicate("price >= 0"))
    network.subscribe(ann, "cheap", as_predicate("price < 10"))
    return pat, ann


# Protocols


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_events_come_where_they_are_wanted_whatever_brokers_run(protocol: str) -> None:
    network = line(protocol=protocol)
    pat, _ann = with_clients(network)
    network.run()
    for price in (5, 50, 7):
        network.publish(pat, Event({"price": price}))
    network.run()
    assert (network.counts.published, network.counts.delivered) == (3, 2)
    # What was not advertised is not for anybody.
    network.publish(pat, Event({"price": -1}))
    network.run()
    assert (network.counts.delivered, network.counts.refused) == (2, 1)


def test_a_protocol_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(PenstockError, match="no protocol 'magic'; there are trees, flood"):
        Network(protocol="magic")
    with pytest.raises(PenstockError, match="perhaps flood"):
        protocol_named("flod")


def test_flooding_nodes_know_no_trees_and_drop_what_came_before() -> None:
    network = line(3, protocol="flood")
    network.add_link("a", "c")
    pat, _ann = with_clients(network)
    network.publish(pat, Event({"price": 5}))
    network.run()
    assert network.counts.delivered == 1
    facts = [broker.facts() for broker in network.running()]
    assert [known.trees for known in facts] == [0, 0, 0]
    # b and c send it to each other.
    assert sum(known.duplicates for known in facts) == 2
    assert network.counts.carried == {"Publish": 4}
    with pytest.raises(PenstockError, match="runs flood, which has no trees"):
        tree_broker(network, "a")


def test_events_are_numbered_by_their_clients_for_each_advertisement() -> None:
    network = line(1)
    pat, _ann = with_clients(network, "a")
    network.advertise(pat, "rest", as_predicate("price < 0"))
    named = [network.publish(pat, Event({"price": price})) for price in (1, -1, 2, -2, 3)]
    assert [publish.name for publish in named if publish] == [
        ("pat/prices", 1),
        ("pat/rest", 1),
        ("pat/prices", 2),
        ("pat/rest", 2),
        ("pat/prices", 3),
    ]


# Observers


class Everything(Observer):
    """Counts all that it is told."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.delivered: list[tuple[str, str, tuple[Key, ...], bool]] = []
        self.published: list[tuple[str, tuple[str, int]]] = []

    def on_publish(self, client: Client, publish: Publish, now: float) -> None:
        self.told["on_publish"] += 1
        self.published.append((client.name, publish.name))

    def on_carry(self, a: str, b: str, events: Events, now: float) -> None:
        self.told["on_carry"] += 1

    def on_deliver(
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        self.told["on_deliver"] += 1
        self.delivered.append((client.name, publish.header.origin, keys, late))

    def on_repeat(self, client: Client, publish: Publish, now: float) -> None:
        self.told["on_repeat"] += 1

    def on_handle(self, broker: str, link: str, message: Message | Block, now: float) -> None:
        self.told["on_handle"] += 1

    def on_lose(self, a: str, b: str, message: Message | Block, now: float) -> None:
        self.told["on_lose"] += 1

    def on_fault(self, what: str, broker: str, link: str, about: dict[str, Any], now: float) -> None:
        self.told["on_fault"] += 1


class Deliveries(Observer):
    def __init__(self) -> None:
        self.times = 0

    def on_deliver(
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        self.times += 1


def test_observers_are_told_of_everything_and_only_what_they_ask_for() -> None:
    network = line()
    everything, deliveries = Everything(), Deliveries()
    network.observers.append(everything)
    network.observers.append(deliveries)
    assert list(network.observers) == [everything, deliveries]
    for name in METHODS:
        asked = [one for one in (everything, deliveries) if name in vars(type(one))]
        assert getattr(network.observers, name) == [getattr(one, name) for one in asked]
    pat, _ann = with_clients(network)
    network.run()
    network.publish(pat, Event({"price": 5}))
    network.run()
    assert everything.published == [("pat", ("pat/prices", 1))]
    assert everything.delivered == [("ann", "pat/prices", ("cheap",), False)]
    assert everything.told["on_carry"] == network.counts.carried["Publish"] == 2
    network.publish(pat, Event({"price": 6}))
    network.cut("a", "b")
    network.run()
    assert everything.told["on_fault"] == 1
    assert everything.told["on_lose"] == network.counts.lost > 0
    assert everything.told["on_handle"] > 0
    assert deliveries.times == 1
    network.observers.remove(deliveries)
    network.heal("a", "b")
    network.run()
    network.publish(pat, Event({"price": 7}))
    network.run()
    assert (everything.told["on_deliver"], deliveries.times) == (2, 1)


def test_a_client_knows_what_is_late_and_what_it_has_had() -> None:
    network = line(1)
    everything = Everything()
    network.observers.append(everything)
    pat, ann = with_clients(network, "a")
    for price in (1, 2, 3):
        network.publish(pat, Event({"price": price}))
    header = Header("t", "pat/prices")
    for number in (2, 5, 4, 4):
        network._published_at.setdefault("pat/prices", []).append(0.0)
        network._deliver(ann, Publish(Event({"price": 1}), header, number, None, ("cheap",)))
    assert [late for _client, _origin, _keys, late in everything.delivered] == [False] * 4 + [True]
    assert everything.told["on_repeat"] == network.counts.repeated == 2
    assert network.counts.late == 1


# Effects


class Asking:
    """A core that does what it is told to, and remembers what it was told."""

    hears_load = False

    def __init__(self, name: str, _matching: Matching, _settings: CoreSettings) -> None:
        self.name = name
        self.told: list[tuple[Message | Block, str, float]] = []
        self.effects: list[Effect] = []

    def handle(self, message: Message | Block, link: str, now: float) -> list[Effect]:
        self.told.append((message, link, now))
        effects, self.effects = self.effects, []
        return effects

    def facts(self) -> Facts:
        return Facts()

    def prospects(self) -> Prospects:
        return Prospects()

    def client(self, _link: str) -> Known:
        return Known()

    def close(self) -> None:
        pass


class Listening(Asking):
    hears_load = True


def running(monkeypatch: pytest.MonkeyPatch, make: Callable[..., Core], **settings: Any) -> Network:
    """Two brokers whose cores are made so."""
    monkeypatch.setitem(PROTOCOLS, "test", Protocol("test", make, (Resync,)))
    return line(2, protocol="test", **settings)


def core(network: Network, name: str = "a") -> Asking:
    found = network.broker(name)
    assert isinstance(found, Asking)
    return found


def test_a_core_is_woken_when_it_asks_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    network = running(monkeypatch, Asking)
    core(network).effects = [Wake(3.0), Wake(2.0)]
    network.add_client("ann", "a")
    network.run()
    assert [(link, now) for message, link, now in core(network).told if isinstance(message, Woken)] == [
        ("", 2.0),
        ("", 3.0),
    ]


def test_a_core_is_not_woken_for_an_earlier_life_but_after_having_been_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for with_state in (True, False):
        network = running(monkeypatch, Asking)
        core(network).effects = [Wake(2.0)]
        network.add_client("ann", "a")
        network.crash("a")
        network.run(5.0)
        network.restart("a", with_state=with_state)
        network.run()
        woken = [now for message, _link, now in core(network).told if isinstance(message, Woken)]
        assert woken == ([5.0] if with_state else [])


@pytest.mark.parametrize("protocol", ["trees", "flood"])
def test_brokers_that_keep_events_send_them_again_to_those_who_were_cut_off(protocol: str) -> None:
    network = line(protocol=protocol, keep=60.0)
    publisher, subscriber = with_clients(network)
    network.run(network.now + 1)
    network.cut("b", "c")
    network.publish(publisher, Event({"price": 1}))
    network.run(network.now + 1)
    assert network.counts.delivered == 0
    network.heal("b", "c")
    network.run(network.now + 1)
    assert network.counts.delivered == 1
    network.publish(publisher, Event({"price": 2}))
    network.run(network.now + 1)
    assert (network.counts.delivered, network.counts.late, network.counts.missed) == (2, 0, 0)
    assert subscriber.subscriptions


def test_brokers_that_linger_are_woken_to_let_go_of_what_they_left() -> None:
    network = line(4, scheme="simple", linger=0.5)
    network.add_broker("e")
    for one, other in ("ad", "be", "ce"):
        network.add_link(one, other)
    with_clients(network, "d")
    network.run()
    network.cut("a", "d")
    network.run()
    network.heal("a", "d")
    network.run()
    d = tree_broker(network, "d")
    ((_tree, branch),) = d.trees.items()
    assert branch.way == "c"
    # e asks for a new way, and d has a shorter one than it had.
    network.cut("b", "e")
    began = network.now
    network.run(began + 0.2)
    ((tree, branch),) = d.trees.items()
    assert (branch.way, d.trees.asked_through("c")) == ("a", frozenset({tree}))
    network.run()
    assert d.trees.asked_through("c") == frozenset()
    assert network.now >= began + 0.5


def test_a_core_that_asks_for_it_is_told_how_busy_its_links_are(monkeypatch: pytest.MonkeyPatch) -> None:
    network = running(monkeypatch, Listening)
    network.run(1.1)
    loads = [(message, now) for message, _link, now in core(network).told if isinstance(message, Load)]
    assert [now for _load, now in loads] == [0.25, 0.5, 0.75, 1.0]
    assert loads[0][0].links == (LinkLoad("b", 0, 0.0, 0.01),)
    # Nobody waits for this to end.
    network.run()
    network.cut("a", "b")
    network.run(network.now + 0.25)
    last = core(network).told[-1][0]
    assert last == Load(())


def test_nobody_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    network = running(monkeypatch, Asking)
    network.run(2.0)
    assert {type(message) for message, _link, _now in core(network).told} == {LinkUp}


def test_the_load_of_a_link_is_what_waits_and_what_has_left() -> None:
    direction = Direction("b", "a", LinkModel(latency=0.1, bandwidth=100.0), measured=True)
    size = Resync().size()
    for _ in range(50):
        direction.arrivals(Resync(), 0.0, Network().random)
    at_once = direction.load(0.0, 1.0)
    assert (at_once.link, at_once.queue, at_once.rate) == ("b", 50 * size, 0.0)
    assert at_once.delay == pytest.approx(0.1 + 50 * size / 100)
    later = direction.load(1.0, 1.0)
    assert (later.queue, later.rate) == (50 * size - 100, 100.0)
    free = Direction("b", "a", LinkModel(latency=0.1), measured=True)
    free.arrivals(Resync(), 0.0, Network().random)
    assert free.load(0.5, 0.5) == LinkLoad("b", 0, size / 0.5, 0.1)


def test_blocks_are_delivered_event_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    network = running(monkeypatch, Asking, advertisements=False)
    everything = Everything()
    network.observers.append(everything)
    ann, pat = network.add_client("ann", "a"), network.add_client("pat", "a")
    for price in (1, 2):
        network.publish(pat, Event({"price": price}))
    events = [encode_event(Event({"price": price})) for price in (1, 2)]
    block = Block.of(Header("t", "pat/a"), [1, 2], events)
    block = block.with_keys(np.array([7, 8, 9]), np.array([0, 1, 3]))
    core(network).effects = [Deliver("ann", block)]
    network.subscribe(ann, 7, as_predicate("true"))
    assert everything.delivered == [("ann", "pat/a", (7,), False), ("ann", "pat/a", (8, 9), False)]
    assert network.counts.delivered == 2


# Below


def test_what_happens_at_the_same_time_happens_in_the_order_in_which_it_was_caused() -> None:
    clock = Clock()
    order: list[object] = []
    for number in range(6):
        if number % 2:
            clock.at(1.0, order.append, number)
        else:
            clock.after(1.0, order.append, number)
    clock.after(0.5, order.append, "first")
    clock.at(2.0, order.append, "last")
    clock.every(0.75, lambda: order.append("again"))
    clock.run(1.5)
    assert order == ["first", "again", 0, 1, 2, 3, 4, 5, "again"]
    clock.run()
    assert order[9:] == ["last"]
    assert clock.now == 2.0


def test_the_shared_matcher_finds_the_same_in_blocks_as_one_by_one() -> None:
    matching = SharedMatching()
    predicates = [as_predicate(f"x between {low} and {low + 20}") for low in range(0, 500, 2)]
    for some in (predicates[:100], predicates[100:]):
        for predicate in some:
            matching.add(predicate)
        matching.remove(some[3])
        events = [Event({"x": x}) for x in (0, 7, 123, 250, 511)]
        block = Block.of(Header("t", "o"), range(1, 6), [encode_event(event) for event in events])
        found = matching.match_block(block)
        for place, event in enumerate(events):
            numbers = found.filters[found.offsets[place] : found.offsets[place + 1]].tolist()
            assert {found.known[number] for number in numbers} == set(matching.match(event))
        assert matching.holds(predicates[0], block).tolist() == [True, True, False, False, False]
        assert matching.holds(predicates[0], Publish(events[0])) is True
