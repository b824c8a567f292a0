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
        if not any(_is_of(step, client) or f"c{client}" in step.arguments for step in steps):
            yield _without_client(plan, client)
    for broker in range(plan.brokers if plan.brokers > 1 else 0):
        near = [*plan.homes, *(b for some in (*plan.edges, *plan.others) for b in some)]
        if broker not in near and not any(_names(step, broker) for step in steps):
            yield _without_broker(plan, broker)
    if any(latency != LATENCY for latency in plan.latencies):
        yield _with(plan, latencies=tuple(LATENCY for _ in plan.latencies))
    if any(plan.others):
        yield _with(plan, others=())
    if plan.linger:
        yield _with(plan, linger=0.0)
    if plan.condenses:
        yield _with(plan, condenses=False)


_OF_CLIENTS: Final = (
    *("advertise", "unadvertise", "subscribe", "unsubscribe", "publish", "leave"),
    *("lag", "exit", "manual", "auto", "unplug", "plug"),
)
_OF_BROKERS: Final = ("crash", "restart", "vanish", "attack", "drain")
_OF_LINKS: Final = ("cut", "heal", "flap", "degrade")
_OF_NAMES: Final = ("pause", "continue", "sever", "stall", "flow", "flip", "latency")


def _is_of(step: Step, client: int) -> bool:
    return step.verb in _OF_CLIENTS and step.arguments[0] == client


def _names(step: Step, broker: int) -> bool:
    if step.verb in ("unplug", "plug"):
        return bool(step.arguments[1] == broker)
    named = step.verb in _OF_BROKERS and step.arguments[0] == broker
    return named or f"b{broker}" in step.arguments


def _without_client(plan: Plan, gone: int) -> Plan:
    """The plan without a client that does nothing; those after it are numbered anew."""
    steps = tuple(
        _arguments(step, _less(step.arguments[0], gone), *step.arguments[1:])
        if step.verb in _OF_CLIENTS
        else _renamed(step, "c", gone)
        for step in plan.steps
    )
    return _with(
        plan,
        homes=plan.homes[:gone] + plan.homes[gone + 1 :],
        others=plan.others[:gone] + plan.others[gone + 1 :],
        gateways=tuple(_less(client, gone) for client in plan.gateways if client != gone),
        steps=steps,
    )


def _renamed(step: Step, letter: str, gone: int) -> Step:
    """The step with names of processes such as b3, which come after one that is gone, one lower."""
    if step.verb not in _OF_NAMES:
        return step
    names = (
        f"{letter}{_less(int(name[1:]), gone)}" if isinstance(name, str) and name[0] == letter else name
        for name in step.arguments
    )
    return _arguments(step, *names)


def _without_broker(plan: Plan, gone: int) -> Plan:
    """The plan without a broker that has no clients and no links; those after it are numbered anew."""
    return _with(
        plan,
        brokers=plan.brokers - 1,
        edges=tuple((_less(a, gone), _less(b, gone)) for a, b in plan.edges),
        homes=tuple(_less(home, gone) for home in plan.homes),
        others=tuple(tuple(_less(broker, gone) for broker in some) for some in plan.others),
        steps=tuple(_renumbered(step, gone) for step in plan.steps),
    )


def _renumbered(step: Step, gone: int) -> Step:
    if step.verb == "partition":
        return _arguments(step, [_less(broker, gone) for broker in step.arguments[0] if broker != gone])
    if step.verb in ("unplug", "plug"):
        return _arguments(step, step.arguments[0], _less(step.arguments[1], gone))
    if step.verb in _OF_NAMES:
        return _renamed(step, "b", gone)
    count = 1 if step.verb in _OF_BROKERS else 2 if step.verb in _OF_LINKS else 0
    brokers = (_less(broker, gone) for broker in step.arguments[:count])
    return _arguments(step, *brokers, *step.arguments[count:])


def _arguments(step: Step, *arguments: Any) -> Step:
    return Step(step.verb, arguments)


def _less(number: int, gone: int) -> int:
    return number - (number > gone)


def _with(plan: Plan, **changes: object) -> Plan:
    return msgspec.structs.replace(plan, **changes)
