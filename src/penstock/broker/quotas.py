"""How much a client may ask for, and how fast it may send.

Pure, as all of the broker: time comes in as an argument, in seconds of any clock that does not go back.
"""

from typing import Final

import msgspec

from penstock.errors import InputError, PenstockError
from penstock.model.limits import INTEGER_MAX

BURST_S: Final = 1.0
"""Seconds' worth that may come at once after a pause: who sends once a second is not slowed down."""


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one client; 0 where there is none."""

    subscriptions: int = 0
    advertisements: int = 0
    attributes: int = 0
    bytes_per_second: int = 0
    events_per_second: int = 0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            number = getattr(self, name)
            if type(number) is not int or not 0 <= number <= INTEGER_MAX:
                raise InputError(f"the quota {name} is a whole number, 0 for none, not {number!r:.40}")

    def tightest(self, other: "Quotas") -> "Quotas":
        """Both together: what a token says never widens what the broker's own limits say."""
        return Quotas(**{name: _tighter(getattr(self, name), getattr(other, name)) for name in _NAMES})


_NAMES: Final = Quotas.__struct_fields__

NO_QUOTAS: Final = Quotas()


def _tighter(a: int, b: int) -> int:
    return min(a, b) if a and b else a or b


class Bucket:
    """A token bucket: so much a second, and after a pause so much at once.

    What is taken is always counted, and the answer says how long to wait before it is let through. Who waits
    as told lets through no more than rate · t + burst in any t seconds. An amount above the burst is let
    through too, after a wait for all of it that exceeds what is there; so it is not stuck for ever, and that
    one time the amount takes the place of the burst.
    """

    __slots__ = ("_at", "_level", "burst", "rate")

    def __init__(self, rate: float, now: float, *, largest: float = 0.0) -> None:
        """A full bucket. `largest` is the largest amount that may come at once, such as a frame."""
        if not (rate >= 0 and largest >= 0):
            raise PenstockError(f"a rate and an amount are not negative: {rate}, {largest}")
        self.rate = rate
        self.burst = max(rate * BURST_S, largest)
        self._level = self.burst
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Count an amount; return the seconds to wait before it is let through, 0 where there is room."""
        if not amount >= 0:
            # A negative amount would fill the bucket.
            raise PenstockError(f"an amount is not negative: {amount}")
        if not self.rate:
            return 0.0
        if now > self._at:
            self._level = min(self.burst, self._level + (now - self._at) * self.rate)
            self._at = now
        self._level -= amount
        if self._level >= 0:
            return 0.0
        # Should this clock have gone back, what is owed is counted from where it was.
        return -self._level / self.rate + (self._at - now)


class Meter:
    """The bytes and events that one client sends, held against its quotas."""

    __slots__ = ("_bytes", "_events")

    def __init__(self, quotas: Quotas, now: float, *, frame_bytes: int = 0) -> None:
        """A meter for frames of so many bytes at the most."""
        self._bytes = Bucket(quotas.bytes_per_second, now, largest=frame_bytes)
        self._events = Bucket(quotas.events_per_second, now, largest=1)

    def take(self, size: int, events: int, now: float) -> float:
        """Count a frame of so many bytes and events; return the seconds to wait before reading on."""
        return max(self._bytes.take(size, now), self._events.take(events, now))
