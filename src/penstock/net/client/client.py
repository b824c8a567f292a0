"""A client of a broker, for asyncio: futures around `penstock.node.client.core`, which does the work."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from penstock.errors import NetworkError, PenstockError
from penstock.filters.parsing import PredicateLike, as_predicate
from penstock.model.events import Event
from penstock.net.client.subscriptions import QUEUE_DEFAULT, Acking, Callback, Subscription
from penstock.net.sockets import SocketWay
from penstock.net.world import AsyncioWorld
from penstock.node.client.core import ClientCore, OnFailed
from penstock.node.client.notices import Notice
from penstock.node.client.outlet import Ack, OnSettled, stage_of
from penstock.wire.events import encode_mapping
from penstock.wire.sessions import Stage

if TYPE_CHECKING:
    from penstock.composites.expression import Composite
    from penstock.net.client.composites import CompositeSubscription

EventLike = Event | Mapping[str, object]

_TOGETHER: Final = 1_024
"""Events that are encoded before the next look at how much waits."""

T = TypeVar("T")


class Advertisement:
    """What a client has said that it may publish."""

    def __init__(self, client: "Client", key: int, text: str) -> None:
        self.key = key
        self.filter = text
        self._client = client

    async def withdraw(self) -> None:
        """Publish no more of it."""
        await self._client.withdraw(self)


class Client:
    """A client. Made by `penstock.connect`."""

    def __init__(
        self,
        ways: list[SocketWay],
        *,
        name: str,
        token: str,
        when_slow: Literal["pause", "drop"],
        reconnect: bool,
        timeout: float,
        on_notice: Callable[[Notice], None] | None,
    ) -> None:
        self.name = name
        self.queue_default = QUEUE_DEFAULT
        """Events that may wait in a subscription that says nothing else."""
        self.parses = True
        """Whether texts of filters are parsed here, and mistakes in them told without asking the broker."""
        self._core = ClientCore(
            AsyncioWorld(),
            ways,
            name=name,
            token=token,
            when_slow=when_slow,
            reconnect=reconnect,
            timeout=timeout,
            on_notice=None if on_notice is None else partial(_tell, on_notice),
        )
        self._outlet = self._core.outlet
        self._subscriptions: dict[int, Subscription] = {}

    # The connection

    @property
    def broker(self) -> str:
        """The name of the broker that it talks to."""
        return self._core.line.broker

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._core.line.is_connected

    async def open(self) -> None:
        """Connect to the first broker that answers. Raises NetworkError or AccessError."""
        opened: asyncio.Future[None] = _future()
        self._core.open(partial(_fulfil, opened, None), partial(_fail, opened))
        try:
            await opened
        except asyncio.CancelledError:
            ended: asyncio.Future[None] = _future()
            self._core.line.stop_opening(partial(_fulfil, ended, None))
            await ended
            raise

    def acknowledge_soon(self) -> None:
        """Something has been taken that a broker may be waiting for."""
        self._core.line.acknowledge_soon()

    # Requests

    async def _ask(self, ask: Callable[[Callable[..., None], OnFailed], int]) -> Any:
        """Have the core ask something, and wait for the answer."""
        answer: asyncio.Future[Any] = _future()
        number = ask(partial(_answer, answer), partial(_fail, answer))
        try:
            return await answer
        finally:
            self._core.forget(number)

    def _text_of(self, filter: PredicateLike) -> str:  # noqa: A002
        return filter if isinstance(filter, str) and not self.parses else as_predicate(filter).to_sql()

    async def advertise(self, filter: PredicateLike) -> Advertisement:  # noqa: A002 - as people call it
        """Say what will be published: only that can be. Raises FilterError or AccessError."""
        text = self._text_of(filter)
        key = self._core.new_key()
        try:
            await self._ask(partial(self._core.advertise, key, text))
        except asyncio.CancelledError:
            self._core.take_back(key)
            raise
        return Advertisement(self, key, text)

    async def withdraw(self, advertisement: Advertisement) -> None:
        """Publish no more of what was advertised."""
        await self.flush()
        await self._ask(partial(self._core.withdraw, advertisement.key))

    async def subscribe(
        self,
        filter: PredicateLike,  # noqa: A002
        *,
        callback: Callback | None = None,
        ack: Acking = "auto",
        queue: int | None = None,
    ) -> Subscription:
        """Want events that match a filter. Raises FilterError or AccessError.

        Iterate over what is returned, or give a callback. With ack="manual" the broker is told that an event
        is dealt with when `event.ack()` says so, and sends no more than its window before that.
        """
        if ack not in ("auto", "manual"):
            raise PenstockError(f"ack={ack!r}: say 'auto' or 'manual'")
        text = self._text_of(filter)
        self._core.check_open()
        key = self._core.new_key()
        subscription = Subscription(self, key, text, ack, queue or self.queue_default, callback)
        self._subscriptions[key] = subscription
        try:
            await self._ask(partial(self._core.subscribe, key, text, subscription))
        except BaseException:
            subscription.end()
            await self.end_subscription(subscription, wait=False)
            raise
        return subscription

    async def subscribe_composite(
        self, composite: "str | Composite", *, queue: int | None = None
    ) -> "CompositeSubscription":
        """Want matches of several events: docs/COMPOSITES.md has the language. Iterate over what is returned.

        Events happen when they come here, unless the composite says `by time`. Raises FilterError or
        AccessError.
        """
        from penstock.composites.language import parse
        from penstock.net.client.composites import CompositeSubscription, filter_of

        parsed = parse(composite) if isinstance(composite, str) else composite
        return CompositeSubscription(parsed, await self.subscribe(filter_of(parsed), queue=queue))

    async def change_subscription(self, subscription: Subscription, filter: PredicateLike) -> None:  # noqa: A002
        """Have another filter under the same subscription."""
        text = self._text_of(filter)
        await self._ask(partial(self._core.change, subscription.key, text))
        subscription.filter = text

    async def end_subscription(self, subscription: Subscription, *, wait: bool) -> None:
        """Want it no more; perhaps wait until the broker knows, as far as there is one."""
        self._subscriptions.pop(subscription.key, None)
        if wait:
            await self._ask(partial(self._core.end_subscription, subscription.key))
        else:
            self._core.unsubscribe(subscription.key)

    async def status(self) -> dict[str, Any]:
        """What the broker says of itself. Raises AccessError without the right to monitor."""
        told: dict[str, Any] = msgspec.json.decode(await self._ask(self._core.status))
        return told

    # Publishing

    async def publish(
        self, event: EventLike, *, advertisement: Advertisement | None = None, ack: Ack = "accepted"
    ) -> None:
        """Publish an event; wait until it is acknowledged. Raises EventError, AccessError or NetworkError.

        `ack` says what for. "accepted": each broker of a client that wants the event has it; readers hold
        this up only if a window of events is under way. "taken": each of these clients has it. "handled":
        each has acknowledged it, by `event.ack()` where that is done by hand. Readers that are too slow are
        given up, and not waited for: see docs/OPERATIONS.md.
        """
        stage, data = stage_of(ack), encode_mapping(event)
        key = await self._key_for(advertisement)
        await self._room()
        self._core.check_open()
        await self._put(key, data, stage)

    async def publish_many(
        self,
        events: Iterable[EventLike],
        *,
        advertisement: Advertisement | None = None,
        ack: Ack = "accepted",
    ) -> int:
        """Publish events in order and wait until all are acknowledged; return how many there were."""
        stage = stage_of(ack)
        key = await self._key_for(advertisement)
        count = 0
        waiting: list[asyncio.Future[None]] = []

        def watch() -> OnSettled:
            block: asyncio.Future[None] = _future()
            waiting.append(block)
            return partial(_settle, block)

        left = iter(events)
        while some := [encode_mapping(event) for event in islice(left, _TOGETHER)]:
            self._outlet.put_many(key, some, watch, stage)
            count += len(some)
            if self._outlet.is_full:
                await self._room()
                self._core.check_open()
        for block in waiting:
            await asyncio.shield(block)
        return count

    def publish_nowait(
        self, event: EventLike, *, advertisement: Advertisement | None = None, ack: Ack = "accepted"
    ) -> "asyncio.Future[None]":
        """Publish an event; the future is done when it is acknowledged.

        Something must have been advertised before. Raises NetworkError where too much waits already.
        """
        self._core.check_open()
        advertised = self._core.advertised
        if advertisement is None and not advertised:
            raise PenstockError("publish_nowait needs an advertisement: await advertise(…) before")
        key = next(iter(advertised)) if advertisement is None else advertisement.key
        if self._outlet.is_full:
            raise NetworkError("too many events wait to be acknowledged: await flush(), or publish()")
        return self._put(str(key), encode_mapping(event), stage_of(ack))

    def _put(self, key: str, data: bytes, stage: Stage) -> "asyncio.Future[None]":
        settled: asyncio.Future[None] = _future()
        self._outlet.put(key, data, partial(_settle, settled), stage)
        return settled

    async def _key_for(self, advertisement: Advertisement | None) -> str:
        """The key of an advertisement: by default of the first, which is everything where there is none."""
        self._core.check_open()
        if advertisement is not None:
            return str(advertisement.key)
        if self._core.advertised:
            return str(next(iter(self._core.advertised)))
        key: asyncio.Future[str] = _future()
        self._core.advertise_granted(partial(_fulfil, key), partial(_fail, key))
        return await key

    async def _room(self) -> None:
        """Wait until there is room for more."""
        if not self._outlet.has_room:
            room: asyncio.Future[None] = _future()
            self._outlet.when_room(partial(_fulfil, room, None))
            await room

    async def flush(self) -> None:
        """Wait until all that was published is acknowledged."""
        settled: asyncio.Future[None] = _future()
        self._outlet.when_settled(partial(_fulfil, settled, None))
        await settled

    async def trace(self, event: EventLike, *, advertisement: Advertisement | None = None) -> dict[str, Any]:
        """Publish a marked event; return the way that it took, broker by broker.

        Raises AccessError without the right to monitor.
        """
        data = encode_mapping(event)
        key = await self._key_for(advertisement)
        report: asyncio.Future[bytes] = _future()
        self._core.trace(key, data, partial(_fulfil, report), partial(_fail, report))
        told: dict[str, Any] = msgspec.json.decode(await report)
        return told

    # The end

    async def drain(self) -> None:
        """Publish all that waits, take all that came, and close."""
        await self.flush()
        ended = await asyncio.gather(
            *(subscription.drain() for subscription in list(self._subscriptions.values())),
            return_exceptions=True,
        )
        await self.close()
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def close(self) -> None:
        """Say goodbye and end. What waits for an acknowledgement is told that it will not come."""
        closed: asyncio.Future[None] = _future()
        self._core.close(partial(_fulfil, closed, None))
        await closed

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


# Futures from callbacks. Whoever waited may have given up, and need not look at an error.


def _future() -> "asyncio.Future[T]":
    return asyncio.get_running_loop().create_future()


def _fulfil(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()


def _answer(future: "asyncio.Future[Any]", json: bytes = b"") -> None:
    _fulfil(future, json)


def _settle(future: "asyncio.Future[None]", error: Exception | None) -> None:
    if error is None:
        _fulfil(future, None)
    else:
        _fail(future, error)


def _tell(on_notice: Callable[[Notice], None], notice: Notice) -> None:
    """Tell whoever wants to know; a mistake of theirs stops nothing here."""
    try:
        on_notice(notice)
    except Exception as error:
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"on_notice failed for {notice.kind!r}", "exception": error}
        )
