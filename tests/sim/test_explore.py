"""Random networks, workloads, schemes and faults; and that the checkers find what is broken."""

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from penstock.broker.protocols import PROTOCOLS
from penstock.filters.predicate import Predicate
from penstock.routing.offers import Offer
from penstock.routing.schemes.catalog import SCHEMES
from penstock.routing.schemes.covering import Covering
from penstock.routing.schemes.identity import Identity
from penstock.routing.schemes.scheme import Scheme, Source, Steps
from penstock.routing.schemes.simple import Simple
from penstock.sim.explore import Play, Verdict, check_plan, check_seed, shrink_failure
from penstock.sim.plan import Plan, Step, draw
from penstock.sim.play import Outcome, play
from penstock.sim.shrink import shrink

SEEDS = 300


def test_nothing_is_wrong_with_the_first_seeds() -> None:
    verdict = Verdict()
    for seed in range(SEEDS):
        verdict.add(check_seed(seed))
    assert verdict.wrong == []
    # The slice has seen something: else it would prove nothing.
    assert verdict.faults > 3 * SEEDS
    assert verdict.checked > 5 * SEEDS
    assert verdict.deliveries > 5 * SEEDS


class Forgetful(Covering):
    """Does not ask for what was covered by a filter that has gone."""

    def drop(self, source: Source) -> Steps:
        known = set(self.asked)
        steps = super().drop(source)
        for asked in steps.ask:
            if asked.key not in known:
                del self.asked[asked.key]
        return Steps([], steps.take_back)


class Clinging(Identity):
    """Never takes anything back."""

    def drop(self, source: Source) -> Steps:
        return Steps(super().drop(source).ask, [])


class Greedy(Covering):
    """Takes any two filters for covering each other."""

    def _asking(self, predicate: Predicate) -> Offer | None:
        offer = super()._asking(predicate)
        return None if len(self.asked) > 1 and predicate not in self.asked else offer


class Shallow(Simple):
    """Forgets trees that come later."""

    def put(self, source: Source, offer: Offer) -> Steps:
        known = self.asked.get(source.key)
        return Steps([], []) if known is not None else super().put(source, offer)


def playing(broken: Callable[[], Scheme]) -> Play:
    """What plays plans under another scheme than theirs."""

    def played(plan: Plan) -> Outcome:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(SCHEMES, plan.scheme, broken)
            return play(msgspec.structs.replace(plan, protocol="trees"))

    return played


@pytest.mark.parametrize("broken", [Forgetful, Clinging, Greedy, Shallow])
def test_a_broken_scheme_is_caught(broken: Callable[[], Scheme]) -> None:
    assert any(check_plan(draw(seed), playing(broken)).wrong for seed in range(SEEDS))


forgetful = playing(Forgetful)


def test_a_failing_plan_is_cut_down_and_fails_in_the_same_way() -> None:
    plan = next(plan for plan in map(draw, range(SEEDS)) if check_plan(plan, forgetful).wrong)
    short = shrink_failure(plan, forgetful)
    assert len(short.steps) < len(plan.steps)
    assert len(short.steps) <= 6
    assert check_plan(short, forgetful).wrong
    assert not check_plan(short).wrong
    assert msgspec.json.decode(msgspec.json.encode(short), type=Plan) == short


def test_brokers_and_clients_that_do_nothing_are_left_out() -> None:
    plan = Plan(
        seed=1,
        scheme="covering",
        advertisements=False,
        brokers=6,
        edges=((1, 2), (2, 5)),
        homes=(3, 5, 1, 0),
        steps=(
            Step("subscribe", (2, "s0", "x = 1")),
            Step("partition", ([0, 3, 5],)),
            Step("cut", (2, 5)),
            Step("crash", (5,)),
        ),
    )
    short = shrink(plan, lambda candidate: len(candidate.steps) == 4 and len(candidate.edges) == 2)
    assert (short.brokers, short.edges, short.homes) == (3, ((0, 1), (1, 2)), (0,))
    assert short.steps == (
        Step("subscribe", (0, "s0", "x = 1")),
        Step("partition", ([2],)),
        Step("cut", (1, 2)),
        Step("crash", (2,)),
    )


def test_the_same_plan_plays_the_same_way_twice() -> None:
    for seed in range(20):
        assert msgspec.json.encode(play(draw(seed))) == msgspec.json.encode(play(draw(seed)))


def test_every_protocol_and_scheme_and_both_ways_of_advertising_are_drawn() -> None:
    plans = [draw(seed) for seed in range(SEEDS)]
    assert {plan.scheme for plan in plans} == set(SCHEMES)
    protocols = Counter(plan.protocol for plan in plans)
    assert set(protocols) == set(PROTOCOLS)
    assert protocols["trees"] > 10 * protocols["flood"] > 0
    assert {(bool(plan.linger), plan.condenses) for plan in plans} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }
    assert {plan.advertisements for plan in plans} == {True, False}
    verbs = {step.verb for plan in plans for step in plan.steps}
    assert verbs >= {"crash", "restart", "cut", "heal", "flap", "partition", "degrade", "restore"}
