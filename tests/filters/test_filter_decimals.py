"""Decimals in filters: literals, printing, and relations inside one gap between doubles."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import exactly
from penstock import covers, identical, merge, overlaps, parse
from penstock.errors import FilterSyntaxError, LimitError
from penstock.filters.constraint import Constraint, literal
from penstock.filters.estimate import Histogram, ValueCounts
from penstock.filters.valuesets import ValueSet
from penstock.filters.witnesses import witnesses
from penstock.model.decimals import ExactDecimal
from penstock.routing.shape import may_cover, shape_of

LONG = "0.1000000000000000001"
LONGER = "0.1000000000000000002"


def _in_json(text: str) -> str:
    return f'{{"attribute": "x", "op": "=", "value": {text}}}'


@pytest.mark.property
@given(
    st.integers(-(10**40), 10**40),
    st.integers(-60, 60),
    st.sampled_from(
        (
            lambda n, e: f"{n}e{e}",
            lambda n, e: format(Decimal(n).scaleb(e), "f") + ("." if e >= 0 else "") + "0",
        )
    ),
)
def test_literals_are_exact_in_every_language(digits: int, exponent: int, write: object) -> None:
    text = write(digits, exponent)  # type: ignore[operator]
    asked = [
        parse(f"x = {text}"),
        parse(f"[x,=,{text}]", "padres"),
        parse(_in_json(text), "json"),
    ]
    assert len(set(asked)) == 1
    (point, _after) = asked[0].filters[0].conditions["x"].cuts
    assert Fraction(exactly(point)) == Fraction(digits) * Fraction(10) ** exponent
    assert parse(asked[0].to_sql()) == asked[0]
    assert parse(asked[0].to_json(), "json") == asked[0]
    assert parse(asked[0].to_padres(), "padres") == asked[0]


@pytest.mark.parametrize("text", ["1e309", "-2e308", "1e99999999999999999999", "1e-99999999999999999999"])
def test_literals_beyond_doubles_are_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError, match="range of doubles"):
        parse(f"x = {text}")
    with pytest.raises(FilterSyntaxError, match="range of doubles"):
        parse(_in_json(text), "json")


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("1." + "1" * 76, "DECIMAL_DIGITS_MAX"),
        ("1e-401", "DECIMAL_PLACES_MAX"),
        ("1." + "0" * 400, "NUMBER_LENGTH_MAX"),
    ],
)
def test_literals_that_are_too_long_are_refused_by_name(text: str, limit: str) -> None:
    for given_, language in ((f"x = {text}", "sql"), (f"[x,=,{text}]", "padres"), (_in_json(text), "json")):
        with pytest.raises(LimitError, match=limit):
            parse(given_, language)  # type: ignore[arg-type]


def test_a_literal_a_double_and_a_decimal_are_one_number() -> None:
    price = parse("price = 19.990")
    assert price.to_sql() == "price = 19.99"
    assert price.matches({"price": 19.99})
    assert price.matches({"price": Decimal("19.99")})
    assert price.matches({"price": Decimal("19.9900")})
    assert not price.matches({"price": Decimal("19.99000000000000000001")})
    assert Constraint("price", "=", Decimal("19.99")) == Constraint("price", "=", 19.99)
    assert literal(Decimal("2.0")) == literal(2)


def test_relations_tell_decimals_in_one_gap_apart() -> None:
    assert covers(f"x > {LONG}", f"x > {LONGER}")
    assert not covers(f"x > {LONGER}", f"x > {LONG}")
    assert covers("x > 0.1", f"x >= {LONG}")
    assert not covers(f"x >= {LONG}", "x > 0.1")
    assert overlaps(f"x > {LONG}", f"x < {LONGER}")
    assert not overlaps(f"x <= {LONG}", f"x >= {LONGER}")
    assert identical(f"x < {LONG} or x > {LONG}", f"x != {LONG}")
    assert parse("x > 9007199254740992 and x < 9007199254740993").satisfiable
    assert not parse(f"x > {LONG} and x < {LONG}").satisfiable
    assert merge([f"x < {LONG}", f"x between {LONG} and 5"]).predicate.to_sql() == "x <= 5"
    assert merge([f"x = {LONG}", f"x > {LONG}"]).predicate.to_sql() == f"x >= {LONG}"


def test_distributions_count_decimals() -> None:
    (f,) = parse(f"x = {LONG}").filters
    states = f.conditions["x"]
    assert ValueCounts({Decimal(LONG): 1, 0.1: 3}).share(states) == 0.25  # type: ignore[dict-item]
    (half,) = parse("x > 5").filters
    assert Histogram([0, 10], [1]).share(half.conditions["x"]) == 0.5
    loose = merge([f"x = {LONG} and y = 1", "x = 0.3 and y = 2"], budget=0.9)
    assert loose.predicate.matches({"x": Decimal(LONG), "y": 1})


@pytest.mark.property
@given(
    st.lists(
        st.sampled_from((5, 0.1, 5.000000000000001, Decimal(LONG), Decimal(LONGER), 2**53, 2**53 + 1)),
        min_size=2,
        max_size=2,
        unique=True,
    ),
    st.sampled_from(("<", "<=", "between", "> and <", ">=")),
)
def test_witnesses_are_values_of_their_set(ends: list[object], how: str) -> None:
    low, high = sorted(ends, key=exactly)
    if how == "between":
        states = Constraint("x", how, (low, high)).states
    elif how == "> and <":
        states = Constraint("x", ">", low).states.intersection(Constraint("x", "<", high).states)
    else:
        states = Constraint("x", how, low).states
    found = witnesses(states)
    assert found is not None
    for value in found:
        assert states.admits(value)
        assert isinstance(value, int | float | ExactDecimal)


@pytest.mark.parametrize("text", ["x > 5", "x >= 5", "x = 5", "x between 5 and 10", "x < 0.5", "x <= -3"])
def test_shapes_of_common_filters_stay_exact(text: str) -> None:
    assert shape_of(parse(text)).exact


def test_shapes_never_deny_a_cover_inside_a_gap() -> None:
    texts = [
        f"x {op} {n}"
        for op in ("<", "<=", "=", ">", ">=")
        for n in (
            "5",
            "5.000000000000001",
            "5.0000000000000001",
            LONG,
            LONGER,
            "0.1",
            "9007199254740992",
            "9007199254740993",
            "9007199254740995",
            "9007199254740995.5",
        )
    ]
    parsed = [parse(text) for text in texts]
    for f in parsed:
        for g in parsed:
            if covers(f, g):
                assert may_cover(shape_of(f), shape_of(g))
            elif shape_of(f).exact and shape_of(g).exact:
                assert not may_cover(shape_of(f), shape_of(g))


def test_sets_of_numbers_hash_alike_where_they_are_equal() -> None:
    assert Constraint("x", "<=", Decimal("5.0")).states == Constraint("x", "<=", 5).states
    assert hash(Constraint("x", "<=", Decimal("5.0")).states) == hash(Constraint("x", "<=", 5).states)
    assert isinstance(Constraint("x", "<", 5).states, ValueSet)
