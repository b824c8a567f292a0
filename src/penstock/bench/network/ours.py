"""Penstock as a party: its broker as the program starts it, its clients as `penstock.connect` makes them."""

import asyncio
import re
import sys
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from penstock import __version__
from penstock.bench.network.pacing import BLOCK
from penstock.bench.network.party import CHAIN_MAX, Brokers, Publisher, Take
from penstock.bench.network.servers import Process
from penstock.bench.network.workload import Job, Workload

_PROGRAM: Final = "from penstock.cli.main import main; raise SystemExit(main())"
_LISTENING: Final = re.compile(r"listening on (penstock://\S+)")
_AHEAD: Final = 8 * BLOCK
"""Events that may wait for their acknowledgement."""
_TOGETHER: Final = 500
"""Subscriptions that are asked for at the same time."""
_LAST: Final = "penstock_bench_last = true"
"""The filter that is subscribed to after all others: who matches it has all of them."""
_LOOK_S: Final = 0.2


class Penstock:
    """Filters are predicates; an event goes to each subscription that matches it."""

    name: ClassVar[str] = "penstock"
    jobs: ClassVar[tuple[Job, ...]] = ("equalities", "ranges")
    once: ClassVar[bool] = False
    brokers_max: ClassVar[int] = CHAIN_MAX
    batching: ClassVar[str] = (
        f"publish_many, {_AHEAD:,} events under way at most; a callback for each subscription"
    )

    def missing(self) -> str | None:
        """Nothing: it is here."""
        return None

    def start(self, folder: Path, brokers: int) -> Brokers:
        """Start brokers without gateways, each of which connects to the one before."""
        return _Brokers(folder, brokers)

    async def publisher(self, url: str) -> Publisher:
        """Connect a client that publishes, once the last subscription has come to its broker."""
        net = await _connect(url, "publisher")
        while not _delivered(await net.trace({"penstock_bench_last": True})):
            await asyncio.sleep(_LOOK_S)
        return _Publisher(net)

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
            await net.subscribe(_LAST, callback=lambda _event: None)
            ready.set()
            await asyncio.Event().wait()
        finally:
            await net.close()


def _delivered(report: dict[str, Any] | None) -> int:
    """To how many clients an event was delivered, as the report of its way says."""
    if report is None:
        return 0
    return int(report["delivered"]) + sum(_delivered(sent["report"]) for sent in report["sent_to"])


class _Brokers:
    version = __version__

    def __init__(self, folder: Path, brokers: int) -> None:
        self._running: list[Process] = []
        urls: list[str] = []
        try:
            for number in range(1, brokers + 1):
                peers = ("--peer", urls[-1]) if urls else ()
                urls.append(self._start(f"penstock-{number}", peers, folder))
        except BaseException:
            self.stop()
            raise
        self.url, self.far_url = urls[0], urls[-1]

    def _start(self, name: str, peers: tuple[str, ...], folder: Path) -> str:
        options = ("--name", name, "--listen", "penstock://127.0.0.1:0", "--gateway", "none", *peers)
        process = Process(name, (sys.executable, "-c", _PROGRAM, "broker", *options), folder, {})
        self._running.append(process)
        return process.wait_for(lambda: _LISTENING.search(process.said()))[1]

    def stop(self) -> None:
        for process in self._running:
            process.stop()


class _Publisher:
    def __init__(self, net: Any) -> None:
        self._net = net
        self._waiting: deque[tuple[asyncio.Task[None], int]] = deque()
        self._events = 0
        """Of those that wait."""

    async def publish(self, events: list[dict[str, str | int | float]]) -> None:
        self._waiting.append((asyncio.ensure_future(self._net.publish_many(events)), len(events)))
        self._events += len(events)
        # Give it a turn, that it is sent before those that come after.
        await asyncio.sleep(0)
        while self._events > _AHEAD or (self._waiting and self._waiting[0][0].done()):
            await self._first()

    async def _first(self) -> None:
        block, events = self._waiting.popleft()
        self._events -= events
        await block

    async def flush(self) -> None:
        while self._waiting:
            await self._first()

    async def close(self) -> None:
        await self._net.close()


async def _connect(url: str, name: str) -> Any:
    connect = import_module("penstock").connect
    return await connect(url, name=name)
