"""Schemas of events as JSON Schema (2020-12).

Read are `properties`, `type` (one or several), `format` (`date-time` and `date` are times), `const`,
`enum`, `contentEncoding` (bytes, which no rule can match), `anyOf` and `oneOf`, `$ref` to `$defs` of the same
document, nested objects, `items` (one schema for all elements of a list), and `additionalProperties`.

By JSON Schema's rule a property that nobody lists is allowed. A schema that rules are checked against would
then find no misspelt name. So what is not listed is not there, unless `additionalProperties` says `true` or
has a schema. Other keywords that say which values are allowed (`minimum`, `pattern`, `required`) are passed
over: rules ask for attributes and families. Those that change what a document means (`allOf`, `not`) are
refused; in `items` they leave open what elements are, as does a list that may stand in itself.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from penstock.errors import InputError, PenstockError
from penstock.model.decimals import ExactDecimal, number_of, read_number
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX
from penstock.model.names import check_name
from penstock.model.nesting import json_value
from penstock.model.places import ELEMENT
from penstock.model.schema import NULLS, Attribute, Schema
from penstock.model.values import Family, Time, Value, family_of, time_in

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_FAMILY_OF_TYPE: Final = {
    "boolean": Family.BOOL,
    "integer": Family.NUMBER,
    "number": Family.NUMBER,
    "string": Family.STRING,
    "array": Family.LIST,
}
_TYPES: Final = frozenset({*_FAMILY_OF_TYPE, "null", "object"})
_TIME_FORMATS: Final = ("date-time", "date")
_REFUSED: Final = ("allOf", "not", "if", "then", "else", "$dynamicRef", "patternProperties")
_TYPE_OF_FAMILY: Final = {
    Family.BOOL: "boolean",
    Family.NUMBER: "number",
    Family.STRING: "string",
    Family.LIST: "array",
}


def _number(text: str) -> float | Decimal:
    """A number with all its digits; a Decimal where the model has no such."""
    try:
        return read_number(text)
    except PenstockError:
        return Decimal(text)


_DECODER: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(float_hook=_number)


def read(text: str | bytes | Mapping[str, object]) -> Schema:
    """The schema of a document, or InputError with the place of what cannot be read."""
    document: object = text
    if isinstance(text, str | bytes):
        try:
            document = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise InputError(f"not a JSON Schema: {error}") from None
    if not isinstance(document, Mapping):
        raise InputError("a JSON Schema of events is an object")
    reader = _Reader(document)
    reader.read_object(document, "", "", 0)
    if not (reader.found or reader.is_open or document.get("properties")):
        raise InputError("a JSON Schema of events has properties; this one has none")
    return Schema({name: one.made() for name, one in reader.found.items()}, reader.is_open)


class _NotReadError(InputError):
    """What JSON Schema allows and nobody reads here."""


class _Found:
    """What has been read of one attribute."""

    def __init__(self) -> None:
        self.families: set[Family] = set()
        self.types: dict[str, None] = {}
        self.values: dict[tuple[Family, Value], Value] | None = {}
        """None if any value of a family will do."""
        self.others: set[str] = set()
        self.elements: list[Schema | None] = []
        """What elements are, in each schema of a list. None where it does not say."""

    def made(self) -> Attribute:
        label = " or ".join(self.types) or "null"
        values = tuple(self.values.values()) if self.values else None
        known = [one for one in self.elements if one is not None]
        elements = known[0] if known and len(known) == len(self.elements) else None
        if elements is not None:
            for one in known[1:]:
                elements = elements.united(one)
        others = frozenset(self.others)
        return Attribute(frozenset(self.families), label, values, others=others, elements=elements)


class _Reader:
    """Reads a document, or the schema of a list's elements in it."""

    def __init__(self, document: Mapping[str, object], above: "_Reader | None" = None) -> None:
        self._document = document
        self.found: dict[str, _Found] = {}
        self.is_open = False
        self._is_of_elements = above is not None
        self._counted: list[int] = [0] if above is None else above._counted
        """How many attributes there are in all, those of elements too."""
        self._within: tuple[int, ...] = () if above is None else above._within
        """The schemas of elements that this one stands in."""

    def read_object(self, node: Mapping[str, object], prefix: str, place: str, depth: int) -> None:
        if depth > NESTING_MAX:
            raise _NotReadError(f"JSON Schema: {place or 'the schema'} nests deeper than NESTING_MAX")
        node = self._understood(node, place)
        properties = node.get("properties", {})
        if not isinstance(properties, Mapping):
            raise InputError(f"JSON Schema: {place}/properties is not an object")
        for name, child in properties.items():
            self._read_property(child, prefix + check_name(name), f"{place}/properties/{name}", depth)
        # An object of which nothing is said may have anything.
        is_nested = bool(prefix) or self._is_of_elements
        more = node.get("additionalProperties", is_nested and "properties" not in node)
        self.is_open = self.is_open or (more is not False)
        for keyword in ("anyOf", "oneOf"):
            for at, child in enumerate(self._alternatives(node, keyword, place)):
                self.read_object(child, prefix, f"{place}/{keyword}/{at}", depth + 1)

    def _read_property(
        self, node: object, name: str, place: str, depth: int, prefix: str | None = None
    ) -> None:
        """`prefix`: what stands before the names of an object's properties, if not its own name."""
        if depth > NESTING_MAX:
            raise _NotReadError(f"JSON Schema: {place} nests deeper than NESTING_MAX")
        if node is True or node == {}:
            self._add(name, frozenset(Family), "anything")
            return
        if node is False:
            return
        if not isinstance(node, Mapping):
            raise InputError(f"JSON Schema: {place} is not a schema")
        node = self._understood(node, place)
        alternatives = [
            (f"{place}/{keyword}/{at}", child)
            for keyword in ("anyOf", "oneOf")
            for at, child in enumerate(self._alternatives(node, keyword, place))
        ]
        for where, child in alternatives:
            self._read_property(child, name, where, depth + 1, prefix)
        types = self._types_of(node, place)
        for kind in types:
            if kind == "object":
                self.read_object(node, name + "." if prefix is None else prefix, place, depth + 1)
                if node.get("properties") == {}:
                    # A record without attributes is known, too.
                    self._add(name, frozenset(), kind)
            elif kind != "null":
                self._add(name, *_scalar(kind, node), _listed(kind, node))
                if kind == "array":
                    self.found[name].elements.append(self._elements(node, place, depth + 1))
        # Of nothing but nulls, and of a type that is not said, no rule is to blame.
        if types == ["null"] or not (types or alternatives):
            self._add(name, frozenset(Family), types[0] if types else "anything")

    def _elements(self, node: Mapping[str, object], place: str, depth: int) -> Schema | None:
        """What elements of a list are; None where the schema leaves it open, or is not read."""
        items = node.get("items", True)
        if items is True or items == {} or "prefixItems" in node:
            return None
        try:
            # A list of what the list is in would never end.
            target = items if not isinstance(items, Mapping) else self._followed(items, place)
            if id(target) in self._within:
                return None
            reader = _Reader(self._document, self)
            reader._within = (*self._within, id(target))
            reader._read_property(target, ELEMENT, f"{place}/items", depth, "")
        except _NotReadError:
            return None
        if any(one.families == set(Family) for name, one in reader.found.items() if name == ELEMENT):
            return None
        return Schema({name: one.made() for name, one in reader.found.items()}, reader.is_open)

    def _add(
        self, name: str, families: frozenset[Family], label: str, values: list[Value] | None = None
    ) -> None:
        self._counted[0] += name not in self.found
        one = self.found.setdefault(check_name(name), _Found())
        one.families |= families
        if values is None or one.values is None:
            one.values = None
        else:
            one.values.update(((family_of(value), value), value) for value in values)
        one.types[label] = None
        if self._counted[0] > ATTRIBUTES_MAX:
            raise InputError(f"JSON Schema: more than {ATTRIBUTES_MAX:,} attributes (ATTRIBUTES_MAX)")

    def _types_of(self, node: Mapping[str, object], place: str) -> list[str]:
        given: Any = node.get("type")
        if given is None:
            if "const" in node:
                given = [_type_of(node["const"])]
            elif isinstance(node.get("enum"), list):
                given = list(dict.fromkeys(map(_type_of, node["enum"])))  # type: ignore[call-overload]
            elif "properties" in node:
                given = ["object"]
            elif "items" in node:
                given = ["array"]
            else:
                return []
        types = [given] if isinstance(given, str) else given
        if not isinstance(types, list) or not all(isinstance(t, str) and t in _TYPES for t in types):
            raise InputError(f"JSON Schema: {place}/type is {given!r:.60}, which JSON Schema does not know")
        return types

    def _alternatives(
        self, node: Mapping[str, object], keyword: str, place: str
    ) -> list[Mapping[str, object]]:
        found = node.get(keyword, [])
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise InputError(f"JSON Schema: {place}/{keyword} is not a list of schemas")
        return found

    def _understood(self, node: Mapping[str, object], place: str) -> Mapping[str, object]:
        """The schema itself, which says nothing that is not read here."""
        node = self._followed(node, place)
        for keyword in _REFUSED:
            if keyword in node:
                raise _NotReadError(f"JSON Schema: {keyword!r} at {place or '/'} is not supported")
        return node

    def _followed(self, node: Mapping[str, object], place: str) -> Mapping[str, object]:
        """What a chain of `$ref` leads to."""
        for _step in range(NESTING_MAX):
            reference = node.get("$ref")
            if reference is None:
                return node
            if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
                raise _NotReadError(f"JSON Schema: {place}: only $ref to '#/$defs/…' is followed")
            definitions: Any = self._document.get("$defs", {})
            found = definitions.get(reference.removeprefix("#/$defs/"))
            if not isinstance(found, Mapping):
                raise InputError(f"JSON Schema: {place}: there is no {reference!r:.80}")
            node = found
        raise InputError(f"JSON Schema: {place}: $ref leads from one to the next without end")


