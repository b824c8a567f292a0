"""Forests are forests, maximal and sibling-pure, after any sequence of changes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from penstock.errors import UnknownSubscriptionError
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.routing import bag
from penstock.routing.forest import Forest, PosetDerivedForest
from penstock.routing.interface_forest import InterfaceForest
from penstock.routing.poset import FiltersPoset
from penstock.routing.shape import loose_shape_of
from penstock.routing.table import Change, CoveringTable
from penstock.workloads import range_filters
from routing_cases import ANY, RANGES, covers

FEWER = settings(max_examples=max(50, settings().max_examples // 3), stateful_step_count=20)
PREDICATES = st.one_of(RANGES, RANGES, ANY)
INTERFACES = st.integers(1, 4)


def assert_sound(forest: Forest[Predicate], items: set[Predicate]) -> None:
    """Every parent covers its child, siblings are unrelated, nothing is lost."""
    assert set(forest) == items
    roots = forest.roots()
    families = [roots, *(forest.children(item) for item in items)]
    assert sorted(map(str, items)) == sorted(str(child) for family in families for child in family)
    for item in items:
        parent = forest.parent(item)
        assert (parent is None) is (item in roots)
        if parent is not None:
            assert covers(parent, item)
            assert item in forest.children(parent)
    for siblings in families:
        assert not any(covers(a, b) for a in siblings for b in siblings if a is not b)


def assert_roots(roots: set[Predicate], items: set[Predicate]) -> None:
    """The roots cover all, where covering is complete; that none covers another is asserted of siblings."""
    for item in items:
        assert item in roots or any(covers(other, item) for other in items if other is not item)


class ForestMachine(RuleBasedStateMachine):
    """What all machines do: follow the roots."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(bag, "SMALL", 2)
        self.known_roots: set[Predicate] = set()

    def teardown(self) -> None:
        self.patch.undo()

    def follow(self, change: Change[Predicate]) -> None:
        risen, fallen = set(change.risen), set(change.fallen)
        assert not risen & fallen
        assert fallen <= self.known_roots
        assert not risen & self.known_roots
        self.known_roots = (self.known_roots - fallen) | risen


class Changes(ForestMachine):
    """Any interleaving of adds and removes."""

    def __init__(self) -> None:
        super().__init__()
        self.forest: PosetDerivedForest[Predicate] = PosetDerivedForest()
        self.held: dict[Predicate, int] = {}

    @rule(items=st.lists(PREDICATES, min_size=1, max_size=5))
    def add(self, items: list[Predicate]) -> None:
        for item in items:
            self.follow(self.forest.add(item))
            self.held[item] = self.held.get(item, 0) + 1

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.held:
            item = data.draw(st.sampled_from(list(self.held)))
            self.follow(self.forest.remove(item))
            self.held[item] -= 1
            if not self.held[item]:
                del self.held[item]

    @invariant()
    def sound(self) -> None:
        assert_sound(self.forest, set(self.held))
        assert_roots(self.known_roots, set(self.held))
        assert self.known_roots == set(self.forest.roots())


@pytest.mark.property
def test_any_changes_leave_a_maximal_sibling_pure_forest() -> None:
    run_state_machine_as_test(Changes, settings=FEWER)


class InterfaceChanges(ForestMachine):
    """Any interleaving of subscriptions and unsubscriptions."""

    balanced = False
    non_redundant = False

    def __init__(self) -> None:
        super().__init__()
        self.forest: InterfaceForest[Predicate, int] = InterfaceForest(
            balanced=self.balanced, non_redundant=self.non_redundant
        )
        self.wanted: dict[int, set[Predicate]] = {}

    @rule(items=st.lists(RANGES, min_size=1, max_size=5), interface=INTERFACES)
    def subscribe(self, items: list[Predicate], interface: int) -> None:
        for item in items:
            self.follow(self.forest.subscribe(item, interface))
            self.wanted.setdefault(interface, set()).add(item)

    @rule(item=RANGES, interface=INTERFACES)
    def unsubscribe(self, item: Predicate, interface: int) -> None:
        self.follow(self.forest.unsubscribe(item, interface))
        wanted = self.wanted.get(interface, set())
        self.wanted[interface] = {other for other in wanted if not covers(item, other)}

    @rule(data=st.data(), interface=INTERFACES)
    def unsubscribe_known(self, data: st.DataObject, interface: int) -> None:
        if self.wanted.get(interface):
            self.unsubscribe(data.draw(st.sampled_from(sorted(self.wanted[interface], key=str))), interface)

    @invariant()
    def sound(self) -> None:
        items = set(self.forest)
        assert_sound(self.forest, items)
        assert_roots(self.known_roots, items)
        assert self.known_roots == set(self.forest.roots())

    @invariant()
    def every_interface_has_what_it_wants(self) -> None:
        """What is there covers what was wanted, and is itself wanted."""
        pairs = {(item, i) for item in self.forest for i in self.forest.interfaces(item)}
        assert all(item in self.wanted.get(i, ()) for item, i in pairs)
        for i, wanted in self.wanted.items():
            there = [item for item, j in pairs if i == j]
            assert all(any(covers(item, other) for item in there) for other in wanted)

    @invariant()
    def the_index_is_right(self) -> None:
        for item in self.forest:
            counted = dict.fromkeys(self.forest.interfaces(item), 1)
            for child in self.forest.children(item):
                for i, number in self.forest.interfaces_within(child).items():
                    counted[i] = counted.get(i, 0) + number
            assert self.forest.interfaces_within(item) == counted
            assert self.forest.interfaces(item)


