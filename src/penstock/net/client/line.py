"""The line to a broker: a session over one connection after another, made again when it is lost."""

import asyncio
import random
import secrets
from collections.abc import Callable
from typing import Final, Literal, Protocol

import msgspec

from penstock.errors import AccessError, NetworkError, WireError
from penstock.net.client.notices import Notice
from penstock.net.connection import FrameConnection, Owner
from penstock.net.opening import RefusedError, Way, open_connection
from penstock.wire.blocks import Block
from penstock.wire.frames import Kind
from penstock.wire.greetings import VERSION, Hello, Welcome, read_refused
from penstock.wire.requests import Answer, read_answer
from penstock.wire.sessions import CLIENT_WINDOW, Session

_WAIT_FIRST: Final = 0.05
_WAIT_MAX: Final = 2.0
"""Seconds between two tries to connect again, the first and the longest."""

_SILENT_MAX: Final = 12.0
"""Seconds without a word after which a broker is taken for dead; it is pinged in between."""


class Talker(Protocol):
    """Whoever has something to say to the broker."""

    def begin(self, session: Session, welcome: Welcome) -> int:
        """There is a new session: say everything anew; return how many events are published again."""

    def receive(self, number: int, block: Block) -> None:
        """Events have come, in a frame of this number."""

    def answered(self, answer: Answer) -> None:
        """The broker has answered something, or says something by itself."""

    def fail(self, error: Exception) -> None:
        """It is over: tell everybody who waits."""


