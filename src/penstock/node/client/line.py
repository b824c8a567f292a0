"""The line to a broker: a session over one connection after another, made again when it is lost."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

import msgspec

from penstock.errors import AccessError, NetworkError, WireError
from penstock.node.client.notices import Notice
from penstock.node.connection import FrameConnection
from penstock.node.opening import NoAnswerError, Opening, RefusedError, Way
from penstock.node.standstill import Standstill
from penstock.node.world import Timer, World
from penstock.wire.blocks import Block
from penstock.wire.frames import Kind
from penstock.wire.greetings import VERSION, Hello, Welcome, read_refused
from penstock.wire.requests import Answer, read_answer
from penstock.wire.sessions import CLIENT_WINDOW, Session

_WAIT_FIRST: Final = 0.05
_WAIT_MAX: Final = 2.0
"""Seconds between two tries to connect again, the first and the longest."""

_SILENT_MAX: Final = 5.0
"""Seconds without a word after which a broker is taken for dead; it is pinged in between."""

_LOOKS: Final = 4
"""Looks at a silent broker in that time; each but the first pings it."""

_ANSWER_MAX: Final = 2.0
"""Seconds that one of several brokers has to answer a greeting, before the next is tried. A broker that hangs
still has its connections accepted, by the system. Each round of tries is given twice as long as the last."""


_SILENT_SLACK: Final = 0.5
"""Seconds that are added to how long nothing was heard: clocks tick."""


class Talker(Protocol):
    """Whoever has something to say to the broker."""

    def begin(self, session: Session, welcome: Welcome, silent: float) -> int:
        """There is a new session: say everything anew; return how many events are published again.

        Nothing was heard from the broker before for so many seconds.
        """

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
        world: World,
        ways: Sequence[Way],
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
        self._world = world
        self._ways = list(ways)
        self._name = name
        self._token = token
        self._when_slow = when_slow
        self._reconnects = reconnect
        self._timeout = timeout
        self._on_notice = on_notice
        self.identity = world.secret()
        """What stays the same of all its sessions."""
        self._sessions = 0
        self._home: tuple[str, int] | None = None
        """The broker that the session is with, and which life of it."""
        self._is_flushing = False
        self._connection: FrameConnection | None = None
        self._opening: Opening | None = None
        self._next_try: Timer | None = None
        self._next_look: Timer | None = None
        self._looked_at = 0.0
        self._standstill = Standstill(world.time(), _SILENT_MAX / _LOOKS)
        self._heard_at = 0.0
        """When something was last heard by a connection that is lost."""
        self._missing_since = float("inf")
        """Since when events may be missing, until a broker says that all have come."""
        self._unheard_since = float("inf")
        """Since when there may be publishers that the last broker had not heard of."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    # Connecting

    def open(self, on_open: Callable[[], object], on_failed: Callable[[Exception], object]) -> None:
        """Connect to the first broker that answers; else the error is a NetworkError or AccessError."""
        self._open_from(self._ways, [], on_open, on_failed, self._patience(0))

    def _patience(self, rounds: int) -> float:
        """How long a broker has to answer, after so many rounds in which none has."""
        if len(self._ways) == 1:
            return self._timeout
        return min(self._timeout, _ANSWER_MAX * 2.0 ** min(rounds, 10))

    def _open_from(
        self,
        ways: Sequence[Way],
        reasons: list[str],
        on_open: Callable[[], object],
        on_failed: Callable[[Exception], object],
        patience: float,
        slow: tuple[Way, ...] = (),
    ) -> None:
        """Try ways in their order. Those that have not answered in time are tried again, with more of it."""
        if not ways:
            if slow and patience < self._timeout:
                del reasons[:]
                self._open_from(slow, reasons, on_open, on_failed, self._timeout)
            else:
                on_failed(NetworkError("; ".join(reasons)))
            return
        way, *others = ways

        def opened() -> None:
            self._looked_at = self._world.time()
            self._standstill.tick(self._looked_at)
            self._next_look = self._world.call_later(_SILENT_MAX / _LOOKS, self._look)
            on_open()

        def failed(error: Exception) -> None:
            if isinstance(error, RefusedError) and error.code == "access":
                on_failed(AccessError(f"{way}: {error}"))
                return
            reasons.append(str(error) if str(way) in str(error) else f"{way}: {error}")
            left = (*slow, way) if isinstance(error, NoAnswerError) else slow
            self._open_from(others, reasons, on_open, on_failed, patience, left)

        self._connect(way, opened, failed, patience, is_first=True)

    def stop_opening(self, on_ended: Callable[[], object]) -> None:
        """End a try to connect that is under way; whoever waits for it is told nothing."""
        opening, self._opening = self._opening, None
        if opening is None:
            on_ended()
        else:
            opening.cancel(on_ended)

    def _connect(
        self,
        way: Way,
        opened: Callable[[], None],
        failed: Callable[[Exception], None],
        patience: float,
        *,
        is_first: bool = False,
    ) -> None:
        hello = Hello(
            VERSION,
            "client",
            self._name,
            self._token,
            f"{self.identity}:{self._sessions}",
            self.session.received,
            0,
            self._when_slow,
        )

        def on_welcome(connection: FrameConnection, welcome: Welcome) -> "Line":
            self._welcomed(connection, welcome, is_first=is_first)
            return self

        def on_failed(error: Exception) -> None:
            self._opening = None
            failed(error)

        self._opening = Opening(
            self._world,
            way,
            hello,
            patience,
            on_welcome=on_welcome,
            on_open=lambda _connection: opened(),
            on_failed=on_failed,
        )
        self._opening.start()

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
            silent = 0.0 if is_first else self._silent()
            sent_again = self._talker.begin(self.session, welcome, silent)
        self._connection, self._opening = connection, None
        if again:
            connection.write(again)
        self.flush()
        if is_first:
            return
        text = f"connected to {welcome.broker}"
        if welcome.resumed:
            text += " again; nothing was missed, and what came meanwhile follows"
        else:
            text += f"; {before} did not keep the session: what was missed is sent again, and may come late"
            if sent_again:
                text += f"; {sent_again:,} events were published again"
        self.notify("reconnected", text, sent_again)

    @property
    def unheard(self) -> float:
        """For how many seconds there may be publishers that the last broker had not heard of."""
        return max(0.0, self._world.time() - self._unheard_since)

    def is_behind(self, seconds: float, unheard: float = 0.0) -> None:
        """Events of the last seconds are yet to come: whichever broker is next is asked for them.

        With 0, all have come, or clients have been told of the others. Nothing else ends it: the broker that
        said so may be the last that knows, and may die.
        """
        now = self._world.time()
        # If this process stood still, that was said long ago.
        said_at = now - self._standstill.seconds(now)
        self._missing_since = min(self._missing_since, said_at - seconds) if seconds else float("inf")
        self._unheard_since = min(self._unheard_since, said_at - unheard) if unheard else float("inf")

    def _silent(self) -> float:
        """For how long events may be missing, now that there is a new session."""
        self._missing_since = min(self._missing_since, self._heard_at - _SILENT_SLACK)
        return self._world.time() - self._missing_since

    def _try_again(self, current: int, wait: float, rounds: int = 0) -> None:
        """Try the same broker first, which may have kept the session; then the others, again and again."""
        self._next_try = None
        way = self._ways[current]

        def opened() -> None:
            # The one that answered is the first to be tried next time.
            self._ways = self._ways[current:] + self._ways[:current]

        def failed(error: Exception) -> None:
            if isinstance(error, RefusedError) and error.code == "access":
                self.fail(AccessError(f"{way}: {error}"))
                return
            following = (current + 1) % len(self._ways)
            longer = wait if following else min(_WAIT_MAX, wait * 2)
            more = rounds if following else rounds + 1
            # Not all clients at the same moment after an outage.
            seconds = wait * (1 + self._world.share()) / 2
            self._next_try = self._world.call_later(seconds, self._try_again, following, longer, more)

        self._connect(way, opened, failed, self._patience(rounds))

    # What the connection calls

    def on_frames(self, connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        """Frames have come."""
        if connection is not self._connection:
            return
        for kind, payload in frames:
            if kind is Kind.ACK:
                self.session.on_ack(payload)
            elif kind is Kind.REACHED:
                self.session.on_reached(payload)
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
        now = self._world.time()
        self._heard_at = min(connection.heard_at, now) - self._standstill.seconds(now)
        if self.is_closed:
            return
        if not self._reconnects or self.error is not None:
            self.fail(self.error or NetworkError(f"the connection to {self.broker} is lost"))
            return
        self._next_try = self._world.call_later(0, self._try_again, 0, _WAIT_FIRST)
        self.notify("disconnected", f"the connection to {self.broker} is lost")

    def _refused(self, code: str, reason: str) -> None:
        """The broker ends the connection and says why."""
        if code == "slow":
            self.notify("dropped", reason)
            self.error = NetworkError(f"{self.broker}: {reason}")
        elif code in ("access", "protocol"):
            self.error = (AccessError if code == "access" else WireError)(f"{self.broker}: {reason}")

    def _look(self) -> None:
        """Notice a broker that says nothing at all any more."""
        self._next_look = self._world.call_later(_SILENT_MAX / _LOOKS, self._look)
        now = self._world.time()
        self._standstill.tick(now)
        # If this process stood still itself, nobody has been pinged: the broker has until the next look.
        was_away = now - self._looked_at > _SILENT_MAX / 2
        self._looked_at = now
        connection = self._connection
        if connection is not None:
            silent = now - connection.heard_at
            if silent > _SILENT_MAX and not was_away:
                connection.abort()
            elif silent > _SILENT_MAX / _LOOKS:
                connection.ping()

    # What is said

    def flush(self) -> None:
        """Write what may be written."""
        self._is_flushing = False
        connection = self._connection
        if connection is None:
            return
        frames = self.session.sendable() if connection.is_writable else []
        for due in (self.session.reached_due(), self.session.ack_due()):
            if due is not None:
                frames.append(due)
        if frames:
            connection.write(frames)

    def acknowledge_soon(self) -> None:
        """Something has been taken that a broker may be waiting for."""
        if not self._is_flushing:
            self._is_flushing = True
            self._world.call_later(0, self.flush)

    def notify(self, kind: str, text: str, count: int = 0) -> None:
        """Tell whoever wants to know."""
        if self._on_notice is not None:
            self._on_notice(Notice(kind, text, count))

    # The end

    def fail(self, error: Exception) -> None:
        """It is over, for a reason."""
        self.is_closed = True
        self.error = error
        self._stop_timers()
        self._talker.fail(error)

    def close(self, on_closed: Callable[[], object]) -> None:
        """End the connection, and make no other; tell when it is no more."""
        self.is_closed = True
        self._stop_timers()
        connection, self._connection = self._connection, None
        if connection is None:
            self.stop_opening(on_closed)
        else:
            connection.when_closed.append(on_closed)
            connection.close()

    def _stop_timers(self) -> None:
        for timer in (self._next_try, self._next_look):
            if timer is not None:
                timer.cancel()
