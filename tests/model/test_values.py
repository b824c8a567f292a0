"""Values: times as text, and which Python values belong to which family."""

import math
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LimitError, UnsupportedValueError
from penstock.model.decimals import ExactDecimal
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN, STRING_LENGTH_MAX
from penstock.model.values import Family, Time, Value, family_of, to_value

NANOSECONDS = st.integers(INTEGER_MIN, INTEGER_MAX)
SECOND = 1_000_000_000
MORNING = 1_359_608_400 * SECOND  # 2013-01-31T05:00:00Z
EARLIEST, LATEST = "1677-09-21T00:12:43.145224192Z", "2262-04-11T23:47:16.854775807Z"


@pytest.mark.property
@given(NANOSECONDS)
def test_a_time_reads_back_what_it_prints(nanoseconds: int) -> None:
    assert Time.parse(str(Time(nanoseconds))) == Time(nanoseconds)


@pytest.mark.property
@given(NANOSECONDS, NANOSECONDS)
def test_times_are_ordered_as_their_nanoseconds_and_as_their_text(a: int, b: int) -> None:
    assert (Time(a) < Time(b)) is (a < b)
    whole = [Time(n // SECOND * SECOND) for n in (a, b) if n // SECOND * SECOND >= INTEGER_MIN]
    assert sorted(whole) == sorted(whole, key=str)


@pytest.mark.property
@given(
    st.datetimes(datetime(1678, 1, 1), datetime(2262, 1, 1)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from(["T", "t", " "]),
)
def test_a_zone_is_taken_off_as_datetime_does(moment: datetime, minutes: int, between: str) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = aware.isoformat(between)
    assert Time.parse(text) == Time.from_datetime(aware)
    assert Time.parse(text) == to_value(aware.astimezone(UTC))
    assert (
        Time.parse(text).nanoseconds
        == (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    )


@pytest.mark.property
@given(st.dates(date(1678, 1, 1), date(2262, 1, 1)))
def test_a_date_is_its_first_instant(day: date) -> None:
    assert to_value(day) == Time.parse(day.isoformat()) == Time.parse(f"{day}T00:00:00Z")


@pytest.mark.property
@given(st.integers(INTEGER_MIN + 1, INTEGER_MAX))
def test_a_timestamp_keeps_its_nanoseconds(nanoseconds: int) -> None:
    for moment in (pd.Timestamp(nanoseconds), np.datetime64(nanoseconds, "ns")):
        assert to_value(moment) == Time(nanoseconds)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("2013-01-31", MORNING - 5 * 3600 * SECOND),
        ("2013-01-31T05:00:00Z", MORNING),
        ("2013-01-31t05:00:00z", MORNING),
        ("2013-01-31 05:00:00", MORNING),
        ("2013-01-31T05:00", MORNING),
        ("2013-01-31T05:00Z", MORNING),
        ("2013-01-31T05:00:00+00:00", MORNING),
        ("2013-01-31T10:30:00+05:30", MORNING),
        ("2013-01-31T10:30:00+0530", MORNING),
        ("2013-01-31T04:30:00-00:30", MORNING),
        ("2013-01-30T05:01:00-23:59", MORNING),
        ("2013-01-31T05:00:00.5Z", MORNING + SECOND // 2),
        ("2013-01-31T05:00:00.000000001Z", MORNING + 1),
        ("2013-01-31T05:00:00.123456789+00:00", MORNING + 123_456_789),
        ("1969-12-31T23:59:59.999999999Z", -1),
        (EARLIEST, INTEGER_MIN),
        (LATEST, INTEGER_MAX),
    ],
)
def test_times_are_read(text: str, nanoseconds: int) -> None:
    assert Time.parse(text) == Time(nanoseconds)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (SECOND // 2, "1970-01-01T00:00:00.5Z"),
        (1_000, "1970-01-01T00:00:00.000001Z"),
        (INTEGER_MIN, EARLIEST),
        (INTEGER_MAX, LATEST),
    ],
)
def test_times_are_printed_with_as_many_decimals_as_needed(nanoseconds: int, text: str) -> None:
    assert str(Time(nanoseconds)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write 2013-01-31"),
        ("now", "write 2013-01-31"),
        ("2013", "write 2013-01-31"),
        ("2013-1-31", "write 2013-01-31"),
        ("2013-01-31Z", "write 2013-01-31"),
        ("2013-01-31\n", "write 2013-01-31"),
        (" 2013-01-31", "write 2013-01-31"),
        ("２０１３-01-31", "write 2013-01-31"),
        ("2013-01-31T05", "write 2013-01-31"),
        ("2013-01-31T05:00:00.Z", "write 2013-01-31"),
        ("2013-01-31T05:00:00,5Z", "write 2013-01-31"),
        ("2013-01-31T05:00:00.1234567891Z", "write 2013-01-31"),
        ("2013-01-31T05:00:00+05", "write 2013-01-31"),
        ("2013-01-31T05:00:00 CET", "write 2013-01-31"),
        ("0000-01-01", "year 0"),
        ("2013-02-29", "day is out of range"),
        ("2013-13-01", "month must be"),
        ("2013-01-31T24:00:00Z", "hour must be"),
        ("2013-01-31T05:60:00Z", "minute must be"),
        ("2016-12-31T23:59:60Z", "second must be"),
        ("2013-01-31T05:00:00+24:00", "a zone is at most"),
        ("2013-01-31T05:00:00+05:60", "a zone is at most"),
        ("1677-09-21T00:12:43.145224191Z", "64-bit nanoseconds"),
        ("2262-04-11T23:47:16.854775808Z", "64-bit nanoseconds"),
        ("2262-04-11T23:47:16-00:01", "64-bit nanoseconds"),
        ("9999-12-31", "64-bit nanoseconds"),
    ],
)
def test_what_is_no_time_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UnsupportedValueError, match=why):
        Time.parse(text)


