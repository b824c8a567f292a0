"""Cutting a plan that fails down to one that is short and fails in the same way."""

from collections.abc import Callable, Iterator
from typing import Any, Final

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
    for client in range(len(plan.homes) if len(plan.homes) > 1 else 0):
        if not any(_is_of(step, client) for step in steps):
            yield _without_client(plan, client)
    for broker in range(plan.brokers if plan.brokers > 1 else 0):
        alone = broker not in plan.homes and all(broker not in edge for edge in plan.edges)
        if alone and not any(_names(step, broker) for step in steps):
            yield _without_broker(plan, broker)
    if any(latency != LATENCY for latency in plan.latencies):
        yield _with(plan, latencies=tuple(LATENCY for _ in plan.latencies))


_OF_CLIENTS: Final = ("advertise", "unadvertise", "subscribe", "unsubscribe", "publish")
_OF_BROKERS: Final = ("crash", "restart")
_OF_LINKS: Final = ("cut", "heal", "flap", "degrade")


def _is_of(step: Step, client: int) -> bool:
    return step.verb in _OF_CLIENTS and step.arguments[0] == client


def _names(step: Step, broker: int) -> bool:
    return step.verb in _OF_BROKERS and step.arguments[0] == broker


def _without_client(plan: Plan, gone: int) -> Plan:
    """The plan without a client that does nothing; those after it are numbered anew."""
    steps = tuple(
        _arguments(step, _less(step.arguments[0], gone), *step.arguments[1:])
        if step.verb in _OF_CLIENTS
        else step
        for step in plan.steps
    )
    return _with(plan, homes=plan.homes[:gone] + plan.homes[gone + 1 :], steps=steps)


def _without_broker(plan: Plan, gone: int) -> Plan:
    """The plan without a broker that has no clients and no links; those after it are numbered anew."""
    return _with(
        plan,
        brokers=plan.brokers - 1,
        edges=tuple((_less(a, gone), _less(b, gone)) for a, b in plan.edges),
        homes=tuple(_less(home, gone) for home in plan.homes),
        steps=tuple(_renumbered(step, gone) for step in plan.steps),
    )


def _renumbered(step: Step, gone: int) -> Step:
    if step.verb == "partition":
        return _arguments(step, [_less(broker, gone) for broker in step.arguments[0] if broker != gone])
    count = 1 if step.verb in _OF_BROKERS else 2 if step.verb in _OF_LINKS else 0
    brokers = (_less(broker, gone) for broker in step.arguments[:count])
    return _arguments(step, *brokers, *step.arguments[count:])


def _arguments(step: Step, *arguments: Any) -> Step:
    return Step(step.verb, arguments)


def _less(number: int, gone: int) -> int:
    return number - (number > gone)


def _with(plan: Plan, **changes: object) -> Plan:
    return msgspec.structs.replace(plan, **changes)
