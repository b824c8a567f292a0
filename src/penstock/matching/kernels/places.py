"""Places: where a table's filters stand, as arrays.

Each filter stands in one place, where its cheapest condition (its access) finds it:

lists    filters whose access is a range of codes of one slot. Lists of one width hold ranges of at most
         that many codes, sorted by where they begin, so that those which may contain a code are neighbours;
         `UP` and `DOWN` hold ranges without an end on one side, and those that contain a code are exactly
         a beginning, or an end, of the list.
absent   filters whose access asks that a slot be absent
patterns filters whose access is a pattern
planes   filters with two selective conditions, in the cells of a grid over two slots; or with a list of
         values, under each of them
always   filters that every event has to be tested with
"""

from typing import NamedTuple

from penstock.matching.kernels.search import Array

LEVEL = 0
UP = 1
DOWN = 2
"""The kinds of list."""


class Filters(NamedTuple):
    """All filters, in the order of their places.

    A filter's record is its head, the condition that is tested first and most often decides, and beside it
    where its words start and its id (again): what a candidate needs lies together. The words are the other
    conditions; what the filter's place makes sure of stands last (and is the head if there is no other). A
    set is followed by its toggles, two to a word; those of a head that is a set come first of all.
    """

    ids: Array
    record: Array
    words: Array


class Lists(NamedTuple):
    """The lists of each slot, those of sole conditions first (from `slot_first` to `slot_split`)."""

    slot_first: Array
    slot_split: Array
    slot_last: Array
    slot_times: Array
    slot_strings: Array
    """For each slot the codes at which its times and its strings start."""
    record: Array
    """For each list what the constants below name: one line of the processor's cache."""
    positions: Array
    keys: Array


KIND, LOW, HIGH, WIDTH, SKIP, FIRST, SIZE, DENSE, KEYS = range(9)
"""A list's kind; the codes that concern it; the width of its ranges; whether its place makes sure of the
access; its first filter, and how many there are; where its positions by code start, or -1; where its
sorted keys start, which are searched then."""


class Places(NamedTuple):
    """The other places. `…_first`, `…_split`, `…_last`: filters without and with further conditions."""

    absent_slot: Array
    absent_first: Array
    absent_split: Array
    absent_last: Array
    pattern_first: Array
    pattern_split: Array
    always: Array
    slot_planes: Array
    plane_record: Array
    """For each plane what the constants below name."""
    buckets: Array
    grid: Array
    occupied: Array
    """A bit for each cell of the grid: whether it has members."""
    members: Array
    """The filters in each cell of the grid: a range that the filter has besides those of the plane, or
    TRUE_WORD; and the id, the position, and a bit that is set where nothing else has to be tested."""


OTHER, PLANE_WIDTH, GRID, BUCKET, OTHER_BUCKET = range(5)
"""A plane's other slot, or -1; how many buckets that has; where the plane's cells start in `grid`; where the
buckets of the two slots' codes start."""
