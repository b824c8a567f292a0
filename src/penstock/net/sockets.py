"""Connections over sockets: what asyncio calls, and how to get to a broker."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, cast

from penstock.net.addresses import Address
from penstock.net.descriptors import DESCRIPTORS, Descriptors
from penstock.net.tls import certificate_names
from penstock.node.connection import FrameConnection
from penstock.node.hub import Hub
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
        self._connection.connection_made(
            made, certificate_names(tls), is_tls=tls is not None, address=_address_of(made)
        )

    def connection_lost(self, _error: Exception | None) -> None:
        """The socket is closed."""
        self._connection.connection_lost()


class AcceptedProtocol(SocketProtocol):
    """The same for a connection that somebody else made: it is not let in while descriptors run out."""

    def __init__(self, hub: Hub, descriptors: Descriptors = DESCRIPTORS) -> None:
        super().__init__(hub.accept())
        self._hub = hub
        self._descriptors = descriptors

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        socket = transport.get_extra_info("socket")
        if socket is not None and self._descriptors.are_short(socket.fileno()):
            # Room for the next one: this one may be anybody.
            self._hub.turn_away()
            cast(asyncio.Transport, transport).abort()
        else:
            super().connection_made(transport)


def _address_of(transport: asyncio.BaseTransport) -> str:
    """Where the other side is, without its port; "" for what has no address."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


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
