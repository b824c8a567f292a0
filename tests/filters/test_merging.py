"""Merging: perfect is exactly the union, imperfect no less and not much more."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import grid, holds
from penstock import Event, Histogram, PenstockError, Time, ValueCounts, covers, identical, merge, parse
from penstock.filters.constraint import value_set
from penstock.filters.expression import Expression, Or, normalise
from penstock.filters.valuesets import ABSENT, EXISTS
from strategies import NUMBERS, disjunctions, mixed, plain_constraints

SEVERAL = st.lists(mixed(complete=False), min_size=1, max_size=3)


@pytest.mark.property
@given(SEVERAL)
def test_a_merge_without_budget_is_exactly_the_union(parts: list[Expression]) -> None:
    merged = merge([normalise(part) for part in parts])
    assert (merged.perfect, merged.excess) == (True, 0.0)
    for event in grid(*parts):
        assert merged.predicate.matches(Event(event)) is holds(Or(parts), event)


@pytest.mark.property
@given(SEVERAL, st.floats(0, 1))
def test_a_merge_within_a_budget_loses_nothing_and_says_whether_it_adds(
    parts: list[Expression], budget: float
) -> None:
    merged = merge([normalise(part) for part in parts], budget=budget)
    assert 0 <= merged.excess <= budget + 1e-9
    for event in grid(*parts):
        matched, wanted = merged.predicate.matches(Event(event)), holds(Or(parts), event)
        assert matched or not wanted
        assert not (merged.perfect and matched and not wanted)


@pytest.mark.property
@given(st.lists(disjunctions(plain_constraints()), min_size=1, max_size=3))
def test_what_is_called_imperfect_lets_more_through(parts: list[Expression]) -> None:
    merged = merge([normalise(part) for part in parts], budget=1.0)
    if not merged.perfect:
        events = list(grid(*parts))
        assert any(merged.predicate.matches(Event(e)) and not holds(Or(parts), e) for e in events)


PERFECT = [
    # Intervals that touch or overlap, sets that unite, one that covers the other, differing in one.
    (["price between 50 and 100", "price between 90 and 120"], "price between 50 and 120"),
    (["x < 5 and y = 1", "x >= 5 and x <= 9 and y = 1"], "x <= 9 and y = 1"),
    (["x in (1, 2)", "x in (2, 3)", "x = 9"], "x in (1, 2, 3, 9)"),
    (["x > 1", "x > 5 and y = 2"], "x > 1"),
    (["s like 'a%'", "s like 'ab%'", "s = 'a'"], "s like 'a%'"),
    (["x is null", "x is not null and y = 1", "x is not null"], "true"),
    (["b = true", "b = false"], "b in (false, true)"),
    ([f"x = {i} and y = {i % 2}" for i in range(6)], "x in (0, 2, 4) and y = 0 or x in (1, 3, 5) and y = 1"),
    (
        ["a = 1 and b = 1", "a = 1 and b = 2", "a = 2 and b = 1", "a = 2 and b = 2"],
        "a in (1, 2) and b in (1, 2)",
    ),
]


@pytest.mark.parametrize(("given", "merged"), PERFECT)
def test_perfect_mergers_are_found(given: list[str], merged: str) -> None:
    assert merge(given).predicate.to_sql() == merged


def test_the_papers_imperfect_merger_is_found_within_a_budget_and_not_without() -> None:
    # Seed paper 000, section 4.4: [50, 100] and [110, 150] into [50, 150].
    ranges = ["price between 50 and 100", "price between 110 and 150"]
    assert merge(ranges).perfect
    assert identical(merge(ranges).predicate, " or ".join(ranges))
    loose = merge(ranges, budget=0.3)
    assert loose.predicate == parse("price between 50 and 150")
    assert not loose.perfect
    assert 0 < loose.excess <= 0.3


def test_known_distributions_decide_what_a_merger_costs() -> None:
    ranges = ["price between 50 and 100", "price between 110 and 150"]
    even = merge(ranges, budget=0.5, distributions={"price": Histogram([0, 1000], [1])})
    assert even.excess == pytest.approx(10 / 100)
    crowded = ValueCounts({60: 1, 105: 98, 120: 1})
    assert merge(ranges, budget=0.5, distributions={"price": crowded}).perfect
    empty = ValueCounts({60: 1, 120: 1})
    free = merge(ranges, budget=0.01, distributions={"price": empty})
    assert (free.predicate, free.excess, free.perfect) == (parse("price between 50 and 150"), 0.0, False)


def test_twenty_thousand_filters_merge() -> None:
    merged = merge(f"x = {i} and y = {i % 7}" for i in range(20_000))
    assert len(merged.predicate.filters) == 7
    assert covers(merged.predicate, "x = 19999 and y = 0")


def test_merging_nothing_gives_what_matches_nothing() -> None:
    assert merge([]).predicate == parse("false")


@pytest.mark.parametrize("budget", [-0.1, 1.1, float("nan")])
def test_a_budget_that_is_no_share_is_refused(budget: float) -> None:
    with pytest.raises(PenstockError, match="between 0 and 1"):
        merge(["a = 1"], budget=budget)


def test_one_predicate_where_a_list_is_meant_is_refused() -> None:
    with pytest.raises(PenstockError, match="takes a list"):
        merge("a = 1")


def test_distributions_count_absence_and_cut_bins() -> None:
    counts = ValueCounts({"JFK": 60, "LGA": 30, None: 10})
    assert counts.share(value_set("=", "JFK")) == 0.6
    assert counts.share(ABSENT) == 0.1
    assert counts.share(EXISTS) == pytest.approx(0.9)
    bins = Histogram([0, 10, 20], [30, 60], absent=10)
    assert bins.share(value_set("<", 15)) == pytest.approx(0.6)
    assert bins.share(value_set("=", "x")) == 0
    assert (bins.share(ABSENT), bins.share(EXISTS)) == (0.1, 0.9)
    hours = Histogram([Time(0), Time(100)], [1])
    assert hours.share(value_set(">=", Time(25))) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("edges", "counts"), [([0], []), ([0, 1], [1, 2]), ([1, 0], [1]), (["a", "b"], [1]), ([0, 1], [-1])]
)
def test_a_histogram_that_makes_no_sense_is_refused(edges: list[object], counts: list[float]) -> None:
    with pytest.raises(PenstockError):
        Histogram(edges, counts)  # type: ignore[arg-type]


def test_counts_that_make_no_sense_are_refused() -> None:
    for counts in ({}, {1: 0}, {1: 2, 2: -1}):
        with pytest.raises(PenstockError, match="not negative"):
            ValueCounts(counts)  # type: ignore[arg-type]


COUNTS = st.dictionaries(st.sampled_from(NUMBERS), st.integers(0, 9), min_size=1).filter(
    lambda c: sum(c.values()) > 0
)


@pytest.mark.property
@given(
    st.lists(disjunctions(plain_constraints(families=(NUMBERS,))), min_size=1, max_size=3),
    st.floats(0, 1),
    st.fixed_dictionaries({"x": COUNTS, "y": COUNTS}),
)
def test_the_excess_is_what_counting_gives_and_within_the_budget(
    parts: list[Expression], budget: float, counts: dict[str, dict[Any, float]]
) -> None:
    merged = merge([normalise(part) for part in parts], budget=budget, distributions=counts)
    matched = wanted = 0.0
    for (x, n), (y, m) in itertools.product(counts["x"].items(), counts["y"].items()):
        event = {"x": x, "y": y}
        matched += n * m * merged.predicate.matches(event)
        wanted += n * m * holds(Or(parts), event)
    excess = (matched - wanted) / matched if matched else 0.0
    assert merged.excess == pytest.approx(excess)
    assert merged.excess <= budget + 1e-9


def test_gaps_that_are_closed_together_stay_within_the_budget() -> None:
    even = {"x": Histogram([0, 10], [1]), "y": Histogram([0, 10], [1])}
    frame = merge(["x not between 4 and 6 and y not between 4 and 6"], budget=0.34, distributions=even)
    assert 0 < frame.excess <= 0.34


def test_patterns_do_not_break_the_budget() -> None:
    assert merge(["s not like '%a'", "s = 'a'"], budget=0.01).excess <= 0.01


def test_extreme_numbers_have_shares() -> None:
    assert Histogram([-1.7e308, 1.7e308], [1]).share(value_set("<", 0)) == 0.5
    wide = "x in (-1.7976931348623157e308, 0, 1.7976931348623157e308)"
    assert merge([wide, "y = 1"], budget=0.5).excess <= 0.5


def test_counts_of_foreign_scalars_are_taken_for_what_they_are() -> None:
    counts = ValueCounts({np.int64(1): 3, np.float64(2.5): 1})  # type: ignore[dict-item]
    assert counts.share(value_set("<", 2)) == 0.75
    with pytest.raises(PenstockError, match="counts values of events"):
        ValueCounts({(1, 2): 1})
    for bad in (float("inf"), float("nan"), 10**400):
        with pytest.raises(PenstockError, match="finite"):
            ValueCounts({1: bad})
