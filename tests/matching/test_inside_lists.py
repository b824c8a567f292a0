"""What is said of the elements of lists: by schemas, by events in every form, by every part that reports."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cold_kernels import Cold
from penstock import Event, Matcher, parse
from penstock.errors import PenstockError, UnsupportedValueError
from penstock.filters.disagreements import Disagreement
from penstock.filters.schema_check import SchemaCheck, check, events_that_misfit, why_not
from penstock.matching.linting import Rules, lint
from penstock.matching.times import TimeTexts
from penstock.model.fitting import Fitting
from penstock.model.packed import encode_event
from penstock.model.schema import Schema
from penstock.model.values import family_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

ITEM = {
    "sku": {"type": "string"},
    "qty": {"type": "integer"},
    "at": {"type": "string", "format": "date-time"},
    "days": {"type": "array", "items": {"type": "string", "format": "date"}},
}
SCHEMA = Schema.from_json(
    {
        "properties": {
            "n": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "items": {"type": "array", "items": {"properties": ITEM}},
            "open": {"type": "array"},
        }
    }
)


def problems(found: Iterable[Disagreement]) -> list[tuple[str, str]]:
    return [(one.attribute, one.problem) for one in found]


# Conditions, and what a schema has to say of each

ATOMS = {
    "{} = 'x'": "string",
    "{} like 'x%'": "string",
    "{} > 5": "number",
    "{} >= timestamp '2024-01-01'": "time",
    "{} is null": "absent",
    "{} is not null": "exists",
}
TYPES = {"sku": "string", "qty": "number", "at": "time", "days": "list"}
CONDITIONS = st.one_of(
    st.tuples(st.just("items"), st.sampled_from([*TYPES, "skuu", "this"]), st.sampled_from(list(ATOMS))),
    st.tuples(st.just("tags"), st.sampled_from(["this", "sku"]), st.sampled_from(list(ATOMS))),
    st.tuples(st.just("open"), st.sampled_from(["this", "sku"]), st.sampled_from(list(ATOMS))),
    st.tuples(st.just("days"), st.just("this"), st.sampled_from(list(ATOMS))),
)


def text_of(condition: tuple[str, str, str]) -> str:
    name, inner, atom = condition
    if name == "days":
        return f"any(items where any(days where {atom.format(inner)}))"
    return f"any({name} where {atom.format(inner)})"


def expected_of(condition: tuple[str, str, str]) -> tuple[str, str] | None:
    name, inner, atom = condition
    asked = ATOMS[atom]
    known = {"tags": {"this": "string"}, "items": TYPES, "days": {"this": "time"}}.get(name)
    if known is None:
        return None
    path = "items[].days" if name == "days" else name
    place = f"{path}[]" if inner == "this" else f"{path}[].{inner}"
    if inner not in known:
        return place, "unknown"
    return (place, "family") if asked not in ("absent", "exists", known[inner]) else None


@pytest.mark.property
@given(st.lists(st.tuples(st.booleans(), CONDITIONS), min_size=1, max_size=3))
def test_all_who_hold_rules_against_a_schema_find_what_no_element_can_have(
    conditions: list[tuple[bool, tuple[str, str, str]]],
) -> None:
    texts = [("" if positive else "not ") + text_of(one) for positive, one in conditions]
    rules = {at: f"n > {at} and {text}" for at, text in enumerate(texts)}
    predicates = {key: parse(text) for key, text in rules.items()}
    expected: dict[tuple[str, str], int] = {}
    for key, (_positive, condition) in enumerate(conditions):
        one = expected_of(condition)
        if one is not None:
            expected[one] = expected.get(one, 0) + 1
        assert problems(check(predicates[key].filters, SCHEMA)) == ([] if one is None else [one])
        assert (why_not(predicates[key].filters, SCHEMA) is None) == (one is None)
    by_rule = SchemaCheck(SCHEMA)
    for key, predicate in predicates.items():
        by_rule.see(key, predicate.filters)
    table = Matcher(predicates)
    table.compact()
    with Cold():
        plain = Matcher(predicates)
    for found in (by_rule.report(), table.check(SCHEMA), plain.check(SCHEMA)):
        assert {(one.attribute, one.problem): one.rules for one in found} == expected
    linted = Rules()
    for key, predicate in predicates.items():
        linted.add(key, predicate)
    said = [one for one in lint(linted, SCHEMA) if one.check in ("unknown-attribute", "wrong-type")]
    assert len(said) == sum(expected.values())


def test_what_a_schema_says_of_elements() -> None:
    def said(text: str) -> list[str]:
        return [str(one) for one in check(parse(text).filters, SCHEMA)]

    assert said("any(items where qty = 'x')") == [
        "the filter compares 'items[].qty' with a string, but in the schema it is integer: no event can match"
    ]
    assert said("any(items where skuu = 'x')") == [
        "the schema has no attribute 'items[].skuu', which the filter names; did you mean 'items[].sku'?"
    ]
    assert said("5 in tags") == [
        "the filter compares 'tags[]' with a number, but in the schema it is string: no event can match"
    ]
    assert said("'x' in items") == [
        "'items[]', which the filter names, is a record; it has items[].at, items[].days, items[].qty"
    ]
    clauses = " and ".join(f"not (k{i} = 1 and m{i} = 1)" for i in range(12))
    schema = Schema(SCHEMA.attributes, is_open=True)
    matcher = Matcher({"long": f"(any(items where skuu = 1) or n = 3) and {clauses}"})
    assert problems(matcher.check(schema)) == [("items[].skuu", "unknown")]


# Events in every form

RULES = {
    "slip": "any(items where skuu = 'A')",
    "text": "any(items where qty = 'x')",
    "late": "any(items where at > timestamp '2024-01-01')",
    "both": "any(days) > timestamp '2024-01-01' or any(days) = 'soon'",
    "deep": "any(items where any(days) >= timestamp '2024-05-05')",
    "fine": "any(items where sku = 'A' and qty > 1)",
    "tag": "5 in tags",
}
EVENTS: list[dict[str, Any]] = [
    {"items": [{"sku": "A", "qty": 2, "at": "2024-03-03", "days": ["2024-05-05"]}], "tags": ["a"]},
    {"items": [{"sku": "B", "qty": 1, "at": "soon", "days": ["x"]}], "days": ["2024-02-02", "soon"]},
]
MATCHED = [["deep", "fine", "late"], ["both"]]


def forms(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Ways to show events to a matcher."""
    rows = [{"items": None, "tags": None, "days": None} | event for event in events]
    data = [encode_event(Event(event)) for event in events]
    offsets = [0, *itertools.accumulate(map(len, data))]
    lines = "\n".join(json.dumps(event) for event in events)
    return {
        "dicts": lambda m: list(m.match_batch(events)),
        "one by one": lambda m: [m.match(event) for event in events],
        "JSON lines": lambda m: list(m.match_json(lines)),
        "Arrow": lambda m: list(m.match_batch(pa.Table.from_pylist(rows))),
        "packed": lambda m: list(m.match_packed(b"".join(data), offsets)),
    }


