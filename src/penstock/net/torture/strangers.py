"""Clients that mean no good, or do no good: nobody else may be held up by them.

One subscribes to everything and never acknowledges. A hostile one sends, as fast as it can, filters that cost
much, frames that it does not finish, or junk.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from penstock.errors import PenstockError
from penstock.net.client.connecting import connect
from penstock.net.torture.proxy import LOOPBACK
from penstock.wire.frames import Kind, frame
from penstock.wire.greetings import VERSION, Hello, write_hello

_FAILURES: Final = (PenstockError, OSError, asyncio.TimeoutError, asyncio.IncompleteReadError)

_CONNECTIONS: Final = 20
"""That hold unfinished frames at the same time."""

_PART: Final = 200_000
"""Bytes of a frame of eight million, the rest of which never comes."""

_PAUSE: Final = 0.02
"""Seconds between two connections or filters of a hostile client: it shares a machine with those it attacks,
and is not to win by taking the processor from them."""


def costly_filters() -> list[str]:
    """Texts of a few hundred characters that are dear to parse or to compare, on attributes of their own."""
    pairs = [f"(h={n} and i={n})" for n in range(12)]
    words = [f"(s{n} like '%a_{n}%' or not t{n} like '_{n}%b%')" for n in range(9)]
    sums = [f"(h{n}=0 or i{n}=1 or j{n}=2)" for n in range(14)]
    return [
        f"not ({' or '.join(pairs)})",
        " and ".join(sums),
        " and ".join(words),
        f"h not in ({','.join(map(str, range(150)))})",
        "not (" * 80 + "h = 1" + ")" * 80,
    ]


async def never_acknowledge(port: int, seconds: float) -> None:
    """Subscribe to everything with ack="manual", take it, and acknowledge nothing; then leave."""
    net = await connect(f"penstock://{LOOPBACK}:{port}", name="manual")
    try:
        stream = await net.subscribe("x >= 0", ack="manual")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for _event in stream:
                    pass
    finally:
        await net.close()


async def attack(port: int, seconds: float, amount: float) -> None:
    """Be hostile for so long; `amount`, from 0 to 1, chooses how."""
    ways: list[Callable[[int, Random], Awaitable[None]]] = [_send_filters, _leave_unfinished, _send_junk]
    way = ways[min(len(ways) - 1, int(amount * len(ways)))]
    random = Random(f"hostile {amount}")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(*_FAILURES):
                    await way(port, random)
                await asyncio.sleep(_PAUSE)


async def _send_filters(port: int, random: Random) -> None:
    net = await connect(f"penstock://{LOOPBACK}:{port}", name="hostile", timeout=2.0)
    try:
        texts = costly_filters()
        while True:
            with contextlib.suppress(*_FAILURES):
                await net.subscribe(random.choice(texts))
            if not net.is_connected:
                return
            await asyncio.sleep(_PAUSE)
    finally:
        await net.close()


async def _leave_unfinished(port: int, random: Random) -> None:
    writers = []
    try:
        for number in range(_CONNECTIONS):
            _reader, writer = await asyncio.open_connection(LOOPBACK, port)
            writers.append(writer)
            hello = Hello(VERSION, "client", f"unfinished-{number}", "", f"{random.getrandbits(64):x}", 0)
            writer.write(write_hello(hello))
            writer.write(frame(Kind.EVENTS, bytes(8_000_000))[:_PART])
            await writer.drain()
        await asyncio.sleep(1.0)
    finally:
        for writer in writers:
            writer.transport.abort()


async def _send_junk(port: int, random: Random) -> None:
    _reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        hello = Hello(VERSION, "client", "junk", "", f"{random.getrandbits(64):x}", 0)
        if random.random() < 0.5:
            writer.write(write_hello(hello))
        writer.write(random.randbytes(random.randrange(1, 5000)))
        await writer.drain()
        await asyncio.sleep(0.05)
    finally:
        writer.transport.abort()
