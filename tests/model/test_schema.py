"""Schemas of events: read from JSON Schema and Arrow, written, held against events."""

import json

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError, PenstockError
from penstock.filters.schema_check import events_that_misfit
from penstock.model.decimals import ExactDecimal
from penstock.model.events import Event
from penstock.model.fitting import Fitting
from penstock.model.places import written
from penstock.model.schema import Schema
from penstock.model.values import Family, Time

BOOL, NUMBER, TIME, STRING, LIST = Family.BOOL, Family.NUMBER, Family.TIME, Family.STRING, Family.LIST


def families(schema: Schema) -> dict[str, set[Family]]:
    return {name: set(one.families) for name, one in schema.attributes.items()}


def test_types_of_json_schema_are_families() -> None:
    schema = Schema.from_json(
        {
            "type": "object",
            "properties": {
                "amount": {"type": "number", "minimum": 0},
                "count": {"type": ["integer", "null"]},
                "at": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "up": {"const": True},
                "kind": {"enum": ["a", "b", None]},
                "order": {"properties": {"id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
                "place": {"$ref": "#/$defs/place"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "blob": {"type": "string", "contentEncoding": "base64"},
                "nothing": {"type": "null"},
            },
            "$defs": {"place": {"type": "object", "properties": {"zip": {"type": "string"}}}},
        }
    )
    assert families(schema) == {
        "amount": {NUMBER},
        "count": {NUMBER},
        "at": {TIME},
        "day": {TIME},
        "up": {BOOL},
        "kind": {STRING},
        "order.id": {STRING, NUMBER},
        "place.zip": {STRING},
        "tags": {LIST},
        "blob": set(),
        "nothing": set(Family),
    }
    assert not schema.is_open


@pytest.mark.parametrize(
    ("document", "is_open"),
    [
        ({"properties": {"a": {}}}, False),
        ({"properties": {"a": {}}, "additionalProperties": False}, False),
        ({"properties": {"a": {}}, "additionalProperties": True}, True),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "number"}}, True),
        ({"properties": {"a": {"type": "object"}}}, True),
    ],
)
def test_a_schema_is_open_where_it_says_so(document: dict[str, object], is_open: bool) -> None:
    assert Schema.from_json(document).is_open is is_open


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[1]", "is an object"),
        ("{", "not a JSON Schema"),
        ("{}", "has properties; this one has none"),
        ('{"properties": {"a": {"type": "text"}}}', "/properties/a/type is 'text'"),
        ('{"properties": {"a": {"allOf": []}}}', "'allOf' at /properties/a is not supported"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "only \\$ref to"),
        ('{"properties": {"a": {"$ref": "#/$defs/x"}}}', "there is no '#/\\$defs/x'"),
        (
            '{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$ref": "#/$defs/x"}}}',
            "without end",
        ),
        ('{"properties": {"a": 5}}', "/properties/a is not a schema"),
        ('{"properties": 5}', "is not an object"),
        ('{"properties": {"a": {"anyOf": 5}}}', "not a list of schemas"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(document: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schema.from_json(document)


def test_a_schema_that_refers_to_itself_ends() -> None:
    document = {
        "properties": {"a": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    }
    with pytest.raises(PenstockError, match=r"NESTING_MAX|NAME_LENGTH_MAX"):
        Schema.from_json(document)


def test_columns_of_arrow_are_attributes_with_their_types() -> None:
    schema = Schema.from_arrow(
        pa.schema(
            {
                "amount": pa.float64(),
                "at": pa.timestamp("us", "UTC"),
                "word": pa.dictionary(pa.int32(), pa.string()),
                "blob": pa.binary(),
                "order": pa.struct({"up": pa.bool_()}),
                "nothing": pa.null(),
            }
        )
    )
    assert families(schema) == {
        "amount": {NUMBER},
        "at": {TIME},
        "word": {STRING},
        "blob": set(),
        "order.up": {BOOL},
        "nothing": set(Family),
    }
    assert schema.attributes["blob"].type == "binary"
    with pytest.raises(PenstockError, match="there twice"):
        Schema.from_arrow(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


NAMES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(".".join)
FAMILIES = st.frozensets(st.sampled_from(list(Family)), min_size=1)


@given(st.dictionaries(NAMES, FAMILIES, min_size=1, max_size=8), st.booleans())
def test_a_schema_that_is_written_reads_back_the_same(
    known: dict[str, frozenset[Family]], is_open: bool
) -> None:
    text = Schema.of_families(known, is_open=is_open).to_json()
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    again = Schema.from_json(text)
    assert families(again) == {name: set(some) for name, some in known.items()}
    assert again.is_open is is_open


@given(
    st.dictionaries(NAMES, st.frozensets(st.sampled_from([BOOL, NUMBER, STRING]), min_size=1), min_size=1),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from([True, 7, 1.5, "x"]), min_size=1),
)
def test_misfits_are_those_that_a_validator_finds(
    known: dict[str, frozenset[Family]], event: dict[str, object]
) -> None:
    schema = Schema.of_families(known)
    validator = jsonschema.Draft202012Validator(json.loads(schema.to_json()))
    # In flat events an attribute that is an object to the schema is a value of no family that it has.
    assert bool(list(schema.misfits(event))) is not validator.is_valid(event)  # type: ignore[arg-type]


def test_misfits_say_what_is_wrong() -> None:
    schema = Schema.from_json({"properties": {"amount": {"type": "number"}, "at": {"format": "date-time"}}})
    assert list(schema.misfits({"amount": "5", "amuont": 5, "at": Time(0)})) == [
        "'amount' is a string, but in the schema it is number",
        "the schema has no 'amuont'",
    ]


def places(schema: Schema) -> dict[str, set[Family]]:
    return {written(place): set(one.families) for place, one in schema.places() if not isinstance(place, str)}


ORDERS = {
    "properties": {
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "days": {"type": ["array", "null"], "items": {"type": ["string", "null"], "format": "date"}},
        "items": {
            "type": "array",
            "items": {
                "properties": {
                    "sku": {"type": "string"},
                    "qty": {"type": "integer"},
                    "gift": {"properties": {"wrap": {"type": "string"}}},
                    "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
                }
            },
        },
        "rows": {"items": {"type": "array", "items": {"type": "number"}}},
        "mixed": {"items": {"anyOf": [{"type": "string"}, {"properties": {"x": {"type": "boolean"}}}]}},
        "anything": {"type": "array", "items": {}},
        "objects": {"type": "array", "items": {"type": "object"}},
        "none": {"type": "array"},
    },
    "$defs": {
        "part": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "of": {"items": {"$ref": "#/$defs/part"}}},
        }
    },
}


def test_items_of_json_schema_are_elements() -> None:
    schema = Schema.from_json(ORDERS)
    assert places(schema) == {
        "tags[]": {STRING},
        "days[]": {TIME},
        "items[].sku": {STRING},
        "items[].qty": {NUMBER},
        "items[].gift.wrap": {STRING},
        "items[].parts": {LIST},
        "items[].parts[].id": {NUMBER},
        "items[].parts[].of": {LIST},
        "rows[]": {LIST},
        "rows[][]": {NUMBER},
        "mixed[]": {STRING},
        "mixed[].x": {BOOL},
    }
    elements = {name: one.elements for name, one in schema.attributes.items()}
    assert elements["anything"] is elements["none"] is None
    assert elements["objects"] is not None
    assert elements["objects"].is_open
    assert elements["items"] is not None
    assert not elements["items"].is_open
    assert not schema.is_open
    again = Schema.from_json(schema.to_json())
    assert places(again) == places(schema)
    assert {name: one.elements is None for name, one in again.attributes.items()} == {
        name: one is None for name, one in elements.items()
    }


@pytest.mark.parametrize("items", [{"allOf": [{"type": "string"}]}, {"$ref": "#"}, {"type": "null"}])
def test_items_that_are_not_read_leave_open_what_elements_are(items: object) -> None:
    schema = Schema.from_json({"properties": {"x": {"type": "array", "items": items}}})
    assert schema.attributes["x"].elements is None


def test_items_that_are_no_schema_are_refused() -> None:
    with pytest.raises(InputError, match="properties/x/items/type is 'strng'"):
        Schema.from_json({"properties": {"x": {"type": "array", "items": {"type": "strng"}}}})


def test_types_of_elements_in_arrow_are_elements() -> None:
    record = pa.struct({"sku": pa.string(), "at": pa.timestamp("us"), "raw": pa.binary()})
    schema = Schema.from_arrow(
        pa.schema(
            {
                "tags": pa.list_(pa.dictionary(pa.int8(), pa.string())),
                "items": pa.large_list(pa.struct({"sku": pa.string(), "more": pa.struct({"a": pa.bool_()})})),
                "rows": pa.list_(pa.list_(record)),
                "nothing": pa.list_(pa.null()),
                "bytes": pa.list_(pa.binary()),
            }
        )
    )
    assert places(schema) == {
        "tags[]": {STRING},
        "items[].sku": {STRING},
        "items[].more.a": {BOOL},
        "rows[]": {LIST},
        "rows[][].sku": {STRING},
        "rows[][].at": {TIME},
        "rows[][].raw": set(),
    }


def test_elements_are_held_against_a_schema() -> None:
    schema = Schema.from_json(ORDERS)
    event = Event(
        {"tags": ["a", 5], "items": [{"sku": "A", "skuu": 1}, {"parts": [{"id": "x"}]}], "none": [1]}
    )
    assert list(schema.misfits(event.attributes)) == [
        "'tags[]' is a number, but in the schema it is string",
        "the schema has no 'items[].skuu'",
        "'items[].parts[].id' is a string, but in the schema it is integer",
    ]


def test_two_schemas_of_elements_are_united() -> None:
    def of(items: object) -> Schema:
        return Schema.from_json({"properties": {"x": {"type": "array", "items": items}}})

    united = of({"properties": {"a": {"type": "string"}}}).united(
        of({"properties": {"a": {"type": "number"}}})
    )
    assert places(united) == {"x[].a": {STRING, NUMBER}}
    assert of({"type": "string"}).united(of({})).attributes["x"].elements is None
    text = Schema.from_json({"properties": {"x": {"type": "string"}}})
    assert places(text.united(of({"type": "string"}))) == {"x[]": {STRING}}


def test_fitting_looks_at_every_element_of_every_event() -> None:
    schema = Schema.from_json(ORDERS)
    events: list[dict[str, object]] = [
        {"tags": ["a", 5, None], "days": ["2024-01-01", "soon"], "none": [1]},
        {"items": [{"skuu": "x", "gift": {"wrap": 1}, "parts": [{"id": "x"}]}], "rows": [[1, "x"]]},
    ]
    expected = [
        ("days[]", {"string": 1}),
        ("items[].gift.wrap", {"number": 1}),
        ("items[].parts[].id", {"string": 1}),
        ("items[].skuu", {"string": 1}),
        ("tags[]", {"number": 1}),
    ]
    decoded = Fitting(schema)
    for event in events:
        decoded.see(event)
    assert decoded.misfits() == sorted([*expected, ("rows[][]", {"string": 1})])
    rows = pa.Table.from_pylist([{"days": events[0]["days"], "items": events[1]["items"]}])
    columns = Fitting(schema)
    for batch in rows.to_batches():
        columns.see_rows(batch, {})
    assert columns.misfits() == expected[:-1]
    found = events_that_misfit(decoded, 2)
    assert {one.attribute: one.problem for one in found} == {
        name: "unlisted" if name == "items[].skuu" else "misfit" for name, _ in decoded.misfits()
    }
    assert next(one.suggestion for one in found if one.problem == "unlisted") == "items[].sku"


def test_fitting_does_not_count_what_the_model_has_not_as_unlisted() -> None:
    schema = Schema.from_json(
        {"properties": {"n": {"enum": [5]}, "l": {"type": "array", "items": {"enum": [5]}}}}
    )
    events: list[dict[str, object]] = [{"n": 2**64 - 1, "l": [2**64 - 1, 5]}, {"n": 6, "l": [5]}]
    decoded, columns = Fitting(schema), Fitting(schema)
    for event in events:
        decoded.see(event)
    numbers = pa.array([2**64 - 1, 6], pa.uint64())
    lists = pa.array([[2**64 - 1, 5], [5]], pa.list_(pa.uint64()))
    columns.see_rows(pa.record_batch({"n": numbers, "l": lists}), {})
    for fitting in (decoded, columns):
        assert fitting.misfits() == []
        assert fitting.unlisted_values() == [("n", {"number": 1})]
        assert fitting.example("n", "number") == "6"


def test_enum_and_const_list_times() -> None:
    day = {"type": "string", "format": "date", "enum": ["2024-01-01", "2024-01-02"]}
    schema = Schema.from_json({"properties": {"day": day, "days": {"type": "array", "items": day}}})
    listed = tuple(map(Time.parse, ("2024-01-01", "2024-01-02")))
    assert schema.attributes["day"].values == listed
    assert Schema.from_json(schema.to_json()).attributes["day"].values == listed
    moment = {"type": "string", "format": "date-time", "const": "2024-01-01T05:00:00+05:00"}
    assert Schema.from_json({"properties": {"at": moment}}).attributes["at"].values == listed[:1]
    texts = ["2024-01-01T00:00:00Z", "2024-01-03", "soon"]
    moments = pa.array([0, 1_704_067_200], pa.timestamp("s"))
    no_times: dict[str, Family] = {}
    for times in (no_times, {"day": Family.TIME}):
        decoded, columns, of_times = (Fitting(schema, times) for _ in range(3))
        for text in texts:
            decoded.see({"day": text})
        columns.see_rows(pa.record_batch({"day": texts}), times)
        for fitting in (decoded, columns):
            label = "time" if times else "string"
            assert fitting.unlisted_values() == [("day", {label: 1})]
            assert fitting.example("day", label) == "'2024-01-03'"
        of_times.see_rows(pa.record_batch({"day": moments}), times)
        assert of_times.unlisted_values() == [("day", {"time": 1})]
        assert of_times.example("day", "time") == "1970-01-01T00:00:00Z"
    found = events_that_misfit(of_times, 2)
    assert found[0].detail == "2024-01-01T00:00:00Z, 2024-01-02T00:00:00Z"
    lists = Fitting(schema)
    lists.see({"days": ["2024-01-01", "2024-01-03"]})
    assert lists.unlisted_values() == [("days[]", {"string": 1})]


def test_text_may_be_listed_as_a_time_or_as_text() -> None:
    either = {"anyOf": [{"enum": ["soon"]}, {"type": "string", "format": "date", "const": "2024-01-01"}]}
    schema = Schema.from_json({"properties": {"day": either}})
    assert set(Schema.from_json(schema.to_json()).attributes["day"].values or ()) == {
        "soon",
        Time.parse("2024-01-01"),
    }
    fitting = Fitting(schema)
    for text in ("soon", "2024-01-01", "late", "2024-01-02"):
        fitting.see({"day": text})
    assert fitting.unlisted_values() == [("day", {"string": 2})]


def test_numbers_of_a_schema_are_read_exactly() -> None:
    text = '{"properties": {"x": {"enum": [0.1000000000000000001, 2.50, 1]}, "y": {"maximum": 1e999}}}'
    schema = Schema.from_json(text)
    values = schema.attributes["x"].values
    assert values == (ExactDecimal("0.1000000000000000001"), 2.5, 1)
    assert not schema.attributes["x"].lists(0.1)
    assert Schema.from_json(schema.to_json()).attributes["x"].values == values
    with pytest.raises(PenstockError, match="DECIMAL_DIGITS_MAX"):
        Schema.from_json('{"properties": {"x": {"const": 0.1%s1}}}' % ("0" * 80))


def test_a_list_without_elements_is_written_as_such() -> None:
    schema = Schema.from_json({"properties": {"l": {"type": "array", "items": False}}})
    assert '"items": false' in schema.to_json()
    again = Schema.from_json(schema.to_json())
    assert again.attributes["l"].elements == schema.attributes["l"].elements == Schema({})
