"""`python -m penstock.matching.compiling`: the process that compiles kernels for all others.

One at a time: whoever comes second waits for the first, and finds nothing left to do.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.matching.arrival import TIMEOUT_S

LOCK: Final = "penstock-kernels.lock"
"""The file that is locked; it has the number of the process that compiles, or did last."""


def compile_all(say: Callable[[str], None], jobs: int | None = None) -> None:
    """Compile all kernels that are not on disk, several at a time."""
    from penstock.matching.kernels import signatures
    from penstock.matching.kernels.caching import folder

    with _alone(folder()):
        todo = signatures.missing()
        if todo:
            jobs = min(jobs or len(_cores()), len(todo))
            # Not forked: who calls this may have threads.
            with multiprocessing.get_context("spawn").Pool(jobs) as pool:
                for done, name in enumerate(
                    pool.imap_unordered(signatures.compile_line, todo, chunksize=1), 1
                ):
                    say(f"{name.rpartition(':')[2]} ({done} of {len(todo)})")
        signatures.note_completeness()


@contextmanager
def _alone(place: Path | None) -> Iterator[None]:
    """Keep other processes from compiling into the folder. The lock goes with the process that holds it."""
    if place is None:
        yield
        return
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (place / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _cores() -> "set[int] | range":
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _main() -> int:
    if hasattr(signal, "alarm"):
        signal.alarm(TIMEOUT_S)
    compile_all(lambda _what: None)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
