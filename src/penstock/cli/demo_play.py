"""The demo's network part as it happens: brokers as processes, clients, a broker that is killed half-way."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import penstock
from penstock.cli.demo_scene import ROW, Client, Flights, Scene, name
from penstock.errors import NetworkError
from penstock.net.client.subscriptions import Received
from penstock.net.torture.processes import BrokerProcess, broker_command, free_ports
from penstock.net.torture.proxy import LOOPBACK
from penstock.node.settings import Times
from penstock.oracle import Ledger, Name, Tally, Who

Say = Callable[[str], None]
Tell = Callable[[float, str], None]
"""What happened, and how many seconds after the first flight."""

FLIGHTS_A_SECOND: Final = 3_000
_SECONDS: Final = (4.0, 12.0)
"""Publishing takes so long at least, that there is something to see; and at most, if brokers keep up."""

_BATCH: Final = 100
_UNACKED_MAX: Final = 250
"""Batches that may wait for their acknowledgement: what neighbours keep while they look for other ways."""

_REST: Final = 3
_POLL: Final = 0.2
"""Brokers are at rest when their tables have been the same so often, so many seconds apart."""

_START: Final = 60.0
_TRACE: Final = 15.0
_QUIET: Final = 15.0
"""Seconds without a delivery after which what is missing is taken to be lost."""
_AFTER: Final = 0.5
"""Seconds to wait for what should not come, when all that should has."""
_END: Final = 5.0


_MARGIN: Final = 2.0
"""Seconds that an event may be under way before and after a failure."""


class Inbox:
    """What came to one subscriber."""

    def __init__(self, play: "Play", at: int) -> None:
        self._play = play
        self._at = at
        self.late = 0
        self.altered = 0
        """Events that are not as they were published."""
        self.hops: tuple[Counter[int], Counter[int]] = Counter(), Counter()
        """How many brokers events came through: of those that came before the kill, and after it."""
        self.missing = 0
        """What it should have got and has not, with an excuse or without."""
        self.wrong: defaultdict[str, list[int]] = defaultdict(list)
        """What the oracle finds, by its sort: the rows."""

    def take(self, event: Received) -> None:
        """An event comes."""
        play = self._play
        row = event.get(ROW)
        if not isinstance(row, int) or row not in play.names or event.event != play.flights.events[row]:
            self.altered += 1
            return
        play.ledger.deliver(self._at, play.names[row], late=event.late)
        self.late += event.late
        self.hops[play.killed_at is not None][event.hops] += 1
        play.came(row)

    @property
    def delivered(self) -> int:
        """How many events have come."""
        return sum(hops.total() for hops in self.hops)


class Play:
    """A network, its clients, and what they saw."""

    def __init__(self, scene: Scene, flights: Flights, folder: Path) -> None:
        self.scene = scene
        self.flights = flights
        ports = free_ports(scene.brokers)
        self.urls = [f"penstock://{LOOPBACK}:{port}" for port in ports]
        self.brokers = [
            BrokerProcess(
                name(at),
                broker_command(name(at), port, [self.urls[to] for dialer, to in scene.links if dialer == at]),
                folder,
            )
            for at, port in enumerate(ports)
        ]
        self.ledger = Ledger()
        self.names: dict[int, Name] = {}
        """By row: what the ledger calls a flight that is published, in the order of publishing."""
        self.tally = Tally()
        """All that came, when it is judged."""
        self.inboxes = [Inbox(self, at) for at in range(len(scene.subscribers))]
        self.talked_to: list[list[str]] = [[] for _ in scene.subscribers]
        """The brokers that each subscriber has talked to."""
        self.published_at = [0.0] * len(flights)
        self.traced = 0
        """Flights that were published one by one, and whose ways were told."""
        self.killed_at: float | None = None
        self.found_at: float | None = None
        """When something came that had waited for a way around the broker that was killed."""
        self.last_delivery = 0.0
        self.slowest = 0.0
        """The longest time between publishing and delivery."""
        self.seconds = 0.0
        """From the first flight to the last delivery."""
        self.began = time.monotonic()
        """When the first flight was published, by the system's clock."""
        self._publishers: list[penstock.Client] = []
        self._subscribers: list[penstock.Client] = []
        self._notes: deque[tuple[float, str]] = deque()

    def clock(self) -> float:
        """Seconds since the first flight."""
        return time.monotonic() - self.began

    @property
    def delivered(self) -> int:
        """How many events have come."""
        return sum(inbox.delivered for inbox in self.inboxes)

    @property
    def late(self) -> int:
        """How many came after younger ones of their publisher."""
        return sum(inbox.late for inbox in self.inboxes)

    # Begin and end

    async def start(self, say: Say) -> None:
        """Start brokers, and connect clients."""
        say("starting brokers")
        await asyncio.gather(*(broker.start() for broker in self.brokers))
        say("waiting for all links")
        await self._settled(all_links=True)
        say("subscribing")
        for at, one in enumerate(self.scene.subscribers):
            net = await self._connected(one)
            self._subscribers.append(net)
            self.talked_to[at].append(net.broker)
            await net.subscribe(one.filter, callback=self.inboxes[at].take)
        for one in self.scene.publishers:
            net = await self._connected(one)
            self._publishers.append(net)
            await net.advertise(one.filter)

    async def settle(self) -> None:
        """Wait until everybody knows what there is and who wants it."""
        await asyncio.sleep(Times().settle)
        await self._settled()

    async def leave(self) -> None:
        """Have all clients leave, whatever state they are in."""
        clients = [*self._subscribers, *self._publishers]
        await asyncio.gather(
            *(asyncio.wait_for(net.close(), _END) for net in clients), return_exceptions=True
        )

    async def end(self) -> list[str]:
        """Ask all brokers to end; say which of them did not end well."""
        running = [broker for broker in self.brokers if broker.pid is not None]
        statuses = await asyncio.gather(*(broker.terminate() for broker in running))
        return [
            f"{broker.name} ended with status {status}, not 0; it said:\n{broker.last_words()}"
            for broker, status in zip(running, statuses, strict=True)
            if status != 0
        ]

    def end_now(self) -> None:
        """Leave no process behind; this works without an event loop, too."""
        for broker in self.brokers:
            broker.kill()

    async def _connected(self, one: Client) -> penstock.Client:
        def note(notice: Any) -> None:
            self._notes.append((self.clock(), f"{one.name}: {notice.text}"))
            for at, net in enumerate(self._subscribers):
                if notice.kind == "reconnected" and net.name == one.name:
                    self.talked_to[at].append(net.broker)

        urls = [self.urls[home] for home in one.homes]
        return await penstock.connect(urls, name=one.name, on_notice=note)

    async def _settled(self, *, all_links: bool = False) -> None:
        """Wait until brokers have nothing more to tell each other."""
        until = time.monotonic() + _START
        before: object = None
        same = 0
        while same < _REST:
            statuses = await asyncio.gather(*(_status(url) for url in self.urls))
            up = [sum(link["state"] == "up" for link in status["links"]) for status in statuses]
            if all_links and up != [self.scene.degree(at) for at in range(self.scene.brokers)]:
                same = 0
            else:
                tables = [status["table"] for status in statuses]
                before, same = tables, same + 1 if tables == before else 1
            if time.monotonic() > until:
                raise NetworkError(
                    f"brokers are not at rest after {_START:g} s, with {up} links up; is the machine busy?"
                )
            await asyncio.sleep(_POLL)

    # Flights

    async def trace(self, row: int) -> dict[str, Any] | None:
        """Publish a flight and give the ways that it took; None if nobody reports them."""
        if self.killed_at is None and not self.delivered:
            self.began = time.monotonic()
        self._note(row)
        self.traced += 1
        net = self._publishers[self.flights.publisher[row]]
        try:
            return await asyncio.wait_for(net.trace(self.flights.events[row]), _TRACE)
        except TimeoutError:
            return None

    async def publish(self, rows: list[int], tell: Tell) -> None:
        """Publish flights in order, at a steady pace, and kill the broker in the middle half-way."""
        shortest, longest = _SECONDS
        pace = min(longest, max(shortest, len(rows) / FLIGHTS_A_SECOND)) / max(1, len(rows))
        begin = told = self.clock()
        waiting: deque[set[asyncio.Future[None]]] = deque()
        for at in range(0, len(rows), _BATCH):
            if self.killed_at is None and at >= len(rows) // 2:
                self._kill(tell)
            waiting.append(self._put(rows[at : at + _BATCH]))
            if len(waiting) > _UNACKED_MAX:
                await asyncio.wait(waiting.popleft())
            await asyncio.sleep(max(0.0, begin + pace * (at + _BATCH) - self.clock()))
            told = self._tell(tell, told, min(at + _BATCH, len(rows)))
        if self.killed_at is None:
            self._kill(tell)

    def came(self, row: int) -> None:
        """A flight comes to somebody."""
        self.last_delivery = now = self.clock()
        took = now - self.published_at[row]
        self.slowest = max(self.slowest, took)
        resume = Times().resume
        if self.killed_at is None or self.found_at is not None or now < self.killed_at + resume:
            return
        # What comes at once had its way already.
        if took > resume / 2:
            self.found_at = now
            after = f"{now - self.killed_at:.1f} s after the kill"
            self._notes.append((now, f"the first flight that had waited comes by another way, {after}"))

    async def arrived(self, tell: Tell) -> None:
        """Wait until all has come that is published, or nothing comes any more."""
        told = began = self.clock()
        while any(self.ledger.missing()):
            if self.clock() - max(began, self.last_delivery) > _QUIET:
                break
            await asyncio.sleep(_POLL)
            told = self._tell(tell, told, None)
        await asyncio.sleep(_AFTER)
        self.seconds = self.last_delivery or self.clock()

    def _put(self, rows: list[int]) -> "set[asyncio.Future[None]]":
        futures = set()
        for row in rows:
            self._note(row)
            futures.add(
                self._publishers[self.flights.publisher[row]].publish_nowait(self.flights.events[row])
            )
        return futures

    def _note(self, row: int) -> None:
        """A flight is published."""
        self.published_at[row] = self.clock()
        self.names[row] = self.flights.publisher[row], len(self.names)
        wanted = [at for at, rows in enumerate(self.flights.wanted) if row in rows]
        self.ledger.publish(self.names[row], wanted)

    def _kill(self, tell: Tell) -> None:
        victim = self.brokers[self.scene.victim]
        pid = victim.pid
        victim.kill()
        self.killed_at = self.clock()
        tell(self.killed_at, f"{victim.name} is killed: kill -9 {pid}")
        waits = f"{victim.name}'s neighbours wait {Times().resume:g} s for it to come back"
        tell(self.killed_at, f"{waits}, then look for other ways; what was to go through it waits for them")

    def _tell(self, tell: Tell, told: float, published: int | None) -> float:
        """Tell what clients noticed and, every second, how far everything has come."""
        while self._notes:
            tell(*self._notes.popleft())
        now = self.clock()
        if now < told + 1.0:
            return told
        parts = [] if published is None else [f"{published:,} flights published and {self.traced} traced"]
        if self.inboxes:
            parts.append(f"{self.delivered:,} deliveries, {self.late:,} of them late")
        tell(now, ", ".join(parts))
        return now

    # What came of it

    def excused(self, row: int) -> bool:
        """Whether a flight was under way when the broker was killed, or came before all ways were found."""
        times = Times()
        if self.killed_at is None:
            return False
        recovered = self.killed_at + times.resume + times.grace + times.settle + _MARGIN
        return self.killed_at - _MARGIN <= self.published_at[row] <= recovered

    def judge(self) -> None:
        """Ask the oracle about all that came."""
        rows = list(self.names)
        inboxes: dict[Who, Inbox] = dict(enumerate(self.inboxes))
        for _flight, who in self.ledger.missing():
            inboxes[who].missing += 1
        self.tally, found = self.ledger.judge(lambda flight, _who: self.excused(rows[flight[1]]))
        for finding in found:
            inboxes[finding.who].wrong[finding.sort].append(rows[finding.name[1]])

    def wrong(self) -> Iterator[str]:
        """What must not be, once it is judged."""
        for one, inbox in zip(self.scene.subscribers, self.inboxes, strict=True):
            unwanted, twice, disordered, lost = (
                inbox.wrong[sort] for sort in ("unwanted", "twice", "disordered", "missed")
            )
            strange = inbox.altered + len(unwanted)
            if strange:
                yield f"{one.name} got {strange:,} events that it did not want, or that were altered"
            if twice:
                yield f"{one.name} got {len(twice):,} events twice"
            if disordered:
                yield f"{one.name} got {len(disordered):,} events out of order, or wrongly marked late"
            if lost:
                yield f"{one.name} never got {len(lost):,} flights, such as row {min(lost):,}, without excuse"
        for broker in self.brokers:
            if broker.has_crashed:
                yield f"{broker.name} ended by itself; it said:\n{broker.last_words()}"


async def _status(url: str) -> dict[str, Any]:
    async with await penstock.connect(url, name="demo", reconnect=False) as net:
        return await net.status()
