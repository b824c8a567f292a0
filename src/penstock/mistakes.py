"""What is wrong with a file of settings, in words: where, what was given, and what could be.

msgspec says what it expected and where; what else could stand there is looked up in the type of that place.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

import msgspec
from msgspec import inspect

_PLACE: Final = re.compile(r"(?P<what>.*?) - at `\$\.?(?P<where>.*)`$", re.DOTALL)
_FIELD: Final = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>[^`]+)`")
_STEP: Final = re.compile(r"(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]")
_GIVEN_LENGTH_MAX: Final = 60


def said(message: str, given: dict[str, Any], type_: Any) -> str:
    """What msgspec says of data that is not of a type, with the place first and as people write it."""
    found = _PLACE.match(message)
    what, where = (found["what"], found["where"]) if found else (message, "")
    value, kind = _at(where, given, inspect.type_info(type_))
    if field := _FIELD.match(what):
        name = field["name"]
        place = f"{where}.{name}" if where else name
        if "unknown" in field["what"]:
            return f"{place}: there is no such field{_instead(name, kind)}"
        choices = list(_choices(name, kind))
        return f"{place}: is missing{_there_are(choices)}"
    if not where:
        return what
    what = f"{what[0].lower()}{what[1:]}"
    if what.startswith("invalid "):
        parent, _dot, name = where.rpartition(".")
        choices = list(_choices(name, _at(parent, given, inspect.type_info(type_))[1]))
        return f"{where}: {what}{_there_are(choices)}"
    return f"{where}: {what}{_brackets(where, what, kind, value) or f', given {_shown(value)}'}"


def _brackets(where: str, what: str, kind: Any, value: Any) -> str:
    """How a table is begun, where it was begun as the other kind of table; and how a list is written."""
    if (
        isinstance(kind, inspect.ListType)
        and isinstance(kind.item_type, inspect.StrType)
        and isinstance(value, str)
    ):
        return f"; write [{_quoted(value)}]"
    if isinstance(kind, inspect.ListType) and "got `object`" in what:
        return f"; begin each with [[{where}]], in two pairs of brackets"
    if isinstance(kind, inspect.StructType) and "got `array`" in what:
        return f"; there is one, which begins with [{where}], in one pair of brackets"
    return ""


def _at(where: str, given: Any, kind: Any) -> tuple[Any, Any]:
    """What was given at a place, and the type that is expected there."""
    for step in _STEP.finditer(where):
        if step["index"] is not None:
            given = given[int(step["index"])]
            kind = _item(kind)
        else:
            given = given.get(step["name"]) if isinstance(given, dict) else None
            fields = {field.encode_name: field.type for field in _fields(kind)}
            kind = fields.get(step["name"])
        kind = _member(kind, given)
    return given, kind


def _item(kind: Any) -> Any:
    if isinstance(kind, inspect.ListType):
        return kind.item_type
    return kind.item_types[0] if isinstance(kind, inspect.TupleType) else None


def _member(kind: Any, given: Any) -> Any:
    """The type that a value chooses among several: the one of its tag, or the one that is not null."""
    if not isinstance(kind, inspect.UnionType):
        return kind
    tagged = [type_ for type_ in kind.types if isinstance(type_, inspect.StructType)]
    if tagged and isinstance(given, dict):
        return next((type_ for type_ in tagged if type_.tag == given.get(type_.tag_field)), kind)
    return next(type_ for type_ in kind.types if not isinstance(type_, inspect.NoneType))


def _fields(kind: Any) -> tuple[inspect.Field, ...]:
    return kind.fields if isinstance(kind, inspect.StructType) else ()


def _choices(name: str, kind: Any) -> Iterator[str]:
    """What a field may be, if that can be counted."""
    if isinstance(kind, inspect.UnionType):
        tagged = [type_ for type_ in kind.types if isinstance(type_, inspect.StructType)]
        yield from (str(type_.tag) for type_ in tagged if type_.tag_field == name)
    for field in _fields(kind):
        if field.encode_name == name and isinstance(field.type, inspect.LiteralType):
            yield from map(str, field.type.values)


def _there_are(choices: list[str]) -> str:
    return f"; there are {', '.join(choices)}" if choices else ""


def _instead(name: str, kind: Any) -> str:
    """The known field that was perhaps meant, or all of them."""
    known = [field.encode_name for field in _fields(kind)]
    if isinstance(kind, inspect.StructType) and kind.tag_field is not None:
        known.append(kind.tag_field)
    near = get_close_matches(name, known, 1)
    return f"; perhaps {near[0]}" if near else _there_are(known)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode() if len(text) <= _GIVEN_LENGTH_MAX else '"…"'


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _GIVEN_LENGTH_MAX else f"{text[:_GIVEN_LENGTH_MAX]}…"
