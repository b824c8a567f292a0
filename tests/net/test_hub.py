"""Connections of a broker: greetings that come too late, and silence that is none."""

import asyncio
import time
from typing import Any

import pytest

from net_cases import Complaints, Raw, config, run, serving, until
from penstock.broker.core import Broker
from penstock.net.connection import FrameConnection
from penstock.net.hub import Hub
from penstock.net.links import LinkPhase
from penstock.net.matching import EngineMatching
from penstock.net.opening import RefusedError
from penstock.net.runtime import Runtime
from penstock.routing.schemes.catalog import SCHEMES
from penstock.wire.frames import Kind, frame
from penstock.wire.greetings import Welcome


def made() -> tuple[Hub, Runtime]:
    settings = config("b")
    runtime = Runtime(
        Broker("b", SCHEMES["covering"], EngineMatching(), lease=30.0), settings.limits, settings.times
    )
    return Hub(settings, runtime, 1, time.monotonic), runtime


@pytest.mark.parametrize("phase", [LinkPhase.AWAY, LinkPhase.GONE])
def test_a_session_that_was_given_up_while_the_other_side_took_it_up_does_not_go_on(phase: LinkPhase) -> None:
    async def main() -> None:
        hub, runtime = made()
        link = runtime.add_neighbour("a", "s", 1, 0.0, dialed=True)
        runtime.on_cut(link, 0.0)
        hello = hub.hello(*hub.session_with("a"))
        assert hello.session == "s"
        runtime.tick(4.0)
        if phase is LinkPhase.GONE:
            runtime.tick(8.0)
        assert link.phase is phase
        connection = FrameConnection(hub, time.monotonic)
        with pytest.raises(RefusedError, match="over"):
            hub.welcomed(connection, hello, Welcome("a", 1, True, 0, 2**20, 2**20, ""))
        # The next try begins a new one.
        again = hub.hello(*hub.session_with("a"))
        assert again.session != "s"
        new = hub.welcomed(connection, again, Welcome("a", 1, False, 0, 2**20, 2**20, ""))
        assert (new.phase, link.phase) == (LinkPhase.UP, LinkPhase.GONE)
        assert runtime.links["a"] is new

    run(main)


def test_a_mistake_as_time_passes_is_told_and_does_not_stop_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks: list[float] = []

    def tick(_runtime: Runtime, now: float) -> None:
        ticks.append(now)
        if len(ticks) == 1:
            raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(Runtime, "tick", tick)

    async def main() -> None:
        with Complaints() as complaints:
            async with serving(config()):
                await until(lambda: len(ticks) > 2)
        assert complaints.records == ["b: an error as time passed: ZeroDivisionError('a mistake')"]

    run(main)


class Deaf(asyncio.Transport):
    """A transport that does nothing."""

    def __init__(self) -> None:
        super().__init__({})
        self.did: list[str] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        if name in ("pause_reading", "resume_reading", "abort", "close", "write"):
            return lambda *_args: self.did.append(name)
        return super().__getattribute__(name)


def test_one_that_sends_too_much_and_is_not_listened_to_is_not_taken_for_dead() -> None:
    async def main() -> None:
        now = 0.0
        hub, runtime = made()
        hub._clock, hub._ticked_at = lambda: now, now
        connection = FrameConnection(hub, lambda: now)
        transport = Deaf()
        connection.connection_made(transport)
        hub.bind(connection, runtime.add_neighbour("a", "s", 1, 0.0, dialed=True), 2**20)
        connection.pause_reading(100.0)
        while now < 100.0:
            now += 1.0
            hub.tick()
        assert "abort" not in transport.did
        assert "write" not in transport.did
        while now < 114.0:
            now += 1.0
            hub.tick()
        assert "write" in transport.did
        assert "abort" not in transport.did
        while now < 117.0:
            now += 1.0
            hub.tick()
        assert "abort" in transport.did
        connection.connection_lost(None)

    run(main)


def test_nobody_is_taken_for_dead_because_the_broker_itself_stood_still() -> None:
    async def main() -> None:
        now = 0.0
        hub, runtime = made()
        hub._clock, hub._ticked_at = lambda: now, now
        connection = FrameConnection(hub, lambda: now)
        transport = Deaf()
        connection.connection_made(transport)
        hub.bind(connection, runtime.add_neighbour("a", "s", 1, 0.0, dialed=True), 2**20)
        now = 1000.0
        hub.tick()
        assert "abort" not in transport.did
        connection.data_received(frame(Kind.PONG))
        now = 1000.25
        hub.tick()
        assert "abort" not in transport.did
        connection.connection_lost(None)

    run(main)


def test_a_broker_has_ended_when_its_connections_have_also_that_of_one_who_does_not_read() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await Raw.open(server) as deaf:
            deaf.reader._limit = 1  # type: ignore[attr-defined]  # It reads nothing after the first bytes.
            await until(lambda: server._hub._strangers)
            (connection,) = server._hub._strangers
            connection.write([b"x" * 10**8])
            await server.close()
            assert connection.closed.is_set()

    run(main)
