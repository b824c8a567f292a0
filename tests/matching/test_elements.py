"""Lists in the matcher: it finds what the reference finds, in every form of events."""

import itertools
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clause_cases import clauses_of, keeping
from matching_cases import IDS
from penstock import Event, Matcher, Time, parse
from penstock.errors import LimitError, UnsupportedValueError
from penstock.filters.expression import Expression, normalise
from penstock.matching import elements
from penstock.matching.computed import is_computed
from penstock.matching.reference import ReferenceMatcher
from penstock.model.limits import ELEMENTS_MAX
from penstock.model.names import Id
from penstock.model.packed import encode_event
from strategies import all_constraints, disjunctions, expressions, list_constraints

NAMES = ("x", "y")
SCALARS: st.SearchStrategy[Any] = st.sampled_from((-1, 0, 0.5, 1, 2, True, False, "", "a", "ab", "abc", "b"))
ELEMENTS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(SCALARS, st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(("a", "this")), inner, max_size=2)
    ),
    max_leaves=4,
)
VALUES = st.one_of(SCALARS, st.lists(ELEMENTS, max_size=4), st.lists(ELEMENTS, max_size=4))
EVENTS = st.lists(st.dictionaries(st.sampled_from((*NAMES, "other")), VALUES), min_size=1, max_size=8)
LISTS = list_constraints(NAMES)
RULES = st.one_of(
    LISTS,
    disjunctions(st.one_of(LISTS, all_constraints(NAMES))),
    expressions(st.one_of(LISTS, all_constraints(NAMES))),
)
SUBSCRIPTIONS = st.lists(st.tuples(IDS, RULES), min_size=1, max_size=8)


def packed(events: list[dict[str, Any]]) -> tuple[bytes, list[int]]:
    encoded = [encode_event(Event(event)) for event in events]
    return b"".join(encoded), [0, *itertools.accumulate(map(len, encoded))]


def agree(subscriptions: list[tuple[Id, Expression]], events: list[dict[str, Any]]) -> None:
    given_ = [(key, normalise(expression)) for key, expression in subscriptions]
    reference, matcher = ReferenceMatcher(given_), Matcher(given_)
    expected = [reference.match(event) for event in events]
    assert [matcher.match(event) for event in events] == expected
    assert list(matcher.match_batch(events)) == expected
    assert list(matcher.match_json("\n".join(json.dumps(event) for event in events))) == expected
    assert list(matcher.match_packed(*packed(events))) == expected
    with tempfile.TemporaryDirectory() as folder:
        matcher.compact()
        matcher.save(Path(folder, "table"))
        loaded = Matcher.load(Path(folder, "table"))
    assert list(loaded.match_batch(events)) == expected
    for key, _ in given_:
        assert {f for f in loaded.filters(key) if f.satisfiable} == {
            f for known, predicate in given_ for f in predicate.filters if known == key
        }


@pytest.mark.property
@given(SUBSCRIPTIONS, EVENTS)
def test_lists_in_every_form_of_events_find_what_the_reference_finds(
    subscriptions: list[tuple[Id, Expression]], events: list[dict[str, Any]]
) -> None:
    agree(subscriptions, events)


@pytest.mark.property
@given(
    st.lists(st.tuples(IDS, clauses_of(st.one_of(LISTS, all_constraints(NAMES)))), min_size=1, max_size=4),
    EVENTS,
)
def test_clauses_may_ask_for_elements(
    subscriptions: list[tuple[Id, Expression]], events: list[dict[str, Any]]
) -> None:
    with keeping():
        agree(subscriptions, events)


