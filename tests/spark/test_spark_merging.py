"""Candidates for merging: perfect is exactly the union, imperfect what `merge` says, and none is missed."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from brute import grid, holds
from penstock import Event, Histogram, merge, parse
from penstock.errors import FilterError
from penstock.filters.expression import And, Expression, Or, normalise
from penstock.filters.predicate import Predicate
from penstock.routing.schemes.merging import is_fit
from penstock.spark.analysis.mergers import Candidate, imperfect, likenesses, perfect
from penstock.spark.analysis.merging import merge_candidates
from penstock.spark.analysis.predicates import encode
from strategies import all_constraints, conjunctions, plain_constraints

Parts = dict[str, Expression]

FEWER = settings(max_examples=max(50, settings().max_examples // 5))
"""Brute force looks at some thousand events for each example."""


@st.composite
def parts(draw: st.DrawFn) -> Parts:
    """Filters of which many differ in one attribute only."""
    common = draw(st.lists(conjunctions(plain_constraints(("y",)), 1), min_size=1, max_size=2))
    some = draw(st.lists(st.tuples(all_constraints(("x",)), st.sampled_from(common)), min_size=2, max_size=4))
    others = draw(st.lists(conjunctions(all_constraints(), 2), max_size=1))
    return {f"f{at}": part for at, part in enumerate([*(And([a, b]) for a, b in some), *others])}


def rows(filters: dict[str, Predicate]) -> list[tuple[str, bytes]]:
    return [(name, encode(f)) for name, f in filters.items()]


def all_perfect(filters: dict[str, Predicate]) -> Iterator[Candidate]:
    """The perfect mergers, found as the job finds them."""
    alike = defaultdict(list)
    for name, data in rows(filters):
        for likeness in likenesses(data):
            alike[likeness].append((name, data))
    for group in alike.values():
        yield from perfect(group)


@pytest.mark.property
@FEWER
@given(parts())
def test_a_perfect_merger_matches_exactly_the_union(drawn: Parts) -> None:
    filters = {name: normalise(part) for name, part in drawn.items()}
    for found in all_perfect(filters):
        assert (found.perfect, found.excess) == (True, 0.0)
        merger, members = parse(found.merger), [drawn[name] for name in found.ids]
        assert merger == merge(filters[name] for name in found.ids).predicate
        assert merger not in [filters[name] for name in found.ids]
        for event in grid(*members):
            assert merger.matches(Event(event)) is holds(Or(members), event)


@pytest.mark.property
@FEWER
@given(parts())
def test_any_two_filters_with_a_perfect_merger_meet(drawn: Parts) -> None:
    filters = {name: normalise(part) for name, part in drawn.items()}
    found = [set(candidate.ids) for candidate in all_perfect(filters)]
    singles = [name for name, f in filters.items() if len(f.filters) == 1]
    for a, b in combinations(singles, 2):
        merger = merge([filters[a], filters[b]]).predicate
        if is_fit(merger) and merger not in (filters[a], filters[b]):
            # With more filters of a likeness there may be one that covers all: nothing is gained then.
            assert any({a, b} <= ids for ids in found) or any(
                merge([filters[a], filters[b], f]).predicate == f for f in filters.values()
            )


@pytest.mark.property
@FEWER
@given(parts(), st.floats(0.01, 1))
def test_an_imperfect_merger_covers_the_union_and_its_excess_is_what_merge_says(
    drawn: Parts, budget: float
) -> None:
    filters = {name: normalise(part) for name, part in drawn.items()}
    known = {"x": Histogram([0, 10], [9], absent=1)}
    for found in imperfect(rows(filters), budget, known):
        merger = parse(found.merger)
        members = [filters[name] for name in found.ids]
        said = merge(members, budget=budget, distributions=known)
        assert found[1:] == (said.predicate.to_sql(), said.perfect, said.excess)
        assert found.excess <= budget + 1e-9
        assert is_fit(said.predicate)
        union = Or([drawn[name] for name in found.ids])
        for event in grid(*(drawn[name] for name in found.ids)):
            matched = merger.matches(Event(event))
            wanted = holds(union, event)
            assert matched or not wanted
            assert not (found.perfect and matched and not wanted)


def found_in(texts: list[str], budget: float = 0.0) -> list[Candidate]:
    filters = {f"{at:05d}": parse(text) for at, text in enumerate(texts)}
    return [*all_perfect(filters), *(imperfect(rows(filters), budget) if budget else ())]


def test_mergers_stay_small() -> None:
    found = found_in([f"x = {2 * i} and y = 1" for i in range(1_000)])
    assert sum(len(candidate.ids) for candidate in found) == 1_000
    assert all(is_fit(parse(candidate.merger)) for candidate in found)
    touching = found_in([f"x >= {i} and x < {i + 1} and y = 1" for i in range(1_000)])
    assert [candidate.merger for candidate in touching] == ["x >= 0 and x < 1000 and y = 1"]


def test_several_ids_of_one_filter_are_merged_together() -> None:
    assert found_in(["x = 1", "x = 1", "x = 2"]) == [(["00000", "00001", "00002"], "x in (1, 2)", True, 0.0)]
    assert found_in(["x = 1", "x = 1"]) == []
    assert found_in(["x < 1", "x < 2"]) == []


def test_a_perfect_merger_in_two_attributes_is_found_on_the_way_to_imperfect_ones() -> None:
    boxes = [f"x = {x} and y = {y}" for x in (1, 2) for y in (1, 2)]
    both = (["00000", "00001", "00002", "00003"], "x in (1, 2) and y in (1, 2)", True, 0.0)
    assert both not in found_in(boxes)
    assert both in found_in(boxes, budget=0.5)


def test_disjunctions_are_left_out() -> None:
    assert found_in(["x = 1 or y = 1", "x = 2 or y = 1", "false"], budget=0.5) == []


def test_the_job(spark: SparkSession) -> None:
    prices = [
        (1, "price between 50 and 100"),
        (2, "price between 110 and 150"),
        (3, "s = 'a'"),
        (4, "b = true"),
    ]
    subscriptions = spark.createDataFrame(prices, "id int, filter string")
    even = {"price": Histogram([0, 1000], [1])}
    found = sorted(map(tuple, merge_candidates(subscriptions, even, budget=0.3).collect()))
    assert found == [
        (["1", "2"], "price between 50 and 100 or price between 110 and 150", True, 0.0),
        (["1", "2"], "price between 50 and 150", False, pytest.approx(0.1)),
    ]


def test_what_makes_no_sense_is_refused_on_the_driver(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", "x = 1"), (None, "x = 1")], "id string, filter string")
    with pytest.raises(FilterError, match="between 0 and 1"):
        merge_candidates(rows, budget=2)
    with pytest.raises(FilterError, match="ValueCounts or a Histogram"):
        merge_candidates(rows, {"x": 3})  # type: ignore[dict-item]
    with pytest.raises(FilterError, match="without an id"):
        merge_candidates(rows)
