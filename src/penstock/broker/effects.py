"""What a core asks its runtime to do. Every runtime carries out all of it."""

from typing import TypeAlias

import msgspec

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


Effect: TypeAlias = Send | Deliver | Refuse | Wake
