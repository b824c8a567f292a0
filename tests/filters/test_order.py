"""The families as ordered domains."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import neighbours
from penstock.filters.order import LEAST, after_prefix, canonical_number, predecessor, successor
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.values import Family
from strategies import NUMBERS, STRINGS

ANY_NUMBER = st.one_of(
    st.sampled_from(NUMBERS).map(canonical_number),
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False).map(canonical_number),
)


def is_in_domain(value: float) -> bool:
    return isinstance(value, float) or INTEGER_MIN <= value <= INTEGER_MAX


@pytest.mark.property
@given(ANY_NUMBER)
def test_nothing_lies_between_a_number_and_its_successor(value: float) -> None:
    following = successor(Family.NUMBER, value)
    if following is None:
        assert value == math.inf
        return
    assert value < following
    assert is_in_domain(following)
    assert canonical_number(following) is following
    # A number between the two would be an integer, or the next double of one of them.
    between = [math.nextafter(value, math.inf), math.nextafter(following, -math.inf)]
    if math.isfinite(value):
        between += [math.floor(value) + 1, float(math.floor(value) + 1)]
    assert not any(is_in_domain(n) and value < n < following for n in between)


@pytest.mark.property
@given(ANY_NUMBER)
def test_predecessor_undoes_successor(value: float) -> None:
    following = successor(Family.NUMBER, value)
    before = predecessor(Family.NUMBER, value)
    for there, back in ((following, predecessor), (before, successor)):
        if there is not None:
            again = back(Family.NUMBER, there)
            assert (again, type(again)) == (value, type(value))
    assert before is None or is_in_domain(before)


def test_the_predecessor_of_an_integer_beyond_64_bits_is_a_double() -> None:
    # Found by the round trip of `x <= 9.223372036854775808e18`, which printed 2**63 as an integer.
    above = successor(Family.NUMBER, 2.0**63)
    assert isinstance(predecessor(Family.NUMBER, above), float)
    assert predecessor(Family.NUMBER, 2.0**63) == 2**63 - 1
    assert predecessor(Family.NUMBER, INTEGER_MIN) == math.nextafter(-(2.0**63), -math.inf)


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
