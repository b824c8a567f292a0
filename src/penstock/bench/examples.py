"""`penstock bench example NAME`: small examples of routing, told by the simulator as they run.

docs/ROUTING.md shows them, and the tests of the documentation compare it with what is printed here; so the
page says what the brokers do, not what somebody once thought that they would.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Final

from penstock.errors import InputError
from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.sim.checkers.trees import tree_broker
from penstock.sim.clients import Client
from penstock.sim.network import Network
from penstock.sim.observers import Observer
from penstock.wire.blocks import Block
from penstock.wire.messages import (
    Advertise,
    Body,
    Control,
    Lost,
    Message,
    Publish,
    Subscribe,
    Sync,
    Unadvertise,
    Unreachable,
    Unsubscribe,
)

LINE: Final = "A-B B-C C-D C-E"
"""A line of four brokers, and a fifth that hangs from the third."""

RING: Final = "A-B B-C C-D A-D"
"""Four brokers in a circle."""

_CHEAP: Final = "price between 10 and 20"
_WIDE: Final = "price between 10 and 50"


class Teller(Observer):
    """A small network that says what goes on in it."""

    def __init__(
        self,
        scheme: str,
        links: str = LINE,
        *,
        advertisements: bool = True,
        lease: float | None = None,
        shows_trees: bool = False,
    ) -> None:
        self.lines: list[str] = []
        self._network = network = Network(scheme, advertisements=advertisements, lease=lease)
        self._lease = lease
        self._shows_trees = shows_trees
        self._filters: dict[tuple[str, str, Key], str] = {}
        edges = [edge.split("-") for edge in links.split()]
        for broker in sorted({broker for edge in edges for broker in edge}):
            network.add_broker(broker)
        for a, b in edges:
            network.add_link(a, b)
        self._settle()
        network.observers.append(self)

    # What happens

    def advertise(self, name: str, home: str, text: str) -> None:
        """A client says what it will publish."""
        self.lines.append(f"{name} at {home} advertises {text}")
        self._network.advertise(self._client(name, home), "a", as_predicate(text))
        self._settle()

    def subscribe(self, name: str, home: str, text: str) -> None:
        """A client asks for events."""
        self.lines.append(f"{name} at {home} subscribes to {text}")
        self._network.subscribe(self._client(name, home), "s", as_predicate(text))
        self._settle()

    def unsubscribe(self, name: str) -> None:
        """A client asks no more."""
        self.lines.append(f"{name} unsubscribes")
        self._network.unsubscribe(self._network.clients[name], "s")
        self._settle()

    def publish(self, name: str, **attributes: int) -> None:
        """A client publishes an event, and it is said how often the event was matched."""
        before = self._matched()
        self.lines.append(f"{name} publishes {_attributes(attributes)}")
        self._network.publish(self._network.clients[name], Event(attributes))
        self._settle()
        self.lines.append(f"  matched {_times(self._matched() - before)}")

    def cut(self, a: str, b: str) -> None:
        """A link goes down."""
        self.lines.append(f"the link between {a} and {b} is cut")
        self._network.cut(a, b)
        self._settle()

    def heal(self, a: str, b: str) -> None:
        """A link comes up again."""
        self.lines.append(f"the link between {a} and {b} heals")
        self._network.heal(a, b)
        self._settle()

    def crash(self, broker: str) -> None:
        """A broker stops."""
        self.lines.append(f"{broker} crashes")
        self._network.crash(broker)
        self._settle()

    def restart(self, broker: str) -> None:
        """A broker comes back without its memory, and its clients with it."""
        self.lines.append(f"{broker} restarts, and remembers nothing")
        self._network.restart(broker, with_state=False)
        self._settle()

    # What is there

    def tables(self) -> None:
        """Say what each broker has been asked for."""
        self.lines.append("tables:")
        for name in sorted(self._network.nodes):
            rows = [
                f"{source.link} wants {entry.filter.to_sql()}{self._on(entry.trees)}"
                for source, entry in tree_broker(self._network, name).table.entries()
            ]
            self.lines.append(f"  {name}: {'; '.join(rows) or 'nothing'}")

    def ways(self) -> None:
        """Say which way each broker has to the publisher of each tree."""
        self.lines.append("ways:")
        for name in sorted(self._network.nodes):
            rows = [
                f"{tree} {'here' if not branch.way else f'by {branch.way}'}"
                for tree, branch in tree_broker(self._network, name).trees.items()
            ]
            self.lines.append(f"  {name}: {'; '.join(rows)}")

    def _client(self, name: str, home: str) -> Client:
        return self._network.clients.get(name) or self._network.add_client(name, home)

    def _settle(self) -> None:
        """Let everything arrive; with leases there is always something more, so only for a while."""
        if self._lease is None:
            self._network.run()
        else:
            self._network.run(self._network.now + 5 * self._lease)

    def _matched(self) -> int:
        return sum(broker.facts().matched for broker in self._network.running())

    # What is said

    def on_handle(self, broker: str, link: str, message: Message | Block, now: float) -> None:
        """A broker takes a message."""
        if link not in self._network.nodes:
            return
        if isinstance(message, Publish):
            on = f" on {message.header.tree}" if self._shows_trees else ""
            self.lines.append(f"  {link} → {broker}  event{on}")
        elif isinstance(message, Control):
            bodies = [self._say(link, broker, body) for body in message.bodies]
            self.lines.append(f"  {link} → {broker}  {'; '.join(bodies)}")

        elif isinstance(message, Sync):
            said: list[Body] = [*message.advertisements, *message.subscriptions]
            everything = "; ".join(self._say(link, broker, body) for body in said)
            self.lines.append(f"  {link} → {broker}  sync: {everything or 'nothing'}")

    def on_deliver(
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        """A client gets an event."""
        self.lines.append(f"  {client.home} → {client.name}")

    def _say(self, link: str, broker: str, body: Body) -> str:
        if isinstance(body, Subscribe):
            text = self._filters[link, broker, body.key] = body.filter.to_sql()
            replaced = " and ".join(self._filter(link, broker, key) for key in body.replaces)
            instead = f", in place of {replaced}" if replaced else ""
            return f"subscribe {text}{self._on(body.trees)}{instead}"
        if isinstance(body, Unsubscribe):
            return f"unsubscribe {self._filter(link, broker, body.key)}"
        if isinstance(body, Advertise):
            epoch = f", epoch {body.epoch}" if body.epoch else ""
            return f"advertise {body.filter.to_sql()}{self._on({body.tree})}{epoch}"
        if isinstance(body, Lost):
            return f"{body.broker} lost its way to {', '.join(tree for tree, _epoch in body.trees)}"
        assert isinstance(body, Unadvertise | Unreachable)  # noqa: S101 - there are no others
        return f"{'unadvertise' if isinstance(body, Unadvertise) else 'unreachable'} {body.tree}"

    def _filter(self, link: str, broker: str, key: Key) -> str:
        """The filter that a broker knows under a key."""
        return self._filters[link, broker, key]

    def _on(self, trees: "frozenset[str] | set[str]") -> str:
        return f" on {', '.join(sorted(trees))}" if self._shows_trees else ""


def _attributes(attributes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in attributes.items())


def _times(number: int) -> str:
    return "once" if number == 1 else f"at {number} brokers"


# The examples


def _flooding() -> Teller:
    told = Teller("flooding")
    told.advertise("pat", "D", "price >= 0")
    told.subscribe("ann", "A", _CHEAP)
    told.publish("pat", price=15)
    told.publish("pat", price=99)
    return told


def _same_filter(scheme: str) -> Teller:
    """Two clients in different places want the same, and one of them leaves."""
    told = Teller(scheme)
    told.advertise("pat", "D", "price >= 0")
    told.lines.clear()
    told.subscribe("ann", "A", _CHEAP)
    told.subscribe("cat", "E", _CHEAP)
    told.tables()
    told.unsubscribe("ann")
    told.publish("pat", price=15)
    return told


def _wider_filter(scheme: str) -> Teller:
    """A wide filter comes after a narrow one, and goes again."""
    told = Teller(scheme)
    told.advertise("pat", "D", "price >= 0")
    told.lines.clear()
    told.subscribe("ann", "A", _CHEAP)
    told.subscribe("ben", "A", _WIDE)
    told.subscribe("cat", "E", _CHEAP)
    told.tables()
    told.unsubscribe("ben")
    told.tables()
    return told


def _packing() -> Teller:
    told = Teller("packing")
    told.advertise("pat", "D", "price >= 0")
    told.lines.clear()
    told.subscribe("ann", "A", _CHEAP)
    told.subscribe("ben", "A", _WIDE)
    told.unsubscribe("ben")
    return told


def _merging() -> Teller:
    told = Teller("merging")
    told.advertise("pat", "D", "price >= 0")
    told.lines.clear()
    told.subscribe("ann", "A", _CHEAP)
    told.subscribe("dan", "E", "price between 15 and 40")
    told.tables()
    told.publish("pat", price=30)
    told.unsubscribe("ann")
    return told


def _imperfect() -> Teller:
    told = Teller("imperfect")
    told.advertise("pat", "D", "x >= 0")
    told.lines.clear()
    told.subscribe("ann", "A", "x between 0 and 100 and y between 0 and 100")
    told.subscribe("dan", "E", "x between 5 and 105 and y between 5 and 105")
    told.publish("pat", x=2, y=103)
    return told


def _advertisements() -> Teller:
    told = Teller("simple")
    told.advertise("pat", "D", "price <= 100")
    told.advertise("sue", "E", "price > 100")
    told.subscribe("ann", "A", _CHEAP)
    told.publish("pat", price=15)
    return told


def _no_advertisements() -> Teller:
    told = Teller("simple", advertisements=False)
    told.subscribe("ann", "A", _CHEAP)
    told.subscribe("cat", "E", _CHEAP)
    told.publish("cat", price=15)
    return told


def _trees() -> Teller:
    told = Teller("identity", RING, shows_trees=True)
    told.advertise("pat", "A", "price <= 100")
    told.advertise("sue", "C", "price >= 0")
    told.ways()
    told.subscribe("ann", "B", _CHEAP)
    told.subscribe("dan", "D", _WIDE)
    told.tables()
    told.publish("pat", price=15)
    told.publish("sue", price=45)
    return told


def _failure() -> Teller:
    told = Teller("covering", RING, lease=2.0, shows_trees=True)
    told.advertise("pat", "A", "price >= 0")
    told.subscribe("ann", "B", _CHEAP)
    told.cut("A", "B")
    told.ways()
    told.publish("pat", price=15)
    told.heal("A", "B")
    return told


def _restart() -> Teller:
    told = Teller("covering", "A-B B-C", lease=2.0, shows_trees=True)
    told.advertise("pat", "C", "price >= 0")
    told.subscribe("ann", "A", _CHEAP)
    told.lines.clear()
    told.crash("B")
    told.restart("B")
    told.publish("pat", price=15)
    return told


EXAMPLES: Final[dict[str, Callable[[], Teller]]] = {
    "flooding": _flooding,
    "simple": lambda: _same_filter("simple"),
    "identity": lambda: _same_filter("identity"),
    "covering": lambda: _wider_filter("covering"),
    "lazy": lambda: _wider_filter("lazy"),
    "packing": _packing,
    "merging": _merging,
    "imperfect": _imperfect,
    "advertisements": _advertisements,
    "no-advertisements": _no_advertisements,
    "trees": _trees,
    "failure": _failure,
    "restart": _restart,
}


def tell(name: str) -> str:
    """An example, as text."""
    if name not in EXAMPLES:
        raise InputError(f"there is no example {name!r:.40}; there are {', '.join(EXAMPLES)}")
    return "".join(f"{line}\n" for line in EXAMPLES[name]().lines)


def run(options: argparse.Namespace) -> int:
    """Print an example, or the names of all."""
    sys.stdout.write(tell(options.name) if options.name else "".join(f"{name}\n" for name in EXAMPLES))
    return 0
