"""The families as ordered domains."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from brute import exactly, neighbours
from penstock.filters.constraint import literal
from penstock.filters.order import (
    LEAST,
    After,
    Point,
    after_prefix,
    canonical_number,
    first_value,
    last_value,
    predecessor,
    successor,
)
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.values import Family
from strategies import NUMBERS, STRINGS


def in_canonical_form(value: object) -> Point:
    return literal(value)[1]


ANY_NUMBER = st.one_of(
    st.sampled_from(NUMBERS).map(in_canonical_form),
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False).map(canonical_number),
    st.decimals(allow_nan=False, allow_infinity=False, places=20).map(in_canonical_form),
)


@pytest.mark.property
@given(ANY_NUMBER, ANY_NUMBER)
def test_numbers_and_the_places_after_them_are_ordered_as_decimals_are(a: Point, b: Point) -> None:
    for x, y in ((a, b), (b, a)):
        known, other = exactly(x), exactly(y)
        assert (x < y, x <= y, x == y, x != y, x >= y, x > y) == (
            *(known < other, known <= other, known == other, known != other),
            *(known >= other, known > other),
        )
        # After a number come all that are greater, and the places after these.
        assert (x < After(y), x <= After(y)) == (known <= other, known <= other)
        assert (x > After(y), x >= After(y)) == (known > other, known > other)
        assert (After(x) < y, After(x) <= y) == (known < other, known < other)
        assert (After(x) > y, After(x) >= y) == (known >= other, known >= other)
        assert (After(x) < After(y), After(x) == After(y)) == (known < other, known == other)
        assert (After(x) <= After(y), After(x) != After(y)) == (known <= other, known != other)
        assert (After(x) > After(y), After(x) >= After(y)) == (known > other, known >= other)
        assert x != After(y)
        assert not x == After(y)  # noqa: SIM201 - both are asked for
        if known == other:
            assert hash(x) == hash(y)
            assert hash(After(x)) == hash(After(y))


@pytest.mark.property
@given(ANY_NUMBER)
def test_predecessor_undoes_successor(value: Point) -> None:
    following = successor(Family.NUMBER, value)
    if following is None:
        assert value == math.inf
        return
    again = predecessor(Family.NUMBER, following)
    assert (again, type(again)) == (value, type(value))
    # Decimals are dense: no number comes just before another.
    assert predecessor(Family.NUMBER, value) is None


@pytest.mark.property
@given(ANY_NUMBER, ANY_NUMBER, st.booleans(), st.booleans())
def test_a_value_is_found_between_two_points(a: Point, b: Point, after_a: bool, after_b: bool) -> None:
    start, end = After(a) if after_a else a, After(b) if after_b else b
    assume(start < end and math.inf not in (a, b))
    for found in (first_value(start, end), last_value(start, end)):
        if found is not None:
            assert start <= found < end
            assert type(found) is not After
    assert first_value(a, end) == a
    assert last_value(start, After(b)) == b


@pytest.mark.property
@given(st.text(max_size=4), st.text(max_size=4))
def test_a_prefix_is_an_interval(prefix: str, text: str) -> None:
    end = after_prefix(prefix)
    assert text.startswith(prefix) is (prefix <= text and (end is None or text < end))


@pytest.mark.parametrize("prefix", STRINGS)
def test_the_end_of_a_prefix_is_tight(prefix: str) -> None:
    end = after_prefix(prefix)
    if end is not None:
        end.encode()  # no lone surrogate
        assert not end.startswith(prefix)
        near = [n for n in neighbours(end) if isinstance(n, str) and n < end]
        assert all(n.startswith(prefix) or n < prefix for n in near)


def test_only_strings_that_end_in_nul_have_a_predecessor() -> None:
    assert predecessor(Family.STRING, "a\0") == "a"
    assert predecessor(Family.STRING, "a") is None
    assert successor(Family.STRING, "a") == "a\0"


def test_times_and_bools_end() -> None:
    assert successor(Family.TIME, INTEGER_MAX) is None
    assert predecessor(Family.TIME, INTEGER_MIN) is None
    assert successor(Family.TIME, 5) == 6
    assert (successor(Family.BOOL, False), successor(Family.BOOL, True)) == (True, None)
    assert predecessor(Family.BOOL, LEAST[Family.BOOL]) is None
