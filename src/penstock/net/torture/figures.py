"""What came of events, in figures: of all of them, and of those under way during each kind of fault.

An event counts for every kind of fault that was in force while it was under way, or just before. So rows of
several kinds have events in common, and do not add up.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from penstock.net.torture.excuses import Happened
from penstock.net.torture.records import Delivered, Published

ALL: Final = "all"
CALM: Final = "none"
"""For events while nothing was wrong."""

_AFTER: Final = 5.0
"""Seconds after a fault in which what happens is taken to come of it."""


class Figures(msgspec.Struct):
    """What is counted."""

    faults: int = 0
    wanted: int = 0
    """Deliveries of events that were published, to each subscription that wants them."""
    lost: int = 0
    """Of events that were acknowledged: neither delivered nor told, nor excused otherwise."""
    told: int = 0
    """Not delivered, and told."""
    late: int = 0
    longest_gap_s: float = 0.0
    """In which a subscriber got nothing, though something that it wants had been published."""
    longest_ack_s: float = 0.0

    def add(self, other: "Figures") -> None:
        """Take others' figures in."""
        for name in ("faults", "wanted", "lost", "told", "late"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest_gap_s = max(self.longest_gap_s, other.longest_gap_s)
        self.longest_ack_s = max(self.longest_ack_s, other.longest_ack_s)


class Tables:
    """Figures by kind of fault, while they are counted."""

    def __init__(self, happened: Sequence[Happened]) -> None:
        self._happened = list(happened)
        self.rows: defaultdict[str, Figures] = defaultdict(Figures)
        for one in self._happened:
            self.rows[ALL].faults += 1
            self.rows[one.fault.kind].faults += 1

    def during(self, begin: float, end: float) -> list[Figures]:
        """The figures that something belongs to which lasted from then to then."""
        kinds = {one.fault.kind for one in self._happened if one.touches(begin, end, _AFTER)}
        return [self.rows[kind] for kind in (ALL, *(kinds or (CALM,)))]

    def of(self, one: Published) -> list[Figures]:
        """The figures that an event belongs to."""
        return self.during(one.at, float("inf") if one.acked is None else one.acked)

    def take_gaps(self, deliveries: Iterable[tuple[Delivered, Published]]) -> None:
        """Find the times in which one client got nothing though there was something."""
        came = sorted((delivery.at, one.at) for delivery, one in deliveries)
        pending = float("inf")
        # From the last one back: the oldest of those that had not come yet.
        for number in range(len(came) - 1, -1, -1):
            at, published = came[number]
            pending = min(pending, published)
            before = came[number - 1][0] if number else 0.0
            begin = max(before, pending)
            for row in self.during(begin, at):
                row.longest_gap_s = max(row.longest_gap_s, at - begin)
