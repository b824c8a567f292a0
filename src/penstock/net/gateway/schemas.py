"""The shapes of what goes in and out, as JSON Schema."""

from typing import Any, Final

from penstock.model.limits import (
    ATTRIBUTES_MAX,
    ELEMENTS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_LENGTH_MAX,
    STRING_LENGTH_MAX,
)

Schema = dict[str, Any]

_NO_CONTROL: Final = r"^[^\u0000-\u001f\u007f-\u009f\ufdd0-\ufdef\ufffe\uffff]*$"
_SCALAR: Final[list[Schema]] = [
    {"type": "boolean"},
    {"type": "integer", "minimum": INTEGER_MIN, "maximum": INTEGER_MAX},
    {"type": "number"},
    {"type": "string", "maxLength": STRING_LENGTH_MAX},
    {"type": "null"},
]
_NAME: Final[Schema] = {"minLength": 1, "maxLength": NAME_LENGTH_MAX}
_CONTEXT_TEXT: Final[Schema] = {"type": "string", "minLength": 1, "pattern": _NO_CONTROL}
_EXTENSION: Final[list[Schema]] = [
    {"type": ["boolean", "null"]},
    {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    {"type": "string", "pattern": _NO_CONTROL},
]


def optional(schema: Schema) -> Schema:
    """The schema of a context attribute that may be absent, or null, which is the same."""
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS: Final[dict[str, Schema]] = {
    "Event": {
        "description": "A plain event. Nested objects are flattened with dots; nulls and empty arrays are "
        "absent; objects in arrays are records.",
        "type": "object",
        "maxProperties": ATTRIBUTES_MAX,
        "propertyNames": _NAME,
        "additionalProperties": {"anyOf": [*_SCALAR, ref("Event"), ref("List")]},
    },
    "List": {
        "description": f"A list of at most {ELEMENTS_MAX:,} elements.",
        "type": "array",
        "items": {"anyOf": [*_SCALAR, ref("Event"), ref("List")]},
    },
    "CloudEvent": {
        "description": "A CloudEvent 1.0 in the JSON event format; its data has the shape of a plain event.",
        "type": "object",
        "required": ["specversion", "id", "source", "type"],
        "propertyNames": {"pattern": "^([a-z0-9]+|data_base64)$", **_NAME},
        "properties": {
            "specversion": {"const": "1.0"},
            "id": _CONTEXT_TEXT,
            "source": _CONTEXT_TEXT,
            "type": _CONTEXT_TEXT,
            "subject": optional(_CONTEXT_TEXT),
            "time": optional({"type": "string", "format": "date-time"}),
            "dataschema": optional(_CONTEXT_TEXT),
            "datacontenttype": optional(_CONTEXT_TEXT),
            "data": {"anyOf": [*_SCALAR, ref("Event"), ref("List")]},
            "data_base64": {"type": "string", "contentEncoding": "base64"},
        },
        "additionalProperties": {"anyOf": _EXTENSION},
        "not": {"required": ["data", "data_base64"]},
    },
    "CloudEvents": {"type": "array", "items": ref("CloudEvent")},
    "Accepted": {
        "type": "object",
        "required": ["accepted"],
        "properties": {"accepted": {"type": "integer", "minimum": 0}},
        "additionalProperties": False,
    },
    "Problem": {
        "description": "Problem details (RFC 9457).",
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"const": "about:blank"},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string"},
        },
        "additionalProperties": False,
    },
    "Health": {
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"enum": ["ok", "ready"]}},
        "additionalProperties": False,
    },
    "Status": {
        "description": "What the broker says of itself.",
        "type": "object",
        "required": ["name", "draining", "links", "clients", "table", "counts"],
        "properties": {
            "name": {"type": "string"},
            "draining": {"type": "boolean"},
            "links": {"type": "array", "items": {"type": "object"}},
            "clients": {"type": "array", "items": {"type": "object"}},
            "table": {"type": "object"},
            "counts": {"type": "object"},
            "lost": {"type": "object"},
            "disagreements": {"type": "object"},
        },
    },
}
