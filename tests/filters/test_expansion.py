"""Conjunctions of many disjunctions: exclusions stay small, mean what they say, and cost what they may."""

import itertools
import json
import math
import subprocess
import sys
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brute import State, grid, holds
from penstock import Event, Matcher, Predicate, covers, identical, overlaps, parse
from penstock.errors import LimitError
from penstock.filters.constraint import Constraint
from penstock.filters.expansion import expand
from penstock.filters.expression import And, Expression, Not, Or, normalise
from penstock.filters.filter import Filter
from penstock.filters.languages import sql
from penstock.filters.relations import Allowance
from penstock.filters.work import Work
from penstock.matching.reference import ReferenceMatcher
from penstock.model import limits
from strategies import NUMBERS, all_constraints, conjunctions, plain_constraints


def excluded(points: list[tuple[object, ...]], names: str = "xyz") -> str:
    """All but these points of as many attributes as each has values."""
    alternatives = (" and ".join(f"{n} = {v!r}" for n, v in zip(names, p, strict=False)) for p in points)
    return "not (" + " or ".join(f"({text})" for text in alternatives) + ")"


def diagonal(count: int, attributes: int = 2) -> list[tuple[object, ...]]:
    return [(i,) * attributes for i in range(count)]


def spent_on(text: str) -> int:
    """The steps that reading a text takes."""
    work = Work(10**7)
    sql.parse(text, work)
    return work.spent


# What an expansion means


def sparse(leaves: st.SearchStrategy[Constraint]) -> st.SearchStrategy[And]:
    """Conjunctions of up to seven disjunctions of up to three small conjunctions."""
    disjunctions = st.lists(conjunctions(leaves, 2), min_size=1, max_size=3).map(Or)
    return st.lists(disjunctions, min_size=2, max_size=7).map(And)


few_numbers = plain_constraints(("x", "y", "z"), (NUMBERS[:8],))


@pytest.mark.property
@given(st.one_of(sparse(few_numbers), sparse(all_constraints()), sparse(plain_constraints())), st.booleans())
def test_an_expansion_matches_what_its_factors_say(expression: And, negated: bool) -> None:
    whole: Expression = Not(expression) if negated else expression
    events = list(itertools.islice(grid(whole), 0, None, 61))
    try:
        predicate = normalise(whole)
    except LimitError:
        return
    assert [predicate.matches(Event(e)) for e in events] == [holds(whole, e) for e in events]


@pytest.mark.property
@given(st.lists(st.lists(conjunctions(all_constraints(("x", "y", "z")), 2), max_size=3), max_size=5))
def test_factors_are_expanded_whatever_their_number(factors: list[list[And]]) -> None:
    # Few factors are multiplied out; here they are expanded all the same.
    parts = [[f for f in (Filter(c.parts) for c in factor) if f.satisfiable] for factor in factors]  # type: ignore[arg-type]
    found = expand(parts, Work(10**7))
    expression = And([Or(factor) for factor in factors])
    for event in itertools.islice(grid(expression), 0, None, 97):
        assert any(f.matches(Event(event)) for f in found) is holds(expression, event)


@pytest.mark.property
@given(st.one_of(sparse(few_numbers), sparse(all_constraints())), st.randoms(use_true_random=False))
def test_an_expansion_has_one_form_and_reads_back(expression: And, random: Random) -> None:
    try:
        predicate = normalise(expression)
    except LimitError:
        return
    parts = [Or(random.sample(list(p.parts), len(p.parts))) for p in expression.parts]  # type: ignore[union-attr]
    random.shuffle(parts)
    assert normalise(And([*parts, parts[0]])) == predicate
    assert Predicate(predicate.filters) == predicate
    text = predicate.to_sql()
    assert parse(text) == predicate
    assert parse(text).to_sql() == text


@pytest.mark.property
@given(sparse(few_numbers), sparse(few_numbers))
def test_relations_between_expansions_are_exact(f: And, g: And) -> None:
    events = list(itertools.islice(grid(f, g), 0, None, 41))
    a, b = normalise(f), normalise(g)
    one, other = [holds(f, e) for e in events], [holds(g, e) for e in events]
    if covers(a, b):
        assert all(x or not y for x, y in zip(one, other, strict=True))
    if not overlaps(a, b):
        assert not any(x and y for x, y in zip(one, other, strict=True))
    assert covers(a, normalise(And([f, g])))


