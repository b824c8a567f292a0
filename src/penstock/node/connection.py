"""A connection: bytes to frames and back. What carries them is handed in; what they mean is its owner's."""

from collections.abc import Callable
from typing import Final, Protocol

from penstock.errors import WireError
from penstock.node.world import Timer, World
from penstock.wire.frames import HELLO_BYTES_MAX, DamagedError, FrameReader, Kind, frame
from penstock.wire.greetings import write_refused

CLOSE_SECONDS: Final = 2.0
"""A connection that is closed is given so long to take what was written."""

_PINGING: Final = Kind.PING
_PONGING: Final = Kind.PONG
_PING: Final = frame(Kind.PING)
_PONG: Final = frame(Kind.PONG)


class Transport(Protocol):
    """What carries bytes: a socket, or a pipe under virtual time. The same as asyncio's."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self) -> None:
        """End it after what was written."""

    def abort(self) -> None:
        """End it at once."""


class Owner(Protocol):
    """Whoever uses a connection."""

    def on_frames(self, connection: "FrameConnection", frames: list[tuple[Kind, memoryview]]) -> None:
        """Frames have come. May raise WireError, which ends the connection."""

    def on_lost(self, connection: "FrameConnection") -> None:
        """The connection is no more."""

    def on_writable(self, connection: "FrameConnection") -> None:
        """There is room again for more."""


class FrameConnection:
    """One connection. Pings are answered here; `heard_at` says when anything last came."""

    def __init__(
        self,
        owner: Owner,
        world: World,
        limit: int = HELLO_BYTES_MAX,
        on_open: "Callable[[FrameConnection], None] | None" = None,
    ) -> None:
        self.heard_at = world.time()
        self.is_writable = True
        self.reader = FrameReader(limit)
        self.names: frozenset[str] = frozenset()
        """The names on the certificate that the other side has shown, checked."""
        self.address = ""
        """Where the other side is, without its port; "" if that is not known."""
        self.behind = ""
        """The same of whoever acts through it, of a connection that the gateway makes."""
        self.is_tls = False
        self.is_closed = False
        self.when_closed: list[Callable[[], object]] = []
        """Called when it is no more, after its owner."""
        self.owner = owner
        self.unfinished_since: float | None = None
        """When the frame began to come that is not whole."""
        self.held = 0
        """Bytes of it that are here."""
        self.on_held: Callable[[int], None] | None = None
        """Told by how many bytes that changes."""
        self._world = world
        self._on_open = on_open
        self._transport: Transport | None = None
        self._is_closing = False
        self._has_heard = False
        """Whether the other side has said anything that could be understood."""
        self._end: Timer | None = None

    # What the transport calls

    def connection_made(
        self,
        transport: Transport,
        names: frozenset[str] = frozenset(),
        *,
        is_tls: bool = False,
        address: str = "",
    ) -> None:
        """It is open."""
        self._transport = transport
        self.is_tls, self.names = is_tls, names
        self.address = address
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._is_closing:
            return
        now = self.heard_at = self._world.time()
        try:
            frames = self.reader.feed(data)
            if frames:
                self.unfinished_since = None
            while frames and not self._is_closing:
                self._has_heard = True
                self._take(frames)
                # Those before may have changed how long the next may be.
                frames = self.reader.feed() if self.reader.held else []
        except DamagedError as error:
            if self._has_heard:
                # Nothing is wrong with the other side, and the session goes on by another connection.
                self.abort()
            else:
                self.close("protocol", str(error))
        except WireError as error:
            self.close("protocol", str(error))
        held = self.reader.held
        if held != self.held or (held and self.unfinished_since is None):
            self._hold(held, now)

    def _hold(self, held: int, now: float) -> None:
        """So many bytes of a frame have come that is not whole."""
        change, self.held = held - self.held, held
        if not held:
            self.unfinished_since = None
        elif self.unfinished_since is None:
            self.unfinished_since = now
        if self.on_held is not None:
            self.on_held(change)

    def _take(self, frames: list[tuple[Kind, memoryview]]) -> None:
        # Looked for in one go: nearly never is there one.
        kinds = [kind for kind, _payload in frames]
        if _PINGING in kinds or _PONGING in kinds:
            if _PINGING in kinds:
                self.write([_PONG])
            frames = [frame for frame in frames if frame[0] not in (_PINGING, _PONGING)]
        if frames:
            self.owner.on_frames(self, frames)

    def connection_lost(self) -> None:
        """It is closed."""
        self._is_closing = self.is_closed = True
        if self.held:
            self._hold(0, 0.0)
        if self._end is not None:
            self._end.cancel()
        self.owner.on_lost(self)
        for callback in self.when_closed:
            callback()

    def pause_writing(self) -> None:
        """Too much is waiting to be written."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """There is room again."""
        self.is_writable = True
        self.owner.on_writable(self)

    # What the owner calls

    @property
    def is_closing(self) -> bool:
        """Whether it is over, or nearly."""
        return self._is_closing

    def write(self, frames: list[bytes]) -> None:
        """Send whole frames."""
        if self._transport is not None and not self._is_closing:
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def ping(self) -> None:
        """Ask whether the other side is there."""
        self.write([_PING])

    def close(self, code: str = "", reason: str = "") -> None:
        """End the connection, after what was written and, if there is one, the reason."""
        if self._transport is not None and not self._is_closing:
            if code:
                self.write([write_refused(code, reason)])
            self._transport.close()
            self._end = self._world.call_later(CLOSE_SECONDS, self._transport.abort)
        self._is_closing = True

    def let_go(self) -> None:
        """Hold nothing of a frame that is not whole: it will not be."""
        self.reader = FrameReader(self.reader.limit)
        if self.held:
            self._hold(0, 0.0)

    def abort(self) -> None:
        """End the connection at once, when the other side does not seem to be there."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
