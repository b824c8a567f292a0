"""The kernel that counts which attributes events have, and of which families."""

import numpy as np

from penstock.matching.kernels.jit import kernel, leaf
from penstock.matching.kernels.search import Array

STATES = 16
"""Room for the states of a value; see `penstock.matching.batch`."""


@leaf
def _count(entries: Array, value_attribute: Array, value_state: Array, counts: Array) -> None:
    if len(entries) == len(value_attribute):
        # Each value belongs to one event: they need not be looked up.
        for v in range(len(value_attribute)):
            counts[np.int64(value_attribute[v]) * STATES + value_state[v]] += 1
        return
    for i in range(len(entries)):
        v = entries[i]
        counts[np.int64(value_attribute[v]) * STATES + value_state[v]] += 1


@kernel
def count_values(entries: Array, value_attribute: Array, value_state: Array, counts: Array) -> None:
    """Count the values of a batch by attribute and state, on top of what `counts` has."""
    _count(entries, value_attribute, value_state, counts)
