import math
import struct
from collections.abc import Callable
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching_cases import EVENT, Attributes
from packed_cases import ANY_BYTES, ANY_NAMES, ANY_VALUES, PAIRS, Pair, forms_of, forms_of_map, packed
from penstock.errors import EventError, LimitError, PenstockError, UnsupportedValueError
from penstock.model.decimals import ExactDecimal
from penstock.model.events import Event
from penstock.model.limits import (
    ATTRIBUTES_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_LENGTH_MAX,
    STRING_LENGTH_MAX,
)
from penstock.model.packed import encode_decimal
from penstock.model.values import Time
from penstock.wire.events import decode_event, encode_event


def one(value: bytes, name: bytes = b"\xa1a") -> bytes:
    """A map of one attribute."""
    return b"\x81" + name + value


@pytest.mark.property
@given(st.one_of(EVENT, st.dictionaries(ANY_NAMES, ANY_VALUES, min_size=1)))
def test_what_is_encoded_is_decoded_to_the_same(attributes: Attributes) -> None:
    event = Event(attributes)
    decoded = decode_event(encode_event(event))
    assert decoded == event
    # Also which of 1, 1.0 and True it is, and the order.
    assert repr(decoded) == repr(event)


@pytest.mark.property
@given(EVENT)
def test_the_bytes_are_a_message_pack_map(attributes: Attributes) -> None:
    read = msgspec.msgpack.decode(encode_event(Event(attributes)))
    for name, value in Event(attributes).items():
        if isinstance(value, tuple):
            assert isinstance(read[name], list)
            assert len(read[name]) == len(value)
        elif isinstance(value, ExactDecimal):
            assert (read[name].code, read[name].data) == (2, encode_decimal(value))
            assert Decimal(read[name].data.decode()) == Decimal(value)
        elif isinstance(value, Time):
            assert (read[name].code, read[name].data) == (1, struct.pack(">q", value.nanoseconds))
        else:
            assert repr(read[name]) == repr(value)


@pytest.mark.property
@given(PAIRS, st.data())
def test_every_form_of_a_value_is_read_and_of_a_name_the_last_counts(
    pairs: list[Pair], data: st.DataObject
) -> None:
    encoded = data.draw(packed(pairs))
    assert decode_event(encoded) == Event(dict(pairs))
    assert decode_event(memoryview(encoded)) == decode_event(bytearray(encoded)) == Event(dict(pairs))


@pytest.mark.property
@given(ANY_BYTES)
def test_whatever_the_bytes_are_they_are_an_event_or_raise_an_error_of_ours(data: bytes) -> None:
    try:
        event = decode_event(data)
    except (EventError, LimitError):
        return
    # What was accepted, the model accepts.
    assert Event(event.attributes) == event
    assert decode_event(encode_event(event)) == event


