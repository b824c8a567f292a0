"""The kernel that matches: codes in, ids out.

The filters found in the places that an event looks into (`places`) are candidates, and their other
conditions are tested straight against the event's codes (`match_events`).
"""

from typing import NamedTuple

import numpy as np

from penstock.matching.batch import Batch
from penstock.matching.kernels.jit import ZERO, kernel
from penstock.matching.kernels.match_events import match_events
from penstock.matching.kernels.places import Filters, Lists, Places
from penstock.matching.kernels.planes import AHEAD
from penstock.matching.kernels.search import Array

_LARGE = 1 << 20
"""Members of planes that are too many for caches."""


class Scratch(NamedTuple):
    """What a thread works with; all zero between events, but for the stamps."""

    code: Array
    present: Array
    bits: Array
    stamp: Array


@kernel
def match(
    batch: Batch,
    slot_of: Array,
    codes: Array,
    pattern_offsets: Array,
    pattern_numbers: Array,
    filters: Filters,
    lists: Lists,
    places: Places,
    distinct: bool,
    all_ids: int,
    gone: Array,
    scratch: Scratch,
    epoch: int,
    visits: Array,
    more_offsets: Array,
    more_ids: Array,
) -> tuple[Array, Array, int, int]:
    """Offsets and ids of the filters that match each of the events, the last epoch used, and a number.

    `distinct`: no id has two filters, so that none can be found twice. `all_ids`: how many ids there are,
    so that an event which matched them all is done with. `gone`: see `Deaths`. `visits`, if not empty, counts
    for each filter how often it was tested. `more_offsets` and `more_ids`, if not empty, are what another
    table found, and come after the ids of each event.
    """
    ids, filter_record, words = filters
    slot_first, slot_split, slot_last, slot_times, slot_strings, record, positions, keys = lists
    (
        absent_slot,
        absent_first,
        absent_split,
        absent_last,
        pattern_first,
        pattern_split,
        always,
        slot_planes,
        plane_record,
        buckets,
        grid,
        occupied,
        members,
    ) = places
    code, present, bits, stamp = scratch
    event_start, event_count, entries, value_attribute = batch[:4]
    events = len(event_start)
    offsets = np.zeros(events + 1, np.int64)
    out = np.empty(1024 + 16 * events, np.int32)
    sure = np.empty((256, 2), np.int32)
    unsure = np.empty((256, 3), np.int32)
    cells = np.empty(AHEAD * 64 if len(members) > _LARGE else 0, np.int64)
    event = ZERO
    n = ZERO
    touched = np.int64(0)
    while event < events:
        event, n, epoch, more, runs, room = match_events(
            event,
            n,
            event_start,
            event_count,
            entries,
            value_attribute,
            slot_of,
            codes,
            pattern_offsets,
            pattern_numbers,
            ids,
            filter_record,
            words,
            slot_first,
            slot_split,
            slot_last,
            slot_times,
            slot_strings,
            record,
            positions,
            keys,
            absent_slot,
            absent_first,
            absent_split,
            absent_last,
            pattern_first,
            pattern_split,
            always,
            slot_planes,
            plane_record,
            buckets,
            grid,
            occupied,
            members,
            distinct,
            all_ids,
            gone,
            code,
            present,
            bits,
            stamp,
            epoch,
            visits,
            more_offsets,
            more_ids,
            offsets,
            out,
            sure,
            unsure,
            cells,
        )
        touched += more
        if runs > 0:
            sure = np.empty((2 * runs, 2), np.int32)
            unsure = np.empty((2 * runs, 3), np.int32)
        if room > 0:
            # What is left of the events will find as much as those before, more or less.
            expected = n // max(1, event) * (events - event) * 5 // 4
            grown = np.empty(max(2 * room, n + expected), np.int32)
            grown[:n] = out[:n]
            out = grown
    return offsets, out[:n], epoch, touched
