"""Who is away too long, or too slow: what time does to links. Reads no clock."""

from collections import Counter
from typing import Final, Protocol

from penstock.node.links import Link, LinkPhase
from penstock.node.logs import LOG
from penstock.node.settings import Limits, Times
from penstock.wire.sessions import CLIENT_WINDOW

_NEIGHBOURS_PATIENCE: Final = 3
"""A neighbour may itself be waiting for a slow client, and that client gets all of the patience."""


_SOON_S: Final = 0.5
"""Who has had events for longer is late; publishers are told at once then how far events have come."""


class Watched(Protocol):
    """The broker with its links."""

    links: dict[str, Link]
    counts: Counter[str]
    lost: Counter[str]

    def give_up(self, link: Link, now: float) -> None:
        """Look for ways around a neighbour, and keep what is for it meanwhile."""

    def end(self, link: Link, now: float, *, failed: bool) -> int:
        """A link is over; so many events were not acknowledged."""

    def notify(self, link: Link, kind: str, text: str, count: int = 0) -> None:
        """Tell a client something."""


class Watch:
    """Looks at all links a few times a second."""

    def __init__(self, runtime: Watched, limits: Limits, times: Times) -> None:
        self._runtime = runtime
        self._limits = limits
        self._times = times
        self._is_held_up = False

    def look(self, now: float) -> None:
        """See who has been away too long, or is too slow."""
        links = list(self._runtime.links.values())
        full = min(self._limits.window_bytes, CLIENT_WINDOW)
        # Requests and events that wait for their turn or their quota wait for nobody else.
        self._is_held_up = any(
            link.session.undealt_bytes - link.request_bytes - link.metered_bytes >= full for link in links
        )
        for link in links:
            link.is_late = link.waited(now) > _SOON_S
            if link.is_client:
                self._watch_client(link, now)
            else:
                self._watch_neighbour(link, now)

    def _watch_neighbour(self, link: Link, now: float) -> None:
        if link.phase is LinkPhase.UP:
            stalled = link.waited(now) > _NEIGHBOURS_PATIENCE * self._times.patience
            if stalled and link.connection is not None:
                link.connection.close("slow", "nothing was acknowledged for too long")
        elif link.phase is LinkPhase.CUT and now - link.since > self._times.resume:
            self._runtime.give_up(link, now)
        elif link.phase is LinkPhase.AWAY and now - link.since > self._times.grace:
            self._runtime.end(link, now, failed=True)

    def _watch_client(self, link: Link, now: float) -> None:
        times = self._times
        overdue = link.sent_before(now, times.patience)
        if link.expires_at is not None and now > link.expires_at and link.connection is not None:
            link.connection.close("access", "the token has expired: get a new one")
            self._runtime.end(link, now, failed=True)
        elif link.phase is LinkPhase.CUT:
            # Others wait for what it does not take: then there is less time. Later, it is sent that again.
            is_missed = link.session.has_events and now - link.since > times.resume
            if is_missed or now - link.since > times.linger:
                self._runtime.end(link, now, failed=True)
        elif link.is_paused:
            if link.session.is_idle:
                link.is_paused = link.is_warned = False
                self._runtime.notify(
                    link, "resumed", f"{link.missed:,} events were missed while paused", link.missed
                )
                link.missed = 0
        elif self._is_in_the_way(link):
            if link.waited(now) > times.patience:
                # It goes on taking events, and leaves some aside.
                link.session.release_sent(overdue)
            self._mind_slow(link, now)
        else:
            link.is_warned = False
            # It has what it was sent, and takes its time; publishers need not wait for that.
            if link.waited(now) > times.patience:
                link.session.release_sent()
                if not link.is_given_up:
                    link.is_given_up = True
                    LOG.info("nobody waits for %s, which holds events for longer than patience", link.peer)
            elif 0 < link.session.first_unacked <= overdue:
                link.session.release_sent(overdue)

    def _is_in_the_way(self, link: Link) -> bool:
        """Whether others wait for what a client does not take.

        More may wait for it than it may be sent; or it has been sent less than that, but all that somebody
        may send before it is acknowledged.
        """
        return link.session.is_waiting or (self._is_held_up and not link.session.is_idle)

    def _mind_slow(self, link: Link, now: float) -> None:
        waited = now - link.moved_at
        over = link.session.queued_bytes > self._limits.queue_bytes
        if waited > self._times.patience or over:
            self._runtime.counts["slow"] += 1
            if link.when_slow == "drop":
                if link.connection is not None:
                    link.connection.close(
                        "slow", "events were not taken fast enough, and it asked to be dropped then"
                    )
                self._runtime.lost["slow"] += self._runtime.end(link, now, failed=False)
                return
            link.is_paused = True
            link.missed += link.session.let_go()
            self._runtime.lost["slow"] += link.missed
            self._runtime.notify(
                link, "paused", "events were not taken fast enough; those that come now are missed"
            )
        elif waited > self._times.patience / 2 and not link.is_warned:
            link.is_warned = True
            self._runtime.notify(link, "slow", "events are not taken as fast as they come")
