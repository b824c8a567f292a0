"""Where a client runs: in an event loop of its own, in a thread of its own, which can be made to stand still.

While it does, the client reads nothing and answers nothing, its connections stay, and time goes on: it is to
the client and to its broker as if its process were stopped and continued.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

_END_PATIENCE: Final = 5.0


class Runner(Protocol):
    """Runs what a client does."""

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done, and wait for it."""

    def stand_still(self, seconds: float) -> None:
        """Have the client do nothing for so long, from now on."""

    async def close(self) -> None:
        """Run nothing any more."""


NewRunner = Callable[[], Runner]


class Here:
    """In the loop of whoever asks: it cannot stand still."""

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done, and wait for it."""
        return await work

    def stand_still(self, seconds: float) -> None:
        """Nothing: the others would stand still, too."""

    async def close(self) -> None:
        """Nothing is left."""


class Apart:
    """In a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torture client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done there, and wait for it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stand_still(self, seconds: float) -> None:
        """Have its loop do nothing for so long; less, if all is to end."""
        self._loop.call_soon_threadsafe(self._ending.wait, seconds)

    async def close(self) -> None:
        """End the loop and the thread."""
        self._ending.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _END_PATIENCE)
