"""Simulated clients: what they want and may publish, and how they number and take events."""

from typing import Final

from penstock.broker.local import LinkUp
from penstock.filters.merging import merge
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.node.client.intake import Intake

ANY_KEY: Final = "a"
"""What events are published under where nothing is advertised."""


class Client:
    """A client of a broker: what it wants and may publish, kept also while it is cut off."""

    def __init__(self, name: str, home: str) -> None:
        self.name = name
        self.home = home
        self.who = name
        """Another text where another client has taken its place, which does not know what it has had."""
        self.subscriptions: dict[Key, Predicate] = {}
        self.advertisements: dict[Key, Predicate] = {}
        self.ever: dict[Key, Predicate] = {}
        """All that was ever asked for under each key."""
        self._numbers: dict[str, int] = {}
        self._intake = Intake()

    @property
    def link(self) -> str:
        """What its broker calls it."""
        return self.name

    def introduction(self) -> LinkUp:
        """What its broker is told when it comes: in whose name its events are numbered."""
        return LinkUp(client=True, origin=self.name)

    def wants(self, key: Key, predicate: Predicate) -> None:
        """Note what it asks for."""
        self.subscriptions[key] = predicate
        self.ever[key] = merge([predicate, self.ever.get(key, predicate)]).predicate

    def key_for(self, event: Event) -> str:
        """What it publishes an event under: its first advertisement that matches.

        Where none does its broker will refuse the event, whichever it is.
        """
        for key, predicate in self.advertisements.items():
            if predicate.matches(event):
                return str(key)
        return str(next(iter(self.advertisements), ANY_KEY))

    def origin(self, key: str) -> str:
        """Who numbers the events that it publishes under a key, as brokers call it."""
        return f"{self.name}/{key}"

    def next_number(self, key: str) -> int:
        """The sequence number of the next event under a key."""
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        return number

    def take(self, origin: str, number: int) -> bool | None:
        """An event comes: say whether later ones of its origin came before it; None if it did itself."""
        new, late = self._intake.take(origin, number)
        return late if new else None
