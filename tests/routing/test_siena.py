"""Siena's subscriptions: against equation (1) by brute force, and in a network where events must arrive."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.routing.siena import Forwarding, SienaTable
from routing_cases import COMPLETE, RANGES, covers, strictly_covers

NEIGHBORS = frozenset({1, 2, 3})
INTERFACES = st.integers(1, 5)
"""4 and 5 are local clients: they subscribe, but nothing is forwarded to them."""

FEWER = settings(max_examples=max(50, settings().max_examples // 3), stateful_step_count=20)


class Model:
    """Who wants what, and equation (1) to the letter."""

    def __init__(self) -> None:
        self.subscribers: dict[Predicate, set[int]] = {}

    def find(self, item: Predicate) -> Predicate:
        """The representation under which an identical item stands."""
        return next((f for f in self.subscribers if covers(f, item) and covers(item, f)), item)

    def forwards(self, item: Predicate) -> frozenset[int]:
        by = self.subscribers[item]
        result = NEIGHBORS - by if len(by) == 1 else NEIGHBORS
        for other in self.subscribers:
            if strictly_covers(other, item):
                result -= self.forwards(other)
        return result

    def all_forwards(self) -> dict[Predicate, frozenset[int]]:
        return {item: self.forwards(item) for item in self.subscribers}

    def subscribe(self, item: Predicate, interface: int) -> None:
        item = self.find(item)
        if any(interface in by and covers(f, item) for f, by in self.subscribers.items()):
            return
        self.withdraw(item, interface)
        self.subscribers.setdefault(item, set()).add(interface)

    def withdraw(self, item: Predicate, interface: int) -> None:
        for f in list(self.subscribers):
            if covers(item, f):
                self.subscribers[f].discard(interface)
                if not self.subscribers[f]:
                    del self.subscribers[f]


class Subscriptions(RuleBasedStateMachine):
    """Any interleaving of subscriptions and unsubscriptions."""

    def __init__(self) -> None:
        super().__init__()
        self.table: SienaTable[Predicate, int] = SienaTable()
        self.model = Model()

    @rule(item=COMPLETE, interface=INTERFACES)
    def subscribe(self, item: Predicate, interface: int) -> None:
        before = self.model.all_forwards()
        made = self.table.subscribe(item, interface, NEIGHBORS)
        known = self.model.find(item)
        self.model.subscribe(item, interface)
        after = self.model.all_forwards()
        assert made.unsubscriptions == {}
        new = after.get(known, frozenset()) - before.get(known, frozenset())
        assert made.subscriptions == dict.fromkeys(new, (known,))
        # Nothing else has to go anywhere new.
        assert all(after[f] <= before[f] for f in after if f != known)

    @rule(item=COMPLETE, interface=INTERFACES)
    def unsubscribe(self, item: Predicate, interface: int) -> None:
        before = self.model.all_forwards()
        made = self.table.unsubscribe(item, interface, NEIGHBORS)
        self.model.withdraw(item, interface)
        after = self.model.all_forwards()
        nowhere: frozenset[int] = frozenset()
        for neighbor in NEIGHBORS:
            gone = {f for f in before if neighbor in before[f] - after.get(f, nowhere)}
            come = {f for f in after if neighbor in after[f] - before.get(f, nowhere)}
            assert set(made.unsubscriptions.get(neighbor, ())) == gone
            assert set(made.subscriptions.get(neighbor, ())) == come

    @rule(data=st.data(), interface=INTERFACES)
    def unsubscribe_known(self, data: st.DataObject, interface: int) -> None:
        known = [f for f, by in self.model.subscribers.items() if interface in by]
        if known:
            self.unsubscribe(data.draw(st.sampled_from(known)), interface)

    @invariant()
    def equal(self) -> None:
        assert {f: self.table.subscribers(f) for f in self.table} == self.model.subscribers
        assert {f: self.table.forwards(f, NEIGHBORS) for f in self.table} == self.model.all_forwards()


@pytest.mark.property
def test_any_subscriptions_are_forwarded_by_equation_1() -> None:
    run_state_machine_as_test(Subscriptions, settings=FEWER)


class Network:
    """Routers in a tree; each has one client, whose interface is its own number, negative."""

    def __init__(self, parents: list[int]) -> None:
        size = len(parents) + 1
        self.neighbors: list[set[int]] = [set() for _ in range(size)]
        for child, parent in enumerate(parents, 1):
            self.neighbors[child].add(parent % child)
            self.neighbors[parent % child].add(child)
        self.tables: list[SienaTable[Predicate, int]] = [SienaTable() for _ in range(size)]

    def send(self, router: int, item: Predicate, *, wanted: bool) -> None:
        """A client's subscription or unsubscription, carried on until nothing is left to forward."""
        queue = deque([(router, -1 - router, item, wanted)])
        while queue:
            at, interface, item, wanted = queue.popleft()
            handle = self.tables[at].subscribe if wanted else self.tables[at].unsubscribe
            made: Forwarding[Predicate, int] = handle(item, interface, self.neighbors[at])
            for sort, to_send in ((False, made.unsubscriptions), (True, made.subscriptions)):
                queue += [(to, at, f, sort) for to, items in to_send.items() for f in items]

    def publish(self, router: int, event: dict[str, int]) -> set[int]:
        """The clients that an event reaches."""
        reached = set()
        queue = [(router, router)]
        while queue:
            at, source = queue.pop()
            table = self.tables[at]
            for interface in {i for f in table if f.matches(event) for i in table.subscribers(f)}:
                if interface < 0:
                    reached.add(-1 - interface)
                elif interface != source:
                    queue.append((interface, at))
        return reached


