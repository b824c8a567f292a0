"""CloudEvents become events and come back; what cannot is refused by its path."""

import base64
import json
import math
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway_cases import MINIMAL, cloudevents, dotted_names, flat_events, scalars, times
from penstock.errors import EventError, LimitError, UnsupportedValueError
from penstock.model.events import Event, flatten
from penstock.model.nesting import nest
from penstock.model.values import Time
from penstock.net.gateway.cloudevents import from_binary, from_structured, is_cloudevent, to_structured
from penstock.net.gateway.formats import MalformedError, decode_json, encode_json


@pytest.mark.property
@given(cloudevents())
def test_a_cloudevent_comes_back_as_it_was(document: dict[str, Any]) -> None:
    event = from_structured(decode_json(json.dumps(document)))
    assert is_cloudevent(event.attributes)
    assert to_structured(event, "b1", "origin", 7) == document


@pytest.mark.property
@given(cloudevents(), st.sampled_from((None, "application/json", "text/plain; charset=utf-8", "image/png")))
def test_binary_mode_says_the_same_as_structured_mode(
    document: dict[str, Any], content_type: str | None
) -> None:
    document = {n: v for n, v in document.items() if n not in ("datacontenttype", "data_base64")}
    data = document.pop("data", None)
    context = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in document.items()
    }
    expected = dict(context)
    body = b""
    if content_type is not None:
        expected["datacontenttype"] = content_type
        if content_type == "application/json" and data is not None:
            body = json.dumps(data).encode()
            expected["data"] = data
        elif data is not None:
            assume(str(data))
            body = str(data).encode()
            is_text = content_type.startswith("text/")
            expected |= {"data": str(data)} if is_text else {"data_base64": base64.b64encode(body).decode()}
    headers = [(f"ce-{name}", percent_encoded(value)) for name, value in context.items()]
    assert from_binary(headers, content_type, body) == from_structured(expected)


@pytest.mark.property
@given(flat_events)
def test_dotted_names_nest_into_objects_that_flatten_into_the_same(flat: dict[str, Any]) -> None:
    assert Event(nest(flat)) == Event.from_flat(flat)


def test_names_with_hundreds_of_dots_nest_only_so_deep_that_they_can_be_read_back() -> None:
    flat = {"a." * 200 + "b": 1}
    assert flatten({"data": nest(flat)}) == {f"data.{name}": value for name, value in flat.items()}


@pytest.mark.property
@given(st.dictionaries(dotted_names, st.one_of(scalars, times, st.floats()), min_size=1, max_size=8))
def test_any_event_can_be_delivered_as_a_cloudevent(attributes: dict[str, Any]) -> None:
    document = json.loads(encode_json(to_structured(Event.from_flat(attributes), "b/1", "me", 3)))
    assert (document["type"], document["id"], document["source"]) == (
        "penstock.event",
        "me/3",
        "/penstock/b%2F1",
    )
    has_nulls = any(isinstance(v, float) and not math.isfinite(v) for v in attributes.values())
    if not has_nulls:
        wrapped = {n: str(v) if isinstance(v, Time) else v for n, v in attributes.items()}
        assert Event(document["data"]) == Event.from_flat(wrapped)
        assert to_structured(from_structured(document), "other", "other", 9) == document


@pytest.mark.property
@given(
    st.dictionaries(
        st.sampled_from((*MINIMAL, "time", "data", "data.a", "data.", "data_base64", "Upper", "ext")),
        st.one_of(scalars, times, st.sampled_from(("1.0", "YQ=="))),
        min_size=1,
    )
)
def test_what_is_delivered_is_always_a_cloudevent_that_could_be_published(attributes: dict[str, Any]) -> None:
    document = json.loads(
        encode_json(to_structured(Event.from_flat({**MINIMAL, **attributes}), "b1", "me", 3))
    )
    assert to_structured(from_structured(document), "b1", "me", 3) == document


def test_context_attributes_are_attributes_and_data_is_flattened() -> None:
    document = {
        **MINIMAL,
        "time": "2018-04-05T19:31:00+02:00",
        "urgent": True,
        "data": {"a": {"b": 1}, "c": "x"},
    }
    event = from_structured(document)
    assert event["time"] == Time.parse("2018-04-05T17:31:00Z")
    assert (event["id"], event["urgent"], event["data.a.b"], event["data.c"]) == ("a1", True, 1, "x")


