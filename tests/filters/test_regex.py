"""Regular expressions against Python's, which backtracks; their limits; and what LIKE knows of them."""

import itertools
import re
from contextlib import closing

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from brute import regexp
from penstock import covers, overlaps, parse
from penstock.errors import FilterError, LimitError
from penstock.filters import patterns
from penstock.filters.automata import automaton, machine
from penstock.filters.regex import read
from penstock.filters.regex_patterns import envelope, example
from penstock.filters.wildcards import REGEX
from penstock.model.limits import EXPANSION_WORK_MAX, REGEX_SIZE_MAX

ATOMS = (
    *"abAé1- ",
    ".",
    "[ab]",
    "[^a]",
    "[a-c1-]",
    r"\w",
    r"\W",
    r"\d",
    r"\D",
    r"\s",
    r"\S",
    r"[\w-]",
    r"\.",
    r"\x41",
)
COUNTS = ("*", "+", "?", "{2}", "{1,2}", "{2,}", "{0,2}", "*?", "{1}")
PLACES = ("^", "$", r"\b", r"\B", r"\A", r"\z")
TEXTS = st.text(st.sampled_from("abcA1é- .\n_"), max_size=8)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("(?:{}|)".format, inner),
        st.builds("({}){}".format, inner, st.sampled_from(COUNTS)),
        st.builds("{}{}".format, st.sampled_from(PLACES), inner),
        st.builds("{}{}".format, inner, st.sampled_from(PLACES)),
    )


EXPRESSIONS = st.recursive(st.sampled_from(ATOMS), _larger, max_leaves=6)
FLAGGED = st.builds("{}{}".format, st.sampled_from(("", "", "(?i)", "(?s)")), EXPRESSIONS)


def _read(text: str) -> str:
    """An expression as it is written; what is refused, such as `(^)*`, is tried no further."""
    try:
        return read(text).text()
    except FilterError:
        assume(False)
        raise


@pytest.mark.property
@given(FLAGGED, TEXTS)
def test_an_expression_is_found_where_python_finds_it(text: str, value: str) -> None:
    written = _read(text)
    # Until version 3.14, Python says that the empty text has no place for \\B.
    assume(value or r"\B" not in text)
    folded = value.casefold() if written.startswith("(?i)") else value
    assert machine(written).finds(folded) is regexp(value, text)
    assert patterns.matches(patterns.from_regex(text), value) is regexp(value, text)


@pytest.mark.property
@given(FLAGGED, TEXTS)
def test_an_expression_has_one_written_form_which_means_the_same(text: str, value: str) -> None:
    written = _read(text)
    assert read(written).text() == written
    if value or r"\B" not in text:
        assert regexp(value, written) is regexp(value, text)


@pytest.mark.property
@given(FLAGGED, TEXTS)
def test_an_envelope_matches_whatever_the_expression_does(text: str, value: str) -> None:
    pattern = REGEX + _read(text)
    around = envelope(pattern)
    if patterns.matches(pattern, value):
        assert patterns.matches(around, value)
        assert value.startswith(patterns.literal_prefix(pattern))
        assert len(value) >= patterns.length_min(pattern)


@pytest.mark.property
@given(EXPRESSIONS)
def test_an_example_without_places_is_found(text: str) -> None:
    assume(not any(place in text for place in ("^", "$", r"\b", r"\B", r"\A", r"\z")))
    written = _read(text)
    assert machine(written).finds(example(REGEX + written))


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        ("error", "x like '%error%'"),
        ("^error", "x like 'error%'"),
        ("error$", "x like '%error'"),
        (r"\Aerror\z", "x = 'error'"),
        (".*error.*", "x like '%error%'"),
        ("(?i)Error", "x ilike '%ERROR%'"),
        ("(?s)^a.*b.c$", "x like 'a%b_c'"),
        ("(?:a)(b)[c]", "x like '%abc%'"),
        (r"1\.5%", r"x like '%1.5\%%'"),
        ("", "x like '%'"),
        ("(?i)1_", r"x like '%1\_%'"),
    ],
)
def test_what_like_can_say_is_a_like_pattern(expression: str, same: str) -> None:
    assert parse(f"regexp_like(x, '{expression}')") == parse(same)