class Line:
    """Keeps a session with a broker, or with another when that one is gone."""

    def __init__(
        self,
        talker: Talker,
        ways: list[Way],
        *,
        name: str,
        token: str,
        when_slow: Literal["pause", "drop"],
        reconnect: bool,
        timeout: float,
        on_notice: Callable[[Notice], None] | None,
    ) -> None:
        self.broker = ""
        """The name of the broker at the other end."""
        self.session = Session(CLIENT_WINDOW)
        self.error: Exception | None = None
        """Why it is over."""
        self.is_closed = False
        self._talker = talker
        self._ways = ways
        self._name = name
        self._token = token
        self._when_slow = when_slow
        self._reconnects = reconnect
        self._timeout = timeout
        self._on_notice = on_notice
        self._identity = secrets.token_hex(16)
        self._sessions = 0
        self._home: tuple[str, int] | None = None
        """The broker that the session is with, and which life of it."""
        self._is_flushing = False
        self._connection: FrameConnection | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    async def open(self) -> None:
        """Connect to the first broker that answers. Raises NetworkError or AccessError."""
        reasons = []
        for way in self._ways:
            try:
                await self._connect(way, is_first=True)
            except (NetworkError, WireError) as error:
                if isinstance(error, RefusedError) and error.code == "access":
                    raise AccessError(f"{way}: {error}") from None
                reasons.append(str(error) if str(way) in str(error) else f"{way}: {error}")
            else:
                self._watching = asyncio.get_running_loop().create_task(self._watch())
                return
        raise NetworkError("; ".join(reasons))

    async def _connect(self, way: Way, *, is_first: bool = False) -> None:
        hello = Hello(
            VERSION,
            "client",
            self._name,
            self._token,
            f"{self._identity}:{self._sessions}",
            self.session.received,
            0,
            self._when_slow,
        )

        def on_welcome(connection: FrameConnection, welcome: Welcome) -> Owner:
            self._welcomed(connection, welcome, is_first=is_first)
            return self

        await open_connection(way, hello, on_welcome, self._timeout)

    def _welcomed(self, connection: FrameConnection, welcome: Welcome, *, is_first: bool) -> None:
        home = welcome.broker, welcome.incarnation
        if welcome.resumed and home != self._home:
            # There was a session there before the one that there is now with another broker.
            self._sessions += 1
            raise NetworkError(f"{welcome.broker} would go on with a session that is over")
        before, self.broker = self.broker, welcome.broker
        self._home = home
        connection.reader.limit = max(welcome.frame_bytes, 2**26)
        again: list[bytes] = []
        sent_again = 0
        if welcome.resumed:
            again = self.session.resume(welcome.received)
        else:
            self.session = Session(min(welcome.window, CLIENT_WINDOW))
            sent_again = self._talker.begin(self.session, welcome)
        self._connection = connection
        if again:
            connection.write(again)
        self.flush()
        if is_first:
            return
        self.notify("reconnected", f"connected to {welcome.broker}")
        if not welcome.resumed:
            text = f"{before} did not keep the session: events may have been missed, or may come late"
            if sent_again:
                text += f"; {sent_again:,} events were published again"
            self.notify("missed", text, sent_again)

    def on_frames(self, connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        """Frames have come."""
        if connection is not self._connection:
            return
        for kind, payload in frames:
            if kind is Kind.ACK:
                self.session.on_ack(payload)
            elif kind is Kind.REFUSED:
                self._refused(*msgspec.structs.astuple(read_refused(payload)))
            else:
                taken = self.session.take(payload)
                if taken is None:
                    continue
                number, content = taken
                if kind is Kind.EVENTS:
                    self._talker.receive(number, Block.decode(content))
                elif kind is Kind.MESSAGE:
                    self.session.dealt_with(number)
                    self._talker.answered(read_answer(content))
                else:
                    raise WireError(f"a frame of kind {kind.name} has no place here")
        self.flush()

    def on_writable(self, _connection: FrameConnection) -> None:
        """There is room again for more."""
        self.flush()

    def on_lost(self, connection: FrameConnection) -> None:
        """The connection is lost."""
        if connection is not self._connection:
            return
        self._connection = None
        if self.is_closed:
            return
        if not self._reconnects or self.error is not None:
            self.fail(self.error or NetworkError(f"the connection to {self.broker} is lost"))
            return
        self.notify("disconnected", f"the connection to {self.broker} is lost")
        self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect())

    def _refused(self, code: str, reason: str) -> None:
        """The broker ends the connection and says why."""
        if code == "slow":
            self.notify("dropped", reason)
            self.error = NetworkError(f"{self.broker}: {reason}")
        elif code in ("access", "protocol"):
            self.error = (AccessError if code == "access" else WireError)(f"{self.broker}: {reason}")

    async def _reconnect(self) -> None:
        """Try the same broker first, which may have kept the session; then the others, again and again."""
        wait = _WAIT_FIRST
        current = 0
        while not self.is_closed:
            way = self._ways[current % len(self._ways)]
            try:
                await self._connect(way)
            except (NetworkError, WireError) as error:
                if isinstance(error, RefusedError) and error.code == "access":
                    self.fail(AccessError(f"{way}: {error}"))
                    return
            else:
                # The one that answered is the first to be tried next time.
                self._ways = self._ways[current:] + self._ways[:current]
                return
            current = (current + 1) % len(self._ways)
            # Not all clients at the same moment after an outage.
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311
            if current == 0:
                wait = min(_WAIT_MAX, wait * 2)

    async def _watch(self) -> None:
        """Notice a broker that says nothing at all any more."""
        while True:
            await asyncio.sleep(_SILENT_MAX / 4)
            connection = self._connection
            if connection is not None:
                silent = asyncio.get_running_loop().time() - connection.heard_at
                if silent > _SILENT_MAX:
                    connection.abort()
                elif silent > _SILENT_MAX / 4:
                    connection.ping()

    def flush(self) -> None:
        """Write what may be written."""
        self._is_flushing = False
        connection = self._connection
        if connection is None:
            return
        frames = self.session.sendable() if connection.is_writable else []
        ack = self.session.ack_due()
        if ack is not None:
            frames.append(ack)
        if frames:
            connection.write(frames)

    def acknowledge_soon(self) -> None:
        """Something has been taken that a broker may be waiting for."""
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def notify(self, kind: str, text: str, count: int = 0) -> None:
        """Tell whoever wants to know; a mistake of theirs stops nothing here."""
        if self._on_notice is None:
            return
        try:
            self._on_notice(Notice(kind, text, count))
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"on_notice failed for {kind!r}", "exception": error}
            )

    def fail(self, error: Exception) -> None:
        """It is over, for a reason."""
        self.is_closed = True
        self.error = error
        self._talker.fail(error)

    async def close(self) -> None:
        """End the connection, and make no other."""
        self.is_closed = True
        for task in (self._reconnecting, self._watching):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.closed.wait()