SEEN_VALUES = st.sampled_from(["x", "y", 7, 1.5, True])
RECORDS = st.dictionaries(st.sampled_from(["sku", "qty", "at"]), SEEN_VALUES, min_size=1)
SEEN_EVENTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={name: st.lists(st.one_of(RECORDS, SEEN_VALUES), min_size=1) for name in ("items", "tags")},
    ),
    min_size=1,
    max_size=4,
)
SEEN_RULES = st.lists(
    st.tuples(
        st.sampled_from(["items", "tags"]),
        st.sampled_from(["sku", "qty", "at", "skuu", "this"]),
        st.sampled_from(list(ATOMS)),
    ),
    min_size=1,
    max_size=5,
)


def found_by_looking(
    rules: list[tuple[str, str, str]], events: list[dict[str, Any]]
) -> dict[tuple[str, str], tuple[int, dict[str, int]]]:
    """What there is to say, by looking at all elements for each rule."""
    found: dict[tuple[str, str], tuple[int, dict[str, int]]] = {}
    for name, inner, atom in rules:
        elements = [element for event in events for element in event.get(name, ())]
        records = [each if isinstance(each, dict) else {"this": each} for each in elements]
        values = [family_of(record[inner]).label for record in records if inner in record]
        asked = ATOMS[atom]
        place = f"{name}[]" if inner == "this" else f"{name}[].{inner}"
        problem = "unknown" if not values else "family"
        if not elements or asked in values or asked == "absent" or (values and asked == "exists"):
            continue
        count, _ = found.get((place, problem), (0, {}))
        found[place, problem] = count + 1, dict(Counter(values))
    return found


