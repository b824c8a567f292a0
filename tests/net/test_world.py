"""The world of a live process: time, and sockets."""

import asyncio
import threading
import time

import pytest

from net_cases import run, until
from patience import HANGS
from penstock.net.addresses import parse_url
from penstock.net.sockets import TcpWay
from penstock.net.tls import client_context
from penstock.net.world import AsyncioWorld
from penstock.node.connection import FrameConnection
from penstock.node.world import Pace, Spent
from penstock.wire.frames import Kind, frame


class Heard:
    """An owner that keeps what happens."""

    def __init__(self) -> None:
        self.happened: list[object] = []

    def on_frames(self, _connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        self.happened += [len(payload) for _kind, payload in frames]

    def on_lost(self, _connection: FrameConnection) -> None:
        self.happened.append("lost")

    def on_writable(self, _connection: FrameConnection) -> None:
        self.happened.append("writable")


def test_what_takes_long_is_computed_in_a_thread_and_told_in_the_loop() -> None:
    async def main() -> None:
        world, told = AsyncioWorld(), list[tuple[int, bool, bool]]()
        here = threading.get_ident()

        def work(_pace: Pace) -> int:
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
            return threading.get_ident()

        def done(thread: int, spent: Spent) -> None:
            told.append((thread, threading.get_ident() == here, 0.02 <= spent.seconds < HANGS))

        for _ in range(3):
            world.compute(work, done)
        await until(lambda: len(told) == 3)
        ((thread, in_the_loop, is_counted),) = set(told)
        assert thread != here
        assert in_the_loop
        assert is_counted
        # Waiting costs nothing.
        before = world.cpu_time()
        await asyncio.sleep(0.2)
        assert world.cpu_time() - before < 0.1
        world.close()
        await until(lambda: not any("penstock-filters" in one.name for one in threading.enumerate()))

    run(main)


def test_what_takes_long_pauses_most_of_the_time() -> None:
    async def main() -> None:
        world, told = AsyncioWorld(), list[Spent]()

        def work(pace: Pace) -> None:
            for _ in range(10):
                end = time.thread_time() + 0.001
                while time.thread_time() < end:
                    pass
                pace()

        world.compute(work, lambda _none, spent: told.append(spent))
        await until(lambda: told)
        (spent,) = told
        # Most of it, because a process that was not given a processor has worked for longer than a slice.
        assert spent.rested >= 0.8 * 9 * spent.seconds >= 0.8 * 9 * 0.01
        world.compute(lambda pace: pace(), lambda _none, spent: told.append(spent))
        await until(lambda: len(told) == 2)
        assert told[1].rested == 0
        world.close()

    run(main)


def test_calls_come_in_their_order_and_may_be_cancelled() -> None:
    async def main() -> None:
        world, called = AsyncioWorld(), list[int]()
        world.call_later(0.01, called.append, 3)
        for number in (1, 2):
            world.call_later(0, called.append, number)
        for seconds in (0, 0.005):
            world.call_later(seconds, called.append, 4).cancel()
        assert not called
        await until(lambda: len(called) == 3)
        assert called == [1, 2, 3]

    run(main)


def test_what_a_socket_does_goes_to_the_connection() -> None:
    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(13) * 2)
            # Nothing more is read for a while.
            await go_on.wait()
            while await reader.read(2**20):
                pass
            writer.close()

        go_on, world, heard = asyncio.Event(), AsyncioWorld(), Heard()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        way = TcpWay(parse_url(f"penstock://127.0.0.1:{server.sockets[0].getsockname()[1]}"), None)
        made: list[FrameConnection] = []
        world.dial(way, lambda: FrameConnection(heard, world, on_open=made.append), heard.happened.append)
        await until(lambda: made)
        (connection,) = made
        assert not connection.is_tls
        connection.write([frame(Kind.ACK, b"x")])
        await until(lambda: heard.happened == [1, 1])
        while connection.is_writable:
            connection.write([bytes(2**20)])
            await asyncio.sleep(0)
        go_on.set()
        await until(lambda: connection.is_writable)
        connection.close()
        await until(lambda: connection.is_closed)
        assert heard.happened == [1, 1, "writable", "lost"]
        server.close()
        await server.wait_closed()

    run(main)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("penstock://127.0.0.1:1", "penstock://127.0.0.1:1: connect call failed"),
        ("penstock://" + "x" * 70 + ".test", "penstock://xxx"),
    ],
)
def test_why_a_dial_fails_is_told(url: str, text: str) -> None:
    async def main() -> None:
        world, heard = AsyncioWorld(), Heard()
        way = TcpWay(parse_url(url), None)
        world.dial(way, lambda: FrameConnection(heard, world), heard.happened.append)
        await until(lambda: heard.happened)
        (error,) = heard.happened
        assert str(error).startswith(text)

    run(main)


def test_a_dial_that_is_cancelled_tells_nobody() -> None:
    async def main() -> None:
        world, heard, closed = AsyncioWorld(), Heard(), asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(-1)
            writer.close()
            closed.set()

        # It never says a word, so that TLS does not come about.
        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        address = parse_url(f"penstocks://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        way = TcpWay(address, client_context())
        dial = world.dial(way, lambda: FrameConnection(heard, world), heard.happened.append)
        await asyncio.sleep(0.05)
        dial.cancel()
        async with asyncio.timeout(HANGS):
            await closed.wait()
        assert heard.happened == []
        server.close()
        await server.wait_closed()

    run(main)
