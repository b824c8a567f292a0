"""Who was separated from whom, and when: only then may an event be missing.

A broker that ends or a link that is cut excuses nothing while there are other ways and other brokers to go
to. Two clients are *separated* while one of them is homeless (none of its brokers can be reached), or while
what is left of the overlay falls into parts and their brokers may be in different ones, for longer than
events are kept for those behind a failure. A consumer that does not read what it is sent may miss events if
it is told so. All of that is worked out from the faults, whatever the network makes of them.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from typing import Final

import msgspec

from penstock.net.torture.plan import Fault, Network, components
from penstock.net.torture.records import Published, Told
from penstock.node.settings import Times

KEPT: Final = Times().resume + Times().grace
"""Seconds for which events are kept for those behind a failure."""

AGAIN: Final = 2.0
"""Seconds until those who are connected to each other have found each other again: they try now and then."""

_MISSING: Final = ("paused", "resumed", "dropped")
"""What a consumer is told that does not take its events."""


class Happened(msgspec.Struct, frozen=True):
    """A fault, and when it really began and was mended."""

    fault: Fault
    begin: float
    end: float


class Window(msgspec.Struct, frozen=True):
    """A time in which events may be lost."""

    begin: float
    end: float
    client: int
    """Who is separated: from everybody, or from another one."""
    other: int | None = None

    def concerns(self, publisher: int, subscriber: int) -> bool:
        """Whether it is about what one of them publishes and the other wants."""
        if self.other is None:
            return self.client in (publisher, subscriber)
        return {self.client, self.other} == {publisher, subscriber}

    def excuses(self, one: Published, subscriber: int) -> bool:
        """Whether this event may be missing for that client: it was not acknowledged before the window."""
        if not self.concerns(one.publisher, subscriber):
            return False
        return one.at <= self.end and (one.acked is None or one.acked >= self.begin)


def windows(
    network: Network, happened: Sequence[Happened], told: Iterable[Told], recovered: float
) -> list[Window]:
    """When events may be lost, given what happened, what clients were told, and when probes reached
    everybody again."""
    found = [Window(begin, recovered, client) for client, begin in _homeless(network, happened).items()]
    found += [Window(begin, recovered, a, b) for (a, b), begin in _parted(network, happened).items()]
    told = list(told)
    for one in happened:
        if one.fault.kind in ("dead", "slow"):
            client = one.fault.target
            if any(t.client == client and t.kind in _MISSING and t.at >= one.begin for t in told):
                found.append(Window(one.begin, recovered, client))
    return found


def _homeless(network: Network, happened: Sequence[Happened]) -> dict[int, float]:
    """The clients that had no broker to go to, and from when on."""
    found: dict[int, float] = {}
    for begin, _end, faults in _states(happened, 0.0):
        dead = _dead(faults)
        for number, client in enumerate(network.clients):
            left = [home for home in client.homes if home not in dead]
            # Which of its brokers such a client talks to when it loses that one, the plan does not say.
            losing = sum(f.kind == "failover" and f.target == number for f in faults)
            if len(left) <= losing:
                found.setdefault(number, begin)
    return found


def _parted(network: Network, happened: Sequence[Happened]) -> dict[tuple[int, int], float]:
    """The pairs of publisher and subscriber whose brokers could not reach each other for too long."""
    since: dict[tuple[int, int], float] = {}
    found: dict[tuple[int, int], float] = {}
    for begin, end, faults in _states(happened, AGAIN):
        dead = _dead(faults)
        cut = {f.target for f in faults if f.kind == "long"}
        links = [link for number, link in enumerate(network.links) if number not in cut]
        where = components([b for b in range(network.brokers) if b not in dead], links)
        for pair in product(network.publishers, network.subscribers):
            ours, theirs = ({where[h] for h in network.clients[n].homes if h in where} for n in pair)
            if len(ours | theirs) <= 1:
                since.pop(pair, None)
                continue
            since.setdefault(pair, begin)
            if end - since[pair] > KEPT:
                found.setdefault(pair, since[pair])
    return found


def _dead(faults: Iterable[Fault]) -> set[int]:
    return {fault.target for fault in faults if fault.on == "broker"}


def _states(happened: Sequence[Happened], longer: float) -> list[tuple[float, float, list[Fault]]]:
    """Times between which nothing changes, with the faults in force, each taken to last a little longer."""
    lasting = [(one.begin, one.end + longer, one.fault) for one in happened]
    times = sorted({time for begin, end, _fault in lasting for time in (begin, end)})
    return [
        (begin, end, [fault for first, last, fault in lasting if first <= begin and last >= end])
        for begin, end in pairwise([*times, math.inf])
    ]
