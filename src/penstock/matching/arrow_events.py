"""Turning Arrow tables into batches, a column at a time; only columns that some filter names are read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import EventError, LimitError, PenstockError, UnsupportedValueError
from penstock.filters.asked import conditions_inside
from penstock.filters.lists import ELEMENT
from penstock.matching.arrow_decimals import decimals_of
from penstock.matching.arrow_texts import is_text, texts_of
from penstock.matching.batch import (
    DECIMAL,
    DOUBLE,
    FALSE,
    INTEGER,
    LIST,
    NAN,
    STRING,
    TIME,
    ArrowLists,
    Batch,
    ListColumn,
    with_lists,
)
from penstock.matching.computed import filter_of, is_computed
from penstock.model.arrow import (
    NANOSECONDS_OF_UNIT,
    SKIP_HINT,
    elements_of,
    events_from_arrow,
    family_of_arrow,
    has_unmatchable,
    note_skipped_column,
    rows_of_elements,
    without_fields,
)
from penstock.model.arrow_layouts import OUTSIDE, check_nesting, is_arrow_list, plain, plain_type
from penstock.model.events import Unsupported, is_skip
from penstock.model.limits import ATTRIBUTES_MAX, ELEMENTS_MAX, INTEGER_MAX, INTEGER_MIN, NESTING_MAX
from penstock.model.names import check_name
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

_NULL: Final = -1


class _Unsuitable(Exception):  # noqa: N818 - not an error: the rows are looked at one by one then
    """A value that cannot be taken as it is: the row-wise reading knows what to do, or to say, about it."""


class _Values(NamedTuple):
    """The values of one column, or of some, and for each row which of them it has."""

    attribute: NDArray[np.int32]
    state: NDArray[np.uint8]
    bits: NDArray[np.int64]
    length: NDArray[np.int32]
    text: NDArray[np.uint8]
    which: NDArray[np.int32]
    """A row for each row, a column for each column."""
    nulls: bool
    """Whether there may be _NULL in it."""
    lists: tuple[ListColumn, ...] = ()
    """The lists among the values."""


def record_batches(given: Any, rows: int) -> "Iterator[pa.RecordBatch]":
    """The rows of a record batch, a table, or whatever speaks Arrow's protocol, so many at a time."""
    for batch in _whole_batches(given):
        if 0 < batch.num_rows <= rows:
            yield batch
            continue
        for at in range(0, batch.num_rows, rows):
            yield batch.slice(at, rows)


def _whole_batches(given: Any) -> "Iterable[pa.RecordBatch]":
    """What was given as record batches; an array of structs is one of rows."""
    import pyarrow as pa

    if isinstance(given, pa.RecordBatch):
        return [given]
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, pa.ChunkedArray):
        return pa.RecordBatchReader.from_stream(given)  # type: ignore[no-any-return]
    array = given if isinstance(given, pa.ChunkedArray) else pa.chunked_array([pa.array(given)])
    if not pa.types.is_struct(array.type):
        raise EventError(f"a batch is a table or a list of events, not an Arrow array of {array.type}")
    # Where a struct is null, its fields become so.
    return map(pa.RecordBatch.from_struct_array, array.chunks)


def batch_of_arrow(
    rows: "pa.RecordBatch", names: dict[str, int], unsupported: Unsupported = "refuse", first_row: int = 0
) -> Batch:
    """The rows of a record batch as events. Nulls are absent attributes, structs are flattened with dots."""
    skip = is_skip(unsupported)
    left_out: list[tuple[str, pa.Array]] = []
    arrays = _named_arrays(rows, names, skip, left_out)
    texts = [(array, names[name]) for name, array in arrays if is_text(array.type)]
    others = [(array, names[name]) for name, array in arrays if not is_text(array.type)]
    try:
        values = [_column(array, attribute) for array, attribute in others]
        if texts:
            values.append(_texts(texts))
        if not values:
            # No filter names any of the columns.
            nothing = _plain(0, INTEGER, np.zeros(0, np.int64), None)
            values.append(nothing._replace(which=np.zeros((rows.num_rows, 0), np.int32)))
    except _Unsuitable:
        return _row_by_row(_table_of([*arrays, *left_out], rows.num_rows), names, unsupported, first_row)
    for name, array in left_out:
        note_skipped_column(unsupported, name, array)
    return _batch(values, rows.num_rows)


