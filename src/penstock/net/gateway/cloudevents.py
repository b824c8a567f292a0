"""CloudEvents 1.0 to events and back; no HTTP in here.

Context attributes become attributes under their names, `time` as a time. Data that is a JSON object is
flattened under `data.`; other JSON data and text is the attribute `data`; bytes are the attribute
`data_base64`, in base64.

On the way in nothing is turned into something else without a word: what the model cannot hold is refused,
naming the path, or left out where that is asked for. In any case refused are integers beyond 64 bits, text
beyond the limits, times outside 1677 to 2262 or finer than nanoseconds. What does not survive, by design:

- the zone of `time`: it comes back in UTC;
- whether data had `{"a": {"b": 1}}` or `{"a.b": 1}`: it comes back nested wherever it can be;
- what is null, which is absent, and empty objects and lists, which have no attributes and elements;
- in binary mode the types of extensions: headers are text; and an empty body: it is no data;
- of events that were not published as CloudEvents: times come back as text, NaN and infinities as null.

An event that is a CloudEvent comes back as the one it was. Any other is wrapped: type `penstock.event`, its
attributes as data. So is one that has the attributes of a CloudEvent and others that a CloudEvent cannot
have.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from penstock.model.events import Event, Unsupported
from penstock.model.nesting import nested_json
from penstock.model.values import Time, Value
from penstock.net.gateway.formats import MalformedError, decode_json, encode_json

SPECVERSION: Final = "1.0"
REQUIRED: Final = ("specversion", "id", "source", "type")
WRAPPED_TYPE: Final = "penstock.event"
JSON_TYPE: Final = "application/json"

_TEXTS: Final = frozenset((*REQUIRED, "subject", "dataschema", "datacontenttype"))
_NAME: Final = re.compile(r"[a-z0-9]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_UNQUOTED: Final = "".join(c for c in map(chr, range(0x21, 0x7F)) if c not in '"%')
"""What stands in a header as it is (HTTP binding, section 3.1.3.2)."""
_INTEGER_MAX: Final = 2**31 - 1
"""Integers among the context attributes have 32 bits; those in data do not."""


def from_structured(document: object, unsupported: Unsupported = "refuse") -> Event:
    """Read a CloudEvent in the JSON event format, decoded. `unsupported` is for what is in its data."""
    if not isinstance(document, dict):
        raise MalformedError("a CloudEvent is a JSON object")
    context = {n: v for n, v in document.items() if v is not None and n not in ("data", "data_base64")}
    attributes: dict[str, object] = {name: _context(name, value) for name, value in context.items()}
    _check_required(attributes)
    if "data_base64" in document:
        if "data" in document:
            raise MalformedError("a CloudEvent has either 'data' or 'data_base64', not both")
        attributes["data_base64"] = _checked_base64(document["data_base64"])
    elif "data" in document:
        attributes["data"] = document["data"]
    return Event(attributes, unsupported=unsupported)


def from_binary(
    headers: Iterable[tuple[str, bytes]],
    content_type: str | None,
    body: bytes,
    unsupported: Unsupported = "refuse",
) -> Event:
    """Read a CloudEvent in binary mode: the headers that start with `ce-`, the content type, the body."""
    attributes: dict[str, object] = {}
    for header, raw in headers:
        name = header.lower().removeprefix("ce-")
        if name in ("data", "datacontenttype"):
            raise MalformedError(f"'ce-{name}' is no header of a CloudEvent; data is the body")
        if name in attributes:
            raise MalformedError(f"the header 'ce-{name:.40}' is there twice")
        attributes[name] = _context(name, _header_text(name, raw))
    _check_required(attributes)
    if content_type is not None:
        attributes["datacontenttype"] = _context("datacontenttype", content_type)
    if body:
        attributes.update(_data(content_type, body))
    return Event(attributes, unsupported=unsupported)


def to_structured(event: Event, broker: str, origin: str, number: int) -> dict[str, Any]:
    """The event as a CloudEvent in the JSON event format, not yet encoded.

    `origin` and `number` name the event where it has no id of its own; `broker` is the one that delivers it.
    """
    flat = event.attributes
    if not is_cloudevent(flat):
        return {
            "specversion": SPECVERSION,
            "id": event_id(origin, number),
            "source": f"/penstock/{quote(broker, safe='')}",
            "type": WRAPPED_TYPE,
            "datacontenttype": JSON_TYPE,
            "data": nested_json(flat),
        }
    return nested_json(flat)


def to_binary(event: Event, broker: str, origin: str, number: int) -> tuple[dict[str, str], bytes]:
    """The event as a CloudEvent in binary mode: the headers, `Content-Type` among them, and the body.

    Data is JSON unless its content type says otherwise and it is text, or bytes.
    """
    document = to_structured(event, broker, origin, number)
    data, encoded = document.pop("data", None), document.pop("data_base64", None)
    content_type = document.pop("datacontenttype", None)
    headers = {f"ce-{name}": quote(_header_value(value), safe=_UNQUOTED) for name, value in document.items()}
    body = b""
    if encoded is not None:
        body = base64.b64decode(encoded)
    elif isinstance(data, str) and content_type is not None and not is_json_type(content_type):
        body = data.encode()
    elif data is not None:
        body, content_type = encode_json(data), content_type or JSON_TYPE
    if content_type is not None:
        headers["Content-Type"] = quote(content_type, safe=_UNQUOTED + ' "%')
    return headers, body


def event_id(origin: str, number: int) -> str:
    """A name for an event, in characters that a URL and a line of text can have."""
    return f"{quote(origin, safe='/:@')}/{number}"


def is_cloudevent(attributes: Mapping[str, Value]) -> bool:
    """Whether a CloudEvent has just these attributes."""
    if attributes.get("specversion") != SPECVERSION or not all(name in attributes for name in REQUIRED):
        return False
    has_text = "data" in attributes
    has_bytes = "data_base64" in attributes
    has_object = False
    for name, value in attributes.items():
        if name.startswith("data.") and len(name) > len("data."):
            has_object = True
        elif name == "time":
            if type(value) is not Time:
                return False
        elif name == "data_base64":
            if not _is_base64(value):
                return False
        elif name != "data" and not _is_context(name, value):
            return False
    return has_text + has_bytes + has_object <= 1


def is_json_type(content_type: str | None) -> bool:
    """Whether a content type declares JSON: `*/json` or `*/*+json`."""
    subtype = media_type(content_type).partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def media_type(content_type: str | None) -> str:
    """A content type without its parameters, in lower case."""
    return (content_type or "").partition(";")[0].strip().lower()


def _check_required(attributes: Mapping[str, object]) -> None:
    for name in REQUIRED:
        if name not in attributes:
            raise MalformedError(f"a CloudEvent has the attribute {name!r}; this one has none")
    if attributes["specversion"] != SPECVERSION:
        raise MalformedError(f"'specversion' is {attributes['specversion']!r:.20}; say '{SPECVERSION}'")


def _context(name: str, value: object) -> object:
    """A context attribute, checked; `time` as a time."""
    if name == "time" and isinstance(value, str):
        if not _RFC3339.fullmatch(value):
            raise MalformedError(f"'time' is {value!r:.40}; write it as 2018-04-05T17:31:00Z")
        return Time.parse(value)
    if not _is_context(name, value):
        raise MalformedError(_why_not(name, value))
    return value


def _is_context(name: str, value: object) -> bool:
    kind = type(value)
    if not _NAME.fullmatch(name) or name == "data":
        return False
    if kind is str:
        return bool(value or name not in _TEXTS) and not _CONTROL.search(str(value))
    if name in _TEXTS or name == "time":
        return False
    if isinstance(value, int):
        return kind is bool or -_INTEGER_MAX - 1 <= value <= _INTEGER_MAX
    return False


def _why_not(name: str, value: object) -> str:
    if not _NAME.fullmatch(name):
        return f"{name!r:.60} is no name of a CloudEvent's attribute: these are of a-z and 0-9"
    if name in _TEXTS or name == "time":
        return f"{name!r:.60} is text that is not empty, without control characters"
    return f"{name!r:.60} is a boolean, an integer of 32 bits, or text without control characters"


def _header_text(name: str, raw: bytes) -> str:
    """A header's value: quotes taken off, then percent-decoded once (HTTP binding, section 3.1.3.2)."""
    text = raw.decode("latin-1").strip(" \t")
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        text = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
    try:
        return unquote_to_bytes(text.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise MalformedError(f"the header 'ce-{name:.40}' is not percent-encoded UTF-8") from None


def _data(content_type: str | None, body: bytes) -> dict[str, object]:
    """The attribute that the body of a binary message becomes."""
    if is_json_type(content_type):
        return {"data": decode_json(body, "the data")}
    if media_type(content_type).startswith("text/") and _is_utf8(content_type):
        try:
            return {"data": body.decode()}
        except UnicodeDecodeError:
            pass  # Bytes, then, whatever the header says.
    return {"data_base64": base64.b64encode(body).decode()}


def _is_utf8(content_type: str | None) -> bool:
    found = re.search(r";\s*charset\s*=\s*\"?([\w-]+)", content_type or "", re.IGNORECASE)
    return found is None or found[1].lower() in ("utf-8", "utf8", "us-ascii", "ascii")


def _is_base64(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode() == value
    except (binascii.Error, ValueError):
        return False


def _checked_base64(value: object) -> object:
    if not _is_base64(value):
        raise MalformedError("'data_base64' is base64 text, with its padding")
    return value


def _header_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
