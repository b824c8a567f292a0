"""What a core is told by the runtime that it runs in, rather than by somebody else."""

from typing import Final

import msgspec

from penstock.broker.grants import EVERYTHING, Grants
from penstock.wire.messages import Brief, Message, TextOf


class Limits(msgspec.Struct, frozen=True):
    """How much one client may ask for."""

    subscriptions: int
    advertisements: int
    attributes: int = 2**62
    """Different ones that its subscriptions name."""


NO_LIMITS: Final = Limits(2**62, 2**62)


class LinkUp(Message, frozen=True, gc=False):
    """A neighbour or a client can be reached.

    Of a client: `origin` is in whose name its events are numbered, at whichever broker it is; `grants` and
    `limits` are what it may do, and how much of it. Of a neighbour: `incarnation` is higher in each life.
    """

    client: bool = False
    incarnation: int = 0
    origin: str = ""
    grants: Grants = EVERYTHING
    limits: Limits = NO_LIMITS

    def brief(self, text: TextOf) -> Brief:  # noqa: D102 - as in Message
        return {"client": self.client}


class LinkDown(Message, frozen=True, gc=False):
    """It cannot be reached any more.

    With `keep`, what a neighbour has asked for stays a while, so that events for those behind it are not
    taken for unwanted until another way to them is found; a second LinkDown ends it. Nothing has been heard
    from it for `silent` seconds. `ended`: it has said that it ends, so that nothing of it is missing.
    """

    keep: bool = False
    silent: float = 0.0
    ended: bool = False

    def brief(self, text: TextOf) -> Brief:  # noqa: D102
        return {}


class Tick(Message, frozen=True, gc=False):
    """Time has passed: renew leases, and end those that have run out. Said a few times in a lease."""


class Woken(Message, frozen=True, gc=False):
    """The time has come at which the core asked to be woken (`penstock.broker.effects.Wake`)."""


class Replayed(Message, frozen=True, gc=False):
    """What was asked for (`penstock.broker.effects.Replay`) has been sent; so many events were not kept."""

    tree: str
    number: int
    missed: int


class Ending(Message, frozen=True, gc=False):
    """This node ends. What is said now still reaches neighbours; nothing more will be."""


class LinkLoad(msgspec.Struct, frozen=True):
    """How busy a link to a neighbour is."""

    link: str
    queue: int
    """Bytes that wait to be sent or acknowledged."""
    rate: float
    """Bytes a second that were acknowledged lately."""
    delay: float
    """Seconds that the last acknowledged bytes took."""


class Load(Message, frozen=True, gc=False):
    """How busy the links to neighbours are. Said now and then to cores that ask for it (`hears_load`)."""

    links: tuple[LinkLoad, ...]
