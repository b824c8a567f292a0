"""LIKE patterns against regular expressions, and their relations against short strings."""

import itertools
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import like
from penstock import parse
from penstock.errors import FilterError, LimitError
from penstock.filters import patterns
from strategies import PATTERNS

LIKE = st.one_of(st.sampled_from(PATTERNS), st.text(st.sampled_from("ab%_"), max_size=8))
WORDS = ["".join(letters) for n in range(5) for letters in itertools.product("abc", repeat=n)]


@pytest.mark.property
@given(LIKE, st.text(st.sampled_from("ab%_\\"), max_size=10))
def test_a_pattern_matches_what_its_regular_expression_does(text: str, value: str) -> None:
    assert patterns.matches(patterns.from_like(text), value) is like(value, text)


@pytest.mark.property
@given(LIKE)
def test_patterns_print_and_read_back(text: str) -> None:
    pattern = patterns.from_like(text)
    assert patterns.from_like(patterns.to_like(pattern)) == pattern


@pytest.mark.property
@given(
    st.lists(st.sampled_from(["a", "!", "%", "_", r"\%", r"\_", r"\\"]), max_size=6).map("".join),
    st.text(st.sampled_from("a!%_\\"), max_size=6),
)
def test_what_is_printed_means_the_same_to_sqlite(text: str, value: str) -> None:
    predicate = parse(f"x like '{text}'")
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("pragma case_sensitive_like = on")
        (found,) = database.execute(f"select {predicate.to_sql()} from (select ? as x)", [value]).fetchone()  # noqa: S608
    assert bool(found) is like(value, text)
    assert parse(predicate.to_sql()) == predicate


@pytest.mark.property
@given(LIKE, LIKE)
def test_covers_and_disjoint_are_sound(a: str, b: str) -> None:
    general, special = patterns.from_like(a), patterns.from_like(b)
    in_both = [word for word in WORDS if like(word, a) and like(word, b)]
    if patterns.covers(general, special):
        assert in_both == [word for word in WORDS if like(word, b)]
    if patterns.disjoint(general, special):
        assert not in_both


@pytest.mark.property
@given(LIKE, LIKE)
def test_two_patterns_that_cover_each_other_are_one(a: str, b: str) -> None:
    # Dropping redundant patterns relies on this: else of two such both would go.
    first, second = patterns.from_like(a), patterns.from_like(b)
    if patterns.covers(first, second) and patterns.covers(second, first):
        assert first == second


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("%b%", "ab%"),
        ("%", "a_c"),
        ("_%", "%a%"),
        ("a%c", "ab%bc"),
        ("%a%c%", "%abc%"),
        ("__%", "%ab"),
        ("a_c", "abc"),
    ],
)
def test_covers_sees_the_common_cases(general: str, special: str) -> None:
    assert patterns.covers(patterns.from_like(general), patterns.from_like(special))
    assert not patterns.covers(patterns.from_like(special), patterns.from_like(general))


@pytest.mark.parametrize(
    ("a", "b"), [("a%", "b%"), ("%a", "%b"), ("__", "___"), ("a_", "%aaa%"), ("ab", "a_c")]
)
def test_disjoint_sees_the_common_cases(a: str, b: str) -> None:
    assert patterns.disjoint(patterns.from_like(a), patterns.from_like(b))


@pytest.mark.parametrize("escape", ["", "%", "_", "ab"])
def test_a_bad_escape_is_refused(escape: str) -> None:
    with pytest.raises(FilterError, match="LIKE escape"):
        patterns.from_like("a", escape)


def test_a_long_pattern_is_refused_but_a_long_plain_text_is_not() -> None:
    assert patterns.from_like("a" * 5000) == "a" * 5000
    with pytest.raises(LimitError, match="PATTERN_LENGTH_MAX"):
        patterns.from_like("a%" * 5000)


@pytest.mark.parametrize(
    "pattern",
    ["%_" * 500 + "b", "%a" * 500 + "b", "_a%" * 300 + "b", "%" + "a" * 900 + "_b%", "%a_" * 300 + "b"],
)
def test_hostile_patterns_do_not_backtrack(pattern: str) -> None:
    # A backtracking matcher would never come back from these; this one takes about a second at most.
    assert not patterns.matches(patterns.from_like(pattern), "a" * 2**20)
