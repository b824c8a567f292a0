"""At rest, each broker knows just the trees of publishers that it can reach, and the ways lead there."""

from collections.abc import Iterator
from typing import ClassVar, Final

from penstock.broker.trees.broker import Broker
from penstock.broker.trees.reports import SILENT
from penstock.broker.trees.trees import HERE
from penstock.errors import PenstockError
from penstock.model.names import Tree
from penstock.sim.checkers.checker import Checker
from penstock.sim.network import Network

TREES_MAX: Final = 200_000
"""Trees that brokers know, all together, in networks that are looked at."""


def tree_broker(network: Network, name: str) -> Broker:
    """A running broker of a network whose protocol is trees."""
    broker = network.broker(name)
    if not isinstance(broker, Broker):
        raise PenstockError(f"{name} runs {network.protocol.name}, which has no trees")
    return broker


class Ways(Checker):
    """Walks from every broker to every publisher."""

    holds: ClassVar[tuple[str, ...]] = (
        "At rest, each broker knows just the trees that it can reach, and its ways lead to their publishers.",
    )

    exact: ClassVar[bool] = True

    def why_not(self) -> str:  # noqa: D102 - as in Checker
        trees = sum(broker.facts().trees for broker in self.network.running())
        return f"more than {TREES_MAX:,} entries" if trees > TREES_MAX else ""

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        for members in self.network.components():
            brokers = {name: tree_broker(self.network, name) for name in sorted(members)}
            yield from self._compare(brokers)
            live = {tree for broker in brokers.values() for tree in broker.trees.through(HERE)}
            for name, broker in brokers.items():
                known = {tree for tree, _branch in broker.trees.items()}
                for tree in sorted(live - known):
                    yield f"{name} does not know {tree}"
                for tree in sorted(known - live):
                    yield f"{name} still knows {tree}"
            for tree in sorted(live):
                yield from self._walk(brokers, tree)

    def _compare(self, brokers: dict[str, Broker]) -> Iterator[str]:
        """What brokers advertise must be what their clients do, or everything."""
        advertised: dict[str, list[str]] = {}
        for client in self.network.clients.values():
            advertised.setdefault(client.home, []).extend(map(str, client.advertisements.values()))
        for name, broker in brokers.items():
            published = broker.trees.through(HERE) - broker.retiring
            here = sorted(str(broker.trees[tree].filter) for tree in published)
            wanted = sorted(advertised.get(name, []))
            if not self.network.settings.advertisements:
                here, wanted = [text for text in here if text != str(SILENT)], ["true"]
            if here != wanted:
                yield f"{name} advertises {here}, its clients {wanted}"

    def _walk(self, brokers: dict[str, Broker], tree: Tree) -> Iterator[str]:
        """From each broker that knows a tree to its publisher, or to one from where the way is known."""
        arrives: set[str] = set()
        for name, broker in brokers.items():
            passed = [name] if tree in broker.trees else []
            while passed and passed[-1] not in arrives:
                branch = brokers[passed[-1]].trees.get(tree)
                way = None if branch is None else branch.way
                if way == HERE:
                    break
                if way is None or way in passed or way not in brokers:
                    yield f"the way of {name} to {tree} leads {' '.join(passed)} {way}"
                    passed = []
                    break
                passed.append(way)
            arrives.update(passed)
