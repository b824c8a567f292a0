"""How near this process is to having no file descriptor left.

The system gives each new socket the lowest number that is free. So a connection whose number is near the
limit says that nearly all are in use, without anybody having to count them; and the last ones are kept for
what the broker needs itself: links to peers, files, and checks of its health.
"""

import time
from collections.abc import Callable
from typing import Final

from penstock.node.logs import LOG

RESERVED: Final = 64
"""Descriptors that connections of strangers leave free."""

_SHARE_MAX: Final = 4
"""Of a limit that is very low, a quarter at most is kept."""

_LOG_EVERY: Final = 10.0
"""Seconds between two lines of the log about it."""


class Descriptors:
    """The limit of this process, as it is when it is first asked for."""

    def __init__(
        self, limit: Callable[[], int | None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = limit or _limit
        self._clock = clock
        self._limit: int | None = None
        self._is_known = False
        self._logged_at: float | None = None

    def are_short(self, number: int, *, reserved: int = RESERVED) -> bool:
        """Whether a socket of this number takes one of those that are kept; if so, that is logged."""
        if not self._is_known:
            self._limit, self._is_known = self._find(), True
        if self._limit is None or number < self._limit - min(reserved, self._limit // _SHARE_MAX):
            return False
        now = self._clock()
        if self._logged_at is None or now - self._logged_at >= _LOG_EVERY:
            self._logged_at = now
            LOG.warning(
                "nearly all of the %d file descriptors of this process are in use: connections are turned "
                "away; raise the limit (ulimit -n), or lower limits.clients",
                self._limit,
            )
        return True


def _limit() -> int | None:
    """How many descriptors the process may have; None where there is no such bound."""
    try:
        import resource
    except ImportError:
        return None
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


DESCRIPTORS: Final = Descriptors()
"""Of this process: all its brokers and gateways share them."""
