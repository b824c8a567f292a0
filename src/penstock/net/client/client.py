"""A client of a broker: asks, publishes, receives, and finds its way back when the connection is lost."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Final, Literal

import msgspec
import numpy as np

from penstock.broker.seen import Seen
from penstock.errors import AccessError, FilterError, NetworkError, PenstockError, WireError
from penstock.filters.parsing import PredicateLike, as_predicate
from penstock.model.events import Event
from penstock.net.client.line import Line
from penstock.net.client.notices import Notice
from penstock.net.client.outlet import Outlet
from penstock.net.client.subscriptions import QUEUE_DEFAULT, Acking, Callback, Subscription
from penstock.net.opening import Way
from penstock.wire.blocks import Block
from penstock.wire.events import encode_mapping
from penstock.wire.greetings import Welcome
from penstock.wire.requests import (
    Answer,
    Ask,
    Bye,
    Denied,
    Done,
    Notify,
    Offer,
    Rejected,
    Request,
    Traced,
    Unoffer,
    Unwant,
    Want,
    write_request,
)
from penstock.wire.sessions import Custody, Session

EventLike = Event | Mapping[str, object]

_TOGETHER: Final = 1_024
"""Events that are encoded before the next look at how much waits."""

_RESTATED: Final = 2**62 - 1
"""The number of the last request with which a client says anew what it wants."""

_PARTIAL_MAX: Final = 65_536
"""Events of which it is remembered for which subscriptions they came."""


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
        ways: list[Way],
        *,
        name: str,
        token: str,
        when_slow: Literal["pause", "drop"],
        reconnect: bool,
        timeout: float,
        on_notice: Callable[[Notice], None] | None,
    ) -> None:
        self.name = name
        self._line = Line(
            self,
            ways,
            name=name,
            token=token,
            when_slow=when_slow,
            reconnect=reconnect,
            timeout=timeout,
            on_notice=on_notice,
        )
        self._timeout = timeout
        self._requests = 0
        self._asked: dict[int, tuple[Request, asyncio.Future[bytes]]] = {}
        self._keys = 0
        self._subscriptions: dict[int, Subscription] = {}
        self._advertisements: dict[int, Advertisement] = {}
        self._implied: asyncio.Task[Advertisement] | None = None
        self._traces: dict[str, asyncio.Future[bytes]] = {}
        self._outlet = Outlet(self._line.flush)
        self._seen = Seen(2**20)
        self.queue_default = QUEUE_DEFAULT
        """Events that may wait in a subscription that says nothing else."""
        self._granted = "true"
        """What may be advertised, which is advertised if nothing else is."""
        self._is_restating = False
        self._partial: dict[tuple[str, int], set[int]] = {}

    # The connection

    @property
    def broker(self) -> str:
        """The name of the broker that it talks to."""
        return self._line.broker

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._line.is_connected

    async def open(self) -> None:
        """Connect to the first broker that answers. Raises NetworkError or AccessError."""
        await self._line.open()

    def acknowledge_soon(self) -> None:
        """Something has been taken that a broker may be waiting for."""
        self._line.acknowledge_soon()

    def begin(self, session: Session, welcome: Welcome) -> int:
        """A new session: say everything anew, and publish again what was not acknowledged."""
        self._outlet.frame_bytes = welcome.frame_bytes
        self._granted = welcome.granted
        for advertisement in self._advertisements.values():
            self._say(Offer(0, advertisement.key, advertisement.filter))
        # What comes before all is said may have come for some subscriptions only.
        self._is_restating = bool(self._subscriptions)
        last = next(reversed(self._subscriptions), None)
        for key, subscription in self._subscriptions.items():
            self._say(Want(_RESTATED if key == last else 0, key, subscription.filter))
        for request, _future in self._asked.values():
            self._say(request)
        return self._outlet.use(session)

    def _say(self, request: Request) -> None:
        self._line.session.push_message(write_request(request))

    def fail(self, error: Exception) -> None:
        """It is over: everybody who waits is told."""
        for _request, future in self._asked.values():
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._asked.clear()
        for trace in self._traces.values():
            trace.cancel()
        self._outlet.fail(error)
        for subscription in self._subscriptions.values():
            subscription.end(error)

    # Requests

    def _check_open(self) -> None:
        if self._line.is_closed:
            raise self._line.error or NetworkError("the client is closed")

    async def _ask(self, make: Callable[[int], Request]) -> bytes:
        self._check_open()
        self._requests += 1
        number = self._requests
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        request = make(number)
        self._asked[number] = request, future
        self._say(request)
        self._line.flush()
        try:
            return await future
        finally:
            self._asked.pop(number, None)

    def answered(self, answer: Answer) -> None:
        """The broker has answered something, or says something by itself."""
        if isinstance(answer, Done | Denied):
            self._is_restating &= answer.request != _RESTATED
            _request, future = self._asked.get(answer.request, (None, None))
            if future is None or future.done():
                if isinstance(answer, Denied):
                    self._line.notify("rejected", answer.reason)
            elif isinstance(answer, Done):
                future.set_result(answer.json)
            else:
                future.set_exception(_error_of(answer))
        elif isinstance(answer, Notify):
            self._line.notify(answer.kind, answer.text, answer.count)
        elif isinstance(answer, Traced):
            trace = self._traces.get(answer.trace)
            if trace is not None and not trace.done():
                trace.set_result(answer.json)
        else:
            self._rejected(answer)

    def _rejected(self, answer: Rejected) -> None:
        self._outlet.reject(str(answer.key), answer.numbers, answer.reason)
        self._line.notify("rejected", answer.reason, len(answer.numbers))

    def _new_key(self) -> int:
        self._keys += 1
        return self._keys

    async def advertise(self, filter: PredicateLike) -> Advertisement:  # noqa: A002 - as people call it
        """Say what will be published: only that can be. Raises FilterError or AccessError."""
        text = as_predicate(filter).to_sql()
        advertisement = Advertisement(self, self._new_key(), text)
        try:
            await self._ask(lambda number: Offer(number, advertisement.key, text))
        except asyncio.CancelledError:
            self._say(Unoffer(0, advertisement.key))
            raise
        self._advertisements[advertisement.key] = advertisement
        return advertisement

    async def withdraw(self, advertisement: Advertisement) -> None:
        """Publish no more of what was advertised."""
        await self.flush()
        if self._advertisements.pop(advertisement.key, None) is not None:
            await self._ask(lambda number: Unoffer(number, advertisement.key))

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
        text = as_predicate(filter).to_sql()
        self._check_open()
        subscription = Subscription(self, self._new_key(), text, ack, queue or self.queue_default, callback)
        self._subscriptions[subscription.key] = subscription
        try:
            await self._ask(lambda number: Want(number, subscription.key, text))
        except BaseException:
            subscription.end()
            await self.end_subscription(subscription, wait=False)
            raise
        return subscription

    async def change_subscription(self, subscription: Subscription, filter: PredicateLike) -> None:  # noqa: A002
        """Have another filter under the same subscription."""
        text = as_predicate(filter).to_sql()
        await self._ask(lambda number: Want(number, subscription.key, text))
        subscription.filter = text

    async def end_subscription(self, subscription: Subscription, *, wait: bool) -> None:
        """Want it no more; perhaps wait until the broker knows, as far as there is one."""
        if self._subscriptions.pop(subscription.key, None) is None or self._line.is_closed:
            return
        if wait and self._line.is_connected:
            await self._ask(lambda number: Unwant(number, subscription.key))
        else:
            self._say(Unwant(0, subscription.key))
            self._line.flush()

    async def status(self) -> dict[str, Any]:
        """What the broker says of itself. Raises AccessError without the right to monitor."""
        told: dict[str, Any] = msgspec.json.decode(await self._ask(Ask))
        return told

    # Publishing

    async def publish(self, event: EventLike, *, advertisement: Advertisement | None = None) -> None:
        """Publish an event, and wait until every broker that has to pass it on, and every client that it is
        for, has acknowledged it. Raises EventError, AccessError or NetworkError."""
        data = encode_mapping(event)
        key = await self._key_for(advertisement)
        await self._outlet.room()
        self._check_open()
        await self._outlet.put(key, data)

    async def publish_many(
        self, events: Iterable[EventLike], *, advertisement: Advertisement | None = None
    ) -> int:
        """Publish events in order and wait until all are acknowledged; return how many there were."""
        key = await self._key_for(advertisement)
        count = 0
        waiting: list[asyncio.Future[None]] = []
        left = iter(events)
        while some := [encode_mapping(event) for event in islice(left, _TOGETHER)]:
            waiting += self._outlet.put_many(key, some)
            count += len(some)
            if self._outlet.is_full:
                await self._outlet.room()
                self._check_open()
        for future in waiting:
            await asyncio.shield(future)
        return count

    def publish_nowait(
        self, event: EventLike, *, advertisement: Advertisement | None = None
    ) -> "asyncio.Future[None]":
        """Publish an event; the future is done when it is acknowledged.

        Something must have been advertised before. Raises NetworkError where too much waits already.
        """
        self._check_open()
        if advertisement is None:
            if not self._advertisements:
                raise PenstockError("publish_nowait needs an advertisement: await advertise(…) before")
            advertisement = next(iter(self._advertisements.values()))
        if self._outlet.is_full:
            raise NetworkError("too many events wait to be acknowledged: await flush(), or publish()")
        return self._outlet.put(str(advertisement.key), encode_mapping(event))

    async def _key_for(self, advertisement: Advertisement | None) -> str:
        """The key of an advertisement: by default of the first, which is everything where there is none."""
        self._check_open()
        if advertisement is not None:
            return str(advertisement.key)
        if not self._advertisements:
            if self._implied is None or self._implied.done():
                self._implied = asyncio.get_running_loop().create_task(self.advertise(self._granted))
            try:
                await asyncio.shield(self._implied)
            except AccessError as error:
                raise AccessError(f"advertise what you publish, with advertise(filter): {error}") from None
        return str(next(iter(self._advertisements)))

    async def flush(self) -> None:
        """Wait until all that was published is acknowledged."""
        await self._outlet.settle()

    async def trace(self, event: EventLike, *, advertisement: Advertisement | None = None) -> dict[str, Any]:
        """Publish a marked event; return the way that it took, broker by broker.

        Raises AccessError without the right to monitor.
        """
        data = encode_mapping(event)
        key = await self._key_for(advertisement)
        mark = secrets.token_hex(8)
        self._traces[mark] = report = asyncio.get_running_loop().create_future()
        try:
            await asyncio.shield(self._outlet.put_traced(key, data, mark))
            if not report.done():
                # It comes before the acknowledgement, or not at all.
                raise AccessError("the broker traced nothing: that needs the right to monitor")
            told: dict[str, Any] = msgspec.json.decode(await report)
            return told
        finally:
            del self._traces[mark]

    # Receiving

    def receive(self, number: int, block: Block) -> None:
        """Hand out the events of a block, but for those that came before for the same subscriptions."""
        session = self._line.session

        def dealt_with(_succeeded: bool) -> None:
            session.dealt_with(number)
            self.acknowledge_soon()

        custody = Custody(dealt_with)
        top = self._seen.top(block.header.origin)
        new = self._seen.add(block.header.origin, block.numbers)
        if block.keys is None or block.key_offsets is None:
            raise WireError("events came without saying for which subscriptions")
        subscriptions = self._subscriptions
        data, offsets = bytes(block.data), block.offsets.tolist()
        header, numbers = block.header, block.numbers.tolist()
        late = (block.numbers < top).tolist()
        # An event comes up once for each subscription that it is for.
        rows = np.repeat(np.arange(len(block)), np.diff(block.key_offsets))
        pairs: Iterable[tuple[int, int]] = zip(block.keys.tolist(), rows.tolist(), strict=True)
        if self._is_restating or not new.all():
            pairs = self._still_wanting(block, new.tolist(), pairs)
        for key, at in pairs:
            subscription = subscriptions.get(key)
            if subscription is not None:
                subscription.put(data[offsets[at] : offsets[at + 1]], header, numbers[at], late[at], custody)
        custody.release()

    def _still_wanting(
        self, block: Block, new: list[bool], pairs: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        """The subscriptions, with their events, for which these have not come.

        An event that has come usually came for all of them; but not while a broker was being told what they
        are. Then it comes again, from whoever kept it for the broker before.
        """
        for key, at in pairs:
            event = block.header.origin, int(block.numbers[at])
            if new[at]:
                if self._is_restating:
                    self._partial.setdefault(event, set()).add(key)
                    if len(self._partial) > _PARTIAL_MAX:
                        del self._partial[next(iter(self._partial))]
                yield key, at
            elif event in self._partial and key not in self._partial[event]:
                self._partial[event].add(key)
                yield key, at

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
        if not self._line.is_closed:
            self._outlet.flush()
            if self._line.is_connected:
                try:
                    async with asyncio.timeout(min(self._timeout, 2.0)):
                        await self._ask(Bye)
                except (TimeoutError, PenstockError):
                    pass
            self._line.is_closed = True
        if self._implied is not None:
            self._implied.cancel()
        for subscription in self._subscriptions.values():
            subscription.end(self._line.error)
        self._outlet.fail(NetworkError("the client was closed before this was acknowledged"))
        await self._line.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _error_of(denied: Denied) -> PenstockError:
    if denied.code == "access":
        return AccessError(denied.reason)
    return FilterError(denied.reason) if denied.code == "filter" else NetworkError(denied.reason)
