"""The public interface: what is in it, what it costs to import, what the README promises."""

import pickle
import subprocess
import sys

import pytest

import penstock
from penstock import Constraint, Event, Filter, PenstockError, Predicate, Time, errors, parse

PUBLIC = {
    "Client",
    "Constraint",
    "Event",
    "Family",
    "Filter",
    "Histogram",
    "Matcher",
    "Matches",
    "Merge",
    "PenstockError",
    "Predicate",
    "Schema",
    "Time",
    "ValueCounts",
    "connect",
    "connect_sync",
    "covers",
    "identical",
    "merge",
    "overlaps",
    "parse",
}


def test_the_public_interface_is_this_set() -> None:
    assert set(penstock.__all__) == PUBLIC
    assert all(hasattr(penstock, name) for name in PUBLIC)


def test_importing_penstock_imports_nothing_heavy() -> None:
    heavy = {"pyarrow", "numpy", "pandas", "rich", "asyncio", "argparse"}
    code = "import sys, penstock; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(loaded.stdout.split())


def test_what_is_for_spark_is_listed_and_nothing_else() -> None:
    import penstock.spark

    assert {name for name in dir(penstock.spark) if name[:2] != "__"} == set(penstock.spark.__all__)


def test_every_error_is_a_penstock_error() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), PenstockError)


def test_the_issues_own_example_runs() -> None:
    p = penstock.parse("origin = 'JFK' and dep_delay > 60")
    q = penstock.parse("origin = 'JFK' and dep_delay > 90")
    assert p.matches({"origin": "JFK", "dep_delay": 75})
    assert (penstock.covers(p, q), penstock.overlaps(p, q), penstock.identical(p, q)) == (True, True, False)
    merged = penstock.merge([p, q])
    assert (merged.predicate, merged.perfect, merged.excess) == (p, True, 0.0)
    assert (
        parse(p.to_sql())
        == parse(p.to_padres(), language="padres")
        == parse(p.to_json(), language="json")
        == p
    )


@pytest.mark.parametrize(
    "value",
    [
        parse("a = 1 and b like 'x%y' or c is null"),
        parse("false"),
        parse("false").filters,
        Filter([Constraint("a", ">", 1), Constraint("a", "<", 0)]),
        Filter([Constraint("a", "=", Time(5))]),
        Event({"a": 1, "b": {"c": Time(5)}}),
        penstock.merge(["a = 1", "a = 2"]),
    ],
)
def test_values_survive_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


@pytest.mark.parametrize("text", ["a = ", "a in (1, 'x')", "a = '" + "x" * 70_000 + "'"])
def test_errors_survive_pickling(text: str) -> None:
    # They cross process boundaries in pools and on Spark.
    with pytest.raises(PenstockError) as caught:
        parse(text)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (type(again), str(again), vars(again)) == (
        type(caught.value),
        str(caught.value),
        vars(caught.value),
    )


def test_relations_take_text_filters_and_constraints() -> None:
    wide, narrow = Constraint("a", ">", 1), Filter([Constraint("a", ">", 2)])
    assert penstock.covers(wide, narrow)
    assert penstock.covers("a > 1", narrow)
    assert penstock.identical(Predicate([narrow]), "a > 2")
    with pytest.raises(PenstockError, match="not int"):
        penstock.covers(5, "a = 1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operator", "value", "message"),
    [
        ("~", 1, "no operator '~'"),
        ("=", None, "null has no family"),
        ("=", [1], "list has no family"),
        ("=", float("nan"), "finite"),
        ("<", float("inf"), "finite"),
        ("=", 2**63, "64-bit"),
        ("between", 5, "a pair"),
        ("between", (1, "a"), "one family"),
        ("between", "ab", "a pair"),
        ("in", 5, "a list"),
        ("in", [], "at least one"),
        ("in", "ab", "a list"),
        ("prefix", 5, "takes a string"),
        ("like", True, "takes a string"),
        ("exists", 1, "takes no value"),
    ],
)
def test_a_constraint_that_makes_no_sense_is_refused(operator: str, value: object, message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        Filter([Constraint("x", operator, value)])


def test_filters_and_predicates_are_made_of_their_kind() -> None:
    with pytest.raises(PenstockError, match="made of constraints"):
        Filter(["a = 1"])  # type: ignore[list-item]
    with pytest.raises(PenstockError, match="made of filters"):
        Predicate(["a = 1"])  # type: ignore[list-item]


def test_constraints_are_equal_when_they_say_the_same() -> None:
    assert Constraint("x", "between", (5, 5)) == Constraint("x", "=", 5.0)
    assert hash(Constraint("x", "in", [2, 1])) == hash(Constraint("x", "in", (1, 2)))
    assert Constraint("x", "=", 1) != Constraint("y", "=", 1)
    assert Constraint("x", "=", 1) != Constraint("x", "=", True)


def test_a_dict_with_none_is_matched_as_one_without() -> None:
    assert parse("x is null").matches({"x": None, "y": 1})
    assert not parse("x is not null").matches({"x": None, "y": 1})


def test_a_dict_with_bytes_can_be_matched_by_skipping_them() -> None:
    with pytest.raises(PenstockError, match="unsupported='skip'"):
        parse("x is null").matches({"x": b"1", "y": 1})
    assert parse("x is null").matches({"x": b"1", "y": 1}, unsupported="skip")


def test_distributions_may_be_dicts_of_counts_and_nothing_else() -> None:
    counts = {"x": {1: 5, 2: 5}}
    assert penstock.merge(["x = 1", "x = 3"], budget=0.4, distributions=counts).perfect
    with pytest.raises(
        PenstockError, match="the distribution of 'x' is a ValueCounts or a Histogram, not int"
    ):
        penstock.merge(["x = 1"], distributions={"x": 5})  # type: ignore[dict-item]
