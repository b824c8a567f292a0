"""Events as rows of a schema, and what a schema must be like for that.

A column takes the attribute of its name; the fields of a struct take those with its name and a dot before
theirs, and the struct is null where all of them are. An absent attribute is null, and so, or an error, is a
value that the column cannot hold:

- text is for strings, bool for bools, and neither for anything else;
- a column of integers takes numbers that are integers and fit, also when they came as doubles;
- a column of doubles takes all numbers but decimals that no double stands for; integers are rounded as Spark
  would, and NaN is null unless it is kept;
- a column of decimals takes finite numbers of as many digits as it has, before and after the point;
- an array takes lists, if it can hold every element; an array of structs takes lists of records;
- timestamps take times, in whole microseconds, and dates those that are midnight in UTC; both also take text
  that is a time (`2024-01-31T05:00:00Z`), since JSON has no other way to write one.

What a column cannot hold is counted (`Misfits`), and said in the log of the task.

`penstock.spark.source.pushdown` rests on exactly this.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import EventError, InputError, UnsupportedValueError
from penstock.model.arrow import family_of_arrow, has_elements
from penstock.model.arrow_layouts import is_arrow_list, plain
from penstock.model.decimals import ExactDecimal, canonical_number, exact
from penstock.model.events import Event
from penstock.model.names import check_name
from penstock.model.nesting import nested_json
from penstock.model.values import Time, Value

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Attributes = dict[str, Value]

DAY: Final = 86_400 * 10**9
"""Nanoseconds of a day."""

MICROSECOND: Final = 1_000
"""Nanoseconds of a microsecond, which is the finest that Spark has."""

_HOLDS: Final = (
    "bool, whole number, float, double, decimal, string, timestamp, date, or a struct or an array of these"
)


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """The schema that Spark expects of batches."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


# Reading


def check_readable(schema: "pa.Schema") -> None:
    """Raise InputError where events cannot be read into such columns."""
    import pyarrow as pa

    def check(prefix: str, field: "pa.Field") -> None:
        name = f"{prefix}{field.name}"
        if pa.types.is_struct(field.type):
            for inner in field.type:
                check(f"{name}.", inner)
        elif _converter(field.type, False) is None:
            raise InputError(
                f"the column {name!r:.80} is of type {field.type}, and no event has such: {_HOLDS}"
            )
        else:
            check_name(name)

    if not len(schema):
        raise InputError("a schema needs a column: name the attributes that are wanted, or give no schema")
    for field in schema:
        check("", field)


