"""A broker process: listeners, neighbours, the clock, the gateway, and a graceful end."""

import asyncio
import logging
import ssl
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.broker.core import Broker
from penstock.errors import InputError, NetworkError
from penstock.net.addresses import Address, parse_url
from penstock.net.config import BrokerConfig
from penstock.net.connector import BrokerConnector
from penstock.net.dialing import Dialer
from penstock.net.hub import Hub
from penstock.net.matching import EngineMatching, warm
from penstock.net.runtime import Runtime
from penstock.net.status import status_of
from penstock.net.tls import peer_context, server_context
from penstock.routing.schemes.catalog import scheme_named

if TYPE_CHECKING:
    from penstock.net.gateway.server import Gateway

_LOG: Final = logging.getLogger("penstock.net")

_TICK: Final = 0.25
"""Seconds between looks at who is away or slow."""

_TICKS_PER_LEASE: Final = 4


class Server:
    """One broker. `start`, then `drain` and `close`."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.urls: list[str] = []
        """Where it listens."""
        self.gateway_url: str | None = None
        # Higher than in any earlier life, as nothing is kept of that.
        incarnation = time.time_ns() // 1_000_000
        self._broker = Broker(
            config.name,
            scheme_named(config.scheme),
            EngineMatching(),
            advertisements=config.advertisements,
            incarnation=incarnation,
            lease=config.times.lease,
            condenses=True,
            linger=config.times.grace,
        )
        self._runtime = Runtime(
            self._broker, config.limits, config.times, lambda: msgspec.json.encode(self.status())
        )
        self._hub = Hub(config, self._runtime, incarnation, time.monotonic)
        self._started = time.monotonic()
        self._next_core_tick = 0.0
        self._listeners: list[asyncio.Server] = []
        self._dialers: list[Dialer] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._gateway: Gateway | None = None
        self._has_joined = False

    async def start(self) -> None:
        """Listen, connect to the peers, and let time pass. Raises NetworkError or InputError."""
        # In a thread, so that signals are heeded meanwhile.
        await asyncio.to_thread(warm)
        try:
            for url in self.config.listen:
                await self._listen(parse_url(url))
            self._runtime.begin(time.monotonic())
            self._dial()
        except BaseException:
            await self.close()
            raise
        self._run(self._keep_time())
        if self.config.gateway.listen:
            await self._open_gateway()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def _listen(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        context = self._server_context() if address.tls else None
        try:
            listener = await loop.create_server(
                self._hub.accept,
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
        self.urls.append(str(address.with_port(listener.sockets[0].getsockname()[1])))

    def _server_context(self) -> ssl.SSLContext:
        tls = self.config.tls
        if tls.cert is None:
            raise InputError(f"{self.config.name}: penstocks:// needs tls.cert and tls.key")
        return server_context(tls.cert, tls.key or tls.cert, tls.ca, verify_clients=tls.verify_clients)

    def _dial(self) -> None:
        tls = self.config.tls
        for url in self.config.peers:
            address = parse_url(url)
            context = None
            if address.tls:
                if tls.cert is None or tls.ca is None:
                    raise InputError(f"{self.config.name}: {url} needs tls.cert, tls.key and tls.ca")
                context = peer_context(tls.cert, tls.key or tls.cert, tls.ca)
            dialer = Dialer(self._hub, address, context, self.config.times.greet)
            self._dialers.append(dialer)
            self._run(dialer.run())

    async def _open_gateway(self) -> None:
        # Only where there is one: it needs a web server.
        from penstock.net.gateway.server import Gateway

        connector = BrokerConnector(self._hub, self, self.config.name, self.config.times.greet)
        self._gateway = Gateway(self.config.gateway, connector)
        try:
            self.gateway_url = await self._gateway.start()
        except BaseException:
            await self.close()
            raise

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            try:
                self._tick(time.monotonic())
            except Exception:
                # A mistake of ours must not stop the clock: leases would end, and nobody slow be noticed.
                _LOG.exception("%s: an error as time passed", self.config.name)

    def _tick(self, now: float) -> None:
        self._hub.tick()
        self._runtime.tick(now)
        if now >= self._next_core_tick:
            self._next_core_tick = now + self.config.times.lease / _TICKS_PER_LEASE
            self._runtime.core_tick(now)
        self._hub.flush()

    # Looking

    def status(self) -> dict[str, Any]:
        """What it says of itself."""
        told = status_of(
            self._runtime, self.urls, self._started, time.monotonic(), draining=self._hub.is_draining
        )
        told["scheme"] = self.config.scheme
        told["peers"] = [
            {"url": str(dialer.address), "name": dialer.name, "error": dialer.error}
            for dialer in self._dialers
        ]
        return told

    @property
    def is_ready(self) -> bool:
        """Whether it takes clients: it has reached the peers that it was told of, or waited for them.

        That a peer goes later is no reason to send clients away.
        """
        if self._hub.is_draining or not self._listeners:
            return False
        if not self._has_joined:
            waited = time.monotonic() - self._started > self.config.times.join
            self._has_joined = waited or all(self._hub.is_linked(dialer.name) for dialer in self._dialers)
        return self._has_joined

    # The end

    async def drain(self) -> None:
        """Take nobody new, tell clients, and wait until all that was taken has gone out, for a while."""
        self._hub.is_draining = True
        for listener in self._listeners:
            listener.close()
        for link in list(self._runtime.links.values()):
            if link.is_client:
                self._runtime.notify(link, "closing", "the broker is about to end")
        self._hub.flush()
        until = time.monotonic() + self.config.times.drain
        while time.monotonic() < until and not self._runtime.is_idle:
            await asyncio.sleep(_TICK / 10)
        await self.close()

    async def close(self) -> None:
        """End at once."""
        self._hub.is_draining = True
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for listener in self._listeners:
            listener.close()
        await self._hub.close_all("draining", "the broker has ended")
        self._listeners.clear()
        await asyncio.sleep(0)
