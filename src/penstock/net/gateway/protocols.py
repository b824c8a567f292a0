"""Uvicorn's protocols, with bounds in time and number on connections that ask nothing.

Uvicorn waits for ever for the first request of a connection, and for the rest of any that has begun. Its own
limit on connections counts idle ones, and refuses health checks with everything else.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from penstock.net.gateway.door import Door, Guest
from penstock.net.gateway.guard import LIMITED
from penstock.net.gateway.ports import GatewayLimits


class HttpProtocol(H11Protocol):
    """A connection that has to make a request in time, and the next one after that."""

    def __init__(self, door: Door, limits: GatewayLimits, **given: Any) -> None:
        super().__init__(**given)
        self._door = door
        self._limits = limits
        self._guest: Guest | None = None
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Come to the door."""
        super().connection_made(transport)
        _bound_silence(transport, self._limits.send_s)
        guest = Guest(self.client[0] if self.client else "", transport.abort)
        if not self._door.come(guest, transport.get_extra_info("socket").fileno()):
            transport.abort()
            return
        self._guest = guest
        self.app_state = {**self.app_state, LIMITED: guest.is_limited}
        self._mind_time()

    def data_received(self, data: bytes) -> None:
        """Take bytes, which may be a request."""
        super().data_received(data)
        self._mind_time()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._mind_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        self._stop_limit()
        if self._guest is not None:
            self._door.leave(self._guest)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand over to a WebSocket, which leaves in its turn."""
        self._stop_limit()
        guest, self._guest = self._guest, None
        super().handle_websocket_upgrade(event)
        taken: asyncio.BaseProtocol = self.transport.get_protocol()
        if guest is not None and isinstance(taken, SocketProtocol):
            taken.guest = guest
            self._door.acts(guest)

    def _mind_time(self) -> None:
        """Allow so much time for a whole request, from when the last one is answered."""
        if self._guest is None or self.transport.is_closing():
            return
        # There is none before the first request, whatever its type says.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop_limit()
            self._door.acts(self._guest)
        elif self._limit is None:
            self._limit = self.loop.call_later(self._limits.head_s, self.transport.abort)
            self._door.waits(self._guest)

    def _stop_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


class SocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket, which is pinged, and so never silent for long."""

    def __init__(self, door: Door, **given: Any) -> None:
        super().__init__(**given)
        self.guest: Guest | None = None
        self._door = door

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        if self.guest is not None:
            self._door.leave(self.guest)
        super().connection_lost(exc)


def _bound_silence(transport: asyncio.Transport, seconds: float) -> None:
    """Have the system end a connection whose other side acknowledges nothing for so long, where it can."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    found = transport.get_extra_info("socket")
    if option is not None and found is not None:
        with suppress(OSError):
            found.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
