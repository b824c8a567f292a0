"""Events: flattening, limits, JSON, equality."""

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Event, Family, Time
from penstock.errors import EventError, LimitError, PenstockError, UnsupportedValueError
from penstock.model.events import Unsupported
from penstock.model.limits import (
    ATTRIBUTES_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_LENGTH_MAX,
    NESTING_MAX,
    STRING_LENGTH_MAX,
)
from penstock.model.values import to_value
from strategies import BOOLS, NUMBERS, STRINGS, TIMES

SCALARS = st.sampled_from([*map(to_value, NUMBERS), *STRINGS, *TIMES, *BOOLS, math.nan, math.inf])
JSON_SCALARS = st.one_of(
    st.booleans(),
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
NAMES = st.text(st.sampled_from("abcé"), min_size=1, max_size=3)


def nested(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    inner = st.recursive(
        scalars, lambda part: st.dictionaries(NAMES, part, min_size=1, max_size=3), max_leaves=8
    )
    return st.dictionaries(NAMES, inner, max_size=4)


def leaves(attributes: dict[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(value, dict):
            found |= leaves(value, (*path, name))
        else:
            found[".".join((*path, name))] = value
    return found


def deep(levels: int) -> dict[str, Any]:
    """An event with so many objects around its value."""
    event: dict[str, Any] = {"v": 1}
    for _ in range(levels):
        event = {"a": event}
    return event


@pytest.mark.property
@given(nested(SCALARS))
def test_nested_objects_are_flattened_with_dots(attributes: dict[str, Any]) -> None:
    flat = leaves(attributes)
    event = Event(attributes)
    assert dict(event) == flat
    assert event == Event(flat) == Event(event)
    assert hash(event) == hash(Event(dict(reversed(flat.items()))))
    assert pickle.loads(pickle.dumps(event)) == event  # noqa: S301


@pytest.mark.property
@given(nested(JSON_SCALARS))
def test_json_text_says_what_its_dict_says(attributes: dict[str, Any]) -> None:
    expected = Event(attributes)
    text = json.dumps(attributes)
    assert Event.from_json(text) == Event.from_json(text.encode()) == expected
    utf8 = json.dumps(attributes, ensure_ascii=False).encode()
    assert [type(v) for v in Event.from_json(utf8).values()] == [type(v) for v in expected.values()]


@pytest.mark.property
@given(SCALARS, SCALARS)
def test_equal_events_have_the_same_families_values_and_hashes(a: Any, b: Any) -> None:
    same_family = isinstance(a, bool) == isinstance(b, bool) and not isinstance(a, str) ^ isinstance(b, str)
    same = same_family and (a == b or (a != a and b != b))
    assert (Event({"x": a}) == Event({"x": b})) is same
    if same:
        assert hash(Event({"x": a})) == hash(Event({"x": b}))


@pytest.mark.property
@given(st.text(max_size=30) | st.text(st.sampled_from('{}[]",:1e-.\\ud8 tn'), max_size=30) | st.binary())
def test_any_text_is_an_event_or_an_error_of_ours(text: str | bytes) -> None:
    try:
        event = Event.from_json(text)
    except PenstockError as error:
        assert str(error)
    else:
        assert event == Event(json.loads(text, parse_constant=pytest.fail))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (True, 1, False),
        (False, 0.0, False),
        (2, 2.0, True),
        (0.0, -0.0, True),
        (2**53 + 1, 2.0**53, False),
        (math.nan, float("nan"), True),
        (math.nan, "nan", False),
        (0, Time(0), False),
        ("1", 1, False),
        (Time(5), Time(5), True),
    ],
)
def test_events_are_equal_by_family_and_value(a: Any, b: Any, equal: bool) -> None:
    assert (Event({"x": a}) == Event({"x": b})) is equal
    assert (len({Event({"x": a}), Event({"x": b})}) == 1) is equal


def test_an_event_differs_from_its_dict_and_from_other_names() -> None:
    assert Event({"x": 1}) != {"x": 1}
    assert Event({"x": 1}) != Event({"y": 1})
    assert Event({"x": 1}) != Event({"x": 1, "y": 1})


def test_an_event_is_a_mapping_that_shows_its_attributes() -> None:
    event = Event({"order": {"price": 5}, "open": True})
    assert (len(event), list(event), event["order.price"], event.get("order")) == (
        2,
        ["order.price", "open"],
        5,
        None,
    )
    assert "open" in event
    assert repr(event) == "Event({'order.price': 5, 'open': True})"
    with pytest.raises(KeyError):
        event["order"]


def test_an_event_keeps_its_attributes_when_its_source_changes() -> None:
    inner = {"b": 1}
    source: dict[str, object] = {"a": inner, "c": 2}
    event = Event(source)
    inner["b"], source["c"] = 10, 20
    assert dict(event) == {"a.b": 1, "c": 2}


def test_an_event_takes_no_assignment() -> None:
    event: Any = Event({"a": 1})
    with pytest.raises(TypeError, match="item assignment"):
        event["a"] = 2
    with pytest.raises(AttributeError):
        event.other = 2


def test_events_are_copied_and_pickled() -> None:
    event = Event({"a": 1, "t": Time(5), "n": math.nan})
    assert copy.copy(event) == copy.deepcopy(event) == event
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(event, protocol)) == event  # noqa: S301


@pytest.mark.parametrize("attributes", [{"a": {"b": 1}, "a.b": 2}, {"a.b": 2, "a": {"b": 1}}])
def test_a_name_both_nested_and_dotted_is_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(EventError, match=r"'a\.b' is there twice"):
        Event(attributes)


@pytest.mark.property
@given(nested(SCALARS))
def test_what_was_nested_comes_back_nested(attributes: dict[str, Any]) -> None:
    event = Event(attributes)
    assert Event(event.nested()) == event
    assert leaves(event.nested()) == leaves(attributes)


def test_names_with_dots_come_back_nested_where_they_can_be_read_back() -> None:
    assert Event({"order.price": 1, "order": {"n": 2}}).nested() == {"order": {"price": 1, "n": 2}}
    assert Event({"a": 1, "a.b": 2, ".c": 3, "d.": 4}).nested() == {"a": 1, "a.b": 2, ".c": 3, "d.": 4}


def test_a_name_may_be_the_beginning_of_another() -> None:
    assert dict(Event({"a": 1, "a.b": 2})) == {"a": 1, "a.b": 2}


NULLS: list[Any] = [None, np.datetime64("NaT"), np.datetime64("NaT", "ns"), pd.NaT, pd.NA]


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_null_is_absence(null: Any) -> None:
    assert dict(Event({"a": null, "b": {"c": null, "d": 1}})) == {"b.d": 1}
    assert Event({"a": null}) == Event({"a": {"b": null}}) == Event({})
    assert dict(Event({"a": {"b": null}, "a.b": 2})) == {"a.b": 2}


def test_an_event_may_have_no_attributes() -> None:
    assert dict(Event({})) == dict(Event({"a": {}})) == dict(Event.from_json('{"a": null}')) == {}
    assert dict(Event({"a": {"b": {}}, "c": 1})) == {"c": 1}
    for attributes in (None, "", 0):
        with pytest.raises(EventError, match="a mapping of names to values"):
            Event(attributes)  # type: ignore[arg-type]


def test_a_family_may_be_given_by_its_name() -> None:
    assert Event({"at": "1970-01-01"}).with_family({"at": "time"})["at"] == Time(0)
    with pytest.raises(UnsupportedValueError, match="no family 'date'; the families are bool"):
        Event({"at": "1970-01-01"}).with_family({"at": "date"})


@pytest.mark.parametrize("attributes", [None, [("a", 1)], "a", 5])
def test_what_is_no_mapping_is_refused(attributes: Any) -> None:
    with pytest.raises(EventError, match="a mapping of names to values"):
        Event(attributes)


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "is empty"), (1, "is a string, not int"), (None, "not NoneType"), ("\ud800", "lone surrogate")],
)
def test_bad_names_are_refused_at_every_level(name: Any, why: str) -> None:
    for attributes in ({name: 1}, {"a": {name: 1}}, {"a": {name: {"b": 1}}}):
        with pytest.raises(EventError, match=why):
            Event(attributes, unsupported="skip")


