"""Decimals as numbers: which are doubles, where the others lie, and how they are written."""

import copy
import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from brute import exactly
from penstock import Event
from penstock.errors import LimitError, UnsupportedValueError
from penstock.model.decimals import (
    ExactDecimal,
    canonical_number,
    midpoint,
    next_number,
    number_of,
    read_number,
    write_number,
)
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.nesting import nested_json
from penstock.model.packed import decode_event, encode_event

LONG = Decimal("0.1000000000000000001")
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=17),
    st.integers(-(2**70), 2**70).map(Decimal),
    st.floats(allow_nan=False, allow_infinity=False).map(repr).map(Decimal),
    st.tuples(st.integers(-(10**40), 10**40), st.integers(-360, 250)).map(
        lambda parts: Decimal(parts[0]).scaleb(parts[1])
    ),
)


def fraction(number: object) -> Fraction:
    return Fraction(exactly(number))


@pytest.mark.property
@given(DECIMALS)
@example(Decimal("9.223372036854775808E+18"))
@example(Decimal("-9223372036854775808.5"))
@example(Decimal("1e23"))
@example(Decimal(int(1e23)))
@example(Decimal("4.9e-324"))
def test_a_decimal_is_the_number_that_prints_as_it_or_lies_between_two(value: Decimal) -> None:
    assume(abs(value) < Decimal("1e308"))
    number = number_of(value)
    assert fraction(number) == Fraction(value)
    if not isinstance(number, ExactDecimal):
        assert canonical_number(number) is number
        return
    above = next_number(number.floor)
    assert above is not None
    assert fraction(number.floor) < Fraction(value)
    assert math.isinf(above) or Fraction(value) < fraction(above)
    assert number.floor < number < above
    assert not number == float(value)  # noqa: SIM201 - both are asked for
    assert number != float(value)


@pytest.mark.property
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(INTEGER_MIN, INTEGER_MAX))
def test_doubles_keep_their_order_and_their_side_of_integers(double: float, integer: int) -> None:
    following = math.nextafter(double, math.inf)
    if math.isfinite(following):
        assert fraction(double) < fraction(following)
    assert (double < integer, double == integer) == (
        fraction(double) < integer,
        fraction(double) == integer,
    )
    assert number_of(exactly(double)) == double


@pytest.mark.property
@given(DECIMALS)
def test_what_is_written_reads_back(value: Decimal) -> None:
    assume(abs(value) < Decimal("1e308"))
    number = number_of(value)
    text = write_number(number)
    assert isinstance(json.loads(text), int | float)
    if type(number) is not int:
        assert read_number(text) == number
        assert type(read_number(text)) is type(number)
    assert pickle.loads(pickle.dumps(number)) == number == copy.deepcopy(number)  # noqa: S301 - ours
    packed = encode_event(Event({"x": value}))
    assert decode_event(packed) == Event({"x": value})
    assert type(decode_event(packed)["x"]) is type(number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("19.990", 19.99),
        ("2.00", 2),
        ("1e3", 1000),
        ("-0.0", 0),
        ("0E+999999", 0),
        ("9223372036854775807", 2**63 - 1),
        ("1e23", 1e23),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
    ],
)
def test_most_decimals_have_a_number_of_their_own(text: str, number: float) -> None:
    found = number_of(Decimal(text))
    assert (found, type(found)) == (number, type(number))


def test_nan_is_nan() -> None:
    assert math.isnan(number_of(Decimal("NaN")))
    assert math.isnan(number_of(Decimal("sNaN")))


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("1e309", UnsupportedValueError, "outside the range of doubles"),
        ("-1.7976931348623158e308", UnsupportedValueError, "outside the range of doubles"),
        ("1.00000000000000001e308", UnsupportedValueError, "outside the range of doubles"),
        ("1e999999", UnsupportedValueError, "outside the range of doubles"),
        ("1." + "1" * 76, LimitError, "77 digits: the limit is 76 .DECIMAL_DIGITS_MAX"),
        ("1e-401", LimitError, "401 digits after the point: the limit is 400 .DECIMAL_PLACES_MAX"),
        ("1e-999999", LimitError, "DECIMAL_PLACES_MAX"),
        ("1.5e-400", LimitError, "DECIMAL_PLACES_MAX"),
    ],
)
def test_what_exceeds_a_limit_is_refused_by_its_name(text: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        number_of(Decimal(text))
    with pytest.raises(error, match=why):
        Event({"x": Decimal(text)})


def test_zeros_do_not_count_as_digits() -> None:
    assert number_of(Decimal("1." + "0" * 500)) == 1
    assert number_of(Decimal("0.5" + "0" * 500)) == 0.5


def test_the_context_of_a_program_changes_nothing() -> None:
    import decimal

    with decimal.localcontext(prec=3):
        assert number_of(Decimal("12345678901234567.890")) == Decimal("12345678901234567.89")


def test_events_compare_decimals_as_numbers() -> None:
    assert Event({"x": Decimal("19.990")}) == Event({"x": 19.99})
    assert hash(Event({"x": Decimal("19.990")})) == hash(Event({"x": 19.99}))
    assert Event({"x": Decimal("2.0")}) == Event({"x": 2})
    assert Event({"x": LONG}) == Event({"x": LONG}) != Event({"x": 0.1})
    assert hash(Event({"x": LONG})) == hash(Event({"x": Decimal("0.10000000000000000010")}))
    # The decimal that has the digits of the double in binary is another number.
    assert Event({"x": Decimal.from_float(0.1)}) != Event({"x": 0.1})


def test_a_decimal_of_an_event_is_one_to_whoever_reads_it() -> None:
    value = Event({"x": LONG})["x"]
    assert isinstance(value, Decimal)
    assert value == LONG
    assert (value > LONG, value >= LONG, value > LONG) == (False, True, False)
    assert value + 1 == LONG + 1
    assert value > 0


def test_json_of_an_event_has_all_digits() -> None:
    import msgspec

    event = Event({"a.b": LONG, "c": Decimal(2**63), "d": Decimal("1.5")})
    text = msgspec.json.encode(nested_json(event.attributes)).decode()
    assert text == '{"a":{"b":0.1000000000000000001},"c":9223372036854775808.0,"d":1.5}'


@pytest.mark.property
@given(DECIMALS)
def test_a_midpoint_lies_between(value: Decimal) -> None:
    assume(abs(value) < Decimal("1e300"))
    number = number_of(value)
    above = next_number(number.floor if isinstance(number, ExactDecimal) else number)
    assert above is not None
    middle = midpoint(number, above)
    assert middle is None or number < middle < above


@pytest.mark.parametrize(
    "text",
    [b"", b"1", b"1e", b"e1", b"-e1", b"01e1", b"1e1234", b"1.5e1", b"1e-401", b"1e308", b"+1e1", b"1e1 "],
)
def test_what_is_no_decimal_is_refused_from_the_wire(text: bytes) -> None:
    import msgspec

    from penstock.model.packed import DECIMAL_CODE

    packed = msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(DECIMAL_CODE, text)})
    with pytest.raises(UnsupportedValueError, match="is not a decimal"):
        decode_event(packed)


def test_the_wire_may_write_a_double_as_a_decimal() -> None:
    import msgspec

    from penstock.model.packed import DECIMAL_CODE

    packed = msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(DECIMAL_CODE, b"-1990e-2")})
    assert decode_event(packed)["x"] == -19.9
