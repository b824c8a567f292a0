"""The oracle: who wanted each event, who got it, and what is wrong with that. Everybody who judges asks it.

An event is named by who numbers it and by its number. Who gets events is whatever the judge tells apart:
clients, or their subscriptions. What is wrong is a Finding; what may be missing is the judge's to say.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import msgspec

Name: TypeAlias = tuple[Hashable, int]
"""Who numbers an event, and its sequence number."""

Who: TypeAlias = Hashable
"""Somebody who may get events."""

Excuses: TypeAlias = Callable[[Name, Who], bool]


class Finding(NamedTuple):
    """Something that is wrong: missed, unwanted, twice, unknown or disordered."""

    sort: str
    name: Name
    who: Who
    after: int | None = None
    """For what is disordered: the later event that came first; None if it says that it is late and is not."""


class Tally(msgspec.Struct, kw_only=True):
    """What was published and delivered, in numbers."""

    published: int = 0
    expected: int = 0
    """Deliveries that were wanted."""
    delivered: int = 0
    late: int = 0
    """Deliveries after later events of the same origin, which say so."""
    missed: int = 0
    excused: int = 0
    """Deliveries that were wanted and did not come, and for which there is an excuse."""
    unwanted: int = 0
    twice: int = 0
    unknown: int = 0
    """Deliveries of what nobody has published."""
    disordered: int = 0
    """Deliveries after later events of the same origin, which do not say so; or that say so wrongly."""

    @property
    def is_right(self) -> bool:
        """Whether everybody got what they wanted, once, in order, and nothing else."""
        return not (self.missed or self.unwanted or self.twice or self.unknown or self.disordered)


class _Entry:
    __slots__ = ("got", "wanted")

    def __init__(self, wanted: frozenset[Who]) -> None:
        self.wanted = wanted
        self.got: dict[Who, int] = {}


def never(_name: Name, _who: Who) -> bool:
    """There is no excuse."""
    return False


class Ledger:
    """Takes down publications and deliveries, in the order in which they happen, and judges them."""

    def __init__(self) -> None:
        self._entries: dict[Name, _Entry] = {}
        self._last: dict[tuple[Who, Hashable], int] = {}
        self._delivered = self._late = 0
        self._found: list[Finding] = []

    def publish(self, name: Name, wanted: Iterable[Who]) -> None:
        """An event is published, and wanted by these."""
        self._entries[name] = _Entry(frozenset(wanted))

    def deliver(self, who: Who, name: Name, *, late: bool = False) -> None:
        """Somebody gets an event, and is told whether it is late."""
        self._delivered += 1
        self._late += late
        entry = self._entries.get(name)
        if entry is None:
            self._found.append(Finding("unknown", name, who))
            return
        times = entry.got[who] = entry.got.get(who, 0) + 1
        if times > 1:
            self._found.append(Finding("twice", name, who))
            return
        if who not in entry.wanted:
            self._found.append(Finding("unwanted", name, who))
        origin, number = name
        last = self._last.get((who, origin), -1)
        if late != (number < last):
            self._found.append(Finding("disordered", name, who, None if late else last))
        if number > last:
            self._last[who, origin] = number

    def got(self, name: Name) -> list[Who]:
        """Who got an event."""
        entry = self._entries.get(name)
        return [] if entry is None else list(entry.got)

    def missing(self) -> Iterator[tuple[Name, Who]]:
        """What was wanted and has not come."""
        for name, entry in self._entries.items():
            for who in entry.wanted:
                if who not in entry.got:
                    yield name, who

    def judge(self, excuses: Excuses = never) -> tuple[Tally, list[Finding]]:
        """Count everything, and say what is wrong; then begin anew, but for the order of events."""
        tally = Tally(published=len(self._entries), delivered=self._delivered, late=self._late)
        tally.expected = sum(len(entry.wanted) for entry in self._entries.values())
        found = self._found
        for name, who in self.missing():
            if excuses(name, who):
                tally.excused += 1
            else:
                found.append(Finding("missed", name, who))
        for finding in found:
            setattr(tally, finding.sort, getattr(tally, finding.sort) + 1)
        self._entries, self._found = {}, []
        self._delivered = self._late = 0
        return tally, found
