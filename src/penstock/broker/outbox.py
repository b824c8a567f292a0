"""What a broker has to say: effects in order, and what neighbours are told, numbered when it goes."""

from penstock.broker.effects import Effect, Send
from penstock.broker.sessions import LinkState
from penstock.wire.messages import Body, Message


class Outbox:
    """Collects what one message leads to. `links` are the neighbours that can be reached."""

    def __init__(self, *, packs: bool) -> None:
        self.links: dict[str, LinkState] = {}
        self.effects: list[Effect] = []
        self._packs = packs
        self._pending: dict[str, list[Body]] = {}

    def open(self) -> list[Effect]:
        """Begin with a message; what it leads to will be in the list."""
        self.effects = []
        return self.effects

    def send(self, link: str, message: Message) -> None:
        """Send a message as it is."""
        self.effects.append(Send(link, message))

    def tell(self, link: str, bodies: list[Body]) -> None:
        """Tell a neighbour, when all is known that it has to be told."""
        self._pending.setdefault(link, []).extend(bodies)

    def tell_all(self, body: Body, but: str = "") -> None:
        """Tell all neighbours but one."""
        for link in self.links:
            if link != but:
                self._pending.setdefault(link, []).append(body)

    def forget(self, link: str) -> None:
        """There is nobody any more to be told."""
        del self.links[link]
        self._pending.pop(link, None)

    def discard(self) -> None:
        """Forget what neighbours were to be told."""
        self._pending = {}

    def close(self) -> None:
        """Send what neighbours are to be told: each by itself, or packed."""
        if not self._pending:
            return
        for link, bodies in self._pending.items():
            state = self.links[link]
            for part in [tuple(bodies)] if self._packs else [(body,) for body in bodies]:
                self.effects.append(Send(link, state.number(part)))
        self._pending = {}
