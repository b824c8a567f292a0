"""Advertisements and the trees that they span (seed paper 004, section 3.2).

An advertisement goes to every broker; each keeps the link that its first copy came from, the way towards the
publisher, and drops the others. So each advertisement spans a tree, whatever the overlay looks like.

Beyond the paper, trees mend. Each time an advertisement is sent out anew it has a higher epoch, and a broker
takes a new way only with a higher one. So ways never lead in a circle: along them epochs do not fall, and
within an epoch each broker had its copy later than the one it had it from. A broker whose way is cut keeps
the tree as an *orphan* for the time of a lease, without a way, and asks for a new epoch.

Of a tree that is gone its last epoch is remembered, or a copy that is still under way would bring it back,
and could go round in a circle for ever.
"""

from collections.abc import Iterable, Iterator, KeysView
from typing import Final, NamedTuple

from penstock.broker.publishers import NOBODY, Publisher
from penstock.filters.predicate import Predicate
from penstock.model.names import Tree

HERE: Final = ""
"""The way to a tree whose publisher is a client of this broker, or the broker itself."""


_STUMPS_MAX: Final = 10_000
"""So many trees that are gone are remembered, the last ones: copies of them may be under way."""


class Branch:
    """What one broker knows of a tree: filter, epoch, and the way to the publisher; None for an orphan."""

    __slots__ = ("asked_at", "epoch", "filter", "orphan_since", "planted_at", "publisher", "way")

    def __init__(
        self, predicate: Predicate, epoch: int, way: str, publisher: Publisher, planted_at: float
    ) -> None:
        self.planted_at = planted_at
        """Since when there has been such a tree, anywhere."""
        self.filter = predicate
        self.epoch = epoch
        self.publisher = publisher
        self.way: str | None = way
        self.orphan_since = 0.0
        self.asked_at = float("-inf")

    def stump(
        self, since: float, *, unadvertised: bool = False, used: bool = True, ended: bool = False
    ) -> "Stump":
        """What is remembered of it when it is gone."""
        publisher, planted_at = self.publisher, self.planted_at
        return Stump(self.epoch, unadvertised, since, used, self.filter, publisher, planted_at, ended, True)


class Stump(NamedTuple):
    """What is remembered of a tree that is gone: its last epoch; whether it was unadvertised; since when.

    Of one that was not, since when there was no way to it. `used`: events may have come along it. `ended`:
    it was unadvertised because its broker ended, with what was kept there. `was_here`: this broker knew the
    tree itself until then.
    """

    epoch: int
    unadvertised: bool
    since: float
    used: bool
    filter: Predicate
    publisher: Publisher
    planted_at: float
    ended: bool = False
    was_here: bool = False

    def is_for(self, since: float, keep: float, waited: float) -> bool:
        """Whether somebody who was away since a time may have missed events of it.

        What was published on a tree that was unadvertised could be had for `keep` after it was published,
        unless its broker ended. That waited so long for those that it knew before it acknowledged anything.
        """
        if not self.used:
            return False
        if self.ended:
            return self.since > (since + waited if self.planted_at < since else since)
        return self.since > (since + keep if self.unadvertised else since - keep)