def test_a_long_text_is_not_quoted_whole() -> None:
    with pytest.raises(UnsupportedValueError) as caught:
        Time.parse("x" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("nanoseconds", [INTEGER_MIN - 1, INTEGER_MAX + 1])
def test_a_time_beyond_64_bits_is_refused(nanoseconds: int) -> None:
    with pytest.raises(UnsupportedValueError, match=r"1677-09-21.*2262-04-11"):
        Time(nanoseconds)


def test_a_time_is_a_value_that_cannot_change() -> None:
    moment = Time(5)
    with pytest.raises(AttributeError):
        moment.nanoseconds = 6  # type: ignore[misc]
    assert hash(moment) == hash(Time(5))
    assert pickle.loads(pickle.dumps(moment)) == moment  # noqa: S301


class Colour(IntEnum):
    RED = 1


class Suit(StrEnum):
    HEARTS = "hearts"


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


class Metres(float):
    pass


class Stamp(datetime):
    pass


CONVERSIONS: list[tuple[object, Value, Family]] = [
    (True, True, Family.BOOL),
    (5, 5, Family.NUMBER),
    (INTEGER_MIN, INTEGER_MIN, Family.NUMBER),
    (INTEGER_MAX, INTEGER_MAX, Family.NUMBER),
    (0.1, 0.1, Family.NUMBER),
    (math.inf, math.inf, Family.NUMBER),
    ("x", "x", Family.STRING),
    ("", "", Family.STRING),
    ("\0\U0010ffff", "\0\U0010ffff", Family.STRING),
    (Time(5), Time(5), Family.TIME),
    (Colour.RED, 1, Family.NUMBER),
    (Suit.HEARTS, "hearts", Family.STRING),
    (Loud("quiet"), "quiet", Family.STRING),
    (Metres(1.5), 1.5, Family.NUMBER),
    (Stamp(1970, 1, 1, 0, 0, 1), Time(SECOND), Family.TIME),
    (datetime(2013, 1, 31, 5), Time(MORNING), Family.TIME),
    (datetime(2013, 1, 31, 5, 0, 0, 1), Time(MORNING + 1_000), Family.TIME),
    (datetime(2013, 1, 31, 7, tzinfo=timezone(timedelta(hours=2))), Time(MORNING), Family.TIME),
    (date(1970, 1, 2), Time(86_400 * SECOND), Family.TIME),
    (np.bool_(True), True, Family.BOOL),
    (np.int8(-1), -1, Family.NUMBER),
    (np.int64(INTEGER_MIN), INTEGER_MIN, Family.NUMBER),
    (np.uint64(INTEGER_MAX), INTEGER_MAX, Family.NUMBER),
    (np.float16(0.5), 0.5, Family.NUMBER),
    (np.float32(0.1), 0.10000000149011612, Family.NUMBER),
    (np.float64(0.1), 0.1, Family.NUMBER),
    (np.longdouble(0.1), 0.1, Family.NUMBER),
    (Decimal("19.990"), 19.99, Family.NUMBER),
    (Decimal("2.0"), 2, Family.NUMBER),
    (Decimal("0.1000000000000000001"), ExactDecimal("0.1000000000000000001"), Family.NUMBER),
    (np.str_("x"), "x", Family.STRING),
    (np.datetime64("1970-01-02", "D"), Time(86_400 * SECOND), Family.TIME),
    (np.datetime64(-1, "h"), Time(-3600 * SECOND), Family.TIME),
    (np.datetime64(1, "m"), Time(60 * SECOND), Family.TIME),
    (np.datetime64(1, "s"), Time(SECOND), Family.TIME),
    (np.datetime64(1, "ms"), Time(1_000_000), Family.TIME),
    (np.datetime64(-1, "us"), Time(-1_000), Family.TIME),
    (pd.Timestamp("2013-01-31T05:00:00.123456789Z"), Time(MORNING + 123_456_789), Family.TIME),
    (pd.Timestamp("2013-01-31T00:00:00.000000001", tz="America/New_York"), Time(MORNING + 1), Family.TIME),
    (pd.Timestamp("1969-12-31T23:59:59.999999999"), Time(-1), Family.TIME),
]


@pytest.mark.parametrize(("given", "value", "family"), CONVERSIONS, ids=lambda part: repr(part)[:60])
def test_values_become_one_of_five_types_unchanged_in_meaning(
    given: object, value: Value, family: Family
) -> None:
    accepted = to_value(given)
    assert (accepted, type(accepted)) == (value, type(value))
    assert family_of(accepted) is family


@pytest.mark.parametrize("given", [math.nan, np.float32("nan"), Metres("nan"), np.longdouble("nan")])
def test_nan_is_a_number_in_an_event(given: object) -> None:
    accepted = to_value(given)
    assert type(accepted) is float
    assert math.isnan(accepted)
    assert family_of(accepted) is Family.NUMBER


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "type null has no family"),
        ([1], "type list has no family"),
        ((1,), "type tuple has no family"),
        ({1}, "type set has no family"),
        ({"a": 1}, "type dict has no family"),
        (b"x", "type bytes has no family"),
        (bytearray(b"x"), "type bytearray has no family"),
        (1j, "type complex has no family"),
        (Decimal("1e400"), "outside the range of doubles"),
        (Fraction(1, 2), "type Fraction has no family"),
        (Fraction(2), "type Fraction has no family"),
        (time(5), "type time has no family"),
        (timedelta(1), "type timedelta has no family"),
        (object(), "type object has no family"),
        (np.bytes_(b"x"), "type bytes_ has no family"),
        (np.complex128(1), "type complex128 has no family"),
        (np.longdouble(1) / 3, "type longdouble has no family"),
        (np.datetime64("NaT"), "has no family"),
        (np.datetime64("NaT", "ns"), "has no family"),
        (np.datetime64("3000-01-01", "D"), "64-bit nanoseconds"),
        (pd.NaT, "type null has no family"),
        (pd.NA, "type null has no family"),
        (pd.Timedelta(1), "type Timedelta has no family"),
        (datetime.min, "64-bit nanoseconds"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=23))), "64-bit nanoseconds"),
        (date.max, "64-bit nanoseconds"),
        (INTEGER_MAX + 1, "does not fit a 64-bit integer"),
        (INTEGER_MIN - 1, "does not fit a 64-bit integer"),
        (np.uint64(2**63), "does not fit a 64-bit integer"),
        ("\ud800", "lone surrogate"),
        ("x" * 100 + "\udfff", "lone surrogate"),
        (Loud("\ud800"), "lone surrogate"),
        (np.str_("\ud800"), "lone surrogate"),
    ],
    ids=lambda part: "an object" if type(part) is object else repr(part)[:60],
)
def test_what_has_no_family_is_refused(given: object, why: str) -> None:
    with pytest.raises(UnsupportedValueError, match=why):
        to_value(given)


