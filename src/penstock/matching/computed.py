"""Computed attributes: how tables, which know conjunctions only, hold filters that have clauses.

A filter with clauses (`penstock.filters.clauses`) stands in a table as a filter of one condition: that its
computed attribute is true. The attribute is named by the filter's text, so that whatever carries names of
attributes, tables in memory and on disk alike, carries all there is to know. Such a name is longer than that
of any attribute of an event or of a filter.

Before a batch is matched, it is completed: each event gets the computed attributes that are true of it. These
are found by matching, too. In a table of its own, each clause of a filter is an id, and has a filter for
each of its alternatives: the box and that alternative. The attribute is true where all clauses of
its filter were found. So an event that does not match the box costs no more than for any other filter. A
batch is left as it is where no filter has clauses.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError, PenstockError
from penstock.filters.filter import Filter
from penstock.filters.languages import sql
from penstock.filters.valuesets import ValueSet
from penstock.matching.batch import TRUE, Batch
from penstock.model.limits import NAME_LENGTH_MAX
from penstock.model.values import Family

if TYPE_CHECKING:
    from penstock.matching.parts import Part

IS_TRUE: Final = ValueSet(Family.BOOL, (True,))
"""The condition on a computed attribute."""


def name_of(f: Filter) -> str:
    """The name of the computed attribute that stands for a filter with clauses."""
    return f.to_sql().ljust(NAME_LENGTH_MAX + 1)


def is_computed(name: str) -> bool:
    """Whether this names a computed attribute."""
    return len(name) > NAME_LENGTH_MAX


def unread(number: int) -> str:
    """A name that no attribute of an event has, and no dot is in."""
    return str(number).ljust(NAME_LENGTH_MAX + 1, "_")


def plain_names(names: Iterable[str]) -> list[str]:
    """The names of attributes that events may have."""
    return [name for name in names if not is_computed(name)]


@lru_cache(maxsize=4_096)
def filter_of(name: str) -> Filter:
    """The filter that a computed attribute stands for."""
    try:
        return sql.parse_kept(name)
    except PenstockError as error:
        raise InputError(f"a table has a filter that cannot be read: {error}") from None


def attributes_in(f: Filter) -> list[str]:
    """The attributes that a filter names, also in its clauses."""
    return list(dict.fromkeys(name for box in f.boxes() for name in box.conditions))


def families_in(f: Filter) -> set[tuple[str, Family]]:
    """The families that a filter compares attributes with, also in its clauses."""
    items = (item for box in f.boxes() for item in box.conditions.items())
    return {(name, states.kind) for name, states in items if isinstance(states.kind, Family)}


def with_attributes(names: Iterable[str]) -> dict[str, None]:
    """The names, and those of all attributes that computed ones among them depend on."""
    found = dict.fromkeys(names)
    for name in list(found):
        if is_computed(name):
            found.update(dict.fromkeys(attributes_in(filter_of(name))))
    return found


def raised(f: Filter) -> Filter:
    """The filter that one of a table stands for."""
    for name in f.conditions:
        if is_computed(name):
            return filter_of(name)
    return f


class _Group(NamedTuple):
    """Some computed attributes, and the table by which they are found."""

    part: "Part"
    attributes: list[str]
    clauses: NDArray[np.int64]
    """How many clauses the filter of each attribute has."""
    attribute_of: NDArray[np.int64]
    """Of each id of the table, which is a clause: which attribute it belongs to."""


class Computed:
    """The computed attributes of a matcher, by the names that its filters have. Never changed."""

    def __init__(self, names: Mapping[str, int], groups: Sequence[_Group] = ()) -> None:
        self.seen = len(names)
        """How many names have been looked at."""
        self._groups = groups

    def __bool__(self) -> bool:
        return bool(self._groups)

    def extended(self, names: Mapping[str, int]) -> "Computed":
        """With the attributes that have come since, at the end of the names."""
        if len(names) == self.seen:
            return self
        new = [name for name in list(names)[self.seen :] if is_computed(name)]
        groups = list(self._groups)
        # As many small groups as there are sizes: each attribute is compiled a few times in all.
        while new and groups and len(groups[-1].attributes) <= 2 * len(new):
            new = [*groups.pop().attributes, *new]
        return Computed(names, [*groups, _group(new, names)] if new else groups)

    def completed(self, batch: Batch, names: dict[str, int]) -> Batch:
        """The batch with the computed attributes that are true of each event."""
        events: list[NDArray[np.int64]] = []
        values: list[NDArray[np.int64]] = []
        numbers: list[int] = []
        for group in self._groups:
            event, which = _found(group, batch, names)
            events.append(event)
            values.append(which + len(numbers))
            numbers += [names[name] for name in group.attributes]
        return _with_values(
            batch, np.concatenate(events), np.concatenate(values), np.array(numbers, np.int32)
        )


def _group(computed: list[str], names: Mapping[str, int]) -> _Group:
    from penstock.matching.columns import ColumnsBuilder
    from penstock.matching.compile import compile_table
    from penstock.matching.parts import Part

    builder = ColumnsBuilder(dict(names))
    clauses: list[int] = []
    attribute_of: list[int] = []
    for number, name in enumerate(computed):
        f = filter_of(name)
        box = f.without_clauses()
        # A filter that is read without clauses, though it was not written so, is one clause.
        boxes = [[box.intersection(one) for one in clause] for clause in f.clauses] or [[box]]
        for alternatives in boxes:
            for one in alternatives:
                builder.add(len(attribute_of), one)
            attribute_of.append(number)
        clauses.append(len(boxes))
    table, _ = compile_table(builder.build())
    return _Group(Part(table), computed, np.array(clauses, np.int64), np.array(attribute_of, np.int64))


def _found(group: _Group, batch: Batch, names: dict[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of an event and an attribute of the group that is true of it."""
    found = group.part.match(batch, names, len(group.attribute_of))
    event = np.repeat(np.arange(len(batch.start)), np.diff(found.offsets))
    width = len(group.attributes)
    pairs, counts = np.unique(event * width + group.attribute_of[found.numbers], return_counts=True)
    pairs = pairs[counts == group.clauses[pairs % width]]
    return pairs // width, pairs % width


def _with_values(
    batch: Batch, event: NDArray[np.int64], value: NDArray[np.int64], numbers: NDArray[np.int32]
) -> Batch:
    """The batch with values, all of them true, of the attributes with these numbers, at some events."""
    first = len(batch.value_state)
    # No event has an attribute of such a name; JSON and Arrow are not asked whether they have one.
    real = ~np.isin(batch.value_attribute[batch.entries], numbers)
    known = np.maximum(batch.count, 0).astype(np.int64)
    owner = np.repeat(np.arange(len(known)), known)
    places = np.repeat(batch.start - (np.cumsum(known) - known), known) + np.arange(len(owner))
    kept = real[places]
    owner = np.concatenate((owner[kept], event))
    entries = np.concatenate((batch.entries[places[kept]], (first + value).astype(np.int32)))
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=len(known))
    none = np.zeros(len(numbers), np.int64)
    return batch._replace(
        start=np.cumsum(count) - count,
        count=np.where(batch.count < 0, batch.count, count).astype(np.int32),
        entries=entries[order],
        value_attribute=np.concatenate((batch.value_attribute, numbers)),
        value_state=np.concatenate((batch.value_state, np.full(len(numbers), TRUE, np.uint8))),
        value_bits=np.concatenate((batch.value_bits, none)),
        value_length=np.concatenate((batch.value_length, none.astype(np.int32))),
    )