def test_ways_to_write_it() -> None:
    spelled = (
        "x rlike 'a+b'",
        "x regexp 'a+b'",
        "regexp_like(x, 'a+b')",
        "regexp_matches(x, 'a+b')",
        "RLIKE(x, 'a+b')",
    )
    (predicate,) = {parse(text) for text in spelled}
    assert predicate.to_sql() == "regexp_like(x, 'a+b')"
    assert (
        parse("not x rlike 'a+b'").to_sql()
        == "not regexp_like(x, 'a+b')"
        == parse("x not rlike 'a+b'").to_sql()
    )
    assert parse('{"attribute": "x", "op": "regexp", "value": "a+b"}', "json") == predicate
    assert parse(predicate.to_json(), "json") == predicate
    # An attribute may have the name of an operator.
    assert parse("rlike rlike 'a+' and regexp = 1 and ilike ilike 'b'").matches(
        {"rlike": "a", "regexp": 1, "ilike": "B"}
    )
    assert parse(r"regexp_like(x, '\d\.\w-\(')").to_sql() == "regexp_like(x, '[0-9][.][0-9A-Z_a-z]-[(]')"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (r"(a)\1", "references to groups"),
        ("a(?=b)", "look-around"),
        ("(?<!a)b", "look-around"),
        ("(?P<name>a)", "names"),
        ("(?>a)", "linear time"),
        ("a(?i)b", "in front"),
        ("a++", "possessive"),
        ("a**", "into a group"),
        ("*a", "nothing before"),
        ("^*", "cannot be repeated"),
        ("{2}", "nothing before"),
        ("a{2", "is written"),
        ("a{,2}", "is written"),
        ("a{3,2}", "no earlier"),
        ("(a", "never closed"),
        ("a)", "closes no group"),
        ("[a", "never closed"),
        ("[[:alpha:]]", "is written"),
        ("[a&&b]", "disagree"),
        ("[b-a]", "no earlier"),
        (r"[\d-z]", "one character to another"),
        (r"\p{L}", "Unicode properties"),
        (r"a\Z", "different things"),
        (r"\v", "different things"),
        (r"\Qa\E", "special character"),
        ("a\\", "special character"),
        (r"\ud800", "no such character"),
        (r"\x{110000}", "no such character"),
        (r"(?i)[\x00-\uffff]", "1,024 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(expression: str, message: str) -> None:
    with pytest.raises(FilterError, match=message) as caught:
        parse(f"x rlike '{expression}'")
    assert "at character" in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "limit"),
    [
        ("(a{1000}){1000}", "REGEX_SIZE_MAX"),
        ("a{999999999}", "REGEX_SIZE_MAX"),
        ("((((a{9}){9}){9}){9}){9}", "REGEX_SIZE_MAX"),
        ("ab" * REGEX_SIZE_MAX + ".", "REGEX_SIZE_MAX"),
        ("(" * 200 + "a" + ")" * 200, "DEPTH_MAX"),
        ("a|" * 3_000, "REGEX_LENGTH_MAX"),
        (r"(\w)" * 256 + ".", "REGEX_"),
    ],
)
def test_what_is_too_large_is_refused_by_name(expression: str, limit: str) -> None:
    with pytest.raises(LimitError, match=limit):
        parse(f"x rlike '{expression}'")


@pytest.mark.parametrize("expression", ["()*{3}", "((|){100}){100}", "(){1000}", "(a|||||b){20}"])
def test_what_is_empty_takes_no_room(expression: str) -> None:
    try:
        assert automaton(read(expression).text()).positions <= 2 * 20 + 2
    except FilterError:
        assert expression == "()*{3}"


@pytest.mark.parametrize(
    "expression",
    [
        "(a*)*b",
        "(a|a)*b",
        "(a|aa)+$b",
        "(.?){100}a{100}b",
        "(a+)+b",
        "(?i)(x+x+)+y",
        r"(\ba?|a)*\Bb",
        "a{200}b",
    ],
)
def test_hostile_expressions_do_not_backtrack(expression: str) -> None:
    # A backtracking matcher would never come back from these.
    assert not patterns.matches(patterns.from_regex(expression), "a" * 2**16)


