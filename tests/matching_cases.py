"""Random subscriptions and events over all operators and families, for tests of engines."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from brute import exactly
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And
from penstock.filters.filter import Filter
from penstock.model.values import Time
from strategies import (
    FAMILIES,
    all_constraints,
    disjunctions,
    expressions,
    like_constraints,
    scalar_constraints,
)

NAMES = ("x", "y", "order.z")
LONGER = tuple("ab" * n + tail for n in (3, 40, 300) for tail in ("", "c", "é"))
SCALARS = st.one_of(
    *(st.sampled_from(family) for family in FAMILIES),
    st.just(math.nan),
    st.sampled_from(LONGER),
    st.text("abé%_", max_size=6),
    st.integers(-(2**63), 2**63 - 1),
)
ELEMENTS = st.one_of(
    SCALARS,
    st.sampled_from(("a", "ab", 0, 1, True)),
    st.dictionaries(st.sampled_from(("a", "this", "other")), SCALARS, max_size=2),
    st.lists(SCALARS, max_size=2),
)
VALUES = st.one_of(SCALARS, SCALARS, SCALARS, st.lists(ELEMENTS, max_size=3))
Attributes = dict[str, object]
EVENT = st.dictionaries(st.sampled_from((*NAMES, "other")), VALUES, min_size=1)
EVENTS = st.lists(EVENT, min_size=1, max_size=10)
SCALAR_EVENT = st.dictionaries(st.sampled_from((*NAMES, "other")), SCALARS, min_size=1)
"""Without lists, whose elements may be of several families, as those of an Arrow array may not."""
PREDICATE = st.one_of(disjunctions(all_constraints(NAMES)), expressions(all_constraints(NAMES)))
IDS = st.one_of(st.sampled_from(("alice", "bob", "ça", "d")), st.integers(-2, 2))
ALIKE = like_constraints(NAMES).flatmap(
    lambda constraints: st.lists(
        st.tuples(IDS, st.lists(constraints, min_size=1, max_size=2).map(And)), max_size=20
    )
)
SUBSCRIPTIONS = st.one_of(st.lists(st.tuples(IDS, PREDICATE), max_size=20), ALIKE)


ConstraintRow = tuple[str, int, Constraint]
"""An id, which of its filters, and a constraint of it."""

_COLUMNS = {bool: "bool", int: "number", float: "number", Decimal: "number", str: "string", Time: "time"}


def values_of(constraint: Constraint) -> tuple[object, ...]:
    """The values of a constraint, of which there may be none."""
    value = constraint.value
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _is_whole(value: object) -> bool:
    """Whether a column of integers can hold it, if it is a number."""
    if type(value) is Decimal:
        return False
    return type(value) not in (int, float) or (value % 1 == 0 and -(2**63) <= value < 2**63)  # type: ignore[operator]


def _is_double(value: object) -> bool:
    """Whether a column of doubles can hold it, if it is a number."""
    if type(value) is Decimal:
        return False
    return type(value) not in (int, float) or float(value) == value  # type: ignore[arg-type]


def _is_decimal(value: object) -> bool:
    """Whether a column of decimals can hold it, if it is a number."""
    if type(value) not in (int, float, Decimal):
        return True
    number = exactly(value)
    return abs(number) < 10**30 and number.as_tuple().exponent >= -40  # type: ignore[operator]


def _only(rows: list[ConstraintRow], holds: Callable[[object], bool]) -> list[ConstraintRow]:
    return [row for row in rows if all(map(holds, values_of(row[2])))]


CONSTRAINT_ROWS = st.builds(
    _only,
    st.lists(
        st.tuples(st.sampled_from(("a", "b")), st.integers(0, 3), scalar_constraints(NAMES)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from((_is_whole, _is_double, _is_decimal)),
)


def table_of_rows(rows: list[ConstraintRow]) -> pa.Table:
    """The rows as `Matcher.add_constraints` takes them."""
    given: dict[str, list[list[object] | None]] = {name: [] for name in ("number", "string", "bool", "time")}
    for _, _, constraint in rows:
        values = values_of(constraint)
        mine = _COLUMNS[type(values[0])] if values else None
        for name, column in given.items():
            column.append(list(values) if name == mine else None)
    times = [None if v is None else [t.nanoseconds for t in v] for v in given["time"]]  # type: ignore[attr-defined]
    whole = all(_is_whole(v) for row in given["number"] if row is not None for v in row)
    doubles = all(_is_double(v) for row in given["number"] if row is not None for v in row)
    cast: Callable[[Any], object]
    number, cast = (pa.int64(), int) if whole else (pa.float64(), float)
    if not whole and not doubles:
        number, cast = pa.decimal256(76, 40), exactly
    return pa.table(
        {
            "id": pa.array([key for key, _, _ in rows], pa.string()),
            "filter": pa.array([which for _, which, _ in rows], pa.int64()),
            "attribute": pa.array([constraint.attribute for _, _, constraint in rows], pa.string()),
            "op": pa.array([constraint.operator for _, _, constraint in rows], pa.string()),
            "number": pa.array(
                [None if v is None else [cast(one) for one in v] for v in given["number"]],  # type: ignore[arg-type, call-overload]
                pa.list_(number),
            ),
            "string": pa.array(given["string"], pa.list_(pa.string())),
            "bool": pa.array(given["bool"], pa.list_(pa.bool_())),
            "time": pa.array(times, pa.list_(pa.timestamp("ns", "UTC"))),
        }
    )


def filters_of_rows(rows: list[ConstraintRow]) -> list[tuple[str, Filter]]:
    """The filters of the rows, as the algebra makes them, and the id of each."""
    filters: dict[tuple[str, int], list[Constraint]] = {}
    for key, which, constraint in rows:
        filters.setdefault((key, which), []).append(constraint)
    return [(key, Filter(constraints)) for (key, _), constraints in filters.items()]
