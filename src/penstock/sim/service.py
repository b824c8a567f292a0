"""How long brokers take over messages."""

import msgspec

from penstock.wire.blocks import Block
from penstock.wire.messages import Message


class ServiceModel(msgspec.Struct):
    """Seconds that a broker takes over a message, by what work it is; while it does, others wait."""

    publish: float = 0.0
    subscribe: float = 0.0
    unsubscribe: float = 0.0
    other: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether nothing takes any time."""
        return not (self.publish or self.subscribe or self.unsubscribe or self.other)

    def time_for(self, message: Message | Block) -> float:
        """How long this message takes: one of several takes as long as all of them."""
        seconds: list[float] = [getattr(self, part.work) for part in message.parts]
        return sum(seconds)