def _scalar(kind: str, node: Mapping[str, object]) -> tuple[frozenset[Family], str]:
    """The families of a type, and how to call it."""
    if kind == "string" and "contentEncoding" in node:
        return frozenset(), "bytes as text"
    if kind == "string" and node.get("format") in _TIME_FORMATS:
        return frozenset({Family.TIME}), f"a time ({node['format']})"
    return frozenset({_FAMILY_OF_TYPE[kind]}), kind


def _listed(kind: str, node: Mapping[str, object]) -> list[Value] | None:
    """The values of a type that `const` or `enum` lists; None where there is neither."""
    given: Any = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(given, list) or kind not in _FAMILY_OF_TYPE:
        return None
    family = _FAMILY_OF_TYPE[kind]
    if kind == "string" and node.get("format") in _TIME_FORMATS:
        times = (time_in(value) for value in given if isinstance(value, str))
        return [time for time in times if time is not None]
    exact = [number_of(value) if isinstance(value, Decimal) else value for value in given]
    known = [value for value in exact if isinstance(value, bool | int | float | str | ExactDecimal)]
    return [value for value in known if family_of(value) is family]


def _type_of(value: object) -> str:
    if isinstance(value, Decimal):
        return "number"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null")


def write(schema: Schema) -> str:
    """The schema as a document: nested objects for names with dots, properties in the order of names."""
    root: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": schema.is_open}
    _write_properties(root, (), schema)
    document = {"$schema": DIALECT, **root}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _write_properties(root: dict[str, Any], above: tuple[str, ...], schema: Schema) -> None:
    def order(item: tuple[str, Attribute]) -> tuple[bool, str]:
        # What an element is, if no object, comes before what objects have.
        return not above or item[0] != ELEMENT, item[0]

    for name, attribute in sorted(
        schema.attributes.items(), key=lambda item: (not above or item[0] != ELEMENT, item[0])
    ):
        for path in sorted(attribute.paths) or [tuple(name.split("."))]:
            place = path if above and name == ELEMENT else (*above, *path)
            _write_property(root, place, attribute, is_open=schema.is_open)


