"""What happened in a simulation, in numbers."""

from collections import Counter

from penstock.wire.blocks import Block
from penstock.wire.messages import Message


class Counts:
    """Counters of one run."""

    def __init__(self) -> None:
        self.carried: Counter[str] = Counter()
        """Messages between brokers, by kind; the parts of a packed one each by itself."""
        self.renewing: set[str] = set()
        """The kinds among these that only say that their sender is there."""
        self.frames = 0
        """Messages between brokers, a packed one as one."""
        self.handled = 0
        """Messages that brokers took, those of clients among them."""
        self.published = 0
        self.refused = 0
        """Events that brokers did not accept, and other requests of clients."""
        self.delivered = 0
        self.late = 0
        """Deliveries of events after later ones of the same origin."""
        self.repeated = 0
        """Deliveries that clients dropped, as they had had them from an earlier life of their broker."""
        self.missed = 0
        """Events of which clients were told that they may have missed them."""
        self.lost = 0
        """Messages that links lost, or that found nobody."""
        self.delays: list[float] = []
        self.queue_longest: Counter[str] = Counter()
        self.sent_limited = 0
        """Messages over links of limited bandwidth."""
        self.waited_s = 0.0
        """What these waited for others to leave, all together."""
        self.wait_longest_s = 0.0
        self.wait_longest_link = ("", "")

    def wait(self, link: tuple[str, str], seconds: float) -> None:
        """Note that a message waits so long for others to leave on a link."""
        self.sent_limited += 1
        self.waited_s += seconds
        if seconds > self.wait_longest_s:
            self.wait_longest_s, self.wait_longest_link = seconds, link

    def carry(self, message: Message | Block) -> None:
        """Note a message from a broker to another."""
        self.frames += 1
        for part in message.parts:
            self.carried[part.kind] += 1
        if message.renews:
            self.renewing.add(message.kind)
