"""A batch of events as flat arrays: what every kind of input is turned into, and what kernels read.

Values stand in a table; an event is a list of numbers of values. So a column of a dictionary type, or a
word that comes again and again, is looked up once for the whole batch. Only attributes that some filter
names are in a batch at all; an absent attribute has no entry.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.model.places import Place
from penstock.model.values import List

if TYPE_CHECKING:
    import pyarrow as pa

NAN: Final = 1
FALSE: Final = 2
TRUE: Final = 3
INTEGER: Final = 4
DOUBLE: Final = 5
TIME: Final = 6
STRING: Final = 7
DECIMAL: Final = 8
LIST: Final = 9
"""The state of a value, from NAN to LIST. A decimal that some double stands for is a DOUBLE. Kernels take a
list for a value of no family."""


class ArrowLists(NamedTuple):
    """Lists of an Arrow array, none of them null or without elements."""

    array: "pa.Array"
    elements: "Batch"
    """Their elements, one after the other, with all attributes that they have."""
    names: Sequence[str]
    """The attributes that `elements` has, by number."""
    owner: NDArray[np.int64]
    """For each element the row of its list."""
    times: frozenset[Place] = frozenset()
    """The places of elements whose texts have been read as times: in `array` they are texts."""


class ListColumn(NamedTuple):
    """The lists that events have under one attribute."""

    attribute: int
    places: NDArray[np.int32]
    """Where each list stands in the table of values."""
    rows: "Sequence[List] | ArrowLists"
    """The lists: as the model has them, or as they came from Arrow."""


class Batch(NamedTuple):
    """Events; the arrays of `value_…` are parallel, as are `start` and `count`."""

    start: NDArray[np.int64]
    """For each event, where its entries start in `entries`."""
    count: NDArray[np.int32]  # type: ignore[assignment]  # a tuple's method of that name is not needed
    """For each event, how many entries it has."""
    entries: NDArray[np.int32]
    """The values of the events, as positions in the table of values."""
    value_attribute: NDArray[np.int32]
    """For each value, the number of its attribute."""
    value_state: NDArray[np.uint8]
    """For each value, one of the constants above."""
    value_bits: NDArray[np.int64]
    """INTEGER: itself. DOUBLE: its bits (not NaN; that is a state). TIME: nanoseconds. STRING: where it
    starts in `arena`. DECIMAL: where its record (`decimals`) starts there. Otherwise 0."""
    value_length: NDArray[np.int32]
    """STRING: its length in bytes of UTF-8. DECIMAL: that of its record. Otherwise 0."""
    arena: NDArray[np.uint8]
    """The bytes of all strings, and the records of decimals."""

    @property
    def lists(self) -> Sequence[ListColumn]:
        """The lists among the values; kernels know nothing of them. See `matching.elements`."""
        return ()


class BatchWithLists(Batch):
    """A batch with lists. Kernels do not take it as it is: it has to be completed first (`computed`)."""

    _lists: Sequence[ListColumn] = ()

    def _replace(self, **changes: Any) -> "BatchWithLists":
        """The same with other arrays; lists stay where they are in the table of values."""
        made = super()._replace(**changes)
        made._lists = self._lists
        return made

    @property
    def lists(self) -> Sequence[ListColumn]:
        """The lists among the values."""
        return self._lists


def with_lists(batch: Batch, lists: Sequence[ListColumn]) -> Batch:
    """The batch with lists, whose values it has already."""
    if not lists:
        return batch
    made = BatchWithLists(*batch)
    made._lists = lists
    return made


def without_lists(batch: Batch) -> Batch:
    """The batch as kernels take it."""
    return Batch(*batch) if batch.lists else batch
