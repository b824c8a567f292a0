"""Hostile clients: in a process of their own they send the worst filters as fast as they are answered."""

import asyncio
import signal
from contextlib import suppress
from ctypes import c_int64
from multiprocessing import get_context
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.net.serve import loop_factory
from penstock.workloads.worst import worst_filters

AHEAD: Final = 32
"""Filters that each has under way: more than it is served, so that it always waits."""

_END_SECONDS: Final = 10.0
_STEP: Final = 0.05


class Attack:
    """Hostile clients that run from `start` to `stop`."""

    def __init__(self, url: str, clients: int) -> None:
        context = get_context("spawn")
        self._answered: Any = context.Value(c_int64, 0, lock=False)
        self._ready, self._end = context.Event(), context.Event()
        self._process = context.Process(
            target=_run, args=(url, clients, self._answered, self._ready, self._end), daemon=True
        )

    @property
    def answered(self) -> int:
        """How many filters were subscribed to or refused."""
        return int(self._answered.value)

    def start(self, seconds: float = 30.0) -> None:
        """Begin; return when all are connected. Raises PenstockError."""
        self._process.start()
        if not self._ready.wait(seconds):
            self.stop()
            raise PenstockError("the hostile clients could not connect")

    def stop(self) -> None:
        """End."""
        self._end.set()
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _run(url: str, clients: int, answered: Any, ready: Any, end: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_attack(url, clients, answered, ready, end))


async def _attack(url: str, clients: int, answered: Any, ready: Any, end: Any) -> None:
    from penstock import connect

    nets = [await connect(url, name=f"hostile{number}") for number in range(clients)]
    texts = worst_filters()
    for net in nets:
        # What is wrong with a filter is for the broker to find out.
        net.parses = False
    tasks = [asyncio.ensure_future(_send(net, texts, answered)) for net in nets for _ in range(AHEAD)]
    ready.set()
    while not end.is_set():
        await asyncio.sleep(_STEP)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(net.close() for net in nets), return_exceptions=True)


async def _send(net: Any, texts: Any, answered: Any) -> None:
    while True:
        with suppress(PenstockError):
            await net.subscribe(next(texts), callback=_ignore)
        answered.value += 1


def _ignore(_event: Any) -> None:
    """It is not after events."""