@pytest.mark.property
@given(
    st.lists(st.integers(0, 10), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), RANGES), max_size=25),
)
def test_in_a_network_every_event_reaches_those_who_want_it_and_no_others(
    parents: list[int], requests: list[tuple[int, bool, Predicate]]
) -> None:
    network = Network(parents)
    wanted: dict[int, list[Predicate]] = {}
    for client, subscribing, item in requests:
        client %= len(network.tables)
        held = wanted.setdefault(client, [])
        if subscribing:
            held.append(item)
        elif held:
            # Most often what is held, so that something goes.
            item = held[len(held) // 2] if len(held) & 1 else item
            held[:] = [f for f in held if not covers(item, f)]
        network.send(client, item, wanted=subscribing)
    for x in range(0, 9, 2):
        for y in range(0, 9, 2):
            event = {"x": x, "y": y}
            right = {client for client, held in wanted.items() if any(f.matches(event) for f in held)}
            for publisher in range(len(network.tables)):
                assert network.publish(publisher, event) == right


def test_a_filter_that_comes_again_goes_back_to_where_it_came_from_first() -> None:
    table: SienaTable[Predicate, int] = SienaTable()
    item = parse("x > 5")
    assert table.subscribe(item, 1, NEIGHBORS) == ({}, {2: (item,), 3: (item,)})
    assert table.subscribe(item, 2, NEIGHBORS) == ({}, {1: (item,)})
    assert table.subscribe(item, 3, NEIGHBORS) == ({}, {})


def test_an_unsubscription_uncovers() -> None:
    table: SienaTable[Predicate, int] = SienaTable()
    wide, narrow = parse("x > 5"), parse("x > 6")
    table.subscribe(wide, 1, NEIGHBORS)
    assert table.subscribe(narrow, 2, NEIGHBORS) == ({}, {1: (narrow,)})
    assert table.unsubscribe(wide, 1, NEIGHBORS) == ({2: (wide,), 3: (wide,)}, {3: (narrow,)})
    assert table.subscribe(narrow, 1, NEIGHBORS) == ({}, {2: (narrow,)})
    # A filter that nobody subscribed to cancels all that it covers.
    assert table.unsubscribe(parse("x > 0"), 2, NEIGHBORS) == ({1: (narrow,)}, {})


def test_an_item_that_is_added_is_the_routers_own() -> None:
    table: SienaTable[Predicate, int] = SienaTable()
    wide, narrow = parse("x > 5"), parse("x > 6")
    table.add(wide)
    assert table.forwards(wide, NEIGHBORS) == NEIGHBORS
    assert table.subscribe(narrow, 1, NEIGHBORS) == ({}, {})