@pytest.mark.property
@given(PAIRS.flatmap(packed), st.data())
def test_no_beginning_of_an_event_is_one_nor_an_event_with_more_behind_it(
    encoded: bytes, data: st.DataObject
) -> None:
    with pytest.raises(EventError):
        decode_event(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(EventError):
        decode_event(encoded + data.draw(st.binary(min_size=1, max_size=5)))


def test_a_time_is_eight_bytes_in_an_extension() -> None:
    assert encode_event(Event({"a": Time(-2)})) == b"\x81\xa1a\xd7\x01" + b"\xff" * 7 + b"\xfe"
    for nanoseconds in (INTEGER_MIN, -1, 0, 1, INTEGER_MAX):
        event = Event({"a": Time(nanoseconds), "b": 1})
        assert decode_event(encode_event(event)) == event


def test_doubles_keep_their_sign_and_nan_stays() -> None:
    decoded = decode_event(encode_event(Event({"zero": -0.0, "nan": math.nan, "least": 5e-324})))
    assert math.copysign(1, decoded["zero"]) == -1  # type: ignore[arg-type]
    assert repr(decoded.attributes) == "{'zero': -0.0, 'nan': nan, 'least': 5e-324}"


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (b"", EventError, "no byte at all"),
        (b"\x80\x01", EventError, "trailing"),
        (b"\xdf\x00\x00\x00\x00\x01", EventError, "trailing"),
        (b"\xde\x00", EventError, "end within the length"),
        (b"\x91\x01", EventError, "a MessagePack map, which does not begin with the byte 0x91"),
        (b"\xc1", EventError, "0xc1"),
        (b'{"a": 1}', EventError, "0x7b"),
        (one(b""), EventError, "truncated"),
        (one(b"\x01\x02"), EventError, "trailing"),
        (one(b"\xc1"), EventError, "invalid"),
        (one(b"\xc0"), UnsupportedValueError, "'a': a value that is null has no family"),
        (one(b"\x90"), UnsupportedValueError, "'a': a list without elements is no value"),
        (one(b"\x91\xc0"), UnsupportedValueError, "'a': a list has an element of the type NoneType"),
        (one(b"\x91\x81\xa1b" + one(b"\x01")), UnsupportedValueError, "a map within a record"),
        (one(b"\xdd\x00\x00\x00\x00"), UnsupportedValueError, "a list without elements"),
        (one(b"\xc4\x01a"), UnsupportedValueError, "'a': a value that is bytes has no family"),
        (one(one(b"\x01")), UnsupportedValueError, "'a': a map within an event .* dotted names"),
        (one(b"\xde\x00\x00"), UnsupportedValueError, "a map within an event"),
        (one(b"\x91" * 100_000 + b"\x01"), EventError, "recursion"),
        (one(b"\xdd\xff\xff\xff\xff"), EventError, "truncated"),
        (one(b"\xa1\xff"), UnsupportedValueError, "'a': .* not UTF-8"),
        (one(b"\xa3\xed\xa0\x80"), UnsupportedValueError, "not UTF-8"),
        (one(b"\xa2\xc0\x80"), UnsupportedValueError, "not UTF-8"),
        (one(b"\xcf" + b"\xff" * 8), UnsupportedValueError, "'a': .* does not fit a 64-bit integer"),
        (one(b"\xd7\x03" + bytes(8)), UnsupportedValueError, "'a': an extension of type 3 and 8 bytes"),
        (one(b"\xd7\x02" + bytes(8)), UnsupportedValueError, "'a': .* is not a decimal"),
        (one(b"\xd7\xff" + bytes(8)), UnsupportedValueError, "type -1"),
        (one(b"\xd6\x01" + bytes(4)), UnsupportedValueError, "type 1 and 4 bytes"),
        (one(b"\x01", b"\xa0"), EventError, "name is empty"),
        (one(b"\x01", b"\x01"), EventError, "name is a string, not int"),
        (one(b"\x01", b"\xc4\x01a"), EventError, "name is a string: .* bytes"),
        (one(b"\x01", b"\xa1\xff"), EventError, "name is a string: .* not UTF-8"),
        (one(b"\x01", b"\xd7\x01" + bytes(8)), EventError, "name is a string, not Ext"),
        (b"\x82\xa1a\xc0\xa1a\x01", UnsupportedValueError, "'a': a value that is null"),
        (b"\x82\xa1a\xd7\x03" + bytes(8) + b"\xa1a\x01", UnsupportedValueError, "'a': an extension"),
    ],
)
def test_what_is_no_event_is_refused_and_the_error_says_why(
    data: bytes, kind: type[PenstockError], message: str
) -> None:
    with pytest.raises(kind, match=message) as raised:
        decode_event(data)
    assert raised.type is kind


def of_name_length(length: int) -> bytes:
    return one(b"\x01", forms_of("é" * length)[0])


def of_string_length(length: int) -> bytes:
    return one(forms_of("é" * length)[0])


def of_size(count: int) -> bytes:
    return forms_of_map(count)[0] + b"".join(forms_of(f"{n}")[0] + b"\x01" for n in range(count))


def of_one_name(count: int) -> bytes:
    return forms_of_map(count)[0] + b"\xa1a\x01" * count


@pytest.mark.parametrize(
    ("made", "limit", "name"),
    [
        (of_name_length, NAME_LENGTH_MAX, "NAME_LENGTH_MAX"),
        (of_string_length, STRING_LENGTH_MAX, "STRING_LENGTH_MAX"),
        (of_size, ATTRIBUTES_MAX, "ATTRIBUTES_MAX"),
        (of_one_name, ATTRIBUTES_MAX, "ATTRIBUTES_MAX"),
    ],
)
def test_limits_are_reached_and_not_exceeded(made: Callable[[int], bytes], limit: int, name: str) -> None:
    decode_event(made(limit))
    with pytest.raises(LimitError) as raised:
        decode_event(made(limit + 1))
    assert raised.value.limit_name == name


def test_a_map_that_claims_to_be_huge_is_refused_at_once() -> None:
    with pytest.raises(LimitError, match="ATTRIBUTES_MAX"):
        decode_event(b"\xdf\xff\xff\xff\xff\xa1a\x01")


def test_an_event_is_decoded_from_bytes_only() -> None:
    assert decode_event(memoryview(b"\x81-\xa1-a-\x01-")[::2]) == Event({"a": 1})
    with pytest.raises(EventError, match="from bytes, not from str"):
        decode_event("a")  # type: ignore[arg-type]
