"""The reference matcher: every filter is tried on every event. Slow, and plainly right.

Texts are times where filters compare an attribute with times and none compares it with a string.
"""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from penstock.filters.asked import times_in
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.model.events import Event, as_event, with_times
from penstock.model.names import Id, id_order
from penstock.model.places import Place

Key = TypeVar("Key", bound=Id)


class ReferenceMatcher(Generic[Key]):
    """Predicates under ids; several predicates under one id form a disjunction."""

    def __init__(self, subscriptions: Iterable[tuple[Key, Predicate]] = ()) -> None:
        self._filters: dict[Key, list[Filter]] = {}
        self._times: set[Place] | None = None
        for key, predicate in subscriptions:
            self.add(key, predicate)

    def add(self, key: Key, predicate: Predicate) -> None:
        """Add a predicate under an id."""
        self._filters.setdefault(key, []).extend(predicate.filters)
        self._times = None

    def match(self, event: Event | Mapping[str, object]) -> list[Key]:
        """The ids, sorted, of the predicates that match the event."""
        if self._times is None:
            self._times = times_in(f for filters in self._filters.values() for f in filters)
        attributes = with_times(as_event(event).attributes, self._times)
        found = []
        for key, filters in self._filters.items():
            for f in filters:
                if f.admits(attributes):
                    found.append(key)
                    break
        return sorted(found, key=id_order) if len(found) > 1 else found
