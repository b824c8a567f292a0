"""Removing one filter of an id: the right one, and without reading back all that the id has."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching_cases import PREDICATE
from penstock import Matcher
from penstock.errors import UnknownSubscriptionError
from penstock.filters.expression import Expression, normalise
from penstock.filters.filter import NEVER, Filter
from penstock.filters.parsing import as_predicate
from penstock.matching import reading
from penstock.matching import store as store_module
from penstock.matching.columns import Columns

MANY = 300


def in_the_buffer(m: Matcher, folder: Path) -> Matcher:
    return m


def in_a_delta(m: Matcher, folder: Path) -> Matcher:
    m.match({"first": 1})
    return m


def in_a_table(m: Matcher, folder: Path) -> Matcher:
    m.compact()
    return m


def loaded(m: Matcher, folder: Path) -> Matcher:
    m.save(folder / "saved")
    return Matcher.load(folder / "saved")


def in_several_parts(m: Matcher, folder: Path) -> Matcher:
    m.match({"first": 1})
    m._store._delta = None  # closed: what comes now goes into another
    m.add("many", "x = -1")
    m.match({"first": 1})
    m.add("many", "x = -2")
    return m


WAYS = [in_the_buffer, in_a_delta, in_a_table, loaded, in_several_parts]
Way = Callable[[Matcher, Path], Matcher]


@pytest.fixture
def read_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each filter that is read back."""
    read: list[int] = []
    plain = reading._filter

    def counting(columns: Columns, f: int) -> Filter:
        read.append(f)
        return plain(columns, f)

    monkeypatch.setattr(reading, "_filter", counting)
    return read


def text_of(i: int) -> str:
    return (
        f"number = {i} and text = 'https://example.com/{i:05d}' and list in (1, 2, {i + 10}) and day > {-i}"
        f" and path like 'ab%{i}c' and note like '%{i}' and not (tail like '%z{i}%') and flag"
    )


@pytest.mark.parametrize("way", WAYS)
def test_one_of_many_is_removed_by_reading_one(way: Way, tmp_path: Path, read_back: list[int]) -> None:
    m = Matcher([("first", "first = 1")])
    m.compact()
    for i in range(MANY):
        m.add("many", text_of(i))
    m = way(m, tmp_path)
    for i in (0, 17, MANY - 1):
        m.remove("many", text_of(i))
    assert len(read_back) == 3
    for wrong in (text_of(17), "number = 18", "other = 1", text_of(18) + " and other = 1"):
        with pytest.raises(UnknownSubscriptionError):
            m.remove("many", wrong)
    # One that has all of it but for an attribute looks as if it might be equal, in a table.
    assert len(read_back) <= 4
    left = {*m.filters("many")}
    expected = {
        f for i in range(MANY) if i not in (0, 17, MANY - 1) for f in as_predicate(text_of(i)).filters
    }
    assert left >= expected
    assert len(left - expected) == 2 * (way is in_several_parts)


@pytest.mark.parametrize("way", WAYS)
def test_of_equal_filters_each_removal_takes_one(way: Way, tmp_path: Path) -> None:
    m = Matcher([("first", "first = 1")])
    m.compact()
    for _ in range(3):
        m.add("many", "x = 1 or y like 'a%b'")
        m.add("many", "false")
        m.add("many", "true")
    m = way(m, tmp_path)
    for _ in range(3):
        m.remove("many", "x = 1")
        m.remove("many", "y like 'a%b'")
        m.remove("many", NEVER)
        m.remove("many", "true")
    for gone in ("x = 1", "y like 'a%b'", "false", "true"):
        with pytest.raises(UnknownSubscriptionError):
            m.remove("many", gone)
    assert ("many" in m) == (way is in_several_parts)


@pytest.mark.parametrize("way", WAYS[1:])
def test_conditions_that_the_algebra_brings_together(way: Way, tmp_path: Path) -> None:
    """A table of constraints may have several on one attribute; they are kept as they came."""
    rows = [
        (1, "x", ">", 1.0, None),
        (1, "x", "<", 9.0, None),
        (2, "s", "suffix", None, "a"),
        (2, "s", "suffix", None, "ba"),
        (3, "s", "=", None, "cba"),
        (3, "s", "substring", None, "b"),
        (4, "x", ">", 5.0, None),
        (4, "x", "<", 3.0, None),
        (5, "x", "exists", None, None),
        (5, "x", "=", 7.0, None),
        (6, "s", "prefix", None, "ab"),
        (6, "s", "suffix", None, "c"),
    ]
    names = ("filter", "attribute", "op", "number", "string")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    m = Matcher([("first", "first = 1")])
    m.compact()
    m.add_constraints(pa.table({"id": ["many"] * len(rows), **columns}))
    m = way(m, tmp_path)
    for text in (
        "x > 1 and x < 9",
        "s like '%ba'",
        "s = 'cba'",
        "x > 5 and x < 3",
        "x = 7",
        "s like 'ab%' and s like '%c'",
    ):
        m.remove("many", text)
        with pytest.raises(UnknownSubscriptionError):
            m.remove("many", text)
    assert ("many" in m) == (way is in_several_parts)


@pytest.mark.property
@given(st.lists(PREDICATE, min_size=1, max_size=8), st.data())
def test_what_was_added_can_be_removed(expressions: list[Expression], data: st.DataObject) -> None:
    predicates = [normalise(expression) for expression in expressions]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_BUFFER", "_SEAL"):
            patch.setattr(store_module, name, 4)
        m = Matcher([("first", "first = 1")])
        m.compact()
        for predicate in predicates:
            m.add("many", predicate)
        if data.draw(st.booleans(), label="compiled"):
            m.compact()
        for predicate in data.draw(st.permutations(predicates)):
            m.remove("many", predicate)
        assert "many" not in m
