"""`python -m penstock.matching.compiling`: the process that compiles kernels for all others.

It is given the lock of their folder, so it is the only one (`locking`). It gives way to programs that work.
"""

import argparse
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.matching import locking
from penstock.matching.arrival import TIMEOUT_S

NICE: Final = 5
"""How far the background gives way: whoever waits for kernels on an idle machine does not notice."""


def compile_all(say: Callable[[str], None], jobs: int | None = None) -> None:
    """Compile all kernels that are not on disk, several at a time; wait for whoever does so already."""
    from penstock.matching.kernels.caching import folder

    with _alone(folder(), say):
        _compile(say, jobs)


def _compile(say: Callable[[str], None], jobs: int | None = None) -> None:
    from penstock.matching.kernels import signatures

    todo = signatures.missing()
    if todo:
        jobs = min(jobs or len(_cores()), len(todo))
        # Not forked: who calls this may have threads.
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            for done, name in enumerate(pool.imap_unordered(signatures.compile_line, todo, chunksize=1), 1):
                say(f"{name.rpartition(':')[2]} ({done} of {len(todo)})")
    signatures.note_completeness()


@contextmanager
def _alone(place: Path | None, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other processes from compiling into the folder."""
    if place is None:
        yield
        return
    try:
        lock = locking.take(place)
    except BlockingIOError:
        say("another process is compiling them")
        lock = locking.take(place, wait=True)
    with lock:
        locking.sign(lock)
        yield


def _cores() -> "set[int] | range":
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("lock", type=int, help="the file descriptor of the lock")
    given = parser.parse_args()
    if hasattr(signal, "alarm"):
        signal.alarm(TIMEOUT_S)
    if hasattr(os, "nice"):
        os.nice(NICE)
    with locking.taken_over(given.lock):
        _compile(lambda _what: None)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
