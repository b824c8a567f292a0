"""Nobody got an event twice: a broker sends it to a client once, unless it has lost its memory since."""

from collections.abc import Iterator
from typing import ClassVar

from penstock.sim.checkers.checker import Checker
from penstock.sim.clients import Client
from penstock.sim.network import Network
from penstock.wire.messages import Publish


class Once(Checker):
    """Looks at what clients drop because they have had it.

    A broker that was started after the event was published may not know that an earlier life delivered it.
    """

    holds: ClassVar[tuple[str, ...]] = (
        "A broker sends an event to a client once, unless it has restarted since.",
    )

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._wrong: list[str] = []

    def on_repeat(self, client: Client, publish: Publish, now: float) -> None:  # noqa: D102 - as in Observer
        if self.network.nodes[client.home].since <= self.network.published_at(publish):
            origin, number = publish.name
            self._wrong.append(f"{client.name} got {publish.event} twice ({origin} {number})")

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        yield from self._wrong
        self._wrong = []
