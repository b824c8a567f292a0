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
from penstock.filters.valuesets import ValueSet
from penstock.matching.bulk_arrays import (
    VALUE_COLUMNS,
    arrays_of_table,
    checked_values,
    encoded,
    is_list,
    needed,
)
from penstock.matching.bulk_conjunctions import Conditions, conjunctions, with_exact
from penstock.matching.bulk_lists import list_conditions
from penstock.matching.columns import Columns, ColumnsBuilder, concatenate, offsets_of, runs
from penstock.matching.exact_cuts import has_exact
from penstock.model.arrow import column_values, family_of_arrow
from penstock.model.names import check_id, check_name
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of_table(table: "pa.Table", names: dict[str, int]) -> tuple[Columns, "pa.Array"]:
    """The filters of a table, and the id of each, in the order of the rows.

    Columns: `id`; `filter`, if given, tells apart the filters of one id; `attribute`; `op`; and the value in
    one of VALUE_COLUMNS, the others being null. Rows of one filter may stand
    apart only where `filter` tells.
    """
    import pyarrow as pa

    arrays = arrays_of_table(table)
    rows = table.num_rows
    if rows == 0:
        return ColumnsBuilder(names).build(), pa.array([], pa.int64())
    ids = needed(arrays, "id")
    group = _groups(arrays, ids.codes)
    order = np.arange(rows)
    if (np.diff(group) < 0).any():
        if "filter" not in arrays:
            raise InputError(
                "rows of one id do not follow one another; bring them together, or give a column `filter` "
                "that says which rows belong together"
            )
        order = np.argsort(group, kind="stable")
    filter_of = group[order]
    checked_values(ids, "id", check_id)
    attributes = needed(arrays, "attribute")
    known = checked_values(attributes, "attribute", check_name)
    numbers = np.array([names.setdefault(name, len(names)) for name in known], np.int32)
    of_row, templates, exact = _templates(arrays, rows)
    of_row = of_row[order]
    conditions = _expand(templates, of_row)._replace(
        names=list(names),
        ids=np.zeros(rows, np.int32),
        offsets=np.arange(rows + 1, dtype=np.int64),
        attribute=numbers[attributes.codes[order]],
    )
    begins = np.flatnonzero(np.diff(filter_of, prepend=-1))
    given = Conditions(conditions, filter_of, of_row, order)
    made = conjunctions(given, len(begins))
    if exact:
        made = with_exact(made, given, exact, names)
    return made, pa.DictionaryArray.from_arrays(pa.array(ids.codes[order[begins]]), ids.values)


def _groups(arrays: "dict[str, pa.Array]", id_code: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the number of its filter, in the order in which they come."""
    code = id_code
    if "filter" in arrays:
        filters = encoded(arrays["filter"], "filter")
        code = code * (len(filters.values) + 1) + filters.codes + 1
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def _lists(array: "pa.Array") -> "pa.Array":
    """A column of lists of any kind as one of lists that lie end to end."""
    import pyarrow as pa

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
    array: "pa.Array", name: str, op_code: NDArray[np.int64], ops: list[Any]
) -> tuple[NDArray[np.int64], Columns]:
    """The rows whose lists need not pass through the algebra one by one, and their conditions."""
    family = family_of_arrow(array.type.value_type)
    if family not in (Family.NUMBER, Family.STRING):
        return np.zeros(0, np.int64), ColumnsBuilder({}).build()
    inner = encoded(array.values, name)
    return list_conditions(array, inner.codes, column_values(inner.values), op_code, ops, family)


def _templates(
    arrays: "dict[str, pa.Array]", rows: int
) -> tuple[NDArray[np.int64], Columns, dict[int, ValueSet]]:
    """For each row the number of its template; and the templates, each a filter of one constraint.

    Those that columns cannot hold are told by their numbers, and others stand in their places.
    """
    given_ops = needed(arrays, "op")
    op_code, ops = given_ops.codes, checked_values(given_ops, "op", str)
    family = np.full(rows, -1, np.int64)
    value_code = np.zeros(rows, np.int64)
    values: list[Sequence[Any]] = []
    taken: list[tuple[NDArray[np.int64], Columns]] = []
    for name in VALUE_COLUMNS:
        if name not in arrays:
            values.append(())
            continue
        array = arrays[name]
        if is_list(array.type):
            array = _lists(array)
            conditions = _conditions_of_lists(array, name, op_code, ops)
            rest = array.is_valid().to_numpy(zero_copy_only=False)
            rest[conditions[0]] = False
            codes, different = _encoded_lists(array, np.flatnonzero(rest))
            codes[conditions[0]] = 0
            taken.append(conditions)
        else:
            found = encoded(array, name)
            codes, different = found.codes, column_values(found.values)
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
    # In the order of the rows, so that the first one that is wrong is named.
    in_order = np.argsort(first_row)
    number_of = np.empty(len(in_order), np.int64)
    number_of[in_order] = np.arange(len(in_order))
    builder = ColumnsBuilder({})
    exact: dict[int, ValueSet] = {}
    for row in left_rows[first_row[in_order]].tolist():
        value = None if family[row] < 0 else values[int(family[row])][int(value_code[row])]
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, PenstockError):
                raise one.in_row(row, VALUE_COLUMNS[int(family[row])])
        try:
            template = _template(ops[int(op_code[row])], value)
            if has_exact(template):
                exact[len(builder)] = template.conditions["x"]
                template = _PLACEHOLDER
            builder.add(0, template)
        except PenstockError as error:
            raise error.in_row(row) from None
    of_row = np.empty(rows, np.int64)
    of_row[left_rows] = number_of[of_left]
    number = len(first_row)
    for some, _ in taken:
        of_row[some] = number + np.arange(len(some))
        number += len(some)
    return of_row, concatenate([builder.build(), *(made for _, made in taken)], ["x"]), exact


_PLACEHOLDER: Final = Filter((Constraint("x", "exists"),))


def _template(op: str, value: Any) -> Filter:
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