@pytest.mark.parametrize("given", [10**400, -(10**5000)], ids=["hundreds", "thousands"])
def test_an_enormous_integer_is_refused_without_printing_it(given: int) -> None:
    # Python itself refuses to print more than 4,300 digits.
    with pytest.raises(UnsupportedValueError, match="does not fit a 64-bit integer") as caught:
        to_value(given)
    assert len(str(caught.value)) < 100


def test_a_string_is_as_long_as_the_limit_and_no_longer() -> None:
    longest = "é" * STRING_LENGTH_MAX
    assert to_value(longest) is longest
    for longer in (longest + "é", Loud(longest + "é")):
        with pytest.raises(LimitError, match="STRING_LENGTH_MAX") as caught:
            to_value(longer)
        assert (caught.value.limit_name, caught.value.limit) == ("STRING_LENGTH_MAX", STRING_LENGTH_MAX)


def test_families_are_called_as_the_documentation_writes_them() -> None:
    assert {family.label for family in Family} == {"bool", "number", "string", "time", "list"}


@pytest.mark.parametrize(
    "value",
    [np.timedelta64(1, "s"), np.timedelta64(1, "ns"), np.array([1, 2]), np.array([5]), np.complex128(1)],
)
def test_numpy_values_that_are_no_scalar_value_have_no_family(value: object) -> None:
    with pytest.raises(UnsupportedValueError, match="has no family"):
        to_value(value)


@pytest.mark.parametrize("nanoseconds", [1.5, True, "1"])
def test_a_time_is_whole_nanoseconds(nanoseconds: object) -> None:
    with pytest.raises(UnsupportedValueError, match="whole nanoseconds"):
        Time(nanoseconds)  # type: ignore[arg-type]
