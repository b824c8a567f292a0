"""The proxy passes everything on, until it is told to behave badly."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from patience import HANGS
from penstock.net.torture.proxy import LOOPBACK, Proxy

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass
    finally:
        writer.close()


def behind_a_proxy(story: Callable[[Proxy], Awaitable[None]]) -> None:
    """Run a story with a proxy before a server that says everything back."""

    async def run() -> None:
        server = await asyncio.start_server(echo, LOOPBACK, 0)
        proxy = Proxy(server.sockets[0].getsockname()[1])
        await proxy.start()
        try:
            await asyncio.wait_for(story(proxy), HANGS)
        finally:
            await proxy.close()
            server.close()
            await server.wait_closed()
            # Let the ends of connections be noticed.
            await asyncio.sleep(0.05)

    asyncio.run(run())


async def connect(proxy: Proxy) -> Stream:
    return await asyncio.open_connection(LOOPBACK, proxy.port)


async def said_back(stream: Stream, data: bytes) -> bytes:
    stream[1].write(data)
    await stream[1].drain()
    return await stream[0].readexactly(len(data))


async def ends(stream: Stream) -> bool:
    """Wait for the end of a connection, of either sort."""
    try:
        return await stream[0].read() is not None
    except ConnectionError:
        return True


async def is_turned_away(proxy: Proxy) -> bool:
    try:
        stream = await connect(proxy)
        stream[1].write(b"anybody?")
        return await stream[0].read(1) == b""
    except ConnectionError:
        return True


async def is_silent(stream: Stream) -> bool:
    try:
        await asyncio.wait_for(stream[0].read(1), 0.2)
    except TimeoutError:
        return True
    return False


def test_bytes_and_ends_are_passed_on() -> None:
    async def story(proxy: Proxy) -> None:
        stream = await connect(proxy)
        data = bytes(range(256)) * 2000
        writing = asyncio.ensure_future(said_back(stream, data))
        assert await writing == data
        assert (proxy.connections, proxy.accepted) == (1, 1)
        stream[1].write(b"last")
        stream[1].write_eof()
        assert await stream[0].read() == b"last"
        stream[1].close()

    behind_a_proxy(story)


@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_ends_connections_and_turns_others_away_until_it_is_healed(reset: bool) -> None:
    async def story(proxy: Proxy) -> None:
        streams = [await connect(proxy) for _ in range(3)]
        for stream in streams:
            assert await said_back(stream, b"hello") == b"hello"
        port = proxy.port
        proxy.cut(reset=reset)
        assert all([await ends(stream) for stream in streams])
        assert await is_turned_away(proxy)
        assert proxy.is_cut
        assert proxy.connections == 0
        proxy.heal()
        assert proxy.port == port
        stream = await connect(proxy)
        assert await said_back(stream, b"again") == b"again"
        for one in [*streams, stream]:
            one[1].close()

    behind_a_proxy(story)


def test_a_stall_holds_everything_and_loses_nothing() -> None:
    async def story(proxy: Proxy) -> None:
        stream = await connect(proxy)
        assert await said_back(stream, b"before") == b"before"
        proxy.stall()
        stream[1].write(b"during")
        assert await is_silent(stream)
        proxy.heal()
        assert await stream[0].readexactly(6) == b"during"
        stream[1].close()

    behind_a_proxy(story)


def test_a_stall_is_felt_by_who_sends() -> None:
    async def story(proxy: Proxy) -> None:
        stream = await connect(proxy)
        assert await said_back(stream, b"before") == b"before"
        proxy.stall("down")
        sent, most = 0, 64 << 20
        chunk = b"." * (1 << 16)
        while sent < most:
            stream[1].write(chunk)
            sent += len(chunk)
            try:
                await asyncio.wait_for(stream[1].drain(), 0.5)
            except TimeoutError:
                break
        assert sent < most
        proxy.heal()
        assert len(await stream[0].readexactly(sent)) == sent
        stream[1].close()

    behind_a_proxy(story)


def test_a_stall_can_be_one_way() -> None:
    async def heard(proxy: Proxy) -> None:
        got = asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if await reader.read(1):
                got.set()
            writer.write(b"answer")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(listen, LOOPBACK, 0)
        own = Proxy(server.sockets[0].getsockname()[1])
        await own.start()
        own.stall("down")
        stream = await connect(own)
        stream[1].write(b"question")
        await got.wait()
        assert await is_silent(stream)
        own.heal()
        assert await stream[0].readexactly(6) == b"answer"
        stream[1].close()
        await own.close()
        server.close()
        await server.wait_closed()

    behind_a_proxy(heard)


def test_a_delay_and_a_throttle_take_at_least_their_time() -> None:
    async def story(proxy: Proxy) -> None:
        stream = await connect(proxy)
        proxy.delay(0.1)
        began = time.monotonic()
        assert await said_back(stream, b"slow") == b"slow"
        # There and back; clocks that are rounded may say a little less.
        assert time.monotonic() - began > 0.19
        proxy.heal()
        proxy.throttle(100_000, "up")
        began = time.monotonic()
        assert await said_back(stream, b"." * 40_000) == b"." * 40_000
        assert time.monotonic() - began > 0.15
        stream[1].close()

    behind_a_proxy(story)


def test_who_comes_while_nobody_listens_behind_is_turned_away() -> None:
    async def story(proxy: Proxy) -> None:
        server = await asyncio.start_server(echo, LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        own = Proxy(port)
        await own.start()
        assert await is_turned_away(own)
        server = await asyncio.start_server(echo, LOOPBACK, port)
        stream = await connect(own)
        assert await said_back(stream, b"back") == b"back"
        stream[1].close()
        await own.close()
        server.close()
        await server.wait_closed()

    behind_a_proxy(story)


@pytest.mark.parametrize("where", [0.0, 0.5, 0.999])
def test_one_bit_is_flipped_once_and_one_way(where: float) -> None:
    async def story(proxy: Proxy) -> None:
        stream = await connect(proxy)
        data = bytes(200)
        proxy.flip(where, "up")
        # What is mended leaves it to be flipped.
        proxy.heal()
        assert sum(byte.bit_count() for byte in await said_back(stream, data)) == 1
        assert await said_back(stream, data) == data
        stream[1].close()

    behind_a_proxy(story)
