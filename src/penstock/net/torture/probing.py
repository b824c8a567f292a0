"""Waves of probes: when does everybody reach everybody again?"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from penstock.net.torture.clients import Publisher, Records

STREAK: Final = 3
"""Waves one after the other that have to be complete; one alone may have been lucky."""

_EVERY: Final = 0.25
_LATER: Final = 1.0
"""A publisher that is stuck is not waited for longer: the wave is not complete, and others follow."""

Reached = Mapping[tuple[int, int], Mapping[int, float]]


class Wave(msgspec.Struct):
    """A probe from each publisher."""

    at: float
    keys: list[tuple[int, int] | None] = []
    """Its events; None for one that could not be published."""

    def complete_at(self, reached: Reached, subscriptions: Iterable[int]) -> float | None:
        """When the last of its probes had come everywhere, if all have."""
        wanted = set(subscriptions)
        times: list[float] = []
        for key in self.keys:
            came = {} if key is None else reached.get(key, {})
            if not wanted <= came.keys():
                return None
            times += [came[subscription] for subscription in wanted]
        return max(times, default=self.at)


def first_streak(waves: Sequence[Wave], complete: Sequence[bool], streak: int = STREAK) -> Wave | None:
    """The first wave of the first so many in a row that are complete."""
    for at in range(len(waves) - streak + 1):
        if all(complete[at : at + streak]):
            return waves[at]
    return None


class Recovery(msgspec.Struct, frozen=True):
    """When probes that were published at `at` had come everywhere."""

    at: float
    complete: float


class Prober:
    """Sends waves until enough of them come everywhere."""

    def __init__(
        self, publishers: Sequence[Publisher], subscriptions: Iterable[int], records: Records
    ) -> None:
        self._publishers = list(publishers)
        self._subscriptions = list(subscriptions)
        self._records = records
        self._busy: dict[int, asyncio.Task[None]] = {}

    async def recovered(self, probe: int, number: int, patience: float) -> Recovery | None:
        """Wait until everybody reaches everybody; None if that has not come about in so many seconds."""
        waves: list[Wave] = []
        until = self._records.clock() + patience
        while self._records.clock() < until:
            waves.append(await self._wave(probe, number))
            await asyncio.sleep(_EVERY)
            complete = [self._complete_at(wave) for wave in waves]
            first = first_streak(waves, [time is not None for time in complete])
            if first is not None:
                return Recovery(first.at, self._complete_at(first) or first.at)
        return None

    def missing(self, number: int) -> list[str]:
        """Which ways nobody came through with any of the last probes of a round."""
        probes = [one for one in self._records.published.get(number, []) if one.is_probe]
        missing = []
        for publisher in self._publishers:
            keys = [one.key for one in probes if one.publisher == publisher.number][-STREAK:]
            came = [self._records.reached.get(key, {}) for key in keys]
            lacking = [s for s in self._subscriptions if not any(s in one for one in came)]
            if lacking:
                missing.append(f"client {publisher.number} does not reach subscriptions {lacking}")
        return missing

    async def close(self) -> None:
        """Wait for nothing any more."""
        for task in self._busy.values():
            task.cancel()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _complete_at(self, wave: Wave) -> float | None:
        return wave.complete_at(self._records.reached, self._subscriptions)

    async def _wave(self, probe: int, number: int) -> Wave:
        wave = Wave(self._records.clock(), [None] * len(self._publishers))
        for at, publisher in enumerate(self._publishers):
            # One that is stuck with an earlier probe gets no more of them.
            if at not in self._busy or self._busy[at].done():
                self._busy[at] = asyncio.ensure_future(self._probe(wave, at, publisher, probe, number))
        await asyncio.wait(self._busy.values(), timeout=_LATER)
        return wave

    async def _probe(self, wave: Wave, at: int, publisher: Publisher, probe: int, number: int) -> None:
        made = await publisher.publish([{"probe": probe}], number, is_probe=True)
        wave.keys[at] = made[0].key
