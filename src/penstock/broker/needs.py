"""What a broker needs and is handed, so that the core draws in neither an engine nor a clock."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.wire.blocks import Block


class Matching(Protocol):
    """Finds the filters that match an event."""

    def add(self, predicate: Predicate) -> None:
        """Know a filter, which is not known yet."""

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter."""

    def match(self, event: Event) -> Iterable[Predicate]:
        """All known filters that match, each once; others that match may be among them."""


class Found(NamedTuple):
    """The filters that each event of a block matches: `filters[offsets[i] : offsets[i + 1]]`, by number."""

    offsets: NDArray[np.int64]
    filters: NDArray[np.int64]
    known: Sequence[Predicate | None]
    """The filter that each number stands for."""


@runtime_checkable
class BlockMatching(Matching, Protocol):
    """Finds the filters that match many events at once, in the bytes that they travel in."""

    def match_block(self, block: Block) -> Found:
        """What matches each event of a block. Raises EventError where one is not an event."""

    def holds(self, predicate: Predicate, block: Block) -> NDArray[np.bool_]:
        """Which events of a block match one predicate, whether it is known or not."""


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