@pytest.mark.property
@given(SEEN_RULES, SEEN_EVENTS, st.sampled_from(["dicts", "one by one", "JSON lines", "packed"]))
def test_what_is_reported_is_what_looking_at_every_element_finds(
    rules: list[tuple[str, str, str]], events: list[dict[str, Any]], form: str
) -> None:
    matcher = Matcher((key, text_of(one)) for key, one in enumerate(rules))
    forms(events)[form](matcher)
    told = {
        (one.attribute, one.problem): (one.rules, one.seen)
        for one in matcher.disagreements()
        if "[]" in one.attribute
    }
    assert told == found_by_looking(rules, events)


@pytest.mark.parametrize("form", list(forms(EVENTS)))
def test_every_form_of_events_tells_the_same_of_elements(form: str) -> None:
    matcher = Matcher(RULES)
    assert forms(EVENTS)[form](matcher) == MATCHED
    assert [(one.attribute, one.problem, one.rules, one.seen) for one in matcher.disagreements()] == [
        ("days[]", "texts", 1, {"string": 1}),
        ("items[].qty", "family", 1, {"number": 2}),
        ("items[].skuu", "unknown", 1, {}),
        ("tags[]", "family", 1, {"string": 1}),
    ]
    matcher.remove("both")
    matcher.add("day", "any(days) > timestamp '2024-01-01'")
    assert forms(EVENTS)[form](matcher)[1] == ["day"]
    assert "texts" not in {one.problem for one in matcher.disagreements()}


@pytest.mark.parametrize("form", list(forms(EVENTS)))
def test_text_in_lists_is_a_time_where_the_schema_says_so(form: str) -> None:
    schema = Schema.from_json(
        {
            "properties": {
                "items": {"type": "array", "items": {"properties": {**ITEM, "qty": {"type": "string"}}}},
                "tags": {"type": "array", "items": {"type": "integer"}},
                "days": {"type": "array", "items": {"type": "string"}},
            }
        }
    )
    rules = {"late": RULES["late"], "deep": RULES["deep"], "soon": "'2024-02-02' in days"}
    matcher = Matcher(rules, schema=schema)
    assert forms(EVENTS)[form](matcher) == [["deep", "late"], ["soon"]]
    # Rules do not decide then, also in a broker.
    by_schema = Matcher(rules, texts=TimeTexts.of_schema(schema)._replace(by_rules=False))
    assert forms(EVENTS)[form](by_schema) == [["deep", "late"], ["soon"]]
    assert problems(matcher.disagreements()) == [("items[].at", "misfit"), ("items[].days[]", "misfit")]


# Values that no rule can match

RAW = pa.list_(
    pa.struct(
        {"sku": pa.string(), "raw": pa.binary(), "more": pa.struct({"map": pa.map_(pa.string(), pa.int8())})}
    )
)
ROWS = pa.table(
    {
        "l": pa.array(
            [
                [{"sku": "A", "raw": b"z", "more": {"map": [("a", 1)]}}, None],
                None,
                [],
                [{"sku": "B", "raw": None, "more": None}, {"sku": None, "raw": b"", "more": None}],
            ],
            RAW,
        )
    }
)


