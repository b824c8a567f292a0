"""What rules and the elements of lists disagree about: `any(items where amuont > 5)` matches nothing, either.

Elements are counted where they are matched (`elements`). An attribute of a record in the list `items` is
called `items[].amount` here, and an element that is no record `items[]`. Each condition is looked at on its
own. The interpreter, which matches until kernels are there, counts no elements.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.filters.asked import Kind, Lists
from penstock.filters.disagreements import (
    Disagreement,
    Problem,
    Rules,
    in_lists,
    is_in_vain,
)
from penstock.filters.schema_check import elements_at, problem_inside
from penstock.filters.valuesets import Presence
from penstock.matching.behind import Behind, behind
from penstock.matching.columns import NEVER
from penstock.matching.computed import is_computed
from penstock.matching.observed import families_of_states
from penstock.model.events import Skipping
from penstock.model.names import Id
from penstock.model.places import Place, written
from penstock.model.schema import Schema
from penstock.model.values import Family

if TYPE_CHECKING:
    from penstock.matching.elements import Elements
    from penstock.matching.plain import PlainSnapshot
    from penstock.matching.store import Snapshot

Judge = Callable[[Lists, str, set[Kind]], Problem | None]
"""Says what is wrong with a condition that asks the elements of a list for this."""


class _Seen:
    """What the elements of one list had."""

    def __init__(
        self, lists: Lists, elements: "Elements", kept: Mapping[Place, int], skipping: Skipping
    ) -> None:
        """`kept`: texts that would be times if no rule compared them with strings."""
        names = [name for name in elements.names if not is_computed(name)]
        counts = elements.observed.counts(len(elements.names))
        self.families = {name: families_of_states(counts[elements.names[name]]) for name in names}
        self.known = {*elements.observed.names, *(name for name in names if self.families[name])}
        self.kept = kept
        places = {name: written((*lists, name)) for name in names}
        self.skipped = {name: count for name in names if (count := skipping.count(places[name]))}
        """How many values were left out, of those that had some."""
        self.details = {name: skipping.detail(places[name]) for name in self.skipped}

    def problem(self, name: str, kinds: set[Kind]) -> Problem | None:
        """What is wrong with a condition that asks for this."""
        families = self.families.get(name, {})
        if name in self.skipped and not (families and is_in_vain(kinds, families)):
            return "skipped"
        if not families:
            return None if name in self.known or kinds == {Presence.ABSENT} else "unknown"
        if Family.TIME in kinds and self.kept.get(name):
            return "texts"
        return "family" if is_in_vain(kinds, families) else None

    def shown(self, problem_names: set[tuple[str, Problem]]) -> dict[str, dict[str, int]]:
        """Families by their labels."""
        return {
            name: {Family.STRING.label: self.kept[name]}
            if (name, "texts") in problem_names
            else {family.label: count for family, count in families.items()}
            for name, families in self.families.items()
        }


def disagreements_inside(
    snapshot: "Snapshot",
    events: int,
    *,
    patience: int,
    ids_max: int,
    concerning: Callable[[Id], bool] | None = None,
) -> list[Disagreement]:
    """In the order of lists, and of attributes. `events`: how many events there were."""
    seen: dict[Lists, _Seen] = {}
    for lists, elements in _every(snapshot.computed.lists):
        if elements.observed.events >= max(1, patience):
            seen[lists] = _Seen(lists, elements, _kept(snapshot, lists), snapshot.sample.observed.skipping)

    def judge(lists: Lists, name: str, kinds: set[Kind]) -> Problem | None:
        return seen[lists].problem(name, kinds) if lists in seen else None

    rules = Rules(ids_max)
    look_inside(snapshot, judge, rules, ids_max, concerning)
    found: list[Disagreement] = []
    outer = list(snapshot.sample.observed.lists)
    for lists, some in sorted(rules.inside.items()):
        known = seen[lists].known
        above = written((*lists, ""))
        inner = {place.removeprefix(above) for place in outer if place.startswith(above)}
        reported = some.report(
            known,
            seen=seen[lists].shown(some.problems),
            events=dict.fromkeys((name for name, _problem in some.problems), events),
            skipped=seen[lists].skipped,
            detail=seen[lists].details,
            lists=inner,
        )
        found += [in_lists(lists, one, known) for one in reported]
    return found


def misfits_inside(snapshot: "Snapshot", schema: Schema) -> Iterator[tuple[Lists, "Elements", Schema]]:
    """The lists that were looked into, and what a schema says of their elements."""
    for lists, elements in _every(snapshot.computed.lists):
        known = elements_at(schema, lists)
        if known is not None and elements.observed.events:
            yield lists, elements, known


def look_inside_by(snapshot: "Snapshot | PlainSnapshot", schema: Schema, rules: Rules, ids_max: int) -> None:
    """Take note of the rules whose conditions on elements do not fit a schema."""

    def judge(lists: Lists, name: str, kinds: set[Kind]) -> Problem | None:
        return problem_inside(schema, lists, name, kinds)

    look_inside(snapshot, judge, rules, ids_max)


def look_inside(
    snapshot: "Snapshot | PlainSnapshot",
    judge: Judge,
    rules: Rules,
    ids_max: int,
    concerning: Callable[[Id], bool] | None = None,
) -> None:
    """Take note of the rules with conditions on elements that something is wrong with."""
    concerned: dict[tuple[Lists, str, Problem], list[NDArray[np.int64]]] = {}
    compared: dict[tuple[Lists, str, Problem], set[Kind]] = {}
    for lists, asked, ids in _conditions(snapshot):
        for name, kinds in asked.items():
            problem = judge(lists, name, kinds)
            if problem is not None:
                concerned.setdefault((lists, name, problem), []).append(ids)
                compared.setdefault((lists, name, problem), set()).update(kinds)
    for key, found in concerned.items():
        # A rule may have several conditions on one list.
        numbers = np.unique(np.concatenate(found)).tolist()
        lists, name, problem = key
        if concerning is None:
            keys, count = [snapshot.ids.get(one) for one in numbers[:ids_max]], len(numbers)
        else:
            keys = [one for one in map(snapshot.ids.get, numbers) if concerning(one)]
            count = len(keys)
        if count:
            rules.within(lists).add_many(name, problem, compared[key], keys, count)


def _every(known: "Mapping[str, Elements]", above: Lists = ()) -> "Iterator[tuple[Lists, Elements]]":
    """All lists whose elements are looked at, those inside others too."""
    for name, elements in known.items():
        lists = (*above, name)
        yield lists, elements
        yield from _every(elements.lists, lists)


def _kept(snapshot: "Snapshot", lists: Lists) -> dict[Place, int]:
    """By attribute, the texts of elements that would be times if no rule compared them with strings."""
    outer, *inner = lists
    number = snapshot.names.get(outer, -1)
    places = snapshot.times.lists_kept.get(number, frozenset())
    counts = snapshot.sample.observed.kept_inside(number) if places else {}
    wanted = ((place, (place,) if isinstance(place, str) else place) for place in places)
    return {path[-1]: counts.get(place, 0) for place, path in wanted if list(path[:-1]) == inner}


def _conditions(
    snapshot: "Snapshot | PlainSnapshot",
) -> Iterator[tuple[Lists, Mapping[str, set[Kind]], NDArray[np.int64]]]:
    """Conditions on the elements of a list, as what they ask for, with the rules that have them."""
    from penstock.matching.disagreements import conditions_of

    # Conditions that differ in constants only are one: there may be hundreds of thousands.
    shapes: dict[int, int] = {}
    asked: list[Behind] = []
    # A copy: names come while this is looked at.
    names = list(snapshot.names.items())
    shape_of = np.full(len(names) + 1, -1, np.int64)
    for text, number in names:
        if is_computed(text) and (known := behind(text)).inside:
            shape_of[number] = shapes.setdefault(id(known), len(asked))
            if len(shapes) > len(asked):
                asked.append(known)
    if not asked:
        return
    for ids, attribute, kind in conditions_of(snapshot):
        shape = shape_of[np.minimum(attribute, len(names))]
        # What nothing can match stands under the first of all attributes.
        some = np.flatnonzero((shape >= 0) & (kind != NEVER))
        some = some[np.argsort(shape[some], kind="stable")]
        for mine in np.split(some, np.flatnonzero(np.diff(shape[some])) + 1) if len(some) else ():
            for lists, kinds in asked[shape[mine[0]]].inside:
                yield lists, kinds, np.unique(ids[mine]).astype(np.int64)
