"""Filters in bulk: an Arrow table with a row for each constraint, as columns.

Tables hold far fewer different constraints (operator and value) than rows. Each different one is brought
into the algebra once; of lists, each different value (`bulk_lists`). The rest is arrays, also where several
rows are about one attribute (`bulk_conjunctions`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import FilterError, InputError, PenstockError
from penstock.filters.constraint import OPPOSITES, Constraint
from penstock.filters.filter import Filter
from penstock.matching.bulk_conjunctions import Conditions, conjunctions
from penstock.matching.bulk_lists import list_conditions
from penstock.matching.columns import Columns, ColumnsBuilder, concatenate, offsets_of, runs
from penstock.model.arrow import column_values, family_of_arrow
from penstock.model.names import check_name
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

VALUE_COLUMNS: Final = ("number", "string", "bool", "time")
"""The columns that hold values, of any type of their family, or lists of it; each may be missing."""


def columns_of_table(table: "pa.Table", names: dict[str, int]) -> tuple[Columns, "pa.Array"]:
    """The filters of a table, and the id of each, in the order of the rows.

    Columns: `id`; `filter`, if given, tells apart the filters of one id; `attribute`; `op`; and the value in
    one of VALUE_COLUMNS, the others being null. Rows of one filter may stand
    apart only where `filter` tells.
    """
    table = table.combine_chunks()
    for needed in ("id", "attribute", "op"):
        if needed not in table.column_names:
            raise InputError(
                f"a table of constraints has the columns id, attribute and op; {needed} is missing"
            )
    rows = table.num_rows
    if rows == 0:
        return ColumnsBuilder(names).build(), table["id"].combine_chunks()
    group = _groups(table)
    order = np.arange(rows)
    if (np.diff(group) < 0).any():
        if "filter" not in table.column_names:
            raise InputError(
                "rows of one id do not follow one another; bring them together, or give a column `filter` "
                "that says which rows belong together"
            )
        order = np.argsort(group, kind="stable")
    filter_of = group[order]
    attribute_code, attributes = _needed(table, "attribute")
    numbers = np.array([names.setdefault(check_name(name), len(names)) for name in attributes], np.int32)
    of_row, templates = _templates(table)
    of_row = of_row[order]
    conditions = _expand(templates, of_row)._replace(
        names=list(names),
        ids=np.zeros(rows, np.int32),
        offsets=np.arange(rows + 1, dtype=np.int64),
        attribute=numbers[attribute_code[order]],
    )
    begins = np.flatnonzero(np.diff(filter_of, prepend=-1))
    made = conjunctions(Conditions(conditions, filter_of, of_row, order), len(begins))
    return made, table["id"].combine_chunks().take(_indices(order[begins]))


def _groups(table: "pa.Table") -> NDArray[np.int64]:
    """For each row the number of its filter, in the order in which they come."""
    code, _ = _needed(table, "id")
    if "filter" in table.column_names:
        filter_code, different = _encoded(table["filter"])
        code = code * (len(different) + 1) + filter_code + 1
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def _indices(values: NDArray[np.int64]) -> "pa.Array":
    import pyarrow as pa

    return pa.array(values)


def _needed(table: "pa.Table", name: str) -> tuple[NDArray[np.int64], list[Any]]:
    """A column that has no nulls, as numbers of its different values."""
    codes, different = _encoded(table[name])
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"the column {name} of a table of constraints has nulls").in_row(row)
    return codes, different


def _encoded(column: "pa.ChunkedArray") -> tuple[NDArray[np.int64], list[Any]]:
    """A column as numbers of its different values; null is -1."""
    return _encoded_array(_one_array(column))


def _encoded_array(array: "pa.Array") -> tuple[NDArray[np.int64], list[Any]]:
    import pyarrow as pa

    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = _codes(array.indices)
    # A dictionary may hold a value twice, and null.
    different = array.dictionary.dictionary_encode()
    number_of = np.append(_codes(different.indices), -1)
    return number_of[codes], column_values(different.dictionary)


def _codes(indices: "pa.Array") -> NDArray[np.int64]:
    import pyarrow as pa

    found: NDArray[np.int64] = indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return found


def _is_list(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    ways = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(pa.types, f"is_{way}")(kind) for way in ways)


def _check_family(name: str, kind: "pa.DataType") -> None:
    import pyarrow as pa

    while _is_list(kind):
        kind = kind.value_type
    family = family_of_arrow(kind)
    if not pa.types.is_null(kind) and (family is None or family.label != name):
        what = kind if family is None else f"{kind}, which is a {family.label}"
        raise InputError(f"the column {name} of a table of constraints is of type {what}")


def _lists(column: "pa.ChunkedArray") -> "pa.Array":
    """A column of lists of any kind as one of lists that lie end to end."""
    import pyarrow as pa

    array = _one_array(column)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return array
    import pyarrow.compute as pc

    # Not every kind can be cast; flattening leaves out what stands behind nulls.
    lengths = pc.list_value_length(array).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.LargeListArray.from_arrays(pa.array(offsets_of(lengths)), array.flatten(), mask=array.is_null())


def _encoded_lists(array: "pa.Array", rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Any]]:
    """Some lists as numbers of the different ones, which become tuples; all else is -1."""
    codes = np.full(len(array), -1, np.int64)
    if not len(rows):
        return codes, []
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    inner = column_values(array.values)
    known: dict[tuple[Any, ...], int] = {}
    for row in rows.tolist():
        codes[row] = known.setdefault(tuple(inner[offsets[row] : offsets[row + 1]]), len(known))
    return codes, list(known)


def _conditions_of_lists(
    array: "pa.Array", op_code: NDArray[np.int64], ops: list[Any]
) -> tuple[NDArray[np.int64], Columns]:
    """The rows whose lists need not pass through the algebra one by one, and their conditions."""
    family = family_of_arrow(array.type.value_type)
    if family not in (Family.NUMBER, Family.STRING):
        return np.zeros(0, np.int64), ColumnsBuilder({}).build()
    codes, values = _encoded_array(array.values)
    return list_conditions(array, codes, values, op_code, ops, family)


def _one_array(column: "pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa

    array = column.combine_chunks()
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array


def _templates(table: "pa.Table") -> tuple[NDArray[np.int64], Columns]:
    """For each row the number of its template; and the templates, each a filter of one constraint."""
    rows = table.num_rows
    op_code, ops = _needed(table, "op")
    family = np.full(rows, -1, np.int64)
    value_code = np.zeros(rows, np.int64)
    values: list[Sequence[Any]] = []
    taken: list[tuple[NDArray[np.int64], Columns]] = []
    for name in VALUE_COLUMNS:
        if name not in table.column_names:
            values.append(())
            continue
        column = table[name]
        _check_family(name, column.type)
        if _is_list(column.type):
            array = _lists(column)
            conditions = _conditions_of_lists(array, op_code, ops)
            rest = array.is_valid().to_numpy(zero_copy_only=False)
            rest[conditions[0]] = False
            codes, different = _encoded_lists(array, np.flatnonzero(rest))
            codes[conditions[0]] = 0
            taken.append(conditions)
        else:
            codes, different = _encoded(column)
        here = codes >= 0
        if (here & (family >= 0)).any():
            row = int(np.flatnonzero(here & (family >= 0))[0])
            raise InputError("a row of a table of constraints has two values").in_row(row)
        family[here] = len(values)
        value_code[here] = codes[here]
        values.append(different)
    widest = max(1, *(len(different) for different in values))
    key = (op_code * (len(VALUE_COLUMNS) + 1) + family + 1) * widest + value_code
    left = np.ones(rows, np.bool_)
    for some, _ in taken:
        left[some] = False
    left_rows = np.flatnonzero(left)
    _, first_row, of_left = np.unique(key[left], return_index=True, return_inverse=True)
    builder = ColumnsBuilder({})
    for row in left_rows[first_row].tolist():
        value = None if family[row] < 0 else values[int(family[row])][int(value_code[row])]
        try:
            builder.add(0, _template(ops[int(op_code[row])], value))
        except PenstockError as error:
            raise error.in_row(row) from None
    of_row = np.empty(rows, np.int64)
    of_row[left_rows] = of_left
    number = len(first_row)
    for some, _ in taken:
        of_row[some] = number + np.arange(len(some))
        number += len(some)
    return of_row, concatenate([builder.build(), *(made for _, made in taken)], ["x"])


def _template(op: object, value: Any) -> Filter:
    if op not in OPPOSITES:
        raise FilterError(f"{op!r:.40} is no operator (there are: {', '.join(sorted(OPPOSITES))})")
    if isinstance(value, tuple) and op not in ("in", "not in", "between", "not between"):
        if len(value) != 1:
            raise FilterError(f"{op} takes one value, not a list of {len(value):,}")
        value = value[0]
    if value is None:
        if op not in ("exists", "absent"):
            columns = ", ".join(VALUE_COLUMNS)
            raise FilterError(f"{op} takes a value, and there is none in the columns {columns}")
        return Filter((Constraint("x", op),))
    return Filter((Constraint("x", op, value),))


def _expand(templates: Columns, of_row: NDArray[np.int64]) -> Columns:
    """A condition for each row, like its template's, which has exactly one."""
    cut_offsets, cut_at = runs(templates.cut_offsets, of_row)
    pattern_offsets, pattern_at = runs(templates.pattern_offsets, of_row)
    return templates._replace(
        kind=templates.kind[of_row],
        cut_offsets=cut_offsets,
        cut_high=templates.cut_high[cut_at],
        cut_low=templates.cut_low[cut_at],
        pattern_offsets=pattern_offsets,
        pattern=templates.pattern[pattern_at],
    )
