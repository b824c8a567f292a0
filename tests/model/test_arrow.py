"""Events from the rows of Arrow tables."""

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Event, Family, Time
from penstock.errors import EventError, LimitError, UnsupportedValueError
from penstock.model.arrow import events_from_arrow, family_of_arrow
from penstock.model.limits import ELEMENTS_MAX, INTEGER_MAX, INTEGER_MIN, NAME_LENGTH_MAX, STRING_LENGTH_MAX

SECOND = 1_000_000_000
TICKS = {"s": SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ROW = st.fixed_dictionaries(
    {
        "b": optional(st.booleans()),
        "i": optional(st.integers(INTEGER_MIN, INTEGER_MAX)),
        "d": optional(st.floats()),
        "s": optional(st.text(max_size=5)),
        "t": optional(st.datetimes(dt.datetime(1678, 1, 1), dt.datetime(2262, 1, 1))),
        "day": optional(st.dates(dt.date(1678, 1, 1), dt.date(2262, 1, 1))),
        "o": optional(
            st.fixed_dictionaries(
                {
                    "x": optional(st.integers(-5, 5)),
                    "p": optional(st.fixed_dictionaries({"y": optional(st.text(max_size=2))})),
                }
            )
        ),
    }
)


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: without_nulls(v) if isinstance(v, dict) else v for name, v in row.items()}
    return {name: value for name, value in kept.items() if value is not None and value != {}}


def events(rows: Any, **options: Any) -> list[Event]:
    return list(events_from_arrow(rows, **options))


def column(array: Any) -> list[Any]:
    """The values of a single column, None where the row has none."""
    found = events(pa.record_batch([array], ["a"]), unsupported="skip")
    return [event.get("a") for event in found]


@pytest.mark.property
@given(st.lists(ROW, min_size=1, max_size=6), st.integers(1, 3))
def test_rows_are_the_events_of_their_dicts_without_nulls(rows: list[dict[str, Any]], chunk: int) -> None:
    expected = [Event(without_nulls(row)) for row in rows]
    assert expected == [Event(row) for row in rows]
    table = pa.Table.from_pylist(rows)
    assert events(table) == events(table, unsupported="skip") == expected
    pieces = [table.slice(start, chunk) for start in range(0, len(rows), chunk)]
    assert events(pa.concat_tables(pieces)) == expected
    assert [found for piece in pieces for found in events(piece)] == expected


@pytest.mark.property
@given(
    st.lists(st.integers(INTEGER_MIN, INTEGER_MAX), min_size=1, max_size=5),
    st.sampled_from(sorted(TICKS)),
    st.sampled_from([None, "UTC", "America/New_York", "+05:30"]),
)
def test_a_timestamp_of_any_unit_and_zone_is_exact(times: list[int], unit: str, zone: str | None) -> None:
    ticks = [-(-nanoseconds // TICKS[unit]) - (nanoseconds > 0) for nanoseconds in times]
    expected = [Time(tick * TICKS[unit]) for tick in ticks]
    array = pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, zone))
    assert column(array) == expected
    assert column(array.dictionary_encode()) == expected


def test_batches_and_chunked_tables_give_their_rows_in_order() -> None:
    expected = [Event({"a": 1, "b": "x"}), Event({"a": 2, "b": "y"}), Event({"a": 3, "b": "z"})]
    assert events(pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "z"]})) == expected
    chunked = {"a": pa.chunked_array([[1], [2, 3]]), "b": pa.chunked_array([["x", "y"], [], ["z"]])}
    assert events(pa.table(chunked)) == expected


@pytest.mark.parametrize("rows", [pa.table({}), pa.table({"a": pa.array([], pa.list_(pa.int64()))})])
def test_a_table_without_rows_has_no_events(rows: Any) -> None:
    assert events(rows) == []


def test_a_null_is_an_absent_attribute() -> None:
    table = pa.table({"a": [1, None], "b": [None, "x"], "n": pa.nulls(2)})
    assert [dict(event) for event in events(table) if event] == [{"a": 1}, {"b": "x"}]


