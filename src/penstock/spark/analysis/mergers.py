"""Finding filters to merge, without looking at all pairs.

A *perfect* merger is the union of filters that differ in one attribute only, and there in a way that one
value set can hold: the same family, the same patterns, or presence and absence. So each filter has a likeness
for each of its attributes (all else it says, hashed), and those to be merged have one in common. It is how
`routing/schemes/merging.py` finds them one at a time.

An *imperfect* one takes filters on the same attributes, in their order: each joins the one of the last few
groups with which the merger lets the least through in vain, as there, if that is within the budget.

Both ask `filters/merging.py` for the merger of all members, and say what it says. Disjunctions are
not merged.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.filters import cuts
from penstock.filters.estimate import Distribution
from penstock.filters.filter import Filter, box
from penstock.filters.merging import Merge, merge
from penstock.filters.predicate import Predicate, of_canonical
from penstock.filters.valuesets import EXISTS, ValueSet
from penstock.model.values import Family
from penstock.routing.schemes.merging import CUTS_MAX, is_fit
from penstock.routing.shape import shape_of
from penstock.spark.analysis.predicates import decode, encode

_OPEN: Final = 8
"""So many groups wait for another member of an imperfect merger. What comes next is most like the last."""

_MEMBERS_MAX: Final = 32
"""Of an imperfect merger: to estimate its excess takes the square of them."""


class Candidate(NamedTuple):
    """Ids whose filters can be replaced by one, `merger`, in SQL."""

    ids: list[str]
    merger: str
    perfect: bool
    excess: float


class Alike(NamedTuple):
    """A filter, and the ids that have it."""

    filter: Filter
    ids: list[str]


def likenesses(data: bytes) -> list[bytes]:
    """For each attribute of a filter a hash of all else that a filter must say to be merged with it."""
    predicate = decode(data)
    if not _is_box(predicate):
        return []
    (f,) = predicate.filters
    found = []
    for name, states in f.conditions.items():
        kind = ValueSet(states.kind, (), states.required, states.forbidden)
        if not isinstance(states.kind, Family):
            kind = EXISTS
        parts = of_canonical((box({name: kind}), f.replace(name, None)))
        found.append(blake2b(encode(parts), digest_size=16).digest())
    return found


def _is_box(predicate: Predicate) -> bool:
    """Whether a predicate is one filter, without clauses: nothing else is merged."""
    return len(predicate.filters) == 1 and not predicate.filters[0].clauses


def perfect(rows: Iterable[tuple[str, bytes]]) -> Iterator[Candidate]:
    """The perfect mergers of filters (id, predicate's bytes) that have a likeness in common."""
    members = _alike(rows)
    if len(members) < 2:
        return
    first, second = members[0].filter.conditions, members[1].filter.conditions
    name = next(name for name in first if first[name] != second[name])
    chunk: list[Alike] = []
    held: cuts.Cuts = ()
    for member in members:
        own = member.filter.conditions[name].cuts
        held = cuts.union(held, own)
        if len(held) > CUTS_MAX:
            yield from _candidate(chunk, _merged(chunk))
            chunk, held = [], own
        chunk.append(member)
    yield from _candidate(chunk, _merged(chunk))


def imperfect(
    rows: Iterable[tuple[str, bytes]], budget: float, distributions: Mapping[str, Distribution] | None = None
) -> Iterator[Candidate]:
    """Mergers within a budget of filters (id, predicate's bytes) that are near each other.

    A perfect one is among them where members differ in several attributes: `perfect` does not find these.
    """
    waiting: deque[_Group] = deque()
    key = None
    for member in _alike(rows):
        own = shape_of(of_canonical((member.filter,))).key
        while waiting and (own != key or len(waiting) > _OPEN):
            yield from waiting.popleft().candidate()
        key = own
        tried = sorted(
            (
                (merged.excess, at)
                for at, group in enumerate(waiting)
                if (merged := group.merged_with(member)) is not None
            ),
            key=itemgetter(0),
        )
        if not any(waiting[at].take(member) for _excess, at in tried):
            waiting.append(_Group(member, budget, distributions))
    for group in waiting:
        yield from group.candidate()


class _Group:
    """Filters, and their merger."""

    def __init__(
        self, member: Alike, budget: float, distributions: Mapping[str, Distribution] | None
    ) -> None:
        self._members = [member]
        self._budget = budget
        self._distributions = distributions
        self._merged = Merge(of_canonical((member.filter,)), perfect=True, excess=0.0)

    def merged_with(self, member: Alike) -> Merge | None:
        """About what the merger with one more would be: taken with the merger, not with all members."""
        if len(self._members) >= _MEMBERS_MAX:
            return None
        return self._of([self._merged.predicate, of_canonical((member.filter,))])

    def take(self, member: Alike) -> bool:
        """Take one more if the merger of all is one filter still, within the budget."""
        members = [*self._members, member]
        merged = self._of(of_canonical((m.filter,)) for m in members)
        if merged is None:
            return False
        self._members, self._merged = members, merged
        return True

    def candidate(self) -> Iterator[Candidate]:
        """The candidate that the group is, unless `perfect` finds it."""
        if not (self._merged.perfect and _differ_in_one(self._members)):
            yield from _candidate(self._members, self._merged)

    def _of(self, predicates: Iterable[Predicate]) -> Merge | None:
        return _fit(predicates, self._budget, self._distributions)


def _alike(rows: Iterable[tuple[str, bytes]]) -> list[Alike]:
    """Each filter once, with its ids, in an order that keeps those on the same attributes together."""
    ids: dict[bytes, list[str]] = {}
    for name, data in rows:
        ids.setdefault(data, []).append(name)
    found = [(decode(data), names) for data, names in ids.items()]
    members = [Alike(predicate.filters[0], sorted(names)) for predicate, names in found if _is_box(predicate)]
    return sorted(members, key=lambda m: (shape_of(of_canonical((m.filter,))).key, m.filter.sort_key()))


def _merged(members: Sequence[Alike]) -> Merge | None:
    return _fit((of_canonical((member.filter,)) for member in members), 0.0, None)


def _fit(
    predicates: Iterable[Predicate], budget: float, distributions: Mapping[str, Distribution] | None
) -> Merge | None:
    """The merger, if it is worth having."""
    try:
        merged = merge(predicates, budget=budget, distributions=distributions)
    except PenstockError:
        return None  # too large for one predicate
    return merged if is_fit(merged.predicate) else None


def _candidate(members: Sequence[Alike], merged: Merge | None) -> Iterator[Candidate]:
    """The candidate, if there is something to gain: where a member covers all others, `covering` tells."""
    if merged is None or len(members) < 2 or merged.predicate.filters[0] in [m.filter for m in members]:
        return
    try:
        text = merged.predicate.to_sql()
    except PenstockError:
        return  # too long a text
    yield Candidate(sorted(name for m in members for name in m.ids), text, merged.perfect, merged.excess)


def _differ_in_one(members: Sequence[Alike]) -> bool:
    """Whether filters constrain the same attributes, and all but one in the same way."""
    first = members[0].filter.conditions
    if any(member.filter.conditions.keys() != first.keys() for member in members):
        return False
    different = [name for name in first if any(m.filter.conditions[name] != first[name] for m in members)]
    return len(different) == 1
