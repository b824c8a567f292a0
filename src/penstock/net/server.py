"""A broker process: listeners, the sockets of a node, the gateway, and a graceful end."""

import asyncio
import ssl
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock import __version__
from penstock.errors import InputError, NetworkError
from penstock.net.addresses import Address, parse_url
from penstock.net.admitting import admission_of
from penstock.net.checks import open_to_all
from penstock.net.config import BrokerConfig
from penstock.net.connector import BrokerConnector
from penstock.net.files import read_schema
from penstock.net.matching import EngineMatching, warm
from penstock.net.sockets import AcceptedProtocol, TcpWay
from penstock.net.tls import peer_context, server_context
from penstock.net.world import AsyncioWorld
from penstock.node.connection import CLOSE_SECONDS, FrameConnection
from penstock.node.logs import LOG
from penstock.node.node import Node, NodeSettings

if TYPE_CHECKING:
    from penstock.net.gateway.server import Gateway

_LOOK_S: Final = 30.0
"""Seconds between looks for subscriptions that match nothing."""


class Server:
    """One broker. `start`, then `drain` and `close`."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises InputError where the settings leave it open to everybody, and do not say so."""
        for key, what in open_to_all(config):
            raise InputError(f"{config.name}: {key}: {what}")
        self.config = config
        self.gateway_url: str | None = None
        self._world = AsyncioWorld()
        schema = None if config.schema is None else read_schema(config.schema)
        self._matching = EngineMatching(schema)
        self._looking: asyncio.Task[None] | None = None
        self.node = Node(
            NodeSettings(
                name=config.name,
                version=__version__,
                protocol=config.protocol,
                scheme=config.scheme,
                advertisements=config.advertisements,
                limits=config.limits,
                times=config.times,
                schema=schema,
            ),
            self._matching,
            admission_of(config),
            self._world,
            # Higher than in any earlier life, as nothing is kept of that.
            incarnation=time.time_ns() // 1_000_000,
        )
        self._matching.sees_all = self.node.runtime.core.prospects().sees_all
        self._listeners: list[asyncio.Server] = []
        self._gateway: Gateway | None = None

    @property
    def urls(self) -> list[str]:
        """Where it listens."""
        return self.node.urls

    async def start(self) -> None:
        """Listen, connect to the peers, and let time pass. Raises NetworkError or InputError."""
        await self._warm()
        try:
            for url in self.config.listen:
                await self._listen(parse_url(url))
            self._add_peers()
            self.node.begin()
            self._looking = asyncio.create_task(self._look_again())
        except BaseException:
            await self.close()
            raise
        if self.config.gateway.listen:
            await self._open_gateway()

    async def _warm(self) -> None:
        """Have kernels loaded, in a thread, so that signals are heeded meanwhile; it ends when this does."""
        unwanted = threading.Event()
        try:
            await asyncio.to_thread(warm, lambda: not unwanted.is_set())
        finally:
            unwanted.set()

    async def _listen(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        context = self._server_context() if address.tls else None
        try:
            listener = await loop.create_server(
                lambda: AcceptedProtocol(self.node.hub),
                address.host,
                address.port,
                ssl=context,
                backlog=1024,
                ssl_handshake_timeout=self.config.times.greet if context is not None else None,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise NetworkError(f"{self.config.name}: cannot listen on {address}: {reason}") from None
        self._listeners.append(listener)
        self.node.urls.append(str(address.with_port(listener.sockets[0].getsockname()[1])))

    def _server_context(self) -> ssl.SSLContext:
        tls = self.config.tls
        if tls.cert is None:
            raise InputError(f"{self.config.name}: penstocks:// needs tls.cert and tls.key")
        return server_context(tls.cert, tls.key or tls.cert, tls.ca, verify_clients=tls.verify_clients)

    def _add_peers(self) -> None:
        tls = self.config.tls
        for url in self.config.peers:
            address = parse_url(url)
            context = None
            if address.tls:
                if tls.cert is None or tls.ca is None:
                    raise InputError(f"{self.config.name}: {url} needs tls.cert, tls.key and tls.ca")
                context = peer_context(tls.cert, tls.key or tls.cert, tls.ca)
            self.node.add_peer(address, TcpWay(address, context))

    async def _open_gateway(self) -> None:
        # Only where there is one: it needs a web server.
        from penstock.net.gateway.ports import GatewayLimits
        from penstock.net.gateway.server import Gateway

        connector = BrokerConnector(self.node.hub, self, self.config.name, self.config.times.greet)
        limits = self.config.limits
        self._gateway = Gateway(
            self.config.gateway,
            connector,
            GatewayLimits(connections=limits.clients, connections_per_address=limits.connections_per_address),
        )
        try:
            self.gateway_url = await self._gateway.start()
        except BaseException:
            await self.close()
            raise

    # Looking

    async def _look_again(self) -> None:
        """Look for subscriptions that match nothing, now and then."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look for subscriptions that match nothing; have log, status and clients say what is found."""
        try:
            look = self.node.look()
            # In a thread: with very many subscriptions it takes a while.
            await asyncio.to_thread(look.compare, self._matching)
            look.finish()
        except Exception:
            # It is for people, and must not end what events depend on.
            LOG.exception("%s: an error while looking for disagreements", self.config.name)

    def status(self) -> dict[str, Any]:
        """What it says of itself."""
        return self.node.status()

    @property
    def is_ready(self) -> bool:
        """Whether it takes clients: it has reached the peers that it was told of, or waited for them."""
        return bool(self._listeners) and self.node.is_ready

    # The end

    async def drain(self) -> None:
        """Take nobody new, tell clients, and wait until all that was taken has gone out, for a while."""
        for listener in self._listeners:
            listener.close()
        drained = asyncio.Event()
        self.node.drain(drained.set)
        await drained.wait()
        await self.close()

    async def close(self) -> None:
        """End at once."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.stop()
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
        for listener in self._listeners:
            listener.close()
        await _ended(self.node.stop())
        self._world.close()
        self._listeners.clear()
        await asyncio.sleep(0)


async def _ended(connections: list[FrameConnection]) -> None:
    """Wait until connections have ended, or have had their time.

    Whoever ends the loop before would cut off what was written last, and leave sockets to the collector.
    """
    left = [connection for connection in connections if not connection.is_closed]
    ended = asyncio.Event()

    def count(connection: FrameConnection) -> None:
        left.remove(connection)
        if not left:
            ended.set()

    for connection in list(left):
        connection.when_closed.append(partial(count, connection))
    if left:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                await ended.wait()
