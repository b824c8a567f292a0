"""Hostile clients: they connect to a broker and send what no client of ours would. Nobody else may notice.

What each does is a function of `ATTACKS`. An attack that breaks the protocol says within how many seconds the
broker has to end the connection; the others go by themselves after a while.
"""

from binascii import crc32
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from penstock.model.events import Event
from penstock.model.packed import encode_event
from penstock.node.connection import FrameConnection
from penstock.node.settings import Times
from penstock.sim.clock import Clock
from penstock.sim.whole.brokers import NO_RIGHTS
from penstock.sim.whole.process import Process
from penstock.wire.blocks import Block, Header
from penstock.wire.frames import Kind, frame
from penstock.wire.greetings import VERSION, Hello, read_welcome, write_hello
from penstock.wire.requests import (
    Answer,
    Ask,
    Done,
    Offer,
    Request,
    Unwant,
    Want,
    read_answer,
    write_request,
)

_STAYS: Final = 12.0
"""Seconds after which it goes, if its broker has not ended the connection."""

_AFTER: Final = 2.0
"""Seconds that it stays longer than its broker has to end the connection."""

_PING: Final = 1.0
"""Seconds between signs of life of those who want to stay."""

_LIMIT: Final = 2**26
"""The longest frame that it takes."""

_MADE_UP: Final = 1_000
"""Frames that it says it has had in a session that never was."""

_NUMBER: Final = 8
"""Bytes of the number of a frame."""

_LENGTH_WRONG: Final = 2**31
_PLAIN: Final = "x between 3 and 9"

_DEAR: Final = (
    "not (" + " or ".join(f"(x = {n} and y = {n})" for n in range(12)) + ")",
    " and ".join(f"(x = {n} or y = {n} or z = {n})" for n in range(9)),
    " or ".join(f"s like '%a{n}%b%' and not s like '%c{n}_'" for n in range(12)),
    "not (x = 1 or not (y = 2 or not (x = 3 or y = 4)))",
)
"""Filters that take long to understand, for their length."""


