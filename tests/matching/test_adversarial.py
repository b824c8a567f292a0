"""Inputs made to break matching: each is answered as the reference answers it, and its work is bounded.

Nothing is timed. Work is counted, as turns of loops (see `counted_work`), for each attribute and byte of the
event and each id found; and the most that any event takes is held against the median of an ordinary workload
of as many filters. The factors are those of docs/MATCHING.md.
"""

import random
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from counted_work import work_of
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
from penstock.workloads import forwarding

WILDCARDS = "LIKE with many wildcards"
SHARED_PREFIXES = "substrings that share prefixes"
EVERY_FILTER = "an attribute in every filter, with the same value"
NOTHING_ELSE = "an attribute in every filter, and nothing else"
WIDE_EVENT = "events of 1,000 attributes"
LONG_STRINGS = "strings of 1 MB"

FACTORS = {
    WILDCARDS: 4,
    SHARED_PREFIXES: 2,
    EVERY_FILTER: 1,
    NOTHING_ELSE: 8,
    WIDE_EVENT: 2,
    LONG_STRINGS: 2,
}
"""How many times the work of the median ordinary event each may take, by its row in the docs."""

ORDINARY_FILTERS = 10_000
ORDINARY_EVENTS = 300


@pytest.fixture(scope="module")
def ordinary() -> float:
    """The median work of the events of the forwarding paper's workload: all kinds of constraint."""
    made = forwarding.filters(ORDINARY_FILTERS, 1)
    messages = forwarding.messages(ORDINARY_EVENTS, 1)
    engine = Matcher((i, forwarding.as_filter(made, i)) for i in range(ORDINARY_FILTERS))
    events: list[dict[str, object]] = [dict(forwarding.as_event(messages, i)) for i in range(ORDINARY_EVENTS)]
    engine.learn(events)
    return median(work_of(engine, events))


def assert_bounded(engine: Matcher, events: list[dict[str, object]], ordinary: float, row: str) -> None:
    worst = max(work_of(engine, events))
    assert worst <= FACTORS[row] * ordinary, f"{worst / ordinary:.2f} times the work of an ordinary event"


def test_the_docs_state_these_factors() -> None:
    text = (Path(__file__).parents[2] / "docs" / "MATCHING.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    stated = {
        name: int(cells[3].strip().removesuffix("×"))
        for name in FACTORS
        for cells in rows
        if cells[1].strip().startswith(name)
    }
    assert stated == FACTORS


def test_what_is_not_bounded_is_counted_too(ordinary: float) -> None:
    """Patterns without a letter are verified one by one: the count shows it, and no factor would hold."""
    engine, _ = engines([(str(n), Filter([Constraint("x", "like", "_" * n + "%")])) for n in range(100, 400)])
    assert min(work_of(engine, [{"x": "a" * 50}])) > max(FACTORS.values()) * ordinary


def engines(filters: list[tuple[str, Filter]]) -> tuple[Matcher, ReferenceMatcher[str]]:
    made = [(key, Predicate((f,))) for key, f in filters]
    return Matcher(made), ReferenceMatcher(made)


def assert_same(engine: Matcher, reference: ReferenceMatcher[str], events: list[dict[str, object]]) -> None:
    expected = [reference.match(event) for event in events]
    assert list(engine.match_batch(events)) == expected
    assert list(engine.match_json(b"\n".join(map(msgspec.json.encode, events)))) == expected


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
def test_like_of_many_wildcards(size: int, ordinary: float) -> None:
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
    assert_bounded(engine, events, ordinary, WILDCARDS)


@pytest.mark.parametrize("size", [60, 2_000, 100_000])
@pytest.mark.parametrize(
    "pattern",
    [
        "%" + "a_" * 500 + "b%x%",
        "%" + "_" * 1_000 + "ab%",
        "%" + "a" * 15 + "%a" * 400 + "b%x%",
        "%" + "".join(map(chr, range(0x100, 0x2E0))) + "_a%b%",
        "%" + "a" * 31 + "_" + "a" * 30 + "b%",
    ],
)
def test_like_of_long_stretches(pattern: str, size: int, ordinary: float) -> None:
    """Texts that have the needle, and match all of the pattern but its end, at every place."""
    engine, reference = engines([("wild", Filter([Constraint("x", "like", pattern)]))])
    letters = pattern.strip("%").split("%")[0].replace("_", "a").removesuffix("b")
    near = (letters * (size // len(letters) + 1))[:size]
    texts = ["a" * size + end for end in ("", "x", "bx")] + [near + end for end in ("", "x", "abx")]
    events: list[dict[str, object]] = [{"x": text} for text in texts]
    assert_same(engine, reference, events)
    assert_bounded(engine, events, ordinary, WILDCARDS)


@pytest.mark.parametrize("stretch", ["a" * 90 + "b", "a_" * 60 + "b", "_" * 70 + "ab"])
def test_like_finds_long_stretches_in_long_texts(stretch: str) -> None:
    """Stretches longer than a machine word, in texts long enough for shift-and."""
    pattern = patterns.from_like(f"%{stretch}%x%")
    symbols = np.array(symbols_of(pattern), np.int32)
    chance = random.Random(5)
    for _ in range(40):
        text = "".join(chance.choice("aaaab") for _ in range(1_500)) + chance.choice(["x", "", "é"])
        found = like_text(symbols, np.frombuffer(text.encode(), np.uint8).copy())
        assert found == patterns.matches(pattern, text)


def test_ten_thousand_substrings_that_share_prefixes(ordinary: float) -> None:
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
    long: list[dict[str, object]] = [
        {"x": "a" * 2**20},
        {"x": ("a" * 99 + "b") * 10_000},
        {"x": ("a" * 99 + "b" * 99) * 5_000},
    ]
    assert list(map(len, engine.match_batch(long))) == [100, 198, 9_900]
    assert_bounded(engine, [*events, *long], ordinary, SHARED_PREFIXES)
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


def test_an_attribute_in_every_filter(ordinary: float) -> None:
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
    assert_bounded(engine, events, ordinary, EVERY_FILTER)


def test_an_attribute_in_every_filter_and_nothing_else(ordinary: float) -> None:
    """All filters on one attribute: intervals of all widths. Few more are tested than match."""
    chance = random.Random(3)
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
    assert_bounded(engine, events, ordinary, NOTHING_ELSE)


def test_an_event_with_a_thousand_attributes(ordinary: float) -> None:
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
    assert_bounded(engine, [wide, narrow], ordinary, WIDE_EVENT)


def test_strings_of_a_megabyte(ordinary: float) -> None:
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
    assert_bounded(engine, events, ordinary, LONG_STRINGS)


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
