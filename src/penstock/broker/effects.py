"""What a core asks its runtime to do. Every runtime carries out all of it."""

from typing import Final, Literal, TypeAlias

import msgspec

from penstock.model.names import Tree
from penstock.wire.blocks import Block
from penstock.wire.messages import Events, Message


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a message, or events, to a neighbour."""

    link: str
    message: Message | Block


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Give events to a client, each once, with the keys of the subscriptions that it is for."""

    link: str
    events: Events


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Tell a client that what it asked for cannot be done, or that these events are not accepted, and why.

    Events of a neighbour go back to where they were published, and are sent again from there.
    """

    link: str
    reason: str
    events: Events | None = None


class Wake(msgspec.Struct, frozen=True, gc=False):
    """Say Woken to the core at this time."""

    at: float


class Keep(msgspec.Struct, frozen=True, gc=False):
    """Keep events that were published here for a while after everybody has dealt with them."""

    events: Events


class Replay(msgspec.Struct, frozen=True, gc=False):
    """Send kept events of a tree again: those that not everybody had dealt with so many seconds ago.

    They come to the core as events from nowhere, marked as a replay; after them comes
    `penstock.broker.local.Replayed` with the same number.
    """

    tree: Tree
    number: int
    seconds: float


UNKNOWN: Final = 0
"""A number of events that nobody knows."""


class Missed(msgspec.Struct, frozen=True, gc=False):
    """Tell a client that it may have missed events, and how many at most.

    They are no longer kept (`expired`), or whoever kept them has ended, or has been out of reach for longer
    than it keeps anything (`unreachable`); how many that is may be UNKNOWN.
    """

    link: str
    count: int
    reason: Literal["expired", "unreachable"] = "expired"

    @property
    def text(self) -> str:
        """What the client is told."""
        events = {UNKNOWN: "events", 1: "up to 1 event"}.get(self.count, f"up to {self.count:,} events")
        why = "no longer kept" if self.reason == "expired" else "the broker that kept them cannot be reached"
        return f"{events} may have been missed: {why}"


class Behind(msgspec.Struct, frozen=True, gc=False):
    """Have a client know that it may be missing events of the last seconds, which are yet to come.

    Said again every few seconds for as long as that is so. Should this node die before they have come, the
    client asks the next one for them. With 0, all have come.

    `unheard`: for so long, publishers may have come elsewhere of which this node has not heard. The client
    asks the next one for what they published since, should that know them; else nobody is told of it.
    """

    link: str
    seconds: float
    unheard: float = 0.0


Effect: TypeAlias = Send | Deliver | Refuse | Wake | Keep | Replay | Missed | Behind
