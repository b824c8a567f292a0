"""The kernel that counts which attributes events have, and of which families."""

import numpy as np

from penstock.matching.kernels.jit import kernel, leaf
from penstock.matching.kernels.search import Array

STATES = 16
"""Room for the states of a value; see `penstock.matching.batch`."""


@leaf
def _count(entries: Array, value_attribute: Array, value_state: Array, counts: Array) -> int:
    fresh = 0
    if len(entries) == len(value_attribute):
        # Each value belongs to one event: they need not be looked up.
        for v in range(len(value_attribute)):
            at = np.int64(value_attribute[v]) * STATES + value_state[v]
            fresh += counts[at] == 0
            counts[at] += 1
        return fresh
    for i in range(len(entries)):
        v = entries[i]
        at = np.int64(value_attribute[v]) * STATES + value_state[v]
        fresh += counts[at] == 0
        counts[at] += 1
    return fresh


@kernel
def count_values(entries: Array, value_attribute: Array, value_state: Array, counts: Array) -> int:
    """Count the values of a batch by attribute and state, on top of what `counts` has.

    Returns how many pairs of an attribute and a state are new.
    """
    return _count(entries, value_attribute, value_state, counts)