def test_a_name_is_as_long_as_the_limit_and_no_longer() -> None:
    half = "é" * (NAME_LENGTH_MAX // 2)
    assert [len(name) for name in Event({half: {half[1:]: 1}, half + half: 1})] == [NAME_LENGTH_MAX] * 2
    for attributes in ({half + half + "é": 1}, {half: {half: 1}}):
        with pytest.raises(LimitError, match="NAME_LENGTH_MAX"):
            Event(attributes)


def test_an_event_has_as_many_attributes_as_the_limit_and_no_more() -> None:
    most = {f"a{i}": i for i in range(ATTRIBUTES_MAX)}
    assert len(Event(most)) == ATTRIBUTES_MAX
    for attributes in (most | {"b": 1}, {"x": most, "b": 1}, {"x": {"y": most}, "z": {"b": 1}}):
        with pytest.raises(LimitError, match="ATTRIBUTES_MAX"):
            Event(attributes)


def test_objects_nest_as_deep_as_the_limit_and_no_deeper() -> None:
    assert list(Event(deep(NESTING_MAX))) == ["a." * NESTING_MAX + "v"]
    circular: dict[str, Any] = {}
    circular["a"] = circular
    for attributes in (deep(NESTING_MAX + 1), circular):
        with pytest.raises(LimitError, match="NESTING_MAX"):
            Event(attributes)


UNSUPPORTED: list[Any] = [b"x", 2**63, "\ud800", 10**400, object()]


@pytest.mark.parametrize("value", UNSUPPORTED, ids=lambda value: repr(value)[:20])
def test_an_unsupported_value_is_refused_by_its_path_or_skipped(value: Any) -> None:
    attributes = {"a": {"b": value}, "c": 1}
    with pytest.raises(UnsupportedValueError, match=r"^'a\.b': .*unsupported='skip'"):
        Event(attributes)
    assert dict(Event(attributes, unsupported="skip")) == {"c": 1}
    assert dict(Event({"a": {"b": value}}, unsupported="skip")) == {}


def test_skipping_does_not_pass_over_what_exceeds_a_limit() -> None:
    with pytest.raises(LimitError, match="STRING_LENGTH_MAX"):
        Event({"a": "x" * (STRING_LENGTH_MAX + 1), "c": 1}, unsupported="skip")


def test_only_refuse_and_skip_can_be_said() -> None:
    wrong: Unsupported = "ignore"  # type: ignore[assignment]
    with pytest.raises(EventError, match="'refuse' or 'skip'"):
        Event({"a": 1}, unsupported=wrong)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a JSON object"),
        ('{"a": 1', "not a JSON object"),
        ('{"a": 1} x', "trailing characters"),
        ("{'a': 1}", "not a JSON object"),
        ('{"a": NaN}', "not a JSON object"),
        ('{"a": 1e999}', "not a JSON object"),
        ("null", "not null"),
        ("[]", "not an array"),
        ('"a"', "not a string"),
        ("true", "not a boolean"),
        ("1", "not a number"),
        ("1.5", "not a number"),
        (b"\xff", "not a JSON object"),
        (b'{"a": "\xff"}', "not a JSON object"),
        (b'{"\xff": 1}', "not a JSON object"),
        ('{"a": "\\ud800"}', "not a JSON object"),
        ('{"a": "\ud800"}', "not a JSON object"),
    ],
)
def test_what_is_no_json_object_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(EventError, match=why):
        Event.from_json(text)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**400])
