"""Whether this process has stood still: by SIGSTOP, in a machine that slept, or for want of a processor.

What it takes from its connections right after that came long before. So who has to know when something last
came adds how long the process stood still lately.
"""

from typing import Final

_REMEMBERED_S: Final = 30.0
"""Seconds for which a standstill counts: connections that ended meanwhile are noticed a while after it."""


class Standstill:
    """Told the time every few seconds, or fractions of one, it notices when it was not."""

    def __init__(self, now: float, every: float) -> None:
        self._ticked_at = now
        self._longest = 2 * every
        self._ended_at = float("-inf")
        self._lasted = 0.0

    def tick(self, now: float) -> None:
        """Some time has passed."""
        gap = now - self._ticked_at
        if gap > self._longest:
            self._lasted = gap + (self._lasted if self._counts(now) else 0.0)
            self._ended_at = now
        self._ticked_at = now

    def seconds(self, now: float) -> float:
        """For how long it has stood still lately."""
        gap = now - self._ticked_at
        return (gap if gap > self._longest else 0.0) + (self._lasted if self._counts(now) else 0.0)

    def _counts(self, now: float) -> bool:
        return now - self._ended_at < _REMEMBERED_S
