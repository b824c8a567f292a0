"""Reports of the ways that marked events take: each broker says where it sent them, when all is done."""

from typing import Any, Final

import msgspec

from penstock.errors import WireError

_KEPT_MAX: Final = 1_000
"""Traces under way that are remembered."""


class _Trace:
    __slots__ = ("delivered", "received_at", "sent_to")

    def __init__(self, received_at: float) -> None:
        self.received_at = received_at
        self.delivered = 0
        self.sent_to: dict[str, Any] = {}


class Tracing:
    """The traces that go through one broker, by the link and number of the frame that they came in."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._kept: dict[tuple[str, int], _Trace] = {}
        self._reports: dict[tuple[str, str], Any] = {}

    def begin(self, link: str, number: int, now: float) -> None:
        """A marked event comes."""
        if len(self._kept) >= _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[link, number] = _Trace(now)

    def sent(self, frame: tuple[str, int], link: str, events: int, *, is_client: bool) -> None:
        """It went on over a link."""
        trace = self._kept.get(frame)
        if trace is None:
            return
        if is_client:
            trace.delivered += events
        else:
            trace.sent_to[link] = None

    def add(self, trace: str, link: str, report: bytes) -> None:
        """A neighbour reports what became of it there. Raises WireError."""
        try:
            # It goes on as it is, so nobody further on would know whose mistake it was.
            msgspec.json.decode(report)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise WireError("the report of a trace is no JSON") from None
        if len(self._reports) >= _KEPT_MAX:
            del self._reports[next(iter(self._reports))]
        self._reports[trace, link] = msgspec.Raw(report)

    def report(self, trace: str, frame: tuple[str, int]) -> bytes:
        """What became of an event from here on, as JSON."""
        kept = self._kept.pop(frame, None) or _Trace(0.0)
        sent = [
            {"link": link, "report": self._reports.pop((trace, link), None)} for link in sorted(kept.sent_to)
        ]
        return msgspec.json.encode(
            {
                "broker": self._broker,
                "received_at": kept.received_at,
                "delivered": kept.delivered,
                "sent_to": sent,
            }
        )
