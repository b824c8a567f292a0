"""Filters made to burn time or memory: each ends soon, in a clear error or in the right answer.

No test here measures time. Each of these takes at most a few seconds; done naively, most would take
longer than anybody waits, or end in a RecursionError or MemoryError.
"""

import json

import pytest

from penstock import PenstockError, Predicate, covers, merge, overlaps, parse
from penstock.errors import FilterSyntaxError, LimitError
from penstock.filters.disjunction import canonical
from penstock.filters.parsing import Language
from penstock.filters.relations import Allowance, remainder
from penstock.filters.work import Work
from penstock.model import limits


def too_much(limit: str, text: str, language: Language = "sql") -> None:
    with pytest.raises(LimitError, match=limit) as caught:
        parse(text, language)
    assert caught.value.limit == getattr(limits, limit)
    assert len(str(caught.value)) < 300


def test_deep_nesting_is_refused_in_every_language() -> None:
    too_much("DEPTH_MAX", "(" * 100_000 + "a = 1" + ")" * 100_000)
    too_much("DEPTH_MAX", "not (" * 101 + "a = 1" + ")" * 101)
    too_much("DEPTH_MAX", '{"not":' * 100_000 + '{"all":[]}' + "}" * 100_000, "json")
    too_much("DEPTH_MAX", '{"any":[' * 101 + '{"all":[]}' + "]}" * 101, "json")
    too_much("DEPTH_MAX", '{"attribute":"a","op":"in","value":' + "[" * 100_000, "json")


def test_nesting_up_to_the_limit_is_fine() -> None:
    assert parse("(" * 100 + "a = 1" + ")" * 100) == parse("a = 1")
    assert parse("not (b = 2 or " * 100 + "a = 1" + ")" * 100).satisfiable
    assert parse("not " * 100_000 + "a = 1") == parse("a = 1")


def test_thousands_of_disjuncts_are_merged_or_refused() -> None:
    assert parse(" or ".join(f"a = {i}" for i in range(50_000))) == parse(
        "a >= 0 and a <= 49999 and a in (" + ",".join(map(str, range(50_000))) + ")"
    )
    assert len(parse(" or ".join(f"a{i} = 1" for i in range(2_048))).filters) == 2_048
    too_much("DISJUNCTS_MAX", " or ".join(f"a{i} = 1" for i in range(2_049)))