class Hostile:
    """One connection of somebody who means harm."""

    def __init__(
        self,
        kind: str,
        name: str,
        broker: str,
        process: Process,
        clock: Clock,
        random: Random,
        times: Times,
        on_left: Callable[[], object],
        *,
        advertisements: bool,
    ) -> None:
        """`advertisements`: whether events have to be advertised; if not, only rights keep it from them."""
        self.kind = kind
        self.name = name
        self.broker = broker
        self.random = random
        self.times = times
        self.began_at: float | None = None
        """When it had sent what has the broker end the connection."""
        self.within: float | None = None
        """Seconds in which the broker ends the connection after that; None if it need not."""
        self.ended_at: float | None = None
        """When the broker has ended it."""
        self.wrong: list[str] = []
        """What it got, and must not have."""
        self.session = f"{process.secret()}:0"
        self.greeted = 0
        """How often it has said who it is."""
        self._attack = ATTACKS[kind]
        self._has_no_rights = kind == "no rights" or (kind == "not advertised" and not advertisements)
        self._process = process
        self._on_left = on_left
        self._connection: FrameConnection | None = None
        self._has_left = False
        self._sent = 0
        self._clock = clock

    def begin(self) -> None:
        """Connect."""
        self._process.call_later(_STAYS + self.times.greet + self.times.frame, self._leave)
        self.dial()

    def dial(self) -> None:
        """Make a connection; another takes the place of one that it has."""
        self._process.dial(self.broker, self._make, lambda _error: self._leave())

    def _make(self) -> FrameConnection:
        return FrameConnection(self, self._process, _LIMIT, on_open=self._opened)

    def _opened(self, connection: FrameConnection) -> None:
        self._connection = connection
        self._sent = 0
        if self._attack.greets:
            self._greet(_MADE_UP if self.kind == "wrong session" else 0)
        else:
            self._attack.act(self)

    def _greet(self, received: int) -> None:
        self.greeted += 1
        token = NO_RIGHTS if self._has_no_rights else ""
        self.write(write_hello(Hello(VERSION, "client", self.name, token, self.session, received)))

    # What its attacks use

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._connection is not None:
            self._connection.write([data])

    def ask(self, request: Request) -> None:
        """Send a request."""
        self.send(Kind.MESSAGE, write_request(request))

    def send(self, kind: Kind, payload: bytes) -> None:
        """Send a numbered frame."""
        self._sent += 1
        self.write(frame(kind, self._sent.to_bytes(_NUMBER, "big"), payload))

    def publish(self, key: str, data: bytes, number: int = 1, origin: str = "") -> None:
        """Send an event, or what is said to be one."""
        self.send(Kind.EVENTS, Block.of(Header(key, origin), [number], [data]).encode())

    def ends_within(self, seconds: float) -> None:
        """The broker has to end the connection."""
        self.began_at, self.within = self._clock.now, seconds
        self._process.call_later(seconds + _AFTER, self._leave)

    def later(self, seconds: float, callback: Callable[[int], None], argument: int) -> None:
        """Go on in a while."""
        self._process.call_later(seconds, callback, argument)

    def stays(self, seconds: float = _STAYS) -> None:
        """Nothing has to happen to it: it goes by itself, and shows until then that it is there."""
        self._process.call_later(seconds, self._leave)
        self._process.call_later(_PING, self._ping)

    def _ping(self) -> None:
        if self._connection is not None and not self._has_left:
            self._connection.ping()
            self._process.call_later(_PING, self._ping)

    # What comes

    def on_frames(self, connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        """The broker says something. Nothing of it is ever acknowledged."""
        for kind, payload in frames:
            if kind is Kind.WELCOME:
                if read_welcome(payload).resumed:
                    self.wrong.append("could go on with a session that it had made up")
                self._attack.act(self)
            elif self._has_no_rights and kind is Kind.EVENTS:
                self.wrong.append("got events that its token does not grant")
            elif self._has_no_rights and kind is Kind.MESSAGE:
                self._answered(read_answer(payload[_NUMBER:]))

    def _answered(self, answer: Answer) -> None:
        if isinstance(answer, Done):
            self.wrong.append("was allowed what its token does not grant")

    def on_lost(self, connection: FrameConnection) -> None:
        """The connection is over."""
        if connection is not self._connection:
            return
        if self.ended_at is None and not self._has_left:
            self.ended_at = self._clock.now
        self._leave()

    def on_writable(self, _connection: FrameConnection) -> None:
        """It does not care."""

    def _leave(self) -> None:
        if self._has_left:
            return
        self._has_left = True
        connection = self._connection
        if connection is not None:
            connection.abort()
        self._on_left()


# Attacks


def _junk(hostile: Hostile) -> None:
    hostile.write(hostile.random.randbytes(hostile.random.randint(64, 2_000)))
    hostile.ends_within(0.0)


def _silence(hostile: Hostile) -> None:
    hostile.ends_within(hostile.times.greet)


def _half_a_greeting(hostile: Hostile) -> None:
    whole = write_hello(Hello(VERSION, "client", hostile.name, "", hostile.session, 0))
    hostile.write(whole[: len(whole) // 2])
    hostile.ends_within(hostile.times.greet)


def _unfinished(hostile: Hostile) -> None:
    whole = frame(Kind.MESSAGE, bytes(100_000))
    hostile.write(whole[:60_000])
    hostile.ends_within(hostile.times.frame + 0.5)


def _length(hostile: Hostile) -> None:
    """A frame whose head is right, and says more bytes than are allowed."""
    hostile.write(_with_length(Kind.EVENTS, _LENGTH_WRONG))
    hostile.ends_within(0.0)


def _with_length(kind: Kind, length: int) -> bytes:
    """The beginning of a frame that says that it is so long."""
    head = (length << 8 | kind).to_bytes(5, "big")
    return head + (crc32(head) & 0xFFFFFF).to_bytes(3, "big") + bytes(64)


def _wrong_frame(hostile: Hostile) -> None:
    """A whole frame that nobody may send: of another kind, out of turn, nested without end, no block."""
    number = (1).to_bytes(8, "big")
    hostile.write(
        hostile.random.choice(
            [
                frame(Kind.WELCOME, b""),
                frame(Kind.HELLO, b""),
                frame(Kind.MESSAGE, (7).to_bytes(8, "big"), b""),
                frame(Kind.MESSAGE, b"abc"),
                frame(Kind.MESSAGE, number, b"\x91" * 50_000),
                frame(Kind.EVENTS, number, hostile.random.randbytes(200)),
                frame(Kind.EVENTS, number, Block.of(Header("1/b0", ""), [1], [b""]).encode()),
            ]
        )
    )
    hostile.ends_within(0.0)


def _acks(hostile: Hostile) -> None:
    """Acknowledgements of what was never sent, or of nothing that can be."""
    hostile.write(frame(Kind.ACK, hostile.random.choice([(10**9).to_bytes(_NUMBER, "big"), b"abc", b""])))
    hostile.ends_within(0.0)


def _many_acks(hostile: Hostile) -> None:
    """Acknowledgements without end, all of them right."""
    hostile.write(frame(Kind.ACK, bytes(8 * 4_000)) * 20)
    hostile.stays()


def _no_event(hostile: Hostile) -> None:
    """Bytes that are no event, under an advertisement that is good."""
    hostile.ask(Offer(1, 1, "x >= 0"))
    hostile.publish("1", hostile.random.randbytes(40))
    # Whether a broker looks at them depends on who wants them.
    hostile.stays()


def _not_advertised(hostile: Hostile) -> None:
    """Events under advertisements that others have made, with others' names and numbers."""
    for number in range(1, 20):
        hostile.publish(str(number % 3), encode_event(Event({"x": 5})), number, "somebody")
    hostile.stays()


def _no_rights(hostile: Hostile) -> None:
    """All that a token does not grant."""
    for key, text in enumerate([_PLAIN, "x >= 0", *_DEAR]):
        hostile.ask(Want(key + 1, key, text))
        hostile.ask(Offer(key + 1, key, text))
    hostile.ask(Ask(50))
    hostile.publish("1", encode_event(Event({"x": 5})))
    hostile.stays()


def _filters(hostile: Hostile) -> None:
    """Filters that cost time."""
    for key in range(8):
        hostile.ask(Want(key, key, hostile.random.choice(_DEAR)))
    hostile.ask(Offer(90, 90, hostile.random.choice(_DEAR)))
    hostile.stays()


def _flood(hostile: Hostile) -> None:
    """Subscriptions that come and go, at once and again and again."""

    def again(left: int) -> None:
        for key in range(12):
            hostile.ask(Want(0, key, f"x between {key} and {key + left}"))
            if key % 4:
                hostile.ask(Unwant(0, key))
        if left:
            hostile.later(0.3, again, left - 1)

    again(3)
    hostile.stays()


def _mute(hostile: Hostile) -> None:
    """It wants everything, and acknowledges nothing."""
    hostile.ask(Want(1, 1, "x >= 0"))
    hostile.stays(25.0)


def _resume(hostile: Hostile) -> None:
    """It goes on with a session that it never had, and then with its own as if more had been sent to it."""
    if hostile.greeted < 2:
        hostile.dial()
    else:
        hostile.stays()


class Attack(NamedTuple):
    """One way to mean harm."""

    act: Callable[[Hostile], None]
    greets: bool = True
    """Whether it begins as clients do, and what it does follows."""


ATTACKS: Final[dict[str, Attack]] = {
    "junk": Attack(_junk),
    "junk first": Attack(_junk, greets=False),
    "silence": Attack(_silence, greets=False),
    "half a greeting": Attack(_half_a_greeting, greets=False),
    "unfinished frame": Attack(_unfinished),
    "wrong length": Attack(_length),
    "wrong frame": Attack(_wrong_frame),
    "wrong acks": Attack(_acks),
    "many acks": Attack(_many_acks),
    "no event": Attack(_no_event),
    "not advertised": Attack(_not_advertised),
    "no rights": Attack(_no_rights),
    "dear filters": Attack(_filters),
    "flood": Attack(_flood),
    "mute": Attack(_mute),
    "wrong session": Attack(_resume),
}
"""What hostile clients do, by name."""