KINDS = st.sampled_from(
    [
        (pa.list_(pa.int64()), st.integers(-1, 2)),
        (pa.large_list(pa.float64()), st.sampled_from([0.5, 1.0, math.nan])),
        (pa.list_(pa.string()), st.sampled_from(["", "a", "ab", "abc"])),
        (pa.list_view(pa.string()), st.sampled_from(["", "a", "ab", "abc"])),
        (pa.list_(pa.bool_()), st.booleans()),
        (pa.list_(pa.list_(pa.string())), st.lists(st.sampled_from(["a", "b", None]), max_size=2)),
        (
            pa.list_(pa.struct({"a": pa.int64(), "this": pa.list_(pa.string())})),
            st.fixed_dictionaries(
                {
                    "a": st.one_of(st.none(), st.integers(-1, 2)),
                    "this": st.lists(st.sampled_from("ab"), max_size=2),
                }
            ),
        ),
    ]
)


@pytest.mark.property
@given(SUBSCRIPTIONS, KINDS, st.data())
def test_lists_of_arrow_find_what_the_reference_finds(
    subscriptions: list[tuple[Id, Expression]], kind: tuple[Any, Any], data: st.DataObject
) -> None:
    arrow, elements = kind
    rows = data.draw(
        st.lists(
            st.one_of(st.none(), st.lists(st.one_of(st.none(), elements), max_size=3)), min_size=1, max_size=8
        )
    )
    other = data.draw(
        st.lists(st.one_of(st.none(), st.sampled_from("ab")), min_size=len(rows), max_size=len(rows))
    )
    table = pa.table({"x": pa.array(rows, arrow), "y": pa.array(other)})
    given_ = [(key, normalise(expression)) for key, expression in subscriptions]
    reference, matcher = ReferenceMatcher(given_), Matcher(given_)
    expected = [reference.match(event) for event in Event.from_arrow(table)]
    assert list(matcher.match_batch(table)) == expected
    assert list(matcher.match_batch(table.slice(1))) == expected[1:]


def test_ten_thousand_conditions_on_one_list() -> None:
    matcher = Matcher((n, f"'t{n}' in tags and price > {n % 7}") for n in range(10_000))
    matcher.add("none", "'t1' not in tags and price > 5")
    event = {"tags": ["t5", "t12", "t9999"], "price": 6}
    assert matcher.match(event) == [5, 12, 9999, "none"]
    assert list(matcher.match_batch([event, {"tags": ["t1"], "price": 6}])) == [[5, 12, 9999, "none"], [1]]
    matcher.remove_many(range(10_000))
    assert matcher.match(event) == ["none"]
    matcher.compact()
    assert sum(map(is_computed, matcher.names)) == 2  # that it is a list, and what no element may be
    assert matcher.match(event) == ["none"]


def test_lists_that_come_and_go() -> None:
    matcher = Matcher([("a", "'x' in tags")])
    assert matcher.match({"tags": ["x"]}) == ["a"]
    matcher.add("b", "any(items where qty > 5)")
    matcher.add("c", "any(items where sku = 'k' and any(marks) = 1)")
    event = {"tags": ["x"], "items": [{"qty": 6}, {"sku": "k", "marks": [0, 1]}]}
    assert matcher.match(event) == ["a", "b", "c"]
    matcher.remove("b")
    assert matcher.match(event) == ["a", "c"]
    assert matcher.filters("c") == list(parse("any(items where sku = 'k' and any(marks) = 1)").filters)


def test_times_in_lists_are_times() -> None:
    matcher = Matcher([("late", "any(seen) > timestamp '2024-01-01'")])
    assert matcher.match({"seen": [Time.parse("2023-01-01"), Time.parse("2024-01-02")]}) == ["late"]
    table = pa.table({"seen": pa.array([[19_000], [20_000]], pa.list_(pa.date32()))})
    assert list(matcher.match_batch(table)) == [[], ["late"]]


