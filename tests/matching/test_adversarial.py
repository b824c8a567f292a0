"""Inputs made to break matching: each is answered as the reference answers it.

Where docs/MATCHING.md says that tests are counted, the number of filters tested is held against its factor;
nothing is timed.
"""

import random

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import LimitError, UnknownSubscriptionError
from penstock.filters import patterns
from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.matching import store as store_module
from penstock.matching.compile import symbols_of
from penstock.matching.kernels.patterns import like_text
from penstock.matching.matcher import Matcher
from penstock.matching.reference import ReferenceMatcher


def engines(filters: list[tuple[str, Filter]]) -> tuple[Matcher, ReferenceMatcher[str]]:
    made = [(key, Predicate((f,))) for key, f in filters]
    return Matcher(made), ReferenceMatcher(made)


def assert_same(engine: Matcher, reference: ReferenceMatcher[str], events: list[dict[str, object]]) -> None:
    expected = [reference.match(event) for event in events]
    assert list(engine.match_batch(events)) == expected
    assert list(engine.match_json(b"\n".join(map(msgspec.json.encode, events)))) == expected


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
def test_like_of_many_wildcards(size: int) -> None:
    """A pattern of 500 wildcards on texts that nearly match it: no backtracking, whatever the length."""
    text = "%".join("ab" * 100) + "%_" * 100 + "%c"
    engine, reference = engines(
        [
            ("wild", Filter([Constraint("x", "like", text)])),
            ("all", Filter([Constraint("x", "like", "%a_b%")])),
        ]
    )
    events: list[dict[str, object]] = [
        {"x": "ab" * size},
        {"x": "ab" * size + "c"},
        {"x": "ab" * size + "acb"},
    ]
    assert_same(engine, reference, events)


@pytest.mark.parametrize("stretch", ["a" * 90 + "b", "a_" * 60 + "b", "_" * 70 + "ab"])
def test_like_finds_long_stretches_in_long_texts(stretch: str) -> None:
    """Stretches longer than a machine word, in texts long enough for shift-and."""
    pattern = patterns.from_like(f"%{stretch}%x%")
    symbols = np.array(symbols_of(pattern), np.int32)
    chance = random.Random(5)  # noqa: S311 - a workload
    for _ in range(40):
        text = "".join(chance.choice("aaaab") for _ in range(1_500)) + chance.choice(["x", "", "é"])
        found = like_text(symbols, np.frombuffer(text.encode(), np.uint8).copy())
        assert found == patterns.matches(pattern, text)


def test_ten_thousand_substrings_that_share_prefixes() -> None:
    """One automaton finds them all in one pass; each is looked at once however often it occurs."""
    needles = ["a" * n for n in range(1, 101)] + [
        "a" * n + "b" * m for n in range(1, 100) for m in range(1, 101)
    ]
    engine, reference = engines(
        [(needle, Filter([Constraint("x", "substring", needle)])) for needle in needles]
    )
    assert len(needles) == 10_000
    events: list[dict[str, object]] = [
        {"x": "a" * 50},
        {"x": "a" * 30 + "b" * 30},
        {"x": "ba" * 400},
        {"x": "c"},
    ]
    assert_same(engine, reference, events)
    long = engine.match_batch([{"x": "a" * 2**20}])
    assert len(long[0]) == 100
    # As many nodes as different prefixes, not as letters in all needles.
    table = engine._store.compact()
    assert table is not None
    assert len(table.automaton.fail) <= 100 + 99 * 100 + 1


def test_substrings_that_also_end_the_text() -> None:
    engine, reference = engines(
        [
            (f"{op}{n}", Filter([Constraint("x", op, "ab" * n)]))
            for op in ("suffix", "substring", "prefix")
            for n in range(1, 40)
        ]
    )
    assert_same(engine, reference, [{"x": "ab" * n + tail} for n in (1, 5, 60) for tail in ("", "a", "é")])


def test_an_attribute_in_every_filter() -> None:
    """The attribute tells nothing: filters are found by their other condition, so few are tested."""
    filters = [
        (f"f{i}", Filter([Constraint("kind", "=", "order"), Constraint("customer", "=", i)]))
        for i in range(20_000)
    ]
    engine, reference = engines(filters)
    events: list[dict[str, object]] = [{"kind": "order", "customer": i * 7} for i in range(50)]
    assert_same(engine, reference, events[:5])
    stats = engine.stats(events)
    assert stats.tests_per_event <= 10


def test_an_attribute_in_every_filter_and_nothing_else() -> None:
    """All filters on one attribute: intervals of all widths. Few more are tested than match."""
    chance = random.Random(3)  # noqa: S311 - a workload
    filters = []
    for i in range(5_000):
        low = chance.randrange(100_000)
        filters.append(
            (
                f"f{i}",
                Filter([Constraint("x", "between", (low, low + chance.choice((1, 50, 5_000, 50_000))))]),
            )
        )
    engine, reference = engines(filters)
    events: list[dict[str, object]] = [{"x": chance.randrange(150_000)} for _ in range(60)]
    assert_same(engine, reference, events[:10])
    stats = engine.stats(events)
    assert stats.tests_per_event <= 4 * max(1.0, stats.matches_per_event)


