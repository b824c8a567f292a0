"""How long brokers take over messages."""

import msgspec

from penstock.wire.messages import Body, Control, Message, Publish, Subscribe, Unsubscribe


def kind_of(message: Message | Body) -> str:
    """What a message counts as when times are given."""
    if isinstance(message, Publish):
        return "publish"
    if isinstance(message, Subscribe):
        return "subscribe"
    return "unsubscribe" if isinstance(message, Unsubscribe) else "other"


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
        """How long this message takes: one of several takes as long as all of them."""
        if type(message) is Publish:
            return self.publish
        bodies = message.bodies if isinstance(message, Control) else (message,)
        seconds: list[float] = [getattr(self, kind_of(body)) for body in bodies]
        return sum(seconds)
