"""What a broker says of itself: `/topology`, `/metrics`, `Client.status` and `penstock top` show this."""

from typing import Any, Final

from penstock.node.links import Link
from penstock.node.runtime import Runtime

_COUNTED: Final = (
    *("events_in", "events_out", "delivered", "refused"),
    *("stranded", "rescued", "replayed", "slow"),
)
"""What a runtime counts by itself."""

LOST: Final = ("expired", "retries", "slow", "unkept", "unreachable")
"""Why events that were acknowledged did not reach somebody who was known."""


def status_of(
    runtime: Runtime, urls: list[str], started: float, now: float, *, draining: bool
) -> dict[str, Any]:
    """The broker's name, links, clients, table and counts."""
    core, facts = runtime.core, runtime.core.facts()
    links = list(runtime.links.values())
    counts = {
        **{name: runtime.counts[name] for name in _COUNTED},
        "matched": facts.matched,
        "duplicates": facts.duplicates,
        "late": facts.late,
        "withheld": facts.withheld,
        "unrouted": facts.unrouted,
    }
    return {
        "name": core.name,
        "uptime_s": round(now - started, 3),
        "urls": urls,
        "draining": draining,
        "links": [_link(link) for link in links if not link.is_client],
        "clients": [_client(link, runtime) for link in links if link.is_client],
        "table": {"subscriptions": facts.subscriptions, "filters": facts.filters, "trees": facts.trees},
        "counts": counts,
        "lost": {reason: runtime.lost[reason] for reason in LOST},
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
    known = runtime.core.client(link.name)
    return {
        "name": link.peer,
        "subject": link.subject,
        "state": link.phase.value,
        "subscriptions": len(known.subscriptions),
        "advertisements": len(known.advertisements),
        "queue_bytes": link.session.queued_bytes,
        "slow": link.is_warned or link.is_paused or link.is_given_up,
        **link.counts,
    }
