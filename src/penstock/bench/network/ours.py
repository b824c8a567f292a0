"""Penstock as a party: its broker as the program starts it, its clients as `penstock.connect` makes them."""

import asyncio
import re
import sys
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from penstock import __version__
from penstock.bench.network.party import Broker, Publisher, Take
from penstock.bench.network.servers import Process
from penstock.bench.network.workload import Job, Workload

_PROGRAM: Final = "from penstock.cli.main import main; raise SystemExit(main())"
_LISTENING: Final = re.compile(r"listening on (penstock://\S+)")
_AHEAD: Final = 8
"""Blocks of events that may wait for their acknowledgement."""
_TOGETHER: Final = 500
"""Subscriptions that are asked for at the same time."""


class Penstock:
    """Filters are predicates; an event goes to each subscription that matches it."""

    name: ClassVar[str] = "penstock"
    jobs: ClassVar[tuple[Job, ...]] = ("equalities", "ranges")
    once: ClassVar[bool] = False
    batching: ClassVar[str] = (
        f"publish_many, {_AHEAD} blocks under way at most; a callback for each subscription"
    )

    def missing(self) -> str | None:
        """Nothing: it is here."""
        return None

    def start(self, folder: Path) -> Broker:
        """Start a broker without a gateway."""
        options = ("--name", "bench", "--listen", "penstock://127.0.0.1:0", "--gateway", "none")
        process = Process("penstock", (sys.executable, "-c", _PROGRAM, "broker", *options), folder, {})
        return _Broker(process)

    async def publisher(self, url: str) -> Publisher:
        """Connect a client that publishes."""
        return _Publisher(await _connect(url, "publisher"))

    async def receive(self, url: str, workload: Workload, take: Take, ready: asyncio.Event) -> None:
        """Subscribe with a callback for each subscription."""

        def on_event(event: Any) -> None:
            take(event["seq"], event["sent"])

        net = await _connect(url, "subscriber")
        try:
            filters = workload.filters
            for begin in range(0, len(filters), _TOGETHER):
                part = filters[begin : begin + _TOGETHER]
                await asyncio.gather(*(net.subscribe(text, callback=on_event) for text in part))
            ready.set()
            await asyncio.Event().wait()
        finally:
            await net.close()


class _Broker:
    version = __version__

    def __init__(self, process: Process) -> None:
        self._process = process
        try:
            self.url = process.wait_for(lambda: _LISTENING.search(process.said()))[1]
        except BaseException:
            process.stop()
            raise

    def stop(self) -> None:
        self._process.stop()


class _Publisher:
    def __init__(self, net: Any) -> None:
        self._net = net
        self._waiting: deque[asyncio.Task[None]] = deque()

    async def publish(self, events: list[dict[str, str | int | float]]) -> None:
        self._waiting.append(asyncio.ensure_future(self._net.publish_many(events)))
        # Give it a turn, that it is sent before those that come after.
        await asyncio.sleep(0)
        while len(self._waiting) > _AHEAD or (self._waiting and self._waiting[0].done()):
            await self._waiting.popleft()

    async def flush(self) -> None:
        while self._waiting:
            await self._waiting.popleft()

    async def close(self) -> None:
        await self._net.close()


async def _connect(url: str, name: str) -> Any:
    connect = import_module("penstock").connect
    return await connect(url, name=name)
