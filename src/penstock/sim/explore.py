"""Playing the plans of many seeds, each under a scheme and now and then under all of them.

What a broker does not survive is a finding like any other: an exception makes the seed a failing one.
"""

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.checkers.schemes import same_deliveries
from penstock.sim.plan import Plan, draw
from penstock.sim.play import Outcome, play
from penstock.sim.shrink import shrink

ALL_SCHEMES_EVERY: Final = 10
"""The plans of so many seeds, one is played under every scheme, and must come to the same deliveries."""

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
    wrong: list[str] = []
    failed: list[int] = []

    def add(self, other: "Verdict") -> None:
        """Count another in."""
        for name in ("seeds", "runs", "published", "checked", "deliveries", "faults", "handled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong = self.wrong + other.wrong
        self.failed = self.failed + other.failed


def check_seed(seed: int, play: Play = play, scheme: str | None = None) -> Verdict:
    """Play the plan of a seed, under one scheme if it is said which."""
    plan = draw(seed)
    if scheme is not None:
        return check_plan(msgspec.structs.replace(plan, scheme=scheme), play)
    return check_plan(plan, play, every_scheme=seed % ALL_SCHEMES_EVERY == 0)


def check_plan(plan: Plan, play: Play = play, *, every_scheme: bool = False) -> Verdict:
    """Play a plan, under every scheme if that is asked for."""
    verdict = Verdict(seeds=1)
    runs: list[tuple[str, list[tuple[str, ...]]]] = []
    for scheme in SCHEMES if every_scheme else [plan.scheme]:
        verdict.runs += 1
        try:
            outcome = play(msgspec.structs.replace(plan, scheme=scheme))
        except Exception as error:  # whatever it is: the other seeds go on
            verdict.wrong.append(f"{scheme}: {_raised(error)}")
            continue
        verdict.published += outcome.published
        verdict.checked += outcome.checked
        verdict.deliveries += sum(map(len, outcome.results))
        verdict.faults += outcome.faults
        verdict.handled += outcome.handled
        verdict.wrong += [f"{scheme}: {text}" for text in outcome.wrong]
        runs.append((scheme, outcome.results))
    if not verdict.wrong:
        verdict.wrong += same_deliveries(runs)
    if verdict.wrong:
        verdict.failed = [plan.seed]
    return verdict


def check_seeds(seeds: Iterable[int], scheme: str | None = None) -> list[Verdict]:
    """Play the plans of seeds, one after the other."""
    return [check_seed(seed, scheme=scheme) for seed in seeds]


def failing_plan(seed: int, wrong: list[str]) -> Plan:
    """The plan of a seed under the scheme that was found wrong first."""
    return msgspec.structs.replace(draw(seed), scheme=wrong[0].partition(":")[0])


def shrink_failure(plan: Plan, play: Play = play) -> Plan:
    """A shorter plan that is wrong in the same way: the same checker finds it, under the same scheme.

    Where only a comparison of the schemes finds it, all are played.
    """
    every_scheme = False
    kinds = {_kind(text) for text in check_plan(plan, play).wrong}
    if not kinds:
        every_scheme = True
        kinds = {_kind(text) for text in check_plan(plan, play, every_scheme=True).wrong}

    def fails(candidate: Plan) -> bool:
        wrong = check_plan(candidate, play, every_scheme=every_scheme).wrong
        return any(_kind(text) in kinds for text in wrong)

    return shrink(plan, fails) if kinds else plan


def _kind(text: str) -> str:
    return ":".join(text.split(":")[:2])


def _raised(error: Exception) -> str:
    """What was raised and where: the place is the kind, so that shrinking does not end in another error."""
    places = traceback.extract_tb(error.__traceback__)
    place = f"{Path(places[-1].filename).name}, {places[-1].name}" if places else "nowhere"
    return f"{type(error).__name__} in {place}: {error}"
