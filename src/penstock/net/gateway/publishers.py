"""The connections that requests publish through: one a token, kept for a while.

A connection a request would advertise and withdraw each time, which the whole network hears of, and would let
quotas begin anew. One is kept only so long, so that a token that has expired is not good for ever.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from penstock.model.events import Event
from penstock.net.gateway.acting import acting, connecting
from penstock.net.gateway.ports import Connection, Connector, GatewayLimits
from penstock.net.gateway.problems import RefusedError
from penstock.node.client.outlet import Ack


class _Publisher:
    """A connection, or the attempt to have one, and how many requests use it."""

    def __init__(self, attempt: "asyncio.Task[Connection]", since: float) -> None:
        self.attempt = attempt
        self.since = since
        self.users = 0

    def is_usable(self) -> bool:
        """Whether there is, or may yet be, a connection."""
        attempt = self.attempt
        if not attempt.done():
            return True
        return not attempt.cancelled() and attempt.exception() is None and attempt.result().is_connected

    async def close(self) -> None:
        """End the connection, if there is one."""
        (result,) = await asyncio.gather(self.attempt, return_exceptions=True)
        if not isinstance(result, BaseException):
            await result.close()


class Publishers:
    """Publishes events of requests, each with the rights of its token."""

    def __init__(
        self, connector: Connector, limits: GatewayLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connector = connector
        self._limits = limits
        self._clock = clock
        self._publishers: dict[str | None, _Publisher] = {}

    async def publish(self, token: str | None, events: Sequence[Event], ack: Ack = "accepted") -> None:
        """Publish; returns when the broker has acknowledged all."""
        async with self._borrowed(token) as connection, acting(self._limits):
            await connection.publish_many(events, ack=ack)

    async def close(self) -> None:
        """End all connections."""
        publishers = list(self._publishers.values())
        self._publishers.clear()
        for publisher in publishers:
            await publisher.close()

    @asynccontextmanager
    async def _borrowed(self, token: str | None) -> AsyncIterator[Connection]:
        publisher = await self._publisher(token)
        publisher.users += 1
        try:
            # Shielded: other requests may be waiting for the same attempt.
            yield await asyncio.shield(publisher.attempt)
        finally:
            publisher.users -= 1
            if not publisher.is_usable():
                self._forget(token, publisher)
            if self._publishers.get(token) is not publisher and not publisher.users:
                await publisher.close()

    async def _publisher(self, token: str | None) -> _Publisher:
        now = self._clock()
        known = self._publishers.get(token)
        if known is not None:
            if known.is_usable() and now - known.since < self._limits.publisher_age_s:
                return known
            await self._retire(token, known)
        await self._make_room()
        known = self._publishers.get(token)
        if known is None:
            attempt = asyncio.create_task(self._connect(token))
            known = self._publishers[token] = _Publisher(attempt, now)
        return known

    async def _connect(self, token: str | None) -> Connection:
        async with connecting(self._limits):
            return await self._connector.connect(token, "gateway")

    def _forget(self, token: str | None, publisher: _Publisher) -> None:
        if self._publishers.get(token) is publisher:
            del self._publishers[token]

    async def _retire(self, token: str | None, publisher: _Publisher) -> None:
        """Let nobody new use it; the last of those who do closes it."""
        self._forget(token, publisher)
        if not publisher.users:
            await publisher.close()

    async def _make_room(self) -> None:
        while len(self._publishers) >= self._limits.publishers:
            idle = [(p.since, token) for token, p in self._publishers.items() if not p.users]
            if not idle:
                raise RefusedError(503, "too many clients publish at once")
            token = min(idle, key=lambda item: item[0])[1]
            await self._retire(token, self._publishers[token])
