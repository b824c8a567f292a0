"""Merging-based routing (seed paper 000, section 4.4), on top of active covering, as in Rebeca.

Roots are gathered in groups, each with one merger that is asked for in their place. The paper's questions:

- *When and how are filters merged?* When a filter becomes a root, with the first group whose merger differs
  from it on one attribute only: their union is then one filter again, a perfect merger. With a budget,
  otherwise with the group of the same attributes for which the merger lets the least through that nobody
  asked for, if that is within the budget.
- *When are mergers cancelled?* When members are no longer wanted, the rest is merged anew; what does not come
  out as one filter is taken apart. A member that another root comes to cover stays where it is, as what it
  asks for is still wanted; else one wide filter would take mergers apart at one broker after the other. When
  all members are covered, the merger goes.
- *To whom are they sent?* To the neighbour that this scheme looks after; a merger takes the place of the one
  before in the same message.
"""

from collections.abc import Hashable, Mapping
from itertools import count
from typing import Final, TypeAlias

from penstock.filters.merging import merge
from penstock.filters.predicate import Predicate
from penstock.routing.offers import Offer
from penstock.routing.schemes.covering import Covering, MakeTable, forest
from penstock.routing.schemes.scheme import Asked, Steps

CUTS_MAX: Final = 128
"""A merger's value sets have at most so many ends; larger ones would cost more than they spare."""

_MEMBERS_MAX: Final = 64
"""So many filters are merged into one at most: what leaves has the rest merged anew."""

_CANDIDATES: Final = 16
"""So many groups are tried for an imperfect merger."""

Likeness: TypeAlias = Hashable
"""What filters have in common that can be merged: trees, and the conditions on all attributes but one."""


class Group:
    """Roots on the same trees, and their merger."""

    def __init__(self, trees: frozenset[str]) -> None:
        self.trees = trees
        self.members: dict[Predicate, bool] = {}
        """Each with whether it is a root still."""
        self.merger = Predicate()


