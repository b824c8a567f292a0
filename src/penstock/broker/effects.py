"""What a broker asks its runtime to do."""

from typing import NamedTuple, TypeAlias

from penstock.model.names import Key
from penstock.wire.blocks import Block
from penstock.wire.messages import Message, Publish


class Send(NamedTuple):
    """Send a message to a neighbour."""

    link: str
    message: Message


class Deliver(NamedTuple):
    """Give an event to a client, once, whichever of its subscriptions it matches."""

    link: str
    publish: Publish
    subscriptions: tuple[Key, ...]


class Refuse(NamedTuple):
    """Tell a client that what it asked for cannot be done, and why."""

    link: str
    reason: str


class SendBlock(NamedTuple):
    """Send events to a neighbour."""

    link: str
    block: Block


class DeliverBlock(NamedTuple):
    """Give events to a client, each once, with the keys of the subscriptions that it matches."""

    link: str
    block: Block


class RefuseBlock(NamedTuple):
    """Tell a client that these events of it are not accepted, and why."""

    link: str
    block: Block
    reason: str


Effect: TypeAlias = Send | Deliver | Refuse | SendBlock | DeliverBlock | RefuseBlock
