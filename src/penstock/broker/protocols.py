"""The protocols by name: what makes the core of a node, and what others have to know of it.

The simulator, `penstock check`, the live broker and the benchmarks make cores here and nowhere else. A new
protocol is a module with a core (`penstock.broker.core`), and a line in PROTOCOLS.
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Final, NamedTuple

import msgspec

from penstock.broker.core import Core
from penstock.broker.flood.messages import Apart, Ended, Gone, Missing, Whereabouts
from penstock.broker.flood.node import FloodNode
from penstock.broker.needs import Matching
from penstock.broker.trees.broker import Broker
from penstock.errors import PenstockError
from penstock.modules import brought_along
from penstock.routing.schemes.catalog import scheme_named
from penstock.wire.codec import Codec
from penstock.wire.messages import Alive, Control, Message, Resync, Sync


class CoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a core is told when it is made. A protocol looks at what it knows of."""

    scheme: str = "covering"
    advertisements: bool = True
    incarnation: int = 0
    """Higher than in any earlier life of a node of this name that did not keep its state."""
    lease: float | None = None
    """For how long a neighbour's state stays without hearing of it; None: until its link is down."""
    linger: float = 0.0
    """For how long events are still asked for on a path that another has taken the place of."""
    condenses: bool = False
    """Whether neighbours are told once of what one message changes several times."""
    keep: float = 0.0
    """For how long published events are kept for those who were apart, and for up to three times `keep` while
    there is room (`keep_bytes`); 0: not at all. Then a core says none of Keep, Replay and Missed. Only
    reliable links can be asked to catch up."""
    slice_size: int = 128
    """Subscriptions that are asked for, or told, at a time: a few milliseconds' worth. For more, a core asks
    to be woken at once, so that others have a turn."""


class Protocol(NamedTuple):
    """A protocol that nodes run."""

    name: str
    make: Callable[[str, Matching, CoreSettings], Core]
    """Makes the core of a node, by its name."""
    messages: tuple[type[Message], ...]
    """What its nodes say to each other, besides events."""
    checkers: tuple[str, ...] = ()
    """The checkers of its own, by their names in `penstock.sim.checkers.catalog`."""
    schemes: bool = False
    """Whether it has routing schemes."""

    @property
    def codec(self) -> Codec:
        """What reads its messages."""
        return Codec(self.messages)


def _trees(name: str, matching: Matching, settings: CoreSettings) -> Core:
    return Broker(
        name,
        scheme_named(settings.scheme),
        matching,
        advertisements=settings.advertisements,
        incarnation=settings.incarnation,
        lease=settings.lease,
        linger=settings.linger,
        condenses=settings.condenses,
        keep=settings.keep,
        slice_size=settings.slice_size,
    )


def _flood(name: str, matching: Matching, settings: CoreSettings) -> Core:
    return FloodNode(
        name,
        matching,
        advertisements=settings.advertisements,
        incarnation=settings.incarnation,
        linger=settings.linger,
        keep=settings.keep,
    )


PROTOCOLS: Final = {
    protocol.name: protocol
    for protocol in (
        Protocol("trees", _trees, (Control, Sync, Resync, Alive), ("loops", "trees", "tables"), schemes=True),
        Protocol("flood", _flood, (Apart, Missing, Gone, Whereabouts, Ended)),
    )
}


def protocol_named(name: str) -> Protocol:
    """The protocol of this name; or one of a module of its own, named as in "package.module:NAME"."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    if ":" not in name:
        near = get_close_matches(name, PROTOCOLS, 1)
        instead = f"perhaps {near[0]}" if near else f"there are {', '.join(PROTOCOLS)}, or module:NAME"
        raise PenstockError(f"no protocol {name!r:.80}; {instead}")
    found = brought_along("protocol", name)
    if not isinstance(found, Protocol):
        raise PenstockError(f"no protocol {name!r:.80}: it is no penstock.broker.protocols.Protocol")
    return found