def test_fields_in_lists_that_nobody_names_may_be_of_any_type() -> None:
    matcher = Matcher(
        {"a": "any(l where sku = 'A')", "any": "any(l where true)", "null": "any(l where sku is null)"}
    )
    assert list(matcher.match_batch(ROWS)) == [["a", "any"], [], [], ["any", "null"]]
    assert list(matcher.match_batch(ROWS.slice(3))) == [["any", "null"]]
    nested = pa.table({"o": pa.array([{"rows": [[{"a": 1, "raw": b"x"}]]}])})
    deep = Matcher({"a": "any(o.rows where any(this where a = 1))"})
    assert list(deep.match_batch(nested)) == [["a"]]


@pytest.mark.parametrize("name", ["raw", "more.map"])
def test_fields_in_lists_that_a_rule_names_are_refused_or_left_out(name: str) -> None:
    matcher = Matcher({"a": "any(l where sku = 'A')", "raw": f"any(l where {name} = 'x')"})
    with pytest.raises(UnsupportedValueError) as refused:
        matcher.match_batch(ROWS)
    assert str(refused.value).startswith("row 0, column 'l[]': the column '")
    assert list(matcher.match_batch(ROWS, unsupported="skip")) == [["a"], [], [], []]
    count = 2 if name == "raw" else 1
    assert matcher.observed.skipping.count(f"l[].{name}") == count
    (told,) = matcher.disagreements()
    assert (told.attribute, told.problem, told.skipped, told.rules) == (f"l[].{name}", "skipped", count, 1)
    assert "a column of type " in str(told)


def test_the_place_of_a_bad_element_is_told_once() -> None:
    big = pa.table({"l": pa.array([[1], [2, 2**63]], pa.list_(pa.uint64()))})
    matcher = Matcher({"a": "1 in l", "b": "any(l where x = 1)"})
    with pytest.raises(PenstockError, match=r"^row 1, column 'l\[\]': .* does not fit a 64-bit"):
        matcher.match_batch(big)
    records = pa.table({"l": pa.array([[{"x": 1}], [{"x": 2**63}]], pa.list_(pa.struct({"x": pa.uint64()})))})
    with pytest.raises(PenstockError, match=r"^row 1, column 'l\[\].x': .* does not fit a 64-bit"):
        matcher.match_batch(records)
    deep = pa.table({"l": pa.array([[[2**63]]], pa.list_(pa.list_(pa.uint64())))})
    with pytest.raises(PenstockError, match=r"^row 0, column 'l\[\]\[\]': .* does not fit a 64-bit"):
        matcher.match_batch(deep)
    with pytest.raises(PenstockError, match=r"'l\[\].x.y': a value of type bytes"):
        matcher.match({"l": [{"x": {"y": b""}}]})
    matcher.match({"l": [{"x": b""}, [b""]]}, unsupported="skip")
    assert matcher.observed.skipping.counts().keys() == {"l[].x", "l[][]"}


# Records in place of lists


@pytest.mark.parametrize("form", ["dicts", "one by one", "JSON lines", "packed"])
@pytest.mark.parametrize("is_cold", [False, True])
def test_a_record_in_some_events_and_a_list_in_others_is_told(form: str, is_cold: bool) -> None:
    rules = {"list": "any(items where sku = 'A')", "record": "items.sku = 'A'", "other": "n > 0"}
    events: list[dict[str, Any]] = [
        {"items": [{"sku": "A"}], "n": 1},
        {"items": {"sku": "A"}, "n": 1},
        {"items": None, "n": 1},
    ]
    show = forms(events)[form]
    with Cold() if is_cold else nullcontext():
        matcher = Matcher(rules)
        assert show(matcher) == [["list", "other"], ["other", "record"], ["other"]]
        assert [str(one) for one in matcher.disagreements()] == [
            "rule list (any(items where sku = 'A')) takes 'items' for a list, which it is not in all events; "
            "'items' is a record in some events; it has items.sku",
            "rule record (items.sku = 'A') takes 'items.sku' for a string, which it is not in all events; "
            "'items' is a list in some events: any(items where sku = …)",
        ]
        fine = Matcher(rules)
        assert forms(events[:1] * 3)[form](fine) == [["list", "other"]] * 3
        assert [str(one) for one in fine.disagreements()] == [
            "none of 3 events has 'items.sku', which 1 rule (record) names; "
            "'items' is a list: any(items where sku = …)"
        ]


