"""A sample of the events seen, from which compiling learns how likely conditions are."""

from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.matching.batch import Batch
from penstock.matching.encode import BatchBuilder
from penstock.matching.observed import Observed
from penstock.model.shapes import lists_in
from penstock.model.values import Value

_ROWS: Final = 512
"""Events kept of one batch."""

_BATCHES: Final = 4
"""Batches that events are kept of: the latest."""


class Sample:
    """A few hundred of the latest events. Batches are looked into ever more rarely."""

    def __init__(self) -> None:
        self.events = 0
        """How many events there were in all."""
        self.observed = Observed()
        """What all events had, counted."""
        self._next = 0
        self._batches: deque[Batch] = deque(maxlen=_BATCHES)
        self._singles: deque[Mapping[str, Value]] = deque(maxlen=_ROWS)

    def see(self, batch: Batch, *, counted: bool = True) -> None:
        """Take note of a batch; its values are `counted` in `observed`, or only learnt from."""
        count = len(batch.start)
        if counted:
            self.observed.see(batch)
        self.events += count
        if self.events >= self._next and count:
            self._next = self.events + self.events // 4
            self._batches.append(
                rows_of(batch, np.linspace(0, count - 1, min(count, _ROWS)).astype(np.int64))
            )

    def see_one(self, attributes: Mapping[str, Value], batch: Batch) -> None:
        """Take note of a single event, and of the batch that was made of it."""
        self.observed.had_others = True
        if self.observed.is_curious:
            self.observed.look(attributes, lists_in(attributes))
        self.observed.see(batch)
        self.events += 1
        self._singles.append(attributes)

    def batch(self, names: Mapping[str, int]) -> Batch | None:
        """The sample, if there is any."""
        batches = list(self._batches)
        if self._singles:
            builder = BatchBuilder(names)
            for attributes in list(self._singles):
                builder.add(attributes)
            batches.append(builder.build())
        return joined(batches) if batches else None

    def renumbered(self, number_of: NDArray[np.int32]) -> "Sample":
        """The same sample when attributes have other numbers; those that have none (-1) are left out."""
        made = Sample()
        made.events, made._next = self.events, self._next
        made.observed = self.observed.renumbered(number_of)
        made._singles.extend(list(self._singles))
        made._batches.extend(_renumbered(batch, number_of) for batch in list(self._batches))
        return made


def _renumbered(batch: Batch, number_of: NDArray[np.int32]) -> Batch:
    # A batch may have an attribute that no filter names, under the number after the last.
    known = np.append(number_of, -1)[np.minimum(batch.value_attribute, len(number_of))]
    kept = known[batch.entries] >= 0
    before = np.append(0, np.cumsum(kept))
    ends = before[batch.start + batch.count]
    start = before[batch.start]
    made = batch._replace(
        start=start,
        count=(ends - start).astype(np.int32),
        entries=batch.entries[kept],
        value_attribute=known.astype(np.int32),
    )
    return rows_of(made, np.arange(len(start)))


def rows_of(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    """Some events of a batch, with no more values and bytes than they need."""
    rows = rows[batch.count[rows] >= 0]
    count = batch.count[rows]
    start = np.zeros(len(rows), np.int64)
    np.cumsum(count[:-1], out=start[1:])
    at = np.repeat(batch.start[rows] - start, count) + np.arange(int(count.sum()))
    used, entries = np.unique(batch.entries[at], return_inverse=True)
    is_string = batch.value_length[used] > 0
    lengths = np.where(is_string, batch.value_length[used], 0).astype(np.int64)
    begins = np.zeros(len(used), np.int64)
    np.cumsum(lengths[:-1], out=begins[1:])
    taken = np.repeat(batch.value_bits[used] - begins, lengths) + np.arange(int(lengths.sum()))
    return Batch(
        start=start,
        count=count,
        entries=entries.astype(np.int32),
        value_attribute=batch.value_attribute[used],
        value_state=batch.value_state[used],
        value_bits=np.where(is_string, begins, batch.value_bits[used]),
        value_length=batch.value_length[used],
        arena=batch.arena[taken],
    )


def joined(batches: list[Batch]) -> Batch:
    """Batches laid end to end."""
    values = np.cumsum([0] + [len(batch.value_state) for batch in batches])
    entries = np.cumsum([0] + [len(batch.entries) for batch in batches])
    arenas = np.cumsum([0] + [len(batch.arena) for batch in batches])
    return Batch(
        start=np.concatenate([b.start + entries[i] for i, b in enumerate(batches)]),
        count=np.concatenate([b.count for b in batches]),
        entries=np.concatenate([b.entries + np.int32(values[i]) for i, b in enumerate(batches)]),
        value_attribute=np.concatenate([b.value_attribute for b in batches]),
        value_state=np.concatenate([b.value_state for b in batches]),
        value_bits=np.concatenate(
            [
                np.where(b.value_length > 0, b.value_bits + arenas[i], b.value_bits)
                for i, b in enumerate(batches)
            ]
        ),
        value_length=np.concatenate([b.value_length for b in batches]),
        arena=np.concatenate([b.arena for b in batches]),
    )
