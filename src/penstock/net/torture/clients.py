"""Publishers and subscribers, which write down all that they publish and get."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.model.events import Event
from penstock.model.values import Value
from penstock.net.torture.networks import Client
from penstock.net.torture.records import Delivered, Published, Told
from penstock.net.torture.runners import Here, Runner

_AT_ONCE: Final = 50
"""Events that wait for their acknowledgement together."""

_UNDER_WAY: Final = 64
"""So many times that a publisher does not wait for before it goes on: faults are to hit events in numbers."""

_QUEUE: Final = 512
"""Events that a subscription may hold: few, so that slow consumers are felt."""

_LEAVING: Final = 8.0
"""Seconds until a client that was asked to leave has left."""

_FAILURES: Final = (PenstockError, OSError, asyncio.TimeoutError)


class Arrival(Protocol):
    """What the client gives for an event."""

    @property
    def event(self) -> Event:
        """The event itself."""

    @property
    def late(self) -> bool:
        """Whether it came after younger ones of its publisher."""


class Stream(Protocol):
    """What the client gives for a subscription."""

    def __aiter__(self) -> AsyncIterator[Arrival]:
        """The events that come."""

    async def change(self, text: str, /) -> None:
        """Want something else from now on."""


class Net(Protocol):
    """What is used of a client."""

    @property
    def broker(self) -> str:
        """The name of the broker that it talks to."""

    async def advertise(self, text: str, /) -> Any:
        """Say what will be published."""

    async def publish_many(self, events: Sequence[Mapping[str, Value]], /) -> None:
        """Publish; return when the broker has taken all."""

    async def subscribe(self, text: str, /, *, queue: int) -> Stream:
        """Want something."""

    async def close(self) -> None:
        """Leave."""


Connect = Callable[..., Awaitable[Net]]
Clock = Callable[[], float]


class Records:
    """What was seen, in the order in which it was seen."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.published: dict[int, list[Published]] = {}
        """By round."""
        self.delivered: dict[int, list[Delivered]] = {}
        """By the round in which the event was published."""
        self.reached: dict[tuple[int, int], dict[int, float]] = {}
        """For each event: which subscriptions it came to, and when first."""
        self.wrong: list[str] = []
        self.told: list[Told] = []
        """What clients were told."""
        self.notes: list[str] = []
        """What clients said, for those who look into it."""
        self.last_delivery = 0.0
        self._known: dict[tuple[int, int], Published] = {}

    def note(self, text: str) -> None:
        """Write down what a client said."""
        self.notes.append(f"{self.clock():9.3f} {text}")

    def publish(self, one: Published, number: int) -> None:
        """Write down that an event is being published."""
        self.published.setdefault(number, []).append(one)
        self._known[one.key] = one

    def deliver(self, subscription: int, event: Event, *, late: bool) -> None:
        """Write down that an event came."""
        publisher, sequence, number = (event.get(name) for name in ("publisher", "sequence", "round"))
        if not (isinstance(publisher, int) and isinstance(sequence, int) and isinstance(number, int)):
            self.wrong.append(f"unknown: {dict(event)!r:.200} came to subscription {subscription}")
            return
        at = self.last_delivery = self.clock()
        known = self._known.get((publisher, sequence))
        if known is not None and known.event == event:
            event = known.event  # One is enough to keep.
        delivery = Delivered(subscription, publisher, sequence, event, at, late)
        self.delivered.setdefault(number, []).append(delivery)
        self.reached.setdefault(delivery.key, {}).setdefault(subscription, at)


