"""Every scheme asks for what is wanted, for nothing that is not, and for as little as it promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import PenstockError
from penstock.filters.parsing import as_predicate
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers
from penstock.model.names import Key
from penstock.routing.offers import Offer, offer_covers
from penstock.routing.schemes.catalog import SCHEMES, scheme_named
from penstock.routing.schemes.merging import Merging
from penstock.routing.schemes.scheme import Name, Scheme, Source, Steps

ranges = st.builds(
    lambda low, width, y: as_predicate(
        f"x between {low} and {low + width}" + ("" if y is None else f" and y = {y}")
    ),
    st.integers(0, 12),
    st.integers(0, 8),
    st.none() | st.integers(0, 2),
)
disjunctions = st.builds(lambda a, b: as_predicate(f"({a}) or ({b})"), ranges, ranges)
filters = ranges | disjunctions | st.sampled_from([as_predicate("s like '%a'"), as_predicate("x is null")])
trees = st.frozensets(st.sampled_from("tuv"), min_size=1)
sources = st.builds(Source, st.sampled_from(["l1", "l2"]), st.integers(0, 5))


class Asking(RuleBasedStateMachine):
    """A scheme, what it has been told, and a neighbour that does what it is told."""

    @initialize(name=st.sampled_from(sorted(set(SCHEMES) - {"flooding"})))
    def begin(self, name: str) -> None:
        self.name = name
        self.scheme: Scheme = SCHEMES[name]()
        self.made: dict[Source, Offer] = {}
        self.filter_of: dict[Key, Predicate] = {}
        self.neighbour: dict[Name, Offer] = {}

    @rule(source=sources, predicate=filters, on=trees)
    def put(self, source: Source, predicate: Predicate, on: frozenset[str]) -> None:
        # A subscription keeps its filter as long as it lives.
        offer = Offer(self.filter_of.setdefault(source.key, predicate), on)
        self.follow(self.scheme.put(source, offer))
        self.made[source] = offer

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(sorted(self.made)))
        del self.made[source]
        self.follow(self.scheme.drop(source))
        if not any(key == source.key for _link, key in self.made):
            del self.filter_of[source.key]

    def follow(self, steps: Steps) -> None:
        for key, offer, replaces in steps.ask:
            self.neighbour[key] = offer
            for old in replaces:
                del self.neighbour[old]
        for key in steps.take_back:
            del self.neighbour[key]

    @invariant()
    def the_neighbour_knows_what_is_asked(self) -> None:
        if hasattr(self, "scheme"):
            assert self.neighbour == self.scheme.asked

    @invariant()
    def all_that_is_wanted_is_asked_for(self) -> None:
        for offer in getattr(self, "made", {}).values():
            for tree in offer.trees:
                assert any(
                    tree in a.trees and covers(a.filter, offer.filter) for a in self.scheme.asked.values()
                )

    @invariant()
    def nothing_is_asked_for_that_nobody_wants(self) -> None:
        for asked in getattr(self, "neighbour", {}).values():
            for tree in asked.trees:
                assert any(tree in o.trees and covers(asked.filter, o.filter) for o in self.made.values())

    @invariant()
    def no_more_is_asked_for_than_is_promised(self) -> None:
        if not hasattr(self, "scheme"):
            return
        asked = list(self.scheme.asked.values())
        if self.name == "simple":
            assert len(asked) == len({key for _link, key in self.made})
        elif self.name == "identity":
            assert {a.filter for a in asked} == {o.filter for o in self.made.values()}
        elif self.name in ("covering", "packing"):
            assert not any(offer_covers(a, b) for a in asked for b in asked if a != b)
        elif self.name == "merging":
            # Perfect: what is asked for is covered by what is wanted on that tree, taken together.
            for a in asked:
                for tree in a.trees:
                    wanted = [o.filter for o in self.made.values() if tree in o.trees]
                    union = Predicate([f for predicate in wanted for f in predicate.filters])
                    assert covers(union, a.filter)


TestAsking = pytest.mark.property(Asking.TestCase)


@pytest.mark.property
@given(st.lists(ranges, min_size=1, max_size=12, unique=True))
def test_lazy_asks_for_what_active_does_and_keeps_what_it_asked_for(wanted: list[Predicate]) -> None:
    lazy, active = SCHEMES["lazy"](), SCHEMES["covering"]()
    ever: set[Name] = set()
    for number, predicate in enumerate(wanted):
        for scheme in (lazy, active):
            scheme.put(Source("l", number), Offer(predicate, frozenset("t")))
        ever |= set(active.asked)
        assert set(lazy.asked) == ever


def test_what_is_uncovered_is_asked_for_before_what_covered_it_is_taken_back() -> None:
    scheme = SCHEMES["covering"]()
    tree = frozenset("t")
    general, special = as_predicate("x > 1"), as_predicate("x > 2")
    assert [a.key for a in scheme.put(Source("l", 1), Offer(special, tree)).ask] == [special]
    steps = scheme.put(Source("l", 2), Offer(general, tree))
    assert ([a.key for a in steps.ask], steps.take_back) == ([general], [special])
    steps = scheme.drop(Source("l", 2))
    assert ([a.key for a in steps.ask], steps.take_back) == ([special], [general])


def test_a_merger_takes_the_place_of_the_one_before_in_one_step() -> None:
    scheme = Merging()
    tree = frozenset("t")
    scheme.put(Source("l", 1), Offer(as_predicate("price between 50 and 100"), tree))
    steps = scheme.put(Source("l", 2), Offer(as_predicate("price between 90 and 120"), tree))
    (asked,) = steps.ask
    assert str(asked.offer.filter) == "price between 50 and 120"
    assert asked.replaces == (as_predicate("price between 50 and 100"),)
    assert steps.take_back == []


@pytest.mark.parametrize(("budget", "asked"), [(0.0, 2), (0.5, 1)])
def test_imperfect_mergers_stay_within_their_budget(budget: float, asked: int) -> None:
    scheme = Merging(budget=budget)
    for number, text in enumerate(
        ["x between 0 and 4 and y between 0 and 4", "x between 1 and 5 and y between 1 and 5"]
    ):
        scheme.put(Source("l", number), Offer(as_predicate(text), frozenset("t")))
    assert len(scheme.asked) == asked


def test_a_scheme_that_there_is_not_is_refused() -> None:
    with pytest.raises(PenstockError, match="no scheme 'magic'; there are flooding, simple"):
        scheme_named("magic")


def test_mergers_stay_small_however_many_filters_there_are() -> None:
    scheme, tree = Merging(), frozenset("t")
    for number in range(300):
        text = f"x >= {number} and x < {number + 1}"
        scheme.put(Source("l", number), Offer(as_predicate(text), tree))
    for number in range(0, 300, 2):
        scheme.drop(Source("l", number))
    assert len(scheme.asked) < 20
    sizes = [len(f.conditions["x"].cuts) for offer in scheme.asked.values() for f in offer.filter.filters]
    assert max(sizes) <= 128
    for number in range(1, 300, 2):
        wanted = as_predicate(f"x >= {number} and x < {number + 1}")
        assert any(covers(offer.filter, wanted) for offer in scheme.asked.values())
