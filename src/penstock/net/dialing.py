"""Keeps a connection to another broker, making it again when it is lost."""

import asyncio
import logging
import random
import ssl
from typing import Final

from penstock.errors import NetworkError, WireError
from penstock.net.addresses import Address
from penstock.net.connection import FrameConnection, Owner
from penstock.net.hub import Hub
from penstock.net.opening import TcpWay, open_connection
from penstock.wire.greetings import Welcome

_LOG: Final = logging.getLogger("penstock.net")

_WAIT_FIRST: Final = 0.05
_WAIT_MAX: Final = 1.0
"""Seconds between two tries, the first and the longest."""


class Dialer:
    """One peer that was named by its address. `name` is the peer's own, once it has answered."""

    def __init__(self, hub: Hub, address: Address, context: ssl.SSLContext | None, timeout: float) -> None:
        self.address = address
        self.name: str | None = None
        self.error = "not tried yet"
        """Why there is no connection."""
        self._hub = hub
        self._way = TcpWay(address, context)
        self._timeout = timeout

    async def run(self) -> None:
        """Connect, and again when it is lost, for ever."""
        wait = _WAIT_FIRST
        while True:
            if self._hub.is_linked(self.name):
                # The other broker has made a connection itself.
                wait = _WAIT_FIRST
            else:
                try:
                    connection = await self._connect()
                    self.error, wait = "", _WAIT_FIRST
                    await connection.closed.wait()
                    self.error = "the connection was lost"
                except (NetworkError, WireError) as error:
                    self.error = str(error)
                    _LOG.info("no link to %s: %s", self.address, error)
            # Not all at the same moment after an outage.
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311
            wait = min(_WAIT_MAX, wait * 2)

    async def _connect(self) -> FrameConnection:
        hello = self._hub.hello(*self._hub.session_with(self.name))

        def on_welcome(connection: FrameConnection, welcome: Welcome) -> Owner:
            self.name = welcome.broker
            self._hub.welcomed(connection, hello, welcome)
            return self._hub

        return await open_connection(self._way, hello, on_welcome, self._timeout)
