"""At rest, tables hold what live subscriptions need, and nothing else.

Each live subscription must be found, or be covered, at every broker on its way to every publisher whose
advertisement it overlaps; and each entry must be needed by one that came that way.
"""

from collections.abc import Iterator

from penstock.broker.trees import HERE
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers, overlaps
from penstock.model.names import Tree
from penstock.sim.checkers.checker import Checker


class Tables(Checker):
    """Compares every table with what it must hold."""

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        network = self.network
        for members in network.components():
            if any(network.broker(name).floods for name in members):
                continue
            needed = self._needed(members)
            for name in sorted(members):
                yield from self._compare(name, needed)

    def _needed(self, members: set[str]) -> dict[tuple[str, str, Tree], dict[Predicate, None]]:
        """For a broker, a link and a tree: the subscriptions that must be known there."""
        network = self.network
        needed: dict[tuple[str, str, Tree], dict[Predicate, None]] = {}
        for client in network.clients.values():
            if client.home not in members:
                continue
            for predicate in client.subscriptions.values():
                for tree, branch in network.broker(client.home).trees.items():
                    if overlaps(predicate, branch.filter):
                        at, link = client.home, client.name
                        while True:
                            needed.setdefault((at, link, tree), {})[predicate] = None
                            way = network.broker(at).trees[tree].way
                            if not way or way == HERE:
                                break
                            at, link = way, at
        return needed

    def _compare(
        self, name: str, needed: dict[tuple[str, str, Tree], dict[Predicate, None]]
    ) -> Iterator[str]:
        known: dict[tuple[str, str, Tree], list[Predicate]] = {}
        for (link, _key), entry in self.network.broker(name).table.entries():
            if not entry.trees and link not in self.network.clients:
                yield f"{name} knows {entry.filter} from {link} on no tree"
            for tree in entry.trees:
                known.setdefault((name, link, tree), []).append(entry.filter)
        for place, predicates in needed.items():
            if place[0] == name:
                for predicate in predicates:
                    if not any(covers(there, predicate) for there in known.get(place, ())):
                        yield f"{name} does not know {predicate} from {place[1]} on {place[2]}"
        for place, there in known.items():
            for predicate in there:
                why = self._too_much(predicate, needed.get(place, {}))
                if why:
                    yield f"{name} knows {predicate} from {place[1]} on {place[2]}, {why}"

    def _too_much(self, predicate: Predicate, needed: dict[Predicate, None]) -> str:
        """Why an entry should not be there, if it should not."""
        if not any(covers(predicate, wanted) for wanted in needed):
            return "which nobody needs"
        wanted = Predicate([f for p in needed for f in p.filters])
        return "more than is wanted" if self.network.is_perfect and not covers(wanted, predicate) else ""
