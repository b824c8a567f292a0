"""The broker's status for Prometheus.

Links are told apart by their peers; clients are only counted: their names are people's, and there may be
many.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from penstock.net.gateway.context import Context
from penstock.node.status import LOST

_COUNTS: Final = {
    "events_in": "Events received from clients and links.",
    "events_out": "Events sent on links to other brokers.",
    "delivered": "Events delivered to clients.",
    "duplicates": "Events received again and dropped.",
    "refused": "Events, subscriptions and advertisements refused.",
    "matched": "Events that matched some subscription.",
    "late": "Events that came after later ones of the same publisher.",
    "stranded": "Events on links that failed, which are sent again by whoever has them.",
    "rescued": "Events of this broker's publishers that were sent again after a failure.",
    "replayed": "Events of this broker's publishers that were sent again to those who had been away.",
    "slow": "Times that a client was paused or dropped for being slow.",
    "withheld": "Events that a client was not allowed to see, and was not given.",
    "unrouted": "Events of advertisements that were gone when they came.",
}
_TABLE: Final = {
    "subscriptions": "Subscriptions known.",
    "filters": "Filters in the table.",
    "trees": "Trees of advertisements known.",
}
_LINK_GAUGES: Final = {
    "queue_bytes": "Bytes waiting to be sent on the link.",
    "unacked_frames": "Frames sent on the link and not acknowledged.",
}
_LINK_COUNTS: Final = {
    "events_in": "Events received on the link.",
    "events_out": "Events sent on the link.",
    "bytes_in": "Bytes received on the link.",
    "bytes_out": "Bytes sent on the link.",
}


class StatusCollector(Collector):
    """Reads the status each time that the metrics are asked for."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        """All metrics of this moment."""
        status = self._context.connector.status()
        info = InfoMetricFamily("penstock_broker", "Which broker this is.")
        info.add_metric([], {key: str(status.get(key, "")) for key in ("name", "version", "scheme")})
        yield info
        yield _gauge("penstock_uptime_seconds", "Seconds since the start.", status.get("uptime_s"))
        yield _gauge("penstock_draining", "Whether the broker is draining.", status.get("draining"))
        clients = status.get("clients") or []
        yield _gauge("penstock_clients", "Clients, also those that are away and may come back.", len(clients))
        slow = sum(bool(client.get("slow")) for client in clients)
        yield _gauge("penstock_clients_slow", "Clients that take events too slowly.", slow)
        table, counts = status.get("table") or {}, status.get("counts") or {}
        for key, text in _TABLE.items():
            yield _gauge(f"penstock_table_{key}", text, table.get(key))
        for key, text in _COUNTS.items():
            yield CounterMetricFamily(f"penstock_{key}", text, value=_number(counts.get(key)))
        lost = CounterMetricFamily(
            "penstock_lost", "Events acknowledged that somebody missed, at most.", labels=["reason"]
        )
        for reason in LOST:
            lost.add_metric([reason], _number((status.get("lost") or {}).get(reason)))
        yield lost
        disagreements = GaugeMetricFamily(
            "penstock_disagreements",
            "Attributes about which subscriptions, events, advertisements and a schema disagree.",
            labels=["problem"],
        )
        found = (status.get("disagreements") or {}).get("counts") or {}
        for problem in ("unknown", "family", "mixed", "null", "unlisted", "misfit", "value", "unadvertised"):
            disagreements.add_metric([problem], _number(found.get(problem)))
        yield disagreements
        wanted = [str(peer["name"]) for peer in status.get("peers") or [] if peer.get("name")]
        yield from _links(status.get("links") or [], wanted)
        yield _gauge("penstock_gateway_streams", "Event streams and WebSockets open.", self._context.streams)
        yield CounterMetricFamily(
            "penstock_gateway_accepted", "Events taken over the gateway.", value=self._context.accepted
        )


def metrics_text(context: Context) -> bytes:
    """The metrics as Prometheus reads them, from a registry of their own."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(context))
    return generate_latest(registry)


def _links(links: list[dict[str, Any]], wanted: list[str]) -> Iterator[Metric]:
    """Sums over the links to each peer: of labels that are there twice Prometheus takes none.

    A peer that the broker was told of, and once knew, is there when the link is not: with 0.
    """
    peers = sorted({str(link.get("peer", "")) for link in links} | set(wanted))
    up = GaugeMetricFamily("penstock_link_up", "Links that are up.", labels=["peer"])
    ups = Counter(str(link.get("peer", "")) for link in links if link.get("state") == "up")
    for peer in peers:
        up.add_metric([peer], ups[peer])
    yield up
    for kind, described in ((GaugeMetricFamily, _LINK_GAUGES), (CounterMetricFamily, _LINK_COUNTS)):
        for key, text in described.items():
            family = kind(f"penstock_link_{key}", text, labels=["peer"])
            for peer in peers:
                ours = (link for link in links if str(link.get("peer", "")) == peer)
                family.add_metric([peer], sum(_number(link.get(key)) for link in ours))
            yield family


def _gauge(name: str, text: str, value: object) -> Metric:
    return GaugeMetricFamily(name, text, value=_number(value))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
