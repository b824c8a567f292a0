"""The PADRES form: `[class,eq,'STOCK'],[price,<,20]`, a conjunction of triples.

Operators: eq, neq, <, <=, >, >=, str-prefix, str-postfix, str-contains, isPresent; read but not written:
`=`, `<>`, str-lt, str-le, str-gt, str-ge. Values are numbers and quoted strings, and, beyond PADRES,
true, false and timestamp '…'. Names that are more than letters, digits and -_. stand in double quotes.

Two differences from PADRES: `isPresent` ignores its value (there it names a type; here an attribute is
present or not), and an attribute may be constrained more than once. `&` and `||` between bracketed
groups are reserved for composite subscriptions. What has no word here (disjunction, `in`, LIKE, absence)
is refused when writing.
"""

import re
from typing import Final, NoReturn

from penstock.errors import FilterError, FilterSyntaxError, InexpressibleError, LimitError, PenstockError
from penstock.filters.constraint import Constraint
from penstock.filters.describe import describe_filter
from penstock.filters.expression import And, normalise
from penstock.filters.languages.literals import check_text, read_number
from penstock.filters.languages.sql import write_literal
from penstock.filters.predicate import Predicate
from penstock.filters.work import Work
from penstock.model.values import Time, Value

_STRING: Final = r"'(?:[^']++|'')*+'"
_NAME: Final = r'[\w.-]++|"(?:[^"]++|"")*+"'
_TRIPLE: Final = re.compile(
    rf"""\s*+\[\s*+(?P<name>{_NAME})\s*+,\s*+(?P<operator>[^\s,\]']++)\s*+
    (?:,\s*+(?P<value>(?:timestamp\s*+)?{_STRING}|[^\s,\]'&|{{}}]++)\s*+)?\]\s*+""",
    re.VERBOSE | re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_BARE_NAME: Final = re.compile(r"[\w.-]+")

_READ: Final = {
    "eq": "=",
    "=": "=",
    "neq": "!=",
    "<>": "!=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "str-lt": "<",
    "str-le": "<=",
    "str-gt": ">",
    "str-ge": ">=",
    "str-prefix": "prefix",
    "str-postfix": "suffix",
    "str-contains": "substring",
    "ispresent": "exists",
}
_OF_STRINGS: Final = frozenset(operator for operator in _READ if operator.startswith("str-"))
_WRITTEN: Final = {
    "=": "eq",
    "!=": "neq",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "prefix": "str-prefix",
    "suffix": "str-postfix",
    "substring": "str-contains",
}
_OPERATORS: Final = "eq, neq, <, <=, >, >=, str-prefix, str-postfix, str-contains or isPresent"


def parse(text: str, work: Work | None = None) -> Predicate:
    """Read a predicate from the PADRES form, or raise FilterSyntaxError with the place."""
    check_text(text)
    constraints: list[Constraint] = []
    at = 0
    while True:
        found = _TRIPLE.match(text, at)
        if found is None:
            _explain(text, at)
        constraints.append(_constraint(found, text))
        at = found.end()
        if at == len(text):
            return normalise(And(constraints), work)
        if text[at] != ",":
            _reserved(text, at)
            raise FilterSyntaxError(
                "',' and another [attribute,operator,value]", text, at, found=repr(text[at])
            )
        at += 1


def write(predicate: Predicate) -> str:
    """Write the predicate as triples, or raise InexpressibleError where PADRES has no words for it."""
    if len(predicate.filters) != 1:
        what = "a disjunction" if predicate.filters else "a filter that matches nothing"
        raise InexpressibleError(f"PADRES cannot say {what}: {predicate.to_sql()[:80]}")
    described = describe_filter(predicate.filters[0])
    parts = described.parts if isinstance(described, And) else (described,)
    if not parts:
        raise InexpressibleError("PADRES cannot say a filter that matches everything")
    triples = [triple for part in parts for triple in _triples(part, predicate)]
    text = ",".join(f"[{_write_name(name)},{operator},{value}]" for name, operator, value in triples)
    return check_text(text)


def _constraint(found: re.Match[str], text: str) -> Constraint:
    name = found["name"]
    if name.startswith('"'):
        name = name[1:-1].replace('""', '"')
    operator = _READ.get(found["operator"].lower())
    if operator is None:
        raise FilterSyntaxError(_OPERATORS, text, found.start("operator"), found=repr(found["operator"][:40]))
    if found["value"] is None:
        if operator != "exists":
            raise FilterSyntaxError("',' and a value", text, found.end("operator"), found="']'")
        return Constraint(name, operator)
    value = _value(found["value"], text, found.start("value"))
    try:
        if found["operator"].lower() in _OF_STRINGS and not isinstance(value, str):
            raise FilterError(f"{found['operator']} takes a string")
        return Constraint(name, operator, None if operator == "exists" else value)
    except LimitError:
        raise
    except PenstockError as error:
        expected, place = "a value that the operator takes", found.start("value")
        raise FilterSyntaxError(expected, text, place, reason=str(error)) from None


def _value(literal: str, text: str, position: int) -> Value:
    if literal.endswith("'"):
        quote = literal.index("'")
        content = literal[quote + 1 : -1].replace("''", "'")
        if quote == 0:
            return content
        try:
            return Time.parse(content)
        except PenstockError as error:
            raise FilterSyntaxError("a time", text, position, reason=str(error)) from None
    if literal.lower() in ("true", "false"):
        return literal.lower() == "true"
    if _NUMBER.fullmatch(literal):
        return read_number(literal, text, position)
    expected = "a number, 'text', true, false or timestamp '…'"
    raise FilterSyntaxError(expected, text, position, found=f"{literal[:40]!r} (text stands in quotes)")


def _reserved(text: str, at: int) -> None:
    if text[at] in "&|{}":
        expected = "one subscription (&, || and braces are reserved for composite subscriptions)"
        raise FilterSyntaxError(expected, text, at, found=repr(text[at]))


def _explain(text: str, at: int) -> NoReturn:
    """Say what a text lacks that starts no triple."""
    start = at + len(text[at:]) - len(text[at:].lstrip())
    if start == len(text):
        raise FilterSyntaxError("[attribute,operator,value]", text, start, found="the end of the text")
    _reserved(text, start)
    if text[start] != "[":
        raise FilterSyntaxError("[attribute,operator,value]", text, start, found=repr(text[start]))
    opened = re.compile(
        rf"\[\s*+(?:{_NAME})?\s*+(?:,\s*+[^\s,\]']*+\s*+(?:,\s*+(?:{_STRING}|[^\s,\]']*+))?)?"
    ).match(text, start)
    place = opened.end() if opened else start
    found = repr(text[place]) if place < len(text) else "the end of the text"
    raise FilterSyntaxError("[attribute,operator,value], closed by ']'", text, place, found=found)


def _triples(part: object, predicate: Predicate) -> list[tuple[str, str, str]]:
    if isinstance(part, Constraint):
        name, operator, value = part.attribute, part.operator, part.value
        if operator == "exists":
            return [(name, "isPresent", "'any'")]
        if operator == "between":
            return [(name, ">=", write_literal(value[0])), (name, "<=", write_literal(value[1]))]
        if operator == "not in":
            return [(name, "neq", write_literal(one)) for one in value]
        if operator in _WRITTEN:
            return [(name, _WRITTEN[operator], write_literal(value))]
        what = f"'{operator}'"
    else:
        what = "alternatives for one attribute"
    raise InexpressibleError(f"PADRES cannot say {what}, which this needs: {predicate.to_sql()[:80]}")


def _write_name(name: str) -> str:
    return name if _BARE_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'
