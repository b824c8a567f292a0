"""Uvicorn, run as a guest in a loop that is not its own."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import uvicorn

from penstock.net.gateway.app import build_app
from penstock.net.gateway.context import Context
from penstock.net.gateway.door import Door
from penstock.net.gateway.ports import Connector, GatewayConfig, GatewayLimits
from penstock.net.gateway.protocols import HttpProtocol, SocketProtocol
from penstock.net.gateway.waiting import cancelled

_GOODBYE_S: Final = 0.05
"""Seconds that streams and sockets have to end by themselves: a few rounds of the loop are enough."""


class _Guest(uvicorn.Server):
    """Uvicorn that leaves signals alone, says when it listens, and bounds how long a handshake may take."""

    def __init__(self, config: uvicorn.Config, handshake_s: float) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self._handshake_s = handshake_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        config = self.config
        protocol: Any = config.http_protocol_class
        make = partial(protocol, config=config, server_state=self.server_state, app_state={})
        self.servers: list[asyncio.Server] = []
        for listener in sockets or []:
            self.servers.append(
                await asyncio.get_running_loop().create_server(
                    make,
                    sock=listener,
                    ssl=config.ssl,
                    backlog=config.backlog,
                    ssl_handshake_timeout=self._handshake_s if config.ssl else None,
                )
            )
        self.started = True
        self.up.set()


class Server:
    """An application, the server that it runs in, and how both end."""

    def __init__(
        self, config: GatewayConfig, connector: Connector, limits: GatewayLimits, *, is_tls: bool
    ) -> None:
        self._context = Context(connector, limits)
        self._handshake_s = limits.head_s
        door = Door(limits)
        http: Any = partial(HttpProtocol, door, limits)
        ws: Any = partial(SocketProtocol, door)
        self._uvicorn_config = uvicorn.Config(
            build_app(self._context, config.listen, config.origins),
            http=http,
            ws=ws,
            ws_max_size=limits.message_bytes,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=limits.head_bytes,
            timeout_graceful_shutdown=limits.grace_s,
            ssl_certfile=config.cert if is_tls else None,
            ssl_keyfile=config.key if is_tls else None,
        )
        self._guest: _Guest | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve on a socket that listens; returns when requests are taken."""
        self._uvicorn_config.load()
        self._guest = _Guest(self._uvicorn_config, self._handshake_s)
        self._task = asyncio.create_task(self._guest.serve(sockets=[listener]))
        up = asyncio.create_task(self._guest.up.wait())
        await asyncio.wait((self._task, up), return_when=asyncio.FIRST_COMPLETED)
        if not up.done():
            up.cancel()
            await self._task
            raise OSError("uvicorn ended at once")

    async def stop(self) -> None:
        """End streams and sockets, then the server, then the connections to the broker."""
        self._context.stopping.set()
        # They say why they end, before the server ends what is left without a reason.
        await asyncio.sleep(_GOODBYE_S)
        if self._guest is not None and self._task is not None:
            self._guest.should_exit = True
            await self._task
            # Those that took longer than the grace have been cancelled, and not waited for.
            await cancelled(*self._guest.server_state.tasks)
        await self._context.publishers.close()
