"""Events of one publisher came to each client in the order of publishing, along any one tree."""

from collections.abc import Iterator

from penstock.model.names import Key
from penstock.sim.checkers.checker import Checker, Published
from penstock.sim.network import Client, Network
from penstock.wire.messages import Publish


class Order(Checker):
    """Numbers events as they are published, and compares."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._published: list[Published] = []
        self._number: dict[int, int] = {}
        self._last: dict[tuple[str, str, str], int] = {}
        self._wrong: list[str] = []

    def on_publish(self, published: Published) -> None:  # noqa: D102
        self._published.append(published)
        self._number[id(published.event)] = len(self._published)

    def on_deliver(self, client: Client, publish: Publish, subscriptions: tuple[Key, ...]) -> None:  # noqa: D102
        number = self._number[id(publish.event)]
        publisher = self._published[number - 1].client
        way = client.name, publisher, publish.tree
        if self._last.get(way, 0) > number:
            self._wrong.append(f"{client.name} got {publish.event} of {publisher} after one published later")
        self._last[way] = number

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        yield from self._wrong
        self._wrong = []
