"""Brokers and the links between them: what is there, what is up, and who can reach whom."""

from collections import deque
from collections.abc import Iterable, Iterator

from penstock.broker.core import Core
from penstock.errors import PenstockError
from penstock.sim.links import Direction, LinkModel
from penstock.sim.parts import part_of, parts_of
from penstock.wire.blocks import Block
from penstock.wire.messages import Events, Message


class Node:
    """A broker with its input queue."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.broker: Core | None = None
        self.kept: Core | None = None
        """The state that a crashed broker left."""
        self.lives = 0
        self.since = 0.0
        """When its present life began."""
        self.queue: deque[tuple[Message | Block, str]] = deque()
        self.busy = False
        self.overslept = False
        """Whether it was to be woken while it was down."""
        self.history: list[tuple[float, Events]] = []
        """Events that it was to keep, and since when."""


class Overlay:
    """What a network looks like now."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._directions: dict[str, dict[str, Direction]] = {}

    def links(self) -> Iterable[tuple[str, str]]:
        """All links, each once."""
        return ((a, b) for a, ends in self._directions.items() for b in ends if a < b)

    def has_link(self, a: str, b: str) -> bool:
        """Whether there is a link, up or down."""
        return b in self._directions.get(a, {})

    def direction(self, a: str, b: str) -> Direction:
        """One direction of a link."""
        return self._directions[a][b]

    def is_cut(self, a: str, b: str) -> bool:
        """Whether a link is down by itself, whoever is at its ends."""
        return not self._directions[a][b].up

    def model(self, a: str, b: str) -> LinkModel:
        """How a link behaves."""
        return self._directions[a][b].model

    def is_up(self, a: str, b: str) -> bool:
        """Whether messages can go over a link."""
        return self._directions[a][b].up and bool(self.nodes[a].broker) and bool(self.nodes[b].broker)

    def broker(self, name: str) -> Core:
        """A broker that is running."""
        broker = self.nodes[name].broker
        if broker is None:
            raise PenstockError(f"{name} is not running")
        return broker

    def is_running(self, name: str) -> bool:
        """Whether a broker is there."""
        return self.nodes[name].broker is not None

    def running(self) -> list[Core]:
        """The brokers that are running."""
        return [node.broker for node in self.nodes.values() if node.broker is not None]

    def is_lossy(self) -> bool:
        """Whether some link loses or reorders messages."""
        return any(
            d.model.loss or d.model.reorder for ends in self._directions.values() for d in ends.values()
        )

    def component(self, name: str) -> set[str]:
        """The brokers that can be reached from one that is running, itself among them."""
        return part_of(name, self._near)

    def components(self) -> list[set[str]]:
        """The running brokers, those that can reach each other together."""
        return parts_of(filter(self.is_running, self.nodes), self._near)

    def _near(self, name: str) -> Iterator[str]:
        return (other for other in self._directions[name] if self.is_up(name, other))
