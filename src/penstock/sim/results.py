"""What came of a scenario, in numbers: for tables, for machines and for plots."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import numpy as np

from penstock.sim.counts import Counts
from penstock.sim.network import Network
from penstock.sim.service import ServiceModel

KIND_NAMES: Final = {"Lost": "Lost (ways to trees)"}
"""What people are told of kinds of messages, where the name would be taken for something else."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent between brokers, by kind, and handled, in a part of the simulation."""

    traffic: dict[str, int]
    frames: int
    """Messages between brokers, those packed into one as one."""
    handled: int
    """Messages that brokers took, those of clients among them."""
    lost: int
    virtual_s: float
    wall_s: float
    cpu_s: float
    """Of this process: what the wall clock would have said on a core to itself."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker found."""

    name: str
    outcome: Literal["held", "failed", "skipped"]
    why: str = ""
    """Why it was skipped."""
    wrong: int = 0
    """How much was not as it should be."""
    examples: list[str] = []
    """Some of that."""


class Deliveries(msgspec.Struct, kw_only=True):
    """Deliveries against brute force: to all who asked for it when an event was published."""

    published: int = 0
    unpublished: int = 0
    """Events whose publisher's broker was down."""
    expected: int = 0
    delivered: int = 0
    missed: int = 0
    late: int = 0
    """After later events of the same publisher; among those delivered."""
    unwanted: int = 0
    twice: int = 0

    @property
    def is_right(self) -> bool:
        """Whether everybody got what they wanted, once, and nothing else."""
        return not (self.missed or self.unwanted or self.twice)


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a kind of table, over all brokers."""

    total: int
    largest: int
    largest_broker: str
    by_broker: dict[str, int]


class Queues(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that waited at brokers, the one that was handled among them."""

    longest: int
    longest_broker: str
    mean: float


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long messages waited for bandwidth, before they left on a link."""

    longest_ms: float
    longest_link: str
    mean_ms: float


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """From publishing to delivery."""

    median_ms: float
    p95_ms: float
    max_ms: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    scenario: str
    title: str
    seed: int
    protocol: str
    scheme: str | None
    """None where the protocol has no routing schemes."""
    advertisements: bool
    topology: str
    brokers: int
    links: int
    subscriptions: int
    service_us: dict[str, float]
    service_measured: bool
    faults: dict[str, int]
    setting_up: Phase
    running: Phase
    while_running: Deliveries
    at_rest: Deliveries
    at_rest_exact: bool
    """Whether nothing was lost or overtaken on links at the end, so that brute force must be right."""
    checks: list[Check]
    subscription_tables: Sizes
    advertisement_tables: Sizes
    queues: Queues
    waits: Waits | None
    """None where the bandwidth of links has no limit."""
    delays: Delays | None
    events_matched: int
    """How often an event was matched against a table, while running."""
    covering_tests: int
    """How often a filter was compared with another, in all."""
    wall_s: float
    handled_per_s: float
    """Messages that brokers handled in a second of wall time, while running."""

    @property
    def is_right(self) -> bool:
        """Whether all checks held, and deliveries at rest were as brute force says, if they had to be."""
        if any(check.outcome == "failed" for check in self.checks):
            return False
        return self.at_rest.is_right or not self.at_rest_exact


class Sample(msgspec.Struct, frozen=True):
    """Queues at a time: the longest, and the mean over brokers; and the longest wait for bandwidth."""

    at_s: float
    longest: int
    mean: float
    wait_s: float


class Slice(msgspec.Struct):
    """Deliveries of the events that were published in a part of the time, which ends then."""

    at_s: float
    expected: int = 0
    missed: int = 0


class Series(msgspec.Struct, frozen=True):
    """What is only drawn."""

    queues: list[Sample]
    delays_s: list[float]
    deliveries: list[Slice]
    faults: list[tuple[float, str]]
    """When, in seconds of the scenario, and of which kind."""


def phase(counts: Counts, *, virtual_s: float, wall_s: float, cpu_s: float) -> Phase:
    """What was counted in a part of the simulation."""
    traffic = dict(sorted(counts.carried.items(), key=lambda item: (-item[1], item[0])))
    return Phase(
        traffic=traffic,
        frames=counts.frames,
        handled=counts.handled,
        lost=counts.lost,
        virtual_s=virtual_s,
        wall_s=wall_s,
        cpu_s=cpu_s,
    )


def sizes(by_broker: dict[str, int]) -> Sizes:
    """The sizes of tables."""
    largest = max(by_broker, key=by_broker.__getitem__, default="")
    return Sizes(
        total=sum(by_broker.values()),
        largest=by_broker.get(largest, 0),
        largest_broker=largest,
        by_broker=by_broker,
    )


def delays(seconds: Sequence[float]) -> Delays | None:
    """The delays of deliveries, if there were any."""
    if not seconds:
        return None
    # To the nanosecond: what is beyond is the rounding of the clock.
    median, p95, most = np.round(np.percentile(seconds, (50, 95, 100)) * 1000, 6).tolist()
    return Delays(median_ms=median, p95_ms=p95, max_ms=most)


def waits(counts: Counts) -> Waits | None:
    """How long messages waited for bandwidth, if it had a limit."""
    if not counts.sent_limited:
        return None
    return Waits(
        # To the nanosecond, as delays.
        longest_ms=round(counts.wait_longest_s * 1000, 6),
        longest_link="-".join(filter(None, counts.wait_longest_link)),
        mean_ms=round(counts.waited_s / counts.sent_limited * 1000, 6),
    )


def queues(counts: Counts, samples: Sequence[Sample]) -> Queues:
    """The queues of a run."""
    if not counts.queue_longest and samples:
        # Whole nodes have no queue of messages, but frames that are not acknowledged.
        longest_of = max(sample.longest for sample in samples)
        return Queues(longest=longest_of, longest_broker="", mean=sum(s.mean for s in samples) / len(samples))
    longest = max(counts.queue_longest, key=counts.queue_longest.__getitem__, default="")
    mean = sum(sample.mean for sample in samples) / len(samples) if samples else 0.0
    return Queues(longest=counts.queue_longest[longest], longest_broker=longest, mean=mean)


def service_us(model: ServiceModel) -> dict[str, float]:
    """Service times in microseconds."""
    return {name: seconds * 1e6 for name, seconds in msgspec.structs.asdict(model).items()}


def table_sizes(network: Network) -> tuple[Sizes, Sizes]:
    """The sizes of subscription and of advertisement tables of the brokers that run."""
    facts = {broker.name: broker.facts() for broker in network.running()}
    return (
        sizes({name: known.subscriptions for name, known in facts.items()}),
        sizes({name: known.trees for name, known in facts.items()}),
    )


def events_matched(network: Network) -> int:
    """How often brokers that run have matched an event against their tables."""
    return sum(broker.facts().matched for broker in network.running())


def covering_tests(network: Network) -> int:
    """How often brokers that run have compared filters, as far as their links are up."""
    return sum(broker.facts().covering_tests for broker in network.running())
