"""Connections of a broker: greetings that come too late, and silence that is none."""

import asyncio
from typing import Any

import pytest

from net_cases import Complaints, Raw, config, run, serving, until
from node_cases import FakeWorld
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.net.matching import EngineMatching
from penstock.net.world import AsyncioWorld
from penstock.node.admission import Admission
from penstock.node.connection import FrameConnection
from penstock.node.hub import Hub
from penstock.node.links import LinkPhase
from penstock.node.opening import RefusedError
from penstock.node.runtime import Runtime
from penstock.node.world import World
from penstock.wire.frames import Kind, frame
from penstock.wire.greetings import Welcome


def made(world: World | None = None) -> tuple[Hub, Runtime]:
    settings = config("b")
    trees, world = protocol_named("trees"), world or AsyncioWorld()
    core = trees.make("b", EngineMatching(), CoreSettings(lease=30.0))
    runtime = Runtime(core, trees.codec, settings.limits, settings.times, world)
    return Hub("b", "trees", runtime, Admission(), 1, world), runtime


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
        connection = FrameConnection(hub, AsyncioWorld())
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


def test_nobody_is_taken_for_dead_because_the_broker_itself_stood_still() -> None:
    async def main() -> None:
        world = FakeWorld()
        world.now = 0.0
        hub, runtime = made(world)
        connection = FrameConnection(hub, world)
        transport = Deaf()
        connection.connection_made(transport)
        hub.bind(connection, runtime.add_neighbour("a", "s", 1, 0.0, dialed=True), 2**20)
        world.now = 1000.0
        hub.tick()
        assert "abort" not in transport.did
        connection.data_received(frame(Kind.PONG))
        world.now = 1000.25
        hub.tick()
        assert "abort" not in transport.did
        connection.connection_lost()

    run(main)


def test_a_broker_has_ended_when_its_connections_have_also_that_of_one_who_does_not_read() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await Raw.open(server) as deaf:
            deaf.reader._limit = 1  # type: ignore[attr-defined]  # It reads nothing after the first bytes.
            await until(lambda: server.node.hub._strangers)
            (connection,) = server.node.hub._strangers
            connection.write([b"x" * 10**8])
            await server.close()
            assert connection.is_closed

    run(main)
