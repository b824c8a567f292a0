"""Events: down their tree, to whoever wants them.

The first broker gives an event its tree and the next number on it. Numbers rise along every way, so one that
is not higher than the last came before: it is dropped, be it repeated or overtaken, and nobody gets an event
twice or out of order.
"""

from penstock.broker.clients import Client, Clients
from penstock.broker.effects import Deliver, Refuse, Send
from penstock.broker.outbox import Outbox
from penstock.broker.table import Table
from penstock.broker.trees import HERE, Trees
from penstock.filters.predicate import Predicate
from penstock.model.events import Event, as_event
from penstock.model.names import Key, Tree
from penstock.wire.messages import Publish


class Publishing:
    """Passes events on.

    `floods`: to every broker. `knows_all`: which filters an event matches goes with it, so that later
    brokers need not find out.
    """

    def __init__(
        self,
        table: Table,
        trees: Trees,
        clients: Clients,
        outbox: Outbox,
        *,
        advertisements: bool,
        floods: bool,
        knows_all: bool,
    ) -> None:
        self.duplicates = 0
        """Events that came again, and were dropped."""
        self._table = table
        self._trees = trees
        self._clients = clients
        self._outbox = outbox
        self._advertisements = advertisements
        self._floods = floods
        self._knows_all = knows_all
        self._last: dict[Tree, int] = {}

    def on_publish(self, message: Publish, link: str) -> None:
        """An event comes from a client or from a neighbour."""
        client = self._clients.get(link)
        if client is not None:
            event = as_event(message.event)
            tree = self._tree_of(event, client) if client.grants.may_publish(event) else None
            if tree is None:
                why = "the event matches none of the client's advertisements or grants"
                self._outbox.effects.append(Refuse(link, why))
                return
            message = Publish(event, tree, self._last.get(tree, 0) + 1)
        elif link not in self._outbox.links or message.tree not in self._trees:
            return
        elif self._last.get(message.tree, 0) >= message.number:
            self.duplicates += 1
            return
        if self._floods:
            self._flood(message, link)
        else:
            self._pass_on(message, link)

    def forget(self, tree: Tree) -> None:
        """A tree is gone for ever."""
        self._last.pop(tree, None)

    def _tree_of(self, event: Event, client: Client) -> Tree | None:
        """The tree that an event of a client goes down."""
        if not self._advertisements:
            return next(iter(self._trees.through(HERE)))
        for tree in client.advertisements.values():
            if self._trees[tree].filter.matches(event):
                return tree
        return None

    def _pass_on(self, message: Publish, link: str) -> None:
        """Deliver an event, and send it where it is wanted."""
        event, tree, number, matching = message.event, message.tree, message.number, message.filters
        self._last[tree] = number
        effects = self._outbox.effects
        for to, wanted in self._table.wanting(
            self._table.matching(event) if matching is None else matching, tree
        ).items():
            if to in self._clients:
                self._deliver(to, message, wanted)
            elif to != link:
                known = None
                if self._knows_all:
                    # Several subscriptions may have the same filter.
                    filters = [predicate for _key, predicate in wanted]
                    known = tuple(filters if len(filters) == 1 else dict.fromkeys(filters))
                effects.append(Send(to, Publish(event, tree, number, known)))

    def _flood(self, message: Publish, link: str) -> None:
        """Send an event to everybody, if it came the way that its tree goes."""
        branch = self._trees.get(message.tree)
        if branch is None or branch.way not in (link, HERE):
            return
        self._last[message.tree] = message.number
        for to, wanted in self._table.wanting(self._table.matching(message.event), message.tree).items():
            if to in self._clients:
                self._deliver(to, message, wanted)
        self._outbox.effects += [Send(to, message) for to in self._outbox.links if to != link]

    def _deliver(self, link: str, message: Publish, wanted: list[tuple[Key, Predicate]]) -> None:
        client = self._clients[link]
        if not client.grants.may_receive(message.event):
            return
        names = client.names
        self._outbox.effects.append(Deliver(link, message, tuple([names[key] for key, _filter in wanted])))
