"""What links do to messages: latency, bandwidth, loss; and as faults delay, repetition and reordering."""

from random import Random

import msgspec

from penstock.broker.local import LinkLoad
from penstock.wire.blocks import Block
from penstock.wire.messages import Message


class LinkModel(msgspec.Struct):
    """How a link behaves, both ways. Times are in seconds, bandwidth in bytes a second (0: no limit)."""

    latency: float = 0.01
    bandwidth: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """The share of messages that others overtake."""
    delay: float = 0.0
    """More latency, for a time."""


class Direction:
    """One direction of a link: to whom, and until when it is busy."""

    __slots__ = (
        "_bytes",
        "_left",
        "end",
        "free_at",
        "last_arrival",
        "link",
        "measured",
        "model",
        "plain",
        "session",
        "up",
    )

    def __init__(self, end: str, link: str, model: LinkModel, *, measured: bool = False) -> None:
        """`measured`: bytes are counted, for `load`."""
        self.end = end
        """The broker that messages go to."""
        self.link = link
        """The name that it has for this link: that of the broker they come from."""
        self.model = model
        self.measured = measured
        self.up = True
        self.session = 0
        self.lower()
        self.note_model()

    def note_model(self) -> None:
        """Remember whether the model is so plain that only latency counts."""
        model = self.model
        special = model.bandwidth or model.loss or model.duplicate or model.reorder or model.delay
        self.plain = not (special or self.measured)

    def lower(self) -> None:
        """The link is down: what was under way is gone."""
        self.session += 1
        self.last_arrival = self.free_at = 0.0
        self._bytes = self._left = 0

    def backlog(self, now: float) -> float:
        """Seconds until all that has been sent has left: what a message waits that is sent now."""
        return max(0.0, self.free_at - now)

    def load(self, now: float, seconds: float) -> LinkLoad:
        """How busy it is now, and has been in the last so many seconds, since it was asked before."""
        model, backlog = self.model, self.backlog(now)
        queue = round(backlog * model.bandwidth)
        before, self._left = self._left, self._bytes - queue
        delay = backlog + model.latency + model.delay
        return LinkLoad(self.end, queue, (self._left - before) / seconds, delay)

    def arrivals(self, message: Message | Block, now: float, random: Random) -> list[float]:
        """When a message arrives that is sent now: most often once, or never, or several times."""
        model = self.model
        if model.loss and random.random() < model.loss:
            return []
        leaves = now
        if model.bandwidth or self.measured:
            size = message.size()
            self._bytes += size
            if model.bandwidth:
                leaves = self.free_at = now + self.backlog(now) + size / model.bandwidth
        latency = model.latency + model.delay
        arrival = max(self.last_arrival, leaves + latency)
        if model.reorder and random.random() < model.reorder:
            return [arrival + latency * random.uniform(0.5, 3.0)]
        self.last_arrival = arrival
        if model.duplicate and random.random() < model.duplicate:
            return [arrival, arrival + latency * random.uniform(0.0, 3.0)]
        return [arrival]
