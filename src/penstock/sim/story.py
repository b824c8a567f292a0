"""A plan in words, for whoever has to find out what is wrong."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.sim.plan import LATENCY, Plan, Step


def tell(plan: Plan) -> Iterator[str]:
    """The network, then what happens in it, a line each."""
    advertised = "with advertisements" if plan.advertisements else "without advertisements"
    yield f"{plan.scheme}, {advertised}, seed {plan.seed}"
    yield f"brokers: {' '.join(f'b{broker}' for broker in range(plan.brokers))}"
    yield f"links:   {', '.join(_links(plan)) or 'none'}"
    yield f"clients: {', '.join(f'c{client} at b{home}' for client, home in enumerate(plan.homes))}"
    for number, step in enumerate(plan.steps, 1):
        yield f"{number:3}. {tell_step(step)}"


def tell_step(step: Step) -> str:
    """What a step does."""
    words = _WORDS.get(step.verb)
    return str(step) if words is None else words(*step.arguments)


def _links(plan: Plan) -> Iterator[str]:
    for at, (a, b) in enumerate(plan.edges):
        latency = plan.latencies[at] if at < len(plan.latencies) else LATENCY
        yield f"b{a}-b{b} ({latency * 1000:g} ms)"


def _degrade(a: int, b: int, kind: str, much: float) -> str:
    amount = f"{much * 1000:g} ms" if kind == "delay" else f"{much:.0%}"
    return f"link b{a}-b{b}: {kind} of {amount} from now on"


def _event(event: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in event.items())


_WORDS: Final[dict[str, Callable[..., str]]] = {
    "advertise": lambda client, key, text: f"c{client} advertises {key}: {text}",
    "unadvertise": lambda client, key: f"c{client} unadvertises {key}",
    "subscribe": lambda client, key, text: f"c{client} subscribes {key}: {text}",
    "unsubscribe": lambda client, key: f"c{client} unsubscribes {key}",
    "publish": lambda client, event: f"c{client} publishes {_event(event)}",
    "leave": lambda client: f"c{client} goes, with all that it wanted, and comes back without",
    "pass": lambda seconds: f"{seconds * 1000:g} ms pass",
    "settle": lambda: "the network comes to rest, and is checked",
    "crash": lambda broker: f"b{broker} crashes",
    "restart": lambda broker, state: f"b{broker} restarts {'with' if state else 'without'} its state",
    "cut": lambda a, b: f"link b{a}-b{b} is cut",
    "heal": lambda a, b: f"link b{a}-b{b} heals",
    "flap": lambda a, b: f"link b{a}-b{b} is cut and heals at once",
    "partition": lambda side: (
        f"all links between {' '.join(f'b{b}' for b in side) or 'none'} and the rest are cut"
    ),
    "degrade": _degrade,
    "restore": lambda: "all links carry messages as they should again",
}
