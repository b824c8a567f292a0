"""An event as bytes: a flat MessagePack map from names to values.

An event without attributes is an empty map; there are no nulls. A bool, an integer, a double and a text are
what MessagePack has for them; a time is an extension of type TIME_CODE, the eight bytes of its nanoseconds,
the highest first. A decimal that no double stands for is an extension of type DECIMAL_CODE, which is text:
perhaps `-`, 1 to 76 digits without a zero in front, `e`, and the power of ten, as in `-12345678901234567e-2`.
What has a double may be written so, too, and is that double. A list is an array of at least one element, of
which records are flat maps. All limits of the model hold. Any form of a number, a text or a length that
MessagePack has may be used, also a longer one than is needed, and a double of four bytes. Of a name that is
there twice the last counts; both count as attributes, and both have to be good.

`penstock.matching.kernels.packed_maps` reads the same form, and accepts the same bytes.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from struct import Struct
from typing import Annotated, Any, Final, NoReturn

import msgspec
from msgspec.msgpack import Ext

from penstock.errors import EventError, LimitError, PenstockError, UnsupportedValueError
from penstock.model.decimals import ExactDecimal, Number, number_of
from penstock.model.events import Event, as_event, check_elements
from penstock.model.limits import (
    ATTRIBUTES_MAX,
    DECIMAL_DIGITS_MAX,
    DECIMAL_PLACES_MAX,
    DECIMAL_WHOLE_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_LENGTH_MAX,
    NESTING_MAX,
    STRING_LENGTH_MAX,
)
from penstock.model.names import check_name
from penstock.model.values import List, Time, Value, to_value

TIME_CODE: Final = 1
"""The type of the extension that is a time."""

TIME_BYTES: Final = 8
"""The length of a time."""

DECIMAL_CODE: Final = 2
"""The type of the extension that is a decimal."""

DECIMAL_BYTES_MAX: Final = 1 + DECIMAL_DIGITS_MAX + 1 + 4
"""The most bytes of a decimal."""

_DECIMAL: Final = re.compile(rb"(-?)([1-9][0-9]{0,%d})e(-?[0-9]{1,3})" % (DECIMAL_DIGITS_MAX - 1))

_TIME: Final = Struct(">q")

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
_Integer = Annotated[int, msgspec.Meta(le=INTEGER_MAX)]
_String = Annotated[str, msgspec.Meta(max_length=STRING_LENGTH_MAX)]

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(
    dict[_Name, bool | _Integer | float | _String | Ext | list[Any]]
).decode
_DECODE_PARTS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_DECODE_PART: Final = msgspec.msgpack.Decoder(bool | int | float | str | Ext | list[Any]).decode
_DECODE_LIST: Final = msgspec.msgpack.Decoder(list[Any]).decode

_CONVERTED: Final = frozenset({Ext, list})
"""What MessagePack has in place of times and lists."""

_MAP, _MAP_LAST, _MAP_16, _MAP_32 = 0x80, 0x8F, 0xDE, 0xDF
_LIST_32: Final = b"\xdd"
_NULL, _BYTES_8, _BYTES_32 = 0xC0, 0xC4, 0xC6


def encode_event(event: Event) -> bytes:
    """The event as bytes."""
    return _ENCODE(_encoded_map(event.attributes))


def _encoded_map(attributes: dict[str, Value]) -> dict[str, Any]:
    """Attributes as MessagePack can have them."""
    if _OWN.isdisjoint(map(type, attributes.values())):
        return attributes
    return {name: _encoded(value) for name, value in attributes.items()}


_OWN: Final = frozenset({Time, ExactDecimal, tuple})


def _encoded(value: Value | Event) -> Any:
    if type(value) is Time:
        return Ext(TIME_CODE, _TIME.pack(value.nanoseconds))
    if type(value) is ExactDecimal:
        return Ext(DECIMAL_CODE, encode_decimal(value))
    if type(value) is tuple:
        return [_encoded(element) for element in value]
    return _encoded_map(value.attributes) if isinstance(value, Event) else value


def encode_decimal(value: ExactDecimal) -> bytes:
    """The bytes of the extension that is a decimal."""
    sign, digits, exponent = value.as_tuple()
    return f"{'-' if sign else ''}{''.join(map(str, digits))}e{exponent}".encode()


def decode_decimal(data: bytes) -> Number:
    """The number that the bytes of such an extension are, or UnsupportedValueError."""
    found = _DECIMAL.fullmatch(data)
    if found is not None:
        exponent = int(found[3])
        if exponent >= -DECIMAL_PLACES_MAX and len(found[2]) + exponent <= DECIMAL_WHOLE_MAX:
            return number_of(Decimal(data.decode()))
    raise UnsupportedValueError(f"{data[: DECIMAL_BYTES_MAX + 1]!r} is not a decimal")


def encode_mapping(given: Event | Mapping[str, object]) -> bytes:
    """An event, or the mapping that one can be made of, as bytes; raises EventError or LimitError.

    The same as making an event of it and encoding that. A plain dict of plain values, which most are, is
    only looked through.
    """
    if type(given) is dict and len(given) <= ATTRIBUTES_MAX and _is_plain(given):
        return _ENCODE(given)
    return encode_event(as_event(given))


def _is_plain(given: dict[object, object]) -> bool:
    """Whether these are certainly attributes of an event as they are; where it is not sure, false."""
    for name, value in given.items():
        if type(name) is not str or not (0 < len(name) <= NAME_LENGTH_MAX and name.isascii()):
            return False
        kind = type(value)
        if kind is str:
            if len(value) > STRING_LENGTH_MAX or not value.isascii():  # type: ignore[arg-type, attr-defined]
                return False
        elif kind is int:
            if not INTEGER_MIN <= value <= INTEGER_MAX:  # type: ignore[operator]
                return False
        elif kind is not float and kind is not bool:
            return False
    return True


def decode_event(data: bytes | bytearray | memoryview) -> Event:
    """The event that these bytes, all of them, are; raises EventError or LimitError where they are none."""
    if type(data) is not bytes:
        data = _as_bytes(data)
    count = data[0] - _MAP if data and _MAP <= data[0] <= _MAP_LAST else _checked_count(data)
    try:
        attributes = _DECODE(data)
    except (ValueError, RecursionError):
        # Also UnicodeDecodeError. What is wrong is found out below.
        return Event.from_flat(_decode_slowly(data, count))
    if len(attributes) < count:
        return Event.from_flat(_decode_slowly(data, count))
    if _CONVERTED.isdisjoint(map(type, attributes.values())):
        return Event.from_flat(attributes)  # type: ignore[arg-type]  # these are all values
    try:
        flat = {n: _converted(v) if isinstance(v, Ext | list) else v for n, v in attributes.items()}
    except PenstockError:
        return Event.from_flat(_decode_slowly(data, count))
    return Event.from_flat(flat)


def decode_list(data: bytes) -> List:
    """The list that these bytes are, which stand in an event that is known to be good."""
    return _list(_DECODE_LIST(data), 0)


def _converted(value: Ext | list[Any], depth: int = 0) -> Value:
    return _list(value, depth) if isinstance(value, list) else _extension(value)


def _list(elements: list[Any], depth: int) -> List:
    """A list, each of whose elements is looked at."""
    check_elements(len(elements), "")
    if not elements:
        raise UnsupportedValueError("a list without elements is no value: leave it out")
    if depth > NESTING_MAX:
        raise LimitError("lists nest too deep", "NESTING_MAX", NESTING_MAX)
    return tuple(_element(element, depth) for element in elements)


def _element(element: Any, depth: int) -> Value | Event:
    if type(element) is not dict:
        return _inner(element, depth)
    if len(element) > ATTRIBUTES_MAX:
        raise LimitError("a record has too many attributes", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
    record: dict[str, Value] = {}
    for name, value in element.items():
        if type(value) is dict:
            raise UnsupportedValueError("a map within a record has no family; write dotted names")
        record[check_name(name)] = _inner(value, depth)
    return Event.from_flat(record)


def _inner(value: Any, depth: int) -> Value:
    """A value within a list."""
    if type(value) in _CONVERTED:
        return _converted(value, depth + 1)
    if type(value) not in _SCALARS:
        raise UnsupportedValueError(f"a list has an element of the type {type(value).__name__}")
    return to_value(value)


_SCALARS: Final = frozenset({bool, int, float, str})


def _as_bytes(data: object) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise EventError(f"an event is decoded from bytes, not from {type(data).__name__}")
    return bytes(data)


def _checked_count(data: bytes) -> int:
    """How many attributes there are said to be."""
    if not data:
        raise EventError("an event is a MessagePack map; here is no byte at all")
    if not (_MAP <= data[0] <= _MAP_LAST or _MAP_16 <= data[0] <= _MAP_32):
        raise EventError(f"an event is a MessagePack map, which does not begin with the byte {data[0]:#04x}")
    head = _head_length(data)
    if len(data) < head:
        raise EventError("the bytes of an event end within the length of its map")
    count = data[0] - _MAP if head == 1 else int.from_bytes(data[1:head], "big")
    if count > ATTRIBUTES_MAX:
        raise LimitError("an event has too many attributes", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
    return count


def _head_length(data: bytes) -> int:
    return {_MAP_16: 3, _MAP_32: 5}.get(data[0], 1)


def _decode_slowly(data: bytes, count: int) -> dict[str, Value]:
    """The attributes one by one, so that each is looked at, and the first that is bad is named."""
    # The same bytes as a list: that keeps what a map has twice.
    flat_list = b"".join((_LIST_32, (2 * count).to_bytes(4, "big"), data[_head_length(data) :]))
    try:
        parts = _DECODE_PARTS(flat_list)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(" (byte ")[0]  # counted in another text
        raise EventError(f"these bytes are no map of length {count:,}, as they say: {reason}") from None
    attributes: dict[str, Value] = {}
    for at in range(0, 2 * count, 2):
        name = _name(parts[at])
        attributes[name] = _value(name, parts[at + 1])
    return attributes


def _name(part: msgspec.Raw) -> str:
    try:
        name = _part(part)
    except PenstockError as error:
        raise EventError(f"an attribute name is a string: {error}") from None
    return check_name(name)


def _value(name: str, part: msgspec.Raw) -> Value:
    try:
        value = _part(part)
        return _converted(value) if isinstance(value, Ext | list) else to_value(value)
    except (UnsupportedValueError, EventError) as error:
        raise UnsupportedValueError(f"{name!r:.80}: {error}") from None


def _part(part: msgspec.Raw) -> object:
    """A name or a value by itself, if it is of a kind that an event can have."""
    try:
        return _DECODE_PART(part)
    except RecursionError:
        raise LimitError("lists nest too deep", "NESTING_MAX", NESTING_MAX) from None
    except UnicodeDecodeError:
        raise UnsupportedValueError(f"{bytes(part)[:40]!r} is a string that is not UTF-8") from None
    except ValueError:
        _refuse_kind(bytes(part)[0])


def _refuse_kind(first: int) -> NoReturn:
    """Refuse a value by its first byte."""
    if _MAP <= first <= _MAP_LAST or _MAP_16 <= first <= _MAP_32:
        raise UnsupportedValueError(
            "a map within an event has no family; write its attributes with dotted names"
        )
    kind = "null" if first == _NULL else "bytes" if _BYTES_8 <= first <= _BYTES_32 else "of another kind"
    raise UnsupportedValueError(f"a value that is {kind} has no family (bool, number, string, time or list)")


def _extension(value: Ext) -> Time | Number:
    data = bytes(value.data)
    if value.code == DECIMAL_CODE:
        return decode_decimal(data)
    if value.code != TIME_CODE or len(data) != TIME_BYTES:
        raise UnsupportedValueError(
            f"an extension of type {value.code} and {len(data):,} bytes is no value; "
            f"a time has the type {TIME_CODE} and {TIME_BYTES} bytes"
        )
    return Time(*_TIME.unpack(data))
