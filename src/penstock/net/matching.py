"""The matching engine as a broker uses it: filters under numbers, events in blocks."""

from collections import OrderedDict
from typing import Any, Final

import numpy as np

from penstock.broker.needs import Found
from penstock.filters.predicate import Predicate
from penstock.matching import warming
from penstock.matching.computed import name_of
from penstock.matching.matcher import Matcher
from penstock.model.events import Event
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.messages import Events, Publish

_REMOVED_TOGETHER: Final = 64
"""Filters that are forgotten, and then removed from the matcher."""

_CHECKERS_MAX: Final = 1_000
"""Predicates for which a matcher of their own is kept ready: advertisements and grants in use."""


def warm() -> None:
    """Load the kernels, and on a new machine compile them, before anybody waits for them."""
    block = Block.of(Header("", ""), [1], [encode_event(Event({"a": 1, "b": "x"}))])
    warming.warm(lambda matcher: matcher.match_packed(block.data, block.offsets))


class EngineMatching:
    """Knows filters; finds those that match."""

    def __init__(self) -> None:
        self._matcher = Matcher()
        self._numbers: dict[Predicate, int] = {}
        self._known: list[Predicate | None] = []
        self._free: list[int] = []
        self._removed: list[int] = []
        self._checkers: OrderedDict[Predicate, Matcher] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    def prepare(self, predicate: Predicate) -> None:
        """Have a filter hashed, and its clauses ready for the matcher."""
        hash(predicate)
        for f in predicate.filters:
            if f.clauses:
                name_of(f)

    def add(self, predicate: Predicate) -> None:
        """Know a filter."""
        number = self._free.pop() if self._free else len(self._known)
        self._matcher.add(number, predicate)
        if number == len(self._known):
            self._known.append(None)
        self._known[number] = predicate
        self._numbers[predicate] = number

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter."""
        number = self._numbers.pop(predicate)
        self._known[number] = None
        # Until they are removed, which is quicker for many at once, they stand for nothing.
        self._removed.append(number)
        if len(self._removed) >= _REMOVED_TOGETHER:
            self._matcher.remove_many(self._removed)
            self._free += self._removed
            self._removed.clear()

    def match(self, event: Event) -> list[Predicate]:
        """The filters that match one event."""
        found = (self._known[int(number)] for number in self._matcher.match(event))
        return [predicate for predicate in found if predicate is not None]

    def match_block(self, block: Block) -> Found:
        """The filters that match each event of a block. Raises EventError where one is not an event."""
        matches = self._matcher.match_packed(block.data, block.offsets)
        return Found(matches.offsets, matches.ids().astype(np.int64, copy=False), self._known)

    def holds(self, predicate: Predicate, events: Events) -> Any:
        """Whether events match one predicate: of a block, which."""
        if isinstance(events, Publish):
            return predicate.matches(events.event)
        checker = self._checkers.pop(predicate, None)
        if checker is None:
            checker = Matcher([(0, predicate)])
            if len(self._checkers) >= _CHECKERS_MAX:
                self._checkers.popitem(last=False)
        self._checkers[predicate] = checker
        return np.diff(checker.match_packed(events.data, events.offsets).offsets) > 0
