"""What a client is sent: subscriptions, and the events that come by them."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from penstock.filters.parsing import PredicateLike
from penstock.model.events import Event
from penstock.model.values import Value
from penstock.wire.blocks import Header
from penstock.wire.events import decode_event
from penstock.wire.sessions import Custody

if TYPE_CHECKING:
    from penstock.net.client.client import Client

Acking: TypeAlias = Literal["auto", "manual"]
QUEUE_DEFAULT: Final = 65_536
"""Events that may wait in a subscription before no more are asked for."""


class Received(Mapping[str, Value]):
    """An event that came. It is decoded when something of it is looked at."""

    __slots__ = ("_attributes", "_custody", "_data", "_header", "late", "number")

    def __init__(self, data: bytes, header: Header, number: int, late: bool, custody: Custody | None) -> None:
        self._data = data
        self._header = header
        self.number = number
        """Its number among those of its origin; there are gaps where events did not match."""
        self._attributes: dict[str, Value] | None = None
        self._custody = custody
        self.late = late
        """Whether later events of the same publisher came before it, which happens after failures."""

    @property
    def event(self) -> Event:
        """The event itself."""
        return Event.from_flat(self._decoded())

    def nested(self) -> dict[str, object]:
        """Its attributes as nested dicts, as they were published; a Mapping has them with dotted names."""
        return self.event.nested()

    def _decoded(self) -> dict[str, Value]:
        if self._attributes is None:
            self._attributes = decode_event(self._data).attributes
        return self._attributes

    @property
    def data(self) -> bytes:
        """Its bytes, as they came: what `penstock.wire.events` decodes."""
        return self._data

    @property
    def origin(self) -> str:
        """Who published it: the same for all events of one publisher's advertisement."""
        return self._header.origin

    @property
    def hops(self) -> int:
        """How many brokers it came through."""
        return self._header.hops

    async def ack(self) -> None:
        """Say that it is dealt with, where the subscription was made with ack="manual"."""
        self.ack_nowait()

    def ack_nowait(self) -> None:
        """The same, for callbacks."""
        custody, self._custody = self._custody, None
        if custody is not None:
            custody.release()

    def __getitem__(self, name: str) -> Value:
        return (self._attributes or self._decoded())[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def __repr__(self) -> str:
        return f"Received({self._decoded()!r})"


Callback: TypeAlias = Callable[[Received], Awaitable[None] | None]


class Subscription:
    """Events that match a filter, as an async iterator; or given to a callback."""

    def __init__(
        self, client: "Client", key: int, text: str, acking: Acking, queue: int, callback: Callback | None
    ) -> None:
        self.key = key
        self.filter = text
        self._client = client
        self._acking = acking
        self._queue_max = queue
        self._queue: deque[Received | Custody] = deque()
        """Events, and behind some of them what their sender waits for."""
        self._waited_for = 0
        """How many of the latter there are."""
        self._arrived = asyncio.Event()
        self._is_over = False
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._callback: Callback | None = None
        self._answers: list[asyncio.Future[None]] = []
        if callback is not None and not iscoroutinefunction(callback):
            # Called as events come: a task for each of many subscriptions would cost more than the events.
            self._callback = callback
        elif callback is not None:
            self._task = asyncio.get_running_loop().create_task(self._call(callback))

    # Events

    def put(self, data: bytes, header: Header, number: int, late: bool, custody: Custody) -> None:
        """Take an event: its bytes, and what its block says of it."""
        if self._is_over:
            return
        if self._acking == "manual":
            custody.hold()
            self._take(Received(data, header, number, late, custody))
        else:
            self._take(Received(data, header, number, late, None))
            if self.pending > self._queue_max:
                # Whoever sends waits until this has been taken.
                custody.hold()
                self._queue.append(custody)
                self._waited_for += 1

    def _take(self, event: Received) -> None:
        if self._callback is None:
            self._queue.append(event)
            self._arrived.set()
            return
        try:
            answer = self._callback(event)
        except Exception as error:
            self._failed(event, error)
            return
        if answer is not None:
            self._answers = [pending for pending in self._answers if not pending.done()]
            self._answers.append(asyncio.ensure_future(answer))

    def _failed(self, event: Received, error: Exception) -> None:
        """A callback has failed: it is called no more, nobody waits for it, and who ends it is told."""
        self.end(error)
        event.ack_nowait()
        self._drop()
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the callback for {self.filter:.200} failed", "exception": error}
        )

    @property
    def pending(self) -> int:
        """How many events wait to be taken."""
        return len(self._queue) - self._waited_for

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        while True:
            while self._queue:
                first = self._queue.popleft()
                if isinstance(first, Received):
                    return first
                self._waited_for -= 1
                first.release()
                self._client.acknowledge_soon()
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()

    async def next(self, timeout: float | None = None) -> Received:
        """The next event; TimeoutError if none comes in so many seconds."""
        async with asyncio.timeout(timeout):
            return await anext(self)

    async def _call(self, callback: Callback) -> None:
        async for event in self:
            try:
                answer = callback(event)
                if answer is not None:
                    await answer
            except Exception as error:
                self._failed(event, error)
                return

    # Changes

    async def change(self, filter: PredicateLike) -> None:  # noqa: A002 - as people call it
        """Have another filter instead, without a gap: what matches both is never missed."""
        await self._client.change_subscription(self, filter)

    async def unsubscribe(self) -> None:
        """Want no more; what waits is let go."""
        await self._client.end_subscription(self, wait=False)
        self.end()
        self._drop()
        await self._finish()

    async def drain(self) -> None:
        """Want no more, but take what waits: the iterator ends after that."""
        await self._client.end_subscription(self, wait=True)
        self.end()
        await self._finish()

    def end(self, error: Exception | None = None) -> None:
        """Nothing more will come."""
        self._is_over, self._error = True, error or self._error
        self._arrived.set()

    def _drop(self) -> None:
        for left in self._queue:
            if isinstance(left, Received):
                left.ack_nowait()
            else:
                left.release()
        self._queue.clear()
        self._waited_for = 0
        self._client.acknowledge_soon()

    async def _finish(self) -> None:
        if self._answers:
            await asyncio.wait(self._answers)
        has_callback = self._callback is not None or self._task is not None
        if has_callback and self._error is not None:
            raise self._error
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])
            if not self._task.cancelled() and self._task.exception() is not None and self._error is None:
                raise self._task.exception()  # type: ignore[misc]  # it is not None

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over:
            await self.unsubscribe()
