"""Clauses that are kept: the same meaning, one form, sound relations."""

import itertools
import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import State, grid, holds
from clause_cases import clauses_of, independent, keeping
from penstock import Event, Predicate, covers, identical, merge, overlaps, parse
from penstock.errors import InexpressibleError, LimitError
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Not, normalise
from penstock.filters.filter import Filter
from penstock.filters.languages import sql
from penstock.filters.parsing import write
from penstock.model import limits
from strategies import NUMBERS, all_constraints, plain_constraints

FEW = plain_constraints(("x", "y", "z"), (NUMBERS[:6],))
CLAUSES = st.one_of(clauses_of(FEW), clauses_of(all_constraints()))


def some_events(*expressions: Expression, step: int = 37) -> list[dict[str, State]]:
    return list(itertools.islice(grid(*expressions), 0, None, step))


# What they mean


@pytest.mark.property
@given(CLAUSES, st.booleans())
def test_kept_clauses_match_what_they_say(expression: Expression, negated: bool) -> None:
    whole: Expression = Not(expression) if negated else expression
    with keeping():
        predicate = normalise(whole)
    events = some_events(whole)
    assert [predicate.matches(Event(e)) for e in events] == [holds(whole, e) for e in events]


@pytest.mark.property
@given(CLAUSES, st.randoms(use_true_random=False))
def test_kept_clauses_have_one_form_and_read_back(expression: And, random: Random) -> None:
    with keeping():
        predicate = normalise(expression)
        parts = random.sample(list(expression.parts), len(expression.parts))
        assert normalise(type(expression)([*parts, parts[0]])) == predicate
        again = Predicate(predicate.filters)
        assert again == predicate
        assert hash(again) == hash(predicate)
        text = predicate.to_sql()
        assert parse(text) == predicate
        assert parse(text).to_sql() == text
        assert parse(predicate.to_json(), "json") == predicate
        copied = pickle.loads(pickle.dumps(predicate))  # noqa: S301
        assert copied == predicate
        assert hash(copied) == hash(predicate)
        for f in predicate.filters:
            if f.clauses:
                assert sql.parse_kept(f.to_sql()) == f


@pytest.mark.property
@given(CLAUSES, CLAUSES)
def test_intersections_of_kept_clauses_match_what_both_match(f: Expression, g: Expression) -> None:
    with keeping():
        a, b = normalise(f), normalise(g)
        both = Predicate(
            x for x in (m.intersection(n) for m in a.filters for n in b.filters) if x.satisfiable
        )
    for event in some_events(f, g, step=53):
        assert both.matches(Event(event)) is (holds(f, event) and holds(g, event))


# How they compare


@pytest.mark.property
@given(CLAUSES, CLAUSES)
def test_relations_between_kept_clauses_are_sound(f: Expression, g: Expression) -> None:
    with keeping():
        a, b, both = normalise(f), normalise(g), normalise(And((f, g)))
    events = some_events(f, g)
    one, other = [holds(f, e) for e in events], [holds(g, e) for e in events]
    for x, y, covering, covered in ((a, b, one, other), (b, a, other, one)):
        if covers(x, y):
            assert all(c or not d for c, d in zip(covering, covered, strict=True))
        if not overlaps(x, y):
            assert not any(c and d for c, d in zip(covering, covered, strict=True))
    assert covers(a, a)
    assert identical(b, b)
    for whole, part in ((a, both), (both, a)):
        if covers(whole, part):
            assert all(whole.matches(Event(e)) or not part.matches(Event(e)) for e in events)


@pytest.mark.property
@given(st.lists(CLAUSES, max_size=3), st.sampled_from([0, 0.1, 0.5]))
def test_a_merge_of_kept_clauses_loses_nothing(given_: list[Expression], budget: float) -> None:
    with keeping():
        predicates = [normalise(expression) for expression in given_]
        merged = merge(predicates, budget=budget)
        assert parse(merged.predicate.to_sql()) == merged.predicate
    for event in some_events(*given_, step=61):
        wanted = any(holds(expression, event) for expression in given_)
        found = merged.predicate.matches(Event(event))
        assert found or not wanted
        assert not merged.perfect or found is wanted