def _items(elements: Schema, *, with_nulls: bool) -> dict[str, Any] | bool:
    """The schema of elements: written like a property, which may be an object with their attributes."""
    if not elements.attributes and not elements.is_open:
        # A list that has no elements, unless they are null.
        return {"type": "null"} if with_nulls else False
    root: dict[str, Any] = {"properties": {}}
    _write_properties(root, (ELEMENT,), elements)
    made: dict[str, Any] = root["properties"].get(ELEMENT, {})
    if not elements.attributes and elements.is_open:
        made = {"type": "object"}
    types = made.get("type")
    if with_nulls and types is not None and types != "null" and "null" not in types:
        return {**made, "type": [*([types] if isinstance(types, str) else types), "null"]}
    if with_nulls and "anyOf" in made:
        return {"anyOf": [*made["anyOf"], {"type": "null"}]}
    return made


def _write_property(
    root: dict[str, Any], path: tuple[str, ...], attribute: Attribute, *, is_open: bool
) -> None:
    node = root
    *objects, last = path
    for part in objects:
        known = node["properties"]
        is_new = part not in known
        node = _as_object(known.setdefault(part, {}), is_new=is_new, is_open=is_open)
    known = node["properties"]
    is_new = last not in known
    made = _property(attribute)
    if "object" in attribute.others:
        if set(attribute.others) == {"object", "null"} and not attribute.families:
            made = {"type": ["object", "null"], "properties": {}, "additionalProperties": is_open}
        else:
            _as_object(made, is_new=not made, is_open=is_open)
    known.setdefault(last, {}).update(made)


