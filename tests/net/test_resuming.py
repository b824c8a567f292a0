"""Links that go on, or begin anew: what was sent comes, and what was asked for stays."""

import asyncio

from patience import HANGS
from penstock.broker.core import Broker
from penstock.filters.parsing import as_predicate
from penstock.net.addresses import parse_url
from penstock.net.config import Limits, Times
from penstock.net.connection import FrameConnection, Owner
from penstock.net.links import Link, LinkPhase
from penstock.net.matching import EngineMatching
from penstock.net.opening import TcpWay, open_connection
from penstock.net.runtime import Runtime
from penstock.routing.schemes.catalog import SCHEMES
from penstock.wire.codec import Spoken, write_spoken
from penstock.wire.frames import Kind, frame
from penstock.wire.greetings import VERSION, Hello, Welcome, write_refused, write_welcome
from penstock.wire.messages import Subscribe, Sync

WANTED = Subscribe("k", as_predicate("x > 1"), frozenset({"t"}))


class Taker:
    """Takes what comes after a welcome."""

    def __init__(self) -> None:
        self.came: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def on_frames(self, _connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        self.came.set_result(len(frames[0][1]))

    def on_lost(self, _connection: FrameConnection) -> None:
        if not self.came.done():
            self.came.set_result(0)

    def on_writable(self, _connection: FrameConnection) -> None:
        pass


def test_frames_of_any_size_may_come_together_with_the_welcome() -> None:
    size, over = 100_000, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(write_welcome(Welcome("b", 1, True, 0, 2**20, 2**24, "")))
        writer.write(frame(Kind.EVENTS, bytes(size)))
        await reader.read()
        writer.close()
        over.set()

    async def go() -> int:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        way = TcpWay(parse_url(f"penstock://127.0.0.1:{server.sockets[0].getsockname()[1]}"), None)
        taker = Taker()

        def on_welcome(connection: FrameConnection, welcome: Welcome) -> Owner:
            connection.reader.limit = welcome.frame_bytes
            return taker

        connection = await open_connection(
            way, Hello(VERSION, "client", "c", "", "s", 0, 0), on_welcome, HANGS
        )
        came = await asyncio.wait_for(taker.came, HANGS)
        connection.close()
        await connection.closed.wait()
        await asyncio.wait_for(over.wait(), HANGS)
        server.close()
        await server.wait_closed()
        return came

    assert asyncio.run(go()) == size


class Neighbour:
    """A broker with one neighbour, which has asked for something."""

    def __init__(self) -> None:
        self.broker = Broker("b", SCHEMES["covering"], EngineMatching())
        self.runtime = Runtime(self.broker, Limits(), Times())
        self.number = 0
        self.link = self.join("s1")
        self.say(Sync((0, 1), 0, (), (WANTED,)))

    def join(self, session: str) -> Link:
        self.number = 0
        self.link = self.runtime.add_neighbour("n", session, 0, 0.0, dialed=False)
        return self.link

    def say(self, message: Spoken) -> None:
        self.number += 1
        payload = self.number.to_bytes(8, "big") + write_spoken(message)
        self.runtime.on_frame(self.link, Kind.MESSAGE, memoryview(payload), 0.0)

    @property
    def wants(self) -> int:
        return len(self.broker.table)


def test_what_a_neighbour_asked_for_stays_until_it_says_it_anew() -> None:
    case = Neighbour()
    old = case.link
    assert case.wants == 1
    case.join("s2")
    assert old.phase is LinkPhase.GONE
    assert case.wants == 1
    case.say(Sync((0, 2), 0, (), ()))
    assert case.wants == 0


def test_what_a_neighbour_asked_for_stays_for_a_while_when_it_ends_the_connection() -> None:
    case = Neighbour()
    refusal = write_refused("protocol", "a mistake")
    case.runtime.on_frame(case.link, Kind.REFUSED, memoryview(refusal)[5:], 1.0)
    assert case.link.phase is LinkPhase.AWAY
    case.runtime.tick(1.0 + Times().grace)
    assert case.wants == 1
    case.runtime.tick(1.1 + Times().grace)
    assert case.wants == 0
    assert "n" not in case.runtime.links