@pytest.mark.parametrize("form", ["dicts", "one by one", "JSON lines", "packed"])
def test_rules_that_ask_whether_there_is_an_attribute_are_told_of_both_shapes(form: str) -> None:
    rules = {"no": "items is null", "yes": "items.sku is not null", "gone": "items.sku is null"}
    events: list[dict[str, Any]] = [{"items": [{"sku": "A"}]}, {"items": {"sku": "A"}}]
    matcher = Matcher(rules)
    assert forms(events)[form](matcher) == [["gone"], ["no", "yes"]]
    assert [str(one) for one in matcher.disagreements()] == [
        "rule no (items is null) asks only whether there is 'items'; "
        "'items' is a record in some events; it has items.sku",
        "2 rules, such as gone (items.sku is null), ask only whether there is 'items.sku'; "
        "'items' is a list in some events: any(items where sku = …)",
    ]


NESTED: list[dict[str, Any]] = [{"rows": [{"cells": [{"v": 7, "w": [{"x": 1}]}]}], "grid": [[{"v": 1}]]}]
NESTED_SCHEMA = Schema.from_arrow(pa.Table.from_pylist(NESTED).schema)


@pytest.mark.parametrize("form", ["dicts", "one by one", "JSON lines", "packed", "columns", "schema", "why"])
@pytest.mark.parametrize(
    ("rule", "advice"),
    [
        ("rows.cells.v > 5", "'rows' is a list: any(rows where any(cells where v = …))"),
        ("any(rows where cells.v > 5)", "'cells' is a list: any(cells where v = …)"),
        ("any(rows where cells.w.x > 5)", "'cells' is a list: any(cells where any(w where x = …))"),
        ("grid.v = 1", "'grid' is a list: any(grid where any(this where v = …))"),
    ],
)
def test_lists_in_lists_are_told_how_to_ask_for_what_is_in_them(form: str, rule: str, advice: str) -> None:
    matcher = Matcher({"r": rule})
    if form == "why":
        assert advice in str(matcher.why("r", NESTED[0]))
        return
    if form == "schema":
        (told,) = matcher.check(NESTED_SCHEMA)
    else:
        if form == "columns":
            matcher.match_batch(pa.Table.from_pylist(NESTED))
        else:
            forms(NESTED)[form](matcher)
        (told,) = matcher.disagreements()
    assert str(told).endswith(f"; {advice}")


