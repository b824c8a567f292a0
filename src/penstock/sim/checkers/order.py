"""Events of one origin, a publisher and its advertisement, came to each client in the order of publishing.

One that a client takes for late may come after later ones; and only such a one is late.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from penstock.model.names import Key
from penstock.sim.checkers.checker import Checker
from penstock.sim.clients import Client
from penstock.sim.network import Network
from penstock.wire.messages import Publish

_NOTED_MAX: Final = 1_000_000


class Order(Checker):
    """Notes deliveries, and looks through them at rest or when there are many."""

    holds: ClassVar[tuple[str, ...]] = (
        "Events of one publisher and advertisement arrive in order, unless `event.late` is true.",
        "`event.late` is true only for an event that came after later ones.",
    )

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._noted: list[tuple[str, str, int, bool]] = []
        self._last: dict[tuple[str, str], int] = {}
        """The last event of each origin that each client got."""
        self._wrong: list[str] = []

    def on_deliver(  # noqa: D102 - as in Observer
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        noted = self._noted
        noted.append((client.who, publish.header.origin, publish.numbers, late))
        if len(noted) > _NOTED_MAX:
            self._look_through()

    def _look_through(self) -> None:
        for client, origin, number, late in self._noted:
            last = self._last.get((client, origin), 0)
            if number > last:
                self._last[client, origin] = number
            if late != (number < last):
                why = "as if it were late" if late else f"after number {last}"
                self._wrong.append(f"{client} got event {number} of {origin} {why}")
        self._noted.clear()

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        self._look_through()
        yield from self._wrong
        self._wrong = []