class Trees:
    """The advertisements that a broker knows (the papers' SRT)."""

    def __init__(self) -> None:
        self._known: dict[Tree, Branch] = {}
        self._through: dict[str, frozenset[Tree]] = {}
        self._stumps: dict[Tree, Stump] = {}
        self._offers: dict[Tree, dict[str, None]] = {}
        self._left: dict[str, dict[Tree, float]] = {}
        self._of_origin: dict[str, dict[Tree, None]] = {}

    def __getitem__(self, tree: Tree) -> Branch:
        return self._known[tree]

    def __contains__(self, tree: object) -> bool:
        return tree in self._known

    def __len__(self) -> int:
        return len(self._known)

    def names(self) -> KeysView[Tree]:
        """All trees, as they come and go."""
        return self._known.keys()

    def items(self) -> Iterator[tuple[Tree, Branch]]:
        """All trees with what is known of them."""
        return iter(self._known.items())

    def get(self, tree: Tree) -> Branch | None:
        """What is known of a tree."""
        return self._known.get(tree)

    def through(self, link: str) -> frozenset[Tree]:
        """The trees whose publishers are reached by this link."""
        return self._through.get(link, frozenset())

    def asked_through(self, link: str) -> frozenset[Tree]:
        """The trees whose events are asked for on this link: it is the way there, or was a moment ago."""
        left = self._left.get(link)
        return self.through(link) if not left else self.through(link) | left.keys()

    def lingering(self, link: str) -> list[Tree]:
        """The trees whose events still come by this link, which is no longer the way to them."""
        return list(self._left.get(link, ()))

    def linger(self, tree: Tree, link: str, until: float) -> None:
        """Go on asking for the events of a tree on the way that has just been left."""
        self._left.setdefault(link, {})[tree] = until

    @property
    def leaves_at(self) -> float:
        """When the next way that was left is to be let go of."""
        return min((at for trees in self._left.values() for at in trees.values()), default=float("inf"))

    def let_go(self, now: float) -> list[tuple[Tree, str]]:
        """The ways that have been left for long enough, with their trees."""
        due = [(t, link) for link, trees in self._left.items() for t, until in trees.items() if until <= now]
        for tree, link in due:
            self._stay(tree, link)
        return due

    def part(self, link: str) -> None:
        """A neighbour is gone: nothing can be asked of it."""
        self._left.pop(link, None)

    def is_news(self, tree: Tree, epoch: int) -> bool:
        """Whether a copy of an advertisement is the first of its epoch."""
        known = self._known.get(tree) or self._stumps.get(tree)
        return known is None or epoch > known.epoch

    def is_missed(self, tree: Tree) -> bool:
        """Whether there is no way to a tree that has not been unadvertised."""
        known = self._known.get(tree)
        if known is not None:
            return known.way is None
        return tree in self._stumps and not self._stumps[tree].unadvertised

    def offer(self, tree: Tree, link: str) -> None:
        """A neighbour knows a way to a tree."""
        self._offers.setdefault(tree, {})[link] = None

    def retract(self, link: str, tree: Tree | None = None) -> None:
        """A neighbour knows no way to a tree any more, or to none at all."""
        for known in [tree] if tree is not None else list(self._offers):
            links = self._offers.get(known)
            if links is not None:
                links.pop(link, None)
                if not links:
                    del self._offers[known]

    def offered(self) -> list[Tree]:
        """The trees to which neighbours know a way, and this broker none: those to ask for."""
        return [tree for tree in self._offers if self.is_missed(tree)]

    def lost_since(self, tree: Tree) -> float:
        """Since when there has been no way to a tree that is gone; -inf if it was never heard of."""
        stump = self._stumps.get(tree)
        return float("-inf") if stump is None else stump.since

    def of_origin(self, origin: str) -> list[Tree]:
        """The trees on which the same publisher publishes, or did at its earlier brokers; also those gone."""
        return list(self._of_origin.get(origin, ()))

    def origins(self) -> Iterator[list[Tree]]:
        """The trees of each publisher, also those that are gone."""
        return (list(trees) for trees in self._of_origin.values())

    def gone_since(self, since: float) -> Iterator[tuple[Tree, Stump]]:
        """The trees that are gone, or to which there is no way, since a time or later."""
        for tree, stump in self._stumps.items():
            if stump.since >= since and stump.used:
                yield tree, stump
        for tree, branch in self.orphans():
            if branch.orphan_since >= since:
                yield tree, branch.stump(branch.orphan_since)

    def remember(self, tree: Tree, stump: Stump) -> bool:
        """A neighbour knows of a tree that is gone; return whether that is news."""
        if tree in self._known or tree in self._stumps:
            return False
        if stump.publisher.origin:
            self._of_origin.setdefault(stump.publisher.origin, {})[tree] = None
        self._put_stump(tree, stump)
        return True

    def stump(self, tree: Tree) -> Stump | None:
        """What is remembered of a tree that is gone."""
        return self._stumps.get(tree)

    def planted_at(self, tree: Tree) -> float:
        """Since when there has been a tree, as far as that is known; inf if it is not."""
        known = self._known.get(tree) or self._stumps.get(tree)
        return float("inf") if known is None else known.planted_at

    def publisher(self, tree: Tree) -> Publisher:
        """Who publishes on a tree, as far as that is known."""
        known = self._known.get(tree)
        if known is not None:
            return known.publisher
        stump = self._stumps.get(tree)
        return NOBODY if stump is None else stump.publisher

    def gone_for(self, since: float, keep: float, waited: float) -> list[tuple[Tree, Stump]]:
        """The trees that are gone, and of which somebody may have missed events who was away since a time."""
        return [(tree, stump) for tree, stump in self._stumps.items() if stump.is_for(since, keep, waited)]

    def last_epoch(self, tree: Tree) -> int:
        """The highest epoch that has been seen of a tree."""
        known = self._known.get(tree) or self._stumps.get(tree)
        return -1 if known is None else known.epoch

    def plant(
        self,
        tree: Tree,
        predicate: Predicate,
        epoch: int,
        way: str,
        publisher: Publisher = NOBODY,
        planted_at: float = float("-inf"),
    ) -> str | None:
        """Take the first copy of an epoch; return the link that was the way before, if there was one."""
        known = self._known.get(tree)
        before = None if known is None else known.way
        self._known[tree] = Branch(predicate, epoch, way, publisher, min(planted_at, self.planted_at(tree)))
        if publisher.origin:
            self._of_origin.setdefault(publisher.origin, {})[tree] = None
        self._stumps.pop(tree, None)
        self._leave(tree, before)
        self._stay(tree, way)
        self._through[way] = self.through(way) | {tree}
        return before

    def orphan(self, trees: Iterable[Tree], now: float) -> None:
        """The way to these trees is cut."""
        for tree in trees:
            branch = self._known[tree]
            self._leave(tree, branch.way)
            branch.way, branch.orphan_since = None, now

    def fell(
        self, tree: Tree, since: float, *, unadvertised: bool, used: bool = True, ended: bool = False
    ) -> None:
        """Forget a tree, but for its stump: since when it is gone, or since when there was no way to it."""
        branch = self._known.pop(tree)
        self._leave(tree, branch.way)
        for link in list(self._left):
            self._stay(tree, link)
        self._put_stump(tree, branch.stump(since, unadvertised=unadvertised, used=used, ended=ended))

    def _put_stump(self, tree: Tree, stump: Stump) -> None:
        self._stumps[tree] = stump
        while len(self._stumps) > _STUMPS_MAX:
            self._uproot(next(iter(self._stumps)))

    def _uproot(self, tree: Tree) -> None:
        """Remember nothing of a tree that is gone."""
        origin = self._stumps.pop(tree).publisher.origin
        if origin:
            del self._of_origin[origin][tree]
            if not self._of_origin[origin]:
                del self._of_origin[origin]

    def orphans(self) -> Iterator[tuple[Tree, Branch]]:
        """The trees to which the way is lost."""
        return ((tree, branch) for tree, branch in self._known.items() if branch.way is None)

    def _stay(self, tree: Tree, link: str) -> None:
        """A way is not about to be left any more."""
        left = self._left.get(link)
        if left is not None and left.pop(tree, None) is not None and not left:
            del self._left[link]

    def _leave(self, tree: Tree, way: str | None) -> None:
        if way is not None:
            left = self._through[way] - {tree}
            if left:
                self._through[way] = left
            else:
                del self._through[way]
