"""Catching up: what a broker may have missed while its path to a publisher was broken, it is sent again.

The publisher's broker keeps what was published there for a while. A broker that has found a path to a tree
again says CatchUp along it, behind its subscriptions; so when that arrives, events come by this path, and
what was kept since the old path failed is sent after it. CaughtUp follows it back: nothing is missing then,
but for what was no longer kept, of which clients are told.

A gap begins when something was last heard by the old path, and ends with the answer to the last question; if
the path breaks before, the question is asked again on the next one, about all of the gap. Brokers on the
path ask in turn, in the name of those behind them (`askers`).

The broker that keeps events may die, or stay apart for good. Then nobody answers: after a while clients are
told that they may have missed events. A publisher that lives and is at another broker (`publishers`) says how
many were acknowledged since the gap began: then clients are told sooner, or not at all if there were none.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.broker.clients import Clients
from penstock.broker.effects import UNKNOWN, Behind, Missed, Replay
from penstock.broker.publishers import ANSWERED_KEEPS, FIRST_TURN, Publisher
from penstock.broker.table import Table
from penstock.broker.trees.outbox import Outbox
from penstock.broker.trees.reports import reported
from penstock.broker.trees.subscribing import Subscribing
from penstock.broker.trees.trees import HERE, Stump, Trees
from penstock.filters.predicate import Predicate
from penstock.filters.relations import overlaps
from penstock.model.names import Tree
from penstock.wire.messages import CatchUp, CaughtUp

OWN: Final = ""
"""The broker itself, among those who ask: it passes on what it has missed to all who want it."""

_GAPS_MAX: Final = 10_000
"""Trees of which it is remembered that something may be missing, though they are gone; the last ones."""

_EARLIER: Final = "?"
"""Before an origin: the tree of its earlier broker, which is not known here."""

_PLANTED_SLACK_S: Final = 2.0
"""Seconds by which a tree may be older than what is heard of it: that was under way for a while."""

_SOON_SHARE: Final = 0.5
"""Who is told of something is also told of what is due within this share of the time that events are kept."""

_LEARNT_S: Final = 5.0
"""Seconds after which a broker knows the trees that a client who comes may have missed events of."""


class Asker(NamedTuple):
    """Who has asked."""

    number: int
    """Of its own question."""
    since: float
    """Since when it may be missing something."""
    until: float
    """When it is told that it may have missed events, unless there is a path then; inf if it has been."""
    told_at: float = float("-inf")
    """When it was told last: what it may have missed before is settled."""

    @property
    def is_told(self) -> bool:
        """Whether it has been told, and is told nothing more unless there is news."""
        return self.told_at > float("-inf") and self.until == float("inf")

    @property
    def behind_since(self) -> float:
        """Since when something may be missing that it has not been told of."""
        return max(self.since, self.told_at)


class Gap:
    """What may be missing of a tree, since when, and for whom."""

    __slots__ = ("asked_at", "askers", "count", "left", "number", "since", "unheard_since")

    def __init__(self, since: float, left: Publisher) -> None:
        self.left = left
        """The publisher, as it was on this tree."""
        self.since = since
        """May be later than now: until then, events still come by the old path."""
        self.unheard_since = float("inf")
        """Since when events may be missing too, if the publisher was elsewhere before: they are asked for."""
        self.askers: dict[str, Asker] = {}
        """By their links."""
        self.number = 0
        """Of the last question; 0 if there is no path to ask on."""
        self.asked_at = 0.0
        self.count = UNKNOWN
        """How many events may have been missed, as far as their publisher says so."""


class Catching:
    """Knows what is missing, and asks for it."""

    def __init__(
        self,
        table: Table,
        trees: Trees,
        clients: Clients,
        outbox: Outbox,
        subscribing: Subscribing,
        *,
        keep: float,
        linger: float,
        own_trees: bool,
    ) -> None:
        """`keep`: how long brokers keep events; `linger`: at least how long they wait for who is away.

        `own_trees`: events come along trees of the brokers themselves (see `reports`).
        """
        self._gaps: dict[Tree, Gap] = {}
        self._of_origin: dict[str, dict[Tree, None]] = {}
        """The trees with gaps, by who publishes on them."""
        self._table = table
        self._trees = trees
        self._clients = clients
        self._outbox = outbox
        self._subscribing = subscribing
        self._keep = keep
        self._linger = linger
        self._own_trees = own_trees
        self.is_on = keep > 0
        """Whether brokers keep anything."""
        self._gone: dict[str, list[tuple[Tree, Stump]]] = {}
        """Of clients that have come: the trees that are gone, and that they may have missed events of."""
        self._asked = 0
        self._began_at = float("inf")
        self._is_news = False
        """Whether a publisher has said lately what was acknowledged."""
        self._is_taught = False
        """Whether a neighbour has told all that this broker is too young to know."""
        self._is_alone = True
        """Whether no neighbour has come since this broker was started."""
        self._behind: dict[str, float] = {}
        """The clients that know that events are yet to come, and since when."""
        self._unheard: dict[str, float] = {}
        """The clients that know that there may be publishers which are unheard of here, and since when."""
        self._apart: dict[str, tuple[float, float]] = {}
        """When neighbours that are away were heard last, and until when that matters."""

    def asks(self, tree: Tree, link: str) -> bool:
        """Whether events of a tree that are sent again, and have passed here before, are for a link."""
        gap = self._gaps.get(tree)
        return gap is not None and link in gap.askers

    def silence(self, tree: Tree, now: float) -> float:
        """For how many seconds there may have been no path to a tree."""
        gap = self._gaps.get(tree)
        own = None if gap is None else gap.askers.get(OWN)
        return 0.0 if own is None else max(0.0, now - own.since)

    # Gaps

    def miss(self, trees: Iterable[Tree], since: float, now: float) -> None:
        """Events of trees may be missing since a time, if anybody here wants any."""
        for tree in trees:
            if self.is_on and (self._table.is_bound(tree) or self._subscribing.is_binding(tree)):
                self._note(tree, since, OWN, Asker(0, since, now + ANSWERED_KEEPS * self._keep))
                if self._weigh(tree):
                    self._ask(tree, now)
                    self._tell_clients(tree, now)

    def miss_for(self, link: str, trees: Iterable[Tree], since: float, now: float) -> None:
        """A client may have missed events of trees: they passed here while it was elsewhere, or never did."""
        client = self._clients[link]
        if client.missing_since is not None:
            self._knows_of(link, client.missing_since)
            self._unheard.setdefault(link, client.unheard_since)
        for tree in trees:
            if self.is_on:
                self._note(tree, since, link, Asker(0, since, now + ANSWERED_KEEPS * self._keep))
                gap = self._gaps[tree]
                gap.unheard_since = min(gap.unheard_since, max(client.unheard_since, self._first(tree)))
                if self._weigh(tree):
                    self._ask(tree, now)
                self.miss_earlier(link, tree, now)

    def miss_earlier(self, link: str, tree: Tree, now: float) -> None:
        """A client may have missed what a publisher's earlier broker acknowledged, and kept.

        If that broker can be reached, it is asked itself: its tree is known then. A client that has been here
        for long has missed nothing of trees that were known here; but one may have come and gone while this
        broker was apart from it.
        """
        client, publisher = self._clients[link], self._trees.publisher(tree)
        origin, turn, _acked = publisher
        if not origin or turn <= FIRST_TURN or origin.startswith(f"{client.origin}/"):
            # Of what it has published itself, nothing was acknowledged before it had dealt with it.
            return
        since = client.missing_since
        has_come = since is not None and now - client.came_at <= 2 * self._keep
        if since is None or not has_come:
            since = client.wants_since
        if not has_come or not self._has_earlier(origin, turn):
            # It may have been anywhere since its first broker.
            left = Publisher(origin, FIRST_TURN)
            earlier = _EARLIER + origin
            self._note(earlier, since, link, Asker(0, since, now + ANSWERED_KEEPS * self._keep), left)
            self._weigh(earlier)

    def _has_earlier(self, origin: str, turn: int) -> bool:
        known = (other for other in self._trees.of_origin(origin) if other in self._trees)
        return any(self._trees.publisher(other).turn < turn for other in known)

    def miss_gone(self, link: str, predicate: Predicate, since: float, now: float) -> None:
        """A client that has come may have missed events of trees that are gone."""
        if not self.is_on:
            return
        gone = self._gone.get(link)
        if gone is None:
            # A client may have very many subscriptions, and all of them have missed the same time.
            gone = self._gone[link] = self._trees.gone_for(since, self._keep, self._linger)
        self._miss_stumps(link, predicate, since, gone, now)

    def learn(self, new: list[tuple[Tree, Stump]], now: float, *, all_of_them: bool) -> None:
        """A neighbour has said which trees are gone that were not known here; perhaps all there are."""
        self._is_taught |= all_of_them
        if not new:
            return
        self._gone.clear()
        for link, client in self._clients.items():
            since = client.missing_since
            if since is not None and now - client.came_at < self._keep:
                gone = [one for one in new if one[1].is_for(since, self._keep, self._linger)]
                for predicate in self._subscribing.wanted_by(link) if gone else ():
                    self._miss_stumps(link, predicate, since, gone, now)

    def _miss_stumps(
        self, link: str, predicate: Predicate, since: float, gone: list[tuple[Tree, Stump]], now: float
    ) -> None:
        for tree, stump in gone:
            if overlaps(predicate, stump.filter):
                self._knows_of(link, since)
                is_lost = stump.ended or not stump.unadvertised
                until = now + ANSWERED_KEEPS * self._keep if is_lost else now
                self._note(tree, since, link, Asker(0, since, until))
                self._weigh(tree)

    def _note(self, tree: Tree, since: float, link: str, asker: Asker, left: Publisher | None = None) -> None:
        first = self._first(tree)
        if since < first < float("inf"):
            since, asker = first, asker._replace(since=max(asker.since, first))
        gap = self._gaps.get(tree)
        if gap is None:
            gap = self._gaps[tree] = Gap(since, left or self._trees.publisher(tree))
            self._of_origin.setdefault(gap.left.origin, {})[tree] = None
            if len(self._gaps) > _GAPS_MAX:
                self._give_up(next(iter(self._gaps)))
        gap.since = min(gap.since, since)
        known = gap.askers.get(link)
        if known is not None:
            since, until = min(known.since, asker.since), min(known.until, asker.until)
            asker = Asker(asker.number, since, until, known.told_at)
        gap.askers[link] = asker

    def _first(self, tree: Tree) -> float:
        """When a tree was planted, at the earliest: nobody has missed events of it from before."""
        return self._trees.planted_at(tree) - _PLANTED_SLACK_S

    def _close(self, tree: Tree) -> Gap:
        """Nothing of a tree is missing any more, or nobody will know."""
        gap = self._gaps.pop(tree)
        trees = self._of_origin[gap.left.origin]
        del trees[tree]
        if not trees:
            del self._of_origin[gap.left.origin]
        return gap

    # What the publisher says

    def heed(self, tree: Tree, publisher: Publisher, now: float) -> None:
        """A publisher has advertised at another broker: it knows what the one before has acknowledged."""
        earlier = self._gaps.get(_EARLIER + publisher.origin)
        if earlier is not None and publisher.turn <= earlier.left.turn:
            # Whoever may have missed something asks for it on this tree.
            self._close(_EARLIER + publisher.origin)
        self._is_news |= bool(publisher.acked)
        for other in list(self._of_origin.get(publisher.origin, ())) if publisher.origin else ():
            if other != tree and self._weigh(other):
                self._tell_again(self._gaps[other], now)

    def _tell_again(self, gap: Gap, now: float) -> None:
        """A publisher has said what was acknowledged since clients were told that nobody knows."""
        for link, asker in gap.askers.items():
            if asker.is_told:
                gap.askers[link] = asker._replace(until=now + ANSWERED_KEEPS * self._keep)

    def _weigh(self, tree: Tree) -> bool:
        """Whether anything can be missing of a tree, by what its publisher says that left it.

        The broker that it left has waited for a while before it acknowledged what it could not pass on. Those
        that it has been at since may not have known that anybody here is to be waited for; but what is
        missing of their trees may be asked for by itself.
        """
        gap = self._gaps[tree]
        origin, turn, _acked = gap.left
        known = {other.turn: other for other in map(self._trees.publisher, self._trees.of_origin(origin))}
        if not origin or not known or (last := max(known)) <= turn:
            return True
        others = {
            self._trees.publisher(other).turn
            for other in self._trees.of_origin(origin)
            if self._is_looked_after(other, gap)
        } - (set() if tree.startswith(_EARLIER) else {turn})
        if any(link != OWN and link not in self._clients for link in gap.askers):
            # What is known here need not be known to a neighbour that asks.
            others = set()
        since, waited = gap.since, self._linger
        if all(asker.is_told for asker in gap.askers.values()):
            # The broker has long waited for none of them any more.
            since, waited = min(asker.told_at for asker in gap.askers.values()), 0.0
        gap.count = known[last].acked_since(since, {turn}, waited, others)
        if not gap.count:
            self._answer(tree, 0)
        return bool(gap.count)

    def _is_looked_after(self, tree: Tree, gap: Gap) -> bool:
        """Whether what is missing of a tree is asked for by itself, or was told, for all who ask in a gap.

        Whoever was here until a tree was gone has had all of it, or was told.
        """
        if tree in self._trees:
            return True
        stump, own = self._trees.stump(tree), self._gaps.get(tree)
        # Who came later than that is not known to have had anything.
        here_until = stump.since if stump is not None and stump.was_here else float("-inf")
        return all(
            (own is not None and link in own.askers)
            or (link in self._clients and self._clients[link].came_at <= here_until)
            for link in gap.askers
        )

    def _ask(self, tree: Tree, now: float) -> None:
        gap, branch = self._gaps[tree], self._trees.get(tree)
        gap.number, gap.asked_at = 0, now
        if branch is None or branch.way is None:
            return
        self._asked += 1
        gap.number = self._asked
        seconds = max(0.0, now - min(gap.since, gap.unheard_since))
        if branch.way == HERE:
            self._outbox.effects.append(Replay(tree, gap.number, seconds))
        else:
            self._subscribing.ask_behind(branch.way, CatchUp(tree, gap.number, seconds), now)

    def on_tick(self, now: float) -> None:
        """Time has passed: have clients know what is still missing."""
        self._began_at = min(self._began_at, now)
        self._expire(now)
        self._tell_behind(now)

    def _tell_behind(self, now: float) -> None:
        """Have each client know since when something may be missing that it was not told of.

        It asks its next broker for no more than that, or for nothing. Of trees that are yet to be heard of,
        nobody knows what is missing: until then the client goes by what it knew itself.
        """
        knows_gone = self.knows_gone(now)
        behind: dict[str, float] = {}
        for tree in self._gaps:
            # Those that are gone may come back.
            for link, since in self._affected(tree).items():
                behind[link] = min(behind.get(link, since), since)
        apart_since = self._apart_since(now)
        # What nobody has told to a broker that has just started, it may have yet to hear.
        is_young = not self._is_taught and now - self._began_at < ANSWERED_KEEPS * self._keep
        # Nor does it know who is missing, as long as nobody has come.
        is_new_and_alone = is_young and self._is_alone
        all_clients = self._clients.keys() if apart_since < now else set[str]()
        for link in sorted(behind.keys() | self._behind.keys() | self._unheard.keys() | all_clients):
            client, since = self._clients.get(link), behind.get(link, float("inf"))
            if client is None:
                self._behind.pop(link, None)
                self._unheard.pop(link, None)
                continue
            known, unheard_before = (
                self._behind.get(link, float("inf")),
                self._unheard.get(link, float("inf")),
            )
            unheard = max(apart_since, client.wants_since)
            if is_young:
                unheard = min(unheard, client.unheard_since)
            is_settled = knows_gone and not is_new_and_alone and now - client.came_at > _LEARNT_S
            is_settled = is_settled and not self._subscribing.is_binding_for(link)
            self._unheard[link] = unheard if is_settled else min(unheard, unheard_before)
            is_later = since > known and is_settled
            if is_later:
                self._say_behind(link, float("inf"), now)
                del self._behind[link]
                known = float("inf")
            # What waits on a line on the way seems to be of later, so that it is said more than once.
            if since < now and (since < known or now - since < ANSWERED_KEEPS * self._keep):
                self._say_behind(link, since, now)
            elif self._unheard[link] != unheard_before and not is_later:
                self._say_behind(link, known, now)
            if self._unheard[link] == float("inf"):
                del self._unheard[link]

    def _say_behind(self, link: str, since: float, now: float) -> None:
        """Have a client know what is missing since a time, or that nothing is, if that is inf."""
        unheard = max(0.0, now - self._unheard.get(link, now))
        self._outbox.effects.append(Behind(link, max(0.0, now - since), unheard))
        if since < now:
            self._knows_of(link, since)

    def _apart_since(self, now: float) -> float:
        """Since when publishers may have come behind neighbours that are away, unheard of here."""
        self._apart = {link: apart for link, apart in self._apart.items() if apart[1] > now}
        return min((since for since, _until in self._apart.values()), default=float("inf"))

    def _knows_of(self, link: str, since: float) -> None:
        """A client knows that events are yet to come since a time."""
        self._behind[link] = min(since, self._behind.get(link, since))

    def knows_gone(self, now: float) -> bool:
        """Whether this broker has heard of all trees of which clients may have missed events."""
        return self._is_taught or now - self._began_at >= self._keep

    def _expire(self, now: float) -> None:
        """Of what nobody has answered for as long as it is kept, tell clients that it may be missing."""
        found: dict[str, list[int]] = {}
        for tree in list(self._gaps):
            self._expire_gap(tree, now, now, found)
        # What is due soon is told with it, so that nobody is told twice.
        soon = now + self._keep * _SOON_SHARE
        for tree in list(self._gaps) if found else ():
            self._expire_gap(tree, now, soon, found, set(found))
        self._is_news = False
        self._tell_missed(found)

    def _expire_gap(
        self, tree: Tree, now: float, due: float, found: dict[str, list[int]], only: set[str] | None = None
    ) -> None:
        """Find the clients that are told of a gap that is due now, and of how many events; all, or some."""
        gap = self._gaps[tree]
        if gap.number:
            # There is a path, and an answer under way.
            return
        is_last = any(asker.until <= due for asker in gap.askers.values())
        if (is_last or self._due(gap, due, only)) and not self._weigh(tree):
            # What the publisher says may have been known before anybody missed anything.
            return
        # Of what publishers say, nothing is certain before they have had the time to.
        is_harmless = (self._is_news or is_last) and self._is_harmless(tree, gap)
        for link in self._due(gap, due, only):
            for client in self._clients_of(tree, link) if not is_harmless else ():
                found.setdefault(client, []).append(gap.count)
            if tree not in self._trees and (is_harmless or gap.count):
                # Its publisher has said how much there was, and is elsewhere.
                del gap.askers[link]
            else:
                # It may come back, and then there is an answer. Until then, more may be published there.
                gap.askers[link] = gap.askers[link]._replace(until=float("inf"), told_at=now)
        if not gap.askers:
            self._close(tree)

    def _due(self, gap: Gap, now: float, only: set[str] | None) -> list[str]:
        """Who has waited for long enough for an answer."""
        # Whose publisher is elsewhere by now will hardly be answered.
        sooner = (ANSWERED_KEEPS - 1) * self._keep if gap.count else 0.0
        due = [link for link, asker in gap.askers.items() if asker.until - sooner <= now]
        return due if only is None else [link for link in due if link in only]

    def _is_harmless(self, tree: Tree, gap: Gap) -> bool:
        """Whether nothing can be missing of a broker's own tree, by what its publishers say.

        Of the others it is known as soon as their publisher says so (`_weigh`).
        """
        if not self._own_trees or (self._began_at > gap.since and not self._is_taught):
            # In an earlier life, more publishers may have been known.
            return False
        apart_since = gap.since - ANSWERED_KEEPS * self._keep
        count = reported(self._trees, tree, gap.since, self._linger, apart_since)
        gap.count = count or UNKNOWN
        return count == 0

    def _tell_missed(self, found: dict[str, list[int]]) -> None:
        """Tell clients of events that are lost with the broker that kept them; how many, if that is known."""
        for link, counts in found.items():
            count = UNKNOWN if UNKNOWN in counts else sum(counts)
            self._outbox.effects.append(Missed(link, count, "unreachable"))

    def _give_up(self, tree: Tree) -> None:
        """Nobody will answer what is missing of a tree."""
        gap = self._gaps[tree]
        self._tell_missed({link: [gap.count] for link in self._affected(tree)})
        self._close(tree)

    def on_gone(self, tree: Tree) -> None:
        """A tree is about to be forgotten: remember who was missing events of it."""
        gap = self._gaps.get(tree)
        own = None if gap is None else gap.askers.pop(OWN, None)
        if gap is None or own is None:
            return
        for link in self._clients_of(tree, OWN):
            known = gap.askers.get(link, own)
            since, until = min(known.since, own.since), min(known.until, own.until)
            gap.askers[link] = Asker(0, since, until, min(known.told_at, own.told_at))
        for link in [] if not gap.count else [link for link, one in gap.askers.items() if one.is_told]:
            # Its publisher has said how much there was, and is elsewhere.
            del gap.askers[link]
        if not gap.askers:
            self._close(tree)

    def _clients_of(self, tree: Tree, link: str) -> list[str]:
        """The clients for which something was asked."""
        if link == OWN:
            return self._subscribing.bound_clients(tree)
        return [link] if link in self._clients else []

    def _tell_clients(self, tree: Tree, now: float) -> None:
        """Events of a tree are missing since lately: have clients know at once."""
        for link, since in self._affected(tree).items():
            if since < now:
                self._say_behind(link, since, now)

    def _affected(self, tree: Tree) -> dict[str, float]:
        """The clients that may be missing events of a tree, and since when that they were not told of."""
        askers = self._gaps[tree].askers
        found = {link: asker.behind_since for link, asker in askers.items() if link in self._clients}
        own = askers.get(OWN)
        if own is not None:
            for link in self._clients_of(tree, OWN):
                found[link] = min(found.get(link, own.behind_since), own.behind_since)
        return found

    # What happens to paths

    def on_path(self, tree: Tree, now: float) -> None:
        """There is a path to a tree, perhaps another one: ask on it for what is missing."""
        if tree in self._gaps:
            self._ask(tree, now)

    def lose(self, link: str, since: float, now: float) -> None:
        """A neighbour was heard last at a time; until it is back, publishers may come there, unheard of here.

        One that stays away for as long as answers are waited for has gone for good.
        """
        if self.is_on:
            known, _until = self._apart.get(link, (since, now))
            self._apart[link] = min(since, known), now + ANSWERED_KEEPS * self._keep
            self._tell_behind(now)

    def on_sync(self, link: str, now: float) -> None:
        """A neighbour may have forgotten what it was asked."""
        self._is_alone = False
        if link in self._apart:
            # It has said which trees there are, and what is missing of them is asked for soon.
            self._apart[link] = self._apart[link][0], now + _LEARNT_S
        for tree in [tree for tree in self._gaps if tree in self._trees.through(link)]:
            self._ask(tree, now)

    def part(self, link: str) -> None:
        """Whoever asked is gone."""
        self._gone.pop(link, None)
        for tree, gap in list(self._gaps.items()):
            gap.askers.pop(link, None)
            if not gap.askers:
                self._close(tree)

    def forget(self, tree: Tree, *, used: bool) -> None:
        """A tree has been taken back, by a broker that keeps nothing of it any more, if it ever did."""
        if tree in self._gaps:
            if used:
                self._give_up(tree)
            else:
                self._close(tree)

    # Messages

    def on_catch_up(self, message: CatchUp, link: str, now: float) -> None:
        """A neighbour may have missed events."""
        tree = message.tree
        if self.is_on and tree in self._trees:
            since = now - message.seconds
            self._note(tree, since, link, Asker(message.number, since, float("inf")))
            if self._weigh(tree):
                self._ask(tree, now)

    def on_caught_up(self, tree: Tree, number: int, missed: int, link: str, now: float) -> None:
        """All that was asked for has come; pass it on to those who asked here."""
        gap, branch = self._gaps.get(tree), self._trees.get(tree)
        if gap is None or branch is None or branch.way != link or number != gap.number:
            return
        if gap.asked_at < gap.since < now:
            # The old path was left before this one was confirmed.
            self._ask(tree, now)
            return
        self._answer(tree, missed)

    def _answer(self, tree: Tree, missed: int) -> None:
        """Tell those who asked that no more will come of a tree, and how much of it is no longer kept."""
        if missed:
            self._outbox.effects += [Missed(client, missed) for client in self._affected(tree)]
        for link, asker in self._close(tree).askers.items():
            if link != OWN and link not in self._clients:
                self._outbox.tell(link, [CaughtUp(tree, asker.number, missed)])
