"""The JSON form: boolean expressions over constraints, also the form for loading filters in bulk.

    {"attribute": "price", "op": ">", "value": 10}
    {"all": [ … ]}    {"any": [ … ]}    {"not": … }

The operators are those of `constraint.OPPOSITES`. A time is written {"time": "2013-01-31T05:00:00Z"};
`between` and `in` take an array, `any` and `not any` what an element of a list must match, `exists` and
`absent` no value. `filter.schema.json`, beside this file, says the same as a JSON Schema.
"""

import re
from decimal import Decimal
from importlib.resources import files
from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import EventError, FilterError, FilterSyntaxError, LimitError
from penstock.filters.constraint import OPPOSITES, Constraint
from penstock.filters.describe import describe
from penstock.filters.expression import And, Expression, Not, Or, normalise
from penstock.filters.languages.literals import check_text
from penstock.filters.lists import predicate_of, text_of
from penstock.filters.predicate import Predicate
from penstock.filters.work import Work
from penstock.model.decimals import Number, read_number, write_number
from penstock.model.limits import DEPTH_MAX, ELEMENT_DEPTH_MAX, NUMBER_LENGTH_MAX, TEXT_LENGTH_MAX
from penstock.model.values import Time


class _Node(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A constraint, or one of the three connectives: whichever fields are set."""

    attribute: str | msgspec.UnsetType = msgspec.UNSET
    op: str | msgspec.UnsetType = msgspec.UNSET
    value: Any = msgspec.UNSET
    all: "list[_Node] | msgspec.UnsetType" = msgspec.UNSET
    any: "list[_Node] | msgspec.UnsetType" = msgspec.UNSET
    negated: "_Node | msgspec.UnsetType" = msgspec.field(default=msgspec.UNSET, name="not")


class _Written(str):
    """A number as it is written, with a point or an exponent: what it is, its constraint finds out."""

    __slots__ = ()


_DECODER: Final = msgspec.json.Decoder(_Node, float_hook=_Written)
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_ELEMENT_NODE: Final = '{"attribute": "this", "op": "=", "value": "red"}'
_NODE: Final = 'a constraint {"attribute": …, "op": …, "value": …}, or {"all": […]}, {"any": […]}, {"not": …}'


def parse(text: str | bytes | dict[str, object], work: Work | None = None) -> Predicate:
    """Read a predicate from JSON text, or from the dict that such a text decodes to."""
    return normalise(parse_expression(text, work), work)


def parse_expression(text: str | bytes | dict[str, object], work: Work | None = None) -> Expression:
    """Read what a text says, as it says it; what it asks of elements of lists, as a predicate."""
    source = _Source(text if isinstance(text, str) else "", work or Work())
    return _expression(_decode(text), "$", 0, source)


def write(predicate: Predicate) -> str:
    """Write the predicate in its canonical JSON form, on one line."""
    return check_text(msgspec.json.encode(_plain(describe(predicate))).decode())


def schema() -> str:
    """The JSON Schema of the form."""
    return files("penstock.filters.languages").joinpath("filter.schema.json").read_text("utf-8")


def _decode(text: str | bytes | dict[str, object]) -> _Node:
    try:
        if isinstance(text, dict):
            return msgspec.convert(text, _Node)
        if len(text) > TEXT_LENGTH_MAX:
            what = f"the text of a filter has {len(text):,} characters"
            raise LimitError(what, "TEXT_LENGTH_MAX", TEXT_LENGTH_MAX)
        return _DECODER.decode(text)
    except msgspec.ValidationError as error:
        shown = text if isinstance(text, str) else ""
        raise FilterSyntaxError(_NODE, shown, None, found=_one_line(str(error))) from None
    except msgspec.DecodeError as error:
        found = _BYTE.search(str(error))
        raw = text.encode() if isinstance(text, str) else bytes(text)  # type: ignore[arg-type]
        shown = raw.decode("utf-8", "replace")
        place = len(raw[: int(found[1])].decode("utf-8", "replace")) if found else len(shown)
        raise FilterSyntaxError("JSON", shown, place, reason=f"not JSON: {_one_line(str(error))}") from None
    except UnicodeError as error:
        raise FilterSyntaxError(
            "JSON in UTF-8", "", None, reason=f"not UTF-8: {_one_line(str(error))}"
        ) from None
    except RecursionError:
        raise LimitError("a filter in JSON nests too deep", "DEPTH_MAX", DEPTH_MAX) from None


def _one_line(message: str) -> str:
    return " ".join(message.split())[:200]


class _Source(NamedTuple):
    """What is read, for errors, and the steps that conditions on the elements of lists may take together."""

    text: str
    work: Work
    inside: int = 0
    """How many conditions on elements are around the place."""


def _expression(node: _Node, path: str, depth: int, source: _Source) -> Expression:
    """The node as an expression; `path` says where it stands."""
    if depth > DEPTH_MAX:
        raise LimitError("a filter in JSON nests too deep", "DEPTH_MAX", DEPTH_MAX)
    if node.attribute is not msgspec.UNSET:
        if node.all is node.any is node.negated is msgspec.UNSET:
            return _constraint(node, path, depth, source)
    elif node.op is node.value is msgspec.UNSET:
        given = [part for part in (node.all, node.any, node.negated) if part is not msgspec.UNSET]
        if len(given) == 1:
            if node.negated is not msgspec.UNSET:
                return Not(_expression(node.negated, f"{path}.not", depth + 1, source))  # type: ignore[arg-type]
            kind, name = (And, "all") if node.any is msgspec.UNSET else (Or, "any")
            parts = node.all if node.any is msgspec.UNSET else node.any
            return kind(
                [_expression(p, f"{path}.{name}[{at}]", depth + 1, source) for at, p in enumerate(parts)]  # type: ignore[arg-type]
            )
    raise FilterSyntaxError(_NODE, source.text, None, found=f"something else at {path}")


def _constraint(node: _Node, path: str, depth: int, source: _Source) -> Constraint:
    text = source.text
    if node.op is msgspec.UNSET:
        raise FilterSyntaxError('an operator, as in "op": ">"', text, None, found=f"none at {path}")
    value = node.value
    try:
        if value is msgspec.UNSET:
            value = None
            if node.op not in ("exists", "absent") and node.op in OPPOSITES:
                raise FilterError(f"{node.op} takes a value")
        elif value is None:
            raise FilterError('null is no value; {"op": "absent"} asks whether an attribute is absent')
        elif type(value) is list:
            value = [_value(one) for one in value]
        elif type(value) is dict:
            of_elements = node.op.endswith("any")
            value = _asked(value, path, depth, source) if of_elements else _value(value)
        elif node.op.endswith("any"):
            raise FilterError(f"{node.op} takes a condition on elements, such as {_ELEMENT_NODE}")
        elif type(value) is _Written:
            value = _value(value)
        return Constraint(node.attribute, node.op, value)  # type: ignore[arg-type]
    except LimitError:
        raise
    except (FilterError, EventError) as error:
        raise FilterSyntaxError("a constraint", text, None, reason=f"{path}: {error}") from None


def _asked(value: dict[str, object], path: str, depth: int, source: _Source) -> Predicate:
    """What is asked of the elements of a list."""
    source = source._replace(inside=source.inside + 1)
    if source.inside > ELEMENT_DEPTH_MAX:
        raise LimitError("conditions on elements nest too deep", "ELEMENT_DEPTH_MAX", ELEMENT_DEPTH_MAX)
    return normalise(_expression(_decode(value), f"{path}.value", depth + 1, source), source.work)


def _value(value: object) -> object:
    if type(value) is _Written:
        return _number(value)
    if type(value) is not dict:
        return value
    moment = value.get("time") if len(value) == 1 else None
    if not isinstance(moment, str):
        raise FilterError('an object as a value is a time: {"time": "2013-01-31T05:00:00Z"}')
    return Time.parse(moment)


def _number(literal: str) -> Number:
    if len(literal) > NUMBER_LENGTH_MAX:
        what = f"a number has {len(literal):,} characters"
        raise LimitError(what, "NUMBER_LENGTH_MAX", NUMBER_LENGTH_MAX)
    return read_number(literal)


def _plain(expression: Expression) -> object:
    if isinstance(expression, And):
        return {"all": [_plain(part) for part in expression.parts]}
    if isinstance(expression, Or):
        return {"any": [_plain(part) for part in expression.parts]}
    assert isinstance(expression, Constraint)  # noqa: S101 - canonical forms have no Not
    plain: dict[str, object] = {"attribute": expression.attribute, "op": expression.operator}
    if expression.operator.endswith("any"):
        plain["value"] = _plain(describe(predicate_of(text_of(expression.value))))
    elif expression.operator not in ("exists", "absent"):
        value = expression.value
        plain["value"] = [_plain_value(v) for v in value] if isinstance(value, tuple) else _plain_value(value)
    return plain


def _plain_value(value: object) -> object:
    if isinstance(value, Decimal):
        return msgspec.Raw(write_number(value).encode())  # type: ignore[arg-type]
    return {"time": str(value)} if isinstance(value, Time) else value
