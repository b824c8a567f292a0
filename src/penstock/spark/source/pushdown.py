"""Filters on the DataFrame as a subscription.

Spark's filters are about rows and have three answers; Penstock's are about events and have two. They say the
same of a row and of its event only for some columns and operators, which depends on how values become rows
(`penstock.spark.source.rows`). So each filter becomes one of these:

- *exact*: the event matches if and only if the filter is true of its row. Spark need not look again.
- *implied*: the event matches if the filter is true of its row, and perhaps otherwise. The network leaves out
  what it can, and Spark looks again. So it is with `x > 5` on a column of integers: 5.5 matches, and its
  row is null. It is the same with decimals, and with decimals between doubles on a column of doubles.
- nothing: Spark looks alone. So it is with `is null`, with integers that doubles round, with NaN where it is
  kept (to Spark it is greater than all numbers, to Penstock it is no number), and with columns of floats.

Columns of timestamps and dates also take text that is a time. So what is pushed about them lets all text
pass, and Spark looks again.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from penstock.errors import PenstockError
from penstock.filters.constraint import OPPOSITES, Constraint
from penstock.filters.expression import And, Expression, Or, normalise
from penstock.filters.predicate import Predicate
from penstock.model.values import Time
from penstock.spark.source.rows import MICROSECOND

if TYPE_CHECKING:
    import pyarrow as pa

_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    In: "in",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    StringStartsWith: "prefix",
    StringEndsWith: "suffix",
    StringContains: "substring",
}
_ONE_OF: Final = frozenset({"=", "in"})
_NEVER_NAN: Final = frozenset({"=", "in", "<", "<="})
"""Operators that are false of NaN in Spark as well, where the value is a number."""

_ROUNDED: Final = 2.0**53
"""From here on integers are rounded when they become doubles."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Pushed(NamedTuple):
    """What a filter asks of events."""

    predicate: Predicate
    exact: bool


def push(
    filters: Sequence[Filter], schema: "pa.Schema", wanted: Predicate, *, keep_nan: bool = False
) -> tuple[Predicate, list[Filter]]:
    """What is wanted, narrowed by filters; and the filters that Spark has to look at as well."""
    left: list[Filter] = []
    for one in filters:
        pushed = translate(one, schema, keep_nan=keep_nan)
        if pushed is None or not pushed.exact:
            left.append(one)
        if pushed is None:
            continue
        try:
            both = [a.intersection(b) for a in wanted.filters for b in pushed.predicate.filters]
            wanted = Predicate(f for f in both if f.satisfiable)
        except PenstockError:
            # More than one predicate may hold: it stays with Spark.
            if pushed.exact:
                left.append(one)
    return wanted, left


def translate(given: Filter, schema: "pa.Schema", *, keep_nan: bool = False) -> Pushed | None:
    """What a filter on rows of a schema asks of events; None where that cannot be said."""
    negated = False
    while isinstance(given, Not):
        given, negated = given.child, not negated
    path = getattr(given, "attribute", ())
    kind = _type_at(path, schema)
    if kind is None:
        return None
    try:
        return _translated(given, negated, ".".join(path), kind, keep_nan)
    except PenstockError:
        return None


def _type_at(path: Sequence[str], schema: "pa.Schema") -> "pa.DataType | None":
    """The type of a column that is no struct, or None."""
    import pyarrow as pa

    found: Any = schema
    for name in path:
        fields = found if isinstance(found, pa.Schema) else found if pa.types.is_struct(found) else ()
        same = [field for field in fields if field.name == name]
        if len(same) != 1:
            return None
        found = same[0].type
    return None if isinstance(found, pa.Schema) or pa.types.is_struct(found) else found


def _translated(
    given: Filter, negated: bool, name: str, kind: "pa.DataType", keep_nan: bool
) -> Pushed | None:
    if isinstance(given, IsNull | IsNotNull):
        # A value that the column cannot hold is there, and null.
        is_present = isinstance(given, IsNotNull) is not negated
        return Pushed(normalise(Constraint(name, "exists")), exact=False) if is_present else None
    operator = _OPERATORS.get(type(given))
    if operator is None or (negated and isinstance(given, EqualNullSafe)):
        return None
    value: Any = given.value  # type: ignore[attr-defined]
    if operator == "in":
        values = [one for one in value if one is not None]
        if not values or (negated and len(values) < len(value)):
            # `not in` is never true where the list has a null.
            return None
        value = values
    elif value is None:
        return None
    if negated:
        operator = OPPOSITES[operator]
    return _compared(name, operator, value, kind, keep_nan)


def _compared(name: str, operator: str, value: Any, kind: "pa.DataType", keep_nan: bool) -> Pushed | None:
    import pyarrow as pa

    values = value if isinstance(value, list) else [value]
    if pa.types.is_string(kind) and _are(values, str):
        return Pushed(normalise(Constraint(name, operator, value)), exact=True)
    if pa.types.is_boolean(kind) and _are(values, bool):
        return Pushed(normalise(Constraint(name, operator, value)), exact=True)
    if pa.types.is_signed_integer(kind) and _are(values, int):
        return Pushed(normalise(Constraint(name, operator, value)), exact=operator in _ONE_OF)
    if pa.types.is_decimal(kind) and _are(values, Decimal, int):
        return Pushed(normalise(Constraint(name, operator, value)), exact=operator in _ONE_OF)
    if pa.types.is_float64(kind) and _are(values, float, int):
        if keep_nan and operator not in _NEVER_NAN:
            return None
        if all(-_ROUNDED < one < _ROUNDED for one in values):
            # Decimals that no double stands for match `x > 5` as well, and their rows are null.
            return Pushed(normalise(Constraint(name, operator, value)), exact=operator in _ONE_OF)
    if pa.types.is_timestamp(kind) and _are(values, datetime):
        ticks = [_nanoseconds(one) for one in values]
        return _or_text(name, _in_microseconds(name, operator, ticks))
    if pa.types.is_date32(kind) and _are(values, date):
        days = [Time.from_date(one) for one in values]
        literal = days if isinstance(value, list) else days[0]
        return _or_text(name, Constraint(name, operator, literal))
    return None


def _or_text(name: str, asked: Expression) -> Pushed:
    """What is asked of a time, or any text."""
    return Pushed(normalise(Or([asked, Constraint(name, ">=", "")])), exact=False)


def _are(values: list[Any], *kinds: type) -> bool:
    """Whether all are of these very types: a bool is no int here, and a datetime no date."""
    return all(type(value) in kinds for value in values)


def _nanoseconds(moment: datetime) -> int:
    """A moment; without a zone in UTC, as rows have it."""
    aware = moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * MICROSECOND


def _in_microseconds(name: str, operator: str, ticks: list[int]) -> Expression:
    """A comparison of times that are cut to microseconds, as one of those that are not."""
    first = ticks[0]
    if operator in ("<", ">="):
        return Constraint(name, operator, Time(first))
    if operator == "<=":
        return Constraint(name, "<", Time(first + MICROSECOND))
    if operator == ">":
        return Constraint(name, ">=", Time(first + MICROSECOND))
    within = "between" if operator in _ONE_OF else "not between"
    parts = [Constraint(name, within, (Time(t), Time(t + MICROSECOND - 1))) for t in ticks]
    return Or(parts) if operator in _ONE_OF else And(parts)
