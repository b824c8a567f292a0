"""The world of a live process: the clock, chance of the system, and sockets under asyncio.

See `penstock.node.world`. One may be made before the loop runs, but calls and dials only in it.
"""

import asyncio
import random
import secrets
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from penstock.errors import NetworkError
from penstock.net.sockets import SocketProtocol, SocketWay
from penstock.node.connection import FrameConnection
from penstock.node.world import Pace, Spent, Timer

T = TypeVar("T")

_SLICE_S: Final = 0.0005
"""Seconds of a processor that work in a thread does at a time; the loop has a turn meanwhile, too."""

_PAUSE_FACTOR: Final = 9
"""After a slice it pauses so many times as long (see `penstock.node.turns.REST_FACTOR`)."""


def _monotonic() -> Callable[[], float]:
    # How long ago something was is compared between machines; one that slept must not count less than others.
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return time.monotonic


_clock: Final = _monotonic()


class AsyncioWorld:
    """Time, chance and connections, as there are."""

    def __init__(self) -> None:
        self._worker: ThreadPoolExecutor | None = None
        self._computing: set[asyncio.Future[Any]] = set()
        self._dials: set[asyncio.Task[None]] = set()

    def time(self) -> float:
        """Seconds that only ever rise, also while the machine sleeps, where the system can tell."""
        return _clock()

    def wall_time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def cpu_time(self) -> float:
        """Seconds that a processor has worked for this thread."""
        return time.thread_time()

    def compute(self, work: Callable[[Pace], T], on_done: Callable[[T, Spent], object]) -> None:
        """Do something in a thread, one thing after another; tell in the loop what came of it.

        The thread and the loop share an interpreter, so what takes long pauses most of the time.
        """
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "penstock-filters")
        doing = asyncio.get_running_loop().run_in_executor(self._worker, _timed, work)

        self._computing.add(doing)

        def done(future: "asyncio.Future[tuple[T, Spent]]") -> None:
            self._computing.discard(future)
            if not future.cancelled():
                on_done(*future.result())

        doing.add_done_callback(done)

    def close(self) -> None:
        """Have no thread left, once it has done what it is at; nobody is told what came of that."""
        for doing in list(self._computing):
            doing.cancel()
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(wait=False, cancel_futures=True)

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Call something in so many seconds; with 0, in the next round of the loop."""
        loop = asyncio.get_running_loop()
        if seconds > 0:
            return loop.call_later(seconds, callback, *arguments)
        return loop.call_soon(callback, *arguments)

    def dial(
        self, way: SocketWay, make: Callable[[], FrameConnection], on_failed: Callable[[Exception], None]
    ) -> Timer:
        """Connect to somebody."""
        task = asyncio.get_running_loop().create_task(_dial(way, make, on_failed))
        # The loop itself would let go of it.
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)
        return _Dial(task)

    def secret(self) -> str:
        """32 hexadecimal digits that nobody can guess."""
        return secrets.token_hex(16)

    def mark(self) -> int:
        """62 random bits, not all of them 0."""
        return secrets.randbits(62) | 1

    def share(self) -> float:
        """A number between 0 and 1."""
        return random.random()  # noqa: S311 - spreads tries over time


class _Pacing:
    """Has work in a thread pause after each slice of it."""

    def __init__(self) -> None:
        self._begun = self._slice_begun = time.thread_time()
        self._rested = 0.0

    def __call__(self) -> None:
        """Pause, if a slice has been done."""
        worked = time.thread_time() - self._slice_begun
        if worked >= _SLICE_S:
            time.sleep(_PAUSE_FACTOR * worked)
            self._rested += _PAUSE_FACTOR * worked
            self._slice_begun = time.thread_time()

    @property
    def spent(self) -> Spent:
        """What it has taken so far."""
        return Spent(time.thread_time() - self._begun, self._rested)


def _timed(work: Callable[[Pace], T]) -> tuple[T, Spent]:
    """Do something; what it took."""
    pacing = _Pacing()
    done = work(pacing)
    return done, pacing.spent


class _Dial:
    """A try to connect."""

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    def cancel(self) -> None:
        """End it."""
        self._task.cancel()


async def _dial(
    way: SocketWay, make: Callable[[], FrameConnection], on_failed: Callable[[Exception], None]
) -> None:
    try:
        await way.dial(lambda: SocketProtocol(make()))
    except ssl.SSLError as error:
        said = f"{way}: TLS: {error.reason or error}"
        on_failed(NetworkError(f"{said}; is it for this host, and is its authority the one named?"))
    except OSError as error:
        on_failed(NetworkError(f"{way}: {(error.strerror or str(error)).lower()}"))
    except UnicodeError as error:
        # A name that the DNS cannot have.
        on_failed(NetworkError(f"{way}: {error}"))
