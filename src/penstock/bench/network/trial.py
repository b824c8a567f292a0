"""One party measured: started, subscribed to, warmed up, saturated, then at a rate that is the same for all.

Deliveries are checked against the matcher, event by event. A slow party is measured by time rather than by
count: its rate is that of the events that it managed. Delays of different parties can be compared only at the
same rate. A party that does not reach it has none: they would say for how long it was measured.
"""

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.bench.network import sides
from penstock.bench.network.pacing import NS, percentile
from penstock.bench.network.party import Party
from penstock.bench.network.sides import Collect, Collected, Pace, Published, Ready, Saturate, Side, Task
from penstock.bench.network.workload import Job, Oracle, Plan
from penstock.errors import PenstockError

READY_SECONDS: Final = 300.0
"""For connecting and subscribing; a first run compiles kernels."""
PATIENCE: Final = 10.0
"""Seconds without a delivery after which the missing ones are given up."""
_FIRST_PATIENCE: Final = 180.0
_WARM_EVENTS: Final = 20_000
_WARM_SECONDS: Final = 1.0
_GRACE: Final = 120.0


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """How much to measure."""

    subscriptions: int = 10_000
    events: int = 500_000
    """At most, saturated."""
    seconds: float = 5.0
    """At most, saturated; and for the delays."""
    rate: int = 1_000
    """Events a second at which delays are measured."""
    brokers: tuple[int, ...] = (1, 3)
    """How many of them are in a chain."""
    seed: int = 1


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one party has shown in one job."""

    party: str
    job: Job
    brokers: int = 1
    """How many of them an event passes."""
    version: str = ""
    problem: str | None = None
    """Why there are no figures."""
    failed: bool = False
    """Whether that is because something went wrong."""
    subscribe_seconds: float | None = None
    events: int = 0
    """Published while saturated."""
    events_per_second: float | None = None
    ratio: float | None = None
    """Of its rate to Penstock's in the same job, through as many brokers."""
    paced_per_second: float | None = None
    """The rate at which delays were measured; none where the party does not reach it."""
    p50_ms: float | None = None
    p50_ratio: float | None = None
    p99_ms: float | None = None
    p99_ratio: float | None = None
    expected: int = 0
    """Deliveries of all phases, as the matcher says."""
    delivered: int = 0
    wrong: int = 0
    """Deliveries missing, or too many."""

    @property
    def agrees(self) -> bool | None:
        """Whether everything was delivered as it should be; None where nothing was measured."""
        return None if self.problem else self.wrong == 0


def measure(
    party: Party,
    plan: Plan,
    brokers: int,
    choices: Choices,
    matches: NDArray[np.int64],
    say: Callable[[str], None],
) -> Row:
    """Measure one party; what goes wrong with it is told in its row, so that others can still be measured."""
    absent = party.missing()
    if absent is not None:
        return Row(party=party.name, job=plan.job, brokers=brokers, problem=absent)
    say("starting the broker" if brokers == 1 else f"starting {brokers} brokers")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
            running = party.start(Path(folder), brokers)
            try:
                task = Task(running.url, running.far_url, plan, matches, sides.shared_counter())
                found = _Trial(party, task, say).run(choices)
            finally:
                running.stop()
    except PenstockError as error:
        return Row(party=party.name, job=plan.job, brokers=brokers, problem=str(error), failed=True)
    return msgspec.structs.replace(found, brokers=brokers, version=running.version)


class _Trial:
    def __init__(self, party: Party, task: Task, say: Callable[[str], None]) -> None:
        self._party, self._task, self._say = party, task, say
        self._oracle = Oracle(task.matches, once=party.once)
        self._next = 0
        self._expected = self._delivered = self._wrong = 0
        self._sides: list[Side] = []

    def run(self, choices: Choices) -> Row:
        try:
            return self._run(choices)
        finally:
            for side in self._sides:
                side.stop()

    def _run(self, choices: Choices) -> Row:
        self._say(f"{choices.subscriptions:,} subscriptions")
        self._subscriber = self._side("subscriber", sides.receive_events)
        subscribed = self._subscriber.answer(Ready, READY_SECONDS)
        self._publisher = self._side("publisher", sides.publish_events)
        self._publisher.answer(Ready, READY_SECONDS)
        self._say("warming up")
        self._saturate(min(_WARM_EVENTS, choices.events), _WARM_SECONDS, _FIRST_PATIENCE)
        self._say("saturated")
        published, collected = self._saturate(choices.events, choices.seconds, PATIENCE)
        events = published.last - self._from
        ended = max(published.ended, int(collected.arrivals.max(initial=0)))
        rate = events * NS / max(1, ended - published.started)
        row = Row(
            party=self._party.name,
            job=self._task.plan.job,
            subscribe_seconds=subscribed.seconds,
            events=events,
            events_per_second=rate,
        )
        delays = np.empty(0, dtype=np.int64)
        if rate >= choices.rate:
            self._say(f"delays at {choices.rate:,} events/s")
            delays = self._pace(choices.rate, choices.seconds).delays
        return msgspec.structs.replace(
            row,
            paced_per_second=choices.rate if len(delays) else None,
            p50_ms=percentile(delays, 0.5) if len(delays) else None,
            p99_ms=percentile(delays, 0.99) if len(delays) else None,
            expected=self._expected,
            delivered=self._delivered,
            wrong=self._wrong,
        )

    def _side(self, what: str, work: sides.Work) -> Side:
        self._sides.append(Side(what, work, self._party, self._task))
        return self._sides[-1]

    def _saturate(self, events: int, seconds: float, patience: float) -> tuple[Published, Collected]:
        self._from = self._next
        self._publisher.send(Saturate(self._from, self._from + events, seconds))
        return self._finish(seconds, patience)

    def _pace(self, rate: float, seconds: float) -> Collected:
        self._from = self._next
        self._publisher.send(Pace(self._from, max(1, math.floor(rate * seconds)), rate, 2 * seconds))
        return self._finish(2 * seconds, PATIENCE)[1]

    def _finish(self, seconds: float, patience: float) -> tuple[Published, Collected]:
        """Wait until all is published and delivered, and check it."""
        published = self._publisher.answer(Published, seconds + patience + _GRACE)
        self._subscriber.send(Collect(self._oracle.until(published.last), patience))
        collected = self._subscriber.answer(Collected, patience + _GRACE)
        count = published.last - self._from
        self._expected += int(self._oracle.of(self._from, count).sum())
        self._delivered += len(collected.seqs)
        self._wrong += self._oracle.wrong(self._from, count, collected.seqs)
        self._next = published.last
        return published, collected
