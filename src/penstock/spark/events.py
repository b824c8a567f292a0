"""Events as rows of a DataFrame: which columns are attributes.

Structs are flattened with dots, nulls are absent attributes, timestamps and dates are times, arrays are
lists. What a type has no family for (binary, maps) is refused when a job is built, if a rule names it, or
left out when the caller says so.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.errors import EventError, LimitError, UnsupportedValueError
from penstock.model.arrow import SKIP_HINT
from penstock.model.events import Unsupported, is_skip
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX
from penstock.model.names import check_name
from penstock.model.values import Family

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_FAMILIES: Final = {
    "BooleanType": Family.BOOL,
    "ByteType": Family.NUMBER,
    "ShortType": Family.NUMBER,
    "IntegerType": Family.NUMBER,
    "LongType": Family.NUMBER,
    "FloatType": Family.NUMBER,
    "DoubleType": Family.NUMBER,
    "DecimalType": Family.NUMBER,
    "StringType": Family.STRING,
    "CharType": Family.STRING,
    "VarcharType": Family.STRING,
    "TimestampType": Family.TIME,
    "TimestampNTZType": Family.TIME,
    "DateType": Family.TIME,
}
"""By name, so that Spark need not be there to be thought about."""


class Attribute(NamedTuple):
    """A column, or a field of one, as an attribute of events."""

    name: str
    path: tuple[str, ...]
    """The names of the column and of the fields down to it."""
    family: Family
    type: "DataType"


def attributes_of(
    schema: "StructType", unsupported: Unsupported = "refuse", named: Collection[str] | None = None
) -> list[Attribute]:
    """The attributes that rows of a schema may have; or an error that names the column that cannot be one.

    `named`: the only attributes that matter; other columns may be of any type, and are left out then.
    """
    skip = is_skip(unsupported)
    found = list(_attributes(schema, (), () if skip else named))
    # Columns are told apart by name, also those that are only passed on.
    columns = [field.name for field in schema.fields]
    names = [attribute.name for attribute in found]
    if len(names) > ATTRIBUTES_MAX:
        raise LimitError(f"there are {len(names):,} columns", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
    for known in (columns, names):
        if len(set(known)) < len(known):
            twice = next(name for name in known if known.count(name) > 1)
            raise EventError(f"the column {twice!r:.80} is there twice: rename one of them")
    return found


def _attributes(
    schema: "StructType", above: tuple[str, ...], named: Collection[str] | None
) -> Iterator[Attribute]:
    if len(above) > NESTING_MAX:
        raise LimitError(f"structs nest too deep at {'.'.join(above)[:60]!r}", "NESTING_MAX", NESTING_MAX)
    for field in schema.fields:
        path = (*above, check_name(field.name))
        name = check_name(".".join(path))
        kind = type(field.dataType).__name__
        if kind == "StructType":
            yield from _attributes(field.dataType, path, named)  # type: ignore[arg-type]
        elif kind in _FAMILIES:
            yield Attribute(name, path, _FAMILIES[kind], field.dataType)
        elif kind == "ArrayType" and _has_elements(field.dataType):
            yield Attribute(name, path, Family.LIST, field.dataType)
        elif kind != "NullType" and (named is None or name in named):
            raise UnsupportedValueError(
                f"the column {name!r:.80} of type {field.dataType.simpleString()} has no family "
                f"(bool, number, string, time or list): cast it or drop it; {SKIP_HINT}"
            )


def _has_elements(kind: "DataType") -> bool:
    """Whether what an array has in it can be elements of a list."""
    inner = kind.elementType  # type: ignore[attr-defined]
    name = type(inner).__name__
    return (
        name in _FAMILIES
        or name in ("StructType", "NullType")
        or (name == "ArrayType" and _has_elements(inner))
    )
