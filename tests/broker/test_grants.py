"""Grants: whatever is granted, nobody gets to see or say anything else."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import grid, holds
from clause_cases import clauses_of, keeping
from penstock.broker.grants import COMPARISONS_MAX, EVERYTHING, GRANTS_MAX, NOTHING, Grants, Verb
from penstock.errors import FilterError, LimitError, PenstockError
from penstock.filters.expression import And, Expression, Or, normalise
from penstock.filters.parsing import as_predicate
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from strategies import NUMBERS, disjunctions, mixed, plain_constraints

CONSTRAINTS = plain_constraints(("x", "y", "z"), (NUMBERS[:4],))
CLAUSES = clauses_of(CONSTRAINTS)

VERBS: tuple[Verb, ...] = ("subscribe", "advertise")


def text(expression: Expression) -> str:
    return normalise(expression).to_sql()


def granting(verb: Verb, granted: Sequence[Expression]) -> Grants:
    texts = [text(one) for one in granted]
    return Grants.of(subscribe=texts) if verb == "subscribe" else Grants.of(advertise=texts)


def allowed(grants: Grants, verb: Verb, predicate: Predicate) -> bool:
    return grants.may_subscribe(predicate) if verb == "subscribe" else grants.may_advertise(predicate)


@pytest.mark.property
@pytest.mark.parametrize("verb", VERBS)
@given(st.lists(mixed(complete=False), max_size=3), mixed(complete=False), st.booleans())
def test_what_is_permitted_never_matches_an_event_that_no_grant_matches(
    verb: Verb, granted: list[Expression], asked: Expression, narrow: bool
) -> None:
    grants = granting(verb, granted)
    # By chance alone, little is within the grants.
    asked = And((Or(tuple(granted)), asked)) if narrow else asked
    predicate = normalise(asked)
    # Nothing is said of the other verb, and so nothing of it is granted.
    other: Verb = "advertise" if verb == "subscribe" else "subscribe"
    assert not predicate.satisfiable or not allowed(grants, other, predicate)
    if not allowed(grants, verb, predicate):
        assert grants.why_not(verb, predicate) is not None
        return
    assert grants.why_not(verb, predicate) is None
    for event in grid(*granted, asked):
        if holds(asked, event):
            assert any(holds(one, event) for one in granted)


@pytest.mark.property
@given(st.lists(st.one_of(CLAUSES, CONSTRAINTS), min_size=1, max_size=2), CLAUSES, st.booleans())
def test_grants_and_subscriptions_with_clauses_leak_nothing(
    granted: list[Expression], asked: Expression, narrow: bool
) -> None:
    asked = And((*granted[:1], asked)) if narrow else asked
    with keeping():
        grants = granting("subscribe", granted)
        predicate = normalise(asked)
    permitted = grants.may_subscribe(predicate)
    for event in itertools.islice(grid(*granted, asked), 0, None, 11):
        is_granted = any(holds(one, event) for one in granted)
        assert grants.may_receive(Event(event)) is is_granted
        if permitted and holds(asked, event):
            assert is_granted


def test_a_grant_of_exclusions_is_not_everything() -> None:
    text = " and ".join(f"not (a{i} = 1 and b{i} = 1)" for i in range(40))
    grants = Grants.of(subscribe=[text])
    assert grants.subscribe is not None
    assert not grants.may_subscribe(as_predicate("true"))
    assert not grants.may_subscribe(as_predicate("a3 = 1 and b3 = 1"))
    assert not grants.may_receive(Event({"a3": 1, "b3": 1}))
    assert grants.may_subscribe(as_predicate(text))
    assert grants.may_subscribe(as_predicate(f"{text} and region = 'eu' and not (c = 1 and d = 1)"))
    assert not grants.may_subscribe(as_predicate(text.replace("not (a7 = 1 and b7 = 1) and ", "")))
    within = " and ".join(f"a{i} = 2" for i in range(40))
    assert grants.may_subscribe(as_predicate(within))
    assert Grants.of(subscribe=[text, "true"]).subscribe is None


@pytest.mark.property
@given(st.lists(mixed(complete=False), max_size=3))
def test_events_may_come_and_go_that_some_grant_matches_and_no_others(granted: list[Expression]) -> None:
    texts = [text(one) for one in granted]
    grants = Grants.of(subscribe=texts, advertise=texts)
    for attributes in grid(*granted):
        expected = any(holds(one, attributes) for one in granted)
        assert grants.may_receive(Event(attributes)) is expected
        assert grants.may_publish(Event(attributes)) is expected


@pytest.mark.property
@given(st.lists(disjunctions(plain_constraints()), min_size=1, max_size=3))
def test_each_grant_and_all_together_may_be_asked_for(granted: list[Or]) -> None:
    grants = Grants.of(subscribe=[text(one) for one in granted])
    asked: list[Expression] = [*granted, Or(tuple(granted)), And(tuple(granted))]
    for one in asked:
        assert grants.may_subscribe(normalise(one))


def test_everything_and_nothing_are_what_they_say() -> None:
    anything, something, never = as_predicate("true"), as_predicate("x > 1"), as_predicate("false")
    for verb in VERBS:
        assert allowed(EVERYTHING, verb, anything)
        assert not allowed(NOTHING, verb, something)
        # It matches nothing, so there is nothing in it to be granted.
        assert allowed(NOTHING, verb, never)
    event = Event({"x": 2})
    assert EVERYTHING.may_receive(event)
    assert EVERYTHING.may_publish(event)
    assert not NOTHING.may_receive(event)
    assert not NOTHING.may_publish(event)
    assert (EVERYTHING.monitor, NOTHING.monitor) == (True, False)
    assert Grants.of() == NOTHING
    assert Grants.of(subscribe=["true"], advertise=["x > 1", "true"], monitor=True) == EVERYTHING


def test_two_grants_cover_together_what_neither_covers_alone() -> None:
    grants = Grants.of(subscribe=["x <= 10", "x > 5"])
    assert grants.may_subscribe(as_predicate("x between 0 and 20"))
    assert not grants.may_subscribe(as_predicate("true"))
    # A NaN is there, and no comparison is true of it.
    assert not grants.may_subscribe(as_predicate("x is not null"))


def test_a_refusal_names_what_was_asked_for_and_what_is_granted() -> None:
    grants = Grants.of(subscribe=["origin = 'JFK'", "delay > 60"])
    assert grants.why_not("subscribe", as_predicate("origin = 'LGA'")) == (
        "not allowed to subscribe to origin = 'LGA': no grant covers it; "
        "granted is to subscribe to delay > 60 or origin = 'JFK'"
    )
    assert grants.why_not("advertise", as_predicate("true")) == (
        "not allowed to advertise true: nothing is granted; use a token that grants it"
    )


def test_a_refusal_is_short_however_long_the_filters_are() -> None:
    grants = Grants.of(subscribe=[f"x{n} = '{'y' * 60}'" for n in range(100)])
    asked = as_predicate(" or ".join(f"z{n} = '{'w' * 60}'" for n in range(100)))
    refusal = grants.why_not("subscribe", asked)
    assert refusal is not None
    assert len(refusal) < 1_000
    assert "…" in refusal


def test_a_subscription_too_large_to_compare_is_refused_and_told_so() -> None:
    grants = Grants.of(subscribe=[f"x{n} = 1" for n in range(GRANTS_MAX)])
    many = COMPARISONS_MAX // GRANTS_MAX + 1
    asked = as_predicate(" or ".join(f"x{n} = 1" for n in range(many)))
    assert not grants.may_subscribe(asked)
    refusal = grants.why_not("subscribe", asked)
    assert refusal is not None
    assert f"{many:,} filters are too many to compare" in refusal
    assert grants.may_subscribe(as_predicate(" or ".join(f"x{n} = 1" for n in range(many - 1))))


@pytest.mark.parametrize(
    ("texts", "kind", "message"),
    [
        (["x > 1", "x >"], FilterError, "grant 2 to subscribe: column 4: expected"),
        ("x > 1", FilterError, "grants to subscribe are a list of filters, not str"),
        (5, FilterError, "grants to subscribe are a list of filters, not int"),
        ([5], FilterError, "grant 1 to subscribe: a filter in sql is text, not int"),
        (["x > 1"] * (GRANTS_MAX + 1), LimitError, r"too many grants to subscribe: the limit is 1,000"),
        (["x = '" + "y" * 70_000 + "'"], FilterError, "grant 1 to subscribe: .*LITERAL_LENGTH_MAX"),
        (
            [" or ".join(f"x{n}_{m} = 1" for m in range(1_000)) for n in range(3)],
            FilterError,
            "the grants to subscribe together: .*DISJUNCTS_MAX",
        ),
    ],
)
def test_grants_that_cannot_be_are_told(
    texts: Sequence[str], kind: type[PenstockError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Grants.of(subscribe=texts)


def test_grants_do_not_change() -> None:
    with pytest.raises(AttributeError):
        NOTHING.monitor = True  # type: ignore[misc]


@pytest.mark.parametrize("asked", ["x like '%' and y = 1", "x = '%'", "x = '' or true", "not (x = 'alice')"])
def test_a_grant_is_not_widened_by_what_the_filter_looks_like(asked: str) -> None:
    assert not Grants.of(subscribe=["x = 'alice'"]).may_subscribe(as_predicate(asked))


def test_hostile_patterns_are_decided_without_backtracking() -> None:
    # Tried out in every way it would not end; the faulthandler ends a test that does not.
    grants = Grants.of(subscribe=["x like '%" + "a%" * 200 + "b'"])
    assert not grants.may_subscribe(as_predicate("x like '" + "a%" * 400 + "'"))
    assert not grants.may_receive(Event({"x": "a" * 100_000}))
