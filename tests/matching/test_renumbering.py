"""Names that no filter has any more are let go by compact, and nobody who is matching notices."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from penstock import Matcher
from penstock.errors import LimitError
from penstock.matching import store as store_module


def names_of(engine: Matcher) -> list[str]:
    return sorted(engine.names)


def test_only_names_of_living_filters_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "TABLE_ATTRIBUTES_MAX", 10)
    engine = Matcher([("stays", "kept = 1")])
    for turn in range(5):
        engine.add_many((i, f"name{turn}_{i} = 1") for i in range(8))
        with pytest.raises(LimitError):
            engine.add_many([("more", "another = 1 and one = 1")])
        assert engine.match({f"name{turn}_3": 1, "kept": 1}) == [3, "stays"]
        engine.remove_many(range(8))
        engine.compact()
        assert names_of(engine) == ["kept"]
    assert engine.match({"kept": 1}) == ["stays"]
    engine.remove("stays")
    engine.compact()
    assert names_of(engine) == []
    engine.add("again", "kept = 2")
    assert engine.match({"kept": 2}) == ["again"]


def test_every_input_is_read_with_the_new_numbers() -> None:
    engine = Matcher([(i, f"a{i} = 1") for i in range(4)])
    table = pa.table({f"a{i}": [1] for i in range(8)})
    line = b'{"a0": 1, "a1": 1, "a2": 1, "a3": 1, "a4": 1, "a5": 1}\n'
    assert list(engine.match_json(line)) == [[0, 1, 2, 3]]
    engine.remove_many([0, 1])
    engine.compact()
    # As many names as before, and other ones.
    engine.add_many([(4, "a4 = 1"), (5, "a5 = 1")])
    assert list(engine.match_json(line)) == [[2, 3, 4, 5]]
    assert list(engine.match_batch(table)) == [[2, 3, 4, 5]]
    assert engine.match({"a1": 1, "a5": 1}) == [5]
    assert [one.id for one in engine.explain({"a1": 1, "a2": 1})] == [2]
    assert [f.to_sql() for f in engine.filters(5)] == ["a5 = 1"]
    engine.remove(5, "a5 = 1")
    assert list(engine.match_json(line)) == [[2, 3, 4]]


def test_a_snapshot_keeps_its_names() -> None:
    engine = Matcher([(i, f"a{i} = 1") for i in range(100)])
    engine.compact()
    engine.add_many((i, f"a{i} = 1") for i in range(100, 150))
    before = engine._store.snapshot()
    engine.remove_many(range(90))
    engine.compact()
    engine.add_many((f"b{i}", f"b{i} = 1") for i in range(100))
    events = [{"a3": 1}, {"a95": 1}, {"a120": 1}, {"b7": 1}]
    batch = engine._batches(events, "refuse", before)[0]
    before.sample.see(batch)
    assert list(engine._match(before, batch)) == [[3], [95], [120], []]
    assert list(engine.match_batch(events)) == [[], [95], [120], ["b7"]]
    # What was seen with the old numbers is not taken for something else.
    assert engine.stats().tests_per_event <= 1


def test_what_was_learnt_is_known_by_the_new_numbers() -> None:
    engine = Matcher([(i, f"gone{i} = 1") for i in range(20)])
    engine.add("stays", "kept = 1 and text = 'abc'")
    engine.match_batch([{"gone3": 1, "kept": 1, "text": "abc"}, {"text": "b"}, {"gone7": 1}])
    engine.match({"kept": 1, "gone3": 1})
    engine.remove_many(range(20))
    engine.compact()
    stats = engine.stats()
    assert (stats.events, stats.matches_per_event) == (4, 0.25)


def test_names_come_and_go_while_others_match() -> None:
    engine = Matcher([("stays", "kept = 1")])
    done = threading.Event()

    def change() -> None:
        try:
            for turn in range(60):
                # Both ways of adding: many at once are encoded without the lock.
                numbers = range(100 if turn % 2 else 10)
                engine.add_many((i, f"n{turn}_{i} = 1") for i in numbers)
                assert engine.match({f"n{turn}_5": 1}) == [5]
                engine.remove_many(numbers)
        finally:
            done.set()

    def compact() -> None:
        while not done.is_set():
            engine.compact()

    def match() -> None:
        while not done.is_set():
            assert engine.match({"kept": 1, "n3_1": 2}) == ["stays"]
            assert list(engine.match_json(b'{"kept": 1, "n3_1": 2}\n')) == [["stays"]]
            engine.stats()

    with ThreadPoolExecutor(3) as pool:
        for running in [pool.submit(task) for task in (change, compact, match)]:
            running.result()
    engine.compact()
    assert names_of(engine) == ["kept"]