def test_an_integer_beyond_64_bits_in_json_is_refused_or_skipped(number: int) -> None:
    text = f'{{"a": {number}, "b": 1}}'
    with pytest.raises(UnsupportedValueError, match=r"'a': .*64-bit"):
        Event.from_json(text)
    assert Event.from_json(text, unsupported="skip") == Event({"b": 1})


@pytest.mark.parametrize("depth", [NESTING_MAX + 2, 1_000, 100_000])
def test_json_that_nests_too_deep_is_refused(depth: int) -> None:
    with pytest.raises(LimitError, match="NESTING_MAX"):
        Event.from_json('{"a":' * depth + "1" + "}" * depth)


def test_json_nests_as_deep_as_the_limit() -> None:
    assert Event.from_json(json.dumps(deep(NESTING_MAX))) == Event(deep(NESTING_MAX))


def test_of_a_key_that_json_has_twice_the_last_counts() -> None:
    assert dict(Event.from_json('{"a": 1, "a": 2}')) == {"a": 2}


def test_json_numbers_keep_their_type_and_every_digit() -> None:
    event = Event.from_json('{"i": 9007199254740993, "d": 1.0, "least": -9223372036854775808}')
    assert [(v, type(v)) for v in event.values()] == [(2**53 + 1, int), (1.0, float), (INTEGER_MIN, int)]


