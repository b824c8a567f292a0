"""The columns of a table of constraints as arrays: which there are, of which types, and what they hold.

Only what rows refer to is looked at: the dictionary of a column may be that of a larger table.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError, PenstockError
from penstock.model.arrow import column_values, family_of_arrow
from penstock.model.arrow_layouts import without_views
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

NEEDED_COLUMNS: Final = ("id", "attribute", "op")
VALUE_COLUMNS: Final = ("number", "string", "bool", "time")
"""The columns that hold values, of any type of their family, or lists of it; each may be missing."""


class Different(NamedTuple):
    """A column as numbers of its different values."""

    codes: NDArray[np.int64]
    """For each row the number of its value; null is -1."""
    values: "pa.Array"
    """Each is that of some row, and none is null."""


def arrays_of_table(table: "pa.Table") -> "dict[str, pa.Array]":
    """The columns of a table of constraints by name, those that are none of its left out."""
    given = table.column_names
    for name in NEEDED_COLUMNS:
        if name not in given:
            raise InputError(
                f"a table of constraints has the columns id, attribute and op; {name} is missing"
            )
    arrays = {}
    for name in (*NEEDED_COLUMNS, "filter", *VALUE_COLUMNS):
        if given.count(name) > 1:
            raise InputError(f"a table of constraints has the column {name} twice")
        if name in given:
            column = table[name]
            _check_type(name, column.type)
            arrays[name] = _one_array(column)
    return arrays


def is_list(kind: "pa.DataType") -> bool:
    """Whether a type is one of lists."""
    import pyarrow as pa

    ways = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(pa.types, f"is_{way}")(kind) for way in ways)


def _check_type(name: str, kind: "pa.DataType") -> None:
    import pyarrow as pa

    if name == "filter" or pa.types.is_null(kind):
        return  # whatever tells filters apart will do
    # A list of lists is none of values.
    inner = kind.value_type if name in VALUE_COLUMNS and is_list(kind) else kind
    family = family_of_arrow(inner)
    while pa.types.is_dictionary(inner):
        inner = inner.value_type
    if name == "id":
        good = family is Family.STRING or pa.types.is_integer(inner)
    elif name in NEEDED_COLUMNS:
        good = family is Family.STRING
    else:
        good = family is not None and family.label == name
    if not good and not pa.types.is_null(inner):
        what = kind if family is None else f"{kind}, which is a {family.label}"
        raise InputError(f"the column {name} of a table of constraints is of type {what}")


def _one_array(column: "pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa

    array = column.combine_chunks()
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array


def needed(arrays: "dict[str, pa.Array]", name: str) -> Different:
    """A column that has no nulls."""
    found = encoded(arrays[name], name)
    if (found.codes < 0).any():
        row = int(np.flatnonzero(found.codes < 0)[0])
        raise InputError(f"the column {name} of a table of constraints has nulls").in_row(row)
    return found


def checked_values(column: Different, name: str, check: Callable[[Any], T]) -> list[T]:
    """The different values of a column, as they come out of a check; an error names the first row of all."""
    values: list[T] = []
    errors: dict[int, PenstockError] = {}
    for at, value in enumerate(column_values(column.values)):
        if isinstance(value, PenstockError):
            errors[at] = value
            continue
        try:
            values.append(check(value))
        except PenstockError as error:
            errors[at] = error
    if errors:
        row = int(np.flatnonzero(np.isin(column.codes, list(errors)))[0])
        raise errors[int(column.codes[row])].in_row(row, name)
    return values


def encoded(array: "pa.Array", name: str) -> Different:
    """A column, or what its lists hold, as numbers of its different values."""
    import pyarrow as pa

    array = without_views(array)
    if not pa.types.is_dictionary(array.type):
        try:
            array = array.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise InputError(f"the column {name} of a table of constraints is of type {array.type}") from None
        return Different(_codes(array.indices, len(array.dictionary), name), array.dictionary)
    codes = _codes(array.indices, len(array.dictionary), name)
    is_used = np.zeros(len(array.dictionary), np.bool_)
    is_used[codes[codes >= 0]] = True
    used = np.flatnonzero(is_used)
    # A dictionary may hold a value twice, and null, and be of dictionaries.
    inner = encoded(array.dictionary.take(pa.array(used)), name)
    number_of = np.full(len(is_used) + 1, -1, np.int64)
    number_of[used] = inner.codes
    return Different(number_of[codes], inner.values)


def _codes(indices: "pa.Array", entries: int, name: str) -> NDArray[np.int64]:
    import pyarrow as pa

    # Not safely: what is too large then is negative, and so outside as well.
    plain = indices.cast(pa.int64(), safe=False)
    codes: NDArray[np.int64] = plain.fill_null(-1).to_numpy(zero_copy_only=False)
    outside = (codes < 0) & plain.is_valid().to_numpy(zero_copy_only=False) | (codes >= entries)
    if outside.any():
        raise InputError(f"the column {name} has an index that is outside its dictionary")
    return codes
