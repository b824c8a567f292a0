"""Connections over sockets: what asyncio calls, and how to get to a broker."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, cast

from penstock.net.addresses import Address
from penstock.net.tls import certificate_names
from penstock.node.connection import FrameConnection
from penstock.node.opening import Way

_WRITE_HIGH: Final = 1 << 20
"""Bytes that may wait in the socket's buffer before nothing more is written."""


class SocketProtocol(asyncio.Protocol):
    """Passes on to a connection what a socket does."""

    def __init__(self, connection: FrameConnection) -> None:
        self._connection = connection
        # What comes goes straight there, without a call of ours in between.
        self.data_received = connection.data_received  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        # uvloop's are of no such class, but do the same.
        made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=_WRITE_HIGH)
        tls = made.get_extra_info("ssl_object")
        self._connection.connection_made(made, certificate_names(tls), is_tls=tls is not None)

    def connection_lost(self, _error: Exception | None) -> None:
        """The socket is closed."""
        self._connection.connection_lost()


MakeProtocol: TypeAlias = Callable[[], SocketProtocol]


class SocketWay(Way, Protocol):
    """How to get to a broker by a socket. Its text names the broker in messages."""

    async def dial(self, make: MakeProtocol) -> None:
        """Make a connection. Raises OSError."""


class TcpWay:
    """Over the network."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._context = context if address.tls else None

    def __str__(self) -> str:
        return str(self._address)

    async def dial(self, make: MakeProtocol) -> None:
        """Make a connection."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(make, self._address.host, self._address.port, ssl=self._context)
