"""What a node or a client is handed of the world: time, chance, and connections to others.

A program's world is asyncio (`penstock.net.world`); that of a simulated process is virtual
(`penstock.sim.whole`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from penstock.node.connection import FrameConnection


T = TypeVar("T")

Pace: TypeAlias = Callable[[], None]
"""Called now and then by what takes long."""


def no_pace() -> None:
    """Go on."""


class Spent(NamedTuple):
    """What something took that was computed."""

    seconds: float
    """Of a processor."""
    rested: float = 0.0
    """Seconds for which it paused."""


class Timer(Protocol):
    """Something that will be called."""

    def cancel(self) -> None:
        """Do not call it."""


class World(Protocol):
    """Time, chance and connections."""

    def time(self) -> float:
        """Seconds that only ever rise, from some moment on."""

    def wall_time(self) -> float:
        """Seconds since the epoch, for what tokens say."""

    def cpu_time(self) -> float:
        """Seconds that a processor has worked for this thread: it rises only while something is done."""

    def compute(self, work: "Callable[[Pace], T]", on_done: "Callable[[T, Spent], object]") -> None:
        """Do something that may take long, and that reads and changes nothing else, beside everything else.

        `work` calls the pace that it is given now and then, which may have it pause; it raises nothing.
        `on_done` is told what came of it and what it took: later, or under virtual time at once.
        """

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Call something in so many seconds; with 0, after what is being done now."""

    def dial(
        self, way: Any, make: "Callable[[], FrameConnection]", on_failed: Callable[[Exception], None]
    ) -> Timer:
        """Connect to somebody; `connection_made` of what `make` gives says that it has worked.

        Else `on_failed` is told why not, with a NetworkError. What is returned ends the try.
        """

    def secret(self) -> str:
        """32 hexadecimal digits that nobody can guess."""

    def mark(self) -> int:
        """62 random bits, not all of them 0."""

    def share(self) -> float:
        """A number between 0 and 1."""