def named_columns(
    rows: "pa.RecordBatch", names: Mapping[str, int], unsupported: Unsupported = "refuse"
) -> "pa.RecordBatch":
    """The columns with these names, flat: structs are flattened with dots."""
    left_out: list[tuple[str, pa.Array]] = []
    arrays = _named_arrays(rows, names, is_skip(unsupported), left_out)
    return _table_of([*arrays, *left_out], rows.num_rows)


def _table_of(arrays: "list[tuple[str, pa.Array]]", rows: int) -> "pa.RecordBatch":
    import pyarrow as pa

    # Without any column, nobody would know how many rows there are.
    found = arrays or [("nothing", pa.nulls(rows))]
    return pa.RecordBatch.from_arrays([array for _, array in found], [name for name, _ in found])


def _named_arrays(
    rows: "pa.RecordBatch | pa.StructArray",
    names: Mapping[str, int],
    skip: bool,
    left_out: "list[tuple[str, pa.Array]]",
    prefix: str = "",
    depth: int = 0,
) -> "list[tuple[str, pa.Array]]":
    """The columns that filters name, structs flattened; those to be left out are put aside."""
    import pyarrow as pa

    if depth > NESTING_MAX:
        raise LimitError(f"structs nest too deep at {prefix[:60]!r}", "NESTING_MAX", NESTING_MAX)
    if isinstance(rows, pa.RecordBatch):
        fields, arrays = rows.schema, rows.columns
    else:
        # flatten() hands a struct's nulls down to its fields, as field() would not.
        fields, arrays = rows.type, rows.flatten()
    found: list[tuple[str, pa.Array]] = []
    if len(fields) > ATTRIBUTES_MAX:
        raise LimitError(f"there are {len(fields):,} columns", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
    for field, array in zip(fields, arrays, strict=True):
        name = prefix + check_name(field.name)
        if name in names or _is_named_record(array.type, name, names):
            check_nesting(array, name, depth)
            array = plain(array)
        if pa.types.is_struct(array.type):
            found += _named_arrays(array, names, skip, left_out, name + ".", depth + 1)
        elif name not in names:
            continue
        elif is_text(array.type) or family_of_arrow(array.type) is not None:
            found.append((name, _with_named_fields(array, name, names)))
        elif skip:
            left_out.append((name, array))
        elif array.null_count < len(array):
            raise UnsupportedValueError(
                f"the column {name!r:.80} of type {array.type} has no family "
                f"(bool, number, string, time or list); {SKIP_HINT}"
            )
    if len({name for name, _ in found}) < len(found):
        known = [name for name, _ in found]
        twice = next(name for name in known if known.count(name) > 1)
        raise EventError(f"the column {twice!r:.80} is there twice")
    return found


def _is_named_record(kind: "pa.DataType", name: str, names: Mapping[str, int]) -> bool:
    """Whether a column is of records, and filters name a field of theirs."""
    import pyarrow as pa

    return pa.types.is_struct(plain_type(kind)) and any(known.startswith(name + ".") for known in names)


def _with_named_fields(array: "pa.Array", name: str, names: Mapping[str, int]) -> "pa.Array":
    """A list without the fields of its records that no rule can match, where no filter names them."""
    if not is_arrow_list(array.type) or not has_unmatchable(array.type):
        return array
    asked = [text for text in names if is_computed(text)]

    def is_named(place: tuple[str, ...]) -> bool:
        # Few filters have the name anywhere in their text; those are read.
        some = (text for text in asked if place[-1].rpartition(".")[2].replace('"', '""') in text)
        return any(
            lists == place[:-1] and place[-1] in kinds
            for text in some
            for lists, kinds in conditions_inside([filter_of(text)])
        )

    return without_fields(array, is_named, (name,))


def _column(array: "pa.Array", attribute: int) -> _Values:
    """The values of a column that has a family."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        return _dictionary_column(array, attribute)
    if is_text(array.type):
        return _texts([(array, attribute)])
    if is_arrow_list(array.type):
        return _lists(array, attribute)
    family = family_of_arrow(array.type)
    valid = _valid(array)
    if family is Family.BOOL:
        filled = array.fill_null(False) if valid is not None else array
        state = (FALSE + filled.to_numpy(zero_copy_only=False).astype(np.uint8)).astype(np.uint8)
        return _plain(attribute, state, np.zeros(len(array), np.int64), valid)
    if family is Family.TIME:
        return _plain(attribute, TIME, _nanoseconds(array, valid), valid)
    if pa.types.is_decimal(array.type):
        return _decimals(array, attribute, valid)
    filled = array.fill_null(0) if valid is not None else array
    if pa.types.is_floating(array.type):
        doubles = filled.to_numpy(zero_copy_only=False).astype(np.float64)
        state = np.where(np.isnan(doubles), NAN, DOUBLE).astype(np.uint8)
        return _plain(attribute, state, doubles.view(np.int64), valid)
    integers = filled.to_numpy(zero_copy_only=False)
    if integers.dtype == np.uint64 and (integers > INTEGER_MAX).any():
        raise _Unsuitable
    return _plain(attribute, INTEGER, integers.astype(np.int64), valid)


def _lists(array: "pa.Array", attribute: int) -> _Values:
    """The lists of a column. One without elements is absent, as null is."""
    import pyarrow as pa

    try:
        elements, owner = elements_of(array)
        counts = np.bincount(owner, minlength=len(array))
        if counts.max(initial=0) > ELEMENTS_MAX:
            raise _Unsuitable
        rows = rows_of_elements(elements, ELEMENT)
        names = {name: number for number, name in enumerate(_leaves(rows))}
        batch = batch_of_arrow(rows, names)
    except PenstockError:
        raise _Unsuitable from None
    valid = counts > 0
    place = np.cumsum(valid) - 1
    made = _plain(attribute, LIST, np.zeros(len(array), np.int64), None if valid.all() else valid)
    known = ArrowLists(array.filter(pa.array(valid)), batch, list(names), place[owner])
    return made._replace(lists=(ListColumn(attribute, np.flatnonzero(valid).astype(np.int32), known),))


def _leaves(rows: "pa.RecordBatch") -> list[str]:
    """The attributes that rows may have, structs flattened."""
    from penstock.model.schema import leaves

    return list(dict.fromkeys(name for name, _kind in leaves(rows.schema)))


def _decimals(array: "pa.Array", attribute: int, valid: NDArray[np.bool_] | None) -> _Values:
    """The values of a column of decimals."""
    found = decimals_of(array)
    if found is None:
        raise _Unsuitable
    made = _plain(attribute, found.state, found.bits, valid)
    return made._replace(length=found.length, text=found.records)


def _plain(
    attribute: int, state: int | NDArray[np.uint8], bits: NDArray[np.int64], valid: NDArray[np.bool_] | None
) -> _Values:
    """A value for each row."""
    rows = len(bits)
    which = np.arange(rows, dtype=np.int32)
    if valid is not None:
        which[~valid] = _NULL
    return _Values(
        attribute=np.full(rows, attribute, np.int32),
        state=np.full(rows, state, np.uint8) if isinstance(state, int) else state,
        bits=bits,
        length=np.zeros(rows, np.int32),
        text=np.zeros(0, np.uint8),
        which=which.reshape(rows, 1),
        nulls=valid is not None,
    )


def _dictionary_column(array: "pa.DictionaryArray", attribute: int) -> _Values:
    """The values of a dictionary, which itself may have nulls, and repeat what it has."""
    valid = _valid(array.indices)
    values = _column(array.dictionary, attribute)
    index = (array.indices.fill_null(0) if valid is not None else array.indices).to_numpy(
        zero_copy_only=False
    )
    if len(index) and not (index.min() >= 0 and index.max() < max(1, len(array.dictionary))):
        raise EventError(OUTSIDE)
    if not len(array.dictionary):
        return values._replace(which=np.full((len(array), 1), _NULL, np.int32), nulls=True)
    which = values.which.reshape(-1).take(index)
    if valid is not None:
        which[~valid] = _NULL
    return values._replace(which=which.reshape(-1, 1), nulls=values.nulls or valid is not None)


def _texts(columns: "list[tuple[pa.Array, int]]") -> _Values:
    """The values of all columns of texts."""
    arrays = [array for array, _ in columns]
    found = texts_of(arrays, [attribute for _, attribute in columns])
    if found is None:
        raise _Unsuitable
    return _Values(
        attribute=found.attribute,
        state=np.full(len(found.start), STRING, np.uint8),
        bits=found.start,
        length=found.length,
        text=found.text,
        which=found.which,
        nulls=any(array.null_count for array in arrays),
    )


def _valid(array: "pa.Array") -> NDArray[np.bool_] | None:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _nanoseconds(array: "pa.Array", valid: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_timestamp(kind):
        scale, ticks = NANOSECONDS_OF_UNIT[kind.unit], array.cast(pa.int64())
    elif pa.types.is_date32(kind):
        scale, ticks = 86_400 * 1_000_000_000, array.cast(pa.int32()).cast(pa.int64())
    else:
        scale, ticks = 1_000_000, array.cast(pa.int64())
    if valid is not None:
        ticks = ticks.fill_null(0)
    values: NDArray[np.int64] = ticks.to_numpy(zero_copy_only=False)
    if len(values) and not (INTEGER_MIN // scale < values.min() and values.max() <= INTEGER_MAX // scale):
        raise _Unsuitable
    return values * scale


def _batch(parts: list[_Values], rows: int) -> Batch:
    """Lay values end to end, and the rows' entries one after another."""
    values = parts[0] if len(parts) == 1 else _joined(parts, rows)
    width = values.which.shape[1]
    entries = values.which.reshape(-1)
    if values.nulls:
        valid = entries >= 0
        entries = entries[valid]
        count = valid.reshape(rows, width).sum(axis=1, dtype=np.int32)
        start = np.zeros(rows, np.int64)
        np.cumsum(count[:-1], out=start[1:])
    else:
        count = np.full(rows, width, np.int32)
        start = np.arange(rows, dtype=np.int64) * width
    made = Batch(
        start=start,
        count=count,
        entries=entries,
        value_attribute=values.attribute,
        value_state=values.state,
        value_bits=values.bits,
        value_length=values.length,
        arena=values.text,
    )
    return with_lists(made, values.lists)


def _joined(parts: list[_Values], rows: int) -> _Values:
    """Values laid end to end."""
    value_starts = np.cumsum([0] + [len(part.state) for part in parts])
    text_starts = np.cumsum([0] + [len(part.text) for part in parts])
    which = np.empty((rows, sum(part.which.shape[1] for part in parts)), np.int32)
    column = 0
    for at, part in enumerate(parts):
        here = which[:, column : column + part.which.shape[1]]
        np.add(part.which, np.int32(value_starts[at]), out=here)
        if part.nulls:
            here[part.which < 0] = _NULL
        column += part.which.shape[1]
    return _Values(
        attribute=np.concatenate([part.attribute for part in parts]),
        state=np.concatenate([part.state for part in parts]),
        bits=np.concatenate([_shifted(part, int(text_starts[at])) for at, part in enumerate(parts)]),
        length=np.concatenate([part.length for part in parts]),
        text=np.concatenate([part.text for part in parts]),
        which=which,
        nulls=any(part.nulls for part in parts),
        lists=tuple(
            column._replace(places=column.places + np.int32(value_starts[at]))
            for at, part in enumerate(parts)
            for column in part.lists
        ),
    )


def _shifted(part: _Values, start: int) -> NDArray[np.int64]:
    """The bits of values when their texts start here."""
    if not start or not len(part.text):
        return part.bits
    are_places = (part.state == STRING) | (part.state == DECIMAL)
    return part.bits + np.where(are_places, start, 0)


def _row_by_row(
    rows: "pa.RecordBatch", names: dict[str, int], unsupported: Unsupported, first_row: int
) -> Batch:
    """For the rare batch with a value that has to be refused or skipped."""
    from penstock.matching.encode import BatchBuilder

    builder = BatchBuilder(names)
    for event in events_from_arrow(rows, unsupported=unsupported, first_row=first_row):
        builder.add(event.attributes)
    return builder.build()
