"""Filters that came lately are matched as those are that were compiled."""

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching_cases import EVENTS, SUBSCRIPTIONS, Attributes
from penstock.filters.constraint import Constraint
from penstock.filters.expression import Expression, normalise
from penstock.filters.filter import Filter
from penstock.filters.parsing import as_predicate
from penstock.filters.predicate import Predicate
from penstock.matching import store as store_module
from penstock.matching.delta import Delta
from penstock.matching.matcher import Matcher
from penstock.matching.parts import Part
from penstock.matching.reference import ReferenceMatcher
from penstock.matching.views import LONG, View
from penstock.model.names import Id
from penstock.workloads import forwarding

TEXTS = st.one_of(
    st.text("ab\0é", max_size=10),
    st.sampled_from([prefix + tail for prefix in ("abcdefg", "abcdefgh") for tail in ("", "\0", "i", "\0i")]),
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63), -(2**53) - 1, 1e300]),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
)
TEXT_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "substring", "like")
CONSTRAINTS = st.one_of(
    st.builds(Constraint, st.sampled_from("xy"), st.sampled_from(TEXT_OPERATORS), TEXTS),
    st.builds(Constraint, st.sampled_from("xy"), st.sampled_from(TEXT_OPERATORS[:6]), NUMBERS),
    st.builds(
        Constraint,
        st.sampled_from("xy"),
        st.sampled_from(("in", "not in")),
        st.one_of(st.lists(TEXTS, min_size=1, max_size=20), st.lists(NUMBERS, min_size=1, max_size=20)),
    ),
)


def behind_a_table(pairs: list[tuple[Id, Filter | Predicate]]) -> Matcher:
    """A matcher whose filters, but for one, are in the delta."""
    engine = Matcher([("first", "first = 1")])
    engine.match({"first": 1})
    for at in range(0, len(pairs), 2_000):
        engine.add_many(pairs[at : at + 2_000])
    return engine


def parts_of(engine: Matcher) -> list[type]:
    return [type(part) for part in engine._store.snapshot().parts]


@pytest.mark.property
@given(SUBSCRIPTIONS, EVENTS)
def test_a_delta_equals_the_reference(
    subscriptions: list[tuple[Id, Expression]], events: list[Attributes]
) -> None:
    pairs = [(key, normalise(expression)) for key, expression in subscriptions]
    engine, reference = behind_a_table(list(pairs)), ReferenceMatcher(pairs)
    expected = [reference.match(event) for event in events]
    assert parts_of(engine) == ([Part, View] if pairs else [Part])
    assert list(engine.match_batch(events)) == expected
    assert engine.match(events[0]) == expected[0]
    assert sorted({one.id for one in engine.explain(events[0])}, key=str) == sorted(expected[0], key=str)
    stats = engine.stats(events)
    assert stats.ids == len({key for key, _ in pairs}) + 1


@pytest.mark.property
@given(
    st.lists(st.lists(CONSTRAINTS, min_size=1, max_size=3), min_size=1, max_size=12),
    st.lists(st.dictionaries(st.sampled_from("xy"), st.one_of(TEXTS, NUMBERS), min_size=1), min_size=1),
)
def test_texts_and_numbers_at_the_edges_of_keys(
    constraints: list[list[Constraint]], events: list[dict[str, object]]
) -> None:
    pairs = [(at, as_predicate(Filter(some))) for at, some in enumerate(constraints)]
    engine, reference = behind_a_table(list(pairs)), ReferenceMatcher(pairs)
    assert list(engine.match_batch(events)) == [reference.match(event) for event in events]


def test_a_delta_equals_a_table_on_many_filters() -> None:
    made = forwarding.filters(6_000, 5)
    pairs: list[tuple[Id, Filter | Predicate]] = [(i, forwarding.as_filter(made, i)) for i in range(6_000)]
    engine, compiled = behind_a_table(pairs), Matcher(list(pairs))
    compiled.compact()
    messages = forwarding.messages(400, 5)
    events = [forwarding.as_event(messages, i) for i in range(400)]
    engine.match_batch(events[:10])
    engine.add("later", "zzz = 1")
    assert View in parts_of(engine)
    expected = list(compiled.match_batch(events))
    assert list(engine.match_batch(events)) == expected
    assert list(engine.match_json(forwarding.as_json_lines(messages))) == expected
    removed = list(range(0, 6_000, 3))
    engine.remove_many(removed)
    assert list(engine.match_batch(events)) == [[i for i in ids if i not in set(removed)] for ids in expected]
    engine.compact()
    assert parts_of(engine) == [Part]
    assert list(engine.match_batch(events)) == [[i for i in ids if i not in set(removed)] for ids in expected]


