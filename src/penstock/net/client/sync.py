"""The client without asyncio: the same verbs, carried out by a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.filters.parsing import PredicateLike
from penstock.net.client.client import Advertisement, Client, EventLike
from penstock.net.client.connecting import connect
from penstock.net.client.subscriptions import QUEUE_DEFAULT, Acking, Received, Subscription
from penstock.node.client.outlet import Ack

if TYPE_CHECKING:
    from penstock.composites.expression import Composite
    from penstock.net.client.composites import CompositeSubscription, Detected

T = TypeVar("T")


class SyncAdvertisement:
    """What a client has said that it may publish."""

    def __init__(self, owner: "SyncClient", made: Advertisement) -> None:
        self.made = made
        self._owner = owner

    def withdraw(self) -> None:
        """Publish no more of it."""
        self._owner.call(self.made.withdraw())


class SyncSubscription:
    """Events that match a filter, as an iterator."""

    def __init__(self, owner: "SyncClient", made: Subscription) -> None:
        self._owner = owner
        self._made = made

    def __iter__(self) -> Iterator[Received]:
        while True:
            try:
                yield self.next()
            except StopAsyncIteration:
                return

    def next(self, timeout: float | None = None) -> Received:
        """The next event; TimeoutError if none comes in so many seconds."""
        return self._owner.call(self._made.next(timeout))

    @property
    def pending(self) -> int:
        """How many events wait to be taken."""
        return self._made.pending

    def ack(self, event: Received) -> None:
        """Say that an event is dealt with, where the subscription was made with ack="manual"."""
        self._owner.call(event.ack())

    def change(self, filter: PredicateLike) -> None:  # noqa: A002 - as people call it
        """Have another filter instead, without a gap."""
        self._owner.call(self._made.change(filter))

    def drain(self) -> None:
        """Want no more, but take what waits."""
        self._owner.call(self._made.drain())

    def unsubscribe(self) -> None:
        """Want no more."""
        self._owner.call(self._made.unsubscribe())

    def __enter__(self) -> "SyncSubscription":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()


class SyncCompositeSubscription:
    """What a composite finds, as an iterator."""

    def __init__(self, owner: "SyncClient", made: "CompositeSubscription") -> None:
        self._owner = owner
        self._made = made

    def __iter__(self) -> "Iterator[Detected]":
        while True:
            try:
                yield self.next()
            except StopAsyncIteration:
                return

    def next(self, timeout: float | None = None) -> "Detected":
        """The next detection; TimeoutError if none comes in so many seconds."""
        return self._owner.call(self._made.next(timeout))

    @property
    def dropped(self) -> dict[str, int]:
        """What was left out, by why: see docs/COMPOSITES.md, Limits."""
        return self._made.dropped

    def unsubscribe(self) -> None:
        """Want no more."""
        self._owner.call(self._made.unsubscribe())

    def __enter__(self) -> "SyncCompositeSubscription":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()


class SyncClient:
    """A client. Made by `penstock.connect_sync`; may be used from several threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread, client: Client) -> None:
        self._loop = loop
        self._thread = thread
        self._client = client

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop do something, and wait for it."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def broker(self) -> str:
        """The name of the broker that it talks to."""
        return self._client.broker

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._client.is_connected

    def advertise(self, filter: PredicateLike) -> SyncAdvertisement:  # noqa: A002
        """Say what will be published."""
        return SyncAdvertisement(self, self.call(self._client.advertise(filter)))

    def publish(
        self, event: EventLike, *, advertisement: SyncAdvertisement | None = None, ack: Ack = "accepted"
    ) -> None:
        """Publish an event, and wait until it is acknowledged: see `Client.publish`."""
        made = None if advertisement is None else advertisement.made
        self.call(self._client.publish(event, advertisement=made, ack=ack))

    def publish_many(
        self,
        events: Iterable[EventLike],
        *,
        advertisement: SyncAdvertisement | None = None,
        ack: Ack = "accepted",
    ) -> int:
        """Publish events in order, and wait until all are acknowledged; return how many there were."""
        made = None if advertisement is None else advertisement.made
        return self.call(self._client.publish_many(events, advertisement=made, ack=ack))

    def publish_nowait(
        self, event: EventLike, *, advertisement: SyncAdvertisement | None = None, ack: Ack = "accepted"
    ) -> "Future[None]":
        """Publish an event; the future is done when it is acknowledged."""
        made = None if advertisement is None else advertisement.made
        publishing = self._client.publish(event, advertisement=made, ack=ack)
        return asyncio.run_coroutine_threadsafe(publishing, self._loop)

    def subscribe(
        self,
        filter: PredicateLike,  # noqa: A002
        *,
        callback: Callable[[Received], None] | None = None,
        ack: Acking = "auto",
        queue: int = QUEUE_DEFAULT,
    ) -> SyncSubscription:
        """Want events that match a filter. A callback is called in the thread of the loop."""
        made = self.call(self._client.subscribe(filter, callback=callback, ack=ack, queue=queue))
        return SyncSubscription(self, made)

    def subscribe_composite(
        self, composite: "str | Composite", *, queue: int | None = None
    ) -> SyncCompositeSubscription:
        """Want matches of a composite: see `Client.subscribe_composite`."""
        return SyncCompositeSubscription(
            self, self.call(self._client.subscribe_composite(composite, queue=queue))
        )

    def flush(self) -> None:
        """Wait until all that was published is acknowledged."""
        self.call(self._client.flush())

    def status(self) -> dict[str, Any]:
        """What the broker says of itself."""
        return self.call(self._client.status())

    def trace(self, event: EventLike) -> dict[str, Any]:
        """Publish a marked event; return the way that it took."""
        return self.call(self._client.trace(event))

    def drain(self) -> None:
        """Publish all that waits, and close."""
        self.call(self._client.drain())
        self._stop()

    def close(self) -> None:
        """Say goodbye and end."""
        if self._thread.is_alive():
            self.call(self._client.close())
            self._stop()

    def _stop(self) -> None:
        _end(self._loop, self._thread)

    def __enter__(self) -> "SyncClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """End the loop of a thread, and the thread."""
    if thread.is_alive():
        asyncio.run_coroutine_threadsafe(_at_rest(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
    if not loop.is_closed():
        loop.close()


async def _at_rest() -> None:
    """Connections that were closed are closed in the next rounds of the loop: let it have them."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(0)


async def _connected(url: str | Sequence[str], options: dict[str, Any]) -> Client:
    return await connect(url, **options)


def connect_sync(url: str | Sequence[str] = "penstock://127.0.0.1:7400", **options: Any) -> SyncClient:
    """Connect to a broker without asyncio; takes the same options as `penstock.connect`.

    >>> with penstock.connect_sync("penstock://127.0.0.1:7400") as net:
    ...     net.publish({"origin": "JFK", "dep_delay": 75})
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="penstock-client", daemon=True)
    thread.start()
    try:
        client = asyncio.run_coroutine_threadsafe(_connected(url, options), loop).result()
    except BaseException:
        _end(loop, thread)
        raise
    return SyncClient(loop, thread, client)
