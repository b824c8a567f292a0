"""A plan in words, for whoever has to find out what is wrong."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.sim.plan import LATENCY, Plan, Step


def tell(plan: Plan) -> Iterator[str]:
    """The network, then what happens in it, a line each."""
    advertised = "with advertisements" if plan.advertisements else "without advertisements"
    settings = [plan.way, advertised, *(["reliable links"] if plan.links == "reliable" else [])]
    if plan.linger:
        settings.append(f"lingering {plan.linger:g} s")
    if plan.condenses:
        settings.append("condensing")
    yield f"{', '.join(settings)}, seed {plan.seed}"
    yield f"brokers: {' '.join(f'b{broker}' for broker in range(plan.brokers))}"
    yield f"links:   {', '.join(_links(plan)) or 'none'}"
    yield f"clients: {', '.join(_clients(plan))}"
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


def _clients(plan: Plan) -> Iterator[str]:
    for client, home in enumerate(plan.homes):
        others = plan.others[client] if client < len(plan.others) else ()
        gateway = " (gateway)" if client in plan.gateways else ""
        yield f"c{client} at b{home}{''.join(f', then b{other}' for other in others)}{gateway}"


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
    "vanish": lambda broker: f"the machine of b{broker} is gone without a word",
    "pause": lambda name: f"{name} stands still, as by SIGSTOP",
    "continue": lambda name: f"{name} goes on",
    "sever": lambda a, b: f"the connections between {a} and {b} break",
    "unplug": lambda client, broker: f"c{client} cannot reach b{broker} any more",
    "plug": lambda client, broker: f"c{client} can reach b{broker} again",
    "stall": lambda a, b: f"nothing from {a} gets to {b} any more",
    "flow": lambda a, b: f"what {a} says gets to {b} again",
    "flip": lambda a, b: f"the next frame from {a} to {b} has a bit of its length flipped",
    "latency": lambda a, b, seconds: f"bytes between {a} and {b} take {seconds * 1000:g} ms from now on",
    "lag": lambda client, seconds: f"c{client} keeps each event for {seconds:g} s before acknowledging it",
    "exit": lambda client: f"the process of c{client} dies, and its program is started again",
    "manual": lambda client, share, seconds: (
        f"c{client} acknowledges by hand: {share:.0%} of events, each after {seconds:g} s, and no others"
    ),
    "auto": lambda client: f"c{client} acknowledges all that it holds, and from now on what comes",
    "attack": lambda broker, kind: f"a hostile client connects to b{broker}: {kind}",
    "drain": lambda broker, seconds: f"b{broker} drains, ends, and is started again {seconds:g} s later",
    "mend": lambda: "all lines work again, and all processes go on",
    "restore": lambda: "all links carry messages as they should again",
}
