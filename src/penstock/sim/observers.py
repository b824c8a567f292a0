"""Looking on at a network: traces, checkers, results and benchmarks hear here what happens in it."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from penstock.model.names import Key
from penstock.node.client.notices import Notice
from penstock.sim.clients import Client
from penstock.wire.blocks import Block
from penstock.wire.messages import Events, Message, Publish


class Observer:
    """Looks on. Each method does nothing; an observer has those that it needs, and no others are called."""

    def on_publish(self, client: Client, publish: Publish, now: float) -> None:
        """A client publishes an event, with the origin and number that the network knows it by."""

    def on_carry(self, a: str, b: str, events: Events, now: float) -> None:
        """A broker sends events to another."""

    def on_deliver(
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        """A client gets an event for its subscriptions; late, if it had a later one of the same origin."""

    def on_settled(self, client: Client, name: tuple[str, int], error: Exception | None, now: float) -> None:
        """A publisher is told that an event is acknowledged, or why it is not. Only whole nodes tell."""

    def on_subscribed(self, client: Client, key: Key, now: float) -> None:
        """A client is told that its broker has taken a subscription. Only whole nodes tell."""

    def on_notice(self, client: Client, notice: Notice, now: float) -> None:
        """A client is told something about its connection. Only whole nodes tell."""

    def on_repeat(self, client: Client, publish: Publish, now: float) -> None:
        """A client gets an event again, and drops it."""

    def on_handle(self, broker: str, link: str, message: Message | Block, now: float) -> None:
        """A broker takes a message that came over a link. What it does about it follows at once."""

    def on_lose(self, a: str, b: str, message: Message | Block, now: float) -> None:
        """A message from a broker does not come to another."""

    def on_fault(self, what: str, broker: str, link: str, about: dict[str, Any], now: float) -> None:
        """A broker or a link fails, or is mended."""


OnDeliver: TypeAlias = Callable[[Client, Publish, tuple[Key, ...], float, bool], None]

METHODS: Final = tuple(name for name in vars(Observer) if name.startswith("on_"))


class Observers:
    """Those who look on, in order; and by method, only those who have it, as most look at little."""

    def __init__(self) -> None:
        self._all: list[Observer] = []
        self.on_publish: list[Callable[[Client, Publish, float], None]] = []
        self.on_carry: list[Callable[[str, str, Events, float], None]] = []
        self.on_deliver: list[OnDeliver] = []
        self.on_settled: list[Callable[[Client, tuple[str, int], Exception | None, float], None]] = []
        self.on_subscribed: list[Callable[[Client, Key, float], None]] = []
        self.on_notice: list[Callable[[Client, Notice, float], None]] = []
        self.on_repeat: list[Callable[[Client, Publish, float], None]] = []
        self.on_handle: list[Callable[[str, str, Message | Block, float], None]] = []
        self.on_lose: list[Callable[[str, str, Message | Block, float], None]] = []
        self.on_fault: list[Callable[[str, str, str, dict[str, Any], float], None]] = []

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def append(self, observer: Observer) -> None:
        """Tell one more, after the others."""
        self._all.append(observer)
        self._note()

    def remove(self, observer: Observer) -> None:
        """Tell one no longer."""
        self._all.remove(observer)
        self._note()

    def _note(self) -> None:
        for name in METHODS:
            plain = getattr(Observer, name)
            # In place: the network holds on to these lists.
            getattr(self, name)[:] = [
                getattr(observer, name)
                for observer in self._all
                if getattr(type(observer), name) is not plain
            ]
