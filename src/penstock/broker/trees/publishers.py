"""Who publishes on a tree, and what earlier brokers of the same publisher have acknowledged.

The broker that keeps events for those who are away may die. What it acknowledged until then its publisher
knows, and says so at its next broker, with its advertisement. So a broker that has a gap of the old tree
learns from the new one whether it can have missed anything, and how much at most.
"""

from typing import Final, NamedTuple

from penstock.wire.messages import Advertise


class Publisher(NamedTuple):
    """Whoever publishes on a tree."""

    origin: str = ""
    """In whose name its events are numbered, at whichever broker it is; "" if that is not one publisher."""
    turn: int = 0
    """How often it has begun anew; so of two trees, the later one."""
    acked: tuple[tuple[float, int], ...] = ()
    """When earlier brokers acknowledged its events, and how many: none of a group later than its time."""

    @classmethod
    def of(cls, message: Advertise, now: float) -> "Publisher":
        """The publisher that an advertisement names. What travels is how long ago something was."""
        return cls(message.origin, message.turn, tuple((now - age, count) for age, count in message.acked))

    def ages(self, now: float) -> tuple[tuple[float, int], ...]:
        """How long ago its events were acknowledged, for an advertisement."""
        return tuple((max(0.0, now - at), count) for at, count in self.acked)

    def acked_since(self, time: float) -> int:
        """How many events earlier brokers have acknowledged since a time, at most."""
        return sum(count for at, count in self.acked if at >= time)


NOBODY: Final = Publisher()
