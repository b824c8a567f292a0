"""What a core needs and is handed, so that it draws in neither an engine nor a clock."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.packed import decode_event
from penstock.wire.blocks import Block
from penstock.wire.messages import Events, Publish


class Found(NamedTuple):
    """The filters that each event of a block matches: `filters[offsets[i] : offsets[i + 1]]`, by number."""

    offsets: NDArray[np.int64]
    filters: NDArray[np.int64]
    known: Sequence[Predicate | None]
    """The filter that each number stands for."""

    def only(self, kept: NDArray[np.bool_]) -> "Found":
        """The same for some of the events."""
        lengths = np.diff(self.offsets)
        offsets = np.zeros(np.count_nonzero(kept) + 1, np.int64)
        np.cumsum(lengths[kept], out=offsets[1:])
        return Found(offsets, self.filters[np.repeat(kept, lengths)], self.known)


class Matching(Protocol):
    """Finds the filters that match events: one by one, or many at once in the bytes that they travel in."""

    def prepare(self, predicate: Predicate) -> None:
        """Do what can be done ahead for `add`. May be called in another thread, unlike all else."""

    def add(self, predicate: Predicate) -> None:
        """Know a filter, which is not known yet."""

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter."""

    def match(self, event: Event) -> Iterable[Predicate]:
        """All known filters that match, each once; others that match may be among them."""

    def match_block(self, block: Block) -> Found:
        """What matches each event of a block. Raises EventError where one is not an event."""

    def holds(self, predicate: Predicate, events: Events) -> Any:
        """Whether one predicate matches, known or not: of one event true or false, of a block an array."""


class Scan:
    """Tries every filter: for small tables, and as the plain answer to compare with."""

    def __init__(self) -> None:
        self._known: dict[Predicate, int] = {}
        self._numbered: list[Predicate | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._known)

    def prepare(self, predicate: Predicate) -> None:
        """There is nothing to do ahead."""

    def add(self, predicate: Predicate) -> None:
        """Know a filter."""
        number = self._free.pop() if self._free else len(self._numbered)
        if number == len(self._numbered):
            self._numbered.append(None)
        self._numbered[number] = predicate
        self._known[predicate] = number

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter."""
        number = self._known.pop(predicate)
        self._numbered[number] = None
        self._free.append(number)

    def match(self, event: Event) -> list[Predicate]:
        """The known filters that match."""
        return [predicate for predicate in self._known if predicate.matches(event)]

    def match_block(self, block: Block) -> Found:
        """The numbers of the filters that match each event. Raises EventError where one is not an event."""
        events = [decode_event(data) for data in block.events()]
        found = [[n for p, n in self._known.items() if p.matches(event)] for event in events]
        offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return Found(offsets, np.array([n for row in found for n in row], np.int64), self._numbered)

    def holds(self, predicate: Predicate, events: Events) -> Any:
        """Whether a predicate matches."""
        return holds(predicate, events)


def holds(predicate: Predicate, events: Events) -> Any:
    """Whether a predicate matches, by trying it."""
    if isinstance(events, Publish):
        return predicate.matches(events.event)
    return np.array([predicate.matches(decode_event(data)) for data in events.events()], np.bool_)
