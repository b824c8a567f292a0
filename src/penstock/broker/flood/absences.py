"""Since when nodes that flood may be missing events, as they tell each other.

A node that has all its neighbours is missing what is kept back by a cut further away, as others are. Its
clients have to know since when, in case that it dies, or that they go elsewhere, before the cut is mended.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.broker.flood.messages import Missing
from penstock.broker.publishers import ANSWERED_KEEPS


class _Said(NamedTuple):
    """What a node has said last."""

    message: Missing
    since: float
    until: float
    """Until when that holds, unless it says so again: it may be gone for good."""


class Absences:
    """What other nodes have said."""

    def __init__(self, keep: float) -> None:
        self._lasts = ANSWERED_KEEPS * keep
        self._said: dict[str, _Said] = {}

    def learn(self, message: Missing, now: float) -> bool:
        """Take what a node says; return whether that was news."""
        known = self._said.get(message.node)
        if known is not None and known.message.count >= message.count:
            return False
        since = float("inf") if message.seconds is None else now - message.seconds
        if known is not None and known.message.count[0] < message.count[0]:
            # In a new life it does not know what it was missing in the last one.
            since = min(since, known.since)
        self._said[message.node] = _Said(message, since, now + self._lasts)
        return True

    def since(self, now: float, node: str | None = None) -> float:
        """Since when a node may be missing events, or anybody; inf if nothing is missing."""
        nodes = self._said if node is None else [node] if node in self._said else []
        known = (self._said[one] for one in nodes)
        return min((said.since for said in known if said.until > now), default=float("inf"))

    def all(self, now: float) -> Iterator[Missing]:
        """All that was said, for a neighbour that comes."""
        for said in self._said.values():
            message = said.message
            if said.until > now and said.since < now:
                yield Missing(message.node, message.count, now - said.since)
