"""Where events of a tree go: to whoever has asked for them, or to everybody where the scheme floods."""

from collections.abc import Iterable
from typing import Any

from penstock.broker.clients import Client, Clients
from penstock.broker.table import Table
from penstock.broker.trees.catching import Catching
from penstock.broker.trees.outbox import Outbox
from penstock.broker.trees.trees import Trees
from penstock.filters.predicate import Predicate
from penstock.model.names import Tree
from penstock.routing.schemes.scheme import Scheme
from penstock.wire.blocks import Header
from penstock.wire.messages import Events


class Pathways:
    """The `penstock.broker.forwarding.Routes` of advertisement trees."""

    def __init__(
        self,
        table: Table,
        trees: Trees,
        clients: Clients,
        outbox: Outbox,
        away: set[str],
        scheme: Scheme,
        catching: Catching,
        *,
        own: Tree | None,
    ) -> None:
        """`own`: the tree of all that is published here, if there are no others."""
        self.links = outbox.links
        self.trees = trees.names()
        self._trees = trees
        self._away = away
        self._table = table
        self._clients = clients
        self._floods = scheme.floods
        self._own = own
        self.match = table.match
        self.asks = catching.asks

    def tree_of(self, client: Client, key: str) -> tuple[str, Predicate] | None:
        """The tree of an advertisement; without advertisements, that of the broker itself."""
        if self._own is not None:
            branch = self._trees.get(self._own)
            return None if branch is None else (self._own, client.grants.advertise or branch.filter)
        tree = client.advertisements.get(key)
        return None if tree is None else (tree, self._trees[tree].filter)

    def wanting(self, events: Events, found: Any, header: Header, link: str) -> Iterable[tuple[str, Events]]:
        """The links that want events, with those that each wants."""
        wanting = self._table.wanting(events, found, header)
        if not self._floods:
            return wanting
        # Whichever neighbour was first: others drop the copies that come to them in a circle. For those that
        # may come back, the runtime keeps events meanwhile.
        passed = events.with_header(header)
        links = (*self.links, *sorted(self._away))
        everywhere: list[tuple[str, Events]] = [(to, passed) for to in links if to != link]
        return everywhere + [(to, part) for to, part in wanting if to in self._clients]
