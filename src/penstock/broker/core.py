"""The seam: what a node runs. Message in, effects out, facts for those who look on.

A protocol (`penstock.broker.protocols`) makes a Core. The simulator, `penstock check`, the live broker and
the benchmarks know nothing else of it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from penstock.broker.clients import Client
from penstock.broker.effects import Effect
from penstock.broker.forwarding import EVERYTHING
from penstock.filters.predicate import Predicate
from penstock.wire.blocks import Block
from penstock.wire.messages import Message


class Facts(msgspec.Struct, frozen=True):
    """What may be asked of any core: for status, metrics, results and checkers. What it has not got is 0."""

    subscriptions: int = 0
    """Rows of its table: what clients and neighbours have asked for."""
    filters: int = 0
    """Different filters among these."""
    trees: int = 0
    """Advertisements that it knows."""
    matched: int = 0
    """Times that an event was matched against filters."""
    covering_tests: int = 0
    """Times that two filters were compared."""
    duplicates: int = 0
    """Events that came again, and were dropped."""
    late: int = 0
    """Events that came after later ones of the same publisher."""
    withheld: int = 0
    """Events that a client was not to see."""
    unrouted: int = 0
    """Events that there was nowhere to send to any more."""


class Prospects(NamedTuple):
    """What may be published, as far as a core knows: by this, subscriptions are found that match nothing.

    A core that knows nothing of it says `Prospects()`, and no subscription is ever taken for one of these.
    """

    sees_all: bool = False
    """Whether all events of the network pass here, not only those published here and those that match."""
    elsewhere: Sequence[Predicate] = (EVERYTHING,)
    """What may be published at other nodes, of which what matches nothing does not pass here."""
    advertised: Sequence[Predicate] = ()
    """What publishers anywhere have advertised."""
    unadvertised: Sequence[Predicate] = ()
    """What clients here have subscribed to, and no advertisement has overlapped since."""
    subscribers: Callable[[Predicate], Iterable[str]] = lambda _predicate: ()
    """The links of the clients that have subscribed to exactly this."""


class Core(Protocol):
    """One node. `handle` is all that happens to it; it reads no clock and draws nothing at random."""

    name: str
    hears_load: bool
    """Whether it wants to be told how busy its links are (`penstock.broker.local.Load`)."""

    def handle(self, message: Message | Block, link: str, now: float) -> list[Effect]:
        """Take a message that came over a link; return what is to be done about it, in this order.

        Links are named by the runtime: a neighbour's by its name. Messages of `penstock.broker.local` tell
        of links and time. Clients say Subscribe, Unsubscribe, Advertise, Unadvertise, and publish under the
        key of an advertisement; events that are sent again after a failure come from the link "".
        """

    def facts(self) -> Facts:
        """What there is to say of it."""

    def prospects(self) -> Prospects:
        """What may be published, for looking after subscriptions that match nothing."""

    def client(self, link: str) -> Client:
        """What is known of a client that is there."""

    def close(self) -> None:
        """It will be sent nothing more: let go of what is shared with others, such as a matcher."""
