"""What a broker has to say: effects in order, and what neighbours are told, numbered when it goes."""

from penstock.broker.effects import Effect, Send
from penstock.broker.trees.sessions import LinkState
from penstock.model.names import Key
from penstock.wire.messages import Body, Message, Subscribe, Unsubscribe


class Outbox:
    """Collects what one message leads to. `links` are the neighbours that can be reached."""

    def __init__(self, *, packs: bool, condenses: bool = False, part: int = 2**62) -> None:
        """`condenses`: all that one message leads to is told together, what it asks for once.

        Then a neighbour is told no more than a `part` in one message.
        """
        self.links: dict[str, LinkState] = {}
        self.effects: list[Effect] = []
        self._packs = packs
        self._condenses = condenses
        self._part = part
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
        packs = self._packs or self._condenses
        for link, bodies in self._pending.items():
            state = self.links[link]
            if self._condenses and len(bodies) > 1:
                bodies = condensed(bodies)
            size = self._part if self._condenses else len(bodies) if packs else 1
            for at in range(0, len(bodies), size):
                self.effects.append(Send(link, state.number(tuple(bodies[at : at + size]))))
        self._pending = {}


def condensed(bodies: list[Body]) -> list[Body]:
    """The same with each thing asked for once: where it was first, as it was last.

    A new neighbour may bring many advertisements, and each subscription is then bound to one after the other.
    """
    found: list[Body] = []
    places: dict[Key, int] = {}
    for body in bodies:
        if isinstance(body, Subscribe):
            # What takes something back stays where it is, after what that may have been.
            at = None if body.replaces else places.get(body.key)
            before = None if at is None else found[at]
            if at is not None and isinstance(before, Subscribe):
                found[at] = Subscribe(body.key, body.filter, body.trees, before.replaces)
            else:
                places[body.key] = len(found)
                found.append(body)
            for key in body.replaces:
                places.pop(key, None)
            continue
        if isinstance(body, Unsubscribe):
            places.pop(body.key, None)
        found.append(body)
    return found