# Exclusions


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("x not in (" + ", ".join(map(str, range(200))) + ")", 1),
        (" and ".join(f"x != {i}" for i in range(200)), 1),
        (excluded(diagonal(12)), 14),
        (excluded(diagonal(25)), 27),
        (excluded(diagonal(200)), 202),
        (excluded(diagonal(100, 3)), 303),
        (excluded(diagonal(200, 3)), 1),
        (excluded(diagonal(600)), 1),
        (excluded([(i % 20, i) for i in range(200)]), 22),
        (excluded([(f"host{i}", f"/path/{i}") for i in range(200)]), 202),
        ("x >= 0 and y >= 0 and " + excluded(diagonal(200)), 201),
    ],
    ids=[
        "points",
        "inequalities",
        "12",
        "25",
        "pairs",
        "triples",
        "more",
        "many",
        "columns",
        "texts",
        "within",
    ],
)
def test_exclusions_stay_as_few_filters_as_there_are_exclusions(text: str, filters: int) -> None:
    predicate = parse(text)
    assert len(predicate.filters) == filters
    assert parse(text, request=True) == predicate
    printed = predicate.to_sql()
    assert parse(printed) == predicate
    assert parse(printed).to_sql() == printed
    assert parse(predicate.to_json(), "json") == predicate


def states_around(count: int) -> list[dict[str, State]]:
    values: list[State] = [None, math.nan, "0", True, -1, 0, 0.5, 1, 7, 7.0, count - 1, count, 1e9]
    pairs = itertools.product(values, values)
    events: list[dict[str, State]] = [
        {n: v for n, v in zip("xy", p, strict=True) if v is not None} for p in pairs
    ]
    return [event or {"another": True} for event in events]


def test_what_excludes_200_pairs_matches_everything_else() -> None:
    text = excluded(diagonal(200))
    expression = Not(Or([And([Constraint("x", "=", i), Constraint("y", "=", i)]) for i in range(200)]))
    predicate = parse(text)
    events = states_around(200)
    expected = [holds(expression, event) for event in events]
    assert 0 < sum(expected) < len(events)
    assert [predicate.matches(Event(event)) for event in events] == expected
    reference = ReferenceMatcher([("a", predicate)])
    assert [reference.match(Event(event)) == ["a"] for event in events] == expected


def test_every_way_into_the_matcher_excludes_the_same_200_pairs() -> None:
    pa = pytest.importorskip("pyarrow")
    from penstock.model.packed import encode_event

    predicate = parse(excluded(diagonal(200)))
    matcher = Matcher([("a", predicate), ("b", parse("x = 7"))])
    pairs = [
        (x, y)
        for x in (None, -1, 0, 3, 199, 200)
        for y in (None, -1, 0, 3, 199, 200)
        if (x, y) != (None, None)
    ]
    events: list[dict[str, object]] = [
        {name: v for name, v in (("x", x), ("y", y)) if v is not None} for x, y in pairs
    ]
    expected = [["a"] if predicate.matches(event) else [] for event in events]
    assert [] in expected
    assert [matcher.match(event) for event in events] == expected
    assert list(matcher.match_batch(events)) == expected
    table = pa.table({"x": pa.array([x for x, _ in pairs]), "y": pa.array([y for _, y in pairs])})
    assert list(matcher.match_batch(table)) == expected
    lines = "\n".join(json.dumps(event) for event in events).encode()
    assert list(matcher.match_json(lines)) == expected
    packed = [encode_event(Event(event)) for event in events]
    offsets = [0, *itertools.accumulate(map(len, packed))]
    assert list(matcher.match_packed(b"".join(packed), offsets)) == expected
    matcher.compact()
    assert list(matcher.match_batch(events)) == expected
    matcher.remove("a", predicate)
    assert not any(matcher.match_batch(events))


def test_exclusions_are_compared_exactly() -> None:
    some, more = parse(excluded(diagonal(200))), parse(excluded(diagonal(201)))
    assert covers(some, more)
    assert not covers(more, some)
    assert covers(some, "x = 5 and y = 6")
    assert not covers(some, "x = 5 and y between 5 and 6")
    assert overlaps(some, "x = 5 and y between 5 and 6")
    assert not overlaps(some, "x = 5 and y = 5")
    assert identical(some, parse(some.to_sql()))
    assert covers("x is not null or y is not null", some)


def test_more_patterns_than_a_filter_may_have_can_be_excluded_one_by_one() -> None:
    rules = " or ".join(f"(host = 'h{i}' and path like '%p{i}')" for i in range(200))
    hosts = parse(f"host >= '' and not ({rules})")
    assert len(hosts.filters) == 201
    assert hosts.matches({"host": "h7", "path": "p8"})
    assert not hosts.matches({"host": "h7", "path": "/p7"})
    # A host that is no text would have to pass all of them: these stay clauses.
    (others,) = parse(f"not ({rules})").filters
    assert len(others.clauses) == 200
    assert others.matches({"host": 7, "path": "/"})
    assert not others.matches({"host": 7, "path": "/p7"})


# Work


