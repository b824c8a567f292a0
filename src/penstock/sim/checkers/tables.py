"""At rest, tables hold what live subscriptions need, and nothing else.

Each live subscription must be found, or be covered, at every broker on its way to every publisher whose
advertisement it overlaps; and each entry must be needed by one that came that way.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar, Final

from penstock.broker.trees.trees import HERE
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers, overlaps
from penstock.model.names import Tree
from penstock.routing.schemes.catalog import scheme_named
from penstock.sim.checkers.checker import Checker
from penstock.sim.checkers.trees import tree_broker
from penstock.sim.network import Network

ENTRIES_MAX: Final = 30_000
"""Entries of all tables together, in networks that are looked at: filters are compared with many others."""

_REMEMBERED: Final = 2**16


class Tables(Checker):
    """Compares every table with what it must hold."""

    holds: ClassVar[tuple[str, ...]] = (
        "At rest, tables hold what live subscriptions need, and nothing else.",
    )

    exact: ClassVar[bool] = True

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._is_perfect = scheme_named(network.settings.scheme)().perfect
        # The same two filters meet at every broker that they come to, on every tree.
        self._covers = lru_cache(_REMEMBERED)(covers)
        self._cover_together = lru_cache(_REMEMBERED)(cover_together)

    def why_not(self) -> str:  # noqa: D102 - as in Checker
        entries = sum(broker.facts().subscriptions for broker in self.network.running())
        return f"more than {ENTRIES_MAX:,} entries" if entries > ENTRIES_MAX else ""

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        network = self.network
        for members in network.components():
            if any(tree_broker(network, name).floods for name in members):
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
                for tree, branch in tree_broker(network, client.home).trees.items():
                    if overlaps(predicate, branch.filter):
                        at, link = client.home, client.link
                        # Each broker once, should the way lead in a circle, which another checker finds.
                        while predicate not in needed.setdefault((at, link, tree), {}):
                            needed[at, link, tree][predicate] = None
                            way = tree_broker(network, at).trees[tree].way
                            if not way or way == HERE:
                                break
                            at, link = way, at
        return needed

    def _compare(
        self, name: str, needed: dict[tuple[str, str, Tree], dict[Predicate, None]]
    ) -> Iterator[str]:
        known: dict[tuple[str, str, Tree], dict[Predicate, None]] = {}
        clients = {client.link for client in self.network.clients.values()}
        for (link, _key), entry in tree_broker(self.network, name).table.entries():
            if not entry.trees and link not in clients:
                yield f"{name} knows {entry.filter} from {link} on no tree"
            for tree in entry.trees:
                known.setdefault((name, link, tree), {})[entry.filter] = None
        for place, predicates in needed.items():
            if place[0] == name:
                for predicate in predicates:
                    there = known.get(place, ())
                    if predicate not in there and not any(self._covers(one, predicate) for one in there):
                        yield f"{name} does not know {predicate} from {place[1]} on {place[2]}"
        for place, entries in known.items():
            for predicate in entries:
                why = self._too_much(predicate, needed.get(place, {}))
                if why:
                    yield f"{name} knows {predicate} from {place[1]} on {place[2]}, {why}"

    def _too_much(self, predicate: Predicate, needed: dict[Predicate, None]) -> str:
        """Why an entry should not be there, if it should not."""
        if predicate in needed:
            return ""
        below = tuple(wanted for wanted in needed if self._covers(predicate, wanted))
        if not below:
            return "which nobody needs"
        # What it is for is nearly always enough to cover it, and less to look at than all that is needed.
        if self._is_perfect and not self._cover_together(below, predicate):
            return "" if cover_together(tuple(needed), predicate) else "more than is wanted"
        return ""


def cover_together(some: tuple[Predicate, ...], predicate: Predicate) -> bool:
    """Whether every event that matches a predicate matches one of some others."""
    return covers(Predicate([f for one in some for f in one.filters]), predicate)
