"""The messages of the network, as typed structs.

A client speaks the same words as a broker, with less in them: its Subscribe names no trees, its Advertise no
epoch, its Publish no number; the first broker fills these in. Between brokers, everything but publications
travels in numbered Control messages, so that what is lost, repeated or overtaken is noticed (see
`penstock.broker.sessions`).
"""

from typing import TypeAlias

import msgspec

from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.names import Key, Tree

Session: TypeAlias = tuple[int, int]
"""Which life of a broker, and which time that the link came up in it. Later ones are larger."""

NO_TREES: frozenset[Tree] = frozenset()


class Advertise(msgspec.Struct, frozen=True, gc=False):
    """Events that match this filter may come from where this comes from.

    The epoch is higher each time the same advertisement is sent out anew, to span its tree again.
    """

    tree: Tree
    filter: Predicate
    epoch: int = 0


class Unadvertise(msgspec.Struct, frozen=True, gc=False):
    """No more such events will come along this tree, for ever."""

    tree: Tree


class Unreachable(msgspec.Struct, frozen=True, gc=False):
    """The way to this tree is cut, for whoever came to it through the sender too. It may be found again."""

    tree: Tree


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    """Events of these trees that match the filter are wanted where this comes from.

    What is known under the key is replaced; what is known under the keys in `replaces` is taken back.
    """

    key: Key
    filter: Predicate
    trees: frozenset[Tree] = NO_TREES
    replaces: tuple[Key, ...] = ()


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    """What was asked for under this key is no longer wanted."""

    key: Key


class Lost(msgspec.Struct, frozen=True, gc=False):
    """A broker has lost its way to these trees; whoever they come from, advertise them anew.

    Goes to every broker once: `count` rises with each that a broker sends. Each tree comes with the epoch
    in which the way was lost, so that one new epoch answers all who lost theirs.
    """

    broker: str
    count: tuple[int, int]
    trees: tuple[tuple[Tree, int], ...]


Body: TypeAlias = Advertise | Unadvertise | Unreachable | Subscribe | Unsubscribe | Lost


class Control(msgspec.Struct, frozen=True, gc=False):
    """Messages for a neighbour, numbered within the session of their sender."""

    session: Session
    number: int
    bodies: tuple[Body, ...]


class Sync(msgspec.Struct, frozen=True, gc=False):
    """All that the sender has to say to a neighbour at this number; what is not in it is no longer so."""

    session: Session
    number: int
    advertisements: tuple[Advertise, ...]
    subscriptions: tuple[Subscribe, ...]


class Resync(msgspec.Struct, frozen=True, gc=False):
    """Something is missing: say all of it again."""


class Alive(msgspec.Struct, frozen=True, gc=False):
    """The sender is there, and has sent so many Controls: renews the lease of all that came from it."""

    session: Session
    number: int


class Publish(msgspec.Struct, frozen=True, gc=False):
    """An event on its way down a tree, the `number`-th of that tree.

    `filters` are those of the receiver's side that it is known to match, where the sender knows them all;
    None where the receiver has to find out.
    """

    event: Event
    tree: Tree = ""
    number: int = 0
    filters: tuple[Predicate, ...] | None = None


class LinkUp(msgspec.Struct, frozen=True, gc=False):
    """A neighbour or a client can be reached. Said by the runtime, not by the other side."""

    client: bool = False


class LinkDown(msgspec.Struct, frozen=True, gc=False):
    """It cannot be reached any more. Said by the runtime.

    With `keep`, what a neighbour has asked for stays a while, so that events for those behind it are not
    taken for unwanted until another way to them is found; a second LinkDown ends it.
    """

    keep: bool = False


class Tick(msgspec.Struct, frozen=True, gc=False):
    """Time has passed: renew leases, and end those that have run out. Said by the runtime."""


Message: TypeAlias = (
    Advertise
    | Unadvertise
    | Subscribe
    | Unsubscribe
    | Publish
    | Control
    | Sync
    | Resync
    | Alive
    | LinkUp
    | LinkDown
    | Tick
)
