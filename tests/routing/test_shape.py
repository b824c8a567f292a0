"""The quick test before the covering test: it never rules out a cover, and rules out most of what is none."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clause_cases import clauses_of, keeping
from penstock.filters.expression import And, Expression, normalise
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers
from penstock.routing.shape import NEVER, loose_shape_of, may_cover, shape_of
from penstock.workloads import range_filters
from routing_cases import ANY, COMPLETE, RANGES
from strategies import all_constraints, disjunctions, mixed, pattern_constraints

PATTERNS = disjunctions(pattern_constraints()).map(normalise)


@pytest.mark.property
@given(st.one_of(ANY, COMPLETE, PATTERNS), st.one_of(ANY, COMPLETE, PATTERNS))
def test_what_covers_may_cover(f: Predicate, g: Predicate) -> None:
    for a, b in ((f, g), (g, f), (f, f)):
        if covers(a, b):
            assert may_cover(shape_of(a), shape_of(b))


@pytest.mark.property
@given(clauses_of(all_constraints()), st.one_of(clauses_of(all_constraints()), mixed(complete=False)))
def test_what_covers_with_clauses_may_cover(f: Expression, g: Expression) -> None:
    with keeping():
        some = [normalise(f), normalise(g), normalise(And((f, g)))]
    for a, b in itertools.product(some, some):
        if covers(a, b):
            assert may_cover(shape_of(a), shape_of(b))
        assert not shape_of(a).exact or not any(one.clauses for one in a.filters)


@pytest.mark.property
@given(mixed(complete=False).map(normalise), mixed(complete=False).map(normalise))
def test_a_union_may_cover_its_parts(f: Predicate, g: Predicate) -> None:
    union = Predicate(f.filters + g.filters)
    for part in (f, g):
        if covers(union, part):
            assert may_cover(shape_of(union), shape_of(part))


@pytest.mark.property
@given(st.one_of(RANGES, ANY), st.one_of(RANGES, ANY))
def test_between_exact_shapes_may_cover_is_covers(f: Predicate, g: Predicate) -> None:
    if shape_of(f).exact and shape_of(g).exact:
        assert may_cover(shape_of(f), shape_of(g)) == covers(f, g)
        assert may_cover(shape_of(g), shape_of(f)) == covers(g, f)


@pytest.mark.parametrize(
    ("f", "g", "may"),
    [
        ("x > 5", "x > 6", True),
        ("x > 6", "x > 5", False),
        ("x > 5", "y > 6", False),
        ("x > 5", "x > 6 and y = 1", True),
        ("x > 5", "x = 'a'", False),
        ("x is not null", "x = 'a'", True),
        ("x is null", "x is null", True),
        ("x = 'abc'", "x = 'abd'", False),
        ("x like 'ab%'", "x = 'abd'", True),
        ("x > 5 or x < 2", "x = 3", True),
        ("x = 1 or y = 1", "x = 1", True),
    ],
)
def test_examples(f: str, g: str, may: bool) -> None:
    assert may_cover(shape_of(parse(f)), shape_of(parse(g))) is may


def test_what_cannot_match_is_covered_by_all_and_covers_nothing_else() -> None:
    never, some, always = Predicate(), parse("x > 1 and y = 'a'"), parse("true")
    assert shape_of(never) is NEVER
    for f in (never, some, always):
        assert may_cover(shape_of(f), NEVER)
        assert may_cover(NEVER, shape_of(f)) is (f is never)


def test_ends_that_are_rounded_make_no_exact_shape() -> None:
    assert shape_of(parse("x >= 9007199254740992")).exact
    assert not shape_of(parse("x >= 9007199254740993")).exact
    assert shape_of(parse("x = 'JFK'")).exact
    assert not shape_of(parse("x = 'Stockholm'")).exact
    assert not shape_of(parse("x in (1, 3)")).exact
    assert not shape_of(parse("x = 1 and y is null")).exact
    assert not loose_shape_of(parse("x = 1")).exact


@pytest.mark.parametrize("distribution", range_filters.DISTRIBUTIONS)
def test_of_range_filters_few_pairs_are_left_to_test(distribution: range_filters.Distribution) -> None:
    made = range_filters.as_predicates(range_filters.filters(200, 1, distribution))
    shapes = [shape_of(p) for p in made]
    left = [(f, g) for i, f in enumerate(shapes) for j, g in enumerate(shapes) if i != j and may_cover(f, g)]
    assert len(left) < 0.05 * len(made) ** 2
    assert sum(covers(f, g) for i, f in enumerate(made) for j, g in enumerate(made) if i != j) == len(left)
