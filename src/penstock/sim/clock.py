"""Virtual time: what is to happen, in order."""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.errors import PenstockError

Item: TypeAlias = tuple[float, int, Callable[..., None], tuple[Any, ...]]
"""When, as how many were caused before, what, and with what."""


class Clock:
    """Has things happen one after the other; at the same time, in the order in which they were caused."""

    def __init__(self) -> None:
        self.now = 0.0
        self.caused_max = 10**12
        """So many messages and timers are no longer what anybody wants to simulate."""
        self._heap: list[Item] = []
        self._row: deque[Item] = deque()
        """Things that happen the same time after they were caused, and so in this order: most do."""
        self._row_delay: float | None = None
        self._caused = 0
        self._standing = 0
        """So many entries of the heap are there for ever."""

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Have something happen at a time."""
        self._caused += 1
        heapq.heappush(self._heap, (time, self._caused, action, arguments))

    def after(self, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        """Have something happen after a while; quicker than `at` where it is always the same."""
        self._caused += 1
        item = (self.now + delay, self._caused, action, arguments)
        if delay == self._row_delay:
            self._row.append(item)
        elif self._row_delay is None:
            self._row_delay = delay
            self._row.append(item)
        else:
            heapq.heappush(self._heap, item)

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something happen again and again; `run` does not wait for it to end."""
        self._standing += 1
        self.at(self.now + seconds, self._again, seconds, action)

    def _again(self, seconds: float, action: Callable[[], None]) -> None:
        action()
        self.at(self.now + seconds, self._again, seconds, action)

    def run(self, until: float = float("inf")) -> None:
        """Let time pass, until nothing more happens or it is so late."""
        heap, row = self._heap, self._row
        pop, popleft = heapq.heappop, row.popleft
        endless = until == float("inf")
        while row or heap:
            in_row = bool(row) and (not heap or row[0] < heap[0])
            if (row if in_row else heap)[0][0] > until:
                break
            if endless and not row and len(heap) <= self._standing:
                return
            self.now, _caused, action, arguments = popleft() if in_row else pop(heap)
            action(*arguments)
            if self._caused > self.caused_max:
                raise PenstockError(f"more than {self.caused_max:,} messages and timers: a storm")
        if not endless:
            self.now = until
