"""What clients have asked for and advertised: their own names, and those that the network knows them by."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from penstock.broker.grants import EVERYTHING, Grants
from penstock.broker.local import NO_LIMITS, Limits, LinkUp
from penstock.filters.parsing import as_predicate
from penstock.filters.predicate import Predicate
from penstock.model.names import Key, Tree
from penstock.routing.schemes.scheme import Source
from penstock.wire.messages import Subscribe
from penstock.wire.requests import BEFORE_MAX

CLOCKS_SHARE: Final = 0.02
"""By how much two clocks may differ over a time, as a share of it: far more than those of machines do."""


class Made(NamedTuple):
    """A subscription, and since when it is so; at whichever broker."""

    at: float
    filter: Predicate


class Client:
    """One client."""

    __slots__ = (
        "_last_made_at",
        "_named",
        "advertisements",
        "came_at",
        "grants",
        "limits",
        "made",
        "missing_since",
        "names",
        "origin",
        "subscriptions",
        "unheard_since",
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
        self._named: dict[str, int] = {}
        """The attributes that subscriptions name, and how many of them name each."""
        self.advertisements: dict[Key, Tree] = {}
        self.came_at = 0.0
        self.missing_since: float | None = None
        """When it heard its last broker for the last time, if it may have missed events since."""
        self.unheard_since = float("inf")
        """Since when there may be publishers that its last broker had not heard of, if it may."""

    @classmethod
    def of(cls, message: LinkUp, now: float) -> "Client":
        """A client that has come."""
        client = cls(message.origin, message.grants, message.limits)
        client.came_at = now
        return client

    @property
    def wants_since(self) -> float:
        """Since when it has been here, and has wanted anything."""
        return max(self.came_at, min((made[-1].at for made in self.made.values()), default=float("inf")))

    def make(self, message: Subscribe, now: float) -> None:
        """A subscription was made or changed, or is the one that a client had at an earlier broker."""
        made = Made(now - message.age, as_predicate(message.filter))
        self._count_names(self.made.get(message.key, ()), -1)
        self._count_names((made,), 1)
        before = [Made(now - age, predicate) for age, predicate in message.before]
        self.made[message.key] = (made, *before, *self.made.get(message.key, ()))[:BEFORE_MAX]
        self._last_made_at = max(self._last_made_at, made.at)

    def unmake(self, key: Key) -> None:
        """A subscription is gone."""
        self._count_names(self.made.pop(key, ()), -1)

    def _count_names(self, made: tuple[Made, ...], change: int) -> None:
        """What a subscription is names attributes; what it was before does not count."""
        for name in names_in(made[0].filter) if made else ():
            count = self._named.get(name, 0) + change
            if count:
                self._named[name] = count
            else:
                del self._named[name]

    def younger_than(self, age: float, now: float, keys: Iterable[Key]) -> dict[Key, Predicate | None]:
        """Of subscriptions, those that were made or changed after events of this age had been published.

        With what each was then; None if it was not there.
        """
        latest = now - age / (1 + CLOCKS_SHARE)
        if self._last_made_at <= latest:
            return {}
        return {
            key: _filter_at(made, latest)
            for key in keys
            if (made := self.made.get(key, ())) and made[0].at > latest
        }

    def why_not_subscribe(self, key: Key, predicate: Predicate) -> str | None:
        """What to say to a client that may not subscribe to this; None if it may."""
        why_not = self.grants.why_not("subscribe", predicate)
        if why_not is None and key not in self.subscriptions:
            why_not = _too_many(len(self.subscriptions), self.limits.subscriptions, "subscriptions")
        if why_not is None:
            new = sum(name not in self._named for name in names_in(predicate))
            if new and len(self._named) + new > self.limits.attributes:
                return f"no more than {self.limits.attributes:,} different attributes may be named"
        return why_not

    def why_not_advertise(self, key: Key, predicate: Predicate) -> str | None:
        """What to say to a client that may not advertise this; None if it may."""
        why_not = self.grants.why_not("advertise", predicate)
        if why_not is None and key not in self.advertisements:
            return _too_many(len(self.advertisements), self.limits.advertisements, "advertisements")
        return why_not


def names_in(predicate: Predicate) -> set[str]:
    """The attributes that a predicate names."""
    return {name for f in predicate.filters for box in f.boxes() for name in box.conditions}


def _filter_at(made: tuple[Made, ...], time: float) -> Predicate | None:
    """What a subscription was at a time; None if it was not there. Of what is forgotten, the oldest known."""
    found = next((one.filter for one in made if one.at <= time), None)
    return made[-1].filter if found is None and len(made) == BEFORE_MAX else found


def _too_many(count: int, most: int, what: str) -> str | None:
    return f"no more than {most:,} {what} are allowed" if count >= most else None


class Clients(dict[str, Client]):
    """The clients of a broker, by their links."""

    def sources(self) -> Iterator[Source]:
        """All subscriptions of clients."""
        return (Source(link, name) for link, client in self.items() for name in client.names)
