"""The engine as a broker uses it finds what trying every filter does, however names of attributes come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.needs import Scan
from penstock.filters.parsing import parse
from penstock.model.events import Event
from penstock.model.schema import Schema
from penstock.net import matching
from penstock.net.matching import EngineMatching
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.messages import Publish

NAMES = st.integers(0, 7).map("n{}".format)
CHANGES = st.lists(st.tuples(st.booleans(), NAMES, NAMES, st.integers(0, 2)), max_size=60)
EVENTS = [Event({f"n{n}": n % 3 for n in some}) for some in ([0, 1, 2], [3, 4], [5], range(8), [1, 7])]
BLOCK = Block.of(Header("", ""), range(len(EVENTS)), [encode_event(event) for event in EVENTS])


def found(engine: EngineMatching | Scan) -> list[set[str]]:
    answer = engine.match_block(BLOCK)
    texts: list[set[str]] = []
    for first, last in zip(answer.offsets, answer.offsets[1:], strict=False):
        numbers = answer.filters[first:last].tolist()
        known = [predicate for n in numbers if (predicate := answer.known[n]) is not None]
        assert len(set(known)) == len(known)
        texts.append({predicate.to_sql() for predicate in known})
    return texts


@given(CHANGES)
def test_filters_that_come_and_go_are_found_in_whichever_matcher_they_are(
    changes: list[tuple[bool, str, str, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_NAMES_MAX", 3)
        patch.setattr(matching, "_REMOVED_TOGETHER", 3)
        engine, plain, known = EngineMatching(), Scan(), set()
        for comes, one, other, value in changes:
            predicate = parse(f"{one} = {value} and {other} >= 0")
            if comes and predicate not in known:
                known.add(predicate)
                engine.add(predicate)
                plain.add(predicate)
            elif not comes and known:
                gone = min(known, key=str)
                known.remove(gone)
                engine.remove(gone)
                plain.remove(gone)
            assert len(engine) == len(plain) == len(known)
            assert found(engine) == found(plain)
        for event in EVENTS:
            assert set(engine.match(event)) == set(plain.match(event))


def test_names_of_filters_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_NAMES_MAX", 50)
    engine = EngineMatching()
    # One in twenty stays, so that no matcher empties by itself.
    stay = [parse(f"n{n} = 1") for n in range(0, 2_000, 20)]
    for n in range(2_000):
        predicate = parse(f"n{n} = 1")
        engine.add(predicate)
        if n % 20:
            engine.remove(predicate)
    assert sum(shard.matcher.name_count for shard in engine._shards) < 600
    assert [set(engine.match(Event({f"n{n}": 1}))) for n in range(0, 2_000, 20)] == [{one} for one in stay]


def test_a_matcher_with_many_names_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_NAMES_MAX", 50)
    engine = EngineMatching()
    for n in range(500):
        engine.add(parse(f"n{n} = 1"))
    assert len(engine._shards) == 10
    assert max(shard.matcher.name_count for shard in engine._shards) == 51
    for n in range(500):
        engine.remove(parse(f"n{n} = 1"))
    assert len(engine._shards) == 1


def test_clauses_of_filters_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_DEAD_MAX", 100)
    engine, stays = EngineMatching(), parse("x > 5")
    engine.add(stays)
    for number in range(30):
        predicate = parse(f"{' and '.join(f'(a{i} != 1 or b{i} != 1)' for i in range(12))} and q != {number}")
        assert predicate.filters[0].clauses
        engine.add(predicate)
        engine.remove(predicate)
    event = Event({"x": 6, "q": 1})
    block = Block.of(Header("", ""), [1], [encode_event(event)])
    # Also if nothing more comes but events.
    for _ in range(3):
        assert engine.match_block(block).filters.size == 1
    assert len(engine._shards) == 1
    assert engine._shards[0]._dead <= 100
    assert engine.match(event) == [stays]


def test_a_predicate_that_is_asked_for_once_has_no_matcher_made_for_it() -> None:
    engine, predicate = EngineMatching(), parse("n1 = 1")
    expected = [predicate.matches(event) for event in EVENTS]
    for _ in range(matching._OFTEN):
        assert engine.holds(predicate, BLOCK).tolist() == expected
        assert isinstance(engine._checkers[predicate], int)
    # One that is asked for often has.
    assert engine.holds(predicate, BLOCK).tolist() == expected
    assert not isinstance(engine._checkers[predicate], int)
    assert engine.holds(predicate, BLOCK).tolist() == expected


def test_matchers_of_a_broker_add_up_what_filters_ask_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_NAMES_MAX", 5)
    monkeypatch.setattr(matching, "_PATIENCE", 5)
    engine = EngineMatching()
    filters = [parse(f"x > {n} and n{n} is null and gone = true") for n in range(40)]
    for predicate in filters:
        engine.add(predicate)
    assert len(engine._shards) > 3
    data = [encode_event(Event({"x": "text", "y": 1}))] * 5
    engine.match_block(Block.of(Header("", ""), range(5), data))
    schema = Schema.from_json({"properties": {"y": {"type": "number"}}})
    told = {(found.attribute, found.problem): found for found, _filters in engine.disagreements(schema)}
    assert [told[key].rules for key in (("gone", "unknown"), ("x", "family"))] == [40, 40]
    assert (told["x", "family"].seen, told["gone", "unknown"].events) == ({"string": 5}, 5)
    assert (told["x", "unlisted"].rules, told["x", "unlisted"].seen) == (0, {"string": 5})
    concerned = {one.found.attribute: one.filters for one in engine.disagreements()}
    assert set(concerned["gone"]) == set(concerned["x"]) == set(filters)
    assert len(told["x", "family"].ids) == 10


def test_events_that_came_from_elsewhere_count_only_where_all_of_them_come() -> None:
    for sees_all, seen in ((False, 0), (True, 5)):
        engine = EngineMatching()
        engine.sees_all = sees_all
        engine.add(parse("x > 5"))
        for hops, count in ((0, 3), (1, 5)):
            data = [encode_event(Event({"x": 1}))] * count
            engine.match_block(Block.of(Header("", "", hops), range(count), data))
        assert engine._shards[0].matcher.observed.events == 3 + seen


def test_text_is_a_time_where_the_schema_of_a_broker_says_so_and_not_where_rules_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "_PATIENCE", 5)
    schema = Schema.from_json({"properties": {"at": {"type": "string", "format": "date-time"}}})
    late = parse("at > timestamp '2024-01-01'")
    events = [Event({"at": at}) for at in ("2024-05-05", "2023-05-05T00:00:00Z", "soon")]
    for known, expected in ((schema, [True, False, False]), (None, [False] * 3)):
        engine = EngineMatching(known)
        engine.add(late)
        assert [engine.match(event) == [late] for event in events] == expected
        assert [engine.holds(late, Publish(event)) for event in events] == expected
        for many in (1, 30):
            block = Block.of(
                Header("", ""), range(3 * many), [encode_event(event) for event in events * many]
            )
            for _ in range(5):
                assert list(engine.holds(late, block)) == expected * many
        assert np.diff(engine.match_block(block).offsets).tolist() == [int(one) for one in expected * 30]
    assert "text is read as a time where a schema says that it is one" in str(engine.disagreements()[0].found)


def test_elements_of_lists_are_looked_into_as_attributes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_PATIENCE", 5)
    item = {"properties": {"sku": {"type": "string"}, "at": {"type": "string", "format": "date-time"}}}
    schema = Schema.from_json({"properties": {"items": {"type": "array", "items": item}}})
    late, slip = parse("any(items where at > timestamp '2024-01-01')"), parse("any(items where skuu = 'A')")
    events = [Event({"items": [{"sku": 5, "at": at}]}) for at in ("2024-05-05", "2023-05-05", "soon")]
    block = Block.of(Header("", ""), range(15), [encode_event(event) for event in events * 5])
    elsewhere = Block.of(Header("", "", 1), [1], [encode_event(Event({"items": [{"skuu": 1}]}))])
    for known, expected in ((schema, [True, False, False]), (None, [False] * 3)):
        engine = EngineMatching(known)
        for predicate in (late, slip, parse("any(items where sku = 'A')")):
            engine.add(predicate)
        assert [engine.match(event) == [late] for event in events] == expected
        assert [engine.holds(late, Publish(event)) for event in events] == expected
        assert np.diff(engine.match_block(block).offsets).tolist() == [int(one) for one in expected * 5]
        # What comes from elsewhere comes because it matches, and counts for nothing.
        engine.match_block(elsewhere)
        told = {(one.attribute, one.problem): one for one, _filters in engine.disagreements(known)}
        assert told["items[].skuu", "unknown"].suggestion == "items[].sku"
        assert told["items[].sku", "family"].seen == {"number": 18}
        assert told["items[].sku", "family"].ids == ("any(items where sku = 'A')",)
        if known is None:
            assert "text is read as a time where a schema says" in str(told["items[].at", "family"])
        else:
            assert told["items[].sku", "misfit"].detail == "string"
            assert told["items[].at", "misfit"].seen == {"string": 6}
        # Filters that may match what is published elsewhere are left out.
        some = {one.attribute for one, _filters in engine.disagreements(None, [slip])}
        assert "items[].skuu" not in some
