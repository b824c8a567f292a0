"""Changes and matches from several threads: every match sees one state, and nothing is lost."""

import os
import subprocess
import sys
import threading

import pytest

from patience import HANGS
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


PROGRAM = """
import threading, time
from penstock import Matcher
from penstock.matching import store

for name, value in (("_BUFFER", 4), ("_DELTA", 60), ("_TINY", 10), ("_SMALL", 40)):
    setattr(store, name, value)
engine = Matcher([("first", "x = 0")])
engine.match({"x": 1})
"""


def ends_with(program: str) -> str:
    """What a program says in the end, which has to come."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_program_that_lives_on_in_another_thread_goes_on_merging() -> None:
    said = ends_with("""
def live_on():
    threading.main_thread().join()
    for i in range(0, 1_000, 50):
        engine.add_many((j, f"x = {j}") for j in range(i, i + 50))
    for _ in range(3_000):
        if len(engine._store.snapshot().parts) <= 3:
            break
        time.sleep(0.01)
    print(len(engine._store.snapshot().parts) <= 3, engine.match({"x": 7}))

threading.Thread(target=live_on).start()
""")
    assert said == "True [7]\n"


def test_a_program_ends_however_much_is_left_to_merge() -> None:
    said = ends_with("""
engine._store._to_merge = lambda kind: engine._store._parts[:1]
engine._store.tidy()
print(len(engine._store._mergers))
""")
    assert said == "2\n"


def test_nothing_is_begun_when_a_program_has_ended() -> None:
    said = ends_with("""
import atexit

def last():
    engine.add_many((j, f"x = {j}") for j in range(500))
    engine._store._delta = None
    engine.add_many((j, f"x = {j}") for j in range(500))
    print(len(engine._store._mergers), engine.match({"x": 7}))
    engine.compact()
    print(engine.stats().parts)

atexit.register(last)
""")
    assert said == "0 [7]\n1\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_is_forked_while_a_merge_runs_goes_on() -> None:
    program = """if True:
        import os, sys, threading
        from penstock import Matcher
        m = Matcher((i, f"x = {i}") for i in range(3000))
        stop = threading.Event()
        def churn():
            at = 3000
            while not stop.is_set():
                m.add_many((i, f"x = {i} and y > 1") for i in range(at, at + 500))
                at += 500
        threading.Thread(target=churn, daemon=True).start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                m.add("mine", "z = 1")
                os._exit(0 if m.match({"z": 1}) == ["mine"] else 1)
            if os.waitpid(child, 0)[1] != 0:
                print("wrong", flush=True)
        stop.set()
        print("done", flush=True)
        os._exit(0)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, timeout=HANGS, check=False
    )
    assert (done.stdout, done.returncode) == (b"done\n", 0), done.stderr.decode()[-2000:]
