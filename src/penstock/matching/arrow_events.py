"""Turning Arrow tables into batches, a column at a time; only columns that some filter names are read."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import EventError, LimitError, UnsupportedValueError
from penstock.matching.batch import DOUBLE, FALSE, INTEGER, NAN, NO_EVENT, STRING, TIME, Batch
from penstock.model.arrow import NANOSECONDS_OF_UNIT, SKIP_HINT, events_from_arrow, family_of_arrow
from penstock.model.events import Unsupported, is_skip
from penstock.model.limits import ATTRIBUTES_MAX, INTEGER_MAX, INTEGER_MIN, NESTING_MAX, STRING_LENGTH_MAX
from penstock.model.names import check_name
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

_FEW: Final = 0.75
"""Strings are looked up once for each different one where less than this share of a sample differs."""

_LOOKED_AT: Final = 256


class _Unsuitable(Exception):  # noqa: N818 - not an error: the rows are looked at one by one then
    """A value that cannot be taken as it is: the row-wise reading knows what to do, or to say, about it."""


class _Column(NamedTuple):
    """The values of one attribute, and for each row which of them it has."""

    attribute: int
    state: NDArray[np.uint8]
    bits: NDArray[np.int64]
    length: NDArray[np.int32]
    text: NDArray[np.uint8]
    which: NDArray[np.int32] | None
    """None: row i has value i."""
    valid: NDArray[np.bool_] | None
    """None: all are."""


def record_batches(given: Any, rows: int) -> "Iterator[pa.RecordBatch]":
    """The rows of a record batch, a table, or whatever speaks Arrow's protocol, so many at a time."""
    import pyarrow as pa

    whole = [given] if isinstance(given, pa.RecordBatch) else pa.RecordBatchReader.from_stream(given)
    for batch in whole:
        for at in range(0, batch.num_rows, rows):
            yield batch.slice(at, rows)


def batch_of_arrow(
    rows: "pa.RecordBatch", names: dict[str, int], unsupported: Unsupported = "refuse", first_row: int = 0
) -> Batch:
    """The rows of a record batch as events. Nulls are absent attributes, structs are flattened with dots."""
    skip = is_skip(unsupported)
    arrays = _named_arrays(rows, names, skip)
    try:
        columns = [_column(array, names[name]) for name, array in arrays]
    except _Unsuitable:
        return _row_by_row(rows, names, unsupported, first_row)
    batch = _batch(columns, rows.num_rows)
    void = _void_rows(rows)
    if void is not None and void.any():
        if not skip:
            row = first_row + int(np.flatnonzero(void)[0])
            raise EventError(f"there is no attribute at all ({SKIP_HINT})").in_row(row)
        batch.count[void] = NO_EVENT
    return batch


def _named_arrays(
    rows: "pa.RecordBatch | pa.StructArray",
    names: dict[str, int],
    skip: bool,
    prefix: str = "",
    depth: int = 0,
) -> "list[tuple[str, pa.Array]]":
    """The columns that filters name, structs flattened."""
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
        if pa.types.is_struct(array.type):
            found += _named_arrays(array, names, skip, name + ".", depth + 1)
        elif name not in names:
            continue
        elif family_of_arrow(array.type) is not None:
            found.append((name, array))
        elif not skip and array.null_count < len(array):
            raise UnsupportedValueError(
                f"the column {name!r:.80} of type {array.type} has no family "
                f"(bool, number, string or time); {SKIP_HINT}"
            )
    if len({name for name, _ in found}) < len(found):
        known = [name for name, _ in found]
        twice = next(name for name in known if known.count(name) > 1)
        raise EventError(f"the column {twice!r:.80} is there twice")
    return found


