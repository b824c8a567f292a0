"""What the gateway acts by: clients of the broker that it belongs to, in the same process."""

import asyncio
import socket
from typing import Any, Final, Protocol

from penstock.broker.grants import Verb
from penstock.errors import AccessError
from penstock.net.client.client import Client
from penstock.net.sockets import MakeProtocol, SocketProtocol
from penstock.node.hub import Hub

_QUEUE: Final = 1_024
"""Events that wait for a stream or socket that does not read, before those who send them wait."""


class Watched(Protocol):
    """The broker, as far as it is looked at."""

    def status(self) -> dict[str, Any]:
        """What it says of itself."""

    @property
    def is_ready(self) -> bool:
        """Whether it takes clients."""


class _NearWay:
    """A pair of sockets that are joined: no address, and nobody else can get in."""

    def __init__(self, hub: Hub, address: str) -> None:
        self._hub = hub
        self._address = address

    def __str__(self) -> str:
        return "the broker"

    async def dial(self, make: MakeProtocol) -> None:
        """Make a connection."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        await loop.connect_accepted_socket(lambda: SocketProtocol(self._hub.accept(self._address)), theirs)
        await loop.create_connection(make, sock=ours)


class BrokerConnector:
    """Makes clients; asks the broker. See `penstock.net.gateway.ports.Connector`."""

    def __init__(self, hub: Hub, watched: Watched, name: str, timeout: float) -> None:
        self.broker = name
        self._hub = hub
        self._watched = watched
        self._timeout = timeout

    async def connect(self, token: str | None, name: str, address: str = "") -> Client:
        """A client with a token. Raises AccessError where that is not good enough."""
        client = Client(
            [_NearWay(self._hub, address)],
            name=name,
            token=token or "",
            when_slow="drop",
            reconnect=False,
            timeout=self._timeout,
            on_notice=None,
        )
        client.queue_default = _QUEUE
        client.parses = False
        await client.open()
        return client

    def status(self) -> dict[str, Any]:
        """What the broker says of itself."""
        return self._watched.status()

    def is_ready(self) -> bool:
        """Whether the broker takes clients."""
        return self._watched.is_ready

    def may(self, token: str | None, verb: Verb) -> bool:
        """Whether somebody has anything of this kind granted. Raises AccessError."""
        return self._hub.admission.identify(token or "").grants.has_any(verb)

    def may_monitor(self, token: str | None) -> bool:
        """Whether somebody may see what the broker says of itself."""
        try:
            return self._hub.admission.identify(token or "").grants.monitor
        except AccessError:
            return False
