"""Ordinary clients: each publishes events that it has subscribed to, and notes how long they took."""

import asyncio
import time
from array import array
from typing import Any, Final

import msgspec
import numpy as np

from penstock.bench.network.pacing import NS, percentile

_TOGETHER: Final = 25
"""Clients that connect at the same time."""

_SUBSCRIBE_EVERY: Final = 20
"""A client subscribes and unsubscribes once in so many of its events."""

_PATIENCE: Final = 30.0
"""Seconds for what is still under way at the end of a round."""


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """Round trips of events, and of subscriptions, in milliseconds."""

    events: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    subscriptions: int
    subscribe_p50_ms: float
    subscribe_p99_ms: float
    lost: int
    """Events that did not come in time."""


class Crowd:
    """Clients with a subscription each. Opened once; `measure` is one round."""

    def __init__(self, url: str, clients: int, rate: float) -> None:
        self._url, self._count, self._rate = url, clients, rate
        self._clients: list[Any] = []
        self._delays = array("q")
        self._asked = array("q")
        self._owed = 0

    async def open(self) -> None:
        """Connect and subscribe."""
        for begin in range(0, self._count, _TOGETHER):
            numbers = range(begin, min(self._count, begin + _TOGETHER))
            self._clients += await asyncio.gather(*(self._open(number) for number in numbers))

    async def _open(self, number: int) -> Any:
        from penstock import connect

        client = await connect(self._url, name=f"c{number}")
        await client.advertise(f"client = {number}")
        await client.subscribe(f"client = {number}", callback=self._take)
        return client

    def _take(self, event: Any) -> None:
        self._delays.append(time.monotonic_ns() - event["due"])
        self._owed -= 1

    async def close(self) -> None:
        """Say goodbye."""
        await asyncio.gather(*(client.close() for client in self._clients))

    async def measure(self, seconds: float) -> Delays:
        """Publish for a while at an even rate; what it took until the events came back."""
        del self._delays[:], self._asked[:]
        self._owed = 0
        start = time.monotonic_ns() + NS // 10
        end = start + round(seconds * NS)
        await asyncio.gather(*(self._act(number, start, end) for number in range(self._count)))
        given_up = time.monotonic() + _PATIENCE
        while self._owed > 0 and time.monotonic() < given_up:
            await asyncio.sleep(0.01)
        events, asked = np.array(self._delays), np.array(self._asked)
        return Delays(
            events=len(events),
            p50_ms=percentile(events, 0.5),
            p99_ms=percentile(events, 0.99),
            max_ms=percentile(events, 1.0),
            subscriptions=len(asked),
            subscribe_p50_ms=percentile(asked, 0.5),
            subscribe_p99_ms=percentile(asked, 0.99),
            lost=max(0, self._owed),
        )

    async def _act(self, number: int, start: int, end: int) -> None:
        """What one client does in a round. It is behind the others by its share of a gap."""
        client = self._clients[number]
        gap = NS / self._rate
        due, turn = start + gap * number / self._count, number
        while due < end:
            await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / NS))
            self._owed += 1
            client.publish_nowait({"client": number, "due": round(due)})
            turn += 1
            if turn % _SUBSCRIBE_EVERY == 0:
                await self._ask(client, turn)
            due += gap

    async def _ask(self, client: Any, turn: int) -> None:
        begun = time.monotonic_ns()
        subscription = await client.subscribe(f"other = {turn} and price > 10", callback=_ignore)
        self._asked.append(time.monotonic_ns() - begun)
        await subscription.unsubscribe()


def _ignore(_event: Any) -> None:
    """Nothing comes here."""
