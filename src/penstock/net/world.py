"""The world of a live process: the clock, chance of the system, and sockets under asyncio.

See `penstock.node.world`. One may be made before the loop runs, but calls and dials only in it.
"""

import asyncio
import random
import secrets
import ssl
import time
from collections.abc import Callable
from typing import Any

from penstock.errors import NetworkError
from penstock.net.sockets import SocketProtocol, SocketWay
from penstock.node.connection import FrameConnection
from penstock.node.world import Timer


class AsyncioWorld:
    """Time, chance and connections, as there are."""

    def __init__(self) -> None:
        self._dials: set[asyncio.Task[None]] = set()

    def time(self) -> float:
        """Seconds that only ever rise."""
        return time.monotonic()

    def wall_time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

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
