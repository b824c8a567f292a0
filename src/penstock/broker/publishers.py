"""Who publishes on a tree, and what earlier brokers of the same publisher have acknowledged.

The broker that keeps events for those who are away may die. What it acknowledged until then its publisher
knows, and says so at its next broker, with its advertisement. So a broker that has a gap of the old tree
learns from the new one whether it can have missed anything, and how much at most.
"""

from collections.abc import Container
from typing import Final, NamedTuple

from penstock.wire.messages import Advertise

ANSWERED_KEEPS: Final = 3
"""For so many times as long as events are kept, answers are waited for, and trees that ended can be asked.

Of what is no longer kept, the answer says how many events there were, so that nobody is told in vain."""


FIRST_TURN: Final = 1
"""The turn of a publisher that is at its first broker."""


class Publisher(NamedTuple):
    """Whoever publishes on a tree."""

    origin: str = ""
    """In whose name its events are numbered, at whichever broker it is; "" if that is not one publisher."""
    turn: int = 0
    """How often it has begun anew; so of two trees, the later one."""
    acked: tuple[tuple[float, int, int], ...] = ()
    """When earlier brokers acknowledged its events, how many, and in which turn (0: in several).

    None of a group was acknowledged later than its time."""

    @classmethod
    def of(cls, message: Advertise, now: float) -> "Publisher":
        """The publisher that an advertisement names. What travels is how long ago something was."""
        acked = tuple((now - age, count, turn) for age, count, turn in message.acked)
        return cls(message.origin, message.turn, acked)

    def ages(self, now: float) -> tuple[tuple[float, int, int], ...]:
        """How long ago its events were acknowledged, for an advertisement."""
        return tuple((max(0.0, now - at), count, turn) for at, count, turn in self.acked)

    def acked_since(
        self, time: float, turns: Container[int], waited: float, others: Container[int] = ()
    ) -> int:
        """How many events may have been missed since a time, at most, by what earlier brokers acknowledged.

        Those of `turns` waited so long for who was away before they acknowledged anything. Events of `others`
        are somebody else's affair. Brokers of all further turns may not have known of anybody to wait for.
        """
        return sum(
            count
            for at, count, turn in self.acked
            if turn not in others and at >= (time + waited if turn in turns else time)
        )


NOBODY: Final = Publisher()
