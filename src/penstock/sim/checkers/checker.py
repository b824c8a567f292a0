"""The interface of checkers."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.model.events import Event
from penstock.model.names import Key
from penstock.sim.network import Client, Network
from penstock.wire.messages import Publish


class Published(NamedTuple):
    """An event as it was published: by whom, and whether the network was at rest, so that all is known."""

    client: str
    event: Event
    at_rest: bool
    expected: dict[str, frozenset[Key]]
    """The clients that must get it, if the network is at rest, and for which of their subscriptions."""


class Checker:
    """Looks on, and says what is wrong. Every method does nothing unless a checker needs it."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def on_publish(self, published: Published) -> None:
        """A client has published an event."""

    def on_carry(self, a: str, b: str, publish: Publish) -> None:
        """A broker has sent an event to another."""

    def on_deliver(self, client: Client, publish: Publish, subscriptions: tuple[Key, ...]) -> None:
        """A client has got an event."""

    def at_rest(self) -> Iterator[str]:
        """Say what is wrong, now that nothing is under way."""
        return iter(())
