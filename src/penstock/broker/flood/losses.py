"""Nodes that died, or stay away, with events that they kept for others; and which clients are told.

Whoever notices tells everybody (`Ended`), and every node says who publishes there. From that each node works
out whether anything can have been missed (`whereabouts`): then clients are told how many events, or nothing
if there were none. Where a publisher does not turn up again, they are told in the end that nobody knows.

If all have died who could have noticed, nobody tells. Then the publishers' reports are all that is left: of
what was acknowledged by nodes that nobody here has heard of, clients are told that may have missed it.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from penstock.broker.clients import Clients
from penstock.broker.effects import UNKNOWN, Missed
from penstock.broker.flood.messages import Ended
from penstock.broker.flood.whereabouts import Register
from penstock.broker.publishers import ANSWERED_KEEPS

Life: TypeAlias = tuple[str, int]
"""A node, and which life of it."""

_GAPS_MAX: Final = 10_000
"""Lives that are remembered, the last ones."""

_SOON_SHARE: Final = 0.5
"""Of one life is told with another what is due within this share of the time that events are kept."""


class _Waiting:
    """Clients that may have missed events since a time, and of how many they were told."""

    __slots__ = ("since", "told")

    def __init__(self, since: float) -> None:
        self.since = since
        self.told: float | None = None
        """None: that is not known yet."""


class _Gap:
    """What a life of a node took with it."""

    __slots__ = ("all", "asked_at", "ended", "late", "weighed")

    def __init__(self, ended: Ended, since: float, asked_at: float) -> None:
        self.ended = ended
        """The message that said so first."""
        self.asked_at = asked_at
        """When it was noticed."""
        self.all = _Waiting(since)
        """All clients but those that are `late`."""
        self.late: dict[str, _Waiting] = {}
        """Clients that had been away for longer than that, by their links."""
        self.weighed = -1
        """What the register knew when it was asked last."""

    @property
    def is_told(self) -> bool:
        """Whether all that this can be about have been told something."""
        return all(one.told is not None for one in (self.all, *self.late.values()))


class _Unheard(_Waiting):
    """A client that may have missed events of nodes that nobody here has heard of."""

    __slots__ = ("accounted", "noticed_at")

    def __init__(self, since: float, noticed_at: float) -> None:
        super().__init__(since)
        self.noticed_at = noticed_at
        self.accounted: set[Life] = set()
        """Lives that somebody has noticed the end of: what they took is told by itself."""

    def settle(self, waiting: _Waiting, count: int, now: float) -> None:
        """The client was told something else, which may have counted the same."""
        if count == UNKNOWN:
            self.since = max(self.since, now)
        elif waiting.since <= self.since:
            self.told = max(count, self.told or 0)


class Losses:
    """What one node knows to be lost, or takes for lost."""

    def __init__(self, register: Register, clients: Clients, *, keep: float, linger: float) -> None:
        self._register = register
        self._clients = clients
        self._keep = keep
        self._linger = linger
        self._gaps: dict[Life, _Gap] = {}
        self._unheard: dict[str, _Unheard] = {}
        """What clients may have missed of nodes that nobody here has heard of, by their links."""

    def open(self, ended: Ended, now: float) -> None:
        """A life may be over: find out what that means for clients here."""
        life = ended.node, ended.incarnation
        since = now - ended.seconds
        gap = self._gaps.get(life)
        if gap is not None:
            gap.all.since, gap.weighed = min(since, gap.all.since), -1
            return
        gap = self._gaps[life] = _Gap(ended, since, now - ended.noticed)
        for link, client in self._clients.items():
            if client.missing_since is not None and now - client.came_at < self._keep:
                self._put_late(gap, link, client.missing_since)
        if len(self._gaps) > _GAPS_MAX:
            del self._gaps[next(iter(self._gaps))]

    def come(self, link: str, since: float, now: float) -> None:
        """A client has come that may have missed events since a time."""
        self.miss_unheard(link, since, now)
        for gap in self._gaps.values():
            if since < gap.asked_at:
                self._put_late(gap, link, since)

    def miss_unheard(self, link: str, since: float, now: float) -> None:
        """A client may have missed events of nodes that nobody here has heard of."""
        waiting = self._unheard.setdefault(link, _Unheard(since, now))
        waiting.since, waiting.noticed_at = min(since, waiting.since), now

    @staticmethod
    def _put_late(gap: _Gap, link: str, since: float) -> None:
        if link not in gap.late:
            gap.late[link] = _Waiting(since)
        gap.late[link].since = min(gap.late[link].since, since)
        gap.weighed = -1

    def leave(self, link: str) -> None:
        """A client has left."""
        self._unheard.pop(link, None)
        for gap in self._gaps.values():
            gap.late.pop(link, None)

    def since(self, link: str) -> float:
        """Since when a client may have missed events of which nobody knows yet; inf if there are none."""
        waiting = (gap.late.get(link, gap.all) for gap in self._gaps.values())
        return min((one.since for one in waiting if one.told is None), default=float("inf"))

    def all(self, now: float) -> Iterator[Ended]:
        """All that is remembered, for a neighbour that comes."""
        for gap in self._gaps.values():
            seconds, noticed = max(0.0, now - gap.all.since), max(0.0, now - gap.asked_at)
            yield msgspec.structs.replace(gap.ended, seconds=seconds, noticed=noticed)

    def on_tick(self, now: float) -> Iterator[Missed]:
        """Tell clients what is known by now."""
        last = now - (ANSWERED_KEEPS - 1) * self._keep
        if any(gap.asked_at <= last and not gap.is_told for gap in self._gaps.values()):
            # What is due soon is told with it, so that nobody is told twice.
            last += self._keep * _SOON_SHARE
        for life, gap in list(self._gaps.items()):
            if self._register.is_there(life, gap.asked_at):
                # It answers itself for what it keeps.
                del self._gaps[life]
                continue
            is_last = gap.asked_at <= last
            if gap.weighed != self._register.changes or is_last:
                gap.weighed = self._register.changes
                yield from self._weigh(life, gap, now, is_last=is_last)
            if now - gap.asked_at >= 2 * ANSWERED_KEEPS * self._keep:
                del self._gaps[life]
        yield from self._weigh_unheard(now)

    def _weigh_unheard(self, now: float) -> Iterator[Missed]:
        """Tell of what publishers report, once those who have heard of it have had the time to say so."""
        for link, waiting in list(self._unheard.items()):
            waiting.accounted |= self._gaps.keys()
            if now - waiting.noticed_at >= 2 * ANSWERED_KEEPS * self._keep:
                del self._unheard[link]
            elif now - waiting.noticed_at >= self._keep and self._clients[link].subscriptions:
                origin = self._clients[link].origin
                count = self._register.unheard(origin, waiting.since, waiting.accounted, self._linger)
                if count > (waiting.told or 0):
                    waiting.told = count
                    yield Missed(link, count, "unreachable")

    def _weigh(self, life: Life, gap: _Gap, now: float, *, is_last: bool) -> Iterator[Missed]:
        count = self._count(life, gap, gap.all, is_last=is_last)
        if count is not None:
            for link, client in self._clients.items():
                # Who came later has missed nothing, or has said so.
                if link not in gap.late and client.subscriptions and client.came_at < gap.asked_at:
                    yield from self._tell(link, gap, gap.all, count, now)
        for link, waiting in gap.late.items():
            count = self._count(life, gap, waiting, is_last=is_last)
            if count is not None and self._clients[link].subscriptions:
                yield from self._tell(link, gap, waiting, count, now)

    def _tell(self, link: str, gap: _Gap, waiting: _Waiting, count: int, now: float) -> Iterator[Missed]:
        if count != UNKNOWN:
            # Of what a client has published itself, nothing was acknowledged before it had dealt with it.
            client = self._clients[link]
            origins = [f"{client.origin}/{key}" for key in client.advertisements]
            count -= self._register.own(origins, waiting.since, gap.asked_at, self._linger)
            if not count:
                return
        if link in self._unheard:
            self._unheard[link].settle(waiting, count, now)
        yield Missed(link, count, "unreachable")

    def _count(self, life: Life, gap: _Gap, waiting: _Waiting, *, is_last: bool) -> int | None:
        """Of how many missed events to tell now; None to tell nothing."""
        told = waiting.told
        count = self._register.missed(life, waiting.since, gap.asked_at, self._linger)
        if count is None:
            if told is not None or not is_last:
                return None
            waiting.told = float("inf")
            return UNKNOWN
        if told is not None and count <= told:
            return None
        waiting.told = count
        return count or None
