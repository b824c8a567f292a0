"""Standard input and output for commands that run in an event loop, neither of which may stop the loop.

Both have a thread of their own, that waits where a read or a write does. When the command ends the thread may
wait still, for a line that nobody types or a pipe that nobody reads; nobody waits for the thread. So it uses
the descriptors themselves: what it would hold of Python's streams, the interpreter could not close.
"""

import asyncio
import codecs
import io
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple

from penstock.cli.files import LINE_LENGTH_MAX, why
from penstock.errors import InputError

CHUNK: Final = 2**18
"""Bytes that are read at once, if there are so many already."""

_AHEAD: Final = 4
"""Chunks that are read before somebody wants them."""


class Line(NamedTuple):
    """A line of standard input that is not blank; None instead of its content if that is too long."""

    number: int
    content: bytes | None


class InputLines:
    """The lines of standard input, some at a time: those that have come."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._read = _reader()
        self._splitter = Splitter()
        self._is_over = False
        threading.Thread(target=self._run, name="penstock-input", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._room.acquire()
            if self._is_over:
                return
            chunk: bytes | OSError
            try:
                chunk = self._read(CHUNK)
            except OSError as error:
                chunk = error
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:
                # The loop has ended meanwhile.
                return
            if not chunk or isinstance(chunk, OSError):
                return

    async def __aiter__(self) -> AsyncIterator[tuple[list[Line], int]]:
        """The lines that have come since the last ones, and the bytes that they are."""
        try:
            while True:
                chunk = await self._chunks.get()
                self._room.release()
                if isinstance(chunk, OSError):
                    raise InputError(f"standard input: {why(chunk)}")
                yield self._splitter.feed(chunk) if chunk else self._splitter.end(), len(chunk)
                if not chunk:
                    return
        finally:
            self._is_over = True
            self._room.release()


class Splitter:
    """Makes lines of chunks. Of a line that is too long only its number is kept."""

    def __init__(self) -> None:
        self._number = 0
        self._rest = bytearray()
        self._is_too_long = False

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that end in a chunk."""
        first, newline, others = chunk.partition(b"\n")
        self._keep(first)
        if not newline:
            return []
        found = self.end()
        *whole, last = others.split(b"\n")
        for content in whole:
            # A chunk is shorter than the longest line.
            self._add(content, found)
        self._keep(last)
        return found

    def end(self) -> list[Line]:
        """The line that nothing ends, or whose end has come."""
        found: list[Line] = []
        if self._is_too_long:
            self._number += 1
            found.append(Line(self._number, None))
        else:
            self._add(bytes(self._rest), found)
        self._rest.clear()
        self._is_too_long = False
        return found

    def _keep(self, part: bytes) -> None:
        if self._is_too_long or len(self._rest) + len(part) > LINE_LENGTH_MAX:
            self._is_too_long = True
            self._rest.clear()
        else:
            self._rest += part

    def _add(self, content: bytes, found: list[Line]) -> None:
        self._number += 1
        if self._number == 1:
            content = content.removeprefix(codecs.BOM_UTF8)
        content = content.strip()
        if content:
            found.append(Line(self._number, content))


class Output:
    """Standard output, for as long as its context lasts."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = _writer()
        self._given: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()

    def __enter__(self) -> "Output":
        threading.Thread(target=self._run, name="penstock-output", daemon=True).start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._given.put(None)

    async def write(self, data: bytes) -> None:
        """Write; return when it is written. Raises OSError, such as BrokenPipeError when the reader left."""
        written: asyncio.Future[None] = self._loop.create_future()
        self._given.put((data, written))
        await written

    def _run(self) -> None:
        while (given := self._given.get()) is not None:
            data, written = given
            error: OSError | None = None
            try:
                self._write(data)
            except OSError as failure:
                error = failure
            # Nobody waits for it where the loop has ended meanwhile.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, written, error)


def _settle(future: "asyncio.Future[None]", error: OSError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _reader() -> Callable[[int], bytes]:
    """What reads from standard input as much as there is."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, io.UnsupportedOperation):
        stream = sys.stdin.buffer
        return lambda size: stream.read(size)
    return lambda size: os.read(descriptor, size)


def _writer() -> Callable[[bytes], None]:
    """What writes all of something to standard output, and leaves nothing in a buffer."""
    sys.stdout.flush()
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, io.UnsupportedOperation):
        stream = sys.stdout.buffer

        def keep(data: bytes) -> None:
            stream.write(data)
            stream.flush()

        return keep

    def write(data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    return write
