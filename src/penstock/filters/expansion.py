"""A conjunction of disjunctions as one disjunction of filters, without multiplying it out.

Multiplied out, `not (x = 0 and y = 0 or … or x = 199 and y = 199)` has 2 to the power of 200 filters: each
pair offers a choice of which attribute must differ. But once x is known, there is little left to choose. If
x is 7, y must not be 7. If x is a number that no pair mentions, y does not matter. So the values of one
attribute are divided into cells, and in each cell the same question about the other attributes is left:

    f  =  f₀  or  (x in cell₁ and f₁)  or  (x in cell₂ and f₂)  or …

f₁ is what is left of f when x is in the first cell; f₀ is what is left when no condition on x holds. There
is no `not` in f any more, so f₀ implies f₁, f₂ and so on, and need not say that x is in no cell (x may be
absent). The 200 pairs become 202 filters.

Three shortcuts come first. A disjunction of a single filter must hold, and narrows the others. Disjunctions
that share no attribute are expanded separately. A question that came up before is not answered again. All
work is counted. Independent disjunctions still multiply: `(a = 1 or b = 1) and (c = 1 or d = 1) and …` has
no shorter form. Where they become too many they are kept as they are: see `clauses`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, product
from math import prod

from penstock.errors import LimitError
from penstock.filters import cuts
from penstock.filters.disjunction import canonical, ordered
from penstock.filters.filter import NEVER, Filter, box, check_patterns, ordered_box
from penstock.filters.order import Point
from penstock.filters.valuesets import Presence, ValueSet, intersection_of
from penstock.filters.work import Heft, Work, combining, crossing, weight
from penstock.model.limits import DEPTH_MAX, DISJUNCTS_MAX
from penstock.model.values import Family

Clause = frozenset[Filter]
"""Filters of which one must match."""

Clauses = frozenset[Clause]
"""Clauses which all must hold."""


def expand(factors: Iterable[Iterable[Filter]], work: Work) -> tuple[Filter, ...]:
    """The canonical disjunction of filters of which one matches just where one of each factor does."""
    expansion = _Expansion(work)
    compared: list[int] = []
    hefts: list[Heft] = []
    parts: list[Collection[Filter]] = []
    for part in expansion.parts(frozenset(map(frozenset, factors)), 0):
        parts.append(canonical(part, work))
        # What all filters have in common is not compared.
        if len(parts[-1]) > 1:
            compared.append(work.compared)
            hefts.append(Heft.greatest(parts[-1]))
    # What is canonical by itself stays so next to what has none of its attributes.
    found = expansion.multiplied(parts)
    work.compared = prod(max(1, steps) for steps in compared)
    if len(hefts) > 1:
        # Each pair of one part meets each of the others, and all that makes a pair expensive adds up.
        whole = Heft(sum(heft.cuts for heft in hefts), sum(heft.patterns for heft in hefts))
        work.compared *= whole.covering(whole)
    return tuple(ordered(found) if len(parts) > 1 else found)


def propagated(clauses: Clauses, work: Work) -> tuple[Filter, list[Clause]]:
    """What must hold anyway, and the other clauses as far as that leaves them open; see `clauses`."""
    return _Expansion(work).propagated(clauses)


class _Expansion:
    """One expansion: the work it may take, and what has been expanded so far."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._known: dict[Clauses, frozenset[Filter]] = {}
        self._known_groups: dict[tuple[Clauses, Filter], Collection[Filter]] = {}

    def filters(self, clauses: Clauses, depth: int) -> frozenset[Filter]:
        """The clauses' conjunction as a disjunction."""
        known = self._known.get(clauses)
        if known is None:
            if depth > DEPTH_MAX:
                raise LimitError("a filter nests too deep when multiplied out", "DEPTH_MAX", DEPTH_MAX)
            known = self._known[clauses] = frozenset(self.multiplied(self.parts(clauses, depth)))
        return known

    def parts(self, clauses: Clauses, depth: int) -> list[Collection[Filter]]:
        """Disjunctions that share no attribute, whose conjunction is that of the clauses."""
        certain, open_clauses = self.propagated(clauses)
        if not certain.satisfiable:
            return [()]
        rest = dict(certain.conditions)
        made: list[Collection[Filter]] = []
        for group in self.independent(open_clauses):
            names = {name for clause in group for f in clause for name in f.conditions}
            made.append(
                self._group(group, box({name: rest.pop(name) for name in names & rest.keys()}), depth)
            )
        return [*made, (box(rest),)] if rest or not made else made

    def _group(self, clauses: Clauses, certain: Filter, depth: int) -> Collection[Filter]:
        """Clauses that belong together, as far as something is certain of their attributes."""
        known = self._known_groups.get((clauses, certain))
        if known is None:
            known = self._split(clauses, certain, depth)
            if certain.conditions:
                self.work.spend(sum(crossing(f, certain) for f in known))
                both = (f.intersection(certain) for f in known)
                known = [f for f in both if f.satisfiable]
            self._known_groups[clauses, certain] = known
        return known

    def propagated(self, clauses: Clauses) -> tuple[Filter, list[Clause]]:
        """What must hold anyway, and the other clauses as far as that leaves them open."""
        certain: dict[str, ValueSet] = {}
        pending: list[Clause] = list(clauses)
        while True:
            asked: dict[str, set[ValueSet]] = defaultdict(set)
            rest: list[Clause] = []
            self.work.spend(len(pending))
            if not all(pending):
                return NEVER, []
            for clause in pending:
                if len(clause) > 1:
                    rest.append(clause)
                    continue
                for f in clause:
                    self.work.spend(weight(f))
                    for name, states in f.conditions.items():
                        asked[name].add(states)
            if not asked:
                return box(certain), rest
            changed = set()
            for name, sets in sorted(asked.items()):
                known = certain.get(name)
                both = self._intersection(name, sets if known is None else {known, *sets})
                if not both.cuts:
                    return NEVER, []
                if both != known:
                    certain[name] = both
                    changed.add(name)
            narrowed = (self._narrowed(clause, certain, changed) for clause in rest)
            pending = [clause for clause in narrowed if clause is not None]

    def _intersection(self, name: str, sets: set[ValueSet]) -> ValueSet:
        if len(sets) == 1:
            return next(iter(sets))
        check_patterns(name, list(sets))
        self.work.spend(combining(sets))
        return intersection_of(sorted(sets, key=ValueSet.sort_key))

    def _narrowed(self, clause: Clause, certain: dict[str, ValueSet], changed: set[str]) -> Clause | None:
        """What is left of a clause where something is certain; None if nothing, as it holds."""
        touched = {f: names for f in clause if (names := changed.intersection(f.conditions))}
        # Counted beforehand, as the order of a set must not show in what is counted.
        self.work.spend(len(clause) + sum(map(weight, touched)))
        self.work.spend(
            sum(combining((f.conditions[n], certain[n])) for f, names in touched.items() for n in names)
        )
        made = {f for f in clause if f not in touched}
        for f, names in touched.items():
            conditions = dict(f.conditions)
            for name in names:
                asked, known = conditions[name], certain[name]
                if asked.covers(known):
                    del conditions[name]
                    continue
                both = asked.intersection(known)
                if not both.cuts:
                    break
                conditions[name] = both
            else:
                if not conditions:
                    return None
                made.add(ordered_box(conditions))
        return frozenset(made)

    def independent(self, clauses: list[Clause]) -> list[Clauses]:
        """The clauses in groups that have no attribute in common, in some fixed order."""
        group_of: dict[str, int] = {}
        groups: dict[int, tuple[list[Clause], set[str]]] = {}
        for number, clause in enumerate(clauses):
            names = {name for f in clause for name in f.conditions}
            self.work.spend(1 + sum(len(f.conditions) for f in clause) // 2)
            members, known = [clause], names
            for other in {group_of[name] for name in names if name in group_of}:
                more, their = groups.pop(other)
                if len(more) > len(members):
                    members, more = more, members
                members += more
                if len(their) > len(known):
                    known, their = their, known
                known |= their
                for name in their:
                    group_of[name] = number
            for name in known:
                group_of[name] = number
            groups[number] = members, known
        return [frozenset(members) for members, _names in groups.values()]

    def multiplied(self, factors: Sequence[Collection[Filter]]) -> list[Filter]:
        """Every combination of filters, one of each factor, which have no attribute in common."""
        if len(factors) == 1:
            return list(factors[0])
        count = prod(map(len, factors))
        if not count:
            return []
        if count > DISJUNCTS_MAX:
            many = f"{count:,}" if count < 10**9 else "more than a billion"
            what = f"the predicate is a disjunction of {many} filters"
            raise LimitError(what, "DISJUNCTS_MAX", DISJUNCTS_MAX)
        conditions = sum(count // len(factor) * len(f.conditions) for factor in factors for f in factor)
        self.work.make(count, conditions)
        return [
            ordered_box(dict(sorted(chain.from_iterable(f.conditions.items() for f in chosen))))
            for chosen in product(*factors)
        ]

    def _split(self, clauses: Clauses, certain: Filter, depth: int) -> Collection[Filter]:
        """Expand by what one attribute may be."""
        if len(clauses) == 1:
            return next(iter(clauses))
        name, states = _chosen(clauses, self.work)
        divided = _Cells(clauses, name, states, self.work)
        outside = divided.rest()
        cells = list(divided)
        # Where the attribute is certain to be in one of the cells, nothing lies outside them.
        below = frozenset[Filter]()
        if not _are_all([cell for cell, _rest in cells], certain.conditions.get(name)):
            below = self.filters(outside, depth + 1)
        found = set(below)
        for cell, rest in cells:
            filters = self.filters(rest, depth + 1)
            self.work.spend(1 + len(filters))
            more = filters - below
            for f in more:
                self.work.spend(1 + len(f.conditions))
                known = f.conditions.get(name)
                both = cell if known is None else self._intersection(name, {known, cell})
                if both.cuts:
                    found.add(f.replace(name, both))
            if cell.kind is Presence.EXISTS:
                # What holds of every value, of whatever family, need not be said of some of them again.
                below |= more
        return found


def _are_all(cells: list[ValueSet], certain: ValueSet | None) -> bool:
    """Whether the cells hold whatever an attribute can be."""
    if certain is None or not isinstance(certain.kind, Family):
        return False
    plain = [
        cell.cuts for cell in cells if cell.kind is certain.kind and not (cell.required or cell.forbidden)
    ]
    return cuts.covers(cuts.union_all(plain), certain.cuts)


def _chosen(clauses: Clauses, work: Work) -> tuple[str, ValueSet | None]:
    """The attribute to divide by: that of the most clauses, and among these of the fewest value sets.

    Value sets with patterns cannot be cut into cells. If every attribute has some, one of them is chosen too.
    """
    clauses_of: Counter[str] = Counter()
    sets_of: dict[str, set[ValueSet]] = defaultdict(set)
    uses_of: Counter[tuple[str, ValueSet]] = Counter()
    patterned: set[str] = set()
    for clause in clauses:
        work.spend(1 + len(clause))
        names: set[str] = set()
        for f in clause:
            for name, states in f.conditions.items():
                names.add(name)
                sets_of[name].add(states)
                if states.required or states.forbidden:
                    patterned.add(name)
                    uses_of[name, states] += 1
        clauses_of.update(names)
    plain = [name for name in sets_of if name not in patterned]
    if plain:
        return min(plain, key=lambda name: (-clauses_of[name], len(sets_of[name]), name)), None
    most = max(uses_of.values())
    often = [key for key, count in uses_of.items() if count == most]
    return min(often, key=lambda key: (key[0], key[1].sort_key()))


class _Cells:
    """The cells of one attribute, and what is left of the clauses in each.

    With `only`, there is just one cell: that value set, whatever else the clauses ask of the attribute.
    """

    def __init__(self, clauses: Clauses, name: str, only: ValueSet | None, work: Work) -> None:
        self._work = work
        self._untouched: list[Clause] = []
        """Clauses that do not ask about the attribute."""
        self._always: list[list[Filter]] = []
        """Of each of the other clauses, by number: the filters that do not ask about it."""
        self._sets: dict[ValueSet, int] = {}
        """The value sets that are asked for, numbered."""
        self._settles: list[list[int]] = []
        """Of each value set: the clauses that it satisfies by itself."""
        self._leaves: list[list[tuple[int, Filter]]] = []
        """Of each value set: filters of clauses, without their condition on the attribute."""
        for clause in clauses:
            self._add(clause, name, only)
        self._holding = [0] * len(self._always)
        """How many value sets satisfy each clause where the sweep is."""
        self._open = dict.fromkeys(range(len(self._always)))
        self._partly: dict[int, None] = {}

    def _add(self, clause: Clause, name: str, only: ValueSet | None) -> None:
        number, always = len(self._always), []
        asks = False
        for f in clause:
            self._work.spend(1)
            states = f.conditions.get(name)
            if states is None or (only is not None and states != only):
                always.append(f)
                continue
            asks = True
            at = self._sets.setdefault(states, len(self._sets))
            if at == len(self._settles):
                self._settles.append([])
                self._leaves.append([])
            if len(f.conditions) == 1:
                self._settles[at].append(number)
            else:
                self._work.spend(len(f.conditions))
                left = ordered_box({n: s for n, s in f.conditions.items() if n != name})
                self._leaves[at].append((number, left))
        if asks:
            self._always.append(always)
        else:
            self._untouched.append(clause)

    def rest(self) -> Clauses:
        """What is left of the clauses where the sweep is."""
        some: dict[int, list[Filter]] = {}
        for at in self._partly:
            for number, left in self._leaves[at]:
                if number in self._open:
                    some.setdefault(number, []).append(left)
        self._work.spend(2 + len(self._untouched) // 4 + sum(map(len, some.values())))
        made = set(self._untouched)
        for number in self._open:
            always = self._always[number]
            self._work.spend(1 + len(always) // 4)
            made.add(frozenset(always + some[number] if number in some else always))
        return frozenset(made)

    def _toggle(self, at: int, by: int) -> None:
        """Enter (1) or leave (-1) a value set."""
        for number in self._settles[at]:
            self._holding[number] += by
            if self._holding[number] == 0:
                self._open[number] = None
            else:
                self._open.pop(number, None)
        if self._leaves[at]:
            if by > 0:
                self._partly[at] = None
            else:
                del self._partly[at]
        self._work.spend(1 + len(self._settles[at]) // 2)

    def __iter__(self) -> Iterator[tuple[ValueSet, Clauses]]:
        """Each cell with what is left there, those of any family first."""
        by_kind: dict[Family | Presence, list[tuple[ValueSet, int]]] = defaultdict(list)
        for states, at in self._sets.items():
            if states.required or states.forbidden:
                # There is no other then, see `_chosen`.
                self._toggle(at, 1)
                yield states, self.rest()
                return
            by_kind[states.kind].append((states, at))
        yield from self._cells_of(by_kind.pop(Presence.ABSENT, []), ended=True)
        yield from self._cells_of(by_kind.pop(Presence.EXISTS, []), ended=False)
        for kind in sorted(by_kind, key=int):
            if isinstance(kind, Family):
                yield from self._swept(kind, by_kind[kind])
            else:
                yield from self._cells_of(by_kind[kind], ended=True)

    def _cells_of(
        self, sets: list[tuple[ValueSet, int]], *, ended: bool
    ) -> Iterator[tuple[ValueSet, Clauses]]:
        """The one cell of a kind that has but one value set."""
        for states, at in sets:
            self._toggle(at, 1)
            yield states, self.rest()
            if ended:
                self._toggle(at, -1)

    def _swept(self, family: Family, sets: list[tuple[ValueSet, int]]) -> Iterator[tuple[ValueSet, Clauses]]:
        """The cells of a family: intervals between cuts, those together in which the same is left."""
        turns: dict[Point, list[int]] = defaultdict(list)
        for states, at in sets:
            self._work.spend(1 + len(states.cuts))
            for cut in states.cuts:
                turns[cut].append(at)
        inside = 0
        lefts: dict[int, Clauses] = {}
        cells: dict[Clauses, list[Point | None]] = defaultdict(list)
        ordered = sorted(turns)
        for start, end in zip(ordered, [*ordered[1:], None], strict=True):
            for at in turns[start]:
                bit = 1 << at
                inside ^= bit
                self._toggle(at, 1 if inside & bit else -1)
            if not inside:
                continue
            if inside not in lefts:
                lefts[inside] = self.rest()
            cell = cells[lefts[inside]]
            if cell and cell[-1] == start:
                cell[-1] = end
            else:
                cell += (start, end)
        for at in [at for _, at in sets if inside >> at & 1]:
            self._toggle(at, -1)
        for rest, ends in cells.items():
            yield ValueSet(family, tuple(end for end in ends if end is not None)), rest
