"""What all endpoints of one gateway share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.broker.grants import Verb
from penstock.errors import AccessError
from penstock.net.gateway.acting import connecting
from penstock.net.gateway.ports import Connection, Connector, GatewayLimits
from penstock.net.gateway.problems import RefusedError
from penstock.net.gateway.publishers import Publishers


class Context:
    """The broker's door, the limits, and what is open at present."""

    def __init__(self, connector: Connector, limits: GatewayLimits) -> None:
        self.connector = connector
        self.limits = limits
        self.publishers = Publishers(connector, limits)
        self.stopping = asyncio.Event()
        self.streams = 0
        self.accepted = 0

    @asynccontextmanager
    async def connection(self, token: str | None, name: str, address: str) -> AsyncIterator[Connection]:
        """A connection of its own for a stream or a socket, closed with it."""
        if self.stopping.is_set():
            raise RefusedError(503, "the gateway is stopping")
        if self.streams >= self.limits.streams:
            raise RefusedError(503, f"there are already {self.limits.streams:,} streams and sockets open")
        self.streams += 1
        try:
            async with connecting(self.limits):
                connection = await self.connector.connect(token, name, address)
            try:
                yield connection
            finally:
                await connection.close()
        finally:
            self.streams -= 1

    def check(self, token: str | None, verb: Verb) -> None:
        """Refuse who is not known, or has nothing granted, before anything else is looked at."""
        try:
            if self.connector.may(token, verb):
                return
        except AccessError as error:
            raise RefusedError(401, str(error)) from None
        raise RefusedError(403, f"not allowed to {verb}: nothing is granted; use a token that grants it")

    def check_monitor(self, token: str | None) -> None:
        """Refuse who may not see the broker's status."""
        if self.connector.may_monitor(token):
            return
        if token is None:
            raise RefusedError(401, "this needs a token with the right to monitor")
        raise RefusedError(403, "this token does not have the right to monitor")
