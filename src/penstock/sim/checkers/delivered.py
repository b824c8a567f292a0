"""Who wanted an event that was published at rest got it, and nobody else; none came unwanted."""

from collections.abc import Iterator

from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.sim.checkers.checker import Checker, Published
from penstock.sim.network import Client, Network
from penstock.wire.messages import Publish


class Delivered(Checker):
    """Compares deliveries with what trying every filter gives."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._open: dict[int, tuple[Published, dict[str, frozenset[Key]]]] = {}
        self._wrong: list[str] = []
        self.checked = 0
        self.results: list[tuple[str, ...]] = []
        """Who got each event that was published at rest."""

    def on_publish(self, published: Published) -> None:  # noqa: D102 - as in Checker
        if published.at_rest:
            self._open[id(published.event)] = published, {}

    def on_deliver(self, client: Client, publish: Publish, subscriptions: tuple[Key, ...]) -> None:  # noqa: D102
        known = self._open.get(id(publish.event))
        if known is not None:
            known[1][client.name] = frozenset(subscriptions)
        for key in subscriptions:
            predicate: Predicate | None = client.ever.get(key)
            if predicate is not None and not predicate.matches(publish.event):
                self._wrong.append(f"{client.name} got {publish.event} for {key}: {predicate}")
        if not subscriptions:
            self._wrong.append(f"{client.name} got {publish.event} for nothing")

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        yield from self._wrong
        for published, got in self._open.values():
            self.checked += 1
            self.results.append(tuple(sorted(got)))
            expected = published.expected
            for name in sorted(expected.keys() - got.keys()):
                yield f"{name} did not get {published.event} of {published.client}"
            for name in sorted(got.keys() - expected.keys()):
                yield f"{name} got {published.event} of {published.client}, and did not want it"
            for name in sorted(got.keys() & expected.keys()):
                if got[name] != expected[name]:
                    yield f"{name} got {published.event} for {set(got[name])}, not for {set(expected[name])}"
        self._open, self._wrong = {}, []
