"""How long brokers take over messages."""

import msgspec

from penstock.wire.messages import Control, Message, Publish, Subscribe, Unsubscribe


class ServiceModel(msgspec.Struct):
    """Seconds that a broker takes over a message, by kind; while it does, others wait in its queue."""

    publish: float = 0.0
    subscribe: float = 0.0
    unsubscribe: float = 0.0
    other: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether nothing takes any time."""
        return not (self.publish or self.subscribe or self.unsubscribe or self.other)

    def time_for(self, message: Message) -> float:
        """How long this message takes."""
        if isinstance(message, Publish):
            return self.publish
        if isinstance(message, Control):
            return sum(
                self.subscribe
                if isinstance(body, Subscribe)
                else self.unsubscribe
                if isinstance(body, Unsubscribe)
                else self.other
                for body in message.bodies
            )
        return self.other
