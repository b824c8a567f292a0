"""LIKE and ILIKE patterns against regular expressions, and their relations against short strings."""

import itertools
import sqlite3
import sys
import unicodedata
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import folded, ilike, like, regexp
from penstock import parse
from penstock.errors import FilterError, LimitError
from penstock.filters import patterns
from penstock.filters.folding import RUNS, fold, has_case
from strategies import PATTERNS, REGEXES

LIKE = st.one_of(st.sampled_from(PATTERNS), st.text(st.sampled_from("ab%_"), max_size=8))
LETTERS = st.sampled_from("aAbBßẞſS1%_")
CASED = st.one_of(LIKE, st.text(LETTERS, max_size=6))
WORDS = ["".join(letters) for n in range(4) for letters in itertools.product("aAbcß1", repeat=n)]
WORDS += ["".join(letters) for letters in itertools.product("abc", repeat=4)]


class Kind(NamedTuple):
    """A kind of pattern: how it is read, and how it is decided the slow way."""

    read: Callable[[str], patterns.Pattern]
    brute: Callable[[str, str], bool]


KINDS = st.sampled_from([Kind(patterns.from_like, like), Kind(patterns.from_ilike, ilike)])
KINDS_AND_TEXTS = st.one_of(
    st.tuples(KINDS, CASED), st.tuples(st.just(Kind(patterns.from_regex, regexp)), st.sampled_from(REGEXES))
)


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


@pytest.mark.parametrize("operator", ["like", "not like", "ilike", "not ilike"])
def test_what_is_printed_means_the_same_to_duckdb(operator: str) -> None:
    pieces = ["a", "B", "!", "%", "_", r"\%", r"\_", r"\\", "é"]
    texts = ["".join(parts) for n in range(4) for parts in itertools.product(pieces, repeat=n)]
    values = ["", "a", "aB", "Ab!", "a%", "_b", "\\", "!A", "É", "aÉb", "a\\b", "%%", "bb_", "!!"]
    with closing(duckdb.connect()) as database:
        for text in texts:
            predicate = parse(f"x {operator} '{text}'")
            query = f"select {predicate.to_sql()} from (select unnest(?) as x)"  # noqa: S608
            found = [bool(row[0]) for row in database.execute(query, [values]).fetchall()]
            assert found == [predicate.matches({"x": value}) for value in values], text


@pytest.mark.property
@given(CASED, st.text(LETTERS, max_size=8))
def test_ilike_ignores_case_and_nothing_else(text: str, value: str) -> None:
    assert patterns.matches(patterns.from_ilike(text), value) is ilike(value, text)


def test_folding_is_unicodes_and_the_same_in_every_python() -> None:
    listed = {chr(code) for first, last, step, _added in RUNS for code in range(first, last + 1, step)}
    assert all(fold(character) == folded(character) != character for character in listed)
    assert all(fold(fold(character)) == fold(character) for character in listed)
    if unicodedata.unidata_version == "14.0.0":
        every = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
        assert listed == {character for character in every if folded(character) != character}


def test_ilike_where_languages_differ() -> None:
    # One character is like one: ß is no ss, a dotted İ is its own, and all three sigmas are one.
    assert penstock_matches("x ilike 'ΟΔΟΣ'", "οδος")
    assert penstock_matches("x ilike 'straße'", "STRAẞE")
    assert penstock_matches("x ilike 'k'", "\u212a")  # the Kelvin sign
    assert not penstock_matches("x ilike 'strasse'", "straße")
    assert not penstock_matches("x ilike 'i'", "İ")
    assert not penstock_matches("x not ilike 'É%'", "été")
    assert not parse("x not ilike 'a'").matches({"y": "b"})


@pytest.mark.property
@given(CASED)
def test_a_pattern_without_letters_knows_no_case(text: str) -> None:
    pattern = patterns.from_ilike(text)
    assert patterns.ignores_case(pattern) is has_case(text)
    assert pattern == patterns.from_like(text) or has_case(text)


def penstock_matches(text: str, value: str) -> bool:
    return parse(text).matches({"x": value})


@pytest.mark.property
@given(KINDS_AND_TEXTS, KINDS_AND_TEXTS)
def test_covers_and_disjoint_are_sound(first: tuple[Kind, str], second: tuple[Kind, str]) -> None:
    (a_kind, a), (b_kind, b) = first, second
    general, special = a_kind.read(a), b_kind.read(b)
    in_both = [word for word in WORDS if a_kind.brute(word, a) and b_kind.brute(word, b)]
    if patterns.covers(general, special):
        assert in_both == [word for word in WORDS if b_kind.brute(word, b)]
    if patterns.disjoint(general, special):
        assert not in_both


@pytest.mark.property
@given(KINDS_AND_TEXTS, KINDS_AND_TEXTS)
def test_two_patterns_that_cover_each_other_are_one(a: tuple[Kind, str], b: tuple[Kind, str]) -> None:
    # Dropping redundant patterns relies on this: else of two such both would go.
    first, second = (kind.read(text) for kind, text in (a, b))
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
