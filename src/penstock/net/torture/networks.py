"""Overlays and clients of torture, drawn from a seed: chains, rings and meshes.

A mesh stays connected when any one broker is gone, a ring too. In a chain every broker but the last ones is
the only path between two parts: what happens to it separates them, and everything has to come afterwards.
Clients have several brokers to go to, unless clients with one home are asked for.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from penstock.errors import InputError
from penstock.workloads import topologies

TOPOLOGIES: Final = ("chain", "ring", "mesh")

BROKERS_MIN: Final = 4
"""Fewer have no path around a broker, and no two homes for each client that differ."""
BROKERS_MAX: Final = 50
"""So many processes are bearable."""

SUBSCRIBERS: Final = 4
"""Clients that subscribe, if nothing else is asked for."""
SUBSCRIBERS_MAX: Final = 50

_PUBLISHERS: Final = 3
_SUBSCRIPTIONS_EACH: Final = 2
X_MAX: Final = 1000
"""What publishers publish is `x` from 0 to this."""


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

    @property
    def subscriptions(self) -> list[int]:
        """The numbers of all subscriptions."""
        return [subscription for client in self.clients for subscription in client.subscriptions]


def draw_network(
    seed: int,
    brokers: int,
    *,
    topology: str = "mesh",
    subscribers: int = SUBSCRIBERS,
    single_homed: bool = False,
) -> Network:
    """The overlay and the clients of a seed; the first client of each sort may have one broker only."""
    if not BROKERS_MIN <= brokers <= BROKERS_MAX:
        raise InputError(f"torture takes {BROKERS_MIN} to {BROKERS_MAX} brokers, not {brokers}")
    if not 1 <= subscribers <= SUBSCRIBERS_MAX:
        raise InputError(f"torture takes 1 to {SUBSCRIBERS_MAX} subscribers, not {subscribers}")
    random = Random(f"torture {seed}")
    edges = _edges(topology, random, brokers, seed)
    links = tuple((a, b) if random.random() < 0.5 else (b, a) for a, b in edges)
    clients = []
    for number in range(_PUBLISHERS):
        low = random.randrange(X_MAX * 2 // 3)
        homes = _homes(random, brokers, single=single_homed and number == 0)
        clients.append(Client(f"p{number}", homes, range=(low, low + X_MAX // 3)))
    for number in range(subscribers):
        first = number * _SUBSCRIPTIONS_EACH
        ids = tuple(range(first, first + _SUBSCRIPTIONS_EACH))
        homes = _homes(random, brokers, single=single_homed and number == 0)
        clients.append(Client(f"s{number}", homes, subscriptions=ids))
    return Network(seed, brokers, links, tuple(clients))


def _edges(topology: str, random: Random, brokers: int, seed: int) -> list[tuple[int, int]]:
    path = [(broker, broker + 1) for broker in range(brokers - 1)]
    if topology == "chain":
        return path
    if topology == "ring":
        return [*path, (0, brokers - 1)]
    if topology == "mesh":
        return _doubled(random, brokers, topologies.topology("general", brokers, seed, degree=3.0))
    raise InputError(f"no topology {topology!r:.40}; there are {', '.join(TOPOLOGIES)}")


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
