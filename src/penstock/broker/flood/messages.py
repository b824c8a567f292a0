"""What nodes that flood say to each other, besides events. All of it goes to every node."""

from typing import ClassVar

import msgspec

from penstock.wire.messages import Message


class Apart(Message, frozen=True, gc=False):
    """A node could not be reached for so long: whoever keeps events of that time, send them again.

    Goes to every node once: `count` rises with each that a node sends.
    """

    node: str
    count: tuple[int, int]
    seconds: float

    def aged(self, seconds: float) -> "Apart":  # noqa: D102 - as in Message
        return Apart(self.node, self.count, self.seconds + seconds)


class Missing(Message, frozen=True, gc=False):
    """A node may be missing events of the last seconds, as a neighbour is away. None: it is not any more.

    Goes to every node once: `count` rises with each that a node sends. It is said again as long as it holds.
    """

    renews: ClassVar[bool] = True

    node: str
    count: tuple[int, int]
    seconds: float | None

    def aged(self, seconds: float) -> "Missing":  # noqa: D102
        later = None if self.seconds is None else self.seconds + seconds
        return Missing(self.node, self.count, later)


class Gone(Message, frozen=True, gc=False):
    """Of what a node asked for, so many events are no longer kept by another one."""

    node: str
    count: tuple[int, int]
    keeper: str
    events: int


class Life(Message, frozen=True, gc=False):
    """A node was there so many seconds ago, in this life; `number` rises each time that it says so."""

    node: str
    incarnation: int
    number: int
    seconds: float = 0.0

    def aged(self, seconds: float) -> "Life":  # noqa: D102
        return msgspec.structs.replace(self, seconds=self.seconds + seconds)


class Publishes(Message, frozen=True, gc=False):
    """A publisher is a client of a node, by what that node said of it last; or has `left` it.

    `origin`, `turn` and `acked` are as in Advertise; `acked` is as old as the rest.
    """

    origin: str
    turn: int
    life: Life
    acked: tuple[tuple[float, int, int], ...] = ()
    left: bool = False
    homes: tuple[tuple[int, str, int], ...] = ()
    """Where it was in earlier turns, as far as that is known: the turn, a node, and which life of it."""

    def aged(self, seconds: float) -> "Publishes":  # noqa: D102
        return msgspec.structs.replace(self, life=self.life.aged(seconds))

    @property
    def version(self) -> tuple[int, int]:
        """Higher in each later statement about the same publisher."""
        return self.turn, self.life.number


class Whereabouts(Message, frozen=True, gc=False):
    """Which nodes are there, and who publishes at them."""

    lives: tuple[Life, ...]
    publishers: tuple[Publishes, ...] = ()

    def aged(self, seconds: float) -> "Whereabouts":  # noqa: D102
        return Whereabouts(
            tuple(life.aged(seconds) for life in self.lives),
            tuple(publisher.aged(seconds) for publisher in self.publishers),
        )


class Ended(Message, frozen=True, gc=False):
    """A life of a node may be over, and with it what it kept.

    Goes to every node once, as Apart does: `by` has noticed it, `noticed` seconds ago. Nobody behind the
    sender has heard of that life for `seconds`.
    """

    node: str
    incarnation: int
    by: str
    count: tuple[int, int]
    seconds: float
    noticed: float = 0.0

    def aged(self, seconds: float) -> "Ended":  # noqa: D102
        later = self.seconds + seconds, self.noticed + seconds
        return msgspec.structs.replace(self, seconds=later[0], noticed=later[1])
