"""Lists of values in bulk: `in` and `not in`, and `=` and `!=` with a list of one.

There may be as many different lists as rows, but there are fewer different values. Each of those is brought
into the algebra once, as `= value`: two cuts. A list is then the cuts of its values in their order, without
those at which two values touch; and what is not in a list toggles at the same cuts, and at the least value.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.filters import valuesets
from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter, box
from penstock.filters.order import LEAST, is_exact
from penstock.matching.columns import Columns, ColumnsBuilder, offsets_of
from penstock.model.limits import LIST_VALUES_MAX
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

_LISTS: Final = {"in": False, "not in": True}
_ONES: Final = {"=": False, "!=": True}
"""Operators with any list, and with a list of one; and whether they ask for the other values."""


class _Values(NamedTuple):
    """Different values in their order: the cuts of each, and that of the least value of the family."""

    rank: NDArray[np.int64]
    """For each value as it was given its place in the order, or -1 where the algebra has to look at it."""
    columns: Columns
    """First the least value's cut, then two for each value."""


def list_conditions(
    array: "pa.Array",
    codes: NDArray[np.int64],
    values: list[Any],
    op_code: NDArray[np.int64],
    ops: list[Any],
    family: Family,
) -> tuple[NDArray[np.int64], Columns]:
    """The rows that can be taken here, and their conditions as filters of one; the rest is for the algebra.

    `array` holds the lists, `codes` says which of the `values` its inner array has, and `op_code` which of
    the `ops` each row has.
    """
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.diff(offsets)
    known = _values(values, family)
    flat = codes[offsets[0] : offsets[-1]]
    # The last place is for null, whose code is -1.
    rank = np.append(known.rank, -1)[flat]
    odd = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[rank < 0], minlength=len(lengths))
    any_list, one, other = (
        np.array([op in which for op in ops], np.bool_)[op_code]
        for which in (_LISTS, _ONES, {op for op, negated in (_LISTS | _ONES).items() if negated})
    )
    good = (lengths > 0) & (lengths <= LIST_VALUES_MAX) & (odd == 0)
    good &= array.is_valid().to_numpy(zero_copy_only=False) & (any_list | (one & (lengths == 1)))
    rows = np.flatnonzero(good)
    taken = np.repeat(good, lengths)
    row = np.repeat(np.cumsum(good) - 1, lengths)[taken]
    return rows, _conditions(row, rank[taken], len(rows), other[rows], known.columns, family)


def _values(values: list[Any], family: Family) -> _Values:
    rank = np.full(len(values), -1, np.int64)
    builder = ColumnsBuilder({})
    builder.add(0, box({"x": valuesets.of_cuts(family, (LEAST[family],))}))
    good = []
    for at, value in enumerate(values):
        if isinstance(value, PenstockError):
            continue
        try:
            made = Filter((Constraint("x", "=", value),))
        except PenstockError:
            continue  # whatever is wrong with it is said of a row that has it
        states = made.conditions["x"]
        # One value makes two cuts, unless it were the greatest of all. Decimals without a double have no key.
        if states.kind is family and len(states.cuts) == 2 and not is_exact(states.cuts[0]):
            good.append((states.cuts[0], at, made))
    good.sort(key=lambda one: one[:2])
    place, before = 0, None
    for point, at, made in good:
        if before is None or point != before:
            builder.add(0, made)
            place, before = place + 1, point
        rank[at] = place - 1
    return _Values(rank, builder.build())


def _conditions(
    row: NDArray[np.int64],
    rank: NDArray[np.int64],
    rows: int,
    negated: NDArray[np.bool_],
    values: Columns,
    family: Family,
) -> Columns:
    """A condition for each row, of the values whose ranks stand beside it."""
    count = values.filters - 1
    # Not np.unique, which hashes before it sorts: that takes five times as long.
    key = np.sort(row * max(1, count) + rank)
    key = key[np.diff(key, prepend=-1) > 0]
    row, rank = key // max(1, count), key % max(1, count)
    # Which of the cuts of `values`: two for each value, and before them, where it is negated, the least.
    cut = np.empty((len(key), 2), np.int64)
    cut[:, 0] = 1 + 2 * rank
    cut[:, 1] = cut[:, 0] + 1
    flat, of_row = cut.reshape(-1), np.repeat(row, 2)
    first = np.searchsorted(of_row, np.flatnonzero(negated))
    flat, of_row = np.insert(flat, first, 0), np.insert(of_row, first, np.flatnonzero(negated))
    high, low = values.cut_high[flat], values.cut_low[flat]
    # Where one ends another begins, or where the least value is the first: nothing toggles.
    same = (of_row[1:] == of_row[:-1]) & (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    keep = np.ones(len(flat), np.bool_)
    keep[1:] &= ~same
    keep[:-1] &= ~same
    return values._replace(
        names=["x"],
        ids=np.zeros(rows, np.int32),
        offsets=np.arange(rows + 1, dtype=np.int64),
        attribute=np.zeros(rows, np.int32),
        kind=np.full(rows, int(family), np.uint8),
        cut_offsets=offsets_of(np.bincount(of_row[keep], minlength=rows)),
        cut_high=high[keep],
        cut_low=low[keep],
        pattern_offsets=np.zeros(rows + 1, np.int64),
        pattern=np.zeros(0, np.int32),
    )
