"""What was wrong when, as whoever injects faults knows it: what the contract excuses follows from this."""

from collections.abc import Iterator, Mapping
from typing import Final

Parts = Mapping[str, frozenset[str]]
"""For each broker that runs, those that can reach each other, itself among them."""

_FOREVER: Final = float("inf")


class Fault:
    """One fault, for as long as it lasted."""

    __slots__ = ("about", "began", "ended", "kind")

    def __init__(self, kind: str, about: tuple[str, ...], began: float, ended: float = _FOREVER) -> None:
        self.kind = kind
        self.about = about
        """The brokers and clients that it happened to."""
        self.began = began
        self.ended = ended

    def __repr__(self) -> str:
        return f"{self.kind} of {'-'.join(self.about)} from {self.began:.3f} to {self.ended:.3f}"

    def overlaps(self, begin: float, end: float, tail: float = 0.0) -> bool:
        """Whether it, or what it leaves behind for a while, falls into a time."""
        return self.began <= end and self.ended + tail >= begin


class Timeline:
    """Faults, and which brokers could reach each other when."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._open: dict[tuple[str, tuple[str, ...]], Fault] = {}
        self._parts: list[tuple[float, Parts]] = []

    # Writing

    def begin(self, kind: str, about: tuple[str, ...], now: float) -> None:
        """A fault begins; one that is there goes on."""
        if (kind, about) not in self._open:
            self._open[kind, about] = fault = Fault(kind, about, now)
            self.faults.append(fault)

    def end(self, kind: str, about: tuple[str, ...], now: float, turned_out: str = "") -> None:
        """It is over, and may turn out to have been of another kind."""
        fault = self._open.pop((kind, about), None)
        if fault is not None:
            fault.ended = now
            fault.kind = turned_out or kind

    def strike(self, kind: str, about: tuple[str, ...], now: float) -> None:
        """A fault that takes no time."""
        self.faults.append(Fault(kind, about, now, now))

    def note(self, now: float, parts: Parts) -> None:
        """From now on these brokers can reach each other."""
        self._parts.append((now, parts))

    # Reading

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is wrong at the moment."""
        return not self._open

    @property
    def last_end(self) -> float:
        """When the last fault ended; -inf if there was none, inf if one goes on."""
        return max((fault.ended for fault in self.faults), default=-_FOREVER)

    @property
    def parts(self) -> Parts:
        """Who can reach whom now."""
        return self._parts[-1][1] if self._parts else {}

    def during(self, begin: float, end: float, tail: float = 0.0) -> Iterator[Fault]:
        """The faults of a time, and those before whose consequences reach into it."""
        return (fault for fault in self.faults if fault.overlaps(begin, end, tail))

    def apart(self, a: str, b: str) -> Iterator[tuple[float, float]]:
        """The times in which two brokers could not reach each other."""
        since: float | None = None
        for at, parts in self._parts:
            together = b in parts.get(a, ())
            if not together and since is None:
                since = at
            elif together and since is not None:
                if at > since:
                    yield since, at
                since = None
        if since is not None:
            yield since, _FOREVER

    def company(self, broker: str, begin: float, end: float, pause: float) -> int:
        """How many others a broker could reach in a time, but for pauses shorter than this.

        While it stood still itself, it missed nobody.
        """
        others = {other for _at, parts in self._parts for other in parts} - {broker}
        return sum(
            all(
                self.waking(broker, max(begin, since), min(end, to)) < pause
                for since, to in self.apart(broker, other)
            )
            for other in others
        )

    def waking(self, broker: str, begin: float, end: float) -> float:
        """For how long of a time a broker did not stand still."""
        still = sum(
            max(0.0, min(end, fault.ended) - max(begin, fault.began))
            for fault in self.faults
            if fault.kind in ("pause", "sleep") and fault.about == (broker,)
        )
        return end - begin - still
