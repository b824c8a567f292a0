"""Work on several processes, its results in the order of what was given."""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Final, TypeVar

from penstock.errors import PenstockError

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD: Final = 2
"""Items that wait for each process, so that none is idle."""


def in_order(work: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Iterator[Result]:
    """Yield the result for each item, in order; with one job in this process, else in so many others.

    Processes are started afresh (spawned) on every system: what they compute then depends on the item alone,
    and not on what this process has done before. `work` is a function of a module.
    """
    jobs = min(jobs, len(items))
    if jobs <= 1:
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    left = deque(items)
    pending: deque[Future[Result]] = deque()
    try:
        _start(pool, work, left, pending, jobs * _AHEAD)
        while pending:
            yield pending.popleft().result()
            if left:
                pending.append(pool.submit(work, left.popleft()))
    except BrokenProcessPool:
        raise PenstockError(
            "a process that worked for this one was ended, perhaps for want of memory; use fewer --jobs"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start(
    pool: ProcessPoolExecutor,
    work: Callable[[Item], Result],
    left: deque[Item],
    pending: deque[Future[Result]],
    count: int,
) -> None:
    """Submit the first items, which starts the processes.

    Ctrl-C goes to all processes of a terminal; the others are to leave it to this one, and those that are
    started while it is ignored ignore it.
    """
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:
        before = None  # not in the main thread, where signals are not ours
    try:
        for _ in range(min(count, len(left))):
            pending.append(pool.submit(work, left.popleft()))
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
