"""What is found in a set of rules, held against what the algebra says of each pair."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import covers, parse
from penstock.matching.linting import CHECKS, Finding, Rules, lint
from penstock.model.names import Id
from penstock.model.schema import Schema

pytestmark = pytest.mark.usefixtures("warm_kernels")

TEXTS = [
    "x > 1",
    "x > 2",
    "x > 1 and y = 'a'",
    "y = 'a' and x > 1",
    "x > 5 and x < 3",
    "false",
    "true",
    "y like '%a%'",
    "y like '%aa%'",
    "x = 1 or y = 'b'",
    "x = 1 or y in ('b', 'c')",
    "x is null",
    "x != 7",
    "x not in (7, 8)",
    "x between 1 and 5 or y = 'q'",
]


def of(*pairs: tuple[Id, str]) -> Rules:
    rules = Rules()
    for key, text in pairs:
        rules.add(key, parse(text))
    return rules


def found(rules: Rules, schema: Schema | None = None) -> set[tuple[str, int, int | None]]:
    return {(one.check, one.rule, one.other) for one in lint(rules, schema)}


def naive(rules: Rules) -> set[tuple[str, int]]:
    """Which rules there is something to say of, by comparing each pair."""
    predicates = rules.predicates
    made: set[tuple[str, int]] = set()
    for at, one in enumerate(predicates):
        if rules.ids[at] in rules.ids[:at]:
            made.add(("repeated-id", at))
        if not one.satisfiable:
            made.add(("never-matches", at))
            continue
        if covers(one, parse("true")):
            made.add(("matches-all", at))
        if one in predicates[:at]:
            made.add(("duplicate", at))
            continue
        for other_at, other in enumerate(predicates):
            if other != one and other.satisfiable and covers(other, one):
                if covers(one, other) and other_at > at:
                    continue
                made.add(("covered", at))
    return made


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(TEXTS)), max_size=12))
def test_findings_are_those_of_comparing_every_pair(pairs: Sequence[tuple[int, str]]) -> None:
    rules = of(*pairs)
    findings = lint(rules)
    assert {(one.check, one.rule) for one in findings} == naive(rules)
    for one in findings:
        if one.check in ("covered", "duplicate"):
            assert one.other is not None
            assert covers(rules.predicates[one.other], rules.predicates[one.rule])
    assert [one.rule for one in findings] == sorted(one.rule for one in findings)


def test_each_kind_is_found_with_the_rule_that_it_has_to_do_with() -> None:
    rules = of(
        ("late", "delay > 60"),
        ("never", "delay > 9 and delay < 3"),
        ("again", "delay > 60 and delay > 10"),
        ("later", "delay > 90"),
        (7, "true or delay > 1"),
        ("late", "origin = 'JFK'"),
    )
    assert found(rules) == {
        ("covered", 0, 4),
        ("never-matches", 1, None),
        ("duplicate", 2, 0),
        ("covered", 3, 4),
        ("matches-all", 4, None),
        ("covered", 5, 4),
        ("repeated-id", 5, 0),
    }
    messages = {one.check: one.message for one in lint(rules)}
    assert messages["duplicate"] == "rule 'late' says the same"
    assert messages["covered"] == "rule 7 matches all events that this rule matches"


SCHEMA = Schema.from_json(
    '{"properties": {"amount": {"type": "number"}, "at": {"type": "string"}, "n": {"type": "integer"}},'
    ' "additionalProperties": false}'
)


@pytest.mark.parametrize(
    ("text", "check", "message"),
    [
        ("amuont > 5", "unknown-attribute", "did you mean 'amount'?"),
        ("Amount > 5", "unknown-attribute", "did you mean 'amount'?"),
        ("colour = 'red'", "unknown-attribute", "the schema has no attribute 'colour'"),
        ("amount = 'much'", "wrong-type", "compares 'amount' with a string, but in the schema it is"),
        ("n > 1 and at > timestamp '2024-01-01T00:00:00Z'", "wrong-type", "compares 'at' with a time"),
    ],
)
def test_attributes_are_held_against_a_schema(text: str, check: str, message: str) -> None:
    rules = of(("good", "amount > 5 and n = 1"), ("bad", text))
    (one,) = lint(rules, SCHEMA)
    assert (one.check, one.rule) == (check, 1)
    assert message in one.message
    assert lint(rules) == []


def test_a_rule_that_fits_the_schema_is_not_told_of() -> None:
    assert lint(of((1, "amount > 5 or at = 'x'"), (2, "n is not null")), SCHEMA) == []
    open_schema = Schema.from_json('{"properties": {"n": {"type": "integer"}}, "additionalProperties": true}')
    assert lint(of((1, "whatever = 1")), open_schema) == []


def test_every_check_has_a_level_and_says_what_it_is() -> None:
    assert {about.level for about in CHECKS.values()} == {"error", "warning", "note"}
    assert all(about.summary.endswith(".") for about in CHECKS.values())
    assert Finding("covered", 0, "").other is None
