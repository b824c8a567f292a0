"""Filters as text in bulk say what they say one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Matcher, parse
from penstock.errors import PenstockError
from penstock.filters.filter import NEVER, Filter
from penstock.filters.languages import shapes, sql
from penstock.filters.languages.shapes import Shapes
from penstock.matching import bulk_texts, matcher
from penstock.matching import compile as compiling
from penstock.matching.bulk_texts import BulkTexts
from penstock.model.limits import LITERAL_LENGTH_MAX, NUMBER_LENGTH_MAX

INTEGERS = ("0", "-0", "+5", "007", "-1", "2", "999999999999999", "-999999999999999")
DECIMALS = ("1.5", ".5", "-5.", "-0.0", "0.1", "+99999999999999.9", ".000000000000001")
NUMBERS = (*INTEGERS, *DECIMALS)
ASCII = ("'a'", "'ab'", "'b%'", "'a%'", "'%'", "'%a%'", "'a_'", "'\x7f'", "'a\x7f%'", "' '", "''")
STRINGS = (*ASCII, "'\xfc'", "'\xfc%'", "'\ud7ff%'", "'a\U0010ffff%'", "'\U0010ffff%'", "'\uffee'")
ODD = (
    *(
        "1000000000000000",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "1.5",
        "9999999999999999.5",
        "0.1000000000000001",
        "1.2.3",
        "1e3",
    ),
    *(
        "1e999",
        "''",
        "'it''s'",
        "'\xe9'",
        "'a\0'",
        "'a\\%'",
        "true",
        "null",
        "timestamp '2024-01-01'",
        "x",
        "-",
    ),
    *("5x", "(1)", "('a', 'b')", "(1, 'a')", "()", "'a' escape '!'", "\ud800", "'\"'"),
)
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "==", "<>", "like", "not like", "LIKE")


@pytest.fixture(autouse=True)
def _first_texts_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "_FEW", 0)


def several(literals: tuple[str, ...]) -> st.SearchStrategy[str]:
    commas = st.sampled_from((",", ", ", " ,\n"))
    some = st.lists(st.sampled_from(literals), min_size=1, max_size=4)
    return st.builds(lambda comma, values: f"({comma.join(values)})", commas, some)


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text with gaps, and what may stand in each."""
    text, gaps = [], []
    for name in draw(
        st.lists(st.sampled_from(("x", "y", "x1", '"a b"', "X.y", "AND")), min_size=1, max_size=3)
    ):
        kind = draw(st.sampled_from(("one", "one", "one", "between", "in", "none", "call", "mirrored")))
        negation = draw(st.sampled_from(("", "not ")))
        if kind == "one":
            text.append(f"{name} {draw(st.sampled_from(OPERATORS))} {{}}")
            gaps.append("one")
        elif kind == "mirrored":
            text.append(f"{{}}< {name}")
            gaps.append("one")
        elif kind == "between":
            text.append(f"{name} {negation}between {{}} and {{}}")
            gaps += ["one", "one"]
        elif kind == "in":
            text.append(f"{name} {negation}in {{}}")
            gaps.append("list")
        elif kind == "call":
            text.append(f"{draw(st.sampled_from(('startswith', 'endswith', 'contains')))}({name}, {{}})")
            gaps.append("one")
        else:
            text.append(
                draw(st.sampled_from((f"{name} is null", f"{name} is not null", name, f"{name} = true")))
            )
    joint = draw(st.sampled_from((" and ", " AND ", " and ", " or ", " and not ")))
    return joint.join(text), gaps


@st.composite
def texts(draw: st.DrawFn, *, odd: bool) -> list[str]:
    """Texts of few templates, most of them alike in kind."""
    made = []
    for text, gaps in draw(st.lists(templates(), min_size=1, max_size=3)):
        pools = draw(st.lists(st.sampled_from((NUMBERS, STRINGS)), min_size=len(gaps), max_size=len(gaps)))
        for _ in range(draw(st.integers(1, 5))):
            values = []
            for gap, pool in zip(gaps, pools, strict=True):
                one = several(pool) if gap == "list" else st.sampled_from(pool)
                values.append(draw(st.one_of(one, one, st.sampled_from(ODD)) if odd else one))
            made.append(text.format(*values))
    return draw(st.permutations(made))


def said_by(text: str) -> list[Filter]:
    """The filters of a text that is parsed by itself."""
    return sorted(parse(text).filters or (NEVER,), key=Filter.sort_key)


def error_of(text: str) -> tuple[type, str] | None:
    try:
        parse(text)
    except PenstockError as error:
        return type(error), str(error)
    return None


@given(texts(odd=False))
def test_the_filters_are_those_of_each_text(given_texts: list[str]) -> None:
    good = [text for text in given_texts if error_of(text) is None]
    made = Matcher()
    made.add_many(enumerate(good))
    for number, text in enumerate(good):
        assert made.filters(number) == said_by(text)

    for number, text in enumerate(good):
        made.remove(number, text)
    assert len(made) == 0


@given(texts(odd=True))
def test_errors_are_those_of_each_text(given_texts: list[str]) -> None:
    errors = [error_of(text) for text in given_texts]
    made = Matcher()
    first = next((at for at, error in enumerate(errors) if error is not None), None)
    if first is None:
        made.add_many(enumerate(given_texts))
        assert len(made) == len(given_texts)
        return
    with pytest.raises(PenstockError) as caught:
        made.add_many(enumerate(given_texts))
    assert caught.value.row == first
    found = errors[first]
    assert found is not None
    assert type(caught.value) is found[0]
    assert found[1] in str(caught.value)
    assert len(made) == 0


