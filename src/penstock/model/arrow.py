"""Events from the rows of Arrow tables and record batches.

A null is an absent attribute: that is how a table says it. Structs are flattened with dots. A column
whose type has no family (lists, binary, decimals, maps) is refused, or left out when the caller says so.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import EventError, UnsupportedValueError
from penstock.model.events import Event, Unsupported
from penstock.model.names import check_name
from penstock.model.values import Family, Time, Value, to_value

if TYPE_CHECKING:
    import pyarrow as pa

_NANOSECONDS_OF_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def events_from_arrow(
    rows: "pa.Table | pa.RecordBatch", *, unsupported: Unsupported = "refuse"
) -> Iterator[Event | None]:
    """Yield an event for each row, in order.

    A row that has no attribute at all is no event: it is refused, or with `unsupported="skip"` None
    stands in its place, so that positions still count.
    """
    batches = rows.to_batches() if hasattr(rows, "to_batches") else [rows]
    skip = unsupported == "skip"
    row = 0
    for batch in batches:
        columns = list(_columns(batch, "", skip))
        names = [name for name, _values in columns]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise EventError(f"the column {twice!r:.80} is there twice, once nested and once dotted")
        if not columns:
            values_by_row: Iterator[tuple[Value | None, ...]] = (() for _ in range(batch.num_rows))
        else:
            values_by_row = zip(*(values for _name, values in columns), strict=True)
        for values in values_by_row:
            attributes = {n: v for n, v in zip(names, values, strict=True) if v is not None}
            if attributes:
                yield Event.from_flat(attributes)
            elif skip:
                yield None
            else:
                raise EventError(f"row {row} has no attribute at all (unsupported='skip' passes over it)")
            row += 1


def _columns(
    batch: "pa.RecordBatch | pa.StructArray", prefix: str, skip: bool
) -> Iterator[tuple[str, list[Value | None]]]:
    """Yield (name, values) for each column that has a family, structs flattened."""
    import pyarrow as pa

    if isinstance(batch, pa.RecordBatch):
        fields, arrays = batch.schema, batch.columns
    else:
        # flatten() hands a struct's nulls down to its fields, as field() would not.
        fields, arrays = batch.type, batch.flatten()
    for field, array in zip(fields, arrays, strict=True):
        name = prefix + check_name(field.name)
        if pa.types.is_struct(array.type):
            yield from _columns(array, name + ".", skip)
            continue
        read = _reader(array.type)
        if read is None:
            if skip or array.null_count == len(array):
                continue
            raise UnsupportedValueError(
                f"the column {name!r:.80} of type {array.type} has no family (bool, number, string or "
                "time); unsupported='skip' leaves it out"
            )
        yield check_name(name), read(array)


def family_of_arrow(kind: "pa.DataType") -> Family | None:
    """The family of an Arrow type, or None where it has none."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return family_of_arrow(kind.value_type)
    tests: Mapping[Family, tuple[Callable[[Any], bool], ...]] = {
        Family.BOOL: (pa.types.is_boolean,),
        Family.NUMBER: (pa.types.is_integer, pa.types.is_floating),
        Family.STRING: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        Family.TIME: (pa.types.is_timestamp, pa.types.is_date),
    }
    return next((family for family, ways in tests.items() if any(way(kind) for way in ways)), None)


def _reader(kind: "pa.DataType") -> "Callable[[pa.Array], list[Value | None]] | None":
    """How to turn an array of this type into Python values, or None where it has no family."""
    import pyarrow as pa

    family = family_of_arrow(kind)
    if family is None:
        return None
    if family is Family.TIME:
        return _times
    base = kind.value_type if pa.types.is_dictionary(kind) else kind
    if family is Family.STRING or base == pa.uint64():
        return lambda array: [None if v is None else to_value(v) for v in array.to_pylist()]
    return lambda array: array.to_pylist()


def _times(array: "pa.Array") -> list[Value | None]:
    """Timestamps and dates as times, exactly: through the integers they are stored as."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_timestamp(kind):
        scale, ticks = _NANOSECONDS_OF_UNIT[kind.unit], array.cast(pa.int64())
    elif pa.types.is_date32(kind):
        scale, ticks = 86_400 * 1_000_000_000, array.cast(pa.int32())
    else:
        scale, ticks = 1_000_000, array.cast(pa.int64())
    return [None if tick is None else Time(tick * scale) for tick in ticks.to_pylist()]
