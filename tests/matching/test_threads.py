"""Changes and matches from several threads: every match sees one state, and nothing is lost."""

import threading

import pytest

from penstock import Matcher
from penstock.matching import store as store_module

WINDOW = 25


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SEAL", 200), ("_BUFFER", 4), ("_DELTA", 60), ("_TINY", 10), ("_SMALL", 40)):
        monkeypatch.setattr(store_module, name, value)


def test_a_match_sees_one_state() -> None:
    """Ids come and go in order, so at every moment those that are there have no gap between them."""
    engine = Matcher()
    done = threading.Event()
    problems: list[object] = []

    def change() -> None:
        try:
            for number in range(1_500):
                engine.add(number, "x > 0" if number % 3 else "x > 0 or y like '%a%'")
                if number >= WINDOW:
                    engine.remove(number - WINDOW)
        except Exception as error:
            problems.append(error)
        finally:
            done.set()

    def match() -> None:
        seen = -1
        try:
            while not done.is_set():
                found = [[int(number) for number in ids] for ids in engine.match_batch([{"x": 1}] * 3)]
                ids = found[0] or [seen]
                gapless = ids == list(range(ids[0], ids[-1] + 1)) and len(ids) <= WINDOW + 1
                if not gapless or ids[-1] < seen or found != [found[0]] * 3:
                    problems.append((seen, found))
                seen = ids[-1]
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=change), *(threading.Thread(target=match) for _ in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert engine.match({"x": 1}) == list(range(1_500 - WINDOW, 1_500))
    engine.compact()
    stats = engine.stats()
    assert (stats.ids, stats.removed, stats.parts) == (WINDOW, 0, 1)


def test_what_was_removed_is_gone_from_memory_too() -> None:
    engine = Matcher()
    for start in range(0, 4_000, 100):
        engine.add_many((f"id{start + i}", f"x = {start + i}") for i in range(100))
        engine.remove_many(f"id{start + i}" for i in range(100))
    engine.add("last", "x = 1")
    engine.compact()
    assert engine.match({"x": 1}) == ["last"]
    assert engine.stats().bytes < 20_000
