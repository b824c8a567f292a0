"""Composite subscriptions of a client: it subscribes to their events, and detects them itself.

So a composite inherits all that is promised for events: none comes twice, and what may have been missed is
told. It costs the events of all its atoms on the way here.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType

from penstock.composites.detector import Detector
from penstock.composites.expression import Composite, walk
from penstock.composites.language import write
from penstock.composites.matches import Detection
from penstock.filters.predicate import Predicate
from penstock.model.values import Value
from penstock.net.client.subscriptions import Subscription

_NANOSECONDS = 1_000_000_000


class Detected(dict[str, Value]):
    """What a composite selects of the events of one match."""

    def __init__(self, detection: Detection, composite: Composite) -> None:
        super().__init__(detection.event(composite))
        self.events = {name: happened.event for name, happened in detection.match.events}
        """The events themselves, by the names of their atoms."""


def filter_of(composite: Composite) -> Predicate:
    """The events that a composite looks at."""
    return Predicate(f for atom, _is_absent in walk(composite.root) for f in atom.wanted().filters)


class CompositeSubscription:
    """What a composite finds, as an async iterator. Made by `Client.subscribe_composite`."""

    def __init__(self, composite: Composite, subscription: Subscription) -> None:
        self.composite = write(composite)
        """The composite in its canonical form."""
        self._composite = composite
        self._subscription = subscription
        self._detector = Detector(composite)
        self._found: deque[Detection] = deque()
        # The clock of the machine may be set while this runs; times of events must not fall.
        self._began = time.time_ns() - time.monotonic_ns()

    @property
    def dropped(self) -> dict[str, int]:
        """What was left out, by why: see docs/COMPOSITES.md, Limits."""
        return self._detector.dropped

    @property
    def pending(self) -> int:
        """How many events and detections wait to be taken."""
        return len(self._found) + self._subscription.pending

    def __aiter__(self) -> AsyncIterator[Detected]:
        return self

    async def __anext__(self) -> Detected:
        while not self._found:
            due = self._detector.due
            wait = None if due is None else max(0.0, (due + 1 - self._now()) / _NANOSECONDS)
            try:
                received = await self._subscription.next(wait)
            except TimeoutError:
                self._found += self._detector.advance(self._now())
            else:
                self._found += self._detector.take(received.event, self._now())
        return Detected(self._found.popleft(), self._composite)

    async def next(self, timeout: float | None = None) -> Detected:
        """The next detection; TimeoutError if none comes in so many seconds."""
        async with asyncio.timeout(timeout):
            return await anext(self)

    async def unsubscribe(self) -> None:
        """Want no more."""
        await self._subscription.unsubscribe()

    def _now(self) -> int:
        return self._began + time.monotonic_ns()

    async def __aenter__(self) -> "CompositeSubscription":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._subscription.__aexit__(kind, error, trace)