@given(texts(odd=False))
def test_lists_are_read_some_at_a_time(given_texts: list[str]) -> None:
    good = [text for text in given_texts if error_of(text) is None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_texts, "_CHUNK", 10)
        patch.setattr(bulk_texts, "_BLOCK", 3)
        patch.setattr(compiling, "_BLOCK", 3)
        made = Matcher()
        made.add_many(enumerate(good))
        for number, text in enumerate(good):
            assert made.filters(number) == said_by(text)


@pytest.mark.parametrize("marked", [0, 1_000_000])
@given(texts(odd=False), texts(odd=False), st.integers(-3, 8))
def test_they_match_what_they_matched(marked: int, some: list[str], more: list[str], value: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "_MARKED", marked)
        check_matches(some, more, value)


def check_matches(some: list[str], more: list[str], value: int) -> None:
    good = [text for text in some + more if error_of(text) is None]
    predicates = [parse(text) for text in good]
    made = Matcher()
    made.add_many(enumerate(good[:2]))
    made.add_many(enumerate(good[2:], 2))
    for event in (
        {"x": value},
        {"x": "a", "y": value},
        {"x": "ab", "y": "b%x"},
        {"x1": "a\x7f", "X.y": True},
        {"x": value + 0.5, "y": ""},
        {"x": "", "y": 0.1},
        {"x": "\xfcb", "x1": "\ue000"},
    ):
        expected = [number for number, one in enumerate(predicates) if one.matches(event)]
        assert made.match(event) == expected


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("x = 'a'", "x = 'a''b'"),
        ("x in ('a', 'b')", "x in ('a''', 'b')"),
        ("x in (1, 2)", "x in (1, 2.5)"),
        ("x = 1", "x = " + "0" * NUMBER_LENGTH_MAX + "1"),
        ("x = 'a'", f"x = '{'a' * (LITERAL_LENGTH_MAX + 1)}'"),
        ("x in ('a')", f"x in ('{'a' * (LITERAL_LENGTH_MAX + 1)}')"),
        ("x between 1 and 2", "x between 2 and 1"),
        ("x between 'a' and 'b'", "x between 'b' and 'a'"),
        ("x between 1 and 2", "x between 1 and 'b'"),
        ("x between 'a' and 'b'", "x between 'a' and 2"),
        ("x in (1, 2)", "x in 5"),
        ("x = 5", "x = (5)"),
        ("x like 'a%'", "x like 'a%b'"),
        ("x like 'a%'", "x like 5"),
        ("x like 'a%' escape '!'", "x like 'a!%' escape '!'"),
        ("x < 'a'", "x < ''"),
        ("x in ('a')", "x in ('', 'a')"),
    ],
)
def test_unlike_literals_in_one_shape(text: str, other: str) -> None:
    wrong = error_of(other)
    made = Matcher()
    made.add_many([(0, text), (1, text)])
    if wrong is not None:
        with pytest.raises(wrong[0]):
            made.add_many([(2, text), (3, other)])
    else:
        made.add_many([(2, text), (3, other)])
        assert made.filters(3) == said_by(other)
    assert made.filters(1) == [*parse(text).filters]


@pytest.mark.parametrize(
    "text",
    [
        *("x > 1.5", "x = .5", "x between -0.25 and 7", "x in (1, 2.5, .5)", "x not in (5., -1)"),
        *("x = ''", "x <= ''", "x in ('', 'a')", "x not in ('', 'a')", "x not in ('')"),
        *("x like 'c\xfcstomer-1%'", "x in ('\xfc', 'a')", "s\xfcd = 5 and x = '\xfc'"),
    ],
)
def test_decimals_empty_texts_and_texts_beyond_ascii_need_no_parser(text: str) -> None:
    assert BulkTexts().add(0, text) is True


def test_what_is_built_again_is_the_same() -> None:
    texts = BulkTexts()
    for number, text in enumerate(["x in ('b', 'a', 'b')", "x = 5", "x not in ('', 'c')", "x in (3,\xa02)"]):
        assert texts.add(number, text) is True
    first, again = texts.build({"x": 0}), texts.build({"x": 0})
    assert [list(column) for column in first] == [list(column) for column in again]
    assert first.literals == [b"", b"a", b"b", b"c"]


def test_texts_and_other_filters_together() -> None:
    made = Matcher()
    made.add_many(
        [(0, "x = 1"), (1, parse("x = 2 or y = 3")), (2, "x = 2"), (3, "y = 3 or z = 4"), (0, "s = 'a'")]
    )
    assert made.match({"x": 2, "y": 3}) == [1, 2, 3]
    assert made.match({"s": "a"}) == [0]
    assert [str(f) for f in made.filters(0)] == ["s = 'a'", "x = 1"]


class TestShapes:
    def test_texts_of_a_shape_are_parsed_once(self) -> None:
        parsed = []

        def parse_expression(text: str) -> object:
            parsed.append(text)
            return sql.parse_expression(text)

        known = Shapes(parse_expression)  # type: ignore[arg-type]
        for number in range(10):
            assert known.read(f"x = {number} and s in ('a', 'b{number}')") is not None
        assert len(parsed) == 1

    def test_texts_without_a_common_shape_are_soon_left_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shapes, "_PAUSE", 100)
        parsed = []

        def parse_expression(text: str) -> object:
            parsed.append(text)
            return sql.parse_expression(text)

        known = Shapes(parse_expression)  # type: ignore[arg-type]
        for number in range(1_000):
            known.read(f"x{number} = 1")
        assert len(parsed) < 500
        assert len(known._known) <= 100

    def test_few_shapes_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shapes, "_SHAPES_MAX", 5)
        known = Shapes(sql.parse_expression)
        for number in range(20):
            assert known.read(f"x{number} = 1") is not None
        assert len(known._known) == 5
