"""Which events have come, so that none is taken twice.

Publishers number their events. Numbers nearly always rise, but after a failure an event may come by another
way than those after it; so it is remembered which of the last numbers have come, and not only the highest.
"""

from collections import OrderedDict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

REMEMBERED_MAX: Final = 2**18
"""Numbers of one origin that are remembered; older ones count as come. More than a window of bytes holds."""

_REMEMBERED_MIN: Final = 2**8
_FEW_MAX: Final = 1_024
"""So many numbers are kept one by one, before there is room for all up to the highest."""

_RECENT_MAX: Final = 512
"""So many numbers at most are noted as bits: larger integers would take longer."""

_NOTHING: Final = np.zeros(0, np.bool_)

_ORIGINS_MAX: Final = 10_000
"""Origins that are remembered, those that were heard of last."""

_ROOM_MIN: Final = 4_096
"""Bytes below which there is no use in folding."""

_FEW_BYTES: Final = 64
"""Bytes that a number in a set takes."""

UNFOLDED_MAX: Final = 64 * 2**20
FOLDED_MAX: Final = 64 * 2**20
"""Bytes that the numbers of all origins take, as they are used and folded. Publishers come and go, and each
may leave as much as it likes to send."""


class Numbers:
    """The numbers that have come from one origin.

    Those that come one by one are noted as bits of one integer, as long as they are near the highest: brokers
    of a simulation know thousands of origins, and should not have to look far for each. All others are in a
    set while they are few, and in an array when they are many.
    """

    __slots__ = ("_few", "_floor", "_folded", "_has", "_has_top", "_most", "_recent", "room", "top")

    def __init__(self, most: int = REMEMBERED_MAX) -> None:
        self.top = 0
        """The highest."""
        self._most = most
        self._recent = 0
        """Bit n is whether the highest but n has come, of those above the floor."""
        self._floor = 0
        self._few: set[int] | None = set()
        """All below, while they are few: the publisher chooses numbers, and room is for what has come."""
        self._has = _NOTHING
        self._has_top = 0
        self.room = 0
        """Bytes that the set or the array takes."""
        self._folded: _Folded | None = None

    def fold(self) -> None:
        """Take as little room as can be, until it is needed again. Nothing is forgotten."""
        if self._folded is not None or self.room < _ROOM_MIN:
            return
        if self._few is not None:
            self._folded = _Folded.of(np.array(sorted(self._few), np.int64), 0)
            self._few = set()
        else:
            self._folded = _Folded.of(np.flatnonzero(self._has), len(self._has))
            self._has = _NOTHING
        self.room = self._folded.room

    def _unfold(self, folded: "_Folded") -> None:
        self._folded = None
        if self._few is not None:
            self._few = set(folded.places().tolist())
            self.room = _FEW_BYTES * len(self._few)
        else:
            self._has = np.zeros(folded.size, np.bool_)
            self._has[folded.places()] = True
            self.room = folded.size

    @property
    def is_folded(self) -> bool:
        """Whether it takes as little room as can be."""
        return self._folded is not None

    def add(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take rising numbers, fewer than are remembered from first to last; return which are new."""
        self._lay_down(self.top)
        self._floor = self.top = max(self.top, int(numbers[-1]))
        return self._add_below(numbers)

    def add_one(self, number: int) -> bool:
        """Take a number; return whether it is new."""
        ahead = number - self.top
        if ahead > 0:
            if number - self._floor <= _RECENT_MAX:
                self._recent = self._recent << ahead | 1
            else:
                self._lay_down(number - 1)
                self._recent = 1
            self.top = number
            return True
        if number > self._floor:
            bit = 1 << -ahead
            new = not self._recent & bit
            self._recent |= bit
            return new
        return bool(self._add_below(np.array([number], np.int64))[0])

    def _lay_down(self, floor: int) -> None:
        """Put the last numbers to the others."""
        if self._recent:
            data = self._recent.to_bytes((self.top - self._floor + 7) // 8, "little")
            bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
            self._add_below(self.top - np.flatnonzero(bits)[::-1])
        self._recent, self._floor = 0, floor

    def _add_below(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take numbers up to the floor."""
        if self._folded is not None:
            self._unfold(self._folded)
        if self._few is not None:
            return self._add_to_few(numbers.tolist(), self._few)
        last = int(numbers[-1])
        if last > self._has_top:
            self._advance(last, last - int(numbers[0]))
        places = numbers % len(self._has)
        old = max(self._has_top - len(self._has), self.top - self._most)
        new: NDArray[np.bool_] = (numbers > old) & ~self._has[places]
        self._has[places[new]] = True
        return new

    def _add_to_few(self, numbers: list[int], few: set[int]) -> NDArray[np.bool_]:
        new = [number not in few and number > self.top - self._most for number in numbers]
        few.update(numbers)
        self.room = _FEW_BYTES * len(few)
        if len(few) > _FEW_MAX:
            self._spread(few)
        return np.array(new, np.bool_)

    def _spread(self, few: set[int]) -> None:
        """Have room for all numbers up to the highest, now that there are many."""
        self._few = None
        self._has = np.zeros(min(self._most, _REMEMBERED_MIN), np.bool_)
        self.room = len(self._has)
        known = np.array(sorted(number for number in few if number > self.top - self._most), np.int64)
        if len(known):
            top = int(known[-1])
            self._advance(top, top - int(known[0]))
            self._has[known[known > top - len(self._has)] % len(self._has)] = True

    def _advance(self, last: int, span: int) -> None:
        """Make room for numbers up to a new highest one."""
        wanted = min(self._most, 1 << max(4 * span, 2 * last).bit_length())
        top = self._has_top
        if wanted > len(self._has):
            # A publisher that sends little is to take little room: it grows with what has been sent.
            known = np.flatnonzero(self._has)
            size = len(self._has)
            before = top - (top - known) % size
            self._has = np.zeros(wanted, np.bool_)
            self.room = wanted
            self._has[before[before > 0] % wanted] = True
        size = len(self._has)
        if last - top >= size:
            self._has[:] = False
        else:
            self._has[np.arange(top + 1, last + 1) % size] = False
        self._has_top = last


class _Folded:
    """Rising whole numbers in little room: as runs, because nearly all follow on each other, or as bits."""

    __slots__ = ("_bits", "_runs", "size")

    def __init__(self, runs: NDArray[np.int64] | None, bits: NDArray[np.uint8] | None, size: int) -> None:
        self.size = size
        """Of the array that these are places of; 0 if they are of none."""
        self._runs = runs
        self._bits = bits

    @classmethod
    def of(cls, places: NDArray[np.int64], size: int) -> "_Folded":
        """Fold places of an array of this size, or any numbers."""
        breaks = np.flatnonzero(np.diff(places) != 1)
        firsts = places[np.concatenate(([0], breaks + 1))] if len(places) else places
        lasts = places[np.concatenate((breaks, [len(places) - 1]))] if len(places) else places
        runs = np.stack((firsts, lasts))
        if size and runs.nbytes > size // 8:
            marked = np.zeros(size, np.bool_)
            marked[places] = True
            return cls(None, np.packbits(marked), size)
        return cls(runs, None, size)

    @property
    def room(self) -> int:
        """Bytes that it takes."""
        return sum(array.nbytes for array in (self._runs, self._bits) if array is not None)

    def places(self) -> NDArray[np.int64]:
        """What was folded."""
        if self._bits is not None:
            return np.flatnonzero(np.unpackbits(self._bits, count=self.size))
        if self._runs is None or not self._runs.shape[1]:
            return np.zeros(0, np.int64)
        firsts, lasts = self._runs
        lengths = lasts - firsts + 1
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        found: NDArray[np.int64] = np.repeat(firsts, lengths) + within
        return found


class Marked:
    """Which events have come of those that are sent again: each once for every time (for every mark)."""

    def __init__(self, most: int = REMEMBERED_MAX) -> None:
        self._most = most
        # Ordered: of a plain one, the first is found only after all that were deleted before it.
        self._known: OrderedDict[tuple[str, int, int], None] = OrderedDict()

    def add(self, origin: str, mark: int, numbers: Any) -> Any:
        """Take numbers of an origin under a mark, which other origins may have too; return which are new.

        Of one number, whether it is.
        """
        if isinstance(numbers, int):
            return bool(self.add(origin, mark, np.array([numbers]))[0])
        known = self._known
        given = [(origin, mark, number) for number in numbers.tolist()]
        new = np.array([one not in known for one in given], np.bool_)
        known.update(dict.fromkeys(given))
        while len(known) > self._most:
            known.popitem(last=False)
        return new


class Seen:
    """The numbers that have come, by origin.

    Those of origins that are not heard of for a while are folded (`fold_idle`), and earlier where all
    together take too much room; of what is folded, the oldest is forgotten when that is too much.
    """

    def __init__(
        self,
        most: int = REMEMBERED_MAX,
        origins: int = _ORIGINS_MAX,
        *,
        unfolded_max: int = UNFOLDED_MAX,
        folded_max: int = FOLDED_MAX,
    ) -> None:
        self._most = most
        self._origins_max = origins
        self._unfolded_max = unfolded_max
        self._folded_max = folded_max
        self._origins: dict[str, Numbers] = {}
        self._wide: dict[str, int] = {}
        """The room of origins that take much, who was heard of last at the end."""
        self._wide_bytes = 0
        self._idle: set[str] = set()
        """Those of them that have not been heard of since the last look."""
        self._folded: dict[str, int] = {}
        """The room of origins that are folded, the oldest first."""
        self._folded_bytes = 0

    @property
    def room(self) -> int:
        """Bytes that the numbers of origins take which take much."""
        return self._wide_bytes + self._folded_bytes

    def fold_idle(self) -> None:
        """Fold the numbers of all who have not been heard of since this was called last."""
        for origin in list(self._idle):
            self._fold(origin)
        self._idle = set(self._wide)

    def _fold(self, origin: str) -> None:
        known = self._origins[origin]
        self._let_go(origin)
        known.fold()
        self._folded[origin] = known.room
        self._folded_bytes += known.room
        while self._folded_bytes > self._folded_max:
            oldest = next(iter(self._folded))
            self._let_go(oldest)
            del self._origins[oldest]

    def _let_go(self, origin: str) -> None:
        """Count an origin no longer."""
        self._idle.discard(origin)
        self._wide_bytes -= self._wide.pop(origin, 0)
        self._folded_bytes -= self._folded.pop(origin, 0)

    def _note(self, origin: str, known: Numbers) -> None:
        """An origin takes much room, and was heard of now."""
        self._let_go(origin)
        self._wide[origin] = known.room
        self._wide_bytes += known.room
        while self._wide_bytes > self._unfolded_max and len(self._wide) > 1:
            self._fold(next(iter(self._wide)))

    def take(self, origin: str, numbers: Any) -> tuple[Any, int]:
        """Take rising numbers of an origin; return which are new, and the highest that came before them.

        Of one number, whether it is.
        """
        known = self._origins.get(origin)
        if known is None or 2 * len(self._origins) > self._origins_max:
            known = self._heard_of(origin)
        top = known.top
        new = known.add_one(numbers) if type(numbers) is int else known.add(numbers)
        if known.room >= _ROOM_MIN and not known.is_folded:
            self._note(origin, known)
        return new, top

    def add(self, origin: str, numbers: Any) -> Any:
        """The same, without the highest."""
        return self.take(origin, numbers)[0]

    def top(self, origin: str) -> int:
        """The highest number of an origin, or 0."""
        known = self._origins.get(origin)
        return 0 if known is None else known.top

    def _heard_of(self, origin: str) -> Numbers:
        """Have an origin be the last that is forgotten. Until there are many, that may wait."""
        known = self._origins.pop(origin, None)
        if known is None:
            known = Numbers(self._most)
            if len(self._origins) >= self._origins_max:
                oldest = next(iter(self._origins))
                self._let_go(oldest)
                del self._origins[oldest]
        self._origins[origin] = known
        return known
