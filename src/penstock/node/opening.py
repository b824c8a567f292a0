"""Opening a connection: dial, greet, and be welcomed or refused. Brokers and clients do it alike."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from penstock.errors import NetworkError, PenstockError, WireError
from penstock.node.connection import FrameConnection, Owner
from penstock.node.world import Timer, World
from penstock.wire.frames import Kind
from penstock.wire.greetings import Hello, Welcome, read_refused, read_welcome, write_hello

OnWelcome: TypeAlias = Callable[[FrameConnection, Welcome], Owner]
"""Told of a welcome before anything that follows it; says who takes what follows. May raise NetworkError or
WireError, which ends the connection."""


class RefusedError(NetworkError):
    """A connection is not wanted. `code` is one of those of `penstock.wire.greetings.Refused`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class NoAnswerError(NetworkError):
    """Nobody answered in time. There may be a broker that hangs, or that is only slow."""


class Way(Protocol):
    """How to get to a broker, which only a world knows. Its text names the broker in messages."""

    def __str__(self) -> str: ...


class Opening:
    """One try to get a connection: `start` it, and perhaps `cancel` it.

    Unless it is cancelled, it calls either `on_open` or `on_failed`, once. The error is a NetworkError, of
    which RefusedError is one, or a WireError; by then the connection that came to nothing is closed.
    """

    def __init__(
        self,
        world: World,
        way: Way,
        hello: Hello,
        timeout: float,
        *,
        on_welcome: OnWelcome,
        on_open: Callable[[FrameConnection], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._world = world
        self._way = way
        self._hello = hello
        self._timeout = timeout
        self._on_welcome = on_welcome
        self._on_open = on_open
        self._on_failed = on_failed
        self._is_over = False
        self._error: Exception | None = None
        """Why it has failed, while the connection is being closed."""
        self._connection: FrameConnection | None = None
        self._dialing: Timer | None = None
        self._limit: Timer | None = None

    def start(self) -> None:
        """Dial. What comes of it may be told before this returns."""
        self._limit = self._world.call_later(self._timeout, self._out_of_time)
        self._dialing = self._world.dial(self._way, self._make, self._fail)

    def cancel(self, on_ended: Callable[[], object] | None = None) -> None:
        """End what is under way; nobody is told, but perhaps that the connection is no more."""
        self._finish()
        connection = self._connection
        if connection is not None and not connection.is_closed:
            if on_ended is not None:
                connection.when_closed.append(on_ended)
            connection.abort()
            return
        if connection is None and self._dialing is not None:
            self._dialing.cancel()
        if on_ended is not None:
            on_ended()

    # The connection, until it is welcomed

    def _make(self) -> FrameConnection:
        return FrameConnection(self, self._world, on_open=self._greet)

    def _greet(self, connection: FrameConnection) -> None:
        if self._is_over:
            # The dial was ended too late.
            connection.abort()
            return
        self._connection = connection
        connection.write([write_hello(self._hello)])

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
        except PenstockError as error:
            self._fail(error)
            return
        if not self._is_over:
            self._finish()
            self._on_open(connection)
        if frames[1:]:
            connection.owner.on_frames(connection, frames[1:])

    def on_lost(self, _connection: FrameConnection) -> None:
        """It is closed: without an answer, or after one that was not good."""
        self._fail(
            self._error
            or NetworkError("the connection was closed before any answer; is it a broker, and is TLS right?")
        )

    def on_writable(self, _connection: FrameConnection) -> None:
        """A greeting is short."""

    # The end

    def _out_of_time(self) -> None:
        error = NoAnswerError(f"{self._way}: no answer within {self._timeout:g} s")
        if self._connection is None and self._dialing is not None:
            self._dialing.cancel()
        self._fail(error, at_once=True)

    def _fail(self, error: Exception, *, at_once: bool = False) -> None:
        """Tell why it has come to nothing; but only when the connection is closed: a program may end next."""
        if self._is_over:
            return
        connection = self._connection
        if connection is None or connection.is_closed:
            self._finish()
            self._on_failed(error)
            return
        self._error = error
        self._stop_limit()
        if at_once:
            connection.abort()
        else:
            connection.close()

    def _finish(self) -> None:
        self._is_over = True
        self._stop_limit()

    def _stop_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
