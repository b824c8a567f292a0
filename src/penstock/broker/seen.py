"""Which events have come, so that none is taken twice.

Publishers number their events. Numbers nearly always rise, but after a failure an event may come by another
way than those after it; so it is remembered which of the last numbers have come, and not only the highest.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

REMEMBERED_MAX: Final = 2**18
"""Numbers of one origin that are remembered; older ones count as come. More than a window of bytes holds."""

_REMEMBERED_MIN: Final = 2**8
_FEW_MAX: Final = 1_024
"""So many numbers are kept one by one, before there is room for all up to the highest."""

_ORIGINS_MAX: Final = 10_000
"""Origins that are remembered, those that were heard of last."""


class Numbers:
    """The numbers that have come from one origin."""

    __slots__ = ("_few", "_has", "_most", "top")

    def __init__(self, most: int = REMEMBERED_MAX) -> None:
        self.top = 0
        """The highest."""
        self._most = most
        self._few: set[int] | None = set()
        """All of them, while they are few: the publisher chooses numbers, and room is for what has come."""
        self._has = np.zeros(min(most, _REMEMBERED_MIN), np.bool_)

    def add(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take rising numbers, fewer than are remembered from first to last; return which are new."""
        last = int(numbers[-1])
        if self._few is not None:
            return self._add_to_few(numbers.tolist(), self._few)
        if last > self.top:
            self._advance(last, last - int(numbers[0]))
        places = numbers % len(self._has)
        new: NDArray[np.bool_] = (numbers > self.top - len(self._has)) & ~self._has[places]
        self._has[places[new]] = True
        return new

    def _add_to_few(self, numbers: list[int], few: set[int]) -> NDArray[np.bool_]:
        self.top = max(self.top, numbers[-1])
        new = [number not in few and number > self.top - self._most for number in numbers]
        few.update(numbers)
        if len(few) > _FEW_MAX:
            self._few = None
            known = np.array(sorted(number for number in few if number > self.top - self._most), np.int64)
            top, self.top = self.top, 0
            self._advance(top, top - int(known[0]))
            self._has[known[known > top - len(self._has)] % len(self._has)] = True
        return np.array(new, np.bool_)

    def _advance(self, last: int, span: int) -> None:
        """Make room for numbers up to a new highest one."""
        wanted = min(self._most, 1 << max(4 * span, 2 * last).bit_length())
        if wanted > len(self._has):
            # A publisher that sends little is to take little room: it grows with what has been sent.
            known = np.flatnonzero(self._has)
            size = len(self._has)
            before = self.top - (self.top - known) % size
            self._has = np.zeros(wanted, np.bool_)
            self._has[before[before > 0] % wanted] = True
        size = len(self._has)
        if last - self.top >= size:
            self._has[:] = False
        else:
            self._has[np.arange(self.top + 1, last + 1) % size] = False
        self.top = last


class Marked:
    """Which events have come of those that are sent again: each once for every time (for every mark)."""

    def __init__(self, most: int = REMEMBERED_MAX) -> None:
        self._most = most
        self._known: dict[tuple[str, int, int], None] = {}

    def add(self, origin: str, mark: int, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take numbers of an origin under a mark, which other origins may have too; return which are new."""
        known = self._known
        given = [(origin, mark, number) for number in numbers.tolist()]
        new = np.array([one not in known for one in given], np.bool_)
        known.update(dict.fromkeys(given))
        while len(known) > self._most:
            del known[next(iter(known))]
        return new


class Seen:
    """The numbers that have come, by origin."""

    def __init__(self, most: int = REMEMBERED_MAX, origins: int = _ORIGINS_MAX) -> None:
        self._most = most
        self._origins_max = origins
        self._origins: dict[str, Numbers] = {}

    def add(self, origin: str, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take rising numbers of an origin; return which are new."""
        return self._of(origin).add(numbers)

    def top(self, origin: str) -> int:
        """The highest number of an origin, or 0."""
        known = self._origins.get(origin)
        return 0 if known is None else known.top

    def _of(self, origin: str) -> Numbers:
        known = self._origins.pop(origin, None)
        if known is None:
            known = Numbers(self._most)
            if len(self._origins) >= self._origins_max:
                del self._origins[next(iter(self._origins))]
        self._origins[origin] = known
        return known
