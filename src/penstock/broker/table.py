"""What a broker has been asked for (the papers' PRT): by whom, by which key, with which filter and trees."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import numpy as np

from penstock.broker.clients import Clients
from penstock.broker.needs import Found, Matching
from penstock.broker.routes import Routes
from penstock.filters.predicate import Predicate
from penstock.model.names import Key, Tree
from penstock.routing.schemes.scheme import Source
from penstock.wire.blocks import Block, Header
from penstock.wire.messages import Events, Publish

_ROUTES_MAX: Final = 10_000
"""Trees whose routes are kept ready; publishers come and go, and each has trees of its own."""


class Entry(NamedTuple):
    """A subscription as one link knows it."""

    filter: Predicate
    trees: frozenset[Tree]


class Table:
    """Subscriptions by link and key, by filter, and by tree."""

    def __init__(self, matching: Matching, clients: Clients, *, knows_all: bool = False) -> None:
        """`knows_all`: which filters one event matches goes with it, so the next broker need not look."""
        self._matching = matching
        self._clients = clients
        self._knows_all = knows_all
        self._links: dict[str, dict[Key, Entry]] = {}
        self._filters: dict[Predicate, dict[Source, frozenset[Tree]]] = {}
        self._bound: dict[Tree, dict[str, dict[Key, None]]] = {}
        """By tree and link: the keys of those who have asked for events of the tree."""
        self.departed: set[str] = set()
        """Links of clients that have left, of which something is still known."""
        self._unbound: dict[Source, Predicate] = {}
        """Subscriptions of clients that have never been bound to a tree, and what they want."""
        self._routes: dict[Tree, Routes] = {}
        self.matched = 0
        """How many events have been matched against filters."""

    def __len__(self) -> int:
        return sum(map(len, self._links.values()))

    @property
    def filters(self) -> int:
        """How many different filters there are."""
        return len(self._filters)

    def entries(self) -> Iterator[tuple[Source, Entry]]:
        """All subscriptions."""
        return (
            (Source(link, key), entry) for link, known in self._links.items() for key, entry in known.items()
        )

    def items(self, link: str) -> list[tuple[Key, Entry]]:
        """What a link asks for, by key."""
        return list(self._links.get(link, {}).items())

    def get(self, source: Source) -> Entry | None:
        """What is asked for there."""
        return self._links.get(source.link, {}).get(source.key)

    def is_bound(self, tree: Tree) -> bool:
        """Whether anybody has asked for events of this tree."""
        return tree in self._bound

    def bound_links(self, tree: Tree) -> list[str]:
        """The links on which events of this tree are asked for."""
        return list(self._bound.get(tree, ()))

    def bound(self, tree: Tree) -> list[tuple[str, list[Key]]]:
        """Who has asked for events of this tree: links, with the keys of each."""
        return [(link, list(keys)) for link, keys in self._bound.get(tree, {}).items()]

    def put(self, source: Source, entry: Entry) -> None:
        """Take a subscription, in place of what was known from this source."""
        self._routes.clear()
        known = self.get(source)
        if known is not None:
            if known.filter != entry.filter:
                self.drop(source)
            else:
                self._unbind(source, known.trees - entry.trees)
        self._links.setdefault(source.link, {})[source.key] = entry
        sources = self._filters.get(entry.filter)
        if sources is None:
            self._matching.add(entry.filter)
            sources = self._filters[entry.filter] = {}
        sources[source] = entry.trees
        self._bind(source, entry.trees)
        if not entry.trees and source.link in self._clients:
            self._unbound[source] = entry.filter

    def unbound(self, most: int) -> list[Predicate]:
        """What clients want, and has been bound to no tree yet; so many at the most."""
        clients, found = self._clients, self._unbound.items()
        return [wanted for source, wanted in islice(found, most) if source.link in clients]

    def clients_of(self, predicate: Predicate) -> list[str]:
        """The links of the clients that want exactly this."""
        clients, sources = self._clients, self._filters.get(predicate, ())
        return list(dict.fromkeys(source.link for source in sources if source.link in clients))

    def rebind(self, source: Source, trees: frozenset[Tree]) -> None:
        """A client's subscription has other trees. It gets the same events: see `_targets`."""
        known = self._links[source.link]
        entry = known[source.key]
        known[source.key] = Entry(entry.filter, trees)
        self._filters[entry.filter][source] = trees
        self._unbind(source, entry.trees - trees)
        self._bind(source, trees - entry.trees)
        if trees:
            self._unbound.pop(source, None)

    def _bind(self, source: Source, trees: Iterable[Tree]) -> None:
        for tree in trees:
            self._bound.setdefault(tree, {}).setdefault(source.link, {})[source.key] = None

    def drop(self, source: Source) -> Entry:
        """Forget a subscription."""
        self._routes.clear()
        known = self._links[source.link]
        entry = known.pop(source.key)
        self._unbound.pop(source, None)
        if not known:
            del self._links[source.link]
            self.departed.discard(source.link)
        sources = self._filters[entry.filter]
        del sources[source]
        if not sources:
            del self._filters[entry.filter]
            self._matching.remove(entry.filter)
        self._unbind(source, entry.trees)
        return entry

    def _unbind(self, source: Source, trees: Iterable[Tree]) -> None:
        for tree in trees:
            links = self._bound[tree]
            keys = links[source.link]
            del keys[source.key]
            if not keys:
                del links[source.link]
                if not links:
                    del self._bound[tree]

    def clear(self) -> None:
        """Forget everything, and have the matcher forget it."""
        for source, _entry in list(self.entries()):
            self.drop(source)

    def match(self, events: Events) -> Iterable[Predicate] | Found:
        """The filters that events match, and perhaps some that are not in this table."""
        if type(events) is Publish:
            if events.filters is not None:
                return events.filters
            self.matched += 1
            return self._matching.match(events.event)
        self.matched += len(events)
        return self._matching.match_block(events)  # type: ignore[arg-type]

    def wanting(self, events: Events, found: Any, header: Header) -> Iterable[tuple[str, Events]]:
        """The links that want events which match this, with those that each wants, under a new header.

        Those for clients come with the clients' own keys.
        """
        if type(events) is Publish:
            return self._wanting_one(events, found, header)
        return self._wanting_some(cast(Block, events), found, header)

    def _wanting_one(
        self, publish: Publish, found: Iterable[Predicate], header: Header
    ) -> Iterable[tuple[str, Publish]]:
        # Of a client the keys that it wants the event for, of a neighbour the filters that match; and then
        # what each gets. Most of a simulation is spent here.
        wanted: dict[str, Any] = {}
        known, clients, tree = self._filters, self._clients, header.tree
        for predicate in found:
            sources = known.get(predicate)
            if sources is not None:
                for (link, key), trees in sources.items():
                    client = clients.get(link)
                    matched: Any = predicate
                    if client is not None:
                        matched = client.names.get(key)
                        if matched is None:
                            continue
                    elif tree not in trees or link in self.departed:
                        continue
                    if link in wanted:
                        wanted[link].append(matched)
                    else:
                        wanted[link] = [matched]
        event, number = publish.event, publish.numbers
        for link, why in wanted.items():
            if link in clients:
                wanted[link] = Publish(event, header, number, None, tuple(why))
            elif self._knows_all:
                # Several subscriptions may have the same filter.
                filters = tuple(why if len(why) == 1 else dict.fromkeys(why))
                wanted[link] = Publish(event, header, number, filters)
            else:
                wanted[link] = Publish(event, header, number)
        return wanted.items()

    def _wanting_some(self, block: Block, found: Found, header: Header) -> Iterator[tuple[str, Block]]:
        tree, clients = header.tree, self._clients
        routes = self._routes.get(tree)
        if routes is None:
            # Not `found`, which has what the first block matched, and would stay for as long as the routes.
            known = found.known
            routes = self._routes[tree] = Routes(lambda number: self._targets(known[number], tree))
            if len(self._routes) > _ROUTES_MAX:
                del self._routes[next(iter(self._routes))]
        if block.number is not None:
            for to, under in routes.wanting_one(found.filters.tolist()).items():
                yield to, Block.one(header, block.number, block.data, under if to in clients else None)
            return
        for to, events, keys in routes.wanting(found):
            if to in clients:
                which, starts = np.unique(events, return_index=True)
                offsets = np.append(starts, len(events)).astype(np.int64)
                yield to, block.take(which, header).with_keys(keys, offsets)
            else:
                yield to, block.take(np.unique(events), header)

    def _targets(self, predicate: Predicate | None, tree: Tree) -> list[tuple[str, int]]:
        """Who wants events of this tree that match a filter; clients, under which key of theirs.

        Clients are given what matches, whether they are bound to the tree or not: its events match its
        advertisement, so a filter that matches one overlaps that.
        """
        sources = None if predicate is None else self._filters.get(predicate)
        found: list[tuple[str, int]] = []
        for (link, key), trees in sources.items() if sources is not None else ():
            client = self._clients.get(link)
            if client is not None:
                own = client.names.get(key)
                if own is not None:
                    found.append((link, cast(int, own)))
            elif tree in trees and link not in self.departed:
                found.append((link, 0))
        return found