class Merging(Covering):
    """Asks for mergers of the roots."""

    def __init__(self, table: MakeTable = forest, budget: float = 0.0) -> None:
        super().__init__(table)
        self.perfect = not budget
        self._budget = budget
        self._numbers = count()
        self._groups: dict[int, Group] = {}
        self._home: dict[Predicate, int] = {}
        self._alike: dict[Likeness, dict[int, None]] = {}
        self._mergers: dict[Predicate, dict[int, None]] = {}

    def _present(self, changes: Mapping[Predicate, Offer | None]) -> Steps:
        before: dict[int, Predicate | None] = {}
        leaving: dict[int, list[Predicate]] = {}
        for predicate, offer in changes.items():
            at = self._home.get(predicate)
            if at is not None:
                leaving.setdefault(at, [])
                wanted = self._wanted.of(predicate)
                if wanted is None or wanted.trees != self._groups[at].trees:
                    leaving[at].append(predicate)
                else:
                    self._groups[at].members[predicate] = offer is not None
        for at, members in leaving.items():
            self._leave(at, members, before)
        for predicate, offer in changes.items():
            if offer is not None and predicate not in self._home:
                self._join(predicate, offer.trees, before)
        return self._steps(before)

    def _steps(self, before: Mapping[int, Predicate | None]) -> Steps:
        """Say how mergers changed, given those of the groups that were touched."""
        touched = {p: None for p in before.values() if p is not None}
        touched |= {self._groups[at].merger: None for at in before if at in self._groups}
        steps = self._settle({merger: self._merger_offer(merger) for merger in touched})
        gone = set(steps.take_back)
        ask = []
        for asked in steps.ask:
            # The mergers that this one grew from go in the same message.
            grown = {before[at] for at in self._mergers[asked.offer.filter] if at in before} & gone
            gone -= grown
            ask.append(Asked(asked.key, asked.offer, tuple(old for old in steps.take_back if old in grown)))
        return Steps(ask, [key for key in steps.take_back if key in gone])

    def _merger_offer(self, merger: Predicate) -> Offer | None:
        groups = self._mergers.get(merger)
        if not groups:
            return None
        return Offer(merger, frozenset[str]().union(*(self._groups[at].trees for at in groups)))

    def _join(self, predicate: Predicate, trees: frozenset[str], before: dict[int, Predicate | None]) -> None:
        """Put a root into the group that suits it best, or into one of its own."""
        found = self._perfect(predicate, trees) or self._imperfect(predicate, trees)
        if found is None:
            at, merger = next(self._numbers), predicate
            self._groups[at] = Group(trees)
            before[at] = None
        else:
            at, merger = found
            before.setdefault(at, self._groups[at].merger)
            self._unlist(at)
        self._groups[at].members[predicate] = True
        self._home[predicate] = at
        self._list(at, merger)

    def _leave(self, at: int, members: list[Predicate], before: dict[int, Predicate | None]) -> None:
        """Take members out of their group; take it apart if the rest does not merge, or is not needed."""
        group = self._groups[at]
        roots = [member for member, is_root in group.members.items() if is_root and member not in members]
        if not members and roots:
            return
        before.setdefault(at, group.merger)
        self._unlist(at)
        for member in members:
            del group.members[member], self._home[member]
        if roots:
            rest = merge(group.members, budget=self._budget).predicate
            if is_fit(rest) or len(group.members) == 1:
                self._list(at, rest)
                return
        del self._groups[at]
        for member in group.members:
            del self._home[member]
        for member in roots:
            self._join(member, group.trees, before)

    def _perfect(self, predicate: Predicate, trees: frozenset[str]) -> tuple[int, Predicate] | None:
        """A group that the filter merges with perfectly, and the merger."""
        for likeness in _likenesses(predicate, trees):
            for at in self._alike.get(likeness, ()):
                if len(self._groups[at].members) >= _MEMBERS_MAX:
                    continue
                merger = merge([self._groups[at].merger, predicate]).predicate
                if is_fit(merger):
                    return at, merger
        return None

    def _imperfect(self, predicate: Predicate, trees: frozenset[str]) -> tuple[int, Predicate] | None:
        """The group of the same attributes with the merger that lets the least through, within the budget."""
        if not self._budget or not _is_box(predicate):
            return None
        found: tuple[float, int, Predicate] | None = None
        for at in list(self._alike.get((trees, tuple(predicate.filters[0].conditions)), ()))[-_CANDIDATES:]:
            if len(self._groups[at].members) >= _MEMBERS_MAX:
                continue
            merged = merge([*self._groups[at].members, predicate], budget=self._budget)
            if is_fit(merged.predicate) and (found is None or merged.excess < found[0]):
                found = merged.excess, at, merged.predicate
        return None if found is None else found[1:]

    def _list(self, at: int, merger: Predicate) -> None:
        self._groups[at].merger = merger
        self._mergers.setdefault(merger, {})[at] = None
        for likeness in self._listed(at):
            self._alike.setdefault(likeness, {})[at] = None

    def _unlist(self, at: int) -> None:
        merger = self._groups[at].merger
        del self._mergers[merger][at]
        if not self._mergers[merger]:
            del self._mergers[merger]
        for likeness in self._listed(at):
            del self._alike[likeness][at]
            if not self._alike[likeness]:
                del self._alike[likeness]

    def _listed(self, at: int) -> list[Likeness]:
        group = self._groups[at]
        likenesses = _likenesses(group.merger, group.trees)
        if self._budget and _is_box(group.merger):
            likenesses.append((group.trees, tuple(group.merger.filters[0].conditions)))
        return likenesses


def _likenesses(predicate: Predicate, trees: frozenset[str]) -> list[Likeness]:
    """For each attribute: the trees, and the conditions on all the others."""
    if not _is_box(predicate):
        return []
    conditions = predicate.filters[0].conditions
    return [
        (trees, name, tuple((other, states) for other, states in conditions.items() if other != name))
        for name in conditions
    ]


def _is_box(predicate: Predicate) -> bool:
    return len(predicate.filters) == 1 and not predicate.filters[0].clauses


def is_fit(merger: Predicate) -> bool:
    """Whether a merger is worth asking for: one filter, without clauses, and not too large."""
    return _is_box(merger) and all(
        len(states.cuts) <= CUTS_MAX for states in merger.filters[0].conditions.values()
    )
