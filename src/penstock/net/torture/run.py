"""Rounds of torture.

A round: all subscriptions change their filters, and probes show that everybody knows. Publishers then
publish in bursts while faults happen. When all is mended, probes show when everybody is reached again; more
events follow, which all have to arrive. When nothing is under way any more, everything is checked.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from penstock.net.torture.check import Verdict, check
from penstock.net.torture.clients import Connect, Publisher, Records, Subscriber
from penstock.net.torture.excuses import Excuses, Happened
from penstock.net.torture.faults import Fault
from penstock.net.torture.networks import Network, draw_network
from penstock.net.torture.plan import Burst, Round, draw_round, final_round
from penstock.net.torture.probing import Prober
from penstock.net.torture.records import Interest, interests, wanted
from penstock.net.torture.report import Options, Report, Row, describe, describe_all
from penstock.net.torture.runners import Here, NewRunner

PATIENCE: Final = 60.0
"""Seconds until all must have recovered, or have been published."""

_QUIET: Final = 30.0
"""Seconds without a delivery after which what is missing is taken to be lost: by then clients have been told
that they may have missed it, where its publisher has reported that."""

_EXCUSED: Final = 3.0
"""The same, where all that is missing need not come."""

_AFTER: Final = 0.5
"""Seconds to wait for what should not come, when all that should has."""

_SLOW_PACE: Final = 0.01

Say = Callable[[str], None]


class Sufferer(Protocol):
    """A network that clients connect to and that faults are done to."""

    async def start(self) -> None:
        """Have all brokers listen."""

    async def close(self) -> None:
        """End everything."""

    def urls(self, client: int) -> list[str]:
        """Where a client connects to."""

    def crashed(self) -> list[str]:
        """Brokers that ended by themselves."""

    async def suffer(self, fault: Fault) -> list[str]:
        """Have a fault happen and mend it; say what went wrong that should not have."""


class _Judged(msgspec.Struct):
    """A round that was checked, to be checked again if something comes of it later."""

    row: Row
    interests: list[Interest]
    excuses: Excuses
    calm: bool
    deliveries: int


class Torture:
    """A network, its clients, and what they saw. Rounds are drawn from the seed, unless they are given."""

    def __init__(
        self,
        options: Options,
        overlay: Sufferer,
        connect: Connect,
        network: Network | None = None,
        rounds: Sequence[Round] | None = None,
        runner: NewRunner = Here,
    ) -> None:
        """`runner` makes what each client runs in."""
        self._options = options
        self._network = network or draw_network(
            options.seed,
            options.brokers,
            topology=options.topology,
            subscribers=options.subscribers,
            single_homed=options.single_homed,
        )
        self._rounds = rounds
        self._overlay = overlay
        self._connect = connect
        begin = time.monotonic()
        self.records = Records(lambda: time.monotonic() - begin)
        self.report = Report(options, links=len(self._network.links))
        clients = self._network.clients
        self._publishers = {
            n: Publisher(n, clients[n], self.records, runner()) for n in self._network.publishers
        }
        self._subscribers = {
            n: Subscriber(n, clients[n], self.records, runner()) for n in self._network.subscribers
        }
        subscriptions = self._network.subscriptions
        self._prober = Prober(list(self._publishers.values()), subscriptions, self.records)
        self._judged: dict[int, _Judged] = {}
        self._broken: list[str] = []

    async def run(self, tell: Say, patience: float = PATIENCE) -> Report:
        """Start everything, go through the rounds, end everything.

        What is violated ends it, unless it is to go on to the end.
        """

        def say(text: str) -> None:
            self.records.note(text)
            tell(f"{text}{self._so_far()}")

        try:
            say("starting brokers")
            await self._overlay.start()
            rounds = self._options.rounds
            await self._join(self._round(1))
            for number in range(1, rounds + 2):
                plan = self._round(number) if number <= rounds else final_round(self._network, number)
                name = f"round {number} of {rounds}" if number <= rounds else "in the end"
                row = await self._play(plan, name, say, patience)
                self.report.rows.append(row)
                self.report.wrong = self._broken + self.records.wrong + self._overlay.crashed()
                if not self.report.is_right and not self._options.keep_going:
                    break
            self._look_back()
        finally:
            await self._end()
        self.report.seconds = round(self.records.clock(), 1)
        return self.report

    def _round(self, number: int) -> Round:
        if self._rounds is not None:
            return self._rounds[number - 1]
        options = self._options
        return draw_round(
            self._network,
            number,
            kinds=options.faults,
            seconds=options.seconds,
            events=options.events,
            count=options.faults_per_round,
        )

    def _so_far(self) -> str:
        """For those who wait: what the rounds before have come to."""
        if not self.report.rows:
            return ""
        totals = self.report.totals
        return f" [{totals.faults:,} faults, {totals.expected:,} deliveries, {totals.lost:,} lost so far]"

    async def _join(self, first: Round) -> None:
        """Connect all clients."""
        for number, publisher in self._publishers.items():
            await publisher.start(self._connect, self._overlay.urls(number))
        for number, subscriber in self._subscribers.items():
            await subscriber.start(self._connect, self._overlay.urls(number), first.filters)

    async def _end(self) -> None:
        await self._prober.close()
        clients: list[Publisher | Subscriber] = [*self._publishers.values(), *self._subscribers.values()]
        try:
            await asyncio.gather(*(client.close() for client in clients), return_exceptions=True)
        finally:
            await self._overlay.close()

    async def _play(self, plan: Round, name: str, say: Say, patience: float) -> Row:
        """A round, from one time of rest to the next."""
        kinds = [fault.kind for fault in plan.faults]
        row = Row(name, describe_all(self._network, plan.faults), Verdict(), kinds=kinds)
        heard = len(self.records.told)
        say(f"{name}: new filters")
        changes = asyncio.gather(*(one.change(plan.filters) for one in self._subscribers.values()))
        if not await _in_time(changes, patience):
            row.failed.append(f"unsettled: filters could not be changed in {patience:g} s")
            return row
        if await self._prober.recovered(plan.probe, plan.number, patience) is None:
            row.failed += self._unreached("unsettled: before any fault", plan, patience)
            return row
        say(f"{name}: {', '.join(row.faults) or 'no faults'}")
        happened = await self._suffer(plan, patience)
        mended = self.records.clock()
        say(f"{name}: recovering")
        recovery = await self._prober.recovered(plan.probe, plan.number, patience)
        if recovery is None:
            row.failed += self._unreached("unrecovered: after all faults were mended", plan, patience)
        else:
            row.recovery_s = round(max(0.0, recovery.complete - mended), 3)
            if not await _in_time(asyncio.gather(*(self._burst(b, plan, 0.0) for b in plan.tail)), patience):
                row.failed.append(f"stuck: events after recovery were not acknowledged in {patience:g} s")
        say(f"{name}: waiting for what is under way")
        self._judged[plan.number] = await self._judge(plan, row, happened, heard, patience)
        return row

    async def _judge(
        self, plan: Round, row: Row, happened: list[Happened], heard: int, patience: float
    ) -> _Judged:
        wishes = interests(self._network, plan.filters)
        await self._rest(plan, wishes, Excuses(self._network, happened, self.records.told[heard:]), patience)
        excuses = Excuses(self._network, happened, self.records.told[heard:])
        row.verdict = self._verdict(plan.number, wishes, excuses, calm=not plan.faults)
        for text in row.verdict.excused:
            self.records.note(f"excused: {text}")
        return _Judged(
            row, wishes, excuses, not plan.faults, len(self.records.delivered.get(plan.number, []))
        )

    async def _suffer(self, plan: Round, patience: float) -> list[Happened]:
        """Publish and have faults happen, side by side; come back when all is mended."""
        begin = self.records.clock()
        bursts = asyncio.gather(*(self._burst(burst, plan, begin) for burst in plan.bursts))
        faults = [asyncio.ensure_future(self._fault(fault, begin)) for fault in plan.faults]
        try:
            happened = list(await asyncio.gather(*faults))
            last = max((burst.at for burst in plan.bursts), default=0.0)
            left = max(0.0, begin + last - self.records.clock())
            if not await _in_time(bursts, left + patience):
                self._broken.append(f"stuck: events were not acknowledged {patience:g} s after the faults")
        finally:
            bursts.cancel()
            for task in faults:
                task.cancel()
            await asyncio.gather(bursts, *faults, return_exceptions=True)
        return happened

    async def _burst(self, burst: Burst, plan: Round, begin: float) -> None:
        await asyncio.sleep(max(0.0, begin + burst.at - self.records.clock()))
        await self._publishers[burst.publisher].publish(burst.events, plan.number)

    async def _fault(self, fault: Fault, begin: float) -> Happened:
        await asyncio.sleep(max(0.0, begin + fault.begin - self.records.clock()))
        began = self.records.clock()
        self.records.note(f"fault: {describe(self._network, fault)}")
        slow = self._subscribers.get(fault.target) if fault.kind == "slow" else None
        if slow is not None:
            slow.pace = _SLOW_PACE
        if fault.kind == "freeze":
            client = self._publishers.get(fault.target) or self._subscribers[fault.target]
            client.runner.stand_still(fault.length)
        try:
            self._broken += await self._overlay.suffer(fault)
        finally:
            if slow is not None:
                slow.pace = 0.0
        self.records.note(f"mended: {describe(self._network, fault)}")
        return Happened(fault, began, self.records.clock())

    async def _rest(self, plan: Round, wishes: list[Interest], excuses: Excuses, patience: float) -> None:
        """Wait until all that must come has come, or nothing comes any more."""
        published = [one for one in self.records.published.get(plan.number, []) if not one.is_probe]
        missing = {
            (one.key, wish.subscription): bool(excuses.excuse(one, wish.client))
            for wish in wishes
            for one in wanted(wish, published)
            if one.acked is not None
        }
        began = self.records.clock()
        until = began + patience
        while self.records.clock() < until:
            reached = self.records.reached
            missing = {pair: why for pair, why in missing.items() if pair[1] not in reached.get(pair[0], {})}
            quiet = self.records.clock() - max(began, self.records.last_delivery)
            waits = _AFTER if not missing else _EXCUSED if all(missing.values()) else _QUIET
            if quiet > waits:
                return
            await asyncio.sleep(0.1)

    def _verdict(self, number: int, wishes: list[Interest], excuses: Excuses, *, calm: bool) -> Verdict:
        published = self.records.published.get(number, [])
        return check(wishes, published, self.records.delivered.get(number, []), excuses, calm=calm)

    def _look_back(self) -> None:
        """Check rounds again of which something came after they had been checked."""
        for number, judged in self._judged.items():
            if len(self.records.delivered.get(number, [])) > judged.deliveries:
                judged.row.verdict = self._verdict(number, judged.interests, judged.excuses, calm=judged.calm)

    def _unreached(self, when: str, plan: Round, patience: float) -> list[str]:
        missing = "; ".join(self._prober.missing(plan.number)) or "probes come only now and then"
        return [f"{when}, probes did not come everywhere within {patience:g} s: {missing}"]


async def _in_time(work: Awaitable[object], seconds: float) -> bool:
    """Whether something was done in so many seconds; if not, it is given up."""
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True
