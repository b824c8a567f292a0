"""Plans of torture, drawn from a seed: the overlay and its clients, and for each round events and faults.

Faults are of two sorts. What is *held* (a short cut of one thing or of all, a stall, a lag, a slow consumer)
leaves everybody where they are. What is *broken* (a broker that ends, a cut longer than a session waits to be
resumed, a client that has to go elsewhere, a consumer that is dead) has events take other ways, so that some
come late. Overlays stay connected when any one broker is gone, and clients have several brokers to go to: no
single fault separates anybody, unless clients with one home are asked for.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from penstock.errors import InputError
from penstock.model.values import Value
from penstock.node.settings import Times
from penstock.workloads import topologies

HELD: Final = ("short", "stall", "lag", "slow", "storm")
BROKEN: Final = ("kill", "term", "long", "failover", "dead")
KINDS: Final = (*BROKEN, *HELD)

BROKERS_MIN: Final = 7
BROKERS_MAX: Final = 50
"""So many processes are bearable."""

RESUME: Final = Times().resume
"""Seconds that brokers keep a session whose connection is gone."""

GRACE: Final = Times().grace
"""Seconds that they then keep what was for those behind it."""

PING: Final = Times().ping
"""Seconds after which brokers ask whether the other side is there."""

_LEAD: Final = 3.0
"""Seconds of a round before its first fault, so that some events must arrive whatever follows."""

_PUBLISHERS: Final = 3
_SUBSCRIBERS: Final = 4
_SUBSCRIPTIONS_EACH: Final = 2
_X_MAX: Final = 1000
_FINAL: Final = 20
"""Events of each publisher in the end."""

_WORDS: Final = ("ant", "antler", "bee", "beech", "cat")


class Client(msgspec.Struct, frozen=True):
    """Somebody who publishes within a range of `x`, or who has subscriptions."""

    name: str
    homes: tuple[int, ...]
    """The brokers that it may talk to, the first one first."""
    range: tuple[int, int] | None = None
    """What it publishes; None if it subscribes."""
    subscriptions: tuple[int, ...] = ()

    @property
    def advertisement(self) -> str:
        """What it says it publishes: its range, and probes."""
        low, high = self.range or (0, 0)
        return f"x between {low} and {high} or probe is not null"


class Network(msgspec.Struct, frozen=True):
    """Brokers, who of two that are linked connects to whom, and clients."""

    seed: int
    brokers: int
    links: tuple[tuple[int, int], ...]
    """The one who connects, and the one who listens."""
    clients: tuple[Client, ...]

    @property
    def publishers(self) -> list[int]:
        """The numbers of clients that publish."""
        return [number for number, client in enumerate(self.clients) if client.range is not None]

    @property
    def subscribers(self) -> list[int]:
        """The numbers of clients that subscribe."""
        return [number for number, client in enumerate(self.clients) if client.subscriptions]


class Fault(msgspec.Struct, frozen=True):
    """Something that goes wrong, in seconds since the round began."""

    kind: str
    on: str
    """"broker", "link", "client", or "network" for all links and connections at once."""
    target: int
    begin: float
    length: float
    amount: float = 0.0
    """How much: seconds of a lag, bytes a second for a slow consumer."""

    @property
    def breaks(self) -> bool:
        """Whether events may have to take another way, and come late."""
        return self.kind in BROKEN


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


def draw_network(seed: int, brokers: int, *, single_homed: bool = False) -> Network:
    """The overlay and the clients of a seed; the first client of each sort may have one broker only."""
    if not BROKERS_MIN <= brokers <= BROKERS_MAX:
        raise InputError(f"torture takes {BROKERS_MIN} to {BROKERS_MAX} brokers, not {brokers}")
    random = Random(f"torture {seed}")
    edges = _doubled(random, brokers, topologies.topology("general", brokers, seed, degree=3.0))
    links = tuple((a, b) if random.random() < 0.5 else (b, a) for a, b in edges)
    clients = []
    for number in range(_PUBLISHERS):
        low = random.randrange(_X_MAX * 2 // 3)
        homes = _homes(random, brokers, single=single_homed and number == 0)
        clients.append(Client(f"p{number}", homes, range=(low, low + _X_MAX // 3)))
    for number in range(_SUBSCRIBERS):
        first = number * _SUBSCRIPTIONS_EACH
        ids = tuple(range(first, first + _SUBSCRIPTIONS_EACH))
        homes = _homes(random, brokers, single=single_homed and number == 0)
        clients.append(Client(f"s{number}", homes, subscriptions=ids))
    return Network(seed, brokers, links, tuple(clients))


def _homes(random: Random, brokers: int, *, single: bool) -> tuple[int, ...]:
    """Some brokers to choose from; or one, with which a client can only resume."""
    return tuple(random.sample(range(brokers), 1 if single else random.randint(2, 3)))


def components(brokers: Iterable[int], links: Iterable[tuple[int, int]]) -> dict[int, int]:
    """For each of these brokers one that stands for all that it is connected with, by these links."""
    found = {broker: broker for broker in brokers}

    def stands_for(broker: int) -> int:
        while found[broker] != broker:
            broker = found[broker]
        return broker

    for a, b in links:
        if a in found and b in found:
            found[stands_for(a)] = stands_for(b)
    return {broker: stands_for(broker) for broker in found}


def _doubled(random: Random, brokers: int, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """An overlay with more links, so that it stays connected when any one broker is gone."""
    links = set(edges)
    for gone in range(brokers):
        others = [broker for broker in range(brokers) if broker != gone]
        while len(set((where := components(others, links)).values())) > 1:
            a = random.choice(others)
            b = random.choice([broker for broker in others if where[broker] != where[a]])
            links.add((min(a, b), max(a, b)))
    return sorted(links)


def draw_round(
    network: Network, number: int, *, kinds: tuple[str, ...], seconds: float, events: int
) -> Round:
    """The round of that number, which lasts at least so long and has so many events."""
    random = Random(f"torture {network.seed} round {number}")
    faults = _faults(network, random, number, kinds, seconds)
    length = max([seconds, *(fault.begin + fault.length for fault in faults)])
    publishers = network.publishers
    times = [
        *((random.uniform(0.0, length), random.choice(publishers)) for _ in range(int(length * 2) + 4)),
        *((max(0.0, fault.begin - 0.02), who) for fault in faults for who in publishers),
    ]
    sizes = _parts(random, events, len(times))
    return Round(
        number=number,
        filters=tuple(_filter(network, number, s) for s in _subscriptions(network)),
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
        filters=tuple(_filter(network, last, s) for s in _subscriptions(network)),
        probe=last,
        bursts=(),
        faults=(),
        tail=tuple(Burst(0.0, who, (probe,) * _FINAL) for who in network.publishers),
    )


def _subscriptions(network: Network) -> list[int]:
    return [s for client in network.clients for s in client.subscriptions]


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
    low = random.randrange(_X_MAX)
    parts = [f"x between {low} and {low + random.choice([20, 100, 400, 1000])}"]
    if random.random() < 0.4:
        parts.append(random.choice(["y > 0", "y between -0.5 and 0.5", "y is not null"]))
    if random.random() < 0.3:
        parts.append(random.choice(["s like 'ant%'", "s in ('bee', 'cat')", "s is null"]))
    return f"({' and '.join(parts)}) or probe = {number}"


def _faults(
    network: Network, random: Random, number: int, kinds: tuple[str, ...], seconds: float
) -> tuple[Fault, ...]:
    """One to three faults at different places; over the rounds every kind comes first in turn."""
    if not kinds:
        return ()
    turn = list(kinds)
    Random(f"torture {network.seed} kinds").shuffle(turn)
    chosen = [turn[(number - 1) % len(turn)]]
    chosen += [random.choice(turn) for _ in range(random.choice([0, 0, 1, 1, 2]))]
    faults: dict[tuple[str, int], Fault] = {}
    for kind in chosen:
        fault = _fault(network, random, kind, seconds)
        faults.setdefault((fault.on, fault.target), fault)
    return tuple(sorted(faults.values(), key=lambda fault: fault.begin))


def _fault(network: Network, random: Random, kind: str, seconds: float) -> Fault:
    on, target = _target(network, random, kind)
    low, high = _LENGTHS[kind]
    begin = round(_LEAD + random.uniform(0, max(0.5, seconds / 2 - _LEAD)), 2)
    amount = 0.0
    if kind == "lag":
        amount = round(random.uniform(0.02, 0.3), 3)
    elif kind == "slow":
        amount = float(random.choice([16_384, 65_536]))
    return Fault(kind, on, target, begin, round(random.uniform(low, high), 2), amount)


_LENGTHS: Final = {
    "kill": (0.3, 8.0),
    "term": (0.0, 3.0),
    "long": (RESUME * 1.4, (RESUME + GRACE) * 2),
    "failover": (2.0, (RESUME + GRACE) * 2),
    "dead": (PING, PING * 2.4),
    "short": (0.1, RESUME / 2),
    "stall": (0.3, min(RESUME, PING) * 0.4),
    "storm": (0.05, RESUME / 4),
    "lag": (1.0, 6.0),
    "slow": (2.0, 8.0),
}
"""From and to, in seconds; short ones leave a reconnect the time it takes."""


def _target(network: Network, random: Random, kind: str) -> tuple[str, int]:
    if kind in ("kill", "term"):
        return "broker", random.randrange(network.brokers)
    if kind == "storm":
        return "network", 0
    if kind in ("slow", "dead"):
        return "client", random.choice(network.subscribers)
    settled = [number for number, client in enumerate(network.clients) if len(client.homes) == 1]
    if kind == "failover":
        return "client", random.choice([n for n in range(len(network.clients)) if n not in settled])
    if kind in ("short", "stall") and settled and random.random() < 0.3:
        # Only of clients that have nowhere else to go: they resume.
        return "client", random.choice(settled)
    return "link", random.randrange(len(network.links))
