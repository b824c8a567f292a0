"""Defects that are known and not mended yet: each with its reason, and with the faults that lead to it.

Only that an event did not come, or was not acknowledged, counts as known, and only where such a fault was
going on while it was under way, or had been a few seconds before; everything else fails the check. An entry
goes when its defect is mended.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from penstock.node.settings import Times
from penstock.sim.whole.timeline import Fault, Timeline


class Known(NamedTuple):
    """One defect."""

    name: str
    reason: str
    kinds: tuple[str, ...]
    """Of the faults that lead to it, if they are those of brokers."""
    at_least: Callable[[Times], float] = lambda _times: 0.0
    at_most: Callable[[Times], float] = lambda _times: float("inf")
    """For how long such a fault lasts."""
    for_good: bool = False
    """Whether what it does stays, also when the network should be at rest."""
    protocols: tuple[str, ...] = ()
    """Those that have it; none for all, because it is one of nodes."""

    def is_met(self, fault: Fault, times: Times, brokers: Collection[str]) -> bool:
        """Whether a fault is one that leads to it."""
        if fault.kind not in self.kinds or not all(name in brokers for name in fault.about):
            return False
        return self.at_least(times) <= fault.ended - fault.began <= self.at_most(times)


_TAIL: Final = 5.0
"""Seconds that what a fault leads to goes on after it: until neighbours have told each other everything."""

_DIALING: Final = 1.1
"""Seconds until brokers have connected again after a line is back."""


KNOWN: Final = (
    Known(
        "restart",
        "a broker that is killed and soon back acknowledges events that it cannot route yet",
        ("crash", "vanish", "sleep"),
        at_most=lambda times: times.resume + times.grace + times.join,
    ),
    Known(
        "rejoin",
        "a link that was given up and comes back asks for nothing until it knows the trees again, and events "
        "that come meanwhile are acknowledged",
        ("cut",),
        at_least=lambda times: times.resume - _DIALING,
        at_most=lambda times: times.resume + times.grace,
        protocols=("trees",),
    ),
    Known(
        "pause",
        "events for a broker that stands still for long are given up, and its clients are not told",
        ("pause", "sleep"),
        at_least=lambda times: times.resume,
    ),
    Known(
        "stall",
        "one direction of a link stalls: only silence tells, and what was sent meanwhile is given up",
        ("stall",),
    ),
    Known(
        "flip",
        "a flipped bit in the length of a frame is not noticed, and the link waits for bytes that never come",
        ("flip",),
        for_good=True,
    ),
)


class KnownDefects:
    """Looks for known defects behind what went wrong in one run."""

    def __init__(self, protocol: str, timeline: Timeline, times: Times, brokers: Collection[str]) -> None:
        self._list = [known for known in KNOWN if not known.protocols or protocol in known.protocols]
        self.counts: Counter[str] = Counter()
        """Events that went wrong, by the defect."""
        self._timeline = timeline
        self._times = times
        self._brokers = brokers

    def explain(self, begin: float, end: float) -> bool:
        """Whether one of them explains that an event of this time went wrong; then it is counted."""
        return self._count(self._timeline.during(begin, end, _TAIL), 1)

    def explain_unrest(self, found: int) -> bool:
        """Whether one of them explains that a network does not come to rest; counted as so many events."""
        return self._count(self._timeline.faults, found, for_good=True)

    @property
    def has_no_rest(self) -> bool:
        """Whether one of them has been met after which a network does not come to rest."""
        return self._count(self._timeline.faults, 0, for_good=True)

    def _count(self, faults: Iterable[Fault], found: int, *, for_good: bool = False) -> bool:
        for fault in faults:
            for known in self._list:
                if known.for_good >= for_good and known.is_met(fault, self._times, self._brokers):
                    self.counts[known.name] += found
                    return True
        return False