def test_null_context_attributes_are_absent() -> None:
    assert from_structured({**MINIMAL, "subject": None, "time": None}) == from_structured(MINIMAL)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ([2**64], "'data[]'"),
        ({"a": {"b": 2**64}}, "'data.a.b'"),
        ({"a": [2**64]}, "'data.a[]'"),
    ],
)
def test_what_has_no_family_is_refused_by_its_path(data: object, path: str) -> None:
    with pytest.raises(UnsupportedValueError, match=re.escape(path)):
        from_structured({**MINIMAL, "data": data})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": None}, "'id'"),
        ({"id": ""}, "'id'"),
        ({"source": 7}, "'source'"),
        ({"specversion": "0.3"}, "'specversion'"),
        ({"time": "yesterday"}, "'time'"),
        ({"time": "2018-04-05"}, "'time'"),
        ({"time": 5}, "'time'"),
        ({"Upper": "x"}, "'Upper'"),
        ({"with.dot": "x"}, "'with.dot'"),
        ({"ext": 2**31}, "'ext'"),
        ({"ext": 1.5}, "'ext'"),
        ({"ext": ["x"]}, "'ext'"),
        ({"subject": "two\nlines"}, "'subject'"),
        ({"data": 1, "data_base64": "YQ=="}, "either"),
        ({"data_base64": "not base64!"}, "data_base64"),
        ({"data_base64": "YR=="}, "data_base64"),
        ({"data_base64": 5}, "data_base64"),
    ],
)
def test_what_is_no_cloudevent_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(MalformedError, match=message):
        from_structured({**MINIMAL, **changes})


def test_times_beyond_the_model_are_refused() -> None:
    for text in ("1500-01-01T00:00:00Z", "2018-04-05T17:31:60Z", "2018-04-05T17:31:00.1234567891Z"):
        with pytest.raises(UnsupportedValueError):
            from_structured({**MINIMAL, "time": text})


def test_bytes_that_are_too_many_are_refused() -> None:
    with pytest.raises(LimitError, match="STRING_LENGTH_MAX"):
        from_binary(binary_headers(), "image/png", bytes(2**20))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        (b"%e2%82%ac", "€"),
        (b"%61%2525", "a%25"),
        (b'"quoted \\"text\\""', 'quoted "text"'),
        (b"100%", "100%"),
    ],
)
def test_headers_are_unquoted_and_percent_decoded_once(raw: bytes, expected: str) -> None:
    assert from_binary([*binary_headers(), ("ce-subject", raw)], None, b"")["subject"] == expected


@pytest.mark.parametrize("raw", [b"%C0%A0", b"%ff", b"\xff", b"%00", b"a%0d%0ab", b"%7f", b""])
def test_headers_that_hide_control_characters_or_bad_unicode_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        from_binary([*binary_headers(), ("ce-subject", raw)], None, b"")


@pytest.mark.parametrize("name", ["ce-id", "ce-datacontenttype", "ce-data", "ce-", "ce-a.b", "ce-a_b"])
def test_headers_that_a_cloudevent_does_not_have_are_refused(name: str) -> None:
    with pytest.raises(MalformedError):
        from_binary([*binary_headers(), (name, b"x")], None, b"")


def test_text_that_is_no_utf8_stays_bytes() -> None:
    for content_type in ("text/plain", "text/plain; charset=latin-1"):
        event = from_binary(binary_headers(), content_type, b"\xe9")
        assert event["data_base64"] == "6Q=="


def test_data_that_is_no_json_is_refused_where_json_is_declared() -> None:
    with pytest.raises(EventError, match="not JSON"):
        from_binary(binary_headers(), "application/vnd.x+json", b"{")


def binary_headers() -> list[tuple[str, bytes]]:
    return [(f"ce-{name}", value.encode()) for name, value in MINIMAL.items()]


def percent_encoded(text: str) -> bytes:
    """As section 3.1.3.2 of the HTTP binding says: space, quote, percent, and what is not printable ASCII."""
    kept = [
        c if "!" <= c <= "~" and c not in '"%' else "".join(f"%{b:02X}" for b in c.encode()) for c in text
    ]
    return "".join(kept).encode()