def test_conjunctions_of_disjunctions_do_not_explode() -> None:
    too_much("DISJUNCTS_MAX", " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(1_025)))
    for count in (8, 11, 64, 1_024):
        (only,) = parse(" and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(count))).filters
        assert len(only.clauses) == count
    assert len(parse(" and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(6))).filters) == 64


def test_disjuncts_that_take_too_many_steps_to_compare_are_refused() -> None:
    filters = [parse(f"x > {i} and y < {i}").filters[0] for i in range(100)]
    assert len(canonical(filters, Work())) == 100
    with pytest.raises(LimitError, match="EXPANSION_WORK_MAX"):
        canonical(filters, Work(limit=1_000))


def test_factors_that_absorb_one_another_do_not_multiply() -> None:
    many = " or ".join(f"(z > {i + 5} and z < {i + 6} and q{i} = 1)" for i in range(300))
    assert parse(f"({many})" + "".join(f" and (z > 0 or x = {i})" for i in range(300))) == parse(many)


def test_conditions_that_all_disjuncts_share_cost_nothing() -> None:
    shared = " and ".join(f"a{i} = 1" for i in range(200))
    assert (
        len(
            parse(shared + " and (" + " or ".join(f"(b > {i} and c < {i})" for i in range(300)) + ")").filters
        )
        == 300
    )


def test_huge_literals_are_refused() -> None:
    too_much("LITERAL_LENGTH_MAX", "a = '" + "x" * 65_537 + "'")
    too_much("NUMBER_LENGTH_MAX", "a = " + "9" * 1_000_000)
    too_much("TEXT_LENGTH_MAX", "a = '" + "x" * limits.TEXT_LENGTH_MAX + "'")
    too_much("TEXT_LENGTH_MAX", "[a,eq,'" + "x" * limits.TEXT_LENGTH_MAX + "']", "padres")
    too_much(
        "TEXT_LENGTH_MAX", json.dumps({"attribute": "x" * limits.TEXT_LENGTH_MAX, "op": "exists"}), "json"
    )
    too_much("NAME_LENGTH_MAX", "x" * 513 + " = 1")
    too_much("LIST_VALUES_MAX", "a in (" + ",".join(["1"] * 100_001) + ")")
    too_much("CONSTRAINTS_MAX", " and ".join(f"a{i} = 1" for i in range(1_025)))


def test_patterns_of_many_wildcards_are_one_pattern() -> None:
    assert parse("a like '" + "%_" * 500 + "'") == parse("a like '" + "_" * 500 + "%'")
    assert parse("a like '" + "%_" * 500 + "'").matches({"a": "x" * 2**20})
    assert not parse("a like '" + "%x" * 500 + "y'").matches({"a": "x" * 2**20})
    too_much("PATTERN_LENGTH_MAX", "a like '" + "%x" * 513 + "'")


def test_many_patterns_on_one_attribute_are_refused() -> None:
    too_much("PATTERNS_MAX", " and ".join(f"a like '%{i}%'" for i in range(65)))
    too_much("PATTERNS_MAX", " and ".join(f"a not like '%{i}_x%'" for i in range(100_000)))
    assert len(parse(" or ".join(f"a like '%x{i:04}%'" for i in range(500))).filters) == 500


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sql", "a = '" + "''" * 10**6),
        ("sql", '"' + '""' * 10**6),
        ("sql", "`" * 1_000_001),
        ("sql", "a = 'x"),
        ("padres", "[a,eq,'" + "x" * 10**6),
        ("padres", "[a,eq," * 10**5),
        ("padres", "[" * 10**5),
        ("json", '{"attribute": "' + "x" * 10**6),
    ],
)
def test_unbalanced_quotes_and_brackets_are_pointed_at(language: Language, text: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text, language)
    assert caught.value.position is not None
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("text", [b'{"attribute": "\xff", "op": "exists"}', b"\xff\xfe", b'{"all": [\x80]}'])
def test_invalid_utf8_is_refused(text: bytes) -> None:
    with pytest.raises(FilterSyntaxError):
        parse(text, "json")


@pytest.mark.parametrize(
    "text", ["a = '\udcff'", "\ud800 = 1", '"\udcff" = 1', "a like '\udc80%'", "a in ('\ud801')"]
)
def test_lone_surrogates_are_refused(text: str) -> None:
    # What invalid UTF-8 on a command line turns into.
    with pytest.raises(PenstockError) as caught:
        parse(text)
    str(caught.value).encode()


def test_a_cover_that_takes_too_long_to_prove_is_not_claimed() -> None:
    # A pinwheel: five boxes fill the plane, no two of them merge, and none covers a corner-to-corner box.
    pinwheel = parse(
        "x < 2 and y < 1 or x >= 2 and y < 2 or x >= 1 and y >= 2 or x < 1 and y >= 1 or "
        "x >= 1 and x < 2 and y >= 1 and y < 2"
    )
    plane = parse("(x < 0 or x >= 0) and (y < 0 or y >= 0)")
    assert (len(pinwheel.filters), len(plane.filters)) == (5, 1)
    assert covers(pinwheel, plane)
    assert next(remainder(plane.filters[0], pinwheel.filters, Allowance(2)), None) is not None
    assert not covers(Predicate(pinwheel.filters[1:]), plane)


def test_predicates_over_more_attributes_than_a_filter_may_have_can_be_compared() -> None:
    # Working boxes have the attributes of many filters; the limit is for filters that people write.
    wide = parse(" or ".join(f"a{i} > 2" for i in range(1_100)))
    assert not covers(wide, "a0 > 1")
    assert covers(wide, "a1099 > 5")
    too_much("CONSTRAINTS_MAX", " and ".join(f"(a{i} = 1 or a{i} = 2)" for i in range(1_025)))


def test_predicates_with_many_patterns_can_be_compared() -> None:
    xs, ys = (" and ".join(f"a like '%{letter}{i:02}%'" for i in range(40)) for letter in "xy")
    assert overlaps(xs, ys)
    assert not covers(xs, ys)
    too_much("PATTERNS_MAX", f"({xs}) and ({ys})")


def test_disjuncts_of_many_different_attributes_are_cheap() -> None:
    groups = (" and ".join(f"a{i}_{k} = {k}" for k in range(4)) for i in range(2_000))
    assert len(parse(" or ".join(f"({group})" for group in groups)).filters) == 2_000


def test_imperfect_merging_of_many_filters_ends() -> None:
    merged = merge([f"x = {i} and y = {i}" for i in range(1_500)], budget=0.2)
    assert 0 < merged.excess <= 0.2
    wide = parse(" or ".join(f"a{i} > 2" for i in range(300)))
    assert merge([wide, "a0 > 1"], budget=0.01).excess <= 0.01
