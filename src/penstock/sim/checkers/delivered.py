"""Who wanted an event that was published at rest got it, and nobody else; none came unwanted."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, TypeAlias, cast

from penstock.model.events import Event
from penstock.model.names import Key
from penstock.oracle import Ledger
from penstock.sim.checkers.checker import Checker
from penstock.sim.clients import Client
from penstock.sim.network import Network
from penstock.wire.messages import Publish

Recipients: TypeAlias = dict[str, frozenset[Key]]
"""Clients that get an event, and for which of their subscriptions."""


def wanting(clients: Iterable[Client], event: Event) -> Recipients:
    """Those of these clients that want an event, by trying every filter."""
    found = {}
    for client in clients:
        keys = frozenset(key for key, predicate in client.subscriptions.items() if predicate.matches(event))
        if keys:
            found[client.name] = keys
    return found


class Delivered(Checker):
    """Compares deliveries with what was expected."""

    holds: ClassVar[tuple[str, ...]] = (
        "A client gets only events that its filters match.",
        "At rest, every event reaches exactly the clients that want it and can be reached.",
    )

    exact: ClassVar[bool] = True

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._expected: list[tuple[Publish, Recipients]] = []
        self._got: dict[tuple[str, int], list[tuple[tuple[str, Key], bool]]] = {}
        """What came of each event: to whom, for which subscription, and whether it was late."""
        self._wrong: list[str] = []
        self.checked = 0
        self.results: list[tuple[str, ...]] = []
        """Who got each event that was published at rest."""

    def expect(self, publish: Publish, expected: Recipients) -> None:
        """An event was published at rest, so that it is known who must get it."""
        self._expected.append((publish, expected))

    def on_deliver(  # noqa: D102 - as in Observer
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        event = publish.event
        got = self._got.setdefault(publish.name, [])
        got += [((client.name, key), late) for key in keys]
        for key in keys:
            predicate = client.ever.get(key)
            if predicate is None or not predicate.matches(event):
                self._wrong.append(f"{client.name} got {event} for {key}: {predicate}")
        if not keys:
            self._wrong.append(f"{client.name} got {event} for nothing")

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        yield from self._wrong
        ledger, events = Ledger(), {}
        for publish, expected in self._expected:
            self.checked += 1
            events[publish.name] = f"{publish.event} of {publish.header.origin}"
            ledger.publish(publish.name, [(name, key) for name, keys in expected.items() for key in keys])
            for who, late in self._got.get(publish.name, ()):
                ledger.deliver(who, publish.name, late=late)
            self.results.append(tuple(sorted({who[0] for who, _late in self._got.get(publish.name, ())})))
        for finding in sorted(ledger.judge()[1], key=str):
            name, key = cast(tuple[str, Key], finding.who)
            what = f"{events[cast(tuple[str, int], finding.name)]} for {key}"
            if finding.sort == "missed":
                yield f"{name} did not get {what}"
            elif finding.sort == "unwanted":
                yield f"{name} got {what}, and did not want it"
            elif finding.sort == "twice":
                yield f"{name} got {what} twice"
        self._expected, self._got, self._wrong = [], {}, []
