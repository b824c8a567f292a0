"""One broker without sockets: core, runtime, hub, connections to peers, and the clock that moves them."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.broker.needs import Matching
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.model.schema import Schema
from penstock.node.admission import Admission
from penstock.node.connection import FrameConnection
from penstock.node.dialing import Dialer
from penstock.node.disagreements import Disagreements, Look
from penstock.node.hub import Hub
from penstock.node.logs import LOG
from penstock.node.runtime import TICK, Runtime
from penstock.node.settings import Limits, Times
from penstock.node.status import status_of
from penstock.node.world import Timer, World

_TICKS_PER_LEASE: Final = 4


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker is told, as far as it is no matter of sockets."""

    name: str
    version: str = ""
    """Of the program, for its status."""
    protocol: str = "trees"
    scheme: str = "covering"
    advertisements: bool = True
    limits: Limits = msgspec.field(default_factory=Limits)
    times: Times = msgspec.field(default_factory=Times)
    schema: Schema | None = None
    """Of events: subscriptions and advertisements that do not fit it are refused."""
    slice_size: int = 128
    """See `penstock.broker.protocols.CoreSettings`."""


class Node:
    """One broker. `begin`, then `stop`; what connects is given what `accept` returns."""

    def __init__(
        self,
        settings: NodeSettings,
        matching: Matching,
        admission: Admission,
        world: World,
        *,
        incarnation: int,
    ) -> None:
        """`incarnation` is higher than in any earlier life of a broker of this name."""
        self.settings = settings
        self.urls: list[str] = []
        """Where it can be reached."""
        protocol = protocol_named(settings.protocol)
        times = settings.times
        core = protocol.make(
            settings.name,
            matching,
            CoreSettings(
                scheme=settings.scheme,
                advertisements=settings.advertisements,
                incarnation=incarnation,
                lease=times.lease,
                linger=times.grace,
                condenses=True,
                keep=times.kept,
                slice_size=settings.slice_size,
            ),
        )
        self.runtime = Runtime(
            core,
            protocol.codec,
            settings.limits,
            times,
            world,
            status=lambda: msgspec.json.encode(self.status()),
            prepare=matching.prepare,
            schema=settings.schema,
        )
        self.disagreements = Disagreements(settings.name, self.runtime)
        self.hub = Hub(settings.name, protocol.name, self.runtime, admission, incarnation, world)
        self.dialers: list[Dialer] = []
        self._world = world
        self._started = world.time()
        self._next_core_tick = 0.0
        self._ticking: Timer | None = None
        self._has_joined = False

    def begin(self) -> None:
        """Take connections, connect to the peers, and let time pass."""
        self.runtime.begin(self._world.time())
        for dialer in self.dialers:
            dialer.start()
        self._ticking = self._world.call_later(TICK, self._tick)

    def accept(self) -> FrameConnection:
        """A connection that somebody makes to this broker."""
        return self.hub.accept()

    def add_peer(self, address: Any, way: Any) -> None:
        """Another broker that it connects to, again and again, from when it has begun."""
        dialer = Dialer(self.hub, address, way, self._world, self.settings.times.greet)
        self.dialers.append(dialer)
        if self._ticking is not None:
            dialer.start()

    def _tick(self) -> None:
        self._ticking = self._world.call_later(TICK, self._tick)
        now = self._world.time()
        try:
            self.hub.tick()
            self.runtime.tick(now)
            if now >= self._next_core_tick:
                self._next_core_tick = now + self.settings.times.lease / _TICKS_PER_LEASE
                self.runtime.core_tick(now)
            self.runtime.tell_load(now)
            self.runtime.flush()
        except Exception:
            # A mistake of ours must not stop the clock: leases would end, and nobody slow be noticed.
            LOG.exception("%s: an error as time passed", self.settings.name)

    # Looking

    def look(self) -> Look:
        """Begin a look for subscriptions that match nothing."""
        return Look(self.disagreements, self.runtime.core, self.settings.schema)

    def status(self) -> dict[str, Any]:
        """What it says of itself."""
        told = status_of(
            self.runtime, self.urls, self._started, self._world.time(), draining=self.hub.is_draining
        )
        settings = self.settings
        told["disagreements"] = self.disagreements.told()
        told.update(version=settings.version, protocol=settings.protocol, scheme=settings.scheme)
        told["peers"] = [
            {"url": str(dialer.address), "name": dialer.name, "error": dialer.error}
            for dialer in self.dialers
        ]
        return told

    @property
    def is_ready(self) -> bool:
        """Whether it takes clients: it has reached the peers that it was told of, or waited for them.

        That a peer goes later is no reason to send clients away.
        """
        if self.hub.is_draining:
            return False
        if not self._has_joined:
            waited = self._world.time() - self._started > self.settings.times.join
            self._has_joined = waited or all(self.hub.is_linked(dialer.name) for dialer in self.dialers)
        return self._has_joined

    # The end

    def drain(self, on_drained: Callable[[], object]) -> None:
        """Take nobody new, tell clients, and say when all that was taken has gone out, or time is up."""
        self.hub.is_draining = True
        for link in list(self.runtime.links.values()):
            if link.is_client:
                self.runtime.notify(link, "closing", "the broker is about to end")
        self.runtime.flush()
        self._drained(self._world.time() + self.settings.times.drain, on_drained)

    def _drained(self, until: float, on_drained: Callable[[], object]) -> None:
        if self._world.time() >= until or self.runtime.is_idle:
            on_drained()
        else:
            self._world.call_later(TICK / 10, self._drained, until, on_drained)

    def stop(self) -> list[FrameConnection]:
        """End at once; return the connections, which end a little later, when all is written."""
        self.hub.is_draining = True
        for dialer in self.dialers:
            dialer.stop()
        if self._ticking is not None:
            self._ticking.cancel()
        self.runtime.end_all(self._world.time())
        return self.hub.close_all("draining", "the broker has ended")
