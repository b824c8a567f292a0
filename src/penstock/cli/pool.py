"""Work on several threads, its results in the order of what was given; never much of it at once."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAITING: Final = 2
"""Items that are ready, or done and waiting for their turn, besides one for each thread."""


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_flight_max(jobs: int) -> int:
    """How many items there are at most that have been taken and not been given back."""
    return 1 if jobs == 1 else jobs + _WAITING


def in_order(work: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> Iterator[Result]:
    """Yield the result for each item, in order; with one job in this thread, else in so many others.

    Errors keep the order too: one that comes from the items is raised after the results, or the error, of
    those before it.
    """
    if jobs == 1:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    failure: Exception | None = None
    source = iter(items)
    with ThreadPoolExecutor(jobs, "penstock-match") as pool:
        try:
            while failure is None:
                try:
                    item = next(source)
                except StopIteration:
                    break
                except Exception as error:
                    failure = error
                    break
                pending.append(pool.submit(work, item))
                if len(pending) == in_flight_max(jobs):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for left in pending:
                left.cancel()
    if failure is not None:
        raise failure
