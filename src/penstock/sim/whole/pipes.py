"""Connections as bytes under virtual time, and what can happen to them on the way.

What is written arrives after the latency, in order, in pieces that have nothing to do with frames. A stalled
direction keeps what is written until it goes on, as TCP does over a line that comes back. A cut ends the
connection in the middle of whatever was under way; nothing but a prefix of it arrives.
"""

from random import Random
from typing import Final

from penstock.node.connection import FrameConnection
from penstock.sim.clock import Clock
from penstock.sim.whole.process import Process

_BUFFER: Final = 1 << 20
"""Bytes that wait on the way, or to be read, before whoever writes is told to stop."""

_PIECES: Final = 0.2
"""The share of writes that arrive in two pieces."""

_LENGTH_BYTES: Final = 4
"""How many bytes of a frame say how long it is."""


class Line:
    """What lies between two processes: the same for all their connections."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.stalled: set[str] = set()
        """From which of the two nothing gets through now."""
        self.is_cut = False
        """Whether connections break, and new ones are refused."""
        self.flips: set[str] = set()
        """From which of the two the next bytes are to have a wrong bit."""


class End:
    """One end of a pipe: what a connection writes to."""

    def __init__(self, process: Process, line: Line, clock: Clock, random: Random) -> None:
        self.process = process
        self.other: End | None = None
        self._connection: FrameConnection | None = None
        self._line = line
        self._clock = clock
        self._random = random
        self._is_open = True
        self._has_ended = False
        """Whether the system has told the other side that this one is gone."""
        self._in_order_at = 0.0
        self._held: list[bytes | None] = []
        """What waits because the direction is stalled: bytes, or None for the end of it all."""
        self._flying: list[list[object]] = []
        """What is under way: [bytes or None, whether it still counts]."""
        self._waiting_bytes = 0

    def attach(self, connection: FrameConnection) -> None:
        """The connection that uses this end."""
        self._connection = connection
        connection.connection_made(self)

    # The transport

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self._is_open or self._has_ended or not data:
            return
        if self.process.name in self._line.flips:
            self._line.flips.discard(self.process.name)
            data = _flipped(data, self._random)
        self._waiting_bytes += len(data)
        if len(data) > 1 and self._random.random() < _PIECES:
            cut = self._random.randrange(1, len(data))
            self._send(data[:cut])
            self._send(data[cut:])
        else:
            self._send(data)
        connection = self._connection
        if self._waiting_bytes > _BUFFER and connection is not None and connection.is_writable:
            connection.pause_writing()

    def close(self) -> None:
        """End it after what was written."""
        if self._is_open:
            if not self._has_ended:
                self._send(None)
            self._finish()

    def abort(self) -> None:
        """End it at once: the other side hears of it, unless nothing gets there."""
        self.close()

    # On the way

    def _send(self, data: bytes | None) -> None:
        if self.process.name in self._line.stalled or self._held:
            self._held.append(data)
        else:
            self._fly(data)

    def _fly(self, data: bytes | None) -> None:
        now = self._clock.now
        self._in_order_at = max(self._in_order_at, now + self._line.latency)
        item: list[object] = [data, True]
        self._flying.append(item)
        self._clock.at(self._in_order_at, self._land, item)

    def _land(self, item: list[object]) -> None:
        if not item[1]:
            return
        self._flying.remove(item)
        other, data = self.other, item[0]
        if other is None:
            return
        if data is None:
            other.process.take(other._lost)
        elif isinstance(data, bytes):
            other.process.take(other._take, data)

    def flow(self) -> None:
        """The direction is not stalled any more: let go what waits."""
        held, self._held = self._held, []
        for data in held:
            self._fly(data)

    def _take(self, data: bytes) -> None:
        """Bytes are there, and the process runs."""
        if self.is_gone:
            return
        other = self.other
        if other is not None:
            other.process.take(other._drained, len(data))
        if self._connection is not None:
            self._connection.data_received(data)

    def _drained(self, count: int) -> None:
        self._waiting_bytes -= count
        connection = self._connection
        if connection is None or not self._is_open or connection.is_writable:
            return
        if self._waiting_bytes <= _BUFFER // 2:
            connection.resume_writing()

    # Its end

    def _finish(self) -> None:
        """This side is done with it; the connection hears so in a moment, as from asyncio."""
        self._is_open = False
        if self._connection is not None:
            self.process.call_later(0.0, self._connection.connection_lost)

    def _lost(self) -> None:
        """The other side has ended it."""
        if self._is_open:
            self._is_open = False
            if not self._has_ended:
                # What this side had written meets nobody.
                self._void()
            if self._connection is not None:
                self._connection.connection_lost()

    def hear_of_end(self) -> None:
        """The other side does not know of this connection any more, and says so."""
        self.process.take(self._lost)

    def _void(self) -> None:
        for item in self._flying:
            item[1] = False
        self._flying.clear()
        self._held.clear()

    def sever(self) -> None:
        """The line breaks: of what is under way, only a part of the bytes arrives, and then the end."""
        flying = [item[0] for item in self._flying] + self._held
        self._void()
        other = self.other
        if other is None:
            return
        under_way = b"".join(data for data in flying if isinstance(data, bytes))
        if under_way:
            arrives = under_way[: self._random.randrange(len(under_way) + 1)]
            if arrives:
                other.process.take(other._take, arrives)
        other.process.take(other._lost)

    def vanish(self) -> None:
        """The process of this end is gone: what it had written goes on, and then the end."""
        if self._is_open and not self._has_ended:
            self._has_ended = True
            self._send(None)

    def forget(self) -> None:
        """The machine of this end is gone without a word: nothing more comes from it, and nothing is said."""
        self._has_ended = True
        self._void()

    @property
    def is_open(self) -> bool:
        """Whether this side uses it."""
        return self._is_open

    @property
    def is_gone(self) -> bool:
        """Whether nothing of what is sent here is heard by anybody."""
        return self._has_ended or not self._is_open


def _flipped(data: bytes, random: Random) -> bytes:
    """The same with one bit wrong, as often as not in the length of its first frame."""
    changed = bytearray(data)
    first = min(_LENGTH_BYTES, len(data)) if random.random() < 0.5 else len(data)
    bit = random.randrange(8 * first)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)
