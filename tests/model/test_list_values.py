"""Lists as values of events: elements, records, nothing, limits, and back again."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Event, Time
from penstock.errors import LimitError, UnsupportedValueError
from penstock.model.limits import ELEMENTS_MAX, NESTING_MAX
from penstock.model.nesting import nested_json
from penstock.model.packed import decode_event, encode_event

SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=3)
)
ELEMENTS = st.recursive(
    st.one_of(SCALARS, st.builds(Time, st.integers(-5, 5))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2), st.none()
    ),
    max_leaves=6,
)
EVENTS = st.dictionaries(st.sampled_from("xyz"), ELEMENTS, max_size=3)


def kept(value: Any) -> Any:
    """What is left of a value without nulls, lists of nothing, and objects of nothing in objects; or None."""
    if isinstance(value, list):
        elements = [kept(each) for each in value]
        # A record of nothing is an element all the same.
        found = [{} if isinstance(v, dict) and e is None else e for v, e in zip(value, elements, strict=True)]
        return [each for each in found if each is not None] or None
    if isinstance(value, dict):
        return {name: inner for name, each in value.items() if (inner := kept(each)) is not None} or None
    return value


@pytest.mark.property
@given(EVENTS)
def test_lists_come_back_as_they_were_without_what_is_nothing(given_event: dict[str, Any]) -> None:
    event = Event(given_event)
    assert event.nested() == (kept(given_event) or {})
    assert Event(event.nested()) == event
    assert hash(Event(event.nested())) == hash(event)
    assert pickle.loads(pickle.dumps(event)) == event  # noqa: S301
    assert decode_event(encode_event(event)) == event


def test_elements_are_values_records_and_lists() -> None:
    event = Event({"a": [1, "x", None, True, [2, []], {"b": {"c": 5}, "d": None}, {}]})
    assert event["a"] == (1, "x", True, (2,), Event({"b.c": 5}), Event({}))
    assert Event.from_json('{"a": [1, {"b": {"c": 5}}]}')["a"] == (1, Event({"b.c": 5}))


@pytest.mark.parametrize("nothing", [[], [None], [[]], (), set(), np.array([])])
def test_a_list_without_elements_is_absence(nothing: Any) -> None:
    assert Event({"a": nothing}) == Event({})


def test_tuples_sets_and_arrays_are_lists() -> None:
    assert Event({"a": (1, 2)}) == Event({"a": np.array([1, 2])}) == Event({"a": [1, 2]})
    assert Event({"a": {1}}) == Event({"a": frozenset([1])}) == Event({"a": [1]})


def test_what_an_element_is_matters() -> None:
    assert Event({"a": [1]}) == Event({"a": [1.0]})
    assert Event({"a": [1]}) != Event({"a": [True]})
    assert Event({"a": [1, 2]}) != Event({"a": [2, 1]})
    assert Event({"a": [1]}) != Event({"a": 1})


def test_an_element_without_a_family_is_refused_or_left_out() -> None:
    with pytest.raises(UnsupportedValueError, match=r"'a\[\]': .*bytes"):
        Event({"a": [1, b"x"]})
    assert Event({"a": [1, b"x"], "b": [b"x"]}, unsupported="skip") == Event({"a": [1]})


def test_limits_of_lists() -> None:
    Event({"a": [0] * ELEMENTS_MAX})
    with pytest.raises(LimitError, match="ELEMENTS_MAX"):
        Event({"a": [0] * (ELEMENTS_MAX + 1)})
    deep: Any = 0
    for _ in range(NESTING_MAX + 1):
        deep = [deep]
    assert decode_event(encode_event(Event({"a": deep}))) == Event({"a": deep})
    with pytest.raises(LimitError, match="NESTING_MAX"):
        Event({"a": [deep]})
    circular: list[Any] = []
    circular.append(circular)
    with pytest.raises(LimitError, match="NESTING_MAX"):
        Event({"a": circular})


def test_json_has_text_for_the_times_in_lists() -> None:
    event = Event({"a": [Time(0), {"b": Time(0)}]})
    assert nested_json(event.attributes) == {"a": ["1970-01-01T00:00:00Z", {"b": "1970-01-01T00:00:00Z"}]}