def test_an_event_with_a_thousand_attributes() -> None:
    """Only the attributes that filters name cost anything, and pairs of attributes only where planes are."""
    filters = [
        (
            f"f{i}",
            Filter([Constraint(f"a{i % 1_500}", "=", i % 7), Constraint(f"a{(i * 31) % 1_500}", ">", 3)]),
        )
        for i in range(6_000)
    ]
    engine, reference = engines(filters)
    wide: dict[str, object] = {f"a{i}": i % 7 for i in range(1_000)}
    narrow: dict[str, object] = {f"a{i}": i % 7 for i in range(10)}
    assert_same(engine, reference, [wide, narrow])
    stats_of_wide, stats_of_narrow = engine.stats([wide]), engine.stats([narrow])
    # A hundred times the attributes: about a hundred times the tests, and not their square.
    assert stats_of_wide.tests_per_event <= 300 * max(1.0, stats_of_narrow.tests_per_event)


def test_strings_of_a_megabyte() -> None:
    engine, reference = engines(
        [
            ("equal", Filter([Constraint("x", "=", "b" * 60_000)])),
            ("less", Filter([Constraint("x", "<", "b")])),
            ("prefix", Filter([Constraint("x", "prefix", "a" * 50_000)])),
            ("suffix", Filter([Constraint("x", "suffix", "ac")])),
            ("substring", Filter([Constraint("x", "substring", "a" * 1_000 + "c")])),
            ("like", Filter([Constraint("x", "like", "a%_a%c%b")])),
            ("not", Filter([Constraint("x", "not like", "%b%")])),
        ]
    )
    mega = 2**20
    events: list[dict[str, object]] = [
        {"x": "a" * mega},
        {"x": "a" * (mega - 1) + "c"},
        {"x": "é" * (mega // 2)},
        {"x": "ab" * (mega // 2)},
    ]
    assert_same(engine, reference, events)


def test_many_values_in_lists_and_not_in_lists() -> None:
    filters = [
        ("in", Filter([Constraint("x", "in", tuple(range(0, 60_000, 2)))])),
        ("not in", Filter([Constraint("x", "not in", tuple(range(0, 60_000, 3)))])),
        ("words", Filter([Constraint("y", "in", tuple(f"w{i}" for i in range(20_000)))])),
    ]
    engine, reference = engines(filters)
    events: list[dict[str, object]] = [{"x": i, "y": f"w{i}"} for i in (0, 1, 2, 3, 59_999, 60_001)]
    assert_same(engine, reference, events)
    assert engine.stats(events).bytes < 40 * 110_000


def test_filters_that_differ_in_one_value_of_a_large_disjunction() -> None:
    """Ids with many filters are reported once."""
    reference: ReferenceMatcher[str] = ReferenceMatcher()
    engine = Matcher()
    pairs = [(f"id{i % 5}", Predicate((Filter([Constraint("x", ">", i)]),))) for i in range(3_000)]
    engine.add_many(pairs)
    for key, predicate in pairs:
        reference.add(key, predicate)
    assert_same(engine, reference, [{"x": 2.5}, {"x": 10_000}, {"x": -1}])


def test_more_values_than_a_word_has_codes_for() -> None:
    """Codes beyond 22 bits are kept as sets, and say nothing about what has no such codes."""
    step = 100_000
    engine = Matcher()
    for first in range(0, 22 * step, step):
        engine.add(first, Filter([Constraint("a", "in", tuple(range(3 * first, 3 * (first + step), 3)))]))
    engine.add("last", Filter([Constraint("a", "=", 3 * (22 * step - 1))]))
    engine.add("other", Filter([Constraint("b", "in", (1, 2))]))
    last = 21 * step
    assert engine.match({"a": 3 * (22 * step - 1), "b": 2}) == [last, "last", "other"]
    assert engine.match({"a": 3 * (22 * step - 1) + 1, "b": 2}) == ["other"]
    assert engine.match({"a": 3, "b": 3}) == [0]


def test_a_table_that_is_refused_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "TABLE_ATTRIBUTES_MAX", 3)
    engine = Matcher([("a", "x = 1"), ("b", "x = 2 and y = 1")])
    wide = pa.table({"id": [5] * 4, "attribute": ["p", "q", "r", "s"], "op": ["exists"] * 4})
    with pytest.raises(LimitError, match="TABLE_ATTRIBUTES_MAX"):
        engine.add_constraints(wide)
    assert len(engine) == 2
    assert 5 not in engine
    with pytest.raises(UnknownSubscriptionError):
        engine.remove(5)
    assert engine.match({"x": 2, "y": 1}) == ["b"]
