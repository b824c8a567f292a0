"""A link of a broker, to a neighbour or a client: its session, the connection it has now, its counts."""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, Protocol

from penstock.broker.local import LinkLoad
from penstock.broker.quotas import Meter
from penstock.node.identity import Identity
from penstock.wire.blocks import Block
from penstock.wire.frames import Kind
from penstock.wire.requests import Request
from penstock.wire.sessions import Custody, Session
from penstock.wire.stamps import Transit


class LinkPhase(Enum):
    """How a link is."""

    UP = "up"
    CUT = "cut"
    """The connection is lost, and may be made again: everything waits."""
    AWAY = "down"
    """It was too long: other ways are looked for, and what is for it is kept until they are found."""
    GONE = "gone"


class Connection(Protocol):
    """What carries the bytes of a link."""

    def write(self, frames: list[bytes]) -> None:
        """Send whole frames."""

    heard_at: float
    """When something last came."""

    @property
    def is_writable(self) -> bool:
        """Whether there is room for more."""

    def close(self, code: str = "", reason: str = "") -> None:
        """End it, saying why if there is a reason."""


class Waiting(NamedTuple):
    """A request that waits to be served: the number of its frame, and how many bytes that has."""

    number: int
    request: Request
    size: int


class Waited(NamedTuple):
    """A frame of a neighbour that waits to be handled, with its number."""

    kind: Kind
    number: int
    content: memoryview


@dataclass(eq=False)
class Link:
    """One link. `name` is what the broker core calls it: the neighbour's name, or one made for a client."""

    name: str
    session_id: str
    session: Session
    is_client: bool
    peer: str
    """What the other side calls itself."""
    dialed: bool = False
    """Whether this side made the connection."""
    incarnation: int = 0
    subject: str = ""
    """Who a client is, by its token."""
    identity: Identity | None = None
    """What a client may do, since it came with a new session."""
    may_monitor: bool = True
    when_slow: Literal["pause", "drop"] = "pause"
    connection: Connection | None = None
    phase: LinkPhase = LinkPhase.UP
    since: float = 0.0
    """When it came into this phase."""
    moved_at: float = 0.0
    """When the other side last acknowledged events, or none were left to be."""
    heard_at: float = 0.0
    """When something last came, by a connection that is lost."""
    is_late: bool = False
    """Whether it takes long to acknowledge what it was sent."""
    is_given_up: bool = False
    """Whether a client has held events for so long that nobody waits for it any more."""
    is_warned: bool = False
    """Whether a slow client has been told."""
    is_paused: bool = False
    doubts: set[tuple[str, str, str]] = field(default_factory=set)
    """What a client was told of subscriptions that match nothing: see `penstock.node.disagreements`."""
    missed: int = 0
    """Events that a paused client has missed."""
    meter: Meter | None = None
    metered_bytes: int = 0
    """Bytes of events that wait because the client has sent more than it may."""
    expires_at: float | None = None
    """When the client's token is no longer good."""
    inbox: deque[Waited] = field(default_factory=deque)
    """What a neighbour has sent and is not handled yet, in order: see `penstock.node.intake`."""
    born: dict[str, float] = field(default_factory=dict)
    """When a client made an advertisement, by its key, while that is new."""
    undealt: dict[int, tuple[float, Custody]] = field(default_factory=dict)
    """Frames of events that came and were passed on, but are not dealt with; since when."""
    held: dict[str, list[tuple[float, int, Block]]] = field(default_factory=dict)
    """Events that wait until the advertisement is known everywhere."""
    payer: str = ""
    """To whom it is counted what the client's filters cost: a subject, an address, or this link alone."""
    requests: deque[Waiting] = field(default_factory=deque)
    """What a client has asked for and waits for, in order: see `penstock.node.turns`."""
    request_bytes: int = 0
    """Bytes of these."""
    awaited: Counter[str] = field(default_factory=Counter)
    """The keys of advertisements among these; events under them wait too."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("events_in", "events_out", "bytes_in", "bytes_out"), 0)
    )

    transit: Transit = field(default_factory=Transit)
    """How long messages of a neighbour wait on their way."""
    clock: Callable[[], float] = lambda: 0.0
    """The time, for how long frames take."""
    delay: float = 0.0
    """Seconds from sending to acknowledgement, of the last frame that was looked at."""
    _timed: tuple[int, float] | None = None
    """The frame that is being looked at, and when it was sent."""
    _first: tuple[int, float] = (0, 0.0)
    """The first frame of events that is not acknowledged, and when it was that for the first time."""
    _sent_by: deque[tuple[int, float]] = field(default_factory=deque)
    """The last frame that had been sent at a time, one for each look."""
    _old: int = 0
    """The last of them that was sent long ago."""
    _last_load: tuple[float, int] = (0.0, 0)

    def last_heard(self, now: float) -> float:
        """When something last came from the other side."""
        return min(now, self.heard_at if self.connection is None else self.connection.heard_at)

    def on_ack(self, payload: bytes | memoryview, now: float) -> None:
        """The other side has dealt with frames."""
        session = self.session
        events = session.queued_bytes - session.message_bytes
        session.on_ack(payload)
        if session.queued_bytes - session.message_bytes < events:
            # Who acknowledges messages, such as that it is slow, has not taken any events by that.
            self.moved_at = now
            self.is_given_up = False
        if self._timed is not None and self.session.is_acked(self._timed[0]):
            self.delay = now - self._timed[1]
            self._timed = None

    def waited(self, now: float) -> float:
        """For how long the first frame of events that was sent has not been acknowledged; look often."""
        first = self.session.first_unacked
        if first != self._first[0]:
            self._first = first, now
        return now - self._first[1] if first else 0.0

    def sent_before(self, now: float, seconds: float) -> int:
        """The number of the last frame that was sent so long ago, or 0; look often."""
        sent_by = self._sent_by
        if not sent_by or sent_by[-1][0] != self.session.sent:
            sent_by.append((self.session.sent, now))
        while sent_by and now - sent_by[0][1] > seconds:
            self._old, _at = sent_by.popleft()
        return self._old

    def load(self, now: float) -> LinkLoad:
        """How busy it is, since this was asked last."""
        before, acked = self._last_load
        self._last_load = now, self.session.acked_bytes
        rate = (self.session.acked_bytes - acked) / (now - before) if now > before else 0.0
        return LinkLoad(self.name, self.session.queued_bytes, rate, self.delay)

    def flush(self) -> None:
        """Write what may be written."""
        connection = self.connection
        if connection is None:
            return
        frames: list[bytes] = []
        if connection.is_writable:
            frames = self.session.sendable()
            if frames and self._timed is None:
                self._timed = self.session.sent, self.clock()
        for due in (self.session.reached_due(), self.session.ack_due()):
            if due is not None:
                frames.append(due)
        if frames:
            self.counts["bytes_out"] += sum(map(len, frames))
            connection.write(frames)
