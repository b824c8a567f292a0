"""A process under virtual time: the world of one node or client."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol, TypeVar

from penstock.node.connection import FrameConnection
from penstock.node.world import Pace, Spent, no_pace
from penstock.sim.clock import Clock
from penstock.wire.messages import Message

T = TypeVar("T")

_COMPUTING_MAX: Final = 0.05
"""Seconds that a filter takes at the most, which is what one takes that is refused as too expensive."""

_COMPUTING_BYTE: Final = 1e-5
"""Seconds for each byte of what comes of a filter."""


class Timer:
    """Something that will happen in a process, if that lives then."""

    __slots__ = ("_callback", "arguments", "due", "is_off")

    def __init__(self, due: float, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.due = due
        self.is_off = False
        self._callback = callback
        self.arguments = arguments

    def cancel(self) -> None:
        """Do not let it happen."""
        self.is_off = True

    def fire(self) -> None:
        """Now."""
        if not self.is_off:
            self.is_off = True
            self._callback(*self.arguments)


class Lines(Protocol):
    """What connects processes."""

    def dial(
        self,
        caller: "Process",
        callee: str,
        make: Callable[[], FrameConnection],
        on_failed: Callable[[Exception], None],
    ) -> Timer:
        """Try to connect."""


class Process:
    """One process, which is a `penstock.node.world.World` for what runs in it.

    While it is paused, as by SIGSTOP, nothing in it runs: bytes and timers wait, and come at once when it
    goes on, bytes first. When it dies, what it was to do is gone. Its clock may go wrong by a share, `drift`.
    """

    def __init__(self, name: str, clock: Clock, lines: Lines, random: Random, drift: float = 0.0) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.life = 0
        self._clock = clock
        self._lines = lines
        self._random = random
        self._rate = 1.0 + drift
        self._born = clock.now
        # Clocks of machines have nothing to do with each other.
        self._offset = random.uniform(0, 1e6)
        self._waiting: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._overdue: list[Timer] = []

    # The world

    def time(self) -> float:
        """Seconds by its own clock."""
        return self._offset + (self._clock.now - self._born) * self._rate

    def wall_time(self) -> float:
        """The same: there are no tokens here that end."""
        return self.time()

    def cpu_time(self) -> float:
        """Nothing that is done takes time here, but for what is computed elsewhere."""
        return 0.0

    def compute(self, work: Callable[[Pace], T], on_done: Callable[[T, Spent], object]) -> None:
        """Do something, which takes a time that depends on what comes of it, so that runs are the same."""
        result = work(no_pace)
        seconds = _seconds_of(result)
        self.call_later(seconds, on_done, result, Spent(seconds))

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Call something in so many seconds of its own clock."""
        due = self._clock.now + seconds / self._rate
        timer = Timer(due, callback, arguments)
        self._clock.at(due, self._fire, timer, self.life)
        return timer

    def _fire(self, timer: Timer, life: int) -> None:
        if life != self.life or not self.is_alive or timer.is_off:
            return
        if self.is_paused:
            self._overdue.append(timer)
        else:
            timer.fire()

    def dial(
        self, way: Any, make: Callable[[], FrameConnection], on_failed: Callable[[Exception], None]
    ) -> Timer:
        """Connect to another process, by its name."""
        return self._lines.dial(self, str(way), make, on_failed)

    def secret(self) -> str:
        """Digits that come up once."""
        return f"{self._random.getrandbits(128):032x}"

    def mark(self) -> int:
        """Bits of chance."""
        return self._random.getrandbits(62) | 1

    def share(self) -> float:
        """A share of chance."""
        return self._random.random()

    # What happens to it

    def take(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Something comes from outside: now, or when it goes on."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._waiting.append((callback, arguments))
        else:
            callback(*arguments)

    def pause(self) -> None:
        """Stand still."""
        self.is_paused = True

    def go_on(self) -> None:
        """Go on where it stood: take what has come, then what is overdue."""
        if not self.is_paused:
            return
        self.is_paused = False
        while self._waiting and not self.is_paused:
            callback, arguments = self._waiting.popleft()
            callback(*arguments)
        overdue, self._overdue = sorted(self._overdue, key=lambda timer: timer.due), []
        for timer in overdue:
            timer.fire()

    def die(self) -> None:
        """Be gone, with all that was to come."""
        self.is_alive = self.is_paused = False
        self.life += 1
        self._waiting.clear()
        self._overdue.clear()


def _seconds_of(result: object) -> float:
    """How long it took to find out what a filter is."""
    if isinstance(result, Message):
        return min(_COMPUTING_MAX, _COMPUTING_BYTE * result.size())
    return _COMPUTING_MAX