def test_a_row_of_nothing_but_nulls_is_an_event_without_attributes() -> None:
    table = pa.table({"a": pa.chunked_array([[1, 2], [3, None, 5]])})
    assert events(table) == [Event({"a": n} if n else {}) for n in (1, 2, 3, 0, 5)]


def test_a_table_of_skipped_columns_still_has_its_rows() -> None:
    assert events(pa.table({"a": [b"1", b"2"]}), unsupported="skip") == [Event({})] * 2


def test_structs_are_flattened_and_hand_their_nulls_down() -> None:
    struct = pa.array([{"x": 1, "y": {"z": "q"}}, None, {"x": None, "y": None}, {"x": 2, "y": {"z": None}}])
    table = pa.table({"s": struct, "b": [1, 2, 3, 4]})
    expected: list[dict[str, Any]] = [
        {"s.x": 1, "s.y.z": "q", "b": 1},
        {"b": 2},
        {"b": 3},
        {"s.x": 2, "b": 4},
    ]
    assert events(table) == [Event(row) for row in expected]
    assert events(table.slice(1, 2)) == [Event(row) for row in expected[1:3]]


def test_a_null_struct_hides_the_values_stored_under_it() -> None:
    # Arrow keeps whatever lies in a child array below a null of its parent.
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([False, True]))
    assert events(pa.table({"s": hidden, "b": [1, 2]})) == [Event({"s.x": 1, "b": 1}), Event({"b": 2})]


@pytest.mark.parametrize("nested", [{"x": 1}, None])
def test_a_column_both_nested_and_dotted_is_refused(nested: Any) -> None:
    struct = pa.array([nested], pa.struct([("x", pa.int64())]))
    with pytest.raises(EventError, match=r"'s\.x' is there twice"):
        events(pa.table({"s": struct, "s.x": [2]}))


def test_dictionary_columns_are_their_values() -> None:
    assert column(pa.array(["x", None, "y", "x"]).dictionary_encode()) == ["x", None, "y", "x"]
    assert column(pa.array([1, None, 1]).dictionary_encode()) == [1, None, 1]
    views = pa.array(["x", None, "y", "x"], pa.string_view())
    assert column(views.dictionary_encode()) == ["x", None, "y", "x"]
    bools = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array([True, False]))
    assert column(bools) == [False, True, None]
    with_null_value = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    assert column(with_null_value) == ["x", None]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_their_first_instant(kind: Any) -> None:
    days = [dt.date(2013, 1, 31), None, dt.date(1969, 12, 31)]
    expected = [Time.parse("2013-01-31"), None, Time(-86_400 * SECOND)]
    assert column(pa.array(days, kind)) == expected
    assert column(pa.array(days, kind).dictionary_encode()) == expected


@pytest.mark.parametrize(
    "array",
    [
        pa.array([2**40], pa.timestamp("s")),
        pa.array([dt.date(9999, 12, 31)], pa.date32()),
        pa.array([dt.date(9999, 12, 31)], pa.date64()),
    ],
    ids=lambda array: str(array.type),
)
def test_a_time_beyond_64_bit_nanoseconds_is_refused(array: Any) -> None:
    with pytest.raises(UnsupportedValueError, match="64-bit nanoseconds"):
        events(pa.table({"a": array}))


def test_unsigned_integers_are_numbers_as_far_as_64_bits_reach() -> None:
    assert column(pa.array([INTEGER_MAX, None], pa.uint64())) == [INTEGER_MAX, None]
    too_much = pa.array([1, 2**63], pa.uint64())
    for array in (too_much, too_much.dictionary_encode()):
        with pytest.raises(UnsupportedValueError, match="64-bit integer"):
            events(pa.table({"a": array}))


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    ],
    ids=str,
)
def test_integers_of_every_width_are_integers(kind: Any) -> None:
    assert [(v, type(v)) for v in column(pa.array([0, 127], kind))] == [(0, int), (127, int)]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_of_every_width_are_doubles_with_their_nan(kind: Any) -> None:
    array = pa.array(np.array([0.5, np.inf, np.nan, -0.0], dtype=kind.to_pandas_dtype()))
    assert array.type == kind
    half, infinity, nan, zero = column(array)
    assert (half, infinity, math.copysign(1, zero)) == (0.5, math.inf, -1)
    assert math.isnan(nan)
    assert {type(v) for v in (half, infinity, nan, zero)} == {float}


