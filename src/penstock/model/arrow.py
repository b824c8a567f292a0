"""Events from the rows of Arrow tables and record batches.

A null is an absent attribute; a row of nothing but nulls is an event without attributes. Structs are
flattened with dots, also those in lists. A column whose type has no family (binary, maps) is refused, or left
out when the caller says so; so is a value outside its family's range.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.errors import EventError, LimitError, PenstockError, UnsupportedValueError
from penstock.model.arrow_layouts import (
    check_nesting,
    decoded,
    is_arrow_list,
    plain,
    plain_type,
    without_views,
)
from penstock.model.events import Event, Unsupported, check_elements, is_skip, note_skipped, skipping_inside
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX
from penstock.model.names import check_name
from penstock.model.places import ELEMENT
from penstock.model.values import Family, List, Time, Value, to_value

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

NANOSECONDS_OF_UNIT: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
SKIP_HINT: Final = "unsupported='skip' leaves it out"


def events_from_arrow(
    rows: "pa.Table | pa.RecordBatch", *, unsupported: Unsupported = "refuse", first_row: int = 0
) -> Iterator[Event]:
    """Yield an event for each row, in order. Errors name the row, counted from `first_row`."""
    is_skip(unsupported)
    row = first_row
    for batch in rows.to_batches() if hasattr(rows, "to_batches") else [rows]:
        columns = dict(_columns(batch, "", unsupported, row, 0))
        values_by_row: Iterable[tuple[Value | None, ...]] = (
            zip(*columns.values(), strict=True) if columns else [()] * batch.num_rows
        )
        for values in values_by_row:
            yield Event.from_flat({n: v for n, v in zip(columns, values, strict=True) if v is not None})
        row += batch.num_rows


def _columns(
    batch: "pa.RecordBatch | pa.StructArray", prefix: str, unsupported: Unsupported, row: int, depth: int
) -> list[tuple[str, list[Value | None]]]:
    """The columns that have a family, structs flattened, as (name, values)."""
    import pyarrow as pa

    if depth > NESTING_MAX:
        raise LimitError(f"structs nest too deep at {prefix[:60]!r}", "NESTING_MAX", NESTING_MAX)
    if isinstance(batch, pa.RecordBatch):
        fields, arrays = batch.schema, batch.columns
    else:
        # flatten() hands a struct's nulls down to its fields, as field() would not.
        fields, arrays = batch.type, batch.flatten()
    found: list[tuple[str, list[Value | None]]] = []
    for field, array in zip(fields, arrays, strict=True):
        name = prefix + check_name(field.name)
        check_nesting(array, name, depth)
        array = plain(array)
        if pa.types.is_struct(array.type):
            found += _columns(array, name + ".", unsupported, row, depth + 1)
        elif family_of_arrow(array.type) is not None:
            found.append((check_name(name), _values(array, name, unsupported, row)))
        elif is_skip(unsupported):
            note_skipped_column(unsupported, name, array)
        elif array.null_count < len(array):
            raise UnsupportedValueError(
                f"the column {name!r:.80} of type {array.type} has no family "
                f"(bool, number, string, time or list); {SKIP_HINT}"
            )
    names = [name for name, _values_of in found]
    if len(names) > ATTRIBUTES_MAX:
        raise LimitError(f"there are {len(names):,} columns", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise EventError(f"the column {twice!r:.80} is there twice")
    return found


def note_skipped_column(unsupported: Unsupported, name: str, array: "pa.Array") -> None:
    """Take note of a column whose type has no family."""
    if array.null_count < len(array):
        why = f"a column of type {array.type} has no family (bool, number, string, time or list)"
        note_skipped(unsupported, name, why, len(array) - array.null_count)


def family_of_arrow(kind: "pa.DataType") -> Family | None:
    """The family of an Arrow type, or None where it has none."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return family_of_arrow(kind.value_type)
    if is_arrow_list(kind):
        inner = plain_type(kind.value_type)
        while is_arrow_list(inner):
            inner = plain_type(inner.value_type)
        is_readable = (
            pa.types.is_struct(inner) or pa.types.is_null(inner) or family_of_arrow(inner) is not None
        )
        return Family.LIST if is_readable else None
    tests: Mapping[Family, tuple[Callable[[Any], bool], ...]] = {
        Family.BOOL: (pa.types.is_boolean,),
        Family.NUMBER: (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        Family.STRING: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        Family.TIME: (pa.types.is_timestamp, pa.types.is_date),
    }
    return next((family for family, ways in tests.items() if any(way(kind) for way in ways)), None)


def elements_of(array: "pa.Array") -> "tuple[pa.Array, NDArray[np.int64]]":
    """The elements of all lists of an array, and for each of them the row of its list.

    Nulls, and lists within that have no element, are none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = plain(array)
    elements, rows = pc.list_flatten(array), pc.list_parent_indices(array)
    if pa.types.is_dictionary(elements.type) and elements.dictionary.null_count:
        # Arrow counts only nulls among the indices.
        elements = decoded(elements)
    if is_arrow_list(elements.type):
        valid = pa.array(has_elements(elements))
        elements, rows = elements.filter(valid), rows.filter(valid)
    elif elements.null_count:
        valid = elements.is_valid()
        elements, rows = elements.filter(valid), rows.filter(valid)
    return elements, rows.to_numpy(zero_copy_only=False).astype(np.int64)


def has_elements(array: "pa.Array") -> "NDArray[np.bool_]":
    """Which lists of an array have an element: the others are absent."""
    found: NDArray[np.bool_] = np.bincount(elements_of(array)[1], minlength=len(array)) > 0
    return found


def has_unmatchable(kind: "pa.DataType") -> bool:
    """Whether lists of a type have records with a field that no rule can match."""
    import pyarrow as pa

    kind = plain_type(kind)
    if not is_arrow_list(kind) and not pa.types.is_struct(kind):
        return family_of_arrow(kind) is None and not pa.types.is_null(kind)
    if is_arrow_list(kind):
        return has_unmatchable(kind.value_type)
    return any(has_unmatchable(field.type) for field in kind)


def without_fields(
    array: "pa.Array", is_wanted: Callable[[tuple[str, ...]], bool], lists: tuple[str, ...]
) -> "pa.Array":
    """Lists whose records have null for fields that no rule can match, but for those that are wanted.

    `lists`: the names of the lists that elements are in, the outermost first.
    """
    import pyarrow as pa

    elements, rows = elements_of(array)
    ends = np.cumsum(np.bincount(rows, minlength=len(array)))
    if pa.types.is_struct(elements.type):
        elements = _without_fields(elements, is_wanted, lists, "")
    elif is_arrow_list(elements.type):
        elements = without_fields(elements, is_wanted, (*lists, ELEMENT))
    return pa.LargeListArray.from_arrays(pa.array(np.append(0, ends)), elements)


def _without_fields(
    record: "pa.StructArray",
    is_wanted: Callable[[tuple[str, ...]], bool],
    lists: tuple[str, ...],
    prefix: str,
) -> "pa.StructArray":
    import pyarrow as pa

    found = []
    # flatten() hands nulls down to the fields: a record without values is one without attributes.
    for field, array in zip(record.type, record.flatten(), strict=True):
        name = prefix + field.name
        if pa.types.is_struct(field.type):
            array = _without_fields(array, is_wanted, lists, name + ".")
        elif not has_unmatchable(field.type):
            pass
        elif family_of_arrow(field.type) is Family.LIST:
            array = without_fields(array, is_wanted, (*lists, name))
        elif not is_wanted((*lists, name)):
            array = pa.nulls(len(array))
        found.append(array)
    return pa.StructArray.from_arrays(found, [field.name for field in record.type])


def rows_of_elements(elements: "pa.Array", name: str) -> "pa.RecordBatch":
    """Elements as rows: records are such, any others a column of that name."""
    import pyarrow as pa

    if pa.types.is_struct(elements.type):
        return pa.RecordBatch.from_struct_array(elements)
    return pa.RecordBatch.from_arrays([elements], [name])


def lists_from_arrow(array: "pa.Array", unsupported: Unsupported = "refuse") -> list[List | None]:
    """The lists of an array as the model has them, None for one that has no element.

    An error has the number of the element as its row.
    """
    import pyarrow as pa

    elements, rows = elements_of(array)
    if pa.types.is_struct(elements.type):
        values: list[Any] = list(events_from_arrow(rows_of_elements(elements, ""), unsupported=unsupported))
    elif len(elements):
        values = _values(elements, "", unsupported, 0)
    else:
        values = []
    counts = np.bincount(rows, minlength=len(array)).tolist()
    found: list[List | None] = []
    at = 0
    for count in counts:
        check_elements(count, "")
        found.append(tuple(value for value in values[at : at + count] if value is not None) or None)
        at += count
    return found


def column_values(array: "pa.Array") -> list[Any]:
    """The values of an array as the model has them; of one without a family, as Python has them.

    Where the model has no such value, the error stands in its place: only the caller knows which row to name.
    """
    if family_of_arrow(array.type) is None:
        return array.to_pylist()  # type: ignore[no-any-return]
    if is_arrow_list(array.type):
        return _lists(array, "", "refuse", 0)
    values, convert = _raw_values(array)
    return values if convert is None else [_value_or_error(value, convert) for value in values]


def _values(array: "pa.Array", name: str, unsupported: Unsupported, row: int) -> list[Value | None]:
    """The values of a column that has a family; `row` is the number of its first."""
    if is_arrow_list(array.type):
        return _lists(array, name, unsupported, row)
    values, convert = _raw_values(array)
    return values if convert is None else _checked(values, convert, name, unsupported, row)


def _lists(array: "pa.Array", name: str, unsupported: Unsupported, row: int) -> list[Value | None]:
    inside = skipping_inside(unsupported, name)
    try:
        return list(lists_from_arrow(array, inside))
    except PenstockError:
        pass
    # Once more, to know which row it is in.
    found: list[Value | None] = []
    for at in range(len(array)):
        try:
            found += lists_from_arrow(array.slice(at, 1), inside)
        except PenstockError as error:
            raise error.in_list(row + at, name) from None
    return found


def _raw_values(array: "pa.Array") -> tuple[list[Any], Callable[[Any], Value] | None]:
    """The values of a column that has a family, and how to make the model's of them, where they are not."""
    import pyarrow as pa

    array = without_views(array)
    if pa.types.is_dictionary(array.type):
        return _raw_values(array.dictionary_decode())
    kind = array.type
    if family_of_arrow(kind) is Family.TIME:
        return _ticks(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            return array.to_pylist(), to_value
        except UnicodeDecodeError:
            return array.cast(pa.large_binary()).to_pylist(), _decoded
    return array.to_pylist(), to_value if kind == pa.uint64() or pa.types.is_decimal(kind) else None


def _value_or_error(value: Any, convert: Callable[[Any], Value]) -> Value | PenstockError | None:
    try:
        return None if value is None else convert(value)
    except PenstockError as error:
        return error


def _checked(
    values: list[Any], convert: Callable[[Any], Value], name: str, unsupported: Unsupported, row: int
) -> list[Value | None]:
    """Convert each value that is not null; one that cannot be is named with its place, or skipped."""
    converted: list[Value | None] = []
    for at, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except PenstockError as error:
            if isinstance(error, LimitError):
                raise error.in_row(row + at, name) from None
            if not is_skip(unsupported):
                raise UnsupportedValueError(f"{error} ({SKIP_HINT})").in_row(row + at, name) from None
            note_skipped(unsupported, name, error)
            converted.append(None)
    return converted


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise UnsupportedValueError(f"{value[:40]!r} is not UTF-8") from None


def _ticks(array: "pa.Array") -> tuple[list[int | None], Callable[[int], Time]]:
    """Timestamps or dates as the integers they are stored as, and how to make a time of one."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_timestamp(kind):
        scale, ticks = NANOSECONDS_OF_UNIT[kind.unit], array.cast(pa.int64())
    elif pa.types.is_date32(kind):
        scale, ticks = 86_400 * 1_000_000_000, array.cast(pa.int32())
    else:
        scale, ticks = 1_000_000, array.cast(pa.int64())
    return ticks.to_pylist(), lambda tick: Time(tick * scale)
