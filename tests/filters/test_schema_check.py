"""Rules held against a schema: what cannot match is found, with the name that was perhaps meant."""

from difflib import get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.disagreements import (
    _CLOSENESS,
    IDS_SHOWN,
    _closest,
    suggestion,
)
from penstock.filters.parsing import parse
from penstock.filters.schema_check import SchemaCheck, check, why_not
from penstock.model.schema import Schema
from penstock.model.values import Family, Time

SCHEMA = Schema.from_json(
    {
        "properties": {
            "amount": {"type": "number"},
            "at": {"type": "string", "format": "date-time"},
            "order": {"properties": {"customerId": {"type": "string"}}},
            "tags": {"type": "array"},
            "data": {"type": "string", "contentEncoding": "base64"},
            "code": {"type": ["integer", "string"]},
        }
    }
)


def sentences(text: str) -> list[str]:
    return [str(found) for found in check(parse(text).filters, SCHEMA)]


@pytest.mark.parametrize(
    ("rule", "problem", "said"),
    [
        ("amuont > 5", "unknown", "the schema has no attribute 'amuont', which the filter names; did"),
        ("Amount > 5", "unknown", "did you mean 'amount'?"),
        ("order.customer_id = 'a'", "unknown", "did you mean 'order.customerId'?"),
        ("customerId = 'a'", "unknown", "did you mean 'order.customerId'?"),
        ("amuont is null", "unknown", "did you mean 'amount'?"),
        ("zzz > 5", "unknown", "the schema has no attribute 'zzz', which the filter names"),
        ("amount = '5'", "family", "the filter compares 'amount' with a string, but in the"),
        ("amount = '5'", "family", "in the schema it is number: no event can match"),
        ("at > '2024-01-01'", "family", "but in the schema it is a time (date-time)"),
        ("amount > 5 and (at > 1 or code = 1)", "family", "compares 'at' with a number"),
        ("tags = 'a'", "family", "it is array: no event can match; any(tags) = … asks for an element"),
        ("tags = 'a'", "family", "as '…' in tags does"),
        ("tags.sku = 'a'", "unknown", "; 'tags' is a list: any(tags where sku = …)"),
        ("tags.gift.wrap > 5", "unknown", "; 'tags' is a list: any(tags where gift.wrap = …)"),
        ("'a' in amount", "family", "compares 'amount' with a list, but in the schema it is number"),
        ("data = 'a'", "unmatchable", "in the schema is bytes as text: no rule can match"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_match_is_found(rule: str, problem: str, said: str) -> None:
    (found,) = check(parse(rule).filters, SCHEMA)
    assert found.problem == problem
    assert said in str(found)


@pytest.mark.parametrize(
    "rule",
    [
        "amount > 5 and at > timestamp '2024-01-01'",
        "code = 1 or code = 'a'",
        "amount > 5 or amount = 'n/a'",
        "amount is null",
        "tags is null",
        "'a' in tags or any(tags where price > 5)",
        "at is not null",
        "not (amount > 5 and code = 'x')",
    ],
)
def test_a_rule_that_fits_is_not(rule: str) -> None:
    assert sentences(rule) == []


def test_an_open_schema_does_not_know_what_is_missing() -> None:
    schema = Schema.from_json({"properties": {"a": {"type": "number"}}, "additionalProperties": True})
    assert check(parse("b = 1").filters, schema) == []
    assert [one.problem for one in check(parse("a = 'x'").filters, schema)] == ["family"]


def test_rules_are_counted_and_the_first_are_named() -> None:
    made = SchemaCheck(SCHEMA)
    for key in range(1_000):
        made.see(key, parse(f"amuont > {key} or amuont < -{key}").filters)
    (found,) = made.report()
    assert (found.rules, found.ids) == (1_000, tuple(range(IDS_SHOWN)))
    assert "which 1,000 rules (0, 1, 2, …) name" in str(found)


VALUES = {Family.BOOL: True, Family.NUMBER: 5, Family.TIME: Time(5), Family.STRING: "5", Family.LIST: (5,)}
RULES = [
    "x = true",
    "x = 5",
    "x > timestamp '1900-01-01'",
    "x = '5'",
    "x = 5 or x = '5'",
    "x is not null",
    "x is not null and (x = true or x = '5')",
    "5 in x",
    "x = 5 or any(x) > 4",
]


@given(st.sampled_from(RULES), st.frozensets(st.sampled_from(list(Family)), min_size=1))
def test_what_is_said_to_be_in_vain_is_what_no_value_of_the_schema_matches(
    rule: str, families: frozenset[Family]
) -> None:
    # Each rule matches the values above wherever it asks for their family at all.
    predicate = parse(rule)
    matches = any(predicate.matches({"x": VALUES[family]}) for family in families)
    found = check(predicate.filters, Schema.of_families({"x": families}))
    assert bool(found) is not matches


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("amuont", ["amount", "count"], "amount"),
        ("AMOUNT", ["amount"], "amount"),
        ("userId", ["user_id", "user_ip"], "user_id"),
        ("price", ["order.price", "total"], "order.price"),
        ("price", ["order.price", "item.price"], None),
        ("x", ["y"], None),
        ("delay", [], None),
    ],
)
def test_the_name_that_was_perhaps_meant(name: str, names: list[str], meant: str | None) -> None:
    assert suggestion(name, names) == meant


NAMES = st.text("abc_.", min_size=1, max_size=8)


@given(NAMES, st.lists(NAMES, max_size=40, unique=True))
def test_names_that_are_compared_one_by_one_suggest_what_difflib_does(name: str, names: list[str]) -> None:
    found = get_close_matches(name, names, 1, _CLOSENESS)
    assert _closest(name, names) == (found[0] if found else None)


def test_a_large_schema_is_gone_through_in_small_steps() -> None:
    called: list[None] = []
    schema = Schema.from_json({"properties": {f"order.amount_{n}": {"type": "number"} for n in range(1_000)}})
    filters = parse("ordre.amuont_17 > 5").filters
    assert why_not(filters, schema, lambda: called.append(None)) == why_not(filters, schema)
    # Twice through all names, sixteen at a time.
    assert len(called) >= 100