class Balanced(InterfaceChanges):
    balanced = True


class NonRedundant(InterfaceChanges):
    non_redundant = True

    @invariant()
    def nothing_is_redundant(self) -> None:
        for item in self.forest:
            for i in self.forest.interfaces(item):
                others = [f for f in self.forest if i in self.forest.interfaces(f) and f != item]
                assert not any(covers(other, item) for other in others)


class Both(NonRedundant):
    balanced = True


@pytest.mark.property
@pytest.mark.parametrize("machine", [InterfaceChanges, Balanced, NonRedundant, Both])
def test_any_subscriptions_leave_a_sound_forest(machine: type[InterfaceChanges]) -> None:
    run_state_machine_as_test(machine, settings=FEWER)


def test_of_two_parents_a_balanced_forest_takes_the_one_with_the_same_interface() -> None:
    for first, second in ((1, 2), (2, 1)):
        forest: InterfaceForest[Predicate, int] = InterfaceForest(balanced=True)
        left, right, inner = parse("x < 6"), parse("x > 4"), parse("x = 5")
        below_left, below_right = parse("x < 1"), parse("x > 9")
        forest.subscribe(left, 8)
        forest.subscribe(right, 9)
        forest.subscribe(below_left, first)
        forest.subscribe(below_right, second)
        forest.subscribe(inner, 1)
        assert forest.parent(inner) == (left if first == 1 else right)


@pytest.mark.parametrize("distribution", range_filters.DISTRIBUTIONS)
def test_forest_and_poset_have_the_same_roots_and_few_tests(
    distribution: range_filters.Distribution,
) -> None:
    made = list(dict.fromkeys(range_filters.as_predicates(range_filters.filters(2000, 3, distribution))))
    forest: PosetDerivedForest[Predicate] = PosetDerivedForest()
    tested: PosetDerivedForest[Predicate] = PosetDerivedForest(shape=loose_shape_of)
    poset: FiltersPoset[Predicate, int] = FiltersPoset()
    tables: list[CoveringTable[Predicate]] = [forest, tested, poset]
    for item in made:
        first = [set(changed) for changed in tables[0].add(item)]
        assert all([set(changed) for changed in table.add(item)] == first for table in tables[1:])
    for item in made[::2]:
        first = [set(changed) for changed in tables[0].remove(item)]
        assert all([set(changed) for changed in table.remove(item)] == first for table in tables[1:])
    assert forest.roots() == tested.roots() == poset.roots()
    assert forest.tests == poset.tests == 0
    assert forest.covering.decided == tested.tests < 0.05 * tested.covering.ruled_out


def test_a_subtree_that_moves_takes_in_what_its_top_covers() -> None:
    forest: PosetDerivedForest[Predicate] = PosetDerivedForest()
    first, left, right = parse("x > 90"), parse("x between 0 and 10"), parse("x between 5 and 20")
    top, inner, innermost = parse("x between 6 and 9"), parse("x between 7 and 9"), parse("x between 7 and 8")
    for item in (first, left, top, inner, right):
        forest.add(item)
    # Which parent a filter gets depends on the order of siblings: this makes it the right one.
    forest.remove(first)
    forest.add(innermost)
    assert [forest.parent(item) for item in (top, inner, innermost)] == [left, top, right]
    forest.remove(left)
    assert [forest.parent(item) for item in (top, inner, innermost)] == [right, top, inner]


def test_a_long_chain_needs_no_recursion() -> None:
    forest: PosetDerivedForest[Predicate] = PosetDerivedForest()
    chain = [parse(f"x < {n}") for n in range(2000)]
    for item in chain:
        forest.add(item)
    assert (forest.depth(), forest.roots()) == (2000, [chain[-1]])
    assert forest.remove(chain[-1]) == ((chain[-2],), (chain[-1],))


def test_what_is_not_there_cannot_be_removed() -> None:
    forest: PosetDerivedForest[Predicate] = PosetDerivedForest()
    with pytest.raises(UnknownSubscriptionError, match="x > 6"):
        forest.remove(parse("x > 6"))
    with pytest.raises(UnknownSubscriptionError, match="x > 6"):
        forest.children(parse("x > 6"))


def test_what_is_added_twice_is_removed_twice() -> None:
    forest: PosetDerivedForest[Predicate] = PosetDerivedForest()
    item = parse("x > 6")
    assert [forest.add(item), forest.add(item)] == [((item,), ()), ((), ())]
    assert [forest.remove(item), forest.remove(item)] == [((), ()), ((), (item,))]
