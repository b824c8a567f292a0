"""What the delivery contract excuses (docs/OPERATIONS.md), worked out from the faults and from what was told.

Who is away for less than `keep` misses nothing, so that no fault excuses a loss by itself: none lasts that
long. A wanted event may be missing where its subscriber was told so (`missed`, `resumed`, `dropped`), where
its publisher was told that it was given up (`lost`), or where nobody is left to tell: its subscriber was away
when it was acknowledged, and the broker that kept it ended before the subscriber was back.

An acknowledgement may wait while something is wrong with the network. It may not wait for a single reader, or
for a hostile client, for longer than `patience`.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from penstock.net.torture.faults import ENDING, STRANGERS, Fault
from penstock.net.torture.networks import Network, components
from penstock.net.torture.records import Published, Told
from penstock.node.settings import Times

TELLING: Final = ("missed", "resumed", "dropped")
"""What a subscriber is told that may have missed something."""

AGAIN: Final = 6.0
"""Seconds until those who can reach each other again have told each other everything."""

AFTERMATH: Final = 15.0
"""Seconds after a fault in which acknowledgements may still wait: a client goes to another broker within 8.5,
and what was given back is sent again."""

ACK_MAX: Final = Times().patience + 5.0
"""Seconds that an acknowledgement may wait while nothing is wrong but readers: their time, and some for a
machine that is busy."""

_READERS: Final = ("dead", "freeze")
"""What a single reader suffers from, by which no publisher may be held."""

_GONE: Final = (*ENDING, "pause")
"""Kinds by which a broker cannot be reached."""
_CUT: Final = ("long", "short", "stall", "oneway", "split", "storm")
"""Kinds by which links do not pass everything on."""
_AWAY: Final = ("freeze", "dead", "slow", "failover", "short", "stall", "storm")
"""Kinds by which a client does not take events, or loses its broker."""


class Happened(msgspec.Struct, frozen=True):
    """A fault, and when it really began and was mended."""

    fault: Fault
    begin: float
    end: float

    def touches(self, begin: float, end: float, longer: float = 0.0) -> bool:
        """Whether it was in force between these times, taken to last a little longer."""
        return self.begin <= end and self.end + longer >= begin


class Excuses:
    """Why events may be missing, and acknowledgements may take their time."""

    def __init__(
        self, network: Network, happened: Sequence[Happened] = (), told: Iterable[Told] = ()
    ) -> None:
        self._network = network
        self.happened = list(happened)
        self.told = list(told)
        self._subscribers: dict[int, float] = {}
        self._publishers: dict[int, float] = {}
        """When each was last told."""
        for notice in self.told:
            if notice.kind in TELLING:
                self._subscribers[notice.client] = notice.at
            elif notice.kind == "lost":
                self._publishers[notice.client] = notice.at
        self._deaths = [one for one in self.happened if one.fault.kind in ENDING]
        self._aways: dict[tuple[int, int], list[tuple[float, float]]] = {}
        """For a broker and a client: when they could not reach each other."""
        self._hindered: dict[int, list[tuple[float, float]]] = {}

    def excuse(self, one: Published, client: int) -> str:
        """Why that client may have missed an event: "told", "given up" or "keeper died"; "" if it may not."""
        if self._subscribers.get(client, -1.0) >= one.at:
            return "told"
        if self._publishers.get(one.publisher, -1.0) >= one.at:
            return "given up"
        return "keeper died" if self._is_keeper_dead(one, client) else ""

    def most_missed(self, client: int) -> float:
        """How many events a client was told that it may have missed. Who was dropped may have missed any."""
        told = [notice for notice in self.told if notice.client == client and notice.kind in TELLING]
        if any(notice.kind == "dropped" for notice in told):
            return math.inf
        return sum(notice.count for notice in told)

    def _is_keeper_dead(self, one: Published, client: int) -> bool:
        """Whether the client was away when it was acknowledged, and the keeper ended before it was back."""
        acked = one.at if one.acked is None else one.acked
        return any(
            begin <= acked and end >= one.at and one.at <= death.end and death.begin <= end
            for death in self._deaths
            if f"b{death.fault.target}" in one.brokers
            for begin, end in self._away(death.fault.target, client)
        )

    def _away(self, broker: int, client: int) -> list[tuple[float, float]]:
        """When a client could not be reached from a broker, the broker's own ends aside."""
        pair = broker, client
        if pair not in self._aways:
            others = [one for one in self.happened if one not in self._deaths or one.fault.target != broker]
            times = sorted({time for one in others for time in (one.begin, one.end + AGAIN)})
            found: list[tuple[float, float]] = []
            for begin, end in pairwise(times):
                faults = [one.fault for one in others if one.begin <= begin and one.end + AGAIN >= end]
                if self._is_apart(broker, client, faults):
                    # What follows at once belongs to it.
                    begin = found.pop()[0] if found and found[-1][1] == begin else begin
                    found.append((begin, end))
            self._aways[pair] = found
        return self._aways[pair]

    def _is_apart(self, broker: int, client: int, faults: Sequence[Fault]) -> bool:
        """Whether a client may not be reached, at one of its brokers at least, while these faults last."""
        network = self._network
        if any(
            f.kind in _AWAY and (f.on == "network" or (f.on, f.target) == ("client", client)) for f in faults
        ):
            return True
        gone = {fault.target for fault in faults if fault.kind in _GONE}
        links = [link for number, link in enumerate(network.links) if not _is_cut(number, link, faults)]
        where = components([b for b in range(network.brokers) if b not in gone], links)
        homes = {where.get(home) for home in network.clients[client].homes}
        return broker not in where or homes != {where[broker]}

    def held(self, one: Published) -> float:
        """The seconds that an acknowledgement was waited for while nothing hindered it but readers."""
        if one.acked is None:
            return 0.0
        waited = one.acked - one.at
        if waited <= ACK_MAX:
            return waited
        for begin, end in self._hindrances(one.publisher):
            waited -= max(0.0, min(end, one.acked) - max(begin, one.at))
        return waited

    def _hindrances(self, publisher: int) -> list[tuple[float, float]]:
        """When something hindered a publisher, as times that do not overlap."""
        if publisher not in self._hindered:
            merged: list[tuple[float, float]] = []
            for one in sorted(self.happened, key=lambda one: one.begin):
                if _hinders(one.fault, publisher):
                    begin, end = one.begin, one.end + AFTERMATH
                    if merged and begin <= merged[-1][1]:
                        merged[-1] = merged[-1][0], max(merged[-1][1], end)
                    else:
                        merged.append((begin, end))
            self._hindered[publisher] = merged
        return self._hindered[publisher]


def _is_cut(number: int, link: tuple[int, int], faults: Sequence[Fault]) -> bool:
    for fault in faults:
        if fault.kind == "split":
            if (link[0] in fault.side) != (link[1] in fault.side):
                return True
        elif fault.kind in _CUT and (fault.on == "network" or (fault.on, fault.target) == ("link", number)):
            return True
    return False


def _hinders(fault: Fault, publisher: int) -> bool:
    return fault.kind not in (*STRANGERS, *_READERS) or (fault.kind in _READERS and fault.target == publisher)