def test_what_is_no_value_in_a_list_is_named_or_left_out() -> None:
    matcher = Matcher([("a", "'x' in tags")])
    lines = '{"tags": ["x"]}\n{"tags": ["x", 9223372036854775808]}\n{"tags": ["x"]}'
    with pytest.raises(UnsupportedValueError, match=r"row 2.*'tags\[\]'"):
        matcher.match_json(lines)
    assert list(matcher.match_json(lines, unsupported="skip")) == [["a"]] * 3
    table = pa.table({"tags": pa.array([["x"], None], pa.list_(pa.binary()))})
    with pytest.raises(UnsupportedValueError, match="'tags'"):
        matcher.match_batch(table)
    with pytest.raises(LimitError, match="ELEMENTS_MAX"):
        matcher.match_json(json.dumps({"tags": [0] * (ELEMENTS_MAX + 1)}))
    with pytest.raises(LimitError, match="ELEMENTS_MAX"):
        matcher.match_batch(pa.table({"tags": [[0] * (ELEMENTS_MAX + 1)]}))


def test_a_line_with_an_odd_list_is_read_slowly_and_alike() -> None:
    matcher = Matcher([("a", "'x' in tags"), ("b", "k = 'é\\n'"), ("c", "2 in more")])
    event = {"k": "é\n", "tags": ["x"], "more": [1, 2]}
    changes: list[dict[str, object]] = [{}, {"tags": []}, {"more": [None]}, {"tags": [["x"]]}, {}]
    lines = [json.dumps(event | change) for change in changes]
    assert list(matcher.match_json("\n".join(lines))) == [matcher.match(json.loads(line)) for line in lines]


def test_rules_that_take_a_list_for_one_value_are_told() -> None:
    matcher = Matcher([("a", "tags = 'x'"), ("b", "'x' in name")])
    assert matcher.match({"tags": ["x"], "name": "x"}) == []
    found = {one.attribute: str(one) for one in matcher.disagreements()}
    assert "compares 'tags' with a string, but in the events it is a list" in found["tags"]
    assert "any(tags) = … asks for an element" in found["tags"]
    assert "compares 'name' with a list, but in the events it is a string" in found["name"]
    fine = Matcher([("a", "'x' in tags or tags is null")])
    assert fine.match({"tags": ["x"]}) == ["a"]
    assert fine.disagreements() == []


def test_what_no_element_has_is_told() -> None:
    rules = {
        "slip": "any(items where amuont > 5)",
        "text": "any(items where amount = 'x') or any(items where amuont = 1) or any(items where amuont > 2)",
        "number": "7 in tags",
        "fine": "any(items where amount > 5) and 'a' in tags and any(items where note is null)",
        "either": "any(items where amount = 'x' or amount = 1)",
        "deep": "any(rows where any(this) > 5)",
    }
    events: list[dict[str, object]] = [
        {"items": [{"amount": 7}, {"amount": 1, "sku": "s"}], "tags": ["a", "b"], "rows": [[1]]},
        {"items": [{"amount": 2}], "rows": [[7, 8]]},
    ]
    for matcher in (Matcher(rules), Matcher(rules)):
        assert matcher.disagreements() == []
        matcher.match_batch(events)
        found = matcher.disagreements()
        assert {one.attribute: (one.problem, one.rules, one.suggestion) for one in found} == {
            "items[].amount": ("family", 1, None),
            "items[].amuont": ("unknown", 2, "items[].amount"),
            "tags[]": ("family", 1, None),
        }
        assert str(found[1]) == (
            "none of 2 events has 'items[].amuont', which 2 rules (slip, text) name; "
            "did you mean 'items[].amount'?"
        )
    table = Matcher(rules)
    table.match_batch(pa.Table.from_pylist(events))
    assert [one.attribute for one in table.disagreements()] == ["items[].amount", "items[].amuont", "tags[]"]
    table.remove_many(["slip", "text", "number"])
    assert table.disagreements() == []


def test_long_lists_are_matched_some_elements_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "_PAIRS_MAX", 20)
    matcher = Matcher((n, f"any(n) > {n} and any(rows where 1 in this)") for n in range(9))
    events = [{"n": list(range(-5, k)), "rows": [[0]] * 10 + [[1]]} for k in range(12)]
    assert list(matcher.match_batch(events)) == [list(range(max(0, k - 1)))[:9] for k in range(12)]