class Misfits:
    """Values that their columns cannot hold, and that have become null."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, str]] = {}
        """For each attribute how many, and the first with the type of its column."""

    def note(
        self, name: str, kind: "pa.DataType", given: Sequence[Value | None], values: list[object]
    ) -> None:
        """Take note of what is in `given` and no longer in `values`. NaN is null by choice."""
        lost = [had for had, value in zip(given, values, strict=True) if value is None and had is not None]
        lost = [had for had in lost if had == had]
        if lost:
            count, first = self.found.get(name, (0, f"{lost[0]!s:.60}, for a column of type {kind}"))
            self.found[name] = count + len(lost), first

    def sentences(self) -> Iterator[str]:
        """What there is to say."""
        for name, (count, first) in sorted(self.found.items()):
            yield (
                f"{count:,} value{'' if count == 1 else 's'} of {name!r:.80} became null, because the column "
                f"cannot hold them; the first: {first}. option('mismatch', 'error') makes this an error"
            )


def rows_of(
    events: Sequence[Attributes],
    schema: "pa.Schema",
    *,
    strict: bool = False,
    keep_nan: bool = False,
    misfits: Misfits | None = None,
) -> "pa.RecordBatch":
    """Events as rows. With `strict` a value that a column cannot hold is an error, else null."""
    import pyarrow as pa

    misfits = Misfits() if misfits is None else misfits
    columns = [_column(events, field, "", strict, keep_nan, misfits) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(
    events: Sequence[Attributes],
    field: "pa.Field",
    prefix: str,
    strict: bool,
    keep_nan: bool,
    misfits: Misfits,
) -> "pa.Array":
    import pyarrow as pa

    name = prefix + field.name
    if pa.types.is_struct(field.type):
        return _struct(events, field, name, strict, keep_nan, misfits)
    convert = _converter(field.type, keep_nan)
    assert convert is not None  # noqa: S101 - it was checked
    given = [event.get(name) for event in events]
    values = [None if value is None else convert(value) for value in given]
    if None in values:
        misfits.note(name, field.type, given, values)
    if strict:
        for had, value in zip(given, values, strict=True):
            if value is None and had is not None and had == had:
                raise InputError(
                    f"{name!r:.80} is {had!s:.60} ({_kind_of(had)}) in an event, which a "
                    f"column of type {field.type} cannot hold; option('mismatch', 'null') makes it null"
                )
    if not field.nullable and not prefix and None in values:
        raise InputError(
            f"an event has no {name!r:.80} that its column can hold, which the schema says is never null"
        )
    if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
        ticks = pa.int32() if pa.types.is_date(field.type) else pa.int64()
        return pa.array(values, ticks).cast(field.type)
    return pa.array(values, field.type)


def _kind_of(value: Value) -> str:
    return "decimal" if isinstance(value, Decimal) else type(value).__name__.lower()


def _struct(
    events: Sequence[Attributes],
    field: "pa.Field",
    name: str,
    strict: bool,
    keep_nan: bool,
    misfits: Misfits,
) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    # A value under the struct's own name has no place in it.
    misfits.note(name, field.type, [event.get(name) for event in events], [None] * len(events))
    parts = [_column(events, inner, f"{name}.", strict, keep_nan, misfits) for inner in field.type]
    empty = pa.array([True] * len(events), pa.bool_())
    for part in parts:
        empty = pc.and_(empty, part.is_null())
    for inner, part in zip(field.type, parts, strict=True):
        if not inner.nullable and pc.any(pc.and_not(part.is_null(), empty)).as_py():
            raise InputError(
                f"an event lacks {f'{name}.{inner.name}'!r:.80}, which the schema says is never null"
            )
    return pa.StructArray.from_arrays(parts, fields=list(field.type), mask=empty)


def _converter(kind: "pa.DataType", keep_nan: bool) -> Callable[[Value], object] | None:
    """How a value becomes one of a type: None where it cannot. None where no value ever can."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return lambda value: value if type(value) is bool else None
    if pa.types.is_string(kind):
        return lambda value: value if type(value) is str else None
    if pa.types.is_signed_integer(kind):
        return _to_integer(2 ** (kind.bit_width - 1))
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _to_double if keep_nan else lambda value: None if value != value else _to_double(value)
    if pa.types.is_decimal(kind):
        return _to_decimal(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return _to_microseconds
    if pa.types.is_date32(kind):
        return _to_day
    if is_arrow_list(kind):
        element = _element_converter(kind.value_type, keep_nan)
        return None if element is None else _to_list(element)
    return None


def _to_list(convert: Callable[[Value | Event], object]) -> Callable[[Value], list[object] | None]:
    def convert_list(value: Value) -> list[object] | None:
        if type(value) is not tuple:
            return None
        elements = [convert(element) for element in value]
        return None if None in elements else elements

    return convert_list


def _element_converter(kind: "pa.DataType", keep_nan: bool) -> Callable[[Value | Event], object] | None:
    """How an element of a list becomes one of a type: None where it cannot. None where no element ever
    can."""
    import pyarrow as pa

    if not pa.types.is_struct(kind):
        convert = _converter(kind, keep_nan)
        if convert is None:
            return None
        return lambda element: None if isinstance(element, Event) else convert(element)
    fields = _field_converters(kind, "", keep_nan)
    if fields is None:
        return None
    return lambda element: _to_struct(element.attributes, fields) if isinstance(element, Event) else None


_Field = tuple[str, str, "Callable[[Value], object] | list[_Field]"]
"""A field of a struct: its name, the attribute it takes, and how; or the fields of a struct within."""


def _field_converters(kind: "pa.StructType", prefix: str, keep_nan: bool) -> list[_Field] | None:
    import pyarrow as pa

    found: list[_Field] = []
    for field in kind:
        name = prefix + field.name
        is_struct = pa.types.is_struct(field.type)
        how = (
            _field_converters(field.type, f"{name}.", keep_nan)
            if is_struct
            else _converter(field.type, keep_nan)
        )
        if how is None:
            return None
        found.append((field.name, name, how))
    return found


def _to_struct(record: Attributes, fields: list[_Field]) -> dict[str, object] | None:
    """A record as a struct; None where one of the fields cannot hold what it has."""
    made: dict[str, object] = {}
    for field, name, how in fields:
        if isinstance(how, list):
            inner = _to_struct(record, how)
            if inner is None:
                return None
            made[field] = inner if any(value is not None for value in inner.values()) else None
            continue
        value = record.get(name)
        made[field] = None if value is None else how(value)
        if value is not None and made[field] is None and value == value:
            return None
    return made


def _to_integer(end: int) -> Callable[[Value], int | None]:
    def convert(value: Value) -> int | None:
        if type(value) is int:
            return value if -end <= value < end else None
        if type(value) is float and value.is_integer() and -end <= value < end:
            return int(value)
        return None

    return convert


def _to_decimal(precision: int, scale: int) -> Callable[[Value], Decimal | None]:
    end = Decimal(10) ** (precision - scale)

    def convert(value: Value) -> Decimal | None:
        if type(value) not in (int, float, ExactDecimal) or not math.isfinite(value):  # type: ignore[arg-type]
            return None
        number = exact(canonical_number(value))  # type: ignore[arg-type]
        places = number.as_tuple().exponent
        assert isinstance(places, int)  # noqa: S101 - it is finite
        return number if abs(number) < end and places >= -scale else None

    return convert


def _to_double(value: Value) -> float | None:
    return float(value) if type(value) is float or type(value) is int else None


def _to_time(value: Value) -> Time | None:
    """A time, or the one that a text says."""
    if type(value) is str:
        try:
            return Time.parse(value)
        except UnsupportedValueError:
            return None
    return value if type(value) is Time else None


def _to_microseconds(value: Value) -> int | None:
    time = _to_time(value)
    return None if time is None else time.nanoseconds // MICROSECOND


def _to_day(value: Value) -> int | None:
    time = _to_time(value)
    return time.nanoseconds // DAY if time is not None and time.nanoseconds % DAY == 0 else None


_encode = msgspec.json.Encoder().encode


def json_of(event: Attributes) -> str:
    """An event as JSON text, as `penstock sub` prints it: nested, times as text, NaN as null."""
    return _encode(nested_json(event)).decode()


# Writing


def check_columns(schema: "pa.Schema", unsupported: str) -> None:
    """Raise where rows of such columns cannot be events."""
    import pyarrow as pa

    count = 0

    def check(prefix: str, field: "pa.Field") -> None:
        nonlocal count
        name = prefix + check_name(field.name)
        if pa.types.is_struct(field.type):
            for inner in field.type:
                check(f"{name}.", inner)
        elif family_of_arrow(field.type) is not None:
            check_name(name)
            count += 1
        elif unsupported == "refuse":
            raise UnsupportedValueError(
                f"the column {name!r:.80} of type {field.type} has no family "
                "(bool, number, string, time or list): cast or drop it, or leave it out with "
                "option('unsupported', 'skip')"
            )

    for field in schema:
        check("", field)
    if not count:
        raise EventError("no column can be an attribute of an event")


def filled(rows: "pa.RecordBatch") -> "pa.BooleanArray":
    """Which rows have a value in some column that has a family."""
    import pyarrow as pa
    import pyarrow.compute as pc

    has = pa.array([False] * rows.num_rows, pa.bool_())
    for column in rows.columns:
        has = pc.or_(has, _filled(column))
    return has


def _filled(column: "pa.Array") -> "pa.BooleanArray":
    import pyarrow as pa
    import pyarrow.compute as pc

    column = plain(column)
    if pa.types.is_struct(column.type):
        has = pa.array([False] * len(column), pa.bool_())
        for part in column.flatten():
            has = pc.or_(has, _filled(part))
        return has
    if family_of_arrow(column.type) is None:
        return pa.array([False] * len(column), pa.bool_())
    if is_arrow_list(column.type):
        return pa.array(has_elements(column))
    return column.is_valid()
