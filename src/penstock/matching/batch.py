"""A batch of events as flat arrays: what every kind of input is turned into, and what kernels read.

Values stand in a table; an event is a list of numbers of values. So a column of a dictionary type, or a
word that comes again and again, is looked up once for the whole batch. Only attributes that some filter
names are in a batch at all; an absent attribute has no entry.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

NAN: Final = 1
FALSE: Final = 2
TRUE: Final = 3
INTEGER: Final = 4
DOUBLE: Final = 5
TIME: Final = 6
STRING: Final = 7
DECIMAL: Final = 8
"""The state of a value, from NAN to DECIMAL: a decimal that no double stands for."""


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
