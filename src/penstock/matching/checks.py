"""Whether arrays from a folder are a table: what a kernel may follow leads somewhere.

Checksums tell damage. They do not tell a folder that another program made, or that was edited and summed up
anew: kernels check no bounds, and would crash or read what is not theirs. So types, shapes, and everything
that is followed (offsets, numbers of filters, codes) are looked at when a folder is opened; and the ids: what
is none would be noticed by the match that finds it, long after. All of it is read once, as for the checksums.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.matching.ids import INTEGER_LENGTH, INTEGER_MARK, decoded
from penstock.matching.kernels.patterns import FOLDED, GENERAL, KINDS
from penstock.matching.kernels.resolve import NUMBERS
from penstock.model.limits import ID_LENGTH_MAX

Arrays = dict[str, NDArray[Any]]

SHAPES: Final[dict[str, tuple[str, int]]] = {
    "cells.number_offsets": ("int32", 0),
    "cells.number_high": ("int64", 0),
    "cells.number_low": ("int16", 0),
    "cells.integer_first": ("int64", 0),
    "cells.integer_offsets": ("int64", 0),
    "cells.integer_codes": ("int32", 0),
    "cells.time_offsets": ("int32", 0),
    "cells.time_key": ("int64", 0),
    "cells.string_offsets": ("int32", 0),
    "cells.string_key": ("int32", 0),
    "cells.string_ordered": ("bool", 0),
    "cells.literals": ("uint8", 0),
    "cells.literal_offsets": ("int64", 0),
    "cells.literal_hash": ("int32", 0),
    "automaton.edge_key": ("int64", 0),
    "automaton.edge_child": ("int32", 0),
    "automaton.fail": ("int32", 0),
    "automaton.needle": ("int32", 0),
    "automaton.link": ("int32", 0),
    "patterns.needle_patterns": ("int32", 0),
    "patterns.slot": ("int32", 0),
    "patterns.kind": ("uint8", 0),
    "patterns.program": ("int32", 0),
    "patterns.program_offsets": ("int64", 0),
    "patterns.symbols": ("int32", 0),
    "patterns.slot_has": ("uint8", 0),
    "filters.ids": ("int32", 0),
    "filters.record": ("uint64", 2),
    "filters.words": ("uint64", 0),
    "lists.slot_first": ("int32", 0),
    "lists.slot_split": ("int32", 0),
    "lists.slot_last": ("int32", 0),
    "lists.slot_times": ("int32", 0),
    "lists.slot_strings": ("int32", 0),
    "lists.record": ("int32", 9),
    "lists.positions": ("int32", 0),
    "lists.keys": ("int32", 0),
    "places.absent_slot": ("int32", 0),
    "places.absent_first": ("int32", 0),
    "places.absent_split": ("int32", 0),
    "places.absent_last": ("int32", 0),
    "places.pattern_first": ("int32", 0),
    "places.pattern_split": ("int32", 0),
    "places.always": ("int32", 0),
    "places.slot_planes": ("int32", 0),
    "places.plane_record": ("int32", 5),
    "places.buckets": ("int32", 0),
    "places.grid": ("int32", 0),
    "places.occupied": ("uint64", 0),
    "places.members": ("uint64", 2),
    "needles.bytes": ("uint8", 0),
    "needles.offsets": ("int64", 0),
    "ids.bytes": ("uint8", 0),
    "ids.offsets": ("int64", 0),
}
"""The type of each array, and how many columns it has; 0 where it has rows only."""


class _Looking:
    """Looks at arrays, and raises where one is wrong."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def need(self, good: object, name: str) -> None:
        """Raise if something about an array is not so."""
        if not good:
            raise InputError(f"the array {name} leads to what is not there")

    def length(self, length: int, *names: str) -> None:
        """They have so many rows."""
        for name in names:
            self.need(len(self[name]) == length, name)

    def offsets(self, name: str, parts: int, end: int) -> None:
        """It divides so many things into so many parts."""
        array = self[name]
        self.need(len(array) == parts + 1 and array[0] == 0 and array[-1] == end, name)
        self.need((array[1:] >= array[:-1]).all(), name)

    def within(self, name: str, low: int, high: int) -> None:
        """All numbers lie from low to below high."""
        array = self[name]
        self.need(not array.size or (int(array.min()) >= low and int(array.max()) < high), name)

    def in_order(self, end: int, *names: str) -> None:
        """Row by row, each is not below the one before; all lie from 0 to the end."""
        before: NDArray[Any] | int = 0
        for name in names:
            self.length(len(self[names[0]]), name)
            self.need((self[name] >= before).all(), name)
            before = self[name]
        self.need((before <= np.int64(end)).all() if isinstance(before, np.ndarray) else True, names[-1])

    def table_of_hashes(self, name: str, entries: int) -> None:
        """Its length is a power of two, and some place is free: looking for what is not there ends."""
        array = self[name]
        self.need(len(array) and not len(array) & (len(array) - 1) and not array.all(), name)
        self.within(name, 0, entries)

    def leads_to_root(self, name: str) -> None:
        """Following it from any node comes to node 0."""
        self.within(name, 0, len(self[name]))
        at = self[name]
        for _ in range(len(at).bit_length()):
            if not at.any():
                return
            at = at[at]
        self.need(not at.any(), name)


