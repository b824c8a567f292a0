"""What clients have asked for and advertised: their own names, and those that the network knows them by."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from penstock.broker.grants import EVERYTHING, Grants
from penstock.broker.local import NO_LIMITS, Limits, LinkUp
from penstock.filters.predicate import Predicate
from penstock.model.names import Key, Tree
from penstock.routing.schemes.scheme import Source

CLOCKS_SHARE: Final = 0.02
"""By how much two clocks may differ over a time, as a share of it: far more than those of machines do."""

_MADE_MAX: Final = 8
"""Changes of a subscription that are remembered."""


class Made(NamedTuple):
    """A subscription, and since when it is so; at whichever broker."""

    at: float
    filter: Predicate


class Client:
    """One client."""

    __slots__ = (
        "_last_made_at",
        "advertisements",
        "came_at",
        "grants",
        "limits",
        "made",
        "missing_since",
        "names",
        "origin",
        "subscriptions",
    )

    def __init__(self, origin: str = "", grants: Grants = EVERYTHING, limits: Limits = NO_LIMITS) -> None:
        self.origin = origin
        """In whose name its events are numbered, at whichever broker it is."""
        self.grants = grants
        self.limits = limits
        self.subscriptions: dict[Key, str] = {}
        """The network's name of each subscription, by the client's."""
        self.names: dict[Key, Key] = {}
        """The client's name, by the network's."""
        self.made: dict[Key, tuple[Made, ...]] = {}
        """Each subscription and what it was before it was changed, the last first, by the client's name."""
        self._last_made_at = float("-inf")
        self.advertisements: dict[Key, Tree] = {}
        self.came_at = 0.0
        self.missing_since: float | None = None
        """When it heard its last broker for the last time, if it may have missed events since."""

    @classmethod
    def of(cls, message: LinkUp, now: float) -> "Client":
        """A client that has come."""
        client = cls(message.origin, message.grants, message.limits)
        client.came_at = now
        return client

    def make(self, key: Key, made_at: float, predicate: Predicate) -> None:
        """A subscription was made, or changed, at a time."""
        self.made[key] = (Made(made_at, predicate), *self.made.get(key, ()))[:_MADE_MAX]
        self._last_made_at = max(self._last_made_at, made_at)

    def younger_than(self, age: float, now: float, keys: Iterable[Key]) -> dict[Key, Predicate | None]:
        """Of subscriptions, those that were made or changed after events of this age had been published.

        With what each was then; None if it was not there.
        """
        latest = now - age / (1 + CLOCKS_SHARE)
        if self._last_made_at <= latest:
            return {}
        return {
            key: next((one.filter for one in made if one.at <= latest), None)
            for key in keys
            if (made := self.made.get(key, ())) and made[0].at > latest
        }

    def why_not_subscribe(self, key: Key, predicate: Predicate) -> str | None:
        """What to say to a client that may not subscribe to this; None if it may."""
        why_not = self.grants.why_not("subscribe", predicate)
        if why_not is None and key not in self.subscriptions:
            return _too_many(len(self.subscriptions), self.limits.subscriptions, "subscriptions")
        return why_not

    def why_not_advertise(self, key: Key, predicate: Predicate) -> str | None:
        """What to say to a client that may not advertise this; None if it may."""
        why_not = self.grants.why_not("advertise", predicate)
        if why_not is None and key not in self.advertisements:
            return _too_many(len(self.advertisements), self.limits.advertisements, "advertisements")
        return why_not


def _too_many(count: int, most: int, what: str) -> str | None:
    return f"no more than {most:,} {what} are allowed" if count >= most else None


class Clients(dict[str, Client]):
    """The clients of a broker, by their links."""

    def sources(self) -> Iterator[Source]:
        """All subscriptions of clients."""
        return (Source(link, name) for link, client in self.items() for name in client.names)
