"""Random events as bytes: in every form that MessagePack has for a value, and damaged ones."""

import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from matching_cases import NAMES, VALUES
from penstock import Event
from penstock.model.events import read_list
from penstock.model.values import Time

Pair = tuple[str, object]

ANY_NAMES = st.one_of(
    st.sampled_from((*NAMES, "other", "order", "é", "a name of more than thirty-two bytes, or so")),
    st.text(min_size=1, max_size=40),
)
PRESENT = VALUES.filter(lambda value: len(Event({"value": value})) == 1)
"""Values but for lists without elements, which are absent."""

ANY_VALUES = st.one_of(
    PRESENT, st.floats(), st.floats(width=32), st.integers(-300, 300), st.text(max_size=40)
)
PAIRS = st.lists(st.tuples(ANY_NAMES, ANY_VALUES), min_size=1, max_size=20)


def forms_of_text(text: bytes) -> list[bytes]:
    size = len(text)
    forms = [b"\xdb" + size.to_bytes(4, "big") + text]
    if size < 2**16:
        forms.append(b"\xda" + size.to_bytes(2, "big") + text)
    if size < 2**8:
        forms.append(b"\xd9" + size.to_bytes(1, "big") + text)
    if size < 32:
        forms.append(bytes([0xA0 + size]) + text)
    return forms


def forms_of_integer(value: int) -> list[bytes]:
    forms = [struct.pack("b", value)] if -32 <= value < 128 else []
    for code, form in zip(range(0xCC, 0xD4), "BHIQbhiq", strict=True):
        try:
            forms.append(bytes([code]) + struct.pack(">" + form, value))
        except struct.error:
            continue
    return forms


def forms_of_double(value: float) -> list[bytes]:
    forms = [b"\xcb" + struct.pack(">d", value)]
    try:
        single = struct.pack(">f", value)
    except OverflowError:
        return forms
    same = struct.unpack(">f", single)[0]
    return [*forms, b"\xca" + single] if same == value or value != value else forms


def forms_of_decimal(value: Decimal) -> list[bytes]:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = "-" * sign + "".join(map(str, digits))
    forms = []
    for text in (f"{number}e{exponent}", f"{number}00e{exponent - 2}"):
        content = b"\x02" + text.encode()
        size = len(text)
        heads = [b"\xc7" + bytes([size]), b"\xc8\x00" + bytes([size]), b"\xc9\x00\x00\x00" + bytes([size])]
        fixed = {1: b"\xd4", 2: b"\xd5", 4: b"\xd6", 8: b"\xd7", 16: b"\xd8"}.get(size)
        forms += [head + content for head in (*heads, *([fixed] if fixed else ()))]
    return forms


def forms_of(value: Any) -> list[bytes]:
    """All ways to write a value."""
    if isinstance(value, bool):
        return [b"\xc3" if value else b"\xc2"]
    if isinstance(value, str):
        return forms_of_text(value.encode())
    if isinstance(value, int):
        return forms_of_integer(value)
    if isinstance(value, float):
        return forms_of_double(value)
    if isinstance(value, Decimal):
        return forms_of_decimal(value)
    if isinstance(value, dict):
        flat = Event(value).attributes
        pairs = [forms_of(name)[-1] + forms_of(inner)[0] for name, inner in flat.items()]
        return [head + b"".join(pairs) for head in forms_of_map(len(pairs))]
    if isinstance(value, list | tuple | Event):
        # Nulls and lists of nothing are not written.
        parts = [
            forms_of(dict(each) if isinstance(each, Event) else each)[-1]
            for each in read_list(value, "") or ()
        ]
        size = len(parts)
        heads = [
            b"\xdd" + size.to_bytes(4, "big"),
            b"\xdc" + size.to_bytes(2, "big"),
            *([bytes([0x90 + size])] * (size < 16)),
        ]
        return [head + b"".join(parts) for head in heads]
    assert isinstance(value, Time)
    content = b"\x01" + struct.pack(">q", value.nanoseconds)
    return [head + content for head in (b"\xd7", b"\xc7\x08", b"\xc8\x00\x08", b"\xc9\x00\x00\x00\x08")]


def forms_of_map(count: int) -> list[bytes]:
    """All ways to begin a map."""
    forms = [b"\xdf" + count.to_bytes(4, "big")]
    if count < 2**16:
        forms.append(b"\xde" + count.to_bytes(2, "big"))
    if count < 16:
        forms.append(bytes([0x80 + count]))
    return forms


@st.composite
def packed(draw: st.DrawFn, pairs: Iterable[Pair]) -> bytes:
    """The attributes, each in any of its forms, and in this order."""
    given = list(pairs)
    parts = [draw(st.sampled_from(forms_of_map(len(given))))]
    for name, value in given:
        parts += draw(st.sampled_from(forms_of(name))), draw(st.sampled_from(forms_of(value)))
    return b"".join(parts)


ODD_PARTS = st.sampled_from(
    [
        *(b"\xc0", b"\xc1", b"\x90", b"\x80", b"\x91\x01", b"\xc4\x01a", b"\xa0", b"\xa1\xff", b"\xd4\x01a"),
        *(
            b"\xd7\x02aaaaaaaa",
            b"\xc7\x07\x01aaaaaaa",
            b"\xd7\xffaaaaaaaa",
            b"\xcf\x80aaaaaaa",
            b"\xcf\x7faaaaaaa",
        ),
        *(
            b"\xa2\xc3\xa9",
            b"\xa2\xc0\x80",
            b"\xa3\xed\xa0\x80",
            b"\xa4\xf4\x90\x80\x80",
            b"\xa4\xf4\x8f\xbf\xbf",
        ),
        *(b"\xa2\xc3", b"\xdb\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdd\x00\x00\x00\x01\x01"),
        *(
            b"\x91\x90",
            b"\x91\xc0",
            b"\x91\x81\xa1a\x80",
            b"\x91\x81\xa1a\x91\x01",
            b"\x91\x81\xa0\x01",
            b"\x92\x01",
        ),
        *(
            b"\x91" * 32 + b"\x91\x01",
            b"\x91" * 34 + b"\x01",
            b"\x91" * 2000 + b"\x01",
            b"\x91\xd7\xffaaaaaaaa",
        ),
        *(b"\x91\x81\x01\x01", b"\xdc\x40\x00" + b"\x01" * 16_384, b"\xdc\x40\x01" + b"\x01" * 16_385),
        *(b"\xca\x7f\xc0\x00\x00", b"\xcb\xff\xf8\x00\x00\x00\x00\x00\x00", b"\xda\x00\x01a", b"\xa1a"),
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An event in which a few bytes are changed, or left out, or put in; it may still be one."""
    data = draw(PAIRS.flatmap(packed))
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(0, len(data)))
        stop = draw(st.integers(begin, min(begin + 10, len(data))))
        data = data[:begin] + draw(st.one_of(st.binary(max_size=3), ODD_PARTS)) + data[stop:]
    return data


@st.composite
def odd_maps(draw: st.DrawFn) -> bytes:
    """A map of which some names and values are none."""
    part = st.one_of(ODD_PARTS, ANY_NAMES.map(forms_of).flatmap(st.sampled_from))
    parts = draw(st.lists(st.tuples(part, part), min_size=1, max_size=4))
    return bytes([0x80 + len(parts)]) + b"".join(a + b for a, b in parts)


ANY_BYTES = st.one_of(damaged(), odd_maps(), st.binary(max_size=30))
