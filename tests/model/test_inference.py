"""The schema inferred from events is one that they all fit."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LimitError, PenstockError
from penstock.model.events import flatten, with_times
from penstock.model.fitting import Fitting
from penstock.model.inference import Inference
from penstock.model.limits import ATTRIBUTES_MAX
from penstock.model.schema import Schema

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["x", "2024-01-01T00:00:00Z", "7"])
)
EVENTS = st.lists(
    st.dictionaries(
        st.sampled_from("abc"),
        st.one_of(
            SCALARS,
            st.dictionaries(st.sampled_from("xy"), SCALARS),
            st.lists(st.one_of(SCALARS, st.dictionaries(st.sampled_from("xy"), SCALARS))),
            st.lists(st.lists(SCALARS)),
        ),
        min_size=1,
    ),
    min_size=1,
    max_size=5,
)


def inferred(events: list[dict[str, object]]) -> Schema:
    made = Inference()
    for event in events:
        made.see(event)
    return made.schema()


@given(EVENTS)
def test_every_attribute_that_rules_can_match_fits(events: list[dict[str, object]]) -> None:
    schema = inferred(events)
    again = Schema.from_json(schema.to_json())
    times = {place for place, one in schema.places() if "time" in one.type}
    for event in events:
        assert list(again.misfits(with_times(flatten(event, "skip"), times))) == []


KEYS = st.sampled_from(["a", "b", "a.b", "a.", "b.c.d"])
ODD = st.recursive(
    st.one_of(SCALARS, st.sampled_from([{}, [], 10**30, -(10**19), 1e300, "2024-01-01", {"a": {}}])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.property
@given(st.lists(st.dictionaries(KEYS, ODD, max_size=4), min_size=1, max_size=5))
def test_every_event_validates_against_its_schema(events: list[dict[str, object]]) -> None:
    schema = inferred(events)
    text = schema.to_json()
    validator = jsonschema.Draft202012Validator(json.loads(text))
    assert [error.message for event in events for error in validator.iter_errors(event)] == []
    if any(events):
        again = Schema.from_json(text)
        # What is read back allows the same families where rules can ask for any.
        assert {n: one.families for n, one in schema.attributes.items() if one.families} == {
            n: one.families for n, one in again.attributes.items() if one.families
        }
        fitting = Fitting(again)
        for event in events:
            fitting.see(event)
        assert fitting.misfits() == []


def test_odd_values_have_their_own_types() -> None:
    events: list[dict[str, object]] = [
        {"g": {}, "big": 10**30, "n": None, "tags": [1], "o": None, "a.b": 1},
        {"n": 5, "tags": None, "o": {"x": 1}, "a": {"b": 2}},
    ]
    found = json.loads(inferred(events).to_json())["properties"]
    assert found == {
        "a": {"type": "object", "properties": {"b": {"type": "number"}}, "additionalProperties": False},
        "a.b": {"type": "number"},
        "big": {"type": "number"},
        "g": {"type": "object", "properties": {}, "additionalProperties": False},
        "n": {"type": ["number", "null"]},
        "o": {
            "type": ["object", "null"],
            "properties": {"x": {"type": "number"}},
            "additionalProperties": False,
        },
        "tags": {"type": ["array", "null"], "items": {"type": "number"}},
    }


def test_text_is_a_time_if_all_of_it_is() -> None:
    schema = inferred(
        [{"at": "2024-01-01", "word": "2024-01-01"}, {"at": "2024-01-01T05:00:00Z", "word": "x"}]
    )
    assert json.loads(schema.to_json())["properties"] == {
        "at": {"type": "string", "format": "date-time"},
        "word": {"type": "string"},
    }


def test_the_schema_of_nested_events_validates_them() -> None:
    events: list[dict[str, object]] = [
        {"id": 1, "order": {"price": 1.5, "lines": [1]}, "note": None},
        {"id": "a", "order": {"price": 2}, "up": True},
    ]
    document = json.loads(inferred(events).to_json())
    validator = jsonschema.Draft202012Validator(document)
    assert all(validator.is_valid(event) for event in events)
    assert not validator.is_valid({"order": {"prize": 1}})
    assert not validator.is_valid({"up": "yes"})


def test_names_beyond_the_limit_are_refused() -> None:
    made = Inference()
    for n in range(ATTRIBUTES_MAX):
        made.see({f"a{n}": 1})
    with pytest.raises(PenstockError, match="ATTRIBUTES_MAX"):
        made.see({"one_more": 1})


def test_elements_of_lists_have_a_schema_too() -> None:
    events: list[dict[str, object]] = [
        {
            "items": [{"sku": "A", "qty": 1}, {"sku": "B", "at": {"day": "2024-01-01"}}],
            "days": ["2024-01-01"],
        },
        {"items": [{"qty": None}, None], "days": ["2024-01-01", None], "odd": ["a", {"x": [1]}], "no": []},
    ]
    found = json.loads(inferred(events).to_json())["properties"]
    assert found["days"] == {
        "type": "array",
        "items": {"type": ["string", "null"], "format": "date-time"},
    }
    assert found["items"] == {
        "type": "array",
        "items": {
            "type": ["object", "null"],
            "properties": {
                "at": {
                    "type": "object",
                    "properties": {"day": {"type": "string", "format": "date-time"}},
                    "additionalProperties": False,
                },
                "qty": {"type": ["number", "null"]},
                "sku": {"type": "string"},
            },
            "additionalProperties": False,
        },
    }
    assert found["no"] == {"type": "array"}
    assert found["odd"]["items"]["anyOf"] == [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"x": {"type": "array", "items": {"type": "number"}}},
            "additionalProperties": False,
        },
    ]


def test_a_member_by_the_name_of_elements_leaves_open_what_they_are() -> None:
    assert inferred([{"l": [{"this": 1}, "x"]}]).attributes["l"].elements is None


def test_attributes_of_elements_count() -> None:
    with pytest.raises(LimitError):
        inferred([{"a": [{f"x{n}": 1 for n in range(ATTRIBUTES_MAX)}]}])
