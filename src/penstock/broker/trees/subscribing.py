"""Subscriptions: what is asked of this broker, and what it asks of its neighbours in turn.

A client's subscription is bound to the trees whose advertisements it overlaps; a neighbour's comes with its
trees. On its way towards their publishers each is offered to the neighbours that are the way, and the scheme
that looks after a neighbour decides what is asked of it (see `penstock.routing.schemes`).

A new path, a new tree or a neighbour that leaves may concern all subscriptions that there are. What is to be
done about it is then *owed*, and done a slice at a time, by what is wanted at that moment. Anything may come
between two slices. Events go to clients meanwhile as their filters match. A question for what was missed goes
behind the subscriptions that it is for, and so waits until nothing is owed to its neighbour.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, cast

from penstock.broker.clients import Clients
from penstock.broker.table import Entry, Table
from penstock.broker.trees.outbox import Outbox
from penstock.broker.trees.trees import Trees
from penstock.filters.parsing import as_predicate
from penstock.filters.predicate import Predicate
from penstock.filters.relations import overlaps
from penstock.filters.work import Heft
from penstock.model.names import Key, Tree
from penstock.routing.offers import Offer
from penstock.routing.schemes.scheme import Name, Scheme, Source
from penstock.wire.messages import NO_TREES, Body, CatchUp, Subscribe, Unsubscribe

_PAIRS: Final = 16
"""Pairs of filters that are compared at the cost of one step."""

_CHANGE: Final = 4
"""What it costs to ask a neighbour for something else, or to forget a subscription."""

_text_of = lru_cache(2**16)(Predicate.to_sql)


def key_of(name: Name) -> Key:
    """What a neighbour is to call something that a scheme calls by its filter, or by a key."""
    return _text_of(name) if isinstance(name, Predicate) else cast(Key, name)


class Subscribing:
    """Keeps the table, and what is asked of each neighbour, up to date."""

    def __init__(
        self,
        table: Table,
        trees: Trees,
        clients: Clients,
        outbox: Outbox,
        make_scheme: Callable[[], Scheme],
        slice_size: int,
    ) -> None:
        self.schemes: dict[str, Scheme] = {}
        self._table = table
        self._trees = trees
        self._clients = clients
        self._outbox = outbox
        self._make_scheme = make_scheme
        self._slice_size = slice_size
        self._offered: dict[str, set[Source]] = {}
        self._urgent: dict[tuple[str, Key], Iterator[int]] = {}
        """Subscriptions that are being bound, by client and its key: they have half of each slice."""
        self._tasks: dict[tuple[str, ...], Iterator[int]] = {}
        """What is to be done in slices; a later one takes the place of an earlier one of the same name. Each
        gives what a step of it costs."""
        self._owed: dict[str, dict[Source, None]] = {}
        """By neighbour: the subscriptions that may not be asked of it yet as they should be."""
        self._behind: dict[str, dict[Tree, tuple[CatchUp, float]]] = {}
        """By neighbour and tree: the last question that waits, and since when."""
        self._pending: dict[tuple[str, Key], _Pending] = {}
        """By client and its key: a subscription that is being bound."""
        self._names: list[tuple[str, list[Key]]] | None = None
        """All subscriptions of clients, as long as none comes or goes: trees that come together share it."""
        self._now = 0.0

    def meet(self, link: str) -> None:
        """A neighbour is there, of whom nothing has been asked."""
        self.schemes[link] = self._make_scheme()
        self._offered[link] = set()
        self._forget_link(link)

    def part(self, link: str) -> None:
        """A neighbour can be asked for nothing any more."""
        del self.schemes[link], self._offered[link]
        self._forget_link(link)
        self._trees.part(link)

    def _forget_link(self, link: str) -> None:
        self._owed.pop(link, None)
        self._behind.pop(link, None)
        for name in [name for name in self._tasks if name[:2] == ("ask", link)]:
            del self._tasks[name]

    def knows(self, link: str) -> bool:
        """Whether a neighbour is there and can be asked for something."""
        return link in self.schemes

    def asked_of(self, link: str) -> tuple[Subscribe, ...]:
        """All that is asked of a neighbour."""
        asked = self.schemes[link].asked
        return tuple(Subscribe(key_of(name), offer.filter, offer.trees) for name, offer in asked.items())

    # Messages

    def on_client_subscribe(
        self, message: Subscribe, link: str, name: str, on_bound: Callable[[list[Tree], float], None]
    ) -> None:
        """A client wants something, which the network will know by a name; perhaps instead of what it had.

        `on_bound` is told to which trees it is bound, and when: soon, if there is much to compare.
        """
        client = self._clients[link]
        predicate = as_predicate(message.filter)
        before = client.subscriptions.get(message.key)
        client.subscriptions[message.key] = name
        client.names[name] = message.key
        self._names = None
        pending = self._pending.pop((link, message.key), None)
        if pending is None:
            pending = _Pending()
        else:
            # It has been changed before it was bound: what it takes the place of is yet to be dropped.
            self._urgent.pop((link, message.key), None)
        if before is not None:
            # It is still asked of neighbours, until what takes its place is.
            del client.names[before]
            pending.before.append(before)
        pending.on_bound.append(on_bound)
        source = Source(link, name)
        self._table.put(source, Entry(predicate, NO_TREES))
        task = self._binding_of(source, message.key, predicate, pending)
        self._pending[link, message.key] = pending
        # At once, but for what takes long.
        if sum(_up_to(self._slice_size, task)) >= self._slice_size:
            self._urgent[link, message.key] = task

    def on_client_unsubscribe(self, message: Unsubscribe, link: str) -> None:
        """A client wants something no longer."""
        client = self._clients[link]
        name = client.subscriptions.pop(message.key, None)
        if name is not None:
            self._names = None
            del client.names[name]
            client.unmake(message.key)
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
        self._doom(link, [item for item in self._table.items(link) if item[0] not in wanted])

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
        self._doom(link, self._table.items(link))

    def drop_client(self, link: str) -> None:
        """A client has left: forget all that it asked for, soon."""
        self._names = None
        for place in [place for place in self._pending if place[0] == link]:
            del self._pending[place]
            self._urgent.pop(place, None)
        keys = [key for key, _entry in self._table.items(link)]
        if keys:
            self._table.departed.add(link)
            self._tasks["drop", link] = self._dropping_client(link, keys)

    def bind(self, tree: Tree, predicate: Predicate, on_bound: Callable[[str, float], None]) -> None:
        """Bind what clients want to a new tree, soon, where it may come along there.

        `on_bound` is told of each client that wants something of it, once, and when.
        """
        if not predicate.filters:
            return
        if self._names is None:
            self._names = [(link, list(client.names)) for link, client in self._clients.items()]
        if self._names:
            self._tasks["bind", tree] = self._binding(tree, predicate, self._names, on_bound)

    def is_binding(self, tree: Tree) -> bool:
        """Whether it is not known yet who wants events of a tree."""
        return ("bind", tree) in self._tasks

    def is_binding_for(self, link: str) -> bool:
        """Whether it is not known yet what a client wants."""
        return any(place[0] == link for place in self._pending)

    def bound_clients(self, tree: Tree) -> list[str]:
        """The clients that want events of a tree."""
        return [link for link in self._table.bound_links(tree) if link in self._clients]

    def wanted_by(self, link: str) -> list[Predicate]:
        """What a client wants."""
        names = self._clients[link].names
        found = (self._table.get(Source(link, name)) for name in names)
        return [entry.filter for entry in found if entry is not None]

    def unbind(self, tree: Tree) -> None:
        """What clients want does not come along this tree any more."""
        # Behind what neighbours are told of it, which looks at who is bound.
        self._tasks.pop(("bind", tree), None)
        if self._table.is_bound(tree):
            self._tasks["bind", tree] = self._unbinding(tree)

    def reoffer_all(self, tree: Tree, link: str | None) -> None:
        """A link has become the way to a tree, or is so no longer."""
        if link in self.schemes and self._table.is_bound(tree):
            self._tasks["ask", link, tree] = self._asking(link, tree)

    def reoffer_everywhere(self, tree: Tree) -> None:
        """A tree is gone."""
        for link in self.schemes:
            self.reoffer_all(tree, link)

    # What is done in slices

    def _doom(self, link: str, items: list[tuple[Key, Entry]]) -> None:
        """Have subscriptions forgotten soon, but for those that are asked for anew before."""
        if items:
            self._tasks["drop", link] = self._dropping(link, items)

    def _dropping(self, link: str, items: list[tuple[Key, Entry]]) -> Iterator[int]:
        for key, entry in items:
            source = Source(link, key)
            if self._table.get(source) is entry:
                self._forget(source)
            yield _CHANGE

    def _dropping_client(self, link: str, keys: list[Key]) -> Iterator[int]:
        for key in keys:
            source = Source(link, key)
            # A client may have come under the same name meanwhile, with subscriptions of other names.
            if self._table.get(source) is not None and not self._is_wanted(source):
                self._forget(source)
            yield _CHANGE

    def _forget(self, source: Source) -> None:
        """Forget one of many subscriptions."""
        self._table.drop(source)
        for link in self.schemes:
            self._owe(source, link)

    def _is_wanted(self, source: Source) -> bool:
        """Whether this is a subscription of a client that is there."""
        client = self._clients.get(source.link)
        return client is not None and source.key in client.names

    def _asking(self, link: str, tree: Tree) -> Iterator[int]:
        for source in _sources(self._table.bound(tree)):
            self._reoffer(source, link)
            yield _CHANGE

    def _binding(
        self,
        tree: Tree,
        predicate: Predicate,
        todo: list[tuple[str, list[Key]]],
        on_bound: Callable[[str, float], None],
    ) -> Iterator[int]:
        bound: set[str] = set()
        heft = _heft(predicate)
        for source in _sources(todo):
            entry = self._table.get(source)
            if entry is None or not self._is_wanted(source):
                yield 1
                continue
            is_wanted = overlaps(entry.filter, predicate)
            if is_wanted != (tree in entry.trees):
                self._table.rebind(source, entry.trees ^ {tree})
            if is_wanted:
                self._owe_ways(source, tree)
                if source.link not in bound:
                    bound.add(source.link)
                    on_bound(source.link, self._now)
            yield _cost(entry.filter, predicate, heft)

    def _unbinding(self, tree: Tree) -> Iterator[int]:
        for source in _sources(self._table.bound(tree)):
            entry = self._table.get(source)
            if entry is not None and tree in entry.trees and self._is_wanted(source):
                self._table.rebind(source, entry.trees - {tree})
            yield 1

    def _binding_of(
        self,
        source: Source,
        key: Key,
        predicate: Predicate,
        pending: "_Pending",
    ) -> Iterator[int]:
        heft = _heft(predicate)
        for tree in list(self._trees.names()):
            branch, entry = self._trees.get(tree), self._table.get(source)
            if entry is None or not self._is_wanted(source):
                break
            if branch is not None:
                if tree not in entry.trees and overlaps(predicate, branch.filter):
                    self._table.rebind(source, entry.trees | {tree})
                yield _cost(branch.filter, predicate, heft)
        if self._pending.get((source.link, key)) is pending:
            del self._pending[source.link, key]
        entry = self._table.get(source)
        if entry is not None and self._is_wanted(source):
            for link in self.schemes:
                self._reoffer(source, link)
            for on_bound in pending.on_bound:
                on_bound(sorted(entry.trees), self._now)
        for name in pending.before:
            before = Source(source.link, name)
            if self._table.get(before) is not None:
                self.drop(before)

    def _owe_ways(self, source: Source, tree: Tree) -> None:
        """Have a subscription asked for where a tree leads."""
        for link in self.schemes:
            if tree in self._trees.asked_through(link):
                self._owe(source, link)

    # What is owed

    def _owe(self, source: Source, link: str) -> None:
        if source.link != link:
            self._owed.setdefault(link, {})[source] = None

    @property
    def owes(self) -> bool:
        """Whether anything is left to be done."""
        return bool(self._owed or self._urgent or self._tasks)

    def ask_behind(self, link: str, question: CatchUp, now: float) -> None:
        """Ask a neighbour for what was missed, once it has been asked for all that is owed."""
        if self._is_owed(link, question.tree):
            self._behind.setdefault(link, {})[question.tree] = question, now
        else:
            self._outbox.tell(link, [question])

    def _is_owed(self, link: str, tree: Tree) -> bool:
        """Whether a neighbour may not have been asked for all that is wanted of a tree."""
        return link in self._owed or ("ask", link, tree) in self._tasks or self.is_binding(tree)

    def begin(self, now: float) -> None:
        """Something is about to happen."""
        self._now = now

    def go_on(self) -> None:
        """Do a slice of what is owed."""
        most = self._slice_size
        if self._urgent:
            _work_off(self._urgent, (most + 1) // 2)
        most = _work_off(self._tasks, most)
        while self._owed and most > 0:
            link, owed = next(iter(self._owed.items()))
            while owed and most > 0:
                source = next(iter(owed))
                del owed[source]
                self._reoffer(source, link)
                most -= _CHANGE
            if not owed:
                del self._owed[link]
        for link in list(self._behind):
            self._ask_what_waits(link)

    def _ask_what_waits(self, link: str) -> None:
        waiting = self._behind[link]
        for tree in [tree for tree in waiting if not self._is_owed(link, tree)]:
            question, since = waiting.pop(tree)
            # It is about the time before it was asked.
            self._outbox.tell(link, [CatchUp(tree, question.number, question.seconds + self._now - since)])
        if not waiting:
            del self._behind[link]

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


class _Pending:
    """What is to be done when a subscription has been bound."""

    def __init__(self) -> None:
        self.before: list[str] = []
        """The names of what it takes the place of."""
        self.on_bound: list[Callable[[list[Tree], float], None]] = []


def _work_off(tasks: dict[Any, Iterator[int]], most: int) -> int:
    """Do some of what there is to do, at about this cost; return what is left of it."""
    while tasks and most > 0:
        name, task = next(iter(tasks.items()))
        for cost in _up_to(most, task):
            most -= cost
        if most > 0 and tasks.get(name) is task:
            del tasks[name]
    return most


def _up_to(most: int, costs: Iterator[int]) -> Iterator[int]:
    """Costs, until they come to at least so much; the rest stays where it is."""
    while most > 0:
        cost = next(costs, None)
        if cost is None:
            return
        most -= cost
        yield cost


def _heft(predicate: Predicate) -> Heft:
    return Heft.greatest(predicate.filters) if predicate.filters else Heft(0, 0)


def _cost(a: Predicate, b: Predicate, heft: Heft) -> int:
    """What it costs to compare two predicates; of the second it is known how heavy its filters are."""
    pairs = len(a.filters) * len(b.filters)
    if not any(heft):
        return 1 + pairs // _PAIRS
    return 1 + pairs * Heft.greatest(a.filters).overlapping(heft) // _PAIRS if pairs else 1


def _sources(todo: list[tuple[str, list[Key]]]) -> Iterator[Source]:
    return (Source(link, key) for link, keys in todo for key in keys)
