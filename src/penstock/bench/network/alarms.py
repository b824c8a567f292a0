"""Waiting to within some microseconds: an event loop's own timers count in milliseconds.

Where the system has timers that are files (Linux), the loop is woken by one, and the process is idle until
then. Elsewhere the last milliseconds are waited for in naps, between which the loop has its turns.
"""

import asyncio
import ctypes
import os
import time
from types import TracebackType
from typing import Final

_NS: Final = 1_000_000_000
_MONOTONIC: Final = 1
_ABSOLUTE: Final = 1
_COARSE: Final = 2_000_000
"""Nanoseconds that an event loop's timer may be late."""
_NAP: Final = 0.0001


class _Times(ctypes.Structure):
    """When a timer goes off; the first two say how often after that: never."""

    _fields_ = (
        ("again_s", ctypes.c_long),
        ("again_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class Alarm:
    """Wakes whoever awaits it at a time of the monotonic clock. Used in a running loop, as a context."""

    def __init__(self, *, naps: bool = False) -> None:
        """`naps`: do without the system's timer."""
        self._loop = asyncio.get_running_loop()
        self._gone_off: asyncio.Future[None] | None = None
        self._libc = ctypes.CDLL(None)
        self._timer = -1
        if not naps and hasattr(self._libc, "timerfd_create"):
            self._timer = self._libc.timerfd_create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer >= 0:
            self._loop.add_reader(self._timer, self._go_off)

    def __enter__(self) -> "Alarm":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer >= 0:
            self._loop.remove_reader(self._timer)
            os.close(self._timer)

    async def until(self, when: int) -> None:
        """Sleep until this nanosecond."""
        if self._timer < 0:
            await _nap_until(when)
            return
        # It may go off a little early where the clocks are read on different processors.
        while time.monotonic_ns() < when:
            self._gone_off = self._loop.create_future()
            times = _Times(0, 0, *divmod(when, _NS))
            self._libc.timerfd_settime(self._timer, _ABSOLUTE, ctypes.byref(times), None)
            await self._gone_off

    def _go_off(self) -> None:
        os.read(self._timer, 8)
        if self._gone_off is not None and not self._gone_off.done():
            self._gone_off.set_result(None)


async def _nap_until(when: int) -> None:
    while (left := when - time.monotonic_ns()) > 0:
        if left > 2 * _COARSE:
            await asyncio.sleep((left - _COARSE) / _NS)
        else:
            time.sleep(min(left / _NS, _NAP))
            await asyncio.sleep(0)
