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
from penstock.net.opening import RefusedError, TcpWay, open_connection
from penstock.wire.greetings import Welcome

_LOG: Final = logging.getLogger("penstock.net")

_WAIT_FIRST: Final = 0.05
_WAIT_MAX: Final = 1.0
"""Seconds between two tries, the first and the longest."""


_WARN_AFTER: Final = 5.0
"""Seconds that a peer may be missing before that is told: brokers of a network start one by one."""


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
        self._failing_since = 0.0
        self._warned = ""

    async def run(self) -> None:
        """Connect, and again when it is lost, for ever."""
        wait = _WAIT_FIRST
        while True:
            if self._hub.waits_for(self.name):
                # The other broker has made a connection itself.
                wait = _WAIT_FIRST
            else:
                try:
                    connection = await self._connect()
                    self.error, wait = "", _WAIT_FIRST
                    self._failing_since, self._warned = 0.0, ""
                    _LOG.info("linked to %s at %s", self.name, self.address)
                    await connection.closed.wait()
                    self.error = "the connection was lost"
                except (NetworkError, WireError) as error:
                    self._note(error)
            # Not all at the same moment after an outage.
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311
            wait = min(_WAIT_MAX, wait * 2)

    def _note(self, error: Exception) -> None:
        """Note why there is no link; tell it when it has been so for a while, or for another reason."""
        self.error = said = str(error).removeprefix(f"{self.address}: ")
        now = asyncio.get_running_loop().time()
        self._failing_since = self._failing_since or now
        if isinstance(error, RefusedError) and error.code == "linked":
            return
        if said != self._warned and now - self._failing_since > _WARN_AFTER:
            self._warned = said
            _LOG.warning("no link to %s: %s", self.address, said)

    async def _connect(self) -> FrameConnection:
        hello = self._hub.hello(*self._hub.session_with(self.name))

        def on_welcome(connection: FrameConnection, welcome: Welcome) -> Owner:
            self.name = welcome.broker
            self._hub.welcomed(connection, hello, welcome)
            return self._hub

        return await open_connection(self._way, hello, on_welcome, self._timeout)
