"""What was published, what came, and who wants what: brute force over predicates.

Times are in seconds since the torture began.
"""

from collections.abc import Iterable

import msgspec

from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.net.torture.networks import Network


class Published(msgspec.Struct):
    """An event that a client has published, or has tried to."""

    publisher: int
    sequence: int
    event: Event
    at: float
    acked: float | None = None
    """When its broker had taken it; None if that was never said."""
    is_probe: bool = False
    """Probes find out whether somebody is reached; nobody needs them to arrive."""
    brokers: frozenset[str] = frozenset()
    """Those that its publisher talked to when it published, and when it was acknowledged: one keeps it."""

    @property
    def key(self) -> tuple[int, int]:
        """By this it is known again."""
        return self.publisher, self.sequence


class Delivered(msgspec.Struct, frozen=True):
    """An event that came to a subscription."""

    subscription: int
    publisher: int
    sequence: int
    event: Event
    at: float
    late: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """By this it is known again."""
        return self.publisher, self.sequence


class Told(msgspec.Struct, frozen=True):
    """Something that a client was told about its connection or its events."""

    at: float
    client: int
    kind: str
    count: int = 0
    """Events that it is about, at most."""


class Interest(msgspec.Struct, frozen=True):
    """A subscription of a client, and its filter in a round."""

    subscription: int
    client: int
    filter: str


def interests(network: Network, filters: Iterable[str]) -> list[Interest]:
    """Who wants what, with these filters for all subscriptions in order."""
    owners = [number for number, client in enumerate(network.clients) for _ in client.subscriptions]
    pairs = enumerate(zip(owners, filters, strict=True))
    return [Interest(subscription, client, text) for subscription, (client, text) in pairs]


def wanted(interest: Interest, published: Iterable[Published]) -> list[Published]:
    """What a subscription must get, in the order given."""
    predicate = as_predicate(interest.filter)
    return [one for one in published if predicate.matches(one.event)]
