"""Plans of torture, drawn from a seed: for each round filters, events and faults."""

from random import Random
from typing import Final

import msgspec

from penstock.model.values import Value
from penstock.net.torture.faults import Fault, draw_faults
from penstock.net.torture.networks import X_MAX, Network

_FINAL: Final = 20
"""Events of each publisher in the end."""

_WIDTHS: Final = (100, 400, 1000, 1000, 2000)
"""How much of `x` filters want: many events are wanted by several."""

_WORDS: Final = ("ant", "antler", "bee", "beech", "cat")


class Burst(msgspec.Struct, frozen=True):
    """Events that a client publishes at once."""

    at: float
    publisher: int
    events: tuple[dict[str, Value], ...]


class Round(msgspec.Struct, frozen=True):
    """What happens between two times of rest."""

    number: int
    filters: tuple[str, ...]
    """Of all subscriptions."""
    probe: int
    """What `probe` is in events that all of these filters match."""
    bursts: tuple[Burst, ...]
    faults: tuple[Fault, ...]
    tail: tuple[Burst, ...]
    """Published once all has recovered."""


def draw_round(
    network: Network,
    number: int,
    *,
    kinds: tuple[str, ...],
    seconds: float,
    events: int,
    count: int | None = None,
) -> Round:
    """The round of that number, which lasts at least so long and has so many events and faults."""
    random = Random(f"torture {network.seed} round {number}")
    faults = draw_faults(network, random, number, kinds=kinds, seconds=seconds, count=count)
    length = max([seconds, *(fault.end for fault in faults)])
    publishers = network.publishers
    times = [
        *((random.uniform(0.0, length), random.choice(publishers)) for _ in range(int(length * 2) + 4)),
        *((max(0.0, fault.begin - 0.02), who) for fault in faults for who in publishers),
    ]
    sizes = _parts(random, events, len(times))
    return Round(
        number=number,
        filters=tuple(_filter(network, number, s) for s in network.subscriptions),
        probe=number,
        bursts=tuple(
            Burst(round(at, 3), who, _events(network, random, who, size))
            for (at, who), size in zip(sorted(times), sizes, strict=True)
            if size
        ),
        faults=faults,
        tail=tuple(
            Burst(0.0, who, _events(network, random, who, max(5, events // 20))) for who in network.publishers
        ),
    )


def final_round(network: Network, number: int) -> Round:
    """The one after the last, without a fault, whose events must come to everybody.

    State has to have come back by itself, so no filter changes.
    """
    last = number - 1
    probe: dict[str, Value] = {"probe": last}
    return Round(
        number=number,
        filters=tuple(_filter(network, last, s) for s in network.subscriptions),
        probe=last,
        bursts=(),
        faults=(),
        tail=tuple(Burst(0.0, who, (probe,) * _FINAL) for who in network.publishers),
    )


def _parts(random: Random, total: int, count: int) -> list[int]:
    """The total in so many parts of random size."""
    cuts = sorted(random.randint(0, total) for _ in range(count - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]


def _events(network: Network, random: Random, publisher: int, count: int) -> tuple[dict[str, Value], ...]:
    low, high = network.clients[publisher].range or (0, 0)
    return tuple(_event(random, low, high) for _ in range(count))


def _event(random: Random, low: int, high: int) -> dict[str, Value]:
    event: dict[str, Value] = {"x": random.randint(low, high)}
    if random.random() < 0.7:
        event["y"] = round(random.uniform(-1, 1), 3)
    if random.random() < 0.5:
        event["s"] = random.choice(_WORDS)
    if random.random() < 0.2:
        event["pad"] = "." * random.randrange(2000)
    return event


def _filter(network: Network, number: int, subscription: int) -> str:
    """A filter that stays for some rounds but for its probes, which prove that the newest one is known."""
    random = Random(f"torture {network.seed} filter {subscription} {(number + subscription) // 3}")
    low = random.randrange(-X_MAX // 2, X_MAX)
    parts = [f"x between {low} and {low + random.choice(_WIDTHS)}"]
    if random.random() < 0.3:
        parts.append(random.choice(["y > 0", "y between -0.5 and 0.5", "y is not null"]))
    if random.random() < 0.2:
        parts.append(random.choice(["s like 'ant%'", "s in ('bee', 'cat')", "s is null"]))
    return f"({' and '.join(parts)}) or probe = {number}"