def _column(array: "pa.Array", attribute: int) -> _Column:
    """The values of a column that has a family."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        valid = _valid(array.indices)
        index = array.indices.fill_null(0) if valid is not None else array.indices
        values = _column(array.dictionary, attribute)
        numbers = index.to_numpy(zero_copy_only=False)
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < max(1, len(array.dictionary))):
            raise EventError("a dictionary column has an index that is outside its dictionary")
        numbers = numbers.astype(np.int32)
        if values.valid is not None and len(values.valid):
            # A value of the dictionary that is null.
            valid = values.valid[numbers] & (True if valid is None else valid)
        if not len(values.state):
            numbers, valid = np.zeros(0, np.int32), np.zeros(len(array), np.bool_)
            return values._replace(which=np.zeros(len(array), np.int32), valid=valid)
        return values._replace(which=numbers, valid=valid)
    family = family_of_arrow(array.type)
    if family is Family.STRING:
        return _string_column(array, attribute)
    valid = _valid(array)
    if family is Family.BOOL:
        filled = array.fill_null(False) if valid is not None else array
        state = (FALSE + filled.to_numpy(zero_copy_only=False).astype(np.uint8)).astype(np.uint8)
        return _plain(attribute, state, np.zeros(len(array), np.int64), valid)
    if family is Family.TIME:
        return _plain(attribute, TIME, _nanoseconds(array, valid), valid)
    filled = array.fill_null(0) if valid is not None else array
    if pa.types.is_floating(array.type):
        doubles = filled.to_numpy(zero_copy_only=False).astype(np.float64)
        state = np.where(np.isnan(doubles), NAN, DOUBLE).astype(np.uint8)
        return _plain(attribute, state, doubles.view(np.int64), valid)
    integers = filled.to_numpy(zero_copy_only=False)
    if integers.dtype == np.uint64 and (integers > INTEGER_MAX).any():
        raise _Unsuitable
    return _plain(attribute, INTEGER, integers.astype(np.int64), valid)


def _plain(
    attribute: int, state: int | NDArray[np.uint8], bits: NDArray[np.int64], valid: NDArray[np.bool_] | None
) -> _Column:
    states = np.full(len(bits), state, np.uint8) if isinstance(state, int) else state
    return _Column(attribute, states, bits, np.zeros(len(bits), np.int32), np.zeros(0, np.uint8), None, valid)


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


def _string_column(array: "pa.Array", attribute: int) -> _Column:
    import pyarrow as pa

    count = len(array)
    if count > _LOOKED_AT and len(array[:_LOOKED_AT].unique()) < _FEW * _LOOKED_AT:
        return _column(array.dictionary_encode(), attribute)
    if not pa.types.is_large_string(array.type):
        array = array.cast(pa.large_string())
    _, raw_offsets, data = array.buffers()
    offsets = np.frombuffer(raw_offsets, np.int64)[array.offset : array.offset + count + 1]
    first, last = (int(offsets[0]), int(offsets[-1])) if count else (0, 0)
    text = np.frombuffer(data, np.uint8)[first:last].copy() if data is not None else np.zeros(0, np.uint8)
    length = np.diff(offsets).astype(np.int32) if count else np.zeros(0, np.int32)
    start = offsets[:-1] - first if count else np.zeros(0, np.int64)
    _check_text(text, start, length)
    return _Column(attribute, np.full(count, STRING, np.uint8), start, length, text, None, _valid(array))


def _check_text(text: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int32]) -> None:
    """See to it that strings are UTF-8, each for itself, and not too long."""
    if len(length) and length.max() > STRING_LENGTH_MAX:
        raise _Unsuitable
    if len(text) and text.max() >= 0x80:
        try:
            text.tobytes().decode()
        except UnicodeDecodeError:
            raise _Unsuitable from None
        begins = text[start[length > 0]]
        if ((begins & 0xC0) == 0x80).any():
            raise _Unsuitable


def _batch(columns: list[_Column], rows: int) -> Batch:
    """Lay the columns' values end to end, and the rows' entries one after another."""
    value_starts = np.cumsum([0] + [len(column.state) for column in columns])
    text_starts = np.cumsum([0] + [len(column.text) for column in columns])
    width = len(columns)
    entries = np.empty((rows, width), np.int32)
    for at, column in enumerate(columns):
        index = np.arange(rows, dtype=np.int32) if column.which is None else column.which
        np.add(index, np.int32(value_starts[at]), out=entries[:, at], casting="unsafe")
    start = np.arange(rows, dtype=np.int64) * width
    count = np.full(rows, width, np.int32)
    flat = entries.reshape(-1)
    if any(column.valid is not None for column in columns):
        valid = np.ones((rows, width), np.bool_)
        for at, column in enumerate(columns):
            if column.valid is not None:
                valid[:, at] = column.valid
        flat = flat[valid.reshape(-1)]
        count = valid.sum(axis=1, dtype=np.int32)
        start = np.zeros(rows, np.int64)
        np.cumsum(count[:-1], out=start[1:])
    empty: list[Any] = [np.zeros(0, np.int64)]
    return Batch(
        start=start,
        count=count,
        entries=flat,
        value_attribute=np.repeat(
            np.array([column.attribute for column in columns], np.int32), np.diff(value_starts)
        ),
        value_state=np.concatenate([column.state for column in columns] or empty).astype(np.uint8),
        value_bits=np.concatenate(
            [
                column.bits + text_starts[at] if len(column.text) else column.bits
                for at, column in enumerate(columns)
            ]
            or empty
        ),
        value_length=np.concatenate([column.length for column in columns] or empty).astype(np.int32),
        arena=np.concatenate([column.text for column in columns] or empty).astype(np.uint8),
    )


def _void_rows(rows: "pa.RecordBatch") -> NDArray[np.bool_] | None:
    """The rows that have no attribute at all; None where that is easily seen not to be."""
    import pyarrow as pa

    void: NDArray[np.bool_] | None = None
    pending = list(rows.columns)
    while pending:
        array = pending.pop()
        if pa.types.is_struct(array.type):
            pending += array.flatten()
            continue
        if family_of_arrow(array.type) is None:
            continue
        if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
            array = array.dictionary_decode()
        if array.null_count == 0:
            return None
        null = array.is_null().to_numpy(zero_copy_only=False)
        void = null if void is None else void & null
    return np.ones(rows.num_rows, np.bool_) if void is None else void


def _row_by_row(
    rows: "pa.RecordBatch", names: dict[str, int], unsupported: Unsupported, first_row: int
) -> Batch:
    """For the rare batch with a value that has to be refused or skipped."""
    from penstock.matching.encode import BatchBuilder

    builder = BatchBuilder(names)
    for event in events_from_arrow(rows, unsupported=unsupported, first_row=first_row):
        if event is None:
            builder.add_nothing()
        else:
            builder.add(event.attributes)
    return builder.build()
