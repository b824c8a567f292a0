"""Long outages are drawn around each time at which something is given up, with all that matters meanwhile."""

from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.node.settings import Times
from penstock.sim.plan import Plan, Step, check
from penstock.sim.play import play
from penstock.sim.whole.draw import draw_whole
from penstock.sim.whole.outages import FIRST_SEED, bounds, has_long_outages

PLANS = [draw_whole(seed) for seed in range(FIRST_SEED, 12_000) if has_long_outages(seed)]

ENDS = {"cut": "heal", "crash": "restart", "vanish": "restart", "unplug": "plug"}


class Outage:
    """A step that begins a fault, and those that come before it ends."""

    def __init__(self, step: Step, seconds: float, meanwhile: list[Step]) -> None:
        self.step = step
        self.seconds = seconds
        self.meanwhile = meanwhile


def outages(plan: Plan) -> Iterator[Outage]:
    """The faults of a plan's last phase that have an end, and how long they last."""
    mended = [at for at, step in enumerate(plan.steps) if step.verb == "mend"]
    for at, step in enumerate(plan.steps):
        if at < [0, *mended][-2]:
            continue
        end = ENDS.get(step.verb)
        about = step.arguments[: 1 if end == "restart" else 2]
        seconds = 0.0
        for to in range(at + 1, len(plan.steps) if end else 0):
            other = plan.steps[to]
            if other.verb == "pass":
                seconds += other.arguments[0]
            if other.verb == end and other.arguments[: len(about)] == about:
                yield Outage(step, seconds, list(plan.steps[at + 1 : to]))
                break


def longest(plan: Plan) -> Outage:
    return max(outages(plan), key=lambda one: one.seconds)


def test_the_times_of_outages_are_those_at_which_something_is_given_up() -> None:
    assert bounds(Times()) == (60.0, 77.0, 120.0, 180.0, 231.0)
    # They follow from the settings.
    assert bounds(Times(keep=10.0, ping=1.0, resume=1.0)) == (10.0, 14.0, 20.0, 30.0, 42.0)


@pytest.mark.parametrize("protocol", ["trees", "flood"])
@pytest.mark.parametrize("verb", list(ENDS))
def test_outages_of_each_kind_last_a_little_less_and_a_little_more_than_each_of_them(
    verb: str, protocol: str
) -> None:
    found = Counter[tuple[float, bool]]()
    for plan in PLANS:
        one = longest(plan)
        if one.step.verb == verb and plan.protocol == protocol:
            scale = plan.times.keep / 60
            bound = min(bounds(plan.times), key=lambda seconds: abs(seconds - one.seconds))
            assert 0.88 * bound < one.seconds < 1.12 * bound
            found[round(bound / scale), one.seconds > bound] += 1
    # Twice `keep` and so on of both settings; `kept` depends on pings too.
    for bound in (60, 120, 180):
        assert found[bound, False] >= 1, bound
        assert found[bound, True] >= 1, bound


@pytest.mark.parametrize("protocol", ["trees", "flood"])
def test_much_happens_during_outages(protocol: str) -> None:
    verbs = Counter[str]()
    both = 0
    for plan in PLANS:
        if plan.protocol == protocol:
            one = longest(plan)
            verbs.update({step.verb for step in one.meanwhile})
            ended = {step.arguments[0] for step in one.meanwhile if step.verb in ("crash", "drain")}
            both += one.step.verb == "cut" and ended.issuperset(one.step.arguments)
    for verb in ("publish", "crash", "restart", "drain", "unadvertise", "subscribe", "unplug", "exit", "cut"):
        assert verbs[verb] >= 5, verb
    assert both >= 5


def test_plans_with_long_outages_make_sense_and_all_is_over_in_the_end() -> None:
    for plan in PLANS[:200]:
        check(plan)
        begun = [step for step in plan.steps if step.verb in ("crash", "vanish")]
        restarted = [step.arguments[0] for step in plan.steps if step.verb == "restart"]
        assert {step.arguments[0] for step in begun} <= set(restarted)


def test_long_outages_are_counted_as_such() -> None:
    kinds = Counter[str]()
    for plan in PLANS[:20]:
        kinds.update(play(plan).faults_by_kind)
    assert kinds["outage, longer than keep"] >= 5