def check_shape(name: str, dtype: str, shape: Sequence[int]) -> None:
    """Raise InputError unless this type, as NumPy writes it, and this shape are those of the array."""
    expected, columns = SHAPES[name]
    if dtype != np.dtype(expected).str or tuple(shape[1:]) != ((columns,) if columns else ()) or not shape:
        raise InputError(f"the array {name} is {dtype:.20} of shape {list(shape)!s:.40}, which it never is")
    if min(shape) < 0:
        raise InputError(f"the array {name} has fewer than no rows")


def check_ids(arrays: Arrays) -> int:
    """Raise InputError unless all ids are ids, and different; how many there are."""
    look = _Looking(arrays)
    text, offsets = look["ids.bytes"], look["ids.offsets"]
    count = len(offsets) - 1
    look.need(count >= 0, "ids.offsets")
    look.offsets("ids.offsets", count, len(text))
    lengths = np.diff(offsets)
    if not lengths.all():
        raise InputError("an id is empty")
    is_integer = text[offsets[:-1]] == INTEGER_MARK
    if (lengths[is_integer] != INTEGER_LENGTH).any():
        raise InputError("an id that is an integer has not its eight bytes")
    _check_texts(text, offsets, is_integer)
    if not (is_integer.all() and _are_in_order(text)):
        _check_different(text, offsets)
    return count


def _check_texts(text: NDArray[np.uint8], offsets: NDArray[np.int64], is_integer: NDArray[np.bool_]) -> None:
    lengths = np.diff(offsets)
    joined = text[np.repeat(~is_integer, lengths)].tobytes()
    # What is text as a whole is text in every part that begins with a character.
    begins = text[offsets[:-1][~is_integer]]
    if not _is_utf8(joined) or ((begins & 0xC0) == 0x80).any():
        raise InputError("an id is not UTF-8")
    for which in np.flatnonzero(lengths > ID_LENGTH_MAX).tolist():
        characters = len(text[offsets[which] : offsets[which + 1]].tobytes().decode())
        if characters > ID_LENGTH_MAX:
            raise InputError(f"an id has {characters:,} characters, where {ID_LENGTH_MAX:,} are the limit")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _are_in_order(text: NDArray[np.uint8]) -> bool:
    """Whether integers rise one after the other: then all are different, which is much quicker to see."""
    values = np.ascontiguousarray(text.reshape(-1, INTEGER_LENGTH)[:, 1:]).view("<i8").reshape(-1)
    return bool((values[1:] > values[:-1]).all())


