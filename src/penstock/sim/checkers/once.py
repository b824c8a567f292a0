"""Nobody got an event twice."""

from collections.abc import Iterator

from penstock.model.names import Key
from penstock.sim.checkers.checker import Checker
from penstock.sim.network import Client, Network
from penstock.wire.messages import Publish


class Once(Checker):
    """Remembers every delivery."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._got: dict[tuple[str, int], Publish] = {}
        self._wrong: list[str] = []

    def on_deliver(self, client: Client, publish: Publish, subscriptions: tuple[Key, ...]) -> None:  # noqa: D102
        name = client.name, id(publish.event)
        if name in self._got:
            self._wrong.append(f"{client.name} got {publish.event} twice ({publish.tree} {publish.number})")
        # Kept with the event, so that its number is not another's.
        self._got[name] = publish

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        yield from self._wrong
        self._wrong = []