def test_the_filters_that_once_took_seconds_take_few_steps() -> None:
    # 17 s and 27 s to parse, when every combination was made.
    assert spent_on(excluded(diagonal(12))) < 1_500
    assert spent_on(excluded(diagonal(25))) < 2_500
    assert spent_on(excluded(diagonal(200))) < 15_000


def _all_of(first: int, count: int) -> str:
    """So many conditions on attributes of their own, all of which must hold."""
    return "(" + " and ".join(f"a{i} = 1" for i in range(20 * first, 20 * first + count)) + ")"


@pytest.mark.parametrize("request_", [False, True])
@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("EXPANSION_WORK_MAX", " and ".join(f"({_all_of(i, 7)} or {_all_of(i + 7, 7)})" for i in range(30))),
        ("EXPANSION_WORK_MAX", " or ".join(f"(x != {i} and y != {i})" for i in range(300))),
        (
            "EXPANSION_WORK_MAX",
            " or ".join(f"(s not like '%{i}%' and t not like '%{i}')" for i in range(300)),
        ),
    ],
    ids=["independent", "absorbing", "patterns"],
)
def test_what_takes_too_much_work_is_refused_by_name(limit: str, text: str, request_: bool) -> None:
    with pytest.raises(LimitError, match=limit) as caught:
        parse(text, request=request_)
    assert caught.value.limit == getattr(limits, limit)


def test_work_is_counted_alike_in_every_process() -> None:
    # Sets of texts are ordered differently in each; what is counted must not be.
    program = """
from penstock.filters.languages import sql
from penstock.filters.work import Work

work = Work(10**7)
factors = [f"(a{i} != {i} or b{i % 5} = {i} or s{i % 3} like '%{i}')" for i in range(7)]
sql.parse(" and ".join(factors), work)
print(work.spent)
"""
    counts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(counts) == 1


@pytest.mark.parametrize("factors", [(8, 20), (10, 10), (12, 14)])
def test_reading_a_product_takes_no_more_comparing_than_was_reckoned(factors: tuple[int, int]) -> None:
    # Otherwise a text is read and its canonical form is refused. Patterns in two parts make each pair dearer.
    few, many = factors
    likes = " or ".join(f"(t not like '%{i}%' and b < {i})" for i in range(few))
    text = f"({likes}) and (" + " or ".join(f"s{i} not like '%{i}%'" for i in range(many)) + ")"
    made, read = Work(), Work()
    sql.parse(sql.parse(text, made).to_sql(), read)
    assert 0 < read.compared <= made.compared


def test_a_request_has_a_length_and_must_stay_cheap_to_read() -> None:
    long = "x in (" + ", ".join(map(str, range(5_000))) + ")"
    assert parse(long).satisfiable
    with pytest.raises(LimitError, match="REQUEST_LENGTH_MAX"):
        parse(long, request=True)
    # 16,000 characters that would take the next broker as long to read as to compare.
    many = " or ".join(f"x={i} and y={i}" for i in range(850))
    assert len(parse(many).filters) == 850
    with pytest.raises(LimitError, match="takes too many steps to read"):
        parse(many, request=True)


def test_the_length_of_a_request_counts_as_work() -> None:
    # Reading 16,384 characters takes some 10 ms, before anything is expanded.
    assert Work.for_request(limits.REQUEST_LENGTH_MAX).spent == limits.REQUEST_LENGTH_MAX // 2
    text = " or ".join(f"(x != {i} and y != {i})" for i in range(150))
    assert parse(text, request=True) == parse(text)
    longer = text.ljust(limits.REQUEST_LENGTH_MAX)
    assert parse(longer) == parse(text)
    with pytest.raises(LimitError, match="EXPANSION_WORK_MAX"):
        parse(longer, request=True)


def test_relations_that_take_too_long_give_the_safe_answer() -> None:
    f = parse(" or ".join(f"(x > {i} and y < {i})" for i in range(300)))
    g = parse(" or ".join(f"(x < {i} - 1 and y > {i})".replace(f"{i} - 1", str(i - 1)) for i in range(300)))
    assert covers(f, f)
    assert not covers(f, g, Allowance(50))
    assert overlaps(f, "x < 0 and y > 1", Allowance(10))
    assert not overlaps(f, "x < 0 and y > 1")


@example(["%x%", "%xy%", "%a"])
@pytest.mark.property
@given(
    st.lists(
        st.sampled_from(["%x%", "%xy%", "%a", "a%", "_%", "%", "ab%x", "%b_", "a", "%x%y%", "__x%"]),
        max_size=12,
    )
)
def test_absorption_finds_the_patterns_that_others_imply(found: list[str]) -> None:
    sets = [Filter([Constraint("s", "like", pattern)]) for pattern in found]
    kept = Predicate(sets * 2 + [Filter([Constraint("s", "=", f"v{i}")]) for i in range(10)]).filters
    assert not any(a is not b and a.covers(b) for a in kept for b in kept)
