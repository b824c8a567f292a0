"""One detection: which events stand for which atoms, from when to when, and what is bound."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from penstock.composites.expression import Atom, Composite
from penstock.model.events import Event
from penstock.model.values import Family, Value, family_of

Bound: TypeAlias = Mapping[str, tuple[Family, Value]]
"""What variables are bound to. With the family, because true is no 1."""


class Happened(NamedTuple):
    """An event, and where it stands in time: those of the same time in the order in which they came."""

    at: int
    """Nanoseconds, of arrival or of the event's own time."""
    number: int
    """How many events came before it."""
    event: Event
    relevant: int = 0
    """How many events had matched any atom, up to this one."""

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order of events."""
        return self.at, self.number


class Match(NamedTuple):
    """Events that match a part of a composite."""

    events: tuple[tuple[str, Happened], ...]
    """By the names of their atoms, as these are written."""
    bound: Bound
    first: Happened
    last: Happened

    @property
    def numbers(self) -> tuple[int, ...]:
        """Which events these are."""
        return tuple(happened.number for _name, happened in self.events)

    def joined(self, other: "Match", *, before: bool = True) -> "Match | None":
        """Both together, if they share no event and agree on variables.

        `before`: this one is written first.
        """
        numbers = set(self.numbers)
        if not numbers.isdisjoint(other.numbers):
            return None
        bound = agreed(self.bound, other.bound)
        if bound is None:
            return None
        events = self.events + other.events if before else other.events + self.events
        first = min(self.first, other.first, key=_place)
        last = max(self.last, other.last, key=_place)
        return Match(events, bound, first, last)


class Detection(NamedTuple):
    """What a subscriber gets of a match."""

    at: int
    """When it was certain, in nanoseconds."""
    match: Match

    @property
    def order(self) -> tuple[int, bool, tuple[int, int], tuple[tuple[str, int], ...]]:
        """Detections are told in this order; the first one takes its events where each is taken once.

        What is certain because nothing came comes after what came at the same time.
        """
        events = tuple((name, happened.number) for name, happened in self.match.events)
        last = self.match.last
        return self.at, last.at != self.at, last.place, events

    def event(self, composite: Composite) -> dict[str, Value]:
        """The attributes that the composite selects; those that an event does not have are left out."""
        events = {name: happened.event for name, happened in self.match.events}
        if not composite.items:
            return {f"{name}.{key}": event[key] for name, event in events.items() for key in event}
        found: dict[str, Value] = {}
        for item in composite.items:
            if item.atom is None:
                if item.attribute in self.match.bound:
                    found[item.name] = self.match.bound[item.attribute][1]
            elif item.atom in events and item.attribute in events[item.atom]:
                found[item.name] = events[item.atom][item.attribute]
        return found


def match_of(atom: Atom, happened: Happened) -> Match | None:
    """The match of an atom by one event."""
    bound = bound_by(atom, happened.event)
    return None if bound is None else Match(((atom.name, happened),), bound, happened, happened)


def bound_by(atom: Atom, event: Event) -> Bound | None:
    """What an atom binds where an event matches it; None where it does not."""
    if not atom.admits(event):
        return None
    bound: dict[str, tuple[Family, Value]] = {}
    for attribute, variable in atom.binds:
        value = event[attribute]
        found = family_of(value), value
        if bound.setdefault(variable, found) != found:
            return None
    return bound


def agreed(one: Bound, other: Bound) -> Bound | None:
    """What two matches bind together; None where they contradict each other."""
    if len(other) > len(one):
        one, other = other, one
    for variable, value in other.items():
        if one.get(variable, value) != value:
            return None
    return {**one, **other}


def _place(happened: Happened) -> tuple[int, int]:
    return happened.place
