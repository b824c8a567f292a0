"""A TCP proxy that does to connections what networks do: cut, stall, delay, throttle, flip a bit.

It listens on the loopback interface on one port for as long as it is there. While it is cut, whoever connects
is turned away at once; that the port is never let go of means that nobody else can take it.
"""

import asyncio
import contextlib
import socket
import struct
from typing import Final, Literal

LOOPBACK: Final = "127.0.0.1"
_CHUNK: Final = 16_384
_AHEAD: Final = 16
"""Chunks that one direction of a connection may hold; a sender whose receiver stalls soon notices."""

Direction = Literal["up", "down", "both"]
"""From those who connect to the target, or from the target to them."""


class Proxy:
    """Passes connections on to a port, as well or as badly as it is told to."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self._lanes = {"up": _Lane(), "down": _Lane()}
        self.port = 0
        self.accepted = 0
        """Connections that were passed on, in all."""

    async def start(self) -> None:
        """Listen, on a port that is free."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0, limit=_CHUNK)
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """For brokers and clients."""
        return f"penstock://{LOOPBACK}:{self.port}"

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._connections)

    @property
    def is_cut(self) -> bool:
        """Whether nobody comes through."""
        return self._is_cut

    def cut(self, *, reset: bool = False) -> None:
        """End all connections and take no new ones; what was under way is lost.

        With `reset` the other sides get an error, otherwise what looks like an ordinary end.
        """
        self._is_cut = True
        for connection in list(self._connections):
            connection.abort(reset=reset)

    def heal(self) -> None:
        """Take connections again, pass everything on, at once."""
        self._is_cut = False
        for lane in self._lanes.values():
            lane.heal()

    def stall(self, direction: Direction = "both") -> None:
        """Read nothing more and pass nothing on, without ending a connection."""
        for lane in self._chosen(direction):
            lane.open.clear()

    def delay(self, seconds: float, direction: Direction = "both") -> None:
        """Hold everything for so long."""
        for lane in self._chosen(direction):
            lane.delay = seconds

    def throttle(self, bytes_per_second: float, direction: Direction = "both") -> None:
        """Pass on so much in a second on each connection, and no more."""
        for lane in self._chosen(direction):
            lane.rate = bytes_per_second

    def flip(self, where: float, direction: Direction = "both") -> None:
        """Flip one bit of what passes next, in each direction: `where` in it, from 0 to 1."""
        for lane in self._chosen(direction):
            lane.flips.append(where)

    async def close(self) -> None:
        """End all connections, and listen no more."""
        self.cut()
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _chosen(self, direction: Direction) -> "list[_Lane]":
        return [lane for name, lane in self._lanes.items() if direction in (name, "both")]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            _abort(writer, reset=True)
            return
        task = asyncio.ensure_future(self._pass_on(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(LOOPBACK, self._target, limit=_CHUNK)
        except OSError:
            _abort(writer, reset=True)
            return
        except asyncio.CancelledError:
            _abort(writer, reset=False)
            raise
        connection = _Connection((reader, writer), there, self._lanes["up"], self._lanes["down"])
        if self._is_cut:
            connection.abort(reset=True)
            return
        self.accepted += 1
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)


class _Lane:
    """How one direction of all connections is."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.flips: list[float] = []
        """Bits that are still to be flipped. Healing does not take them back."""
        self.heal()

    def heal(self) -> None:
        self.open.set()
        self.delay = 0.0
        self.rate = 0.0

    @property
    def chunk(self) -> int:
        """What to read at once: little when throttled, so that it goes evenly."""
        return _CHUNK if self.rate <= 0 else max(1, min(_CHUNK, int(self.rate / 20)))

    def passed(self, data: bytes) -> bytes:
        """What becomes of data on the way."""
        if not self.flips or not data:
            return data
        bit = int(self.flips.pop(0) * len(data) * 8)
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """One connection, and the one behind it."""

    def __init__(self, here: _Stream, there: _Stream, up: _Lane, down: _Lane) -> None:
        self._here, self._there = here, there
        self._up, self._down = up, down
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Pass on both ways until both have ended, or one has failed."""
        ways = [
            asyncio.ensure_future(_flow(self._here[0], self._there[1], self._up)),
            asyncio.ensure_future(_flow(self._there[0], self._here[1], self._down)),
        ]
        ended = asyncio.ensure_future(self._ended.wait())
        both = asyncio.ensure_future(asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION))
        try:
            await asyncio.wait([both, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ways, both, ended):
                task.cancel()
            await asyncio.gather(*ways, both, ended, return_exceptions=True)
            self.abort()

    def abort(self, *, reset: bool = False) -> None:
        """End both at once."""
        self._ended.set()
        for _reader, writer in (self._here, self._there):
            _abort(writer, reset=reset)


async def _flow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lane: _Lane) -> None:
    """Pass on one direction. An end of file is passed on too; a failure is raised."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_AHEAD)

    async def read() -> None:
        data = b"-"
        while data:
            await lane.open.wait()
            data = await reader.read(lane.chunk)
            await queue.put((loop.time() + lane.delay, lane.passed(data)))

    async def write() -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await lane.open.wait()
            if not data:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            if lane.rate > 0:
                await asyncio.sleep(len(data) / lane.rate)

    reading, writing = asyncio.ensure_future(read()), asyncio.ensure_future(write())
    try:
        await asyncio.gather(reading, writing)
    finally:
        reading.cancel()
        writing.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)


def _abort(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        held = writer.get_extra_info("socket")
        if held is not None:
            # Not to linger is what sends a reset; the socket may be closed already.
            with contextlib.suppress(OSError):
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
