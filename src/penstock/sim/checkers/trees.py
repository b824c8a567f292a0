"""At rest, each broker knows just the trees of publishers that it can reach, and the ways lead there."""

from collections.abc import Iterator

from penstock.broker.trees import HERE
from penstock.model.names import Tree
from penstock.sim.checkers.checker import Checker


class Ways(Checker):
    """Walks from every broker to every publisher."""

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        network = self.network
        for members in network.components():
            yield from self._compare(members)
            live = {tree for name in members for tree in network.broker(name).trees.through(HERE)}
            for name in sorted(members):
                known = {tree for tree, _branch in network.broker(name).trees.items()}
                for tree in sorted(live - known):
                    yield f"{name} does not know {tree}"
                for tree in sorted(known - live):
                    yield f"{name} still knows {tree}"
                for tree in sorted(live & known):
                    yield from self._walk(name, tree)

    def _compare(self, members: set[str]) -> Iterator[str]:
        """What brokers advertise must be what their clients do, or everything."""
        for name in sorted(members):
            trees = self.network.broker(name).trees
            here = sorted(str(trees[tree].filter) for tree in trees.through(HERE))
            clients = [client for client in self.network.clients.values() if client.home == name]
            wanted = sorted(str(p) for client in clients for p in client.advertisements.values())
            if here != (wanted if self.network.advertisements else ["true"]):
                yield f"{name} advertises {here}, its clients {wanted}"

    def _walk(self, name: str, tree: Tree) -> Iterator[str]:
        passed = [name]
        while True:
            way = self.network.broker(passed[-1]).trees[tree].way
            if way == HERE:
                return
            if way is None or way in passed:
                yield f"the way of {name} to {tree} leads {' '.join(passed)} {way}"
                return
            passed.append(way)