def _check_different(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
    from penstock.matching.kernels.check import check_different

    slots = np.zeros(1 << max(3, (2 * len(offsets)).bit_length()), np.int32)
    which = check_different(text, offsets, slots)
    if which >= 0:
        found = decoded(text[offsets[which] : offsets[which + 1]].tobytes())
        raise InputError(f"the id {found!r:.80} is there twice")


def check_table(arrays: Arrays, slots: int, ids: int, distinct: bool, distinct_ids: int) -> None:
    """Raise InputError unless all that is followed leads somewhere."""
    look = _Looking(arrays)
    _check_cells(look, slots)
    _check_patterns(look, slots)
    _check_places(look, slots, ids)
    counts = np.bincount(look["filters.ids"])
    if (int(np.count_nonzero(counts)), bool(counts.max(initial=0) <= 1)) != (distinct_ids, distinct):
        raise InputError("ids are counted wrong")


def _check_cells(look: _Looking, slots: int) -> None:
    for family, keys in (("number", "number_high"), ("time", "time_key"), ("string", "string_key")):
        look.offsets(f"cells.{family}_offsets", slots, len(look[f"cells.{keys}"]))
    look.need(len(look["cells.number_low"]) in (0, len(look["cells.number_high"])), "cells.number_low")
    look.length(slots, "cells.integer_first", "cells.string_ordered")
    codes = look["cells.integer_codes"]
    look.offsets("cells.integer_offsets", slots, len(codes))
    ends = _ends(look)[:, 0]
    most = np.repeat(ends, np.diff(look["cells.integer_offsets"]))
    look.need(((codes >= NUMBERS) & (codes < most)).all(), "cells.integer_codes")
    literals = len(look["cells.literal_offsets"]) - 1
    look.offsets("cells.literal_offsets", literals, len(look["cells.literals"]))
    look.within("cells.string_key", 0, 2 * literals + 2)
    look.table_of_hashes("cells.literal_hash", literals + 1)


def _check_patterns(look: _Looking, slots: int) -> None:
    from penstock.matching.kernels.regex import check_programs

    nodes, needles = len(look["automaton.fail"]), len(look["needles.offsets"]) - 1
    look.need(nodes, "automaton.fail")
    look.length(nodes, "automaton.needle", "automaton.link")
    look.length(len(look["automaton.edge_key"]), "automaton.edge_child")
    look.table_of_hashes("automaton.edge_key", nodes * 256 + 1)
    look.within("automaton.edge_child", 0, nodes)
    look.leads_to_root("automaton.fail")
    look.leads_to_root("automaton.link")
    look.within("automaton.needle", -1, needles)
    # Of each pattern there is room for one find in a string.
    found = look["automaton.needle"][look["automaton.needle"] >= 0]
    look.need(len(np.unique(found)) == len(found), "automaton.needle")
    linked = look["automaton.link"]
    look.need((look["automaton.needle"][linked[linked > 0]] >= 0).all(), "automaton.link")
    look.offsets("needles.offsets", needles, len(look["needles.bytes"]))
    patterns = len(look["patterns.slot"])
    look.offsets("patterns.needle_patterns", needles + 1, patterns)
    look.length(patterns, "patterns.kind", "patterns.program")
    look.within("patterns.slot", 0, slots)
    kinds = look["patterns.kind"]
    look.need((kinds & KINDS <= GENERAL).all() and (kinds <= GENERAL | FOLDED).all(), "patterns.kind")
    programs = len(look["patterns.program_offsets"]) - 1
    look.offsets("patterns.program_offsets", programs, len(look["patterns.symbols"]))
    # They are followed while texts are matched, and are read back as text.
    sound = check_programs(look["patterns.symbols"], look["patterns.program_offsets"])
    look.need(sound, "patterns.symbols")
    general = look["patterns.program"][kinds & KINDS == GENERAL]
    look.need(((general >= 0) & (general < programs)).all(), "patterns.program")
    look.length(slots, "patterns.slot_has")


def _check_places(look: _Looking, slots: int, ids: int) -> None:
    from penstock.matching.kernels import check

    filters, patterns = len(look["filters.ids"]), len(look["patterns.slot"])
    ends = _ends(look)
    look.length(filters + 1, "filters.record")
    wrong = check.check_filters(
        look["filters.ids"], look["filters.record"], look["filters.words"], ends, patterns, ids
    )
    look.need(wrong < 0, "filters.record")
    look.length(slots, "lists.slot_first")
    look.in_order(len(look["lists.record"]), "lists.slot_first", "lists.slot_split", "lists.slot_last")
    look.need(np.array_equal(look["lists.slot_times"], ends[:, 0]), "lists.slot_times")
    look.need(np.array_equal(look["lists.slot_strings"], ends[:, 1]), "lists.slot_strings")
    wrong = check.check_lists(look["lists.record"], look["lists.positions"], look["lists.keys"], filters)
    look.need(wrong < 0, "lists.record")
    look.in_order(filters, "places.absent_first", "places.absent_split", "places.absent_last")
    look.length(len(look["places.absent_first"]), "places.absent_slot")
    look.within("places.absent_slot", 0, slots)
    first = look["places.pattern_first"]
    look.length(patterns + 1, "places.pattern_first")
    look.length(patterns, "places.pattern_split")
    split = look["places.pattern_split"]
    look.within("places.pattern_first", 0, filters + 1)
    look.need(((first[:-1] <= split) & (split <= first[1:])).all(), "places.pattern_split")
    always = look["places.always"].tolist()
    look.need(len(always) == 3 and 0 <= always[0] <= always[1] <= always[2] <= filters, "places.always")
    look.offsets("places.slot_planes", slots, len(look["places.plane_record"]))
    members, grid = look["places.members"], look["places.grid"]
    # One member more than there are, which is never looked at but may be touched.
    look.need(len(members), "places.members")
    look.offsets("places.grid", len(grid) - 1, len(members) - 1)
    wrong = check.check_planes(
        look["places.slot_planes"],
        look["places.plane_record"],
        look["places.buckets"],
        len(grid) - 1,
        len(look["places.occupied"]),
        ends,
    )
    look.need(wrong < 0, "places.plane_record")
    look.need(check.check_members(members[:-1], ends, filters, ids) < 0, "places.members")


def _ends(look: _Looking) -> NDArray[np.int64]:
    """For each slot the codes at which its families start and end, as `slot_ends` has them."""
    ends = np.empty((len(look["cells.number_offsets"]) - 1, 3), np.int64)
    ends[:, 0] = NUMBERS + 1 + np.diff(look["cells.number_offsets"])
    ends[:, 1] = ends[:, 0] + 1 + np.diff(look["cells.time_offsets"])
    ends[:, 2] = ends[:, 1] + 1 + np.diff(look["cells.string_offsets"])
    return ends