class Publisher:
    """Numbers its events, and publishes them, many before the first is acknowledged."""

    def __init__(self, number: int, client: Client, records: Records, runner: Runner | None = None) -> None:
        self.number = number
        self.runner = runner or Here()
        self._client = client
        self._records = records
        self._net: Net | None = None
        self._room = asyncio.Semaphore(_UNDER_WAY)
        self._sequence = 0

    async def start(self, connect: Connect, urls: list[str]) -> None:
        """Connect, and advertise."""
        await self.runner.call(self._start(connect, urls))

    async def _start(self, connect: Connect, urls: list[str]) -> None:
        self._net = await _connected(connect, urls, self.number, self._client, self._records)
        await self._net.advertise(self._client.advertisement)

    async def publish(
        self, events: Sequence[Mapping[str, Value]], number: int, *, is_probe: bool = False
    ) -> list[Published]:
        """Publish, and wait until all is acknowledged or has failed."""
        return await self.runner.call(self._publish_all(events, number, is_probe))

    async def _publish_all(
        self, events: Sequence[Mapping[str, Value]], number: int, is_probe: bool
    ) -> list[Published]:
        parts = [events[at : at + _AT_ONCE] for at in range(0, len(events), _AT_ONCE)]
        made = await asyncio.gather(*(self._publish(part, number, is_probe) for part in parts))
        return [one for part in made for one in part]

    async def _publish(
        self, events: Sequence[Mapping[str, Value]], number: int, is_probe: bool
    ) -> list[Published]:
        if self._net is None:
            raise PenstockError(f"{self._client.name} is not connected; start it first")
        async with self._room:
            # Numbered when its turn has come, so that the client takes events in the order of their numbers.
            made = [self._numbered(event, number, is_probe) for event in events]
            try:
                await self._net.publish_many([one.event for one in made])
            except _FAILURES as error:
                self._records.note(f"{self._client.name}: publishing failed: {error}")
                return made
        now, broker = self._records.clock(), self._net.broker
        for one in made:
            one.acked = now
            one.brokers |= {broker}
        return made

    def _numbered(self, event: Mapping[str, Value], number: int, is_probe: bool) -> Published:
        numbering = {"publisher": self.number, "sequence": self._sequence, "round": number}
        now, broker = self._records.clock(), "" if self._net is None else self._net.broker
        one = Published(
            self.number,
            self._sequence,
            Event({**event, **numbering}),
            now,
            is_probe=is_probe,
            brokers=frozenset([broker]),
        )
        self._sequence += 1
        self._records.publish(one, number)
        return one

    async def close(self) -> None:
        """Leave."""
        await _in_time(self.runner, _left(self._net))


class Subscriber:
    """Reads its subscriptions, as quickly as it is told to."""

    def __init__(self, number: int, client: Client, records: Records, runner: Runner | None = None) -> None:
        self.number = number
        self.runner = runner or Here()
        self.pace = 0.0
        """Seconds that it takes for each event."""
        self._client = client
        self._records = records
        self._net: Net | None = None
        self._streams: dict[int, Stream] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, connect: Connect, urls: list[str], filters: Sequence[str]) -> None:
        """Connect, and subscribe; the filters are those of all subscriptions of all clients."""
        await self.runner.call(self._start(connect, urls, filters))

    async def _start(self, connect: Connect, urls: list[str], filters: Sequence[str]) -> None:
        self._net = await _connected(connect, urls, self.number, self._client, self._records)
        for subscription in self._client.subscriptions:
            stream = await self._net.subscribe(filters[subscription], queue=_QUEUE)
            self._streams[subscription] = stream
            self._tasks.append(asyncio.ensure_future(self._read(subscription, stream)))

    async def change(self, filters: Sequence[str]) -> None:
        """Have other filters from now on."""
        await self.runner.call(self._change(filters))

    async def _change(self, filters: Sequence[str]) -> None:
        for subscription, stream in self._streams.items():
            await stream.change(filters[subscription])

    async def close(self) -> None:
        """Leave, and read no more."""
        await _in_time(self.runner, self._close())

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await _left(self._net)

    async def _read(self, subscription: int, stream: Stream) -> None:
        why = "without an error"
        try:
            async for arrival in stream:
                self._records.deliver(subscription, arrival.event, late=arrival.late)
                if self.pace:
                    await asyncio.sleep(self.pace)
        except _FAILURES as error:
            why = f"with {type(error).__name__}: {error}"
        self._records.wrong.append(
            f"ended: subscription {subscription} of {self._client.name} ended {why} after "
            f"{self._records.clock():.2f} s; it has to last"
        )


async def _connected(connect: Connect, urls: list[str], number: int, client: Client, records: Records) -> Net:
    def say(notice: Any) -> None:
        records.told.append(Told(records.clock(), number, notice.kind, notice.count))
        records.note(f"{client.name}: {notice.kind}: {notice.text}")

    return await connect(urls, name=client.name, on_notice=say)


async def _in_time(runner: Runner, leaving: Coroutine[Any, Any, None]) -> None:
    """Have a client leave, and end what it ran in; one that stands still cannot leave."""
    try:
        await asyncio.wait_for(runner.call(leaving), _LEAVING)
    except TimeoutError:
        pass
    finally:
        await runner.close()


async def _left(net: Net | None) -> None:
    """Close a client, which may be in any state: what it says of that is of no interest any more."""
    if net is None:
        return
    try:
        await asyncio.wait_for(net.close(), 5.0)
    except _FAILURES:
        return
