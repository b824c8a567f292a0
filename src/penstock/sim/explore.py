"""Playing the plans of many seeds, each under a scheme or protocol, and now and then under all of them.

What a broker does not survive is a finding like any other: an exception makes the seed a failing one.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from penstock.broker.protocols import PROTOCOLS
from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.checkers.schemes import same_deliveries
from penstock.sim.plan import Plan, draw
from penstock.sim.play import Outcome, play
from penstock.sim.shrink import shrink
from penstock.sim.whole.draw import draw_whole

EVERY_WAY_EVERY: Final = 10
"""Of so many seeds, the plan of one is played under all schemes and protocols, to the same deliveries."""

Play = Callable[[Plan], Outcome]


class Verdict(msgspec.Struct):
    """What came of a seed, or of many."""

    seeds: int = 0
    runs: int = 0
    published: int = 0
    checked: int = 0
    deliveries: int = 0
    faults: int = 0
    handled: int = 0
    faults_by_kind: dict[str, int] = {}
    excused: dict[str, int] = {}
    """Deliveries that were not made, by why that is allowed (`penstock.sim.checkers.contract`)."""
    missed: dict[str, int] = {}
    missed_in_vain: dict[str, int] = {}
    missed_with_count: dict[str, int] = {}
    """How often clients were told `missed`, how often in vain, and how often of these with a number, by the
    kind of fault that led to it."""
    wrong: list[str] = []
    failed: list[int] = []

    def add(self, other: "Verdict") -> None:
        """Count another in."""
        for name in ("seeds", "runs", "published", "checked", "deliveries", "faults", "handled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._count(other)
        self.wrong = self.wrong + other.wrong
        self.failed = self.failed + other.failed

    def note(self, outcome: Outcome) -> None:
        """Count a run in."""
        self.published += outcome.published
        self.checked += outcome.checked
        self.deliveries += sum(map(len, outcome.results))
        self.faults += outcome.faults
        self.handled += outcome.handled
        self._count(outcome)

    def _count(self, other: "Verdict | Outcome") -> None:
        for name in ("faults_by_kind", "excused", "missed", "missed_in_vain", "missed_with_count"):
            setattr(self, name, dict(Counter(getattr(self, name)) + Counter(getattr(other, name))))


def ways_of(plan: Plan) -> list[Plan]:
    """A plan under every protocol and scheme."""
    return [
        msgspec.structs.replace(plan, protocol=protocol.name, scheme=scheme)
        for protocol in PROTOCOLS.values()
        for scheme in (SCHEMES if protocol.schemes else [plan.scheme])
    ]


def plan_of(seed: int, links: str) -> Plan:
    """The plan of a seed, on links of a kind."""
    return draw_whole(seed) if links == "reliable" else draw(seed)


def check_seed(
    seed: int,
    play: Play = play,
    scheme: str | None = None,
    protocol: str | None = None,
    links: str = "plain",
) -> Verdict:
    """Play the plan of a seed, under one scheme or protocol if it is said which."""
    plan = plan_of(seed, links)
    if scheme is not None:
        return check_plan(msgspec.structs.replace(plan, protocol="trees", scheme=scheme), play)
    if protocol is not None:
        return check_plan(msgspec.structs.replace(plan, protocol=protocol), play)
    # On reliable links what comes during faults depends on the time that everything takes.
    every_way = links == "plain" and seed % EVERY_WAY_EVERY == 0
    return check_plan(plan, play, every_way=every_way)


def check_plan(plan: Plan, play: Play = play, *, every_way: bool = False) -> Verdict:
    """Play a plan, under every scheme and protocol if that is asked for."""
    verdict = Verdict(seeds=1)
    runs: list[tuple[str, list[tuple[str, ...]]]] = []
    for one in ways_of(plan) if every_way else [plan]:
        verdict.runs += 1
        try:
            outcome = play(one)
        except Exception as error:  # whatever it is: the other seeds go on
            verdict.wrong.append(f"{one.way}: {_raised(error)}")
            continue
        verdict.note(outcome)
        verdict.wrong += [f"{one.way}: {text}" for text in outcome.wrong]
        runs.append((one.way, outcome.results))
    if not verdict.wrong:
        verdict.wrong += same_deliveries(runs)
    if verdict.wrong:
        verdict.failed = [plan.seed]
    return verdict


def check_seeds(
    seeds: Iterable[int], scheme: str | None = None, protocol: str | None = None, links: str = "plain"
) -> list[Verdict]:
    """Play the plans of seeds, one after the other."""
    return [check_seed(seed, scheme=scheme, protocol=protocol, links=links) for seed in seeds]


def failing_plan(seed: int, wrong: list[str], links: str = "plain", protocol: str | None = None) -> Plan:
    """The plan of a seed under the scheme or protocol that was found wrong first."""
    way = wrong[0].partition(": ")[0]
    drawn = plan_of(seed, links)
    if protocol is not None:
        drawn = msgspec.structs.replace(drawn, protocol=protocol)
    return next(plan for plan in [drawn, *ways_of(drawn)] if plan.way == way)


def shrink_failure(plan: Plan, play: Play = play) -> Plan:
    """A shorter plan that is wrong in the same way: the same checker finds it, under the same scheme.

    Where only a comparison of schemes and protocols finds it, all are played.
    """
    every_way = False
    kinds = {_kind(text) for text in check_plan(plan, play).wrong}
    if not kinds:
        every_way = True
        kinds = {_kind(text) for text in check_plan(plan, play, every_way=True).wrong}

    def fails(candidate: Plan) -> bool:
        wrong = check_plan(candidate, play, every_way=every_way).wrong
        return any(_kind(text) in kinds for text in wrong)

    return shrink(plan, fails) if kinds else plan


def _kind(text: str) -> str:
    return ": ".join(text.split(": ")[:2])


def _raised(error: Exception) -> str:
    """What was raised and where: the place is the kind, so that shrinking does not end in another error."""
    places = traceback.extract_tb(error.__traceback__)
    place = f"{Path(places[-1].filename).name}, {places[-1].name}" if places else "nowhere"
    return f"{type(error).__name__} in {place}: {error}"