def test_a_float_is_widened_as_it_is_stored() -> None:
    assert column(pa.array([0.1], pa.float32())) == [0.10000000149011612]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_strings_of_every_layout_are_strings(kind: Any) -> None:
    assert column(pa.array(["", None, "ß"], kind)) == ["", None, "ß"]


LISTS = [
    (pa.list_(pa.int64()), [1, None, 2], (1, 2)),
    (pa.large_list(pa.int64()), [1], (1,)),
    (pa.list_(pa.int64(), 1), [1], (1,)),
    (pa.list_view(pa.int64()), [1], (1,)),
    (pa.list_(pa.timestamp("s")), [dt.datetime(1970, 1, 1)], (Time(0),)),
    (pa.list_(pa.list_(pa.string())), [["a"], [], None, ["b", "c"]], (("a",), ("b", "c"))),
    (
        pa.list_(pa.struct({"a": pa.int64(), "b": pa.struct({"c": pa.bool_()})})),
        [{"a": 1, "b": {"c": True}}, None, {"a": None, "b": None}],
        (Event({"a": 1, "b.c": True}), Event({})),
    ),
]


@pytest.mark.parametrize(("kind", "given", "expected"), LISTS, ids=lambda part: str(part)[:40])
def test_a_list_is_a_tuple_of_its_elements(kind: Any, given: Any, expected: Any) -> None:
    array = pa.array([given, None, given], kind)
    assert [dict(event) for event in events(pa.table({"a": array}))] == [{"a": expected}, {}, {"a": expected}]
    assert events(pa.table({"a": array.slice(2)})) == [Event({"a": given})]


def test_a_list_without_elements_is_absence() -> None:
    array = pa.array([[], [None], None], pa.list_(pa.string()))
    assert events(pa.table({"a": array})) == [Event({})] * 3


def test_a_value_within_a_list_that_is_none_is_named_by_its_row() -> None:
    table = pa.table({"a": pa.array([[1], [2**63]], pa.list_(pa.uint64()))})
    with pytest.raises(UnsupportedValueError, match=r"^row 1, column 'a\[\]': .*64-bit"):
        events(table)
    assert events(table, unsupported="skip") == [Event({"a": [1]}), Event({})]
    long = pa.table({"a": pa.array([[0], [0] * (ELEMENTS_MAX + 1)])})
    with pytest.raises(LimitError, match="ELEMENTS_MAX"):
        events(long)


@pytest.mark.parametrize(
    "kind", [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(76, 2)], ids=str
)
def test_decimals_of_every_width_are_numbers(kind: Any) -> None:
    given = pa.array([decimal.Decimal("19.99"), None, decimal.Decimal("-2.00")], kind)
    assert column(given) == [19.99, None, -2]
    assert [type(value) for value in column(given)] == [float, type(None), int]


def test_a_decimal_without_a_double_is_a_number_of_its_own() -> None:
    long = decimal.Decimal("12345678901234567.89")
    assert column(pa.array([long], pa.decimal128(38, 2))) == [long]
    assert column(pa.array([long], pa.decimal256(76, 2))) != [float(long)]


