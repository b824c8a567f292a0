"""Arrow has several layouts for the same values: plain ones in place of others.

Dictionaries of lists, records and dictionaries are decoded: rows that share an entry each get their own.
In lists there are no views, because Arrow cannot take some of their values.
"""

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.errors import EventError, LimitError
from penstock.model.limits import NESTING_MAX

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

OUTSIDE: Final = "a dictionary column has an index that is outside its dictionary"


def is_arrow_list(kind: "pa.DataType") -> bool:
    """Whether this is a type of lists, of whatever layout."""
    import pyarrow as pa

    types = pa.types
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view)
    return any(is_one(kind) for is_one in (*tests, types.is_large_list_view))


def plain_type(kind: "pa.DataType") -> "pa.DataType":
    """The type of the lists, records or dictionaries that a dictionary has; any other type itself."""
    import pyarrow as pa

    inner = kind
    while pa.types.is_dictionary(inner):
        kind, inner = inner, inner.value_type
    return inner if is_arrow_list(inner) or pa.types.is_struct(inner) else kind


def check_nesting(array: "pa.Array", name: str, depth: int) -> None:
    """Raise where the type of a column nests deeper than events may; `depth`: how many structs it is in."""
    if array.null_count < len(array) and _nests_deeper(array.type, depth):
        raise LimitError(f"lists nest too deep at {name[:60]!r}", "NESTING_MAX", NESTING_MAX)


def _nests_deeper(kind: "pa.DataType", depth: int, *, in_list: bool = False) -> bool:
    """Counted as in events that are dicts: each record, and each list in a list."""
    import pyarrow as pa

    kind = plain_type(kind)
    if is_arrow_list(kind):
        depth += in_list
        return depth > NESTING_MAX or _nests_deeper(kind.value_type, depth, in_list=True)
    if pa.types.is_struct(kind):
        return depth >= NESTING_MAX or any(_nests_deeper(field.type, depth + 1) for field in kind)
    return False


def plain(array: "pa.Array") -> "pa.Array":
    """The column, its lists or records decoded if they are a dictionary, and the same inside lists.

    Lists have no views in them. Fields of a struct are columns of their own, and stay as they are.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        return array if plain_type(array.type) is array.type else decoded(array)
    return _plain_list(array) if is_arrow_list(array.type) else array


def without_views(array: "pa.Array") -> "pa.Array":
    """The array, or one like it of plain texts or bytes: Arrow does not know how to take from views."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):
        entries = array.dictionary
        texts = without_views(entries)
        # Not safely: an index that is outside is for the caller to find.
        return array if texts is entries else pa.DictionaryArray.from_arrays(array.indices, texts, safe=False)
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else array


def decoded(array: "pa.DictionaryArray") -> "pa.Array":
    """A row for each index."""
    import pyarrow as pa

    try:
        return _plain_inside(array.dictionary).take(array.indices)
    except pa.ArrowIndexError:
        raise EventError(OUTSIDE) from None


def _plain_inside(array: "pa.Array") -> "pa.Array":
    """The same of what lists or dictionaries have in them."""
    import pyarrow as pa

    if _is_plain(array.type):
        return array
    if not pa.types.is_struct(array.type):
        return plain(without_views(array))
    # flatten() minds where the array begins and how long it is, as field() would not.
    fields = [_plain_inside(field) for field in array.flatten()]
    return pa.StructArray.from_arrays(fields, [field.name for field in array.type], mask=array.is_null())


def _plain_list(array: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    if _is_plain(array.type):
        return array
    ends: NDArray[np.int64]
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        ends = offsets - offsets[0]
        elements = array.values.slice(offsets[0], ends[-1])
    else:
        counts = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        ends = np.append(0, np.cumsum(counts)).astype(np.int64)
        elements = pc.list_flatten(array)
    # A list is null where its offset is.
    is_null = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.LargeListArray.from_arrays(pa.array(ends, mask=is_null), _plain_inside(elements))


def _is_plain(kind: "pa.DataType") -> bool:
    """Whether there are no views in a type, and no dictionaries of anything but scalars."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return plain_type(kind) is kind and _is_plain(kind.value_type)
    if is_arrow_list(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    return not (pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))
