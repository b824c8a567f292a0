"""What computed attributes ask for, told by their names without constants."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Matcher, parse
from penstock.filters.asked import conditions_inside, families_at, kinds_in
from penstock.filters.expression import Expression, normalise
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.matching import behind as behind_module
from penstock.matching.behind import behind, shape_of
from penstock.matching.computed import filter_of, is_computed, lowered, name_of
from penstock.model.schema import Schema
from strategies import all_constraints, expressions

NAMES = ("x", "a 1", "a 2", "b.c", "x1", "x2", 'q"5', "it's", "`")


def computed_names(predicate: Predicate) -> Iterator[str]:
    """The computed attributes by which tables would hold the filters of a predicate."""
    for f in predicate.filters:
        if f.clauses:
            yield name_of(f)
        for box in f.boxes():
            yield from filter(is_computed, lowered(box.conditions))


@given(st.lists(expressions(all_constraints(NAMES)), min_size=1, max_size=8))
def test_names_of_one_shape_ask_for_the_same(written: list[Expression]) -> None:
    known: dict[str, Any] = {}
    for expression in written:
        for name in computed_names(normalise(expression)):
            f = filter_of(name)
            asked = kinds_in([f]), list(conditions_inside([f])), families_at([f])
            assert known.setdefault(shape_of(name), asked) == asked
            found = behind(name)
            assert (found.kinds, list(found.inside), found.families) == asked


def shape(text: str) -> str:
    (name,) = computed_names(parse(text))
    return shape_of(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("any(items where qty > 5)", "any(items where qty > 61.25)"),
        ("any(items where sku = 'a')", "any(items where sku = 'it''s 5 \" `')"),
        ("any(items where \"a b\" = 'a')", "any(items where \"a b\" = 'b 5')"),
        ("any(items where qty in (1, 2))", "any(items where qty in (4, 5, 6))"),
    ],
)
def test_constants_are_no_part_of_a_shape(one: str, other: str) -> None:
    assert shape(one) == shape(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("any(items where qty = 5)", "any(items where qty = '5')"),
        ("any(items where q1 = 5)", "any(items where q2 = 5)"),
        ('any(items where "q 1" = 5)', 'any(items where "q 2" = 5)'),
        ("any(items where \"q'1'\" = 5)", "any(items where \"q'2'\" = 5)"),
        ("any(items where at > timestamp '2024-01-01')", "any(items where at > '2024-01-01')"),
    ],
)
def test_names_and_kinds_are_part_of_a_shape(one: str, other: str) -> None:
    assert shape(one) != shape(other)


@pytest.mark.usefixtures("warm_kernels")
def test_a_look_parses_one_condition_of_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher((i, f"any(items where qty > {i}) and (x = {i} or y = {i})") for i in range(300))
    matcher.warns = False
    matcher.match_batch([{"items": [{"qty": -1}], "x": -1}] * 10)
    parsed: list[str] = []

    def count(name: str) -> Filter:
        parsed.append(name)
        return filter_of(name)

    monkeypatch.setattr(behind_module, "filter_of", count)
    monkeypatch.setattr("penstock.matching.disagreements.filter_of", count)
    monkeypatch.setattr(behind_module, "_KNOWN", {})
    schema = Schema.from_json({"properties": {"items": {"type": "array"}, "x": {"type": "number"}}})
    found = [
        [(one.attribute, one.problem, one.rules) for one in some]
        for some in (matcher.disagreements(), matcher.check(schema))
    ]
    assert found == [[("y", "unknown", 300)], [("y", "unknown", 300)]]
    assert len(parsed) < 10


@pytest.mark.usefixtures("warm_kernels")
def test_a_look_reads_the_conditions_of_all_rules_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher((i, f"any(items where qtty > {i})") for i in range(300))
    matcher.warns = False
    matcher.match_batch([{"items": [{"qty": 1}]}] * 10)
    calls: list[int] = []
    unique = np.unique

    def count(*args: Any, **more: Any) -> Any:
        calls.append(1)
        return unique(*args, **more)

    monkeypatch.setattr(np, "unique", count)
    (found,) = matcher.disagreements()
    assert (found.attribute, found.rules) == ("items[].qtty", 300)
    assert len(calls) < 30
