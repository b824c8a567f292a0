"""What brokers have acknowledged of a publisher's events, and when: for its next broker, should one die.

The broker that acknowledged them keeps events for those who are away. If it dies, only the publisher knows
that there was something to miss (`penstock.broker.publishers`).
"""

from collections import deque
from typing import Final, TypeAlias

from penstock.wire.requests import ACKED_MAX

_REMEMBERED_S: Final = 3_600.0
"""Seconds after which nobody asks for what was acknowledged."""

_MOST: Final = 128
"""Groups that are remembered; then the older half is known half as exactly."""

_SECOND: Final = 1.0


_SEVERAL: Final = 0
"""In place of a turn: events of a group were acknowledged in several."""

_Group: TypeAlias = tuple[float, int, int]
"""When the last event of a group was acknowledged, how many there are, and in which turn."""


class Acknowledged:
    """How many events were acknowledged when: lately by the second."""

    def __init__(self) -> None:
        self._groups: deque[_Group] = deque()

    def note(self, count: int, now: float, turn: int) -> None:
        """Events have been acknowledged, by the broker of a turn."""
        groups = self._groups
        if groups and int(groups[-1][0]) == int(now) and groups[-1][2] == turn:
            groups[-1] = now, groups[-1][1] + count, turn
            return
        groups.append((now, count, turn))
        while groups[0][0] < now - _REMEMBERED_S:
            groups.popleft()
        if len(groups) > _MOST:
            older = [groups.popleft() for _ in range(_MOST // 2)]
            pairs = zip(older[::2], older[1::2], strict=True)
            groups.extendleft(reversed([_joined(later, earlier) for earlier, later in pairs]))

    def ages(self, now: float) -> tuple[tuple[float, int, int], ...]:
        """Groups of events: how long ago the last of each was acknowledged, how many, and in which turn.

        The last ones first. The further back, the longer the time that a group covers, so that there are few.
        """
        groups: list[_Group] = []
        last = self._groups[-1][0] if self._groups else now
        reach = _SECOND
        for group in reversed(self._groups):
            at, _count, turn = group
            if groups and last - at < reach and turn == groups[-1][2]:
                groups[-1] = _joined(groups[-1], group)
                continue
            while last - at >= reach:
                reach *= 2
            groups.append(group)
        while len(groups) > ACKED_MAX:
            groups[-2:] = [_joined(groups[-2], groups[-1])]
        return tuple((max(0.0, now - at), count, turn) for at, count, turn in groups)


def _joined(later: _Group, earlier: _Group) -> _Group:
    at, count, turn = later
    return at, count + earlier[1], turn if turn == earlier[2] else _SEVERAL