def test_many_expressions_of_one_request_count_as_work() -> None:
    few = " and ".join(f"a{i} rlike '{i}[0-9]+x'" for i in range(20))
    assert len(parse(few, request=True).filters) == 1
    many = " and ".join(f"a{i} rlike '(a?b?){{100}}'" for i in range(EXPANSION_WORK_MAX // 12 // 200 + 1))
    with pytest.raises(LimitError, match="EXPANSION_WORK_MAX"):
        parse(many, request=True)


def test_a_long_list_is_not_searched_while_it_is_parsed() -> None:
    values = ", ".join(f"'{'ab' * 20}{i}'" for i in range(2_000))
    predicate = parse(f"x in ({values}) and x rlike '(a?b?){{60}}7$'")
    assert predicate.matches({"x": "ab" * 20 + "7"})
    assert not predicate.matches({"x": "ab" * 20 + "8"})
    assert parse(predicate.to_sql()) == predicate
    assert parse("x in ('ab1', 'b2', 'a3') and x rlike 'a.?[0-9]'").to_sql() == "x in ('a3', 'ab1')"


def test_relations_see_the_common_cases() -> None:
    assert covers("x like '%id=%'", "x rlike 'id=[0-9]+'")
    assert covers("x like 'id%'", "x rlike '^id=[0-9]+$'")
    assert covers("x ilike '%ID=%'", "x rlike 'id=[0-9]+'")
    assert covers("x ilike '%ID=%'", "x rlike '(?i)iD=[0-9]'")
    assert covers("x rlike 'a+b|c'", "x rlike 'a+b|c' and y = 1")
    assert covers("x rlike 'a|b'", "x in ('xa', 'b')")
    assert not covers("x rlike 'a|b'", "x like '%a%'")  # sound, not complete
    assert not overlaps("x like 'b%'", "x rlike '^a[0-9]'")
    assert not overlaps("x rlike 'a|b'", "x not rlike 'a|b'")
    assert not overlaps("x rlike '^a[0-9]{4}$'", "x like '___'")
    many = " or ".join(f"x rlike '{i}[0-9]+' or y ilike '%k{i}%'" for i in range(300))
    assert covers(many, "x rlike '7[0-9]+' and z = 1")
    assert covers(many, "y like '%K77_%'")


def test_what_is_printed_means_the_same_to_duckdb() -> None:
    expressions = [
        *(
            "a+b",
            "^a|b$",
            "[^a-c]x",
            r"\d{2}-\d",
            r"a\.b",
            r"\ba",
            "(?i)aB+",
            "(?s)a.b",
            "a.b",
            r"[\]\[^-]",
            "x{2,3}",
            "é?a$",
        ),
        *(r"\$[0-9]+", r"a\\b", "(ab)*c", "a||b", r"\s\S", r"[\w.]+@", "(a|b){2}c"),
    ]
    values = [
        "",
        "a",
        "ab",
        "aab",
        "b",
        "x",
        "dx",
        "12-3",
        "a.b",
        "a\nb",
        "a b",
        "AB",
        "xx",
        "c",
        "é",
        "éa",
        "$5",
        "a\\b",
        "a@",
        "bac",
        "]x",
    ]
    with closing(duckdb.connect()) as database:
        # DuckDB calls it otherwise than PostgreSQL, Spark, Trino and MySQL do.
        database.execute("create macro regexp_like(x, e) as regexp_matches(x, e)")
        for expression, negation in itertools.product(expressions, ("", "not ")):
            predicate = parse(f"x {negation}rlike '{expression}'")
            query = f"select {predicate.to_sql()} from (select unnest(?) as x)"  # noqa: S608
            found = [bool(row[0]) for row in database.execute(query, [values]).fetchall()]
            assert found == [predicate.matches({"x": value}) for value in values], expression


def test_special_characters_of_python_are_escaped_in_what_is_written() -> None:
    for code in (*range(32, 127), 0xE9, 0x1F600):
        written = read("\\" + chr(code) if not chr(code).isalnum() and code < 128 else chr(code)).text()
        assert re.search(written, chr(code))
        assert read(written).text() == written
