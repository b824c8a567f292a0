"""The reference matcher: every filter is tried on every event. Slow, and plainly right."""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.model.events import Event, as_event
from penstock.model.names import Id, id_order

Key = TypeVar("Key", bound=Id)


class ReferenceMatcher(Generic[Key]):
    """Predicates under ids; several predicates under one id form a disjunction."""

    def __init__(self, subscriptions: Iterable[tuple[Key, Predicate]] = ()) -> None:
        self._filters: dict[Key, list[Filter]] = {}
        for key, predicate in subscriptions:
            self.add(key, predicate)

    def add(self, key: Key, predicate: Predicate) -> None:
        """Add a predicate under an id."""
        self._filters.setdefault(key, []).extend(predicate.filters)

    def match(self, event: Event | Mapping[str, object]) -> list[Key]:
        """The ids, sorted, of the predicates that match the event."""
        attributes = as_event(event).attributes
        found = []
        for key, filters in self._filters.items():
            for f in filters:
                if f.admits(attributes):
                    found.append(key)
                    break
        return sorted(found, key=id_order) if len(found) > 1 else found
