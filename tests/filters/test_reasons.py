"""Why a filter matches or not: the conditions told agree with matching."""

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clause_cases import keeping
from penstock.filters import html
from penstock.filters.constraint import Constraint
from penstock.filters.expression import normalise
from penstock.filters.filter import Filter
from penstock.filters.parsing import parse
from penstock.filters.reasons import EXCLUDED, reasons
from penstock.model.events import Event
from penstock.model.values import Time
from strategies import BOOLS, NAMES, NUMBERS, STRINGS, TIMES, all_constraints, expressions

ATTRIBUTES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from((*NAMES, "X")),
    st.sampled_from((*NUMBERS[:6], *STRINGS, *TIMES, *BOOLS, float("nan"))),
    min_size=1,
)
EVENTS = ATTRIBUTES.map(Event.from_flat)


@given(expressions(all_constraints()), EVENTS)
def test_a_filter_matches_if_all_conditions_that_are_told_hold(expression: Any, event: Event) -> None:
    with keeping():
        predicate = normalise(expression)
    told = reasons(predicate.filters, event)
    assert told.matches == predicate.matches(event)
    assert [one.filter for one in told] == list(predicate.filters)
    for alternative in told:
        assert alternative.matches == alternative.filter.matches(event)
        assert alternative.matches == all(one.holds for one in alternative.conditions)


@given(expressions(all_constraints()), EVENTS)
def test_the_text_of_a_condition_says_what_is_told_of_it(expression: Any, event: Event) -> None:
    for alternative in reasons(normalise(expression).filters, event):
        for one in alternative.conditions:
            assert parse(one.text).matches(event) == one.holds


@pytest.mark.parametrize(
    ("text", "event", "holds", "found"),
    [
        ("x > 1", {"x": 2}, True, "x is 2"),
        ("x > 1", {"x": 0.5}, False, "x is 0.5"),
        ("x > 1", {"y": 2}, False, "x is missing"),
        ("amount > 1", {"amuont": 2}, False, "amount is missing; the event has amuont"),
        ("price > 1", {"order": {"price": 2}}, False, 'price is missing; the event has "order.price"'),
        ("x > 1", {"x": "2"}, False, "x is '2', a string; the rule wants a number"),
        (
            "at > timestamp '2024-01-01T00:00:00Z'",
            {"at": "2024-05-01"},
            False,
            "at is '2024-05-01', a string; the rule wants a time",
        ),
        ("at is not null", {"at": Time(0)}, True, "at is 1970-01-01T00:00:00Z"),
        ("x is null", {"y": 1}, True, "x is missing"),
        ("x is null", {"x": 1}, False, "x is 1"),
        ("x = 'a'", {"x": "b" * 100}, False, "x is '" + "b" * 79 + "…"),
        ('"a b" = true', {"a b": False}, False, '"a b" is False'),
    ],
)
def test_what_the_event_has_is_told(text: str, event: dict[str, Any], holds: bool, found: str) -> None:
    ((condition,),) = [one.conditions for one in reasons(parse(text).filters, event)]
    if found.endswith('the event has "order.price"'):
        found = found.replace('"', "")
    assert (condition.text, condition.holds, condition.found) == (text, holds, found)


ORDER: dict[str, Any] = {
    "items": [{"sku": "A7", "qty": 2}, {"sku": "B1", "qty": 9}, 5],
    "tags": ["new", "eu"],
    "one": [{"deep": [1, 2]}],
}
ITEMS = "items is [{'sku': 'A7', 'qty': 2}, {'sku': 'B1', 'qty': 9}, 5]; "


@pytest.mark.parametrize(
    ("text", "holds", "found"),
    [
        ("any(items where qty > 5)", True, ITEMS + "items[1] matches: {'sku': 'B1', 'qty': 9}"),
        (
            "any(items where sku = 'A7' and qty > 5)",
            False,
            ITEMS + "none of 3 elements matches; items[0] comes closest, but not qty > 5: qty is 2",
        ),
        ("not any(items where qty > 5)", False, ITEMS + "items[1] matches: {'sku': 'B1', 'qty': 9}"),
        ("not any(items where qty > 50)", True, ITEMS + "none of 3 elements matches"),
        ("'eu' in tags", True, "tags is ['new', 'eu']; tags[1] matches: 'eu'"),
        ("'eu' not in tags", False, "tags is ['new', 'eu']; tags[1] matches: 'eu'"),
        (
            "'us' in tags",
            False,
            "tags is ['new', 'eu']; none of 2 elements matches; tags[0] comes closest, "
            "but not this = 'us': this is 'new'",
        ),
        (
            "any(one where any(deep where this > 5))",
            False,
            "one is [{'deep': [1, 2]}]; none of 1 element matches; one[0] comes closest, but not "
            "any(deep where this > 5): deep is [1, 2]; none of 2 elements matches; deep[0] comes closest, "
            "but not this > 5: this is 1",
        ),
        ("any(sku where this = 5)", False, "sku is missing"),
        ("items.sku = 'A7'", False, "items.sku is missing; 'items' is a list: any(items where sku = …)"),
    ],
)
def test_which_element_of_a_list_matches_or_comes_closest_is_told(text: str, holds: bool, found: str) -> None:
    told = reasons(parse(text).filters, ORDER)
    (condition,) = told[0].conditions
    assert (condition.holds, condition.found) == (holds, found)
    assert told.matches == parse(text).matches(ORDER) == holds


