"""The algebra against the oracle: what filters match, and covers, overlaps, identical, canonical forms."""

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brute import State, grid, holds
from penstock import Event, Filter, Predicate, covers, identical, overlaps, parse
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Not, Or, normalise
from strategies import FAMILIES, all_constraints, conjunctions, expressions, mixed, plain_constraints

pytestmark = pytest.mark.property


def answers(expression: Expression, events: list[dict[str, State]]) -> list[bool]:
    return [holds(expression, event) for event in events]


def matched(predicate: Predicate | Filter, events: list[dict[str, State]]) -> list[bool]:
    return [predicate.matches(Event(event)) for event in events]


@given(mixed(complete=False))
def test_a_predicate_matches_what_its_expression_says(expression: Expression) -> None:
    events = list(grid(expression))
    assert matched(normalise(expression), events) == answers(expression, events)


@given(all_constraints())
def test_a_constraint_matches_what_it_says(constraint: Constraint) -> None:
    events = list(grid(constraint))
    assert [constraint.matches(e) for e in events] == answers(constraint, events)


@example(
    Or(
        [
            And([Constraint("y", "exists"), Constraint("x", "=", -1)]),
            And([Constraint("y", "absent"), Constraint("x", "=", -1)]),
        ]
    )
).via("merging made two equal filters, and each absorbed the other")
@given(mixed(complete=False))
def test_not_is_the_opposite_of_what_is_present(expression: Expression) -> None:
    events = list(grid(expression))
    negated = normalise(Not(expression))
    assert matched(negated, events) == [holds(expression, event, True) for event in events]


@given(mixed(complete=False), mixed(complete=False))
def test_covers_is_never_true_falsely(f: Expression, g: Expression) -> None:
    if covers(normalise(f), normalise(g)):
        events = list(grid(f, g))
        assert all(a or not b for a, b in zip(answers(f, events), answers(g, events), strict=True))


@given(mixed(complete=True), mixed(complete=True))
def test_covers_is_complete_without_patterns(f: Expression, g: Expression) -> None:
    events = list(grid(f, g))
    truth = all(a or not b for a, b in zip(answers(f, events), answers(g, events), strict=True))
    assert covers(normalise(f), normalise(g)) is truth


@given(mixed(complete=True), st.data())
def test_a_predicate_covers_what_is_cut_out_of_it(f: Expression, data: st.DataObject) -> None:
    # Random pairs seldom cover one another; a part of f always is covered.
    g = And([f, data.draw(mixed(complete=True))])
    assert covers(normalise(f), normalise(g))
    assert covers(normalise(Or([f, g])), normalise(f))


@given(mixed(complete=False), mixed(complete=False))
def test_overlaps_is_never_false_falsely(f: Expression, g: Expression) -> None:
    if not overlaps(normalise(f), normalise(g)):
        events = list(grid(f, g))
        assert not any(a and b for a, b in zip(answers(f, events), answers(g, events), strict=True))


@given(mixed(complete=True), mixed(complete=True))
def test_overlaps_is_complete_without_patterns(f: Expression, g: Expression) -> None:
    events = list(grid(f, g))
    truth = any(a and b for a, b in zip(answers(f, events), answers(g, events), strict=True))
    assert overlaps(normalise(f), normalise(g)) is truth


@given(mixed(complete=True))
def test_what_no_event_can_match_is_recognised(expression: Expression) -> None:
    assert normalise(expression).satisfiable is any(answers(expression, list(grid(expression))))


@given(mixed(complete=True), mixed(complete=True))
def test_identical_means_the_same_events(f: Expression, g: Expression) -> None:
    events = list(grid(f, g))
    assert identical(normalise(f), normalise(g)) is (answers(f, events) == answers(g, events))


@given(conjunctions(plain_constraints()), conjunctions(plain_constraints()))
def test_filters_are_equal_exactly_when_they_match_the_same_events(f: And, g: And) -> None:
    events = list(grid(f, g))
    a, b = Filter(f.parts), Filter(g.parts)  # type: ignore[arg-type]
    same = answers(f, events) == answers(g, events)
    assert (a == b) is same
    assert not same or hash(a) == hash(b)


@given(st.data())
def test_predicates_over_one_attribute_and_family_are_equal_exactly_when_identical(
    data: st.DataObject,
) -> None:
    pool = data.draw(st.sampled_from(FAMILIES))
    leaves = plain_constraints(("x",), (pool,))
    f, g = data.draw(expressions(leaves)), data.draw(expressions(leaves))
    # Without constraints, "always" and "never" speak of absence too, hence the condition on presence.
    f, g = And([f, Constraint("x", "not in", (pool[0],))]), And([g, Constraint("x", "not in", (pool[0],))])
    events = list(grid(f, g))
    assert (normalise(f) == normalise(g)) is (answers(f, events) == answers(g, events))


@given(mixed(complete=False), mixed(complete=False))
def test_equal_predicates_match_the_same_events(f: Expression, g: Expression) -> None:
    a, b = normalise(f), normalise(g)
    if a == b:
        events = list(grid(f, g))
        assert hash(a) == hash(b)
        assert answers(f, events) == answers(g, events)


@given(st.lists(conjunctions(all_constraints(), 3), max_size=4), st.randoms(use_true_random=False))
def test_order_repetition_and_brackets_do_not_matter(parts: list[And], random: Random) -> None:
    straight = normalise(Or(parts))
    shuffled = [And(random.sample(list(p.parts), len(p.parts)) * 2) for p in parts] * 2
    random.shuffle(shuffled)
    assert normalise(Or(shuffled)) == straight
    for at in range(len(parts)):
        assert normalise(Or([Or(parts[:at]), Or(parts[at:])])) == straight


def shuffled(expression: Expression, random: Random) -> Expression:
    if isinstance(expression, Constraint):
        return expression
    if isinstance(expression, Not):
        return Not(shuffled(expression.part, random))
    parts = [shuffled(part, random) for part in expression.parts]
    if parts:
        parts.append(random.choice(parts))
    random.shuffle(parts)
    return type(expression)(parts)


@given(mixed(complete=False), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter_at_any_depth(expression: Expression, random: Random) -> None:
    assert normalise(shuffled(expression, random)) == normalise(expression)


def test_the_order_of_factors_does_not_matter() -> None:
    # Merging intermediate products is greedy, so the factors' order once showed in the result.
    straight = parse("(x < 2 and y > 1 or x > 1) and (y = 2 or x < 1) and (x > 0 or z > 0)")
    assert parse("(x > 1 or x < 2 and y > 1) and (z > 0 or x > 0) and (y = 2 or x < 1)") == straight


@given(mixed(complete=False))
def test_the_canonical_form_is_a_fixed_point(expression: Expression) -> None:
    predicate = normalise(expression)
    assert Predicate(predicate.filters) == predicate
    assert covers(predicate, predicate)
