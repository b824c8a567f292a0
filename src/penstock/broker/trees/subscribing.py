"""Subscriptions: what is asked of this broker, and what it asks of its neighbours in turn.

A client's subscription is bound to the trees whose advertisements it overlaps; a neighbour's comes with its
trees. On its way towards their publishers each is offered to the neighbours that are the way, and the scheme
that looks after a neighbour decides what is asked of it (see `penstock.routing.schemes`).

A new path may concern all subscriptions that there are. What is asked on it is then *owed*, and brought up to
date a slice at a time, by what is wanted at that moment. A question for what was missed goes behind the
subscriptions that it is for, and so waits until nothing is owed to its neighbour.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

from penstock.broker.clients import Clients
from penstock.broker.table import Entry, Table
from penstock.broker.trees.outbox import Outbox
from penstock.broker.trees.trees import Trees
from penstock.filters.parsing import as_predicate
from penstock.filters.predicate import Predicate
from penstock.filters.relations import overlaps
from penstock.model.names import Key, Tree
from penstock.routing.offers import Offer
from penstock.routing.schemes.scheme import Name, Scheme, Source
from penstock.wire.messages import NO_TREES, Body, CatchUp, Subscribe, Unsubscribe

_text_of = lru_cache(2**16)(Predicate.to_sql)


def key_of(name: Name) -> Key:
    """What a neighbour is to call something that a scheme calls by its filter, or by a key."""
    return _text_of(name) if isinstance(name, Predicate) else cast(Key, name)


class Subscribing:
    """Keeps the table, and what is asked of each neighbour, up to date."""

    def __init__(
        self, table: Table, trees: Trees, clients: Clients, outbox: Outbox, make_scheme: Callable[[], Scheme]
    ) -> None:
        self.schemes: dict[str, Scheme] = {}
        self._table = table
        self._trees = trees
        self._clients = clients
        self._outbox = outbox
        self._make_scheme = make_scheme
        self._offered: dict[str, set[Source]] = {}
        self._owed: dict[str, dict[Source, None]] = {}
        """By neighbour: the subscriptions that may not be asked of it yet as they should be."""
        self._doomed: dict[Source, Entry] = {}
        """What neighbours ask for no longer, and is still known."""
        self._behind: dict[str, dict[Tree, tuple[CatchUp, float]]] = {}
        """By neighbour and tree: the last question that waits, and since when."""

    def meet(self, link: str) -> None:
        """A neighbour is there, of whom nothing has been asked."""
        self.schemes[link] = self._make_scheme()
        self._offered[link] = set()
        self._owed.pop(link, None)
        self._behind.pop(link, None)

    def part(self, link: str) -> None:
        """A neighbour can be asked for nothing any more."""
        del self.schemes[link], self._offered[link]
        self._owed.pop(link, None)
        self._behind.pop(link, None)
        self._trees.part(link)

    def knows(self, link: str) -> bool:
        """Whether a neighbour is there and can be asked for something."""
        return link in self.schemes

    def asked_of(self, link: str) -> tuple[Subscribe, ...]:
        """All that is asked of a neighbour."""
        asked = self.schemes[link].asked
        return tuple(Subscribe(key_of(name), offer.filter, offer.trees) for name, offer in asked.items())

    # Messages

    def on_client_subscribe(self, message: Subscribe, link: str, name: str) -> None:
        """A client wants something, which the network will know by a name; perhaps instead of what it had."""
        client = self._clients[link]
        predicate = as_predicate(message.filter)
        before = client.subscriptions.get(message.key)
        client.subscriptions[message.key] = name
        client.names[name] = message.key
        trees = frozenset(t for t, branch in self._trees.items() if overlaps(predicate, branch.filter))
        self.put(Source(link, name), Entry(predicate, trees))
        if before is not None:
            del client.names[before]
            self.drop(Source(link, before))

    def on_client_unsubscribe(self, message: Unsubscribe, link: str) -> None:
        """A client wants something no longer."""
        client = self._clients[link]
        name = client.subscriptions.pop(message.key, None)
        if name is not None:
            del client.names[name], client.made[message.key]
            self.drop(Source(link, name))

    def on_subscribe(self, message: Subscribe, link: str) -> None:
        """A neighbour asks for something."""
        self.put(Source(link, message.key), Entry(message.filter, message.trees))
        for key in message.replaces:
            self.on_unsubscribe(Unsubscribe(key), link)

    def on_unsubscribe(self, message: Unsubscribe, link: str) -> None:
        """A neighbour takes something back."""
        source = Source(link, message.key)
        if self._table.get(source) is not None:
            self.drop(source)

    def drop_others(self, link: str, wanted: set[Key]) -> None:
        """A neighbour has said all that it asks for: soon forget the rest."""
        for key in self._table.keys(link):
            if key not in wanted:
                self._doom(Source(link, key))

    # Changes

    def put(self, source: Source, entry: Entry) -> None:
        """Take a subscription, and ask for it where its trees lead."""
        self._table.put(source, entry)
        for link in self.schemes:
            self._reoffer(source, link)

    def drop(self, source: Source) -> None:
        """Forget a subscription, and ask for it no more."""
        self._table.drop(source)
        for link in self.schemes:
            self._reoffer(source, link)

    def drop_all(self, link: str) -> None:
        """Forget all that was asked for on a link, soon, but for what is asked for anew."""
        for key in self._table.keys(link):
            self._doom(Source(link, key))

    def _doom(self, source: Source) -> None:
        """Have a subscription forgotten soon, unless it is asked for anew before."""
        entry = self._table.get(source)
        if entry is not None:
            self._doomed[source] = entry

    def _forget(self, source: Source) -> None:
        """Forget one of many subscriptions."""
        self._table.drop(source)
        for link in self.schemes:
            self._owe(source, link)

    def bind(self, tree: Tree, predicate: Predicate) -> None:
        """Bind what clients want to a new tree, where it may come along there."""
        for source in self._clients.sources():
            entry = self._table.get(source)
            if entry is not None and tree not in entry.trees and overlaps(entry.filter, predicate):
                self._table.put(source, Entry(entry.filter, entry.trees | {tree}))

    def bound_clients(self, tree: Tree) -> list[str]:
        """The clients that want events of a tree."""
        links = dict.fromkeys(source.link for source in self._table.bound(tree))
        return [link for link in links if link in self._clients]

    def unbind(self, tree: Tree) -> None:
        """What clients want does not come along this tree any more."""
        for source in self._table.bound(tree):
            entry = self._table.get(source)
            if source.link in self._clients and entry is not None:
                self._table.put(source, Entry(entry.filter, entry.trees - {tree}))

    def reoffer_all(self, tree: Tree, link: str | None) -> None:
        """A link has become the way to a tree, or is so no longer."""
        if link in self.schemes:
            for source in self._table.bound(tree):
                self._owe(source, link)

    def reoffer_everywhere(self, tree: Tree) -> None:
        """A tree is gone."""
        for link in self.schemes:
            self.reoffer_all(tree, link)

    # What is owed

    def _owe(self, source: Source, link: str) -> None:
        if source.link != link:
            self._owed.setdefault(link, {})[source] = None

    @property
    def owes(self) -> bool:
        """Whether a neighbour is yet to be asked for something, or something is yet to be forgotten."""
        return bool(self._owed or self._doomed)

    def ask_behind(self, link: str, question: CatchUp, now: float) -> None:
        """Ask a neighbour for what was missed, once it has been asked for all that is owed."""
        if link in self._owed:
            self._behind.setdefault(link, {})[question.tree] = question, now
        else:
            self._outbox.tell(link, [question])

    def go_on(self, most: int, now: float) -> None:
        """Bring up to date some of what is owed, at most so many."""
        while self._doomed and most > 0:
            source, entry = self._doomed.popitem()
            if self._table.get(source) is entry:
                self._forget(source)
            most -= 1
        while self._owed and most > 0:
            link, owed = next(iter(self._owed.items()))
            while owed and most > 0:
                source = next(iter(owed))
                del owed[source]
                self._reoffer(source, link)
                most -= 1
            if not owed:
                del self._owed[link]
                for question, since in self._behind.pop(link, {}).values():
                    # It is about the time before it was asked.
                    seconds = question.seconds + now - since
                    self._outbox.tell(link, [CatchUp(question.tree, question.number, seconds)])

    def _reoffer(self, source: Source, link: str) -> None:
        """Bring up to date what a subscription asks of a neighbour."""
        if source.link == link:
            return
        scheme, offered = self.schemes[link], self._offered[link]
        entry = self._table.get(source)
        trees = NO_TREES if entry is None else entry.trees & self._trees.asked_through(link)
        if entry is not None and trees:
            offered.add(source)
            steps = scheme.put(source, Offer(entry.filter, trees))
        elif source in offered:
            offered.discard(source)
            steps = scheme.drop(source)
        else:
            return
        if steps.ask or steps.take_back:
            bodies: list[Body] = [
                Subscribe(
                    key_of(asked.key),
                    asked.offer.filter,
                    asked.offer.trees,
                    tuple([key_of(name) for name in asked.replaces]),
                )
                for asked in steps.ask
            ]
            bodies += [Unsubscribe(key_of(name)) for name in steps.take_back]
            self._outbox.tell(link, bodies)
