"""One matcher for all brokers of a simulation.

An event is matched against the filters of all brokers at once, the first time that any broker asks; the
others then only look up which of the matching filters are theirs. So a simulation pays for matching once per
event, whatever the number of hops, and brokers are compared by what they count, not by the clock.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.broker.needs import Found, holds
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.packed import decode_event
from penstock.wire.blocks import Block
from penstock.wire.messages import Events

if TYPE_CHECKING:
    from penstock.matching.matcher import Matcher

FEW: Final = 200
"""So many filters are tried one by one; for more, the matching engine is worth its start."""

_REMEMBERED: Final = 1024
"""Events whose answers are remembered: those that may still be under way."""


def warm_up(predicates: Sequence[Predicate], events: Sequence[Event]) -> None:
    """Have an engine do all that it will have to, so that its kernels are compiled and loaded."""
    from penstock.matching.matcher import Matcher
    from penstock.matching.times import TimeTexts

    *most, last = predicates
    engine = Matcher(enumerate(most), texts=TimeTexts(by_rules=False))
    engine.warns = False
    engine.add(len(most), last)
    engine.match_batch(events)
    for event in events[:1]:
        engine.match(event)
    engine.remove(0)
    engine.match_batch(events)


class SharedMatching:
    """Knows the filters of all brokers, each as long as somebody has it."""

    def __init__(self) -> None:
        self._users: dict[Predicate, int] = {}
        self._numbers: dict[Predicate, int] = {}
        self._predicates: dict[int, Predicate] = {}
        self._added: list[Predicate] = []
        self._engine: Matcher | None = None
        self._answers: dict[int, tuple[Event, dict[Predicate, None], int]] = {}

    def prepare(self, predicate: Predicate) -> None:
        """There is nothing to do ahead."""

    def add(self, predicate: Predicate) -> None:
        """Know a filter, once more."""
        users = self._users.get(predicate, 0)
        self._users[predicate] = users + 1
        if users:
            return
        number = len(self._added)
        self._added.append(predicate)
        self._numbers[predicate] = number
        self._predicates[number] = predicate
        if self._engine is not None:
            self._engine.add(number, predicate)
        elif len(self._users) > FEW:
            self._start_engine()

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter, once."""
        users = self._users[predicate] - 1
        if users:
            self._users[predicate] = users
            return
        del self._users[predicate]
        number = self._numbers.pop(predicate)
        del self._predicates[number]
        if self._engine is not None:
            self._engine.remove(number)

    def match(self, event: Event) -> dict[Predicate, None]:
        """The filters that match, those of all brokers, and perhaps some that nobody has any more."""
        known = self._answers.get(id(event))
        if known is not None and known[2] == len(self._added):
            return known[1]
        if known is None:
            answer = self._find(event)
            while len(self._answers) >= _REMEMBERED:
                del self._answers[next(iter(self._answers))]
        else:
            answer = known[1]
            answer |= {p: None for p in self._added[known[2] :] if p in self._users and p.matches(event)}
        # Kept with the event, so that its number is not another's.
        self._answers[id(event)] = event, answer, len(self._added)
        return answer

    def match_block(self, block: Block) -> Found:
        """The same for each event of a block. Nothing is remembered of them, as bytes are new each time."""
        rows = [self._find(decode_event(data)) for data in block.events()]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        numbers = [self._numbers[predicate] for row in rows for predicate in row]
        return Found(offsets, np.array(numbers, np.int64), self._added)

    def holds(self, predicate: Predicate, events: Events) -> Any:
        """Whether a predicate matches, known or not."""
        return holds(predicate, events)

    def foresee(self, events: Sequence[Event]) -> None:
        """Match events that will be asked for soon, all at once, which takes a tenth of the time.

        What is known by then and not now is found as for any event that is under way.
        """
        if self._engine is None:
            return
        predicates = self._predicates
        for event, numbers in zip(events, self._engine.match_batch(events), strict=True):
            answer = {predicates[int(number)]: None for number in numbers}
            self._answers[id(event)] = event, answer, len(self._added)
        while len(self._answers) > _REMEMBERED:
            del self._answers[next(iter(self._answers))]

    def _find(self, event: Event) -> dict[Predicate, None]:
        if self._engine is None:
            return {predicate: None for predicate in self._users if predicate.matches(event)}
        # In order, so that a run does not depend on how the engine finds them.
        return {self._predicates[int(number)]: None for number in sorted(self._engine.match(event))}

    def _start_engine(self) -> None:
        from penstock.matching.matcher import Matcher
        from penstock.matching.times import TimeTexts

        # As brokers do it.
        self._engine = Matcher(self._predicates.items(), texts=TimeTexts(by_rules=False))
        self._engine.warns = False
