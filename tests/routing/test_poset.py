"""The filters poset equals brute force after any sequence of changes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from penstock.errors import UnknownSubscriptionError
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.routing import bag
from penstock.routing.poset import FiltersPoset
from penstock.routing.shape import loose_shape_of, shape_of
from penstock.workloads import range_filters
from routing_cases import ANY, COMPLETE, RANGES, classes, immediate, is_root

Poset = FiltersPoset[Predicate, int]


class Changes(RuleBasedStateMachine):
    """Any interleaving of adds and removes."""

    predicates = COMPLETE
    shape = staticmethod(shape_of)
    small = 2

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        # So that a few entries are compared as many are.
        self.patch.setattr(bag, "SMALL", self.small)
        self.poset = Poset(shape=self.shape)
        self.held: dict[Predicate, int] = {}
        self.roots: set[Predicate] = set()

    def teardown(self) -> None:
        self.patch.undo()

    def follow(self, risen: tuple[Predicate, ...], fallen: tuple[Predicate, ...]) -> None:
        assert not set(risen) & set(fallen)
        assert set(fallen) <= self.roots
        assert not set(risen) & self.roots
        self.roots = (self.roots - set(fallen)) | set(risen)

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        for item in data.draw(st.lists(self.predicates, min_size=1, max_size=4)):
            self.follow(*self.poset.add(item))
            self.held[item] = self.held.get(item, 0) + 1

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if not self.held:
            return
        item = data.draw(st.sampled_from(list(self.held)))
        self.follow(*self.poset.remove(item))
        self.held[item] -= 1
        if not self.held[item]:
            del self.held[item]

    @invariant()
    def roots_are_followed(self) -> None:
        assert set(self.poset.roots()) == self.roots
        assert self.roots <= set(self.held)

    @invariant()
    def links_are_right(self) -> None:
        together = classes(self.held)
        assert len(self.poset) == len(together)
        shown = {item: self.poset.entry(item).item for item in self.held}
        assert all(len({shown[item] for item in group}) == 1 for group in together)
        items = [shown[group[0]] for group in together]
        assert set(self.poset) == set(items)
        assert {item for item in items if is_root(item, items)} == self.roots
        for item in items:
            above = {f for f in items if immediate(f, item, items)}
            below = {g for g in items if immediate(item, g, items)}
            assert set(self.poset.immediate_predecessors(item)) == above
            assert set(self.poset.immediate_successors(item)) == below


class RangeChanges(Changes):
    predicates = RANGES


class LooseChanges(Changes):
    """Shapes that are never exact: every cover is tested."""

    predicates = RANGES
    shape = staticmethod(loose_shape_of)
    small = bag.SMALL


FEWER = settings(max_examples=max(50, settings().max_examples // 5), stateful_step_count=15)
"""Brute force takes the cube of the number of items."""


@pytest.mark.property
@pytest.mark.parametrize("machine", [Changes, RangeChanges, LooseChanges])
def test_any_changes_leave_the_poset_equal_to_brute_force(machine: type[Changes]) -> None:
    run_state_machine_as_test(machine, settings=FEWER)


class PatternChanges(Changes):
    """Where covering is only sound, links may be missing, but no root is lost."""

    predicates = ANY

    @invariant()
    def links_are_right(self) -> None:
        entries = list(self.poset.entries())
        for entry in entries:
            assert all(entry in p.successors for p in entry.predecessors)
            assert all(entry in s.predecessors for s in entry.successors)
        assert {e.item for e in entries if not e.predecessors} == self.roots
        assert bool(self.roots) is bool(self.held)
        assert self.poset.depth() <= len(entries)


@pytest.mark.property
def test_with_patterns_no_root_is_lost() -> None:
    run_state_machine_as_test(PatternChanges, settings=FEWER)


@pytest.mark.parametrize("distribution", range_filters.DISTRIBUTIONS)
def test_many_range_filters(distribution: range_filters.Distribution) -> None:
    made = range_filters.as_predicates(range_filters.filters(300, 2, distribution))
    quick, slow = Poset(), Poset(shape=loose_shape_of)
    for poset in (quick, slow):
        for item in made:
            poset.add(item)
        for item in made[::3]:
            poset.remove(item)
    assert quick.roots() == slow.roots()
    assert quick.depth() == slow.depth()
    for item in set(made) - set(made[::3]):
        assert quick.immediate_predecessors(item) == slow.immediate_predecessors(item)
    assert quick.tests == 0
    assert 0 < slow.tests < 0.1 * (slow.tests + slow.covering.ruled_out)


def test_identical_items_share_an_entry_and_hand_it_over() -> None:
    one = parse("(x < 5 and y < 9) or (x < 9 and y < 5)")
    other = parse("(x < 5 and y >= 5 and y < 9) or (x < 9 and y < 5)")
    assert one != other
    poset = Poset()
    assert poset.add(one) == ((one,), ())
    assert poset.add(other) == ((), ())
    assert (len(poset), poset.roots()) == (1, [one])
    assert poset.remove(one) == ((other,), (one,))
    assert one not in poset
    assert poset.remove(other) == ((), (other,))
    assert len(poset) == 0


def test_what_is_not_there_cannot_be_removed() -> None:
    poset = Poset()
    poset.add(parse("x > 5"))
    with pytest.raises(UnknownSubscriptionError, match="x > 6"):
        poset.remove(parse("x > 6"))


def test_items_need_not_be_predicates() -> None:
    poset: FiltersPoset[int, str] = FiltersPoset(
        covers=lambda a, b: b % a == 0, shape=lambda _number: loose_shape_of(parse("true"))
    )
    for number in (12, 2, 3, 4, 6, 24):
        poset.add(number)
    assert poset.roots() == [2, 3]
    assert poset.immediate_predecessors(12) == [4, 6]
    poset.remove(6)
    assert poset.immediate_predecessors(12) == [3, 4]
    assert poset.depth() == 4
