"""From dotted names back into nested objects: the inverse of flattening, as far as there is one.

`{"order": {"price": 1}}` and `{"order.price": 1}` are the same event, and both come back as the first. Lists
come back as lists, and the records in them as objects.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from penstock.model.decimals import ExactDecimal, write_number
from penstock.model.limits import NESTING_MAX
from penstock.model.values import List, Time, Value

_DEPTH_MAX: Final = NESTING_MAX - 2
"""So deep that the objects, inside a CloudEvent's `data`, can be flattened again."""


def nest(flat: Mapping[str, object]) -> dict[str, Any]:
    """Objects that flatten into the same names and values.

    A dot opens an object, except where that cannot be read back: below a name that has a value itself, before
    or after an empty segment, and past the greatest depth. There the dot stays in the name.
    """
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        place, key = nested, name
        if "." in name:
            place, key = _place(nested, name, flat)
        place[key] = nest_list(value) if type(value) is tuple else value
    return nested


def nest_list(elements: List) -> list[Any]:
    """A list with its records nested."""
    return [
        nest(each) if isinstance(each, Mapping) else nest_list(each) if type(each) is tuple else each
        for each in elements
    ]


def nested_json(flat: Mapping[str, Value]) -> dict[str, Any]:
    """The same for JSON, which has no times: they become text. Decimals keep all their digits."""
    return nest({name: json_value(value) for name, value in flat.items()})


def json_value(value: Any) -> Any:
    """A value, or a record in a list, as JSON can have it."""
    if type(value) is Time:
        return str(value)
    if type(value) is ExactDecimal:
        return msgspec.Raw(write_number(value).encode())
    if type(value) is tuple:
        return [json_value(element) for element in value]
    return nested_json(value) if isinstance(value, Mapping) else value


def _place(nested: dict[str, Any], name: str, flat: Mapping[str, object]) -> tuple[dict[str, Any], str]:
    """The object that a name belongs into, and what it is called there."""
    place, start, depth = nested, 0, 0
    dot = name.find(".")
    while dot >= 0 and depth < _DEPTH_MAX:
        is_object = start < dot < len(name) - 1 and name[:dot] not in flat
        if is_object:
            place = place.setdefault(name[start:dot], {})
            start, depth = dot + 1, depth + 1
        dot = name.find(".", dot + 1)
    return place, name[start:]
