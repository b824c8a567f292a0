"""What links do to messages: latency, bandwidth, loss; and as faults delay, repetition and reordering."""

from random import Random

import msgspec

from penstock.wire.messages import Control, Message, Publish, Sync


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

    __slots__ = ("end", "free_at", "last_arrival", "link", "model", "plain", "session", "up")

    def __init__(self, end: str, link: str, model: LinkModel) -> None:
        self.end = end
        """The broker that messages go to."""
        self.link = link
        """The name that it has for this link: that of the broker they come from."""
        self.model = model
        self.up = True
        self.session = 0
        self.free_at = 0.0
        self.last_arrival = 0.0
        self.note_model()

    def note_model(self) -> None:
        """Remember whether the model is so plain that only latency counts."""
        model = self.model
        self.plain = not (model.bandwidth or model.loss or model.duplicate or model.reorder or model.delay)

    def backlog(self, now: float) -> float:
        """Seconds until all that has been sent has left: what a message waits that is sent now."""
        return max(0.0, self.free_at - now)

    def arrivals(self, message: Message, now: float, random: Random) -> list[float]:
        """When a message arrives that is sent now: most often once, or never, or several times."""
        model = self.model
        if model.loss and random.random() < model.loss:
            return []
        leaves = now
        if model.bandwidth:
            leaves = self.free_at = now + self.backlog(now) + size_of(message) / model.bandwidth
        latency = model.latency + model.delay
        arrival = max(self.last_arrival, leaves + latency)
        if model.reorder and random.random() < model.reorder:
            return [arrival + latency * random.uniform(0.5, 3.0)]
        self.last_arrival = arrival
        if model.duplicate and random.random() < model.duplicate:
            return [arrival, arrival + latency * random.uniform(0.0, 3.0)]
        return [arrival]


def size_of(message: Message) -> int:
    """About how many bytes a message takes."""
    if isinstance(message, Publish):
        return 64 + 16 * len(message.event.attributes)
    if isinstance(message, Control):
        return 32 + 128 * len(message.bodies)
    if isinstance(message, Sync):
        return 32 + 128 * (len(message.advertisements) + len(message.subscriptions))
    return 32
