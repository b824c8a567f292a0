"""Outages that last about as long as brokers keep events, and what happens meanwhile: a part of drawn plans.

Short faults never reach the times at which events are dropped, answers are no longer waited for, and clients
are told what they missed. A long outage does: a cut, a crash or a client without its broker, while others
publish, restart, drain and withdraw what they advertised.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.broker.publishers import ANSWERED_KEEPS
from penstock.node.settings import Times
from penstock.sim.plan import Step
from penstock.workloads import topologies

FIRST_SEED: Final = 200
"""Tests and `make test` begin with the seeds before this one, and hold on to their plans."""

_SHARE: Final = 0.25
"""Of the other seeds, so many have long outages."""

_KINDS: Final[dict[str, float]] = {
    "cut": 3.0,
    "partition": 1.5,
    "cut off": 1.5,
    "crash": 2.0,
    "several": 0.7,
    "vanish": 0.7,
    "unplug": 2.0,
}
"""What a long outage is, and how often each is drawn."""

_MEANWHILE: Final[dict[str, float]] = {
    "restart": 3.0,
    "restart both": 2.0,
    "drain": 2.0,
    "unadvertise": 1.5,
    "subscription": 1.0,
    "unplug": 2.0,
    "exit": 0.5,
    "cut": 1.0,
    "sever": 0.5,
}
"""What happens during an outage, and how often each is drawn."""

_GAPS: Final = (0.05, 0.5, 1.5, 4.0, 10.0, 20.0)
"""Seconds between events and what happens next, about."""

_BRIEF: Final = (0.5, 1.0, 2.0, 5.0, 12.0)
"""Seconds that something lasts meanwhile, about, if it is brief."""

Timed: TypeAlias = tuple[float, Step]
Drawn: TypeAlias = Callable[[], Step]


def has_long_outages(seed: int) -> bool:
    """Whether the plan of a seed has a long outage. It is drawn apart: the other seeds keep their plans."""
    return seed >= FIRST_SEED and Random(f"outage {seed}").random() < _SHARE


def bounds(times: Times) -> tuple[float, ...]:
    """The times that a long outage lasts, about: those at which a broker gives something up, in order."""
    keep, kept = times.keep, times.kept
    return tuple(sorted({keep, kept, 2 * keep, ANSWERED_KEEPS * keep, ANSWERED_KEEPS * kept}))


class World(NamedTuple):
    """The network of a plan."""

    brokers: int
    edges: list[topologies.Edge]
    homes: tuple[int, ...]
    times: Times


class Outages:
    """Draws an outage and what happens meanwhile.

    `change` draws a change of a subscription or advertisement, `event` the event that a client publishes.
    """

    def __init__(self, random: Random, world: World, change: Drawn, event: Callable[[int], Step]) -> None:
        self._random = random
        self._world = world
        self._change = change
        self._event = event
        self._near: list[int] = []
        """The brokers at both ends of the outage: what happens there meanwhile is what matters."""
        self._failed: set[tuple[Any, ...]] = set()
        """What the outage begins with. Nothing that happens meanwhile ends it."""

    def draw(self) -> list[Timed]:
        """Steps and when they come, in any order; the outage, and everything else, is over at the end."""
        random = self._random
        lasts = self._about(random.choice(bounds(self._world.times)))
        # What happened shortly before is not settled yet.
        begin = random.choice([0.5, 0.5, 5.0, self._about(self._world.times.linger)])
        end = begin + lasts
        outage = self._outage(lasts)
        self._failed = {_subject(step) for at, step in outage if not at}
        steps = [(begin + at, step) for at, step in outage]
        for _ in range(random.choice([2, 3, 3, 4, 5])):
            at = random.choice(
                [
                    random.uniform(0, begin),
                    begin + self._about(random.choice(_GAPS)),
                    random.uniform(begin, end),
                    end - self._about(random.choice(_GAPS)),
                    end + random.uniform(0, 2),
                ]
            )
            steps += self._events(max(0.0, at))
            if random.random() < 0.7:
                after = max(0.0, at + self._about(random.choice(_GAPS)) * random.choice([1, 1, -1]))
                meanwhile = self._meanwhile()
                if meanwhile and _subject(meanwhile[0][1]) not in self._failed:
                    steps += [(after + then, step) for then, step in meanwhile]
        return steps

    def _about(self, seconds: float) -> float:
        return seconds * self._random.uniform(0.9, 1.1)

    def _events(self, at: float) -> Iterator[Timed]:
        client = self._random.randrange(len(self._world.homes))
        for _ in range(self._random.randint(1, 4)):
            yield at, self._event(client)
            at += self._random.choice([0.02, 0.3, 1.0])

    def _outage(self, lasts: float) -> list[Timed]:
        random, world = self._random, self._world
        kind = random.choices(list(_KINDS), list(_KINDS.values()))[0]
        if not world.edges and kind in ("cut", "partition", "cut off"):
            kind = "unplug"
        broker = random.randrange(world.brokers)
        if kind == "unplug":
            client = random.randrange(len(world.homes))
            self._near = [world.homes[client]]
            return [
                (0.0, Step("unplug", (client, self._near[0]))),
                (lasts, Step("plug", (client, self._near[0]))),
            ]
        if kind in ("crash", "vanish", "several"):
            several = random.sample(range(world.brokers), random.randint(1, world.brokers))
            down = several if kind == "several" else [broker]
            self._near = [b for edge in world.edges if set(edge) & set(down) for b in edge if b not in down]
            verb = "vanish" if kind == "vanish" else "crash"
            return [step for b in down for step in self._down(b, lasts, verb)]
        side = [broker] if kind == "cut off" else [b for b in range(world.brokers) if random.random() < 0.5]
        cut = [edge for edge in world.edges if (edge[0] in side) != (edge[1] in side)]
        if kind == "cut" or not cut:
            cut = [random.choice(world.edges)]
        self._near = [b for edge in cut for b in edge]
        return [step for edge in cut for step in self._cut(edge, lasts)]

    def _meanwhile(self) -> list[Timed]:
        random, world = self._random, self._world
        kind = random.choices(list(_MEANWHILE), list(_MEANWHILE.values()))[0]
        broker = random.randrange(world.brokers)
        if self._near and random.random() < 0.8:
            broker = random.choice(self._near)
        client = random.randrange(len(world.homes))
        lasts = self._about(random.choice(_BRIEF))
        if kind == "restart":
            return self._down(broker, lasts)
        if kind == "restart both":
            return [step for b in dict.fromkeys(self._near or [broker]) for step in self._down(b, lasts)]
        if kind == "drain":
            return [(0.0, Step("drain", (broker, round(lasts, 2))))]
        if kind == "unadvertise":
            return [(0.0, Step("unadvertise", (client, "a")))]
        if kind == "subscription":
            return [(0.0, self._change())]
        if kind == "exit":
            return [(0.0, Step("exit", (client,)))]
        if kind == "unplug":
            # As often as not for so long that its session is over.
            lasts = random.choice([lasts, self._about(world.times.linger), self._about(world.times.keep)])
            pair = (client, world.homes[client])
            return [(0.0, Step("unplug", pair)), (lasts, Step("plug", pair))]
        if not world.edges:
            return []
        edge = random.choice(world.edges)
        if kind == "sever":
            return [(0.0, Step("sever", (f"b{edge[0]}", f"b{edge[1]}")))]
        return self._cut(edge, lasts)

    @staticmethod
    def _cut(edge: topologies.Edge, lasts: float) -> list[Timed]:
        return [(0.0, Step("cut", edge)), (lasts, Step("heal", edge))]

    @staticmethod
    def _down(broker: int, lasts: float, verb: str = "crash") -> list[Timed]:
        return [(0.0, Step(verb, (broker,))), (lasts, Step("restart", (broker, False)))]


def _subject(step: Step) -> tuple[Any, ...]:
    """What a fault brings down: a broker, a link, or a client's connection."""
    return step.arguments[:1] if step.verb in ("crash", "vanish", "drain") else step.arguments
