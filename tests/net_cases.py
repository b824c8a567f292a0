"""Real brokers in this process, and connections that speak frames by hand."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from patience import HANGS
from penstock.model.events import Event
from penstock.net.addresses import parse_url
from penstock.net.config import BrokerConfig, GatewayConfig, TokenConfig
from penstock.net.matching import warm
from penstock.net.server import Server
from penstock.net.tokens import make_token
from penstock.node.settings import Times
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.frames import FrameReader, Kind, frame
from penstock.wire.greetings import VERSION, Hello, write_hello

SECRET = "a secret of more than thirty-two bytes"  # noqa: S105 - of tests


def config(name: str = "b", **more: Any) -> BrokerConfig:
    given: dict[str, Any] = {
        "listen": ["penstock://127.0.0.1:0"],
        "gateway": GatewayConfig(listen=""),
        # What only the end of a lease mends shall be seen not to come.
        "times": Times(join=0.01, lease=86_400, linger=86_400),
        **more,
    }
    return BrokerConfig(name=name, **given)


def with_tokens(folder: Path, **more: Any) -> BrokerConfig:
    """A broker that asks for tokens."""
    path = folder / "secret"
    path.write_text(SECRET)
    return config(tokens=TokenConfig(secret_file=str(path)), **more)


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test; what is not awaited, or fails unnoticed, fails the test."""
    # The first broker of an installation compiles its kernels: minutes that are no test's.
    warm()
    unnoticed: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unnoticed.append(context))
        async with asyncio.timeout(HANGS):
            await main()

    asyncio.run(bounded())
    assert not unnoticed


@asynccontextmanager
async def serving(*configs: BrokerConfig) -> AsyncIterator[list[Server]]:
    """Brokers that run."""
    servers: list[Server] = []
    try:
        for one in configs:
            server = Server(one)
            await server.start()
            servers.append(server)
        yield servers
    finally:
        for server in servers:
            await server.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something, for as long as a test may take."""
    while not condition():
        await asyncio.sleep(0.01)


class Raw:
    """A connection that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader(2**30)
        self._had: list[tuple[Kind, bytes]] = []

    @classmethod
    async def open(cls, server: Server) -> "Raw":
        address = parse_url(server.urls[0])
        return cls(*await asyncio.open_connection(address.host, address.port))

    def say(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    async def hear(self) -> tuple[Kind, bytes] | None:
        """The next frame but pings; None if the connection has ended."""
        while not self._had:
            try:
                data = await self.reader.read(2**16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._had += [
                (kind, bytes(payload)) for kind, payload in self._frames.feed(data) if kind is not Kind.PING
            ]
        return self._had.pop(0)

    async def hear_all(self) -> list[tuple[Kind, bytes]]:
        """All frames until the connection ends."""
        found = []
        while (heard := await self.hear()) is not None:
            found.append(heard)
        return found

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    async def __aenter__(self) -> "Raw":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


def hello(**more: Any) -> bytes:
    given: dict[str, Any] = {
        "version": VERSION,
        "role": "client",
        "name": "raw",
        "token": "",
        "session": "raw:0",
        "received": 0,
        "protocol": "trees",
    }
    return write_hello(Hello(**{**given, **more}))


def numbered(kind: Kind, number: int, content: bytes) -> bytes:
    return frame(kind, number.to_bytes(8, "big"), content)


def events_frame(number: int, key: str, *events: dict[str, Any], trace: str = "", first: int = 1) -> bytes:
    encoded = [encode_event(Event(event)) for event in events]
    block = Block.of(Header(key, "", trace=trace), range(first, first + len(events)), encoded)
    return numbered(Kind.EVENTS, number, block.encode())


def token(subject: str = "somebody", **grants: Any) -> str:
    return make_token(SECRET.encode(), subject, expires_in=600, **grants)


class Complaints(logging.Handler):
    """What "penstock.net" and asyncio log as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self.records.append(text)

    def __enter__(self) -> "Complaints":
        for name in ("penstock.net", "asyncio"):
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(self, *_error: object) -> None:
        for name in ("penstock.net", "asyncio"):
            logging.getLogger(name).removeHandler(self)
