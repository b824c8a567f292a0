"""Uvicorn, run as a guest in a loop that is not its own."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from penstock.net.gateway.app import build_app
from penstock.net.gateway.context import Context
from penstock.net.gateway.ports import Connector, GatewayConfig, GatewayLimits
from penstock.net.gateway.waiting import cancelled


class _Guest(uvicorn.Server):
    """Uvicorn that leaves signals alone and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets=sockets)
        self.up.set()


class Server:
    """An application, the server that it runs in, and how both end."""

    def __init__(
        self, config: GatewayConfig, connector: Connector, limits: GatewayLimits, *, is_tls: bool
    ) -> None:
        self._context = Context(connector, limits)
        self._uvicorn_config = uvicorn.Config(
            build_app(self._context, config.listen, config.origins),
            http="h11",
            ws="websockets-sansio",
            ws_max_size=limits.message_bytes,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=limits.head_bytes,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=limits.grace_s,
            ssl_certfile=config.cert if is_tls else None,
            ssl_keyfile=config.key if is_tls else None,
        )
        self._guest: _Guest | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve on a socket that listens; returns when requests are taken."""
        self._uvicorn_config.load()
        self._guest = _Guest(self._uvicorn_config)
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
        if self._guest is not None and self._task is not None:
            self._guest.should_exit = True
            await self._task
            # Those that took longer than the grace have been cancelled, and not waited for.
            await cancelled(*self._guest.server_state.tasks)
        await self._context.publishers.close()
