"""Filters of Spark as subscriptions: what is pushed, and what is left, say what Spark says of the rows."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds

from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.model.values import Time, Value, to_value
from penstock.spark.source.pushdown import push, translate
from penstock.spark.source.rows import rows_of
from strategies import NUMBERS, STRINGS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400 * 10**9
TIMES = (0, 1, 999, 1_000, 1_001, -1, DAY, DAY + 1, -DAY, 2**63 - 1, -(2**63), 20_000 * DAY)
TEXTS = ("1970-01-01", "1970-01-01T00:00:00.000001Z", "1970-01-02 02:00:00+02:00", "1970-13-01")
"""Three are times."""
SCHEMA = pa.schema(
    [
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("p", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("d", pa.date32()),
        ("in", pa.struct([("x", pa.int32()), ("s", pa.string())])),
    ]
)
LEAVES = [(f.name,) for f in SCHEMA if f.name != "in"] + [("in", "x"), ("in", "s")]

numbers = st.sampled_from((*NUMBERS, 127, 128, -128, 3, math.nan, math.inf, -math.inf, 2**31, 0.1))
values: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    numbers.map(to_value),
    st.sampled_from((*STRINGS, *TEXTS)),
    st.sampled_from(TIMES).map(Time),
)
events = st.dictionaries(st.sampled_from([".".join(path) for path in LEAVES]), values, min_size=1)


def literals(path: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """What Spark hands over for a column: values of its own type."""
    name = path[-1] if path != ("in", "s") else "s"
    whole = st.sampled_from([n for n in NUMBERS if isinstance(n, int)])
    moments = st.sampled_from(TIMES).map(lambda t: EPOCH + timedelta(microseconds=t // 1000))
    return {
        "b": st.booleans(),
        "i8": st.integers(-128, 127),
        "x": st.sampled_from((-1, 0, 1, 2, 3, 2**31 - 1)),
        "i64": whole,
        "f32": st.sampled_from((0.0, 1.0, 0.5)),
        "f64": numbers.map(float),
        "p": st.sampled_from((Decimal("2.50"), Decimal("0.10"), Decimal("128.00"), Decimal("-1.00"))),
        "s": st.sampled_from(STRINGS),
        "t": moments,
        "ntz": moments.map(lambda moment: moment.replace(tzinfo=None)),
        "d": moments.map(lambda moment: moment.date()),
    }[name]


@st.composite
def filters(draw: st.DrawFn) -> ds.Filter:
    path = draw(st.sampled_from(LEAVES))
    kinds: list[Any] = [
        ds.EqualTo,
        ds.EqualNullSafe,
        ds.GreaterThan,
        ds.GreaterThanOrEqual,
        ds.LessThan,
        ds.LessThanOrEqual,
        ds.In,
        ds.IsNull,
        ds.IsNotNull,
    ]
    if path[-1] == "s":
        kinds += [ds.StringStartsWith, ds.StringEndsWith, ds.StringContains]
    kind = draw(st.sampled_from(kinds))
    if kind in (ds.IsNull, ds.IsNotNull):
        made = kind(path)
    elif kind is ds.In:
        made = kind(path, tuple(draw(st.lists(st.none() | literals(path), min_size=1, max_size=3))))
    else:
        made = kind(path, draw(literals(path)))
    return ds.Not(made) if draw(st.booleans()) else made


def answer(one: ds.Filter, row: dict[str, Any]) -> bool | None:
    """What Spark says of a row: true, false or null. To it NaN equals itself and is greater than all else."""
    if isinstance(one, ds.Not):
        inner = answer(one.child, row)
        return None if inner is None else not inner
    value: Any = row
    for name in one.attribute:  # type: ignore[attr-defined]
        value = None if value is None else value[name]
    if isinstance(one, ds.IsNull | ds.IsNotNull):
        return (value is None) is isinstance(one, ds.IsNull)
    other = one.value  # type: ignore[attr-defined]
    if isinstance(one, ds.EqualNullSafe):
        return (value is None and other is None) or (
            value is not None and other is not None and bool(ordered(value) == ordered(other))
        )
    if isinstance(one, ds.In):
        if value is None:
            return None
        found = any(o is not None and ordered(o) == ordered(value) for o in other)
        return True if found else None if None in other else False
    if value is None or other is None:
        return None
    if isinstance(one, ds.StringStartsWith | ds.StringEndsWith | ds.StringContains):
        ways = {"StringStartsWith": str.startswith, "StringEndsWith": str.endswith}
        return ways.get(type(one).__name__, str.__contains__)(value, other)
    a, b = ordered(value), ordered(other)
    compared: dict[str, bool] = {
        "EqualTo": a == b,
        "GreaterThan": a > b,
        "GreaterThanOrEqual": a >= b,
        "LessThan": a < b,
        "LessThanOrEqual": a <= b,
    }
    return compared[type(one).__name__]


def ordered(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.property
@given(st.lists(events, max_size=8), st.lists(filters(), max_size=3), st.booleans())
def test_what_is_pushed_and_what_is_left_say_what_spark_says(
    given_events: list[dict[str, Value]], asked: list[ds.Filter], keep_nan: bool
) -> None:
    wanted, left = push(asked, SCHEMA, parse("true"), keep_nan=keep_nan)
    assert all(any(one is known for known in asked) for one in left)

    def kept(some: list[dict[str, Value]], with_filters: list[ds.Filter]) -> list[Any]:
        rows = rows_of(some, SCHEMA, keep_nan=keep_nan).to_pylist()
        return [repr(row) for row in rows if all(answer(one, row) for one in with_filters)]

    travelling = [event for event in given_events if wanted.matches(event)]
    assert kept(travelling, left) == kept(given_events, asked)


def sql(one: ds.Filter, **more: Any) -> tuple[str, bool] | None:
    pushed = translate(one, SCHEMA, **more)
    return None if pushed is None else (pushed.predicate.to_sql(), pushed.exact)


def test_what_people_filter_by_travels_as_the_subscription() -> None:
    midnight = datetime(2020, 1, 1, tzinfo=UTC)
    assert sql(ds.EqualTo(("s",), "JFK")) == ("s = 'JFK'", True)
    assert sql(ds.Not(ds.StringStartsWith(("in", "s"), "x"))) == ("in.s not like 'x%'", True)
    assert sql(ds.GreaterThan(("f64",), 60.0)) == ("f64 > 60", False)
    assert sql(ds.EqualTo(("f64",), 60.5)) == ("f64 = 60.5", True)
    assert sql(ds.EqualTo(("p",), Decimal("2.50"))) == ("p = 2.5", True)
    assert sql(ds.LessThan(("p",), Decimal("2.50"))) == ("p < 2.5", False)
    assert sql(ds.GreaterThan(("i64",), 60)) == ("i64 > 60", False)
    assert sql(ds.In(("i64",), (1, None))) == ("i64 = 1", True)
    assert sql(ds.IsNotNull(("in", "x"))) is not None
    found = sql(ds.LessThanOrEqual(("t",), midnight))
    assert found is not None
    assert parse(found[0]).matches({"t": Time.from_datetime(midnight)})
    assert not parse(found[0]).matches({"t": Time(Time.from_datetime(midnight).nanoseconds + 1_000)})
    # Text may be a time, which Spark finds out.
    assert sql(ds.EqualTo(("d",), date(2020, 1, 1))) == (
        "d = timestamp '2020-01-01T00:00:00Z' or d >= ''",
        False,
    )


def test_a_decimal_between_doubles_is_not_taken_for_a_row_that_a_column_of_doubles_has() -> None:
    event: dict[str, Value] = {"f64": to_value(Decimal("60.00000000000000000001")), "s": "a"}
    wanted, left = push([ds.GreaterThan(("f64",), 60.0)], SCHEMA, parse("true"))
    assert wanted.matches(event)
    assert len(left) == 1
    assert rows_of([event], SCHEMA).to_pylist()[0]["f64"] is None


def test_what_would_be_another_thing_stays_with_spark() -> None:
    assert sql(ds.IsNull(("s",))) is None
    assert sql(ds.GreaterThan(("f64",), math.nan)) is None
    assert sql(ds.GreaterThan(("f64",), 2.0**53)) is None
    assert sql(ds.GreaterThan(("f64",), 5.0), keep_nan=True) is None
    assert sql(ds.EqualTo(("f32",), 0.5)) is None
    assert sql(ds.EqualTo(("in",), 5)) is None
    assert sql(ds.EqualTo(("nowhere",), 5)) is None
    assert sql(ds.EqualTo(("s",), 5)) is None
    assert sql(ds.Not(ds.EqualNullSafe(("s",), "a"))) is None
    assert sql(ds.Not(ds.In(("s",), ("a", None)))) is None


def test_what_exceeds_a_limit_stays_with_spark() -> None:
    asked: list[ds.Filter] = [ds.StringContains(("s",), f"<{n}>") for n in range(70)]
    wanted, left = push(asked, SCHEMA, parse("true"))
    assert isinstance(wanted, Predicate)
    assert 0 < len(left) < 70
    assert left == asked[-len(left) :]
    assert sql(ds.EqualTo(("s",), "x" * 70_000)) is None
