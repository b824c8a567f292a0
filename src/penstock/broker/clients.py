"""What clients have asked for and advertised: their own names, and those that the network knows them by."""

from collections.abc import Iterator

from penstock.model.names import Key, Tree
from penstock.routing.schemes.scheme import Source


class Client:
    """One client."""

    __slots__ = ("advertisements", "names", "subscriptions")

    def __init__(self) -> None:
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
