"""The engine alone: as many processes as there are cores, each with its share of the same rows.

No Spark, no JVM: Parquet is read by pyarrow, and only the matching itself is timed. What comes of it is
numbers of ids; neither texts nor rows are made from them.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from penstock.matching.matcher import Matcher

BATCH: Final = 65_536
"""Rows of a batch: as many as workers match at a time."""


class Bare(NamedTuple):
    """What the processes did: the seconds of the one that took longest, and the matches of all."""

    seconds: float
    matches: int


class Engine:
    """Processes that match."""

    def __init__(self, pool: ProcessPoolExecutor, processes: int) -> None:
        self._pool = pool
        self._processes = processes

    def run(self, blocks: list[Path], files: list[Path]) -> Bare:
        """Match all rows of some files with the blocks of a table, each process its share of the files."""
        shares = [share for at in range(self._processes) if (share := files[at :: self._processes])]
        found = list(self._pool.map(match_files, [blocks] * len(shares), shares))
        return Bare(max((one.seconds for one in found), default=0.0), sum(one.matches for one in found))


@contextmanager
def engine(processes: int) -> Iterator[Engine]:
    """Processes for as long as they are needed."""
    # Not forked: a driver of Spark has threads.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_prepare)
    try:
        yield Engine(pool, processes)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _prepare() -> None:
    # Ctrl-C is for who started us, and ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["NUMBA_NUM_THREADS"] = "1"


def match_files(blocks: list[Path], files: list[Path]) -> Bare:
    """Match the rows of some files, and time only that."""
    import pyarrow.parquet as pq

    matchers = [_loaded(block) for block in blocks]
    seconds, matches = 0.0, 0
    for file in files:
        for rows in pq.ParquetFile(file).iter_batches(BATCH, use_threads=False):
            started = time.perf_counter()
            found = [matcher.match_batch(rows) for matcher in matchers]
            seconds += time.perf_counter() - started
            matches += sum(len(one.numbers) for one in found)
    return Bare(seconds, matches)


@cache
def _loaded(block: Path) -> "Matcher":
    from penstock.matching.matcher import Matcher

    # As workers load it: none of them learns for itself.
    matcher = Matcher.load(block, learn=False)
    matcher.match_batch([])
    return matcher
