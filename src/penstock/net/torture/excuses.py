"""What the delivery contract excuses (docs/OPERATIONS.md), worked out from the faults and from what was told.

No fault excuses a loss by itself. A wanted event may be missing where its subscriber was told so (`missed`,
`resumed`, `dropped`), or where its publisher was told that it was given up (`lost`).

An acknowledgement may wait while something is wrong with the network. It may not wait for a single reader, or
for a hostile client, for longer than `patience`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from penstock.net.torture.faults import STRANGERS, Fault
from penstock.net.torture.networks import Network
from penstock.net.torture.records import Published, Told
from penstock.node.settings import Times

TELLING: Final = ("missed", "resumed", "dropped")
"""What a subscriber is told that may have missed something."""

AFTERMATH: Final = 15.0
"""Seconds after a fault in which acknowledgements may still wait: a client goes to another broker within 8.5,
and what was given back is sent again."""

ACK_MAX: Final = Times().patience + 5.0
"""Seconds that an acknowledgement may wait while nothing is wrong but readers: their time, and some for a
machine that is busy."""

_READERS: Final = ("dead", "freeze")
"""What a single reader suffers from, by which no publisher may be held."""


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
        self._hindered: dict[int, list[tuple[float, float]]] = {}

    def excuse(self, one: Published, client: int) -> str:
        """Why that client may have missed an event: "told" or "given up"; "" if it may not."""
        if self._subscribers.get(client, -1.0) >= one.at:
            return "told"
        if self._publishers.get(one.publisher, -1.0) >= one.at:
            return "given up"
        return ""

    def most_missed(self, client: int) -> float:
        """How many events a client was told that it may have missed.

        Who was dropped may have missed any, and so may who was told of a number that nobody knows.
        """
        told = [notice for notice in self.told if notice.client == client and notice.kind in TELLING]
        if any(notice.kind == "dropped" or (notice.kind == "missed" and not notice.count) for notice in told):
            return math.inf
        return sum(notice.count for notice in told)

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


def _hinders(fault: Fault, publisher: int) -> bool:
    return fault.kind not in (*STRANGERS, *_READERS) or (fault.kind in _READERS and fault.target == publisher)
