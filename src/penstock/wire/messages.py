"""The messages of the network, as typed structs that know their own kind, size, trace form and encoding.

A client speaks the same words as a broker, with less in them: its Subscribe names no trees, its Advertise no
epoch, its Publish no origin; the first broker fills these in. Between brokers of `protocol = "trees"`,
everything but events travels in numbered Control messages, so that what is lost, repeated or overtaken is
noticed (see `penstock.broker.trees.sessions`).

A protocol may bring messages of its own: subclasses of Message, which its codec is told of
(`penstock.wire.codec`). Events travel as `Publish`, or many at once as `penstock.wire.blocks.Block`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.names import Key, Tree
from penstock.model.packed import encode_event
from penstock.wire.blocks import Block, Header, size_of
from penstock.wire.encoding import encode

Session: TypeAlias = tuple[int, int]
"""Which life of a broker, and which time that the link came up in it. Later ones are larger."""

NO_TREES: Final[frozenset[Tree]] = frozenset()

Brief: TypeAlias = dict[str, Any]
"""A message in a few words, for a trace."""

TextOf: TypeAlias = Callable[[Any], str]
"""How a trace writes a filter or a key."""

_TREES_SHOWN: Final = 8
"""Of more trees than these, a trace has only the number: without advertisements there is one per broker."""


class Message(
    msgspec.Struct, array_like=True, frozen=True, gc=False, tag=str.lower, forbid_unknown_fields=True
):
    """What goes from one broker to another. The tag is the name of the class in lower case."""

    work: ClassVar[str] = "other"
    """What it counts as where service times are given: publish, subscribe, unsubscribe or other."""

    renews: ClassVar[bool] = False
    """Whether it only says that its sender is still there, so that a network at rest may go on saying it."""

    @property
    def kind(self) -> str:
        """What it counts as in traces and results."""
        return type(self).__name__

    @property
    def parts(self) -> "Sequence[Message]":
        """The messages in it, or itself."""
        return (self,)

    def aged(self, seconds: float) -> "Message":
        """The same, if it was sent so long ago: what it says of the last seconds is about more of them."""
        return self

    def size(self) -> int:
        """Its bytes on the wire, without the frame."""
        return len(encode(self))

    def brief(self, text: TextOf) -> Brief:
        """What a trace says of it, besides its kind."""
        return {
            name: text(value) if isinstance(value, Predicate) else value
            for name, value in msgspec.structs.asdict(self).items()
        }


class Advertise(Message, frozen=True, gc=False):
    """Events that match this filter may come from where this comes from.

    The epoch is higher each time the same advertisement is sent out anew, to span its tree again. `origin` is
    in whose name events are numbered there, at whichever broker the publisher is, and `turn` how often that
    has begun anew. `acked` is what its earlier brokers have acknowledged: how long ago, how many events, and
    in which turn (see `penstock.broker.publishers`). `age` is for how long there has been such a tree:
    nobody has missed earlier events of it.
    """

    tree: Tree
    filter: Predicate
    epoch: int = 0
    origin: str = ""
    turn: int = 0
    acked: tuple[tuple[float, int, int], ...] = ()
    age: float = 0.0

    def aged(self, seconds: float) -> "Advertise":  # noqa: D102 - as in Message
        return msgspec.structs.replace(self, age=self.age + seconds)

    def brief(self, text: TextOf) -> Brief:  # noqa: D102 - as in Message
        return {"tree": self.tree, "filter": text(self.filter), "epoch": self.epoch}


class Unadvertise(Message, frozen=True, gc=False):
    """No more such events will come along this tree, for ever.

    `used`: some may have come, which are no longer kept. `ended`: because the broker that kept them ended.
    """

    tree: Tree
    used: bool = False
    ended: bool = False


class Unreachable(Message, frozen=True, gc=False):
    """The way to this tree is cut, for whoever came to it through the sender too. It may be found again.

    Nothing may have come from there for `silent` seconds.
    """

    tree: Tree
    silent: float = 0.0

    def aged(self, seconds: float) -> "Unreachable":  # noqa: D102
        return Unreachable(self.tree, self.silent + seconds)


class Subscribe(Message, frozen=True, gc=False):
    """Events of these trees that match the filter are wanted where this comes from.

    What is known under the key is replaced; what is known under the keys in `replaces` is taken back. A
    client that comes back after a failure says for how many `seconds` it has heard nothing, for how many
    seconds its last broker had not heard of all publishers (`unheard`), how many seconds ago (`age`) the
    subscription was made or changed, and the same of what it was `before`.
    """

    work: ClassVar[str] = "subscribe"

    key: Key
    filter: Predicate
    trees: frozenset[Tree] = NO_TREES
    replaces: tuple[Key, ...] = ()
    seconds: float = 0.0
    age: float = 0.0
    before: tuple[tuple[float, Predicate], ...] = ()
    unheard: float = 0.0

    def brief(self, text: TextOf) -> Brief:  # noqa: D102 - as in Message
        brief: Brief = {"filter": text(self.filter)}
        if self.key != brief["filter"]:
            brief["key"] = text(self.key)
        if self.trees:
            brief["trees"] = _some(self.trees)
        if self.replaces:
            brief["replaces"] = [text(key) for key in self.replaces]
        return brief


class Unsubscribe(Message, frozen=True, gc=False):
    """What was asked for under this key is no longer wanted."""

    work: ClassVar[str] = "unsubscribe"

    key: Key

    def brief(self, text: TextOf) -> Brief:  # noqa: D102
        return {"key": text(self.key)}


class Lost(Message, frozen=True, gc=False):
    """A broker has lost its way to these trees; whoever they come from, advertise them anew.

    Goes to every broker once: `count` rises with each that a broker sends. Each tree comes with the epoch
    in which the way was lost, so that one new epoch answers all who lost theirs.
    """

    broker: str
    count: tuple[int, int]
    trees: tuple[tuple[Tree, int], ...]


class CatchUp(Message, frozen=True, gc=False):
    """The sender may have missed events of this tree in the last `seconds`: have them sent again, to it.

    Goes along the tree to the publisher's broker, behind the subscriptions that it is for. `number` rises
    with each that a broker sends. With no seconds, only the path is to be confirmed.
    """

    tree: Tree
    number: int
    seconds: float

    def aged(self, seconds: float) -> "CatchUp":  # noqa: D102
        # Without seconds, nothing is asked for.
        return CatchUp(self.tree, self.number, self.seconds + seconds) if self.seconds else self


class CaughtUp(Message, frozen=True, gc=False):
    """All that was asked for with this number has been sent before this; but for so many events.

    `missed` is how many were published in that time and are no longer kept, wanted or not.
    """

    tree: Tree
    number: int
    missed: int = 0


Body: TypeAlias = Advertise | Unadvertise | Unreachable | Subscribe | Unsubscribe | Lost | CatchUp | CaughtUp


class _Numbered(Message, frozen=True, gc=False):
    session: Session
    number: int


class Control(_Numbered, frozen=True, gc=False):
    """Messages for a neighbour, numbered within the session of their sender."""

    bodies: tuple[Body, ...]

    @property
    def parts(self) -> Sequence[Message]:  # noqa: D102
        return self.bodies

    def aged(self, seconds: float) -> "Control":  # noqa: D102
        bodies = tuple(body.aged(seconds) for body in self.bodies)
        return Control(self.session, self.number, bodies)  # type: ignore[arg-type]

    def brief(self, text: TextOf) -> Brief:  # noqa: D102
        bodies = [{"kind": body.kind, **body.brief(text)} for body in self.bodies]
        return {"session": self.session, "number": self.number, "bodies": bodies}


class Felled(Message, frozen=True, gc=False):
    """There is no way to a tree: since so many seconds, or it was `unadvertised` so long ago.

    `ended`: because its broker ended, with what it kept.
    """

    tree: Advertise
    seconds: float
    unadvertised: bool = False
    ended: bool = False

    def aged(self, seconds: float) -> "Felled":  # noqa: D102
        return msgspec.structs.replace(self, seconds=self.seconds + seconds)


class Sync(_Numbered, frozen=True, gc=False):
    """All that the sender has to say to a neighbour at this number; what is not in it is no longer so.

    Very many subscriptions come in several parts, from 0 on and one behind the other; all but the last say
    that `more` follow. What is in none of them is no longer so.

    The first part also says which trees are `gone`, so that a broker that has just started knows what its
    clients may miss. `knows_gone`: of these, the sender has heard for as long as events are kept.
    """

    advertisements: tuple[Advertise, ...]
    subscriptions: tuple[Subscribe, ...]
    part: int = 0
    more: bool = False
    gone: tuple[Felled, ...] = ()
    knows_gone: bool = False

    def aged(self, seconds: float) -> "Sync":  # noqa: D102
        return msgspec.structs.replace(
            self,
            advertisements=tuple(one.aged(seconds) for one in self.advertisements),
            gone=tuple(felled.aged(seconds) for felled in self.gone),
        )

    def brief(self, text: TextOf) -> Brief:  # noqa: D102
        counts = {"advertisements": len(self.advertisements), "subscriptions": len(self.subscriptions)}
        return {"session": self.session, "number": self.number, **counts}


class Resync(Message, frozen=True, gc=False):
    """Something is missing: say all of it again."""


class Alive(_Numbered, frozen=True, gc=False):
    """The sender is there, and has sent so many Controls: renews the lease of all that came from it."""

    renews: ClassVar[bool] = True


class Publish(Message, frozen=True, gc=False):
    """One event on its way: a block of one, for whoever has the event itself and not its bytes.

    It has the methods of a Block that a core uses, so that one procedure decides about both. `filters` are
    those of the receiver's side that it is known to match, where the sender knows them all; None where the
    receiver has to find out. `keys` are, on the way to a client, the subscriptions that it is for.
    """

    work: ClassVar[str] = "publish"

    event: Event
    header: Header = Header("", "")
    numbers: int = 1
    """Its sequence number among those of its origin. Named as in a Block, which has several."""
    filters: tuple[Predicate, ...] | None = None
    keys: tuple[Key, ...] | None = None

    def __len__(self) -> int:
        return 1

    @property
    def name(self) -> tuple[str, int]:
        """What names an event wherever it is: its origin and its number."""
        return self.header.origin, self.numbers

    def split(self, kept: bool) -> "tuple[Publish | None, Publish | None]":
        """The events that are kept, and the others."""
        return (self, None) if kept else (None, self)

    def count(self, which: bool) -> int:
        """How many events are chosen."""
        return int(which)

    def with_header(self, header: Header) -> "Publish":
        """The same event under another header."""
        return Publish(self.event, header, self.numbers, self.filters, self.keys)

    def without_keys(self, refused: Mapping[Key, bool]) -> "Publish | None":
        """The same without subscriptions that are refused it, by their keys; None if nothing is left."""
        left = tuple(key for key in self.keys or () if not refused.get(key))
        return Publish(self.event, self.header, self.numbers, self.filters, left) if left else None

    def as_block(self) -> Block:
        """The same as bytes."""
        block = Block.of(self.header, [self.numbers], [encode_event(self.event)])
        return block if self.keys is None else block.with_all_keys(self.keys)

    def size(self) -> int:  # noqa: D102
        keys = None if self.keys is None else len(self.keys)
        return size_of(self.header, 1, self.numbers, keys, len(encode_event(self.event)))

    def brief(self, text: TextOf) -> Brief:  # noqa: D102
        brief: Brief = {"event": self.event.attributes}
        if self.header.origin:
            brief.update(tree=self.header.tree, origin=self.header.origin, number=self.numbers)
        return brief


Events: TypeAlias = Publish | Block
"""Events on their way, of one tree and one origin."""


def _some(trees: Iterable[str]) -> list[str] | int:
    names = sorted(trees)
    return names if len(names) <= _TREES_SHOWN else len(names)
