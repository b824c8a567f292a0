"""What rules and the elements of lists disagree about: `any(items where amuont > 5)` matches nothing, either.

Elements are counted where they are matched (`elements`). An attribute of a record in the list `items` is
called `items[].amount` here, and an element that is no record `items[]`. Only rules whose conditions stand in
tables are looked at, not those that are decided as a whole (`computed`). The interpreter, which matches until
kernels are there, counts no elements.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters import lists
from penstock.filters.asked import Kind, kinds_in
from penstock.filters.disagreements import Disagreement, Problem, Rules, is_in_vain
from penstock.filters.valuesets import Presence
from penstock.matching.computed import filter_of, is_computed
from penstock.matching.observed import FAMILY_OF_STATE
from penstock.model.values import Family

if TYPE_CHECKING:
    from penstock.matching.elements import Elements
    from penstock.matching.store import Snapshot

_IN_LIST = "[]"


def disagreements_inside(
    snapshot: "Snapshot", events: int, *, patience: int, ids_max: int
) -> list[Disagreement]:
    """In the order of lists, and of attributes. `events`: how many events there were."""
    found: list[Disagreement] = []
    for name, elements in sorted(snapshot.computed.lists.items()):
        if elements.observed.events >= max(1, patience):
            found += _inside(snapshot, name, elements, events, ids_max)
    return found


def _inside(
    snapshot: "Snapshot", name: str, elements: "Elements", events: int, ids_max: int
) -> Iterator[Disagreement]:
    names = [inner for inner in elements.names if not is_computed(inner)]
    counts = elements.observed.counts(len(elements.names))
    seen = {inner: _families(counts[elements.names[inner]]) for inner in names}
    known = {*elements.observed.names, *(inner for inner in names if seen[inner])}
    concerned: dict[tuple[str, Problem], list[NDArray[np.int64]]] = {}
    compared: dict[tuple[str, Problem], set[Kind]] = {}
    for asked, ids in _rules(snapshot, name):
        for inner, kinds in asked.items():
            problem = _problem(kinds, seen.get(inner, {}), inner in known)
            if problem is not None:
                concerned.setdefault((inner, problem), []).append(ids)
                compared.setdefault((inner, problem), set()).update(kinds)
    rules = Rules(ids_max)
    for (inner, problem), found in concerned.items():
        # A rule may have several conditions on one list.
        numbers = np.unique(np.concatenate(found)).tolist()
        keys = map(snapshot.ids.get, numbers)
        rules.add_many(inner, problem, compared[inner, problem], keys, len(numbers))
    reported = rules.report(
        known,
        seen={
            inner: {family.label: count for family, count in families.items()}
            for inner, families in seen.items()
        },
        events=dict.fromkeys(names, events),
    )
    for one in reported:
        meant = None if one.suggestion is None else _path(name, one.suggestion)
        yield msgspec.structs.replace(one, attribute=_path(name, one.attribute), suggestion=meant)


def _path(name: str, inner: str) -> str:
    return name + _IN_LIST if inner == lists.ELEMENT else f"{name}{_IN_LIST}.{inner}"


def _families(counts: NDArray[np.int64]) -> dict[Family, int]:
    found: dict[Family, int] = {}
    for state in np.flatnonzero(counts).tolist():
        family = FAMILY_OF_STATE[state]
        found[family] = found.get(family, 0) + int(counts[state])
    return dict(sorted(found.items()))


def _problem(kinds: set[Kind], seen: dict[Family, int], is_known: bool) -> Problem | None:
    if not seen:
        return None if is_known or kinds == {Presence.ABSENT} else "unknown"
    return "family" if is_in_vain(kinds, seen) else None


def _rules(snapshot: "Snapshot", name: str) -> Iterator[tuple[dict[str, set[Kind]], NDArray[np.int64]]]:
    """Each condition on the elements of a list, as what it asks for, with the rules that have it."""
    from penstock.matching.disagreements import conditions_of

    asked: dict[int, dict[str, set[Kind]]] = {}
    # A copy: names come while this is looked at.
    for text, number in list(snapshot.names.items()):
        if is_computed(text):
            states = filter_of(text).conditions.get(name)
            if states is not None and states.kind is Family.LIST and states.required:
                asked[number] = kinds_in(lists.filters_of(states.required[0]))
    is_asked = np.zeros(max(asked, default=-1) + 2, np.bool_)
    is_asked[list(asked)] = True
    for ids, attribute, _kind in conditions_of(snapshot):
        some = np.flatnonzero(is_asked[np.minimum(attribute, len(is_asked) - 1)])
        for number in np.unique(attribute[some]).tolist():
            yield asked[number], np.unique(ids[some][attribute[some] == number]).astype(np.int64)
