"""How fast to publish, and what the delays amount to.

Saturated, a party is kept only so far behind that it always has work: what is under way is bounded by
what it delivers in half a second, so that nothing overflows and a slow party has soon finished. For
delays, events leave on a timetable, whether or not those before have arrived (an open loop); each is
measured from when it should have left, so that a party that holds up its publisher does not look quick.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.bench.network.alarms import Alarm

BLOCK: Final = 2_048
"""Events that are handed to a client at once, at most."""

NS: Final = 1_000_000_000
TICK: Final = NS // 1_000
"""Nanoseconds between bursts on the timetable; below 1,000 events a second each leaves by itself."""

_LEAST: Final = 64
_MOST: Final = 65_536
_LOOK_BACK: Final = NS // 2
_EXACT: Final = 1e-9
"""What is so close to a whole number is one."""
_IDLE: Final = 0.0005

Publish = Callable[[int, list[int]], Awaitable[None]]
"""Publish the events from this number on, one for each of the times at which they were to be sent."""


class Window:
    """How many deliveries may be under way: as many as came in the last half second."""

    def __init__(self, now: int, received: int) -> None:
        self._marks = deque([(now, received)])
        self._size = _LEAST

    def room(self, now: int, received: int, owed: int) -> int:
        """How many deliveries more may be owed, of which so many are received, and so many are owed."""
        marks = self._marks
        if now - marks[-1][0] >= _LOOK_BACK // 10:
            marks.append((now, received))
        while len(marks) > 1 and now - marks[1][0] >= _LOOK_BACK:
            marks.popleft()
        self._size = min(_MOST, max(_LEAST, received - marks[0][1]))
        return self._size - (owed - received)


async def saturate(
    publish: Publish,
    first: int,
    last: int,
    seconds: float,
    owed: Callable[[int], int],
    received: Callable[[], int],
) -> int:
    """Publish events as fast as they are delivered, up to a number or for a time; say where it ended."""
    now = time.monotonic_ns()
    window = Window(now, received())
    end = now + round(seconds * NS)
    seq = first
    while seq < last and now < end:
        room = window.room(now, received(), owed(seq))
        if room > 0:
            until = min(seq + min(BLOCK, room), last)
            await publish(seq, [now] * (until - seq))
            seq = until
        else:
            await asyncio.sleep(_IDLE)
        now = time.monotonic_ns()
    return seq


class Timetable:
    """When events are to leave: evenly where they are few, else in bursts, one each tick."""

    def __init__(self, started: int, rate: float) -> None:
        self._started = started
        self._gap = max(round(NS / rate), TICK)
        self._burst = max(1.0, rate * TICK / NS)

    def due(self, now: int) -> int:
        """How many should have left by now."""
        bursts = (now - self._started) // self._gap + 1
        return max(0, math.floor(bursts * self._burst + _EXACT))

    def leaves(self, number: int) -> int:
        """When the event of this number, from 0, should leave."""
        return self._started + (math.ceil((number + 1) / self._burst - _EXACT) - 1) * self._gap


async def pace(publish: Publish, first: int, count: int, rate: float, seconds: float) -> int:
    """Publish so many events on a timetable, or fewer when they take longer than that; say where it ended."""
    started = time.monotonic_ns() + TICK
    table = Timetable(started, rate)
    end = started + round(seconds * NS)
    done = 0
    now = time.monotonic_ns()
    with Alarm() as alarm:
        while done < count and now < end:
            await alarm.until(table.leaves(done))
            # More than a burst where we are late: whoever held us up pays for it, but is not held up by us.
            until = min(count, table.due(time.monotonic_ns()), done + BLOCK)
            await publish(first + done, [table.leaves(number) for number in range(done, until)])
            done = until
            now = time.monotonic_ns()
    return first + done


def percentile(delays: NDArray[np.int64], share: float) -> float:
    """The smallest delay, in milliseconds, that so large a share of them does not exceed."""
    if not len(delays):
        return math.nan
    rank = max(0, math.ceil(share * len(delays)) - 1)
    return float(np.partition(delays, rank)[rank]) / 1e6