UNSUPPORTED = [
    (pa.list_(pa.binary()), [b"x"]),
    (pa.list_(pa.map_(pa.string(), pa.int64())), [[("k", 1)]]),
    (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    (pa.binary(), b"x"),
    (pa.large_binary(), b"x"),
    (pa.binary(1), b"x"),
    (pa.time64("us"), dt.time(5)),
    (pa.duration("s"), dt.timedelta(1)),
    (pa.dictionary(pa.int32(), pa.binary()), b"x"),
]


@pytest.mark.parametrize(("kind", "value"), UNSUPPORTED, ids=lambda part: str(part)[:40])
def test_a_column_without_a_family_is_refused_by_name_or_left_out(kind: Any, value: Any) -> None:
    assert family_of_arrow(kind) is None
    array = pa.array([value], kind)
    for table, name in (
        (pa.table({"odd": array, "b": [1]}), "odd"),
        (pa.table({"s": pa.StructArray.from_arrays([array], ["odd"]), "b": [1]}), r"s\.odd"),
    ):
        with pytest.raises(UnsupportedValueError, match=f"the column '{name}' .*unsupported='skip'"):
            events(table)
        assert events(table, unsupported="skip") == [Event({"b": 1})]


@pytest.mark.parametrize(("kind", "_value"), UNSUPPORTED, ids=lambda part: str(part)[:40])
def test_a_column_without_a_family_that_holds_only_nulls_is_no_trouble(kind: Any, _value: Any) -> None:
    assert events(pa.table({"odd": pa.array([None], kind), "b": [1]})) == [Event({"b": 1})]


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        (pa.bool_(), Family.BOOL),
        (pa.int8(), Family.NUMBER),
        (pa.float16(), Family.NUMBER),
        (pa.string_view(), Family.STRING),
        (pa.timestamp("s", "UTC"), Family.TIME),
        (pa.date64(), Family.TIME),
        (pa.dictionary(pa.int8(), pa.string()), Family.STRING),
        (pa.null(), None),
        (pa.struct([("x", pa.int64())]), None),
    ],
    ids=str,
)
def test_arrow_types_have_families(kind: Any, family: Family | None) -> None:
    assert family_of_arrow(kind) is family


def test_names_and_strings_obey_the_limits() -> None:
    half = "n" * (NAME_LENGTH_MAX // 2)
    with pytest.raises(LimitError, match="NAME_LENGTH_MAX"):
        events(pa.table({half: pa.array([{half: 1}])}))
    with pytest.raises(LimitError, match="STRING_LENGTH_MAX"):
        events(pa.table({"a": ["x" * (STRING_LENGTH_MAX + 1)]}))
    with pytest.raises(EventError, match="name is empty"):
        events(pa.table({"": [1]}))


def test_a_value_out_of_range_is_named_with_its_place_or_skipped() -> None:
    table = pa.table(
        {"n": pa.array([1, 2, 2**63], pa.uint64()), "t": pa.array([0, 10**12, 0], pa.timestamp("s"))}
    )
    with pytest.raises(UnsupportedValueError, match=r"row 12, column 'n': .*64-bit"):
        list(events_from_arrow(table.select(["n"]), first_row=10))
    with pytest.raises(UnsupportedValueError, match=r"row 1, column 't': a time lies outside"):
        list(events_from_arrow(table.select(["t"])))
    left = [dict(e or {}) for e in events_from_arrow(table, unsupported="skip")]
    assert left == [{"n": 1, "t": Time(0)}, {"n": 2}, {"t": Time(0)}]


def test_limits_hold_for_tables_too() -> None:
    wide = pa.table({"s": pa.array([{f"a{i}": 1 for i in range(5_000)}])})
    with pytest.raises(LimitError, match="ATTRIBUTES_MAX"):
        list(events_from_arrow(wide))
    deep = pa.array([1])
    for _ in range(40):
        deep = pa.StructArray.from_arrays([deep], ["a"])
    with pytest.raises(LimitError, match="NESTING_MAX"):
        list(events_from_arrow(pa.table({"a": deep})))
    with pytest.raises(LimitError, match=r"row 0, column 's': .*STRING_LENGTH_MAX"):
        list(events_from_arrow(pa.table({"s": ["x" * (2**20 + 1)]})))
