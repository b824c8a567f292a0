"""Opening a connection: dial, greet, and be welcomed or refused. Brokers and clients do it alike."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, TypeAlias

from penstock.errors import NetworkError, WireError
from penstock.net.addresses import Address
from penstock.net.connection import FrameConnection, Owner
from penstock.wire.frames import Kind
from penstock.wire.greetings import Hello, Welcome, read_refused, read_welcome, write_hello

OnWelcome: TypeAlias = Callable[[FrameConnection, Welcome], Owner]
"""Told of a welcome before anything that follows it; says who takes what follows."""


class RefusedError(NetworkError):
    """A connection is not wanted. `code` is one of those of `penstock.wire.greetings.Refused`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Way(Protocol):
    """How to get to a broker. Its text names the broker in messages."""

    async def dial(self, make: Callable[[], FrameConnection]) -> FrameConnection:
        """Make a connection. Raises OSError."""


class TcpWay:
    """Over the network."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._context = context if address.tls else None

    def __str__(self) -> str:
        return str(self._address)

    async def dial(self, make: Callable[[], FrameConnection]) -> FrameConnection:
        """Make a connection."""
        loop = asyncio.get_running_loop()
        _transport, connection = await loop.create_connection(
            make, self._address.host, self._address.port, ssl=self._context
        )
        return connection


class _Greeter:
    """Owns a connection until it is welcomed."""

    def __init__(self, on_welcome: OnWelcome) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_welcome = on_welcome

    def on_frames(self, connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        """The answer to the greeting, and perhaps more after it."""
        kind, payload = frames[0]
        try:
            if kind is Kind.REFUSED:
                refused = read_refused(payload)
                raise RefusedError(refused.code, refused.reason)
            if kind is not Kind.WELCOME:
                raise WireError("a broker answers a greeting with a welcome; is there a broker at all?")
            connection.owner = self._on_welcome(connection, read_welcome(payload))
        except Exception as error:
            self._fail(error)
            connection.close()
            return
        if not self.answer.done():
            self.answer.set_result(None)
        if frames[1:]:
            connection.owner.on_frames(connection, frames[1:])

    def on_lost(self, _connection: FrameConnection) -> None:
        """It was closed without an answer."""
        self._fail(
            NetworkError("the connection was closed before any answer; is it a broker, and is TLS right?")
        )

    def on_writable(self, _connection: FrameConnection) -> None:
        """A greeting is short."""

    def _fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


async def open_connection(
    way: Way,
    hello: Hello,
    on_welcome: OnWelcome,
    timeout: float,
) -> FrameConnection:
    """Dial and greet. Raises NetworkError, of which RefusedError is one, or WireError."""
    loop = asyncio.get_running_loop()
    greeter = _Greeter(on_welcome)
    connection: FrameConnection | None = None
    try:
        async with asyncio.timeout(timeout):
            connection = await way.dial(lambda: FrameConnection(greeter, loop.time))
            connection.write([write_hello(hello)])
            await greeter.answer
    except TimeoutError:
        await _abandon(greeter, connection, at_once=True)
        raise NetworkError(f"{way}: no answer within {timeout:g} s") from None
    except (NetworkError, WireError):
        await _abandon(greeter, connection)
        raise
    except ssl.SSLError as error:
        await _abandon(greeter, connection)
        said = f"{way}: TLS: {error.reason or error}"
        raise NetworkError(f"{said}; is it for this host, and is its authority the one named?") from None
    except OSError as error:
        await _abandon(greeter, connection)
        raise NetworkError(f"{way}: {(error.strerror or str(error)).lower()}") from None
    except asyncio.CancelledError:
        await _abandon(greeter, connection, at_once=True)
        raise
    return connection


async def _abandon(greeter: _Greeter, connection: FrameConnection | None, *, at_once: bool = False) -> None:
    """End what has not become a connection; whoever tried may end its loop next, so it is closed by then."""
    greeter.answer.cancel()
    if connection is not None:
        if at_once:
            connection.abort()
        else:
            connection.close()
        await connection.closed.wait()
