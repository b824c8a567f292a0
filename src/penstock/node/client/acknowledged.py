"""What brokers have acknowledged of a publisher's events, and when: for its next broker, should one die.

The broker that acknowledged them keeps events for those who are away. If it dies, only the publisher knows
that there was something to miss (`penstock.broker.trees.publishers`).
"""

from collections import deque
from typing import Final

_REMEMBERED_S: Final = 3_600.0
"""Seconds after which nobody asks for what was acknowledged."""

_MOST: Final = 128
"""Groups that are remembered; then the older half is known half as exactly."""

_SECOND: Final = 1.0


class Acknowledged:
    """How many events were acknowledged when: lately by the second."""

    def __init__(self) -> None:
        self._groups: deque[tuple[float, int]] = deque()
        """When the last event of a group was acknowledged, and how many there are."""

    def note(self, count: int, now: float) -> None:
        """Events have been acknowledged."""
        groups = self._groups
        if groups and int(groups[-1][0]) == int(now):
            groups[-1] = now, groups[-1][1] + count
            return
        groups.append((now, count))
        while groups[0][0] < now - _REMEMBERED_S:
            groups.popleft()
        if len(groups) > _MOST:
            older = [groups.popleft() for _ in range(_MOST // 2)]
            pairs = zip(older[::2], older[1::2], strict=True)
            groups.extendleft(reversed([(at, count + more) for (_at, count), (at, more) in pairs]))

    def ages(self, now: float) -> tuple[tuple[float, int], ...]:
        """Groups of events: how long ago the last of each was acknowledged, and how many there are.

        The last ones first. The further back, the longer the time that a group covers, so that there are few.
        """
        groups: list[tuple[float, int]] = []
        last = self._groups[-1][0] if self._groups else now
        reach = _SECOND
        for at, count in reversed(self._groups):
            if groups and last - at < reach:
                age, known = groups[-1]
                groups[-1] = age, known + count
                continue
            while last - at >= reach:
                reach *= 2
            groups.append((max(0.0, now - at), count))
        return tuple(groups)
