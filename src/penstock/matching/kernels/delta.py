"""The kernel that matches filters which came lately: not compiled, but found through nodes, and tested raw.

Every filter stands at one node, or at a few of one grid, of which an event visits at most one: see
`delta_nodes`. What stands at the nodes that an event visits is tested, condition by condition, with the
values themselves (`delta_events`). Nothing here has to be resolved first, and adding a filter costs about a
microsecond.
"""

from typing import NamedTuple

import numpy as np

from penstock.matching.batch import Batch
from penstock.matching.kernels.delta_events import match_events
from penstock.matching.kernels.delta_keys import value_keys
from penstock.matching.kernels.jit import ZERO, kernel
from penstock.matching.kernels.regex import SCRATCH
from penstock.matching.kernels.search import Array


class Raw(NamedTuple):
    """The filters, laid out as in `columns`, and the strings and patterns that they are about."""

    ids: Array
    offsets: Array
    tests: Array
    """For each condition a quick test; see `delta_tests`."""
    kind: Array
    cut_offsets: Array
    cut_high: Array
    cut_low: Array
    pattern_offsets: Array
    pattern: Array
    literal_offsets: Array
    literals: Array
    literal_key: Array
    pattern_kind: Array
    needle_offsets: Array
    needles: Array
    program_offsets: Array
    symbols: Array


class Run(NamedTuple):
    """Filters by node: those of a bucket stand together. Nothing in it ever changes."""

    occupied: Array
    """Bits, eight for each bucket: where that of a node is not set, nothing stands there."""
    starts: Array
    entries: Array
    """What stands at nodes; see `delta_nodes.ENTRY_NODE` and after."""


class Paths(NamedTuple):
    """Which grids have to be looked into, for each attribute."""

    levels: Array
    flags: Array


@kernel
def match_delta(
    batch: Batch,
    raw: Raw,
    paths: Paths,
    always: Array,
    older: Run,
    newer: Run,
    distinct: bool,
    as_filters: bool,
    gone: Array,
    at: Array,
    candidates: Array,
    seen: Array,
    stamp: Array,
    epoch: int,
    visits: Array,
) -> tuple[Array, Array, int, int, int]:
    """Offsets and ids (or, with `as_filters`, filters) that match each of the events, the last epoch, how
    much was tested slowly, and a number that means nothing.

    The arrays of `raw` may be longer than what the runs and `always` speak of: what came later is none of
    this reader's business.
    """
    event_start, event_count, entries, value_attribute, value_state, value_bits, value_length, arena = batch
    (
        ids,
        filter_offsets,
        tests,
        kind,
        cut_offsets,
        cut_high,
        cut_low,
        pattern_offsets,
        pattern,
        literal_offsets,
        literals,
        literal_key,
        pattern_kind,
        needle_offsets,
        needles,
        program_offsets,
        symbols,
    ) = raw
    levels, flags = paths
    older_occupied, older_starts, older_entries = older
    newer_occupied, newer_starts, newer_entries = newer
    values = len(value_state)
    key = np.empty(values, np.int64)
    low = np.empty(values, np.int64)
    exact = np.empty(values, np.int64)
    families = np.empty(values, np.int8)
    tail = np.empty(values, np.int64)
    value_keys(
        value_attribute,
        value_state,
        value_bits,
        value_length,
        arena,
        len(flags),
        key,
        low,
        exact,
        families,
        tail,
    )
    longest = 0
    if len(symbols) > 0:
        for v in range(values):
            longest = max(longest, value_length[v])
    text = np.empty(longest + SCRATCH, np.int32)
    events = len(event_start)
    # At most so many nodes does an event visit.
    steps = 0
    for event in range(events):
        more = 0
        for e in range(event_start[event], event_start[event] + event_count[event]):
            more += 2 * 64 + 2 + 3 * value_length[entries[e]]
        steps = max(steps, more)
    path = np.empty((steps, 2), np.int64)
    hit = np.empty((2 * steps, 3), np.int32)
    offsets = np.zeros(events + 1, np.int64)
    out = np.empty(1024 + 4 * events, np.int32)
    event = ZERO
    n = ZERO
    slow = 0
    touched = np.int64(0)
    while event < events:
        event, n, epoch, room, tested, more = match_events(
            event,
            n,
            event_start,
            event_count,
            entries,
            value_attribute,
            value_state,
            value_bits,
            value_length,
            arena,
            key,
            low,
            exact,
            families,
            tail,
            ids,
            filter_offsets,
            tests,
            kind,
            cut_offsets,
            cut_high,
            cut_low,
            pattern_offsets,
            pattern,
            literal_offsets,
            literals,
            literal_key,
            pattern_kind,
            needle_offsets,
            needles,
            program_offsets,
            symbols,
            levels,
            flags,
            always,
            older_occupied,
            older_starts,
            older_entries,
            newer_occupied,
            newer_starts,
            newer_entries,
            distinct,
            as_filters,
            gone,
            at,
            path,
            hit,
            candidates,
            seen,
            stamp,
            text,
            epoch,
            visits,
            offsets,
            out,
        )
        touched += more
        slow += tested
        if room > 0:
            expected = n // max(1, event) * (events - event) * 5 // 4
            grown = np.empty(max(2 * room, n + expected), np.int32)
            grown[:n] = out[:n]
            out = grown
    return offsets, out[:n], epoch, slow, touched
