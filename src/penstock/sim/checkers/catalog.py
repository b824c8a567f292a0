"""The checkers by name: those of every network, and those that only some protocols have a use for."""

from collections.abc import Iterable
from typing import Final, TypeVar

from penstock.broker.protocols import Protocol
from penstock.errors import PenstockError
from penstock.sim.checkers.checker import Checker
from penstock.sim.checkers.contract import Idle, Kept
from penstock.sim.checkers.delivered import Delivered
from penstock.sim.checkers.loops import Loops
from penstock.sim.checkers.once import Once
from penstock.sim.checkers.order import Order
from penstock.sim.checkers.prompt import Prompt
from penstock.sim.checkers.silence import Silence
from penstock.sim.checkers.strangers import Strangers
from penstock.sim.checkers.tables import Tables
from penstock.sim.checkers.trees import Ways
from penstock.sim.network import Network
from penstock.sim.whole.network import WholeNetwork

GENERIC: Final[dict[str, type[Checker]]] = {
    "delivered": Delivered,
    "once": Once,
    "order": Order,
    "silence": Silence,
}
"""What must be true whatever brokers say to each other."""

_PLAIN_ONLY: Final = ("once", "loops")
"""Of whole nodes, the contract says the first; and what is sent again goes over a link again."""

OF_PROTOCOLS: Final[dict[str, type[Checker]]] = {"loops": Loops, "trees": Ways, "tables": Tables}
"""What a protocol may promise besides: it names these in `penstock.broker.protocols.Protocol.checkers`."""

WHOLE: Final[dict[str, type[Checker]]] = {
    "kept": Kept,
    "prompt": Prompt,
    "strangers": Strangers,
    "idle": Idle,
}
"""What whole nodes and clients promise besides."""

C = TypeVar("C", bound=Checker)


def checkers_for(protocol: Protocol, network: Network) -> dict[str, Checker]:
    """The checkers of a network whose brokers run a protocol, by name. They do not look on yet."""
    unknown = [name for name in protocol.checkers if name not in OF_PROTOCOLS]
    if unknown:
        raise PenstockError(
            f"protocol {protocol.name}: no checker {unknown[0]!r}; there are {', '.join(OF_PROTOCOLS)}"
        )
    kinds = GENERIC | {name: OF_PROTOCOLS[name] for name in protocol.checkers}
    return {name: kind(network) for name, kind in kinds.items()}


def checkers_for_whole(network: WholeNetwork) -> dict[str, Checker]:
    """The checkers of a network of whole nodes."""
    found = checkers_for(network.protocol, network)  # type: ignore[arg-type]
    for name in _PLAIN_ONLY:
        found.pop(name, None)
    return {**found, **{name: kind(network) for name, kind in WHOLE.items()}}  # type: ignore[arg-type]


def promises(*, whole: bool, protocol: Protocol | None = None) -> dict[str, tuple[str, ...]]:
    """What each checker holds networks to, by its name; those of one protocol, or of all."""
    named = OF_PROTOCOLS if protocol is None else {name: OF_PROTOCOLS[name] for name in protocol.checkers}
    kinds = GENERIC | named
    if whole:
        kinds = WHOLE | {name: kind for name, kind in kinds.items() if name not in _PLAIN_ONLY}
    return {name: kind.holds for name, kind in kinds.items()}


def the(kind: type[C], checkers: Iterable[Checker]) -> C:
    """The checker of a kind."""
    return next(checker for checker in checkers if isinstance(checker, kind))