ELEMENTS = st.lists(
    st.one_of(
        st.sampled_from([1, 5, "a"]), st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), min_size=1)
    ),
    min_size=1,
    max_size=4,
)
ASKED = st.sampled_from(["this > 2", "this = 'a'", "a = 1", "a > 1 and b < 2", "a = 1 or b = 2", "a is null"])


@given(ELEMENTS, ASKED, st.booleans())
def test_the_element_that_is_told_to_match_is_the_first_that_does(
    elements: list[Any], asked: str, negated: bool
) -> None:
    # Of alternatives that no element may satisfy, each is a condition of its own.
    asked = asked.split(" or ")[0] if negated else asked
    inner = parse(asked)
    event = Event({"x": elements})
    ((condition,),) = [
        one.conditions
        for one in reasons([Filter([Constraint("x", "not any" if negated else "any", asked)])], event)
    ]
    which = [
        at
        for at, one in enumerate(elements)
        if inner.matches(one if isinstance(one, dict) else {"this": one})
    ]
    told = re.search(r"; x\[(\d+)\] matches: ", condition.found)
    assert (None if told is None else int(told[1])) == (which[0] if which else None)
    assert condition.holds == (bool(which) is not negated)


def test_a_record_where_a_rule_wants_something_else_is_told() -> None:
    event = {"items": {"sku": "A", "qty": 2}, "rows": [{"cells": {"v": 1}}]}
    for rule, found in {
        "any(items where sku = 'A')": "items is a record; it has items.qty, items.sku; the rule wants a list",
        "items > 5": "items is a record; it has items.qty, items.sku; the rule wants a number",
        "items is null": "items is a record; it has items.qty, items.sku",
        "any(rows where any(cells where v = 1))": "rows is [{'cells': {'v': 1}}]; none of 1 element matches; "
        "rows[0] comes closest, but not any(cells where v = 1): cells is a record; it has cells.v; "
        "the rule wants a list",
    }.items():
        ((condition,),) = [one.conditions for one in reasons(parse(rule).filters, event)]
        assert condition.found == found


def test_times_and_decimals_in_lists_are_shown_as_others_are() -> None:
    elements = [Time(0), Decimal("0.1000000000000000001"), {"at": Time(0), "b": [Time(0)]}]
    ((condition,),) = [one.conditions for one in reasons(parse("'x' in a").filters, {"a": elements[:2]})]
    at, number = "1970-01-01T00:00:00Z", "0.1000000000000000001"
    assert condition.found.startswith(f"a is [{at}, {number}]; none of 2 elements matches")
    ((condition,),) = [one.conditions for one in reasons(parse("'x' in a").filters, {"a": elements[2:]})]
    assert condition.found.startswith(f"a is [{{'at': {at}, 'b': [{at}]}}]; none of 1 element matches")


def test_conditions_on_one_attribute_are_told_each() -> None:
    (told,) = reasons(parse("x like '%a%' and x not like '%b%' and y > 1").filters, {"x": "ab", "y": 5})
    assert [(one.text, one.holds) for one in told.conditions] == [
        ("x like '%a%'", True),
        ("x not like '%b%'", False),
        ("y > 1", True),
    ]
    assert str(told) == (
        "yes  x like '%a%'  (x is 'ab')\nno   x not like '%b%'  (x is 'ab')\nyes  y > 1  (y is 5)"
    )


def test_a_rule_of_several_filters_is_told_filter_by_filter() -> None:
    told = reasons(parse("x > 1 and y = 1 or x < 0").filters, {"x": 5, "y": 2})
    assert [one.matches for one in told] == [False, False]
    assert str(told).startswith("does not match\n")
    assert "\nor\n" in str(told)
    assert str(reasons(parse("true").filters, {"x": 1})) == "matches\nyes  true  (every event matches)"


def test_a_filter_that_none_can_match_says_so() -> None:
    told = reasons(parse("x > 1").filters[0].intersection(parse("x < 0").filters[0]).boxes(), {"x": 1})
    assert not told.matches
    (one,) = told
    assert str(one) == EXCLUDED


def test_what_notebooks_show_is_escaped_and_bounded() -> None:
    evil = "<script>alert('x')</script>"
    predicate = parse(f"""x = '{evil.replace("'", "''")}' or "<b>" > 1""")
    for shown in (predicate._repr_html_(), reasons(predicate.filters, {"x": evil})._repr_html_()):
        assert "<script" not in shown
        assert "<b>" not in shown
        assert "&lt;script" in shown
    many = parse(" or ".join(f"a{n} = {n} and b = {n}" for n in range(60)))
    shown = many._repr_html_()
    assert shown.count("<tr>") == html.ROWS + 1
    assert "… and 40 more" in shown
    long = parse(f"x in ({', '.join(str(n * 3) for n in range(4000))})")._repr_html_()
    assert len(long) < 1000
    assert "no event can match" in parse("false")._repr_html_()