def test_exclusions_are_compared_clause_by_clause() -> None:
    some, more = parse(independent(40)), parse(independent(41))
    assert covers(some, more)
    assert not covers(more, some)
    assert covers("region = 'eu'", some)
    assert not covers(some, "region = 'eu'")
    assert not overlaps(some, "a7 = 1 and b7 = 1")
    assert overlaps(some, "a7 = 1 and b7 = 2")
    assert not overlaps(some, "region = 'us'")
    differing = " and ".join(f"a{i} = 2" for i in range(40))
    assert covers(some, f"region = 'eu' and {differing}")
    assert not covers(some, f"region = 'eu' and {differing.replace('a39 = 2', 'a39 = 1')}")
    # Covered whichever of one clause's alternatives holds.
    assert covers("a7 != 1 or b7 != 1", some)
    assert not covers("a7 != 1 or b7 = 2", some)
    assert identical(some, parse(some.to_sql()))
    union = merge([some, more, "region = 'us'"]).predicate
    assert covers(union, more)
    assert union.matches({"region": "us"})


# Which are kept


@pytest.mark.parametrize("count", [12, 40, 200])
def test_independent_exclusions_are_kept(count: int) -> None:
    text = independent(count)
    predicate = parse(text, request=True)
    (only,) = predicate.filters
    assert len(only.clauses) == count
    assert parse(text) == predicate
    printed = predicate.to_sql()
    assert len(printed) < 2 * len(text)
    assert parse(printed) == parse(printed, request=True) == predicate
    assert parse(printed).to_sql() == printed
    event: dict[str, object] = {"region": "eu"} | {
        f"{n}{i}": 1 + (n == "b") for n in "ab" for i in range(count)
    }
    assert predicate.matches(event)
    assert not predicate.matches(event | {"b3": 1})
    # A condition is true only of what is there: with neither attribute, no value differs from 1.
    assert not predicate.matches({k: v for k, v in event.items() if k not in ("a3", "b3")})
    with pytest.raises(InexpressibleError):
        write(predicate, "padres")


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        (" and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(3)), 0),
        (" and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(25)), 25),
        (" and ".join(f"(a{i} != 1 or a{i + 1} != 1 or a{i + 2} != 1)" for i in range(30)), 30),
        ("a0 = 2 and " + " and ".join(f"(a{i} != 1 or b{i} != 1)" for i in range(25)), 24),
        (" and ".join(f"(a{i} = 1 or b{i} = 1 and c{i} = 1)" for i in range(25)), 50),
        ("x = 1 and (y = 1 or y = 'a' or " + independent(20) + ")", 20),
    ],
    ids=["few", "independent", "chained", "narrowed", "pairs within", "within a disjunction"],
)
def test_what_would_be_too_many_filters_is_kept(text: str, clauses: int) -> None:
    predicate = parse(text)
    assert sum(len(f.clauses) for f in predicate.filters) == clauses
    assert parse(text, request=True) == predicate
    printed = predicate.to_sql()
    assert parse(printed) == predicate
    assert parse(printed).to_sql() == printed


def test_a_clause_that_its_filter_settles_is_gone() -> None:
    predicate = parse(independent(20) + " and a3 = 1 and b4 = 2")
    (only,) = predicate.filters
    assert len(only.clauses) == 18
    assert only.conditions.keys() == {"a3", "b3", "b4", "region"}
    assert not parse(independent(20) + " and a3 = 1 and b3 = 1").satisfiable


def test_more_clauses_than_a_filter_may_have_are_refused() -> None:
    with pytest.raises(LimitError, match=r"CLAUSES_MAX|DISJUNCTS_MAX"):
        parse(independent(limits.CLAUSES_MAX + 1))
    assert len(parse(independent(limits.CLAUSES_MAX)).filters[0].clauses) == limits.CLAUSES_MAX


def test_several_filters_with_clauses_are_read_again_or_refused() -> None:
    many = [independent(60).replace("'eu'", f"'r{i}'") for i in range(40)]
    try:
        predicate = parse(" or ".join(f"({text})" for text in many))
    except LimitError:
        return
    assert parse(predicate.to_sql()) == predicate


def test_filters_with_different_clauses_differ() -> None:
    some, more = (parse(independent(count)).filters[0] for count in (20, 21))
    assert some != more
    assert some != some.without_clauses()
    assert some.without_clauses() == Filter([Constraint("region", "=", "eu")])
    assert len({some, more, some.without_clauses(), parse(some.to_sql()).filters[0]}) == 3
