"""What a broker needs and is handed, so that the core draws in neither an engine nor a clock."""

from collections.abc import Iterable
from typing import Protocol

from penstock.filters.predicate import Predicate
from penstock.model.events import Event


class Matching(Protocol):
    """Finds the filters that match an event."""

    def add(self, predicate: Predicate) -> None:
        """Know a filter, which is not known yet."""

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter."""

    def match(self, event: Event) -> Iterable[Predicate]:
        """All known filters that match, each once; others that match may be among them."""


class Scan:
    """Tries every filter: for small tables, and as the plain answer to compare with."""

    def __init__(self) -> None:
        self._known: dict[Predicate, None] = {}

    def add(self, predicate: Predicate) -> None:
        """Know a filter."""
        self._known[predicate] = None

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter."""
        del self._known[predicate]

    def match(self, event: Event) -> list[Predicate]:
        """The known filters that match."""
        return [predicate for predicate in self._known if predicate.matches(event)]