def test_times_bools_nan_and_absence() -> None:
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    pairs: list[tuple[Id, str]] = [
        ("late", "t > timestamp '2026-01-01T11:00:00Z'"),
        ("true", "b"),
        ("false", "b = false"),
        ("absent", "b is null"),
        ("exists", "t is not null"),
        ("everything", "true"),
        ("nothing", "x > 1 and x < 1"),
    ]
    engine = Matcher([("first", "first = 1")])
    reference = ReferenceMatcher((key, as_predicate(text)) for key, text in pairs)
    engine.match({"first": 1})
    for key, text in pairs:
        engine.add(key, text)
    events: list[dict[str, object]] = [
        {"t": noon},
        {"b": True},
        {"b": False},
        {"b": math.nan},
        {"t": 1, "b": 1},
        {"x": 1},
    ]
    assert list(engine.match_batch(events)) == [reference.match(event) for event in events]
    assert View in parts_of(engine)
    table = pa.table({"t": [noon, None], "b": [None, True]})
    assert [sorted(ids, key=str) for ids in engine.match_batch(table)] == [
        sorted(reference.match(event), key=str) for event in events[:2]
    ]


def test_a_reader_sees_what_there_was() -> None:
    engine = behind_a_table([(i, Filter([Constraint("x", "=", i % 3)])) for i in range(100)])
    before = engine._store.snapshot()
    engine.remove_many(range(0, 100, 2))
    engine.add_many([(i, Filter([Constraint("x", "=", 1)])) for i in range(200, 300)])
    names = engine._store.names
    batch = engine._batches([{"x": 1}], "refuse", engine._store.snapshot())[0]
    old = before.parts[-1].match(batch, names, 400)
    assert sorted(engine._store.ids.get(n) for n in old.numbers.tolist()) == list(range(1, 100, 3))
    assert engine.match({"x": 1}) == [*range(1, 100, 6), *range(200, 300)]


def test_long_texts_are_left_to_a_table() -> None:
    pairs: list[tuple[Id, Filter | Predicate]] = [
        (i, Filter([Constraint("x", "substring", "a" * i + "b")])) for i in range(50)
    ]
    pairs.append(("gone", Filter([Constraint("x", "suffix", "b")])))
    engine = behind_a_table(pairs)
    engine.remove("gone")
    assert engine.match({"x": "a" * (LONG + 1) + "b"}) == list(range(50))
    assert [one.id for one in engine.explain({"x": "c" * LONG + "aab"})] == [0, 1, 2]
    assert engine.stats([{"x": "c" * LONG + "aab"}]).matches_per_event == 3
    again = behind_a_table(pairs)
    again.remove("gone")
    assert again.stats([{"x": "c" * LONG + "aab"}]).matches_per_event == 3
    delta = engine._store._parts[-1]
    assert isinstance(delta, Part) or delta.long_strings


def test_what_is_slow_in_a_delta_is_compiled_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_TINY", 100)
    engine = behind_a_table([(i, Filter([Constraint("x", "like", f"%abcd_%{i}%")])) for i in range(500)])
    assert View in parts_of(engine)
    # All of them are found, as all have the same stretch, and each is tested slowly.
    for _ in range(4):
        engine.match({"x": "abcdefg"})
    for merger in list(engine._store._mergers.values()):
        merger.join()
    assert View not in parts_of(engine)
    assert engine.match({"x": "abcd-7"}) == [7]


def test_tests_are_counted_once_however_many_are_found() -> None:
    engine = behind_a_table([(i, Filter([Constraint("x", "=", 1)])) for i in range(4_000)])
    assert engine.stats([{"x": 1}]).tests_per_event == 4_000


def test_a_delta_forgets_the_dead() -> None:
    engine = behind_a_table([(i, Filter([Constraint("x", "=", i)])) for i in range(1_000)])
    part = engine._store._parts[-1]
    assert isinstance(part, Delta)
    part._arrange()
    assert part._entries.size == 1_000
    engine.remove_many(range(500))
    part._arrange()
    assert part._entries.size == 500
    assert engine.match({"x": 499}) == []
    assert engine.match({"x": 500}) == [500]
    assert np.array_equal(part.positions_of(int(engine._store.ids.find([500])[0])), [500])


def test_a_reader_is_told_how_a_filter_was_found_that_has_gone_since() -> None:
    engine = behind_a_table([(i, Filter([Constraint("x", "=", i)])) for i in range(100)])
    before = engine._store.snapshot().parts[-1]
    engine.remove_many(range(50))
    part = engine._store._parts[-1]
    assert isinstance(part, Delta)
    part._arrange()
    wanted = Filter([Constraint("x", "=", 7)])
    assert before.found_by(7, wanted, engine._store.names) == wanted
