"""What is found in a set of rules, held against what the algebra says of each pair."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import covers, parse
from penstock.filters.alternatives import dead_alternatives
from penstock.filters.expression import And, Expression, Or, normalise
from penstock.filters.parsing import never_matching
from penstock.matching.linting import CHECKS, Finding, Rules, lint
from penstock.model.names import Id
from penstock.model.schema import Schema
from strategies import mixed

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
            # What every event matches has its own finding, and covers nothing here.
            if covers(other, parse("true")) or covers(one, parse("true")):
                continue
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
        ("never-matches", 1, None),
        ("duplicate", 2, 0),
        ("covered", 3, 0),
        ("matches-all", 4, None),
        ("repeated-id", 5, 0),
    }
    messages = {one.check: one.message for one in lint(rules)}
    assert messages["duplicate"] == "rule 'late' says the same"
    assert messages["covered"] == "rule 'late' matches all events that this rule matches"


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


CHOICES = Schema.from_json(
    '{"properties": {"colour": {"enum": ["red", "green", null]}, "level": {"const": 3},'
    ' "on": {"enum": [1, true]}, "size": {"anyOf": [{"enum": [1, 2]}, {"type": "string"}]},'
    ' "day": {"enum": ["2024-01-01"], "format": "date"}}}'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 'blue'", "in the schema 'colour' has none of these values, but 'green', 'red'"),
        ("colour in ('Red', 'yellow')", "'colour'"),
        ("colour not in ('red', 'green')", "'colour'"),
        ("colour like 'b%' or colour > 'x'", "'colour'"),
        ("level > 3 and colour = 'red'", "'level' has none of these values, but 3"),
        ("on = false", "'on'"),
        (
            "day > timestamp '2025-01-01T00:00:00Z'",
            "'day' has none of these values, but 2024-01-01T00:00:00Z",
        ),
    ],
)
def test_a_rule_that_asks_for_no_value_of_an_enum_is_an_error(text: str, message: str) -> None:
    (one,) = lint(of((1, text)), CHOICES)
    assert (one.check, CHECKS[one.check].level) == ("wrong-value", "error")
    assert message in one.message


@pytest.mark.parametrize(
    "text",
    [
        *("colour = 'red'", "colour != 'red'", "colour is null", "colour is not null", "colour like '%e%'"),
        *("colour = 'blue' or colour = 'red'", "level = 3", "level < 9", "on = true", "on = 1", "on > 0"),
        *("size = 9 or size = 'L'", "size = 9", "day < timestamp '2025-01-01T00:00:00Z'"),
    ],
)
def test_a_rule_that_asks_for_some_value_of_an_enum_is_good(text: str) -> None:
    assert lint(of((1, text)), CHOICES) == []


def test_a_schema_writes_the_values_that_it_lists() -> None:
    again = Schema.from_json(CHOICES.to_json())
    assert again.attributes["colour"].values == ("red", "green")
    assert again.attributes["on"].values == CHOICES.attributes["on"].values == (True, 1)
    assert again.attributes["size"].values is None
    both = again.attributes["level"].united(again.attributes["colour"])
    assert both.values == (3, "red", "green")


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("(x > 1 and x < 0) or y = 2", ["x > 1 and x < 0"]),
        ("x > 5 and (x < 3 or y = 2)", ["x < 3"]),
        ("not (x <= 1 or x >= 0) or y = 2 or false", ["x > 1 and x < 0", "false"]),
        ("x = 1 or x between 5 and 2", ["x between 5 and 2"]),
        ("y = 1 or (x = 1 and (x = 2 or z = 3) and not z = 4)", ["x = 2"]),
        (
            "'eu' in tags and x > 1 and x < 0 or y = 2",
            ["'eu' in tags and x > 1 and x < 0"],
        ),
        (
            "any(items where qty > 2 and qty < 1) or y = 2",
            ["any(items where false)"],
        ),
        (
            "not (not any(items where a.b = 1 or any(c) > 2) or x >= 0 or x < 0) or y = 2",
            ["any(items where a.b = 1 or any(c where this > 2)) and x < 0 and x >= 0"],
        ),
        ("x = 1 or y = 2", []),
        ("x = 1 and (y = 2 or z = 3)", []),
    ],
)
def test_alternatives_that_can_never_match_are_found(text: str, dead: list[str]) -> None:
    assert never_matching(text) == dead
    findings = lint(rules_with_never(text))
    assert [one.check for one in findings] == ["dead-alternative"] * len(dead)
    assert all(part in one.message for one, part in zip(findings, dead, strict=True))


def rules_with_never(text: str) -> Rules:
    rules = Rules()
    rules.add(1, parse(text), tuple(never_matching(text)))
    return rules


@given(st.lists(mixed(complete=True), min_size=2, max_size=4), mixed(complete=True))
def test_without_dead_alternatives_a_rule_says_the_same(parts: list[Expression], other: Expression) -> None:
    expression = And([Or(parts), other])
    whole = normalise(expression)
    for dead in dead_alternatives(expression):
        assert not normalise(And([dead, other])).satisfiable or _stands_within(dead, parts)
    top = [part for part in parts if not normalise(And([part, other])).satisfiable]
    left = Or([part for part in parts if part not in top])
    assert normalise(And([left, other])) == whole


def _stands_within(dead: Expression, parts: list[Expression]) -> bool:
    """Whether it is an alternative of a part, and so dead beside more than the other condition."""
    return dead not in parts


def test_a_name_that_few_rules_have_is_held_against_names_that_many_have() -> None:
    texts = [f"amount > {n} and x1 = 1 and colour = 'c{n}'" for n in range(40)]
    texts += ["amuont > 5", "x2 = 7 and total = 2", "Colour = 'c1'", "country = 'x'"]
    rules = of(*enumerate(texts))
    some = [one for one in lint(rules) if one.check == "rare-attribute"]
    assert [(one.rule, one.message) for one in some] == [
        (40, "1 rule names 'amuont', and 40 name 'amount'"),
        (42, "1 rule names 'Colour', and 40 name 'colour'"),
    ]
    few = of(*enumerate(["amount > 1"] * 9), (9, "amuont > 5"))
    assert not [one for one in lint(few) if one.check == "rare-attribute"]
