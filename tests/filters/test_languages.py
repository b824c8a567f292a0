"""Every language parses into the algebra and prints from it."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import grid
from penstock import Constraint, Event, Filter, PenstockError, Predicate, parse
from penstock.errors import FilterSyntaxError, InexpressibleError
from penstock.filters.expression import And, Expression, Or, normalise
from penstock.filters.languages import json as json_form
from penstock.filters.languages.sql import write_expression
from penstock.filters.parsing import LANGUAGES, Language
from strategies import all_constraints, conjunctions, disjunctions, mixed

SCHEMA = json.loads(json_form.schema())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.property
@given(mixed(complete=False))
def test_sql_and_json_read_back_what_they_print(expression: Expression) -> None:
    predicate = normalise(expression)
    for language in ("sql", "json"):
        text = predicate.to_sql() if language == "sql" else predicate.to_json()
        again = parse(text, language)
        assert again == predicate
        assert (again.to_sql() if language == "sql" else again.to_json()) == text


@pytest.mark.property
@given(disjunctions(all_constraints()))
def test_sql_reads_back_an_expression_that_is_not_canonical(expression: Or) -> None:
    assert parse(write_expression(expression)) == normalise(expression)


@pytest.mark.property
@given(conjunctions(all_constraints()))
def test_padres_reads_back_what_it_prints(expression: And) -> None:
    predicate = normalise(expression)
    try:
        text = predicate.to_padres()
    except InexpressibleError:
        return
    assert parse(text, "padres") == predicate
    assert parse(text, "padres").to_padres() == text


@pytest.mark.property
@given(
    st.text(min_size=1, max_size=20),
    st.text(max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_name_and_value_survives_every_language(
    name: str, text: str, integer: int, double: float
) -> None:
    for value in (text, integer, double):
        predicate = Predicate([Filter([Constraint(name, "=", value), Constraint("other", "exists")])])
        assert parse(predicate.to_sql()) == predicate
        assert parse(predicate.to_json(), "json") == predicate
        assert parse(predicate.to_padres(), "padres") == predicate
        assert predicate.matches({name: value, "other": 1}) or name == "other"


@pytest.mark.property
@given(mixed(complete=False))
def test_what_the_json_form_prints_is_valid_by_its_schema(expression: Expression) -> None:
    VALIDATOR.validate(json.loads(normalise(expression).to_json()))


NODE = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "attribute": st.sampled_from(["x", "", 1]),
            "op": st.sampled_from(["=", "in", "between", "like", "exists", "absent", "not suffix", "~"]),
            "value": st.one_of(
                st.none(),
                st.booleans(),
                st.integers(-3, 3),
                st.sampled_from(["a", "a%"]),
                st.lists(st.one_of(st.integers(0, 2), st.sampled_from(["a", True])), max_size=3),
                st.just({"time": "2013-01-31"}),
                st.just({"tim": 1}),
            ),
        },
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries(
            {}, optional={"all": st.lists(inner, max_size=2), "any": st.lists(inner, max_size=2)}
        ),
    ),
    max_leaves=4,
)


@pytest.mark.property
@given(NODE)
def test_the_schema_and_the_parser_accept_the_same_documents(document: Any) -> None:
    try:
        parse(document, "json")
        accepted = True
    except PenstockError:
        accepted = False
    assert accepted is VALIDATOR.is_valid(document)
    try:
        parse(json.dumps(document), "json")
    except PenstockError:
        assert not accepted
    else:
        assert accepted


@pytest.mark.property
@given(
    st.sampled_from(LANGUAGES),
    st.text(st.sampled_from("ax'\"`()[]{},<=>!%_\\&|.01- \n\0é\ud800andorlike"), max_size=30),
)
def test_any_text_parses_or_raises_an_error_that_says_where(language: Language, text: str) -> None:
    try:
        predicate = parse(text, language)
    except FilterSyntaxError as error:
        assert error.expected
        assert "\n" not in str(error)
        assert error.position is None or 0 <= error.position <= len(text)
        assert len(error.pointer().splitlines()) == 2 or "\n" in text or "\0" in text
    except PenstockError as error:
        assert "\n" not in str(error)
    else:
        assert parse(predicate.to_sql()) == predicate


SQL_EXAMPLES = [
    # What is written, and its canonical form.
    ("origin = 'JFK' and dep_delay > 60", "dep_delay > 60 and origin = 'JFK'"),
    ("60 < dep_delay", "dep_delay > 60"),
    ("NOT price > 5", "price <= 5"),
    ("not (a = 1 and b = 2)", "a != 1 or b != 2"),
    ("not x is null", "x is not null"),
    ("price < 300 or price > 400", "price not between 300 and 400"),
    ("x in (3, 1, 2.0, 1)", "x in (1, 2, 3)"),
    ("x <> 1 and x != 2", "x not in (1, 2)"),
    ("x == -0.0", "x = 0"),
    ("s like 'ab%' and s <> 'abc'", "s like 'ab%' and s != 'abc'"),
    ("s like '50\\%'", "s = '50%'"),
    ("s like '50!%' escape '!'", "s = '50%'"),
    (
        "startswith(s, 'a') and endswith(s, 'z') and contains(s, '_')",
        "s like 'a%' and s like '%!_%' escape '!' and s like '%z'",
    ),
    ("s like '%_%'", "s like '_%'"),
    ("exists(x) or absent(y)", "x is not null or y is null"),
    ("cancelled and not diverted", "cancelled = true and diverted = false"),
    ("x = 1 or x = 1 and y = 2", "x = 1"),
    ("x > 1 and x < 1", "false"),
    ("x is null or x is not null", "true"),
    ("x < 2 or x >= 2", "x < 0 or x >= 0"),
    ('"order".price > 1 and `a b` = 2', '"a b" = 2 and order.price > 1'),
    ('"and" = 1', '"and" = 1'),
    ("t >= timestamp '2013-01-31 05:00'", "t >= timestamp '2013-01-31T05:00:00Z'"),
    ("t > date '2013-01-31'", "t > timestamp '2013-01-31T00:00:00Z'"),
    ("t = timestamp '2013-01-31T05:00:00.5+02:00'", "t = timestamp '2013-01-31T03:00:00.5Z'"),
    ("timestamp = 5 and date = 6", "date = 6 and timestamp = 5"),
    ("x > 9007199254740992 and x < 9007199254740993", "x > 9007199254740992 and x < 9007199254740993"),
    ("x > 9007199254740993.0 and x < 9007199254740993", "false"),
    ("x > 5 and x < 5.000000000000001", "x > 5 and x < 5.000000000000001"),
    ("x = 19.990 or x = 1999e-2", "x = 19.99"),
    ("x < 0.10000000000000000010", "x < 0.1000000000000000001"),
    ("x >= 0.1000000000000000001 and x <= 0.1000000000000000001", "x = 0.1000000000000000001"),
    ("x != 9223372036854775808.0", "x != 9223372036854775808.0"),
    ("x > -1e-400", "x > -1e-400"),
    ("größe = 'ß'", "größe = 'ß'"),
]


@pytest.mark.parametrize(("text", "canonical"), SQL_EXAMPLES)
def test_sql_prints_the_canonical_form(text: str, canonical: str) -> None:
    assert parse(text).to_sql() == canonical
    assert parse(canonical).to_sql() == canonical


PADRES_EXAMPLES = [
    ("[class,eq,'STOCK'],[price,<,20]", "class = 'STOCK' and price < 20"),
    (" [ class , eq , 'STOCK' ] , [price,>=,-1.5e3] ", "class = 'STOCK' and price >= -1500"),
    (
        "[s,str-prefix,'a'],[s,str-postfix,'b'],[s,str-contains,'c']",
        "s like 'a%' and s like '%b' and s like '%c%'",
    ),
    ("[x,neq,1],[x,neq,2]", "x not in (1, 2)"),
    ("[x,isPresent,0],[y,isPresent]", "x is not null and y is not null"),
    ("[x,=,1],[y,<>,'it''s']", "x = 1 and y != 'it''s'"),
    ("[price,>,10],[price,<,20]", "price > 10 and price < 20"),
    ("[t,<,timestamp '2013-01-31'],[b,eq,true]", "b = true and t < timestamp '2013-01-31T00:00:00Z'"),
    ('["a b",eq,1]', '"a b" = 1'),
]


@pytest.mark.parametrize(("text", "sql"), PADRES_EXAMPLES)
def test_padres_says_the_same_as_sql(text: str, sql: str) -> None:
    assert parse(text, "padres") == parse(sql)
    assert parse(parse(sql).to_padres(), "padres") == parse(sql)


@pytest.mark.parametrize(
    "sql",
    ["a = 1 or b = 1", "x in (1, 2)", "x is null", "s like 'a_b%'", "true", "false", "not x between 1 and 2"],
)
def test_what_padres_has_no_words_for_is_refused(sql: str) -> None:
    with pytest.raises(InexpressibleError, match="PADRES cannot say"):
        parse(sql).to_padres()


ERRORS: list[tuple[Language, str, int, str]] = [
    ("sql", "", 0, "a condition"),
    ("sql", "a = ", 4, "a value"),
    ("sql", "a = b", 4, "single quotes"),
    ("sql", 'origin = "JFK"', 9, "single quotes"),
    ("sql", "a = 'x", 4, "a closing '"),
    ("sql", "(a = 1", 6, r"'\)'"),
    ("sql", "a = 1)", 5, "nothing is open"),
    ("sql", "a = null", 4, "is null"),
    ("sql", "a in ()", 6, "a value"),
    ("sql", "a in (1, 'x')", 12, "one family"),
    ("sql", "a between 2 or 3", 12, "upper end"),
    ("sql", "a not 5", 6, "in, between, like, ilike or rlike"),
    ("sql", "a is 5", 5, "null"),
    ("sql", "a like 5", 7, "a string"),
    ("sql", "a like 'x\\y'", 7, "must stand before"),
    ("sql", "a = 1 b = 2", 6, "and, or"),
    ("sql", "and = 1", 0, "a condition such as"),
    ("sql", "a = 1e999", 4, "range of doubles"),
    ("sql", "a = 9223372036854775808", 4, "64 bits"),
    ("sql", "a = 5x", 4, "expected a number"),
    ("sql", "a = 1.5.2", 4, "expected a number"),
    ("sql", "a = 0x10", 4, "expected a number"),
    ("sql", "a not = 5", 6, "in, between, like, ilike or rlike"),
    ("sql", "a = 1 && b = 2", 6, "expected and, or"),
    ("sql", "lower(a) = 'x'", 0, "a function that filters have"),
    ("sql", "t < timestamp '2013-02-30'", 14, "day is out of range"),
    ("sql", "tags contains 'eu'", 5, r"'eu' in tags of a list, contains\(tags, 'eu'\) of text"),
    ("sql", "tags contains 5", 5, r"write 5 in tags of a list, found"),
    ("sql", "tags has 5 and a = 1", 5, "write 5 in tags of a list"),
    ("sql", "tags contains", 5, "an operator .=, "),
    ("sql", "tags[0] = 'x'", 4, "lists have no places: 'a' in tags"),
    ("sql", "tags = any('x')", 7, r"'a' = any\(tags\), or 'a' in tags"),
    ("sql", "tags > any and a = 1", 7, "text stands in single quotes"),
    ("sql", "any(tags = 'x')", 4, r"a list alone: any\(tags\) = 'x'"),
    ("sql", "any(a.b >= 5 and c = 1)", 4, r"a list alone: any\(a.b\) >= 5"),
    ("padres", "", 0, "attribute,operator,value"),
    ("padres", "[a,eq,5", 7, "closed by"),
    ("padres", "[a,about,5]", 3, "str-prefix"),
    ("padres", "[a,eq,STOCK]", 6, "in quotes"),
    ("padres", "[a,eq]", 5, "a value"),
    ("padres", "[a,str-prefix,5]", 14, "takes a string"),
    ("padres", "[a,str-lt,5]", 10, "takes a string"),
    ("padres", "{[a,eq,5]}&{[b,eq,1]}", 0, "composite"),
    ("padres", "[a,eq,5]||[b,eq,1]", 8, "composite"),
    ("json", '{"attribute": "a", "op": "="', 28, "JSON"),
]


@pytest.mark.parametrize(("language", "text", "position", "message"), ERRORS)
def test_an_error_points_at_the_place_and_says_what_was_expected(
    language: Language, text: str, position: int, message: str
) -> None:
    with pytest.raises(FilterSyntaxError, match=message) as caught:
        parse(text, language)
    assert caught.value.position == position
    assert caught.value.pointer().splitlines()[1].index("^") == min(position, 24)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"attribute": "x", "op": "~", "value": 1}, r"no operator '~'"),
        ({"all": [{"attribute": "x", "op": "="}]}, r"^\$\.all\[0\]: = takes a value"),
        ({"attribute": "x", "op": "=", "value": None}, "null is no value"),
        ({"attribute": "x", "op": "exists", "value": 1}, "exists takes no value"),
        ({"attribute": "x", "op": "in", "value": []}, "at least one value"),
        ({"attribute": "x", "op": "=", "value": {"tim": 1}}, "is a time"),
        ({"all": [], "any": []}, "something else"),
        ({"every": []}, "unknown field"),
        ({"not": [{}]}, "Expected `object`"),
        ({"attribute": "x", "op": "=", "value": 2**63}, "64-bit"),
    ],
)
def test_a_mistake_in_the_json_form_is_named_with_its_path(document: dict[str, object], message: str) -> None:
    with pytest.raises(FilterSyntaxError, match=message):
        parse(document, "json")


def test_a_line_break_counts_lines() -> None:
    with pytest.raises(FilterSyntaxError, match="line 2, column 5"):
        parse("a = 1 and\nb = ")


def test_names_and_languages_that_do_not_exist_are_named() -> None:
    with pytest.raises(PenstockError, match="sql, padres, json"):
        parse("a = 1", "xml")  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="is text, not int"):
        parse(5)  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="is text, not dict"):
        parse({"all": []})


@pytest.mark.property
@given(mixed(complete=False))
def test_every_language_matches_the_same_events(expression: Expression) -> None:
    predicate = normalise(expression)
    through_json = parse(predicate.to_json(), "json")
    for event in list(grid(expression))[:50]:
        typed = Event(event)
        assert through_json.matches(typed) == predicate.matches(typed)


@pytest.mark.parametrize(
    "conjunctions",
    [
        [[("s", "prefix", "x" * 1_024)]],
        [[("s", "not prefix", "%" * 65_536)]],
        [[("s", "suffix", "_" * 1_000)]],
        [[("x", "in", range(low, low + 200_000, 2))] for low in (0, 10**6, -9)],
        [[("x", "not in", range(100_000)), ("x", "not in", range(10**6, 10**6 + 5, 2))]],
    ],
    ids=["prefix", "escaped prefix", "suffix", "in", "not in"],
)
def test_what_is_near_a_limit_reads_back_too(conjunctions: list[list[tuple[str, str, object]]]) -> None:
    predicate = Predicate(Filter(Constraint(*one) for one in conditions) for conditions in conjunctions)
    assert parse(predicate.to_sql()) == predicate
    assert parse(predicate.to_json(), "json") == predicate


def test_what_is_too_long_to_read_is_not_written() -> None:
    long = Predicate([Filter([Constraint(f"a{i}", "=", "x" * 65_000) for i in range(70)])])
    for write in (long.to_sql, long.to_padres, long.to_json):
        with pytest.raises(PenstockError, match="TEXT_LENGTH_MAX"):
            write()


@pytest.mark.parametrize(
    "text", ["2013-01-31 garbage", "2013-01-31T05", "٢٠١٣-٠١-٣١", "2013-01-31T05:00:00.1234567890Z"]
)
def test_the_schema_refuses_what_is_no_time(text: str) -> None:
    document: dict[str, object] = {"attribute": "t", "op": "<", "value": {"time": text}}
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(PenstockError):
        parse(document, "json")


@pytest.mark.parametrize("text", ["x = ٣", "t < timeſtamp '2013-01-31'", "x = '\0' and y = 1 &"])
def test_lookalikes_are_not_taken(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        parse(text)


def test_a_date_with_a_time_of_day_is_that_time() -> None:
    assert parse("x > date '2024-02-03 05:00:00'") == parse("x > timestamp '2024-02-03T05:00:00Z'")
    assert parse("x = date '2024-02-03'") == parse("x = timestamp '2024-02-03'")
