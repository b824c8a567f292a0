"""No event went over a link twice in the same direction: there is no way in a circle for events."""

from collections.abc import Iterator

from penstock.sim.checkers.checker import Checker
from penstock.sim.network import Network
from penstock.wire.messages import Publish


class Loops(Checker):
    """Remembers which links each event went over."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._carried: dict[tuple[str, int, str, str, int], None] = {}
        self._wrong: list[str] = []

    def on_carry(self, a: str, b: str, publish: Publish) -> None:  # noqa: D102
        # A broker that has lost its memory may pass an event on again.
        name = a, self.network.nodes[a].lives, b, publish.tree, publish.number
        if name in self._carried:
            self._wrong.append(
                f"{publish.event} ({publish.tree} {publish.number}) went from {a} to {b} twice"
            )
        self._carried[name] = None

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        yield from self._wrong
        self._wrong = []
        self._carried.clear()