def _enum(values: Sequence[Value]) -> dict[str, Any]:
    return {"enum": [json_value(value) for value in values]} if values else {}


def _as_object(node: dict[str, Any], *, is_new: bool, is_open: bool) -> dict[str, Any]:
    """A property that is, perhaps besides something else, an object."""
    if "properties" not in node:
        if "anyOf" in node:
            node = _alternative(node)
        elif not is_new:
            before = dict(node)
            node.clear()
            node["anyOf"] = [before]
            node = _alternative(node)
        if "properties" not in node:
            node.update({"type": "object", "properties": {}, "additionalProperties": is_open})
    return node


def _alternative(node: dict[str, Any]) -> dict[str, Any]:
    """The alternative of a property that is an object."""
    for one in node["anyOf"]:
        if "properties" in one:
            return one  # type: ignore[no-any-return]
    node["anyOf"].append({})
    return node["anyOf"][-1]  # type: ignore[no-any-return]


def _property(attribute: Attribute) -> dict[str, Any]:
    families, others = attribute.families, attribute.others
    if families == frozenset(Family):
        return {}
    if not (families or others):
        is_list = "list" in attribute.type or attribute.type == "array"
        return {"type": "array"} if is_list else {"type": "string", "contentEncoding": "base64"}
    values = attribute.values or ()
    types = [_TYPE_OF_FAMILY[family] for family in sorted(families) if family is not Family.TIME]
    types += [kind for kind in ("array", "null") if kind in others and kind not in types]
    plain: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    if attribute.elements is not None:
        plain["items"] = _items(attribute.elements, with_nulls=NULLS in others)
    if Family.TIME not in families:
        # An enum would forbid the other types.
        return {**plain, **_enum([] if others else values)}
    time: dict[str, Any] = {"type": "string", "format": "date-time"}
    times = [value for value in values if type(value) is Time]
    rest = [value for value in values if type(value) is not Time]
    if not others and bool(rest) == bool(types):
        time.update(_enum(times))
        plain.update(_enum(rest if times else []))
    if types == ["null"]:
        return {**time, "type": ["string", "null"]}
    return {"anyOf": [plain, time]} if types else time
