"""What clients have asked for and advertised: their own names, and those that the network knows them by."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.broker.grants import EVERYTHING, Grants
from penstock.model.names import Key, Tree
from penstock.routing.schemes.scheme import Source


class Limits(NamedTuple):
    """How much one client may ask for."""

    subscriptions: int
    advertisements: int


NO_LIMITS = Limits(2**62, 2**62)


class Client:
    """One client."""

    __slots__ = ("advertisements", "grants", "limits", "names", "origin", "subscriptions")

    def __init__(self, origin: str = "", grants: Grants = EVERYTHING, limits: Limits = NO_LIMITS) -> None:
        self.origin = origin
        """In whose name its events are numbered, at whichever broker it is."""
        self.grants = grants
        self.limits = limits
        self.subscriptions: dict[Key, str] = {}
        """The network's name of each subscription, by the client's."""
        self.names: dict[Key, Key] = {}
        """The client's name, by the network's."""
        self.advertisements: dict[Key, Tree] = {}


class Clients(dict[str, Client]):
    """The clients of a broker, by their links."""

    def sources(self) -> Iterator[Source]:
        """All subscriptions of clients."""
        return (Source(link, name) for link, client in self.items() for name in client.names)
