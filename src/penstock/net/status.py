"""What a broker says of itself: `/topology`, `/metrics`, `Client.status` and `penstock top` show this."""

from typing import Any

from penstock import __version__
from penstock.net.links import Link
from penstock.net.runtime import Runtime


def status_of(
    runtime: Runtime, urls: list[str], started: float, now: float, *, draining: bool
) -> dict[str, Any]:
    """The broker's name, links, clients, table and counts."""
    broker = runtime.broker
    links = list(runtime.links.values())
    relaying = broker.relaying
    counts = {
        "events_in": runtime.counts["events_in"],
        "events_out": runtime.counts["events_out"],
        "delivered": runtime.counts["delivered"],
        "matched": broker.table.matched,
        "refused": runtime.counts["refused"],
        "stranded": runtime.counts["stranded"],
        "rescued": runtime.counts["rescued"],
        "lost": runtime.counts["lost"],
        "dropped": runtime.counts["dropped"],
        "slow": runtime.counts["slow"],
        "duplicates": 0 if relaying is None else relaying.duplicates,
        "late": 0 if relaying is None else relaying.late,
        "withheld": 0 if relaying is None else relaying.withheld,
        "unrouted": 0 if relaying is None else relaying.unrouted,
    }
    return {
        "name": broker.name,
        "version": __version__,
        "uptime_s": round(now - started, 3),
        "urls": urls,
        "draining": draining,
        "links": [_link(link) for link in links if not link.is_client],
        "clients": [_client(link, runtime) for link in links if link.is_client],
        "table": {
            "subscriptions": len(broker.table),
            "filters": broker.table.filters,
            "trees": len(broker.trees),
        },
        "counts": counts,
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "peer": link.peer,
        "state": link.phase.value,
        "queue_bytes": link.session.queued_bytes,
        "unacked_frames": link.session.unacked_frames,
        **link.counts,
    }


def _client(link: Link, runtime: Runtime) -> dict[str, Any]:
    known = runtime.broker.client(link.name)
    return {
        "name": link.peer,
        "subject": link.subject,
        "state": link.phase.value,
        "subscriptions": len(known.subscriptions),
        "advertisements": len(known.advertisements),
        "queue_bytes": link.session.queued_bytes,
        "slow": link.is_warned or link.is_paused,
        **link.counts,
    }