@pytest.mark.parametrize(
    ("value", "family", "read"),
    [
        ("2013-01-31T05:00:00Z", Family.TIME, Time.parse("2013-01-31T05:00:00Z")),
        ("7", Family.NUMBER, 7),
        (" 7.5 ", Family.NUMBER, 7.5),
        ("9007199254740993", Family.NUMBER, 2**53 + 1),
        ("true", Family.BOOL, True),
        ("false", Family.BOOL, False),
        (True, Family.STRING, "true"),
        (7, Family.STRING, "7"),
        (7.5, Family.STRING, "7.5"),
        (Time(0), Family.STRING, "1970-01-01T00:00:00Z"),
        ("x", Family.STRING, "x"),
        (7, Family.NUMBER, 7),
        (Time(5), Family.TIME, Time(5)),
    ],
)
def test_an_attribute_is_read_as_another_family(value: Any, family: Family, read: Any) -> None:
    event = Event({"a": value, "b": 1})
    changed = event.with_family({"a": family, "missing": family})
    assert (changed["a"], type(changed["a"])) == (read, type(read))
    assert dict(changed) == {"a": read, "b": 1}
    assert event == Event({"a": value, "b": 1})


@pytest.mark.parametrize(
    ("value", "family", "why"),
    [
        ("soon", Family.TIME, "'soon' is not a time"),
        (7, Family.TIME, "'a': 7 cannot be read as a time"),
        ("true", Family.NUMBER, "'a': 'true' cannot be read as a number"),
        ("1e999", Family.NUMBER, "cannot be read as a number"),
        ("", Family.NUMBER, "cannot be read as a number"),
        ("[1]", Family.NUMBER, "cannot be read as a number"),
        (True, Family.NUMBER, "'a': True cannot be read as a number"),
        (Time(0), Family.NUMBER, "cannot be read as a number"),
        ("9223372036854775808", Family.NUMBER, "64-bit"),
        (1, Family.BOOL, "'a': 1 cannot be read as a bool"),
        ("1", Family.BOOL, "cannot be read as a bool"),
        ("null", Family.BOOL, "cannot be read as a bool"),
    ],
)
def test_what_cannot_be_read_as_a_family_is_refused(value: Any, family: Family, why: str) -> None:
    with pytest.raises(UnsupportedValueError, match=why):
        Event({"a": value}).with_family({"a": family})
