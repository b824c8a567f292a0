"""Cutting a plan that fails down to one that is short and fails in the same way."""

from collections.abc import Callable, Iterator

import msgspec

from penstock.sim.plan import LATENCY, Plan, Step


def shrink(plan: Plan, fails: Callable[[Plan], bool], tries: int = 2000) -> Plan:
    """A shorter plan that fails too, found within so many tries; at worst the plan itself."""
    left = tries
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _smaller(plan):
            left -= 1
            if fails(candidate):
                plan, smaller = candidate, True
                break
            if left <= 0:
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with something left out: large parts first."""
    steps = plan.steps
    size = len(steps) // 2
    while size:
        for at in range(0, len(steps), size):
            yield _with(plan, steps=steps[:at] + steps[at + size :])
        size //= 2
    for at in range(len(plan.edges)):
        edges = plan.edges[:at] + plan.edges[at + 1 :]
        yield _with(plan, edges=edges, latencies=plan.latencies[:at] + plan.latencies[at + 1 :])
    client = len(plan.homes) - 1
    if client > 0 and not any(_is_of(step, client) for step in steps):
        yield _with(plan, homes=plan.homes[:-1])
    last = plan.brokers - 1
    alone = last not in plan.homes and all(last not in edge for edge in plan.edges)
    if last > 0 and alone and not any(_names(step, last) for step in steps):
        yield _with(plan, brokers=last)
    if any(latency != LATENCY for latency in plan.latencies):
        yield _with(plan, latencies=tuple(LATENCY for _ in plan.latencies))


def _is_of(step: Step, client: int) -> bool:
    verbs = ("advertise", "unadvertise", "subscribe", "unsubscribe", "publish")
    return step.verb in verbs and step.arguments[0] == client


def _names(step: Step, broker: int) -> bool:
    return step.verb in ("crash", "restart") and step.arguments[0] == broker


def _with(plan: Plan, **changes: object) -> Plan:
    return msgspec.structs.replace(plan, **changes)
