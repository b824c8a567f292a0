"""What a client publishes: numbered by itself, gathered into blocks, kept until acknowledged."""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from penstock.errors import AccessError, LimitError
from penstock.wire.blocks import Block, Header
from penstock.wire.sessions import Custody, Session

BLOCK_BYTES: Final = 256 * 1024
"""Bytes after which a block is sent off, full or not."""

BLOCK_EVENTS: Final = 4_096
"""Events after which a block is sent off."""

_FRAME_OVERHEAD: Final = 1_024
_EVENT_OVERHEAD: Final = 8
"""Bytes of a frame besides its events, and of an event besides itself."""

_BUFFER_WINDOWS: Final = 2
"""So many windows of bytes may wait before publishers have to."""


class _Gathering:
    """The next block of one advertisement."""

    __slots__ = ("events", "future", "size", "waiting")

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.events: list[bytes] = []
        self.future = future
        """Done when all are acknowledged."""
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []
        """Whoever waits for one of them, and which."""
        self.size = 0


class Outlet:
    """The events of a client on their way out. `wake` has somebody write what waits."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.frame_bytes = 2**24
        """The longest frame that the broker takes."""
        self._wake = wake
        self._numbers: dict[str, int] = {}
        self._gathering: dict[str, _Gathering] = {}
        self._flushing = False
        self._session: Session | None = None
        self._open: set[asyncio.Future[None]] = set()
        self._singles: set[asyncio.Future[None]] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._rejected: dict[tuple[str, int], str] = {}

    def use(self, session: Session) -> int:
        """Send by a new session, again what was not acknowledged in the old one; return how many events."""
        old, self._session = self._session, session
        again, mark = 0, secrets.randbits(62) | 1
        for block, custody in old.hand_over() if old is not None else ():
            header = msgspec.structs.replace(block.header, rescued=mark)
            session.push_block(block.with_header(header), custody)
            if custody is not None:
                custody.release()
            again += len(block)
        return again

    def put(self, key: str, event: bytes) -> "asyncio.Future[None]":
        """Publish an event under an advertisement; the future is done when it is acknowledged."""
        size = self._checked_size(event)
        gathering = self._gathering.get(key)
        if gathering is not None and gathering.size + size > self.frame_bytes - _FRAME_OVERHEAD:
            self._send(key)
            gathering = None
        if gathering is None:
            gathering = self._gathering[key] = _Gathering(asyncio.get_running_loop().create_future())
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gathering.waiting.append((len(gathering.events), mine))
        self._singles.add(mine)
        mine.add_done_callback(self._singles.discard)
        gathering.events.append(event)
        gathering.size += size
        if gathering.size >= BLOCK_BYTES or len(gathering.events) >= BLOCK_EVENTS:
            self._send(key)
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)
        return mine

    def put_many(self, key: str, events: list[bytes]) -> "list[asyncio.Future[None]]":
        """Publish events, each block with a future of its own."""
        room = min(BLOCK_BYTES, self.frame_bytes - _FRAME_OVERHEAD)
        if sum(map(len, events)) + len(events) * _EVENT_OVERHEAD > room or len(events) > BLOCK_EVENTS:
            if len(events) == 1:
                return [self.put(key, events[0])]
            middle = len(events) // 2
            return self.put_many(key, events[:middle]) + self.put_many(key, events[middle:])
        self._send(key)
        gathering = self._gathering[key] = _Gathering(asyncio.get_running_loop().create_future())
        gathering.events = events
        self._send(key)
        return [gathering.future]

    def _checked_size(self, event: bytes) -> int:
        """The bytes of an event in a frame. Raises LimitError where no frame has room for it."""
        size = len(event) + _EVENT_OVERHEAD
        if size > self.frame_bytes - _FRAME_OVERHEAD:
            what = f"an event has {len(event):,} bytes, for which the frames of this broker have no room"
            raise LimitError(what, "frame_bytes", self.frame_bytes)
        return size

    def flush(self) -> None:
        """Send off what has been gathered."""
        self._flushing = False
        for key in list(self._gathering):
            self._send(key)

    def put_traced(self, key: str, event: bytes, trace: str) -> "asyncio.Future[None]":
        """Publish one event by itself, marked."""
        self._checked_size(event)
        self._send(key)
        gathering = self._gathering[key] = _Gathering(asyncio.get_running_loop().create_future())
        gathering.events.append(event)
        self._send(key, trace)
        return gathering.future

    def _send(self, key: str, trace: str = "") -> None:
        gathering = self._gathering.pop(key, None)
        if gathering is None or self._session is None:
            return
        first = self._numbers.get(key, 0) + 1
        last = first + len(gathering.events)
        self._numbers[key] = last - 1
        block = Block.of(Header(key, "", trace=trace), range(first, last), gathering.events)
        future = gathering.future
        self._open.add(future)
        custody = Custody(lambda _succeeded: self._done(key, first, last, future, gathering.waiting))
        self._session.push_block(block, custody)
        custody.release()
        if self.is_full:
            self._room.clear()
        self._wake()

    def _done(
        self,
        key: str,
        first: int,
        last: int,
        future: "asyncio.Future[None]",
        waiting: "list[tuple[int, asyncio.Future[None]]]",
    ) -> None:
        self._open.discard(future)
        if not self.is_full:
            self._room.set()
        whys: dict[int, str] = {}
        if self._rejected:
            found = ((n, self._rejected.pop((key, n), None)) for n in range(first, last))
            whys = {n: why for n, why in found if why is not None}
        for at, one in waiting:
            _settle(one, [whys[first + at]] if first + at in whys else [])
        _settle(future, list(whys.values()))

    def reject(self, key: str, numbers: Iterable[int], why: str) -> None:
        """The broker has not accepted events; whoever waits for them is told."""
        if not self._open:
            return
        for number in numbers:
            self._rejected[key, number] = why

    @property
    def is_full(self) -> bool:
        """Whether so much waits that publishers have to."""
        session = self._session
        return session is not None and session.queued_bytes > _BUFFER_WINDOWS * session.window

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    async def settle(self) -> None:
        """Wait until all that was published is acknowledged."""
        self.flush()
        while self._open:
            await asyncio.wait(self._open)
            await asyncio.sleep(0)

    def fail(self, error: Exception) -> int:
        """It is over: whoever waits for an acknowledgement is told; return how many that is."""
        gathered = (gathering.future for gathering in self._gathering.values())
        waiting = [*self._open, *gathered, *self._singles]
        self._gathering.clear()
        self._open.clear()
        self._room.set()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()
        return len(waiting)


def _settle(future: "asyncio.Future[None]", whys: list[str]) -> None:
    """Tell whoever waits; somebody may have given up waiting for it."""
    if future.done():
        return
    if whys:
        future.set_exception(RejectedError(whys[0], len(whys)))
        future.exception()
    else:
        future.set_result(None)


class RejectedError(AccessError):
    """Events that the broker did not accept. `count` is how many of those published together."""

    def __init__(self, reason: str, count: int) -> None:
        super().__init__(reason)
        self.count = count