FLAT = st.lists(
    st.fixed_dictionaries(
        {}, optional={"http": st.sampled_from([["x"], 5, None]), "http.status": st.integers(1, 2)}
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.property
@given(FLAT, st.sampled_from(["dicts", "JSON lines", "packed"]))
def test_a_dotted_name_beside_a_list_is_no_other_shape(events: list[dict[str, Any]], form: str) -> None:
    for rules in ({"r": "'x' in http"}, {"r": "http is null"}, {"r": "http.status = 1"}):
        matcher = Matcher(rules)
        forms(events)[form](matcher)
        told = [one for one in matcher.disagreements() if "in some events" in one.note]
        lists = [one for one in events if isinstance(one.get("http"), list)]
        is_beside = any("http.status" in one for one in lists)
        assert bool(told) is (bool(lists) and any("http.status" in one for one in events) and not is_beside)


@pytest.mark.parametrize(
    ("field", "meant"), [("colour", None), ("skuu", "line_items[].sku"), ("SKU", "line_items[].sku")]
)
def test_what_was_meant_in_a_list_is_told_by_the_last_name_alone(field: str, meant: str | None) -> None:
    schema = Schema.from_json(
        {
            "additionalProperties": False,
            "properties": {
                "line_items": {
                    "type": "array",
                    "items": {"properties": {"sku": {"type": "string"}}, "additionalProperties": False},
                }
            },
        }
    )
    fitting = Fitting(schema)
    fitting.see({"line_items": [{field: 1}]})
    (told,) = events_that_misfit(fitting, 1)
    assert (told.problem, told.attribute, told.suggestion) == ("unlisted", f"line_items[].{field}", meant)


# Sentences about elements


@pytest.mark.parametrize("form", ["dicts", "one by one", "JSON lines", "packed"])
def test_elements_that_misfit_are_told_with_a_value_and_a_rule(form: str) -> None:
    events: list[dict[str, Any]] = [
        {"items": [{"qty": "x", "sku": "A"}, {"qty": "y"}, {"qty": 5}]},
        {"tags": [7]},
        {"items": [{"qty": 6}], "tags": ["eu"]},
    ]
    rules = {"a": "any(items where qty > 5)", "b": "n > 1 or any(items where qty > 2)", "c": "'eu' in tags"}
    matcher = Matcher(rules, schema=SCHEMA)
    forms(events)[form](matcher)
    told = [str(one) for one in matcher.disagreements() if one.problem == "misfit"]
    assert told == [
        "2 elements in 3 events have a string in 'items[].qty', such as 'x', but in the schema it is "
        "integer; 2 rules, such as a (any(items where qty > 5)), name it",
        "1 element in 3 events has a number in 'tags[]', such as 7, but in the schema it is string; "
        "rule c ('eu' in tags) names it",
    ]


def test_with_all_events_looked_at_values_of_elements_are_held_against_the_schema() -> None:
    schema = Schema.from_json(
        {
            "properties": {
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
                "items": {
                    "type": "array",
                    "items": {"properties": {"k": {"const": 1}, "s": {"type": "string"}}},
                },
            }
        }
    )
    rows = [
        {"tags": ["a", "c", "c"], "items": [{"k": 1, "s": "x"}, {"k": 2, "s": None}]},
        {"tags": ["b"], "items": [{"k": 3, "s": "y"}]},
    ]
    one_by_one, columns = Fitting(schema), Fitting(schema)
    for row in rows:
        one_by_one.see(row)
    for batch in pa.Table.from_pylist(rows).to_batches():
        columns.see_rows(batch, {})
    assert [[str(one) for one in events_that_misfit(fitting, 2)] for fitting in (one_by_one, columns)] == [
        [
            "2 elements in 2 events have a number in 'items[].k', such as 2, but the schema lists 1",
            "2 elements in 2 events have a string in 'tags[]', such as 'c', but the schema lists 'a', 'b'",
        ]
    ] * 2


@pytest.mark.parametrize("compact", [False, True])
def test_why_names_the_rule_that_keeps_text_in_lists_from_being_a_time(compact: bool) -> None:
    matcher = Matcher({"late": "any(items where at > timestamp '2024-01-01')"})
    event = {"items": [{"sku": "A"}, {"at": "2024-05-05"}]}
    assert matcher.why("late", event).matches
    matcher.add("text", "n > 0 or any(items where at like '2%')")
    if compact:
        matcher.compact()
    ((condition,),) = [one.conditions for one in matcher.why("late", event)]
    assert condition.found.endswith(
        "items[1] comes closest, but not at > timestamp '2024-01-01T00:00:00Z': at is '2024-05-05', a "
        "string; the rule wants a time, as which it is not read because of rule text "
        "(any(items where at like '2%'))"
    )
    # Where there is no such text, nothing keeps it.
    ((condition,),) = [one.conditions for one in matcher.why("late", {"items": [{"at": "soon"}]})]
    assert condition.found.endswith("the rule wants a time")
