"""JSON lines as a batch: one object a line, each an event.

The answer is that of `decode_object` and `flatten` for each line, restricted to the wanted names; nearly
all lines are read by a kernel, the others (`kernels.json_lines` says which) by those two functions, which
also make all errors. By design one thing differs: an attribute that no filter names is only checked to be
JSON. A name or a value beyond a limit there is no error, nor a name that is there twice.

As in the commands, a blank line is no event but counts as a row, white space around an object is passed
over, and the first line of all may begin with a byte order mark. Rows are lines, counted from 1.
"""

import codecs
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.errors import EventError, PenstockError
from penstock.matching.arrival import is_interpreting
from penstock.matching.batch import DOUBLE, FALSE, INTEGER, LIST, STRING, TRUE, Batch, with_lists
from penstock.matching.computed import is_computed, unread
from penstock.matching.encode import BatchBuilder, columns_of
from penstock.matching.kernels import json_blocks, json_lines, json_names, json_values
from penstock.model.events import Unsupported, decode_list, decode_object, flatten, is_skip, read_list
from penstock.model.limits import NESTING_MAX
from penstock.model.names import check_name
from penstock.model.values import List, Value

_VALUE_BYTES_MIN: Final = len('"a":1')


class _Trie(NamedTuple):
    arrays: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]
    nodes: int


class WantedNames:
    """The names of the attributes to read, made ready for the kernel; an attribute's number is its place."""

    numbers: dict[str, int]
    """The number of each name."""

    def __init__(self, names: Sequence[str]) -> None:
        # Computed attributes are in no event; they keep their places.
        names = [unread(at) if is_computed(name) else name for at, name in enumerate(names)]
        self.numbers = {
            name if is_computed(name) else check_name(name): number for number, name in enumerate(names)
        }
        if len(self.numbers) < len(names):
            raise EventError("a name is wanted twice")
        self._prefixes = {
            name[:at] for name in names for at, character in enumerate(name) if character == "."
        }
        self._names = names

    @cached_property
    def _trie(self) -> "_Trie":
        encoded = [name.encode() for name in self._names]
        parts = sum(name.count(b".") + 1 for name in encoded)
        text = _padded(b"".join(encoded))
        slots = np.full(1 << (2 * parts).bit_length(), -1, np.int32)
        nodes = np.zeros((parts + 1) * json_names.NODE_WIDTH, np.int64)
        stops = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        count = json_names.index_names(text, stops, slots, nodes)
        return _Trie((slots, nodes, text), count)

    @property
    def index(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]:
        """The trie of the names: its slots, its nodes, the names' bytes."""
        return self._trie.arrays

    @property
    def node_count(self) -> int:
        """How many nodes it has."""
        return self._trie.nodes

    def restrict(self, attributes: Mapping[str, object]) -> dict[str, object]:
        """What of a decoded object can become a wanted attribute."""
        return self._restrict(attributes, "", 0)

    def _restrict(self, attributes: Mapping[str, object], prefix: str, depth: int) -> dict[str, object]:
        kept: dict[str, object] = {}
        for name, value in attributes.items():
            path = prefix + name
            if isinstance(value, dict) and value:
                if path not in self._prefixes:
                    continue
                if depth > NESTING_MAX:
                    kept[name] = value  # too deep, which `flatten` says
                    continue
                inner = self._restrict(value, path + ".", depth + 1)
                if inner:
                    kept[name] = inner
            elif path in self.numbers:
                kept[name] = value
        return kept


def read_json_lines(
    data: bytes | bytearray | memoryview,
    wanted: WantedNames,
    unsupported: Unsupported = "refuse",
    *,
    first_row: int = 1,
) -> Batch:
    """Read an event from each line that is not blank; errors name the row.

    Where the data are a later part of a file, `first_row` is the number of their first line.
    """
    if is_interpreting():
        return _read_plainly(bytes(data), wanted, unsupported, first_row)
    return _read(data, wanted, unsupported, first_row)[0]


def _read_plainly(data: bytes, wanted: WantedNames, unsupported: Unsupported, first_row: int) -> Batch:
    """The same without kernels."""
    is_skip(unsupported)
    builder = BatchBuilder(wanted.numbers)
    content = data.removeprefix(codecs.BOM_UTF8) if first_row == 1 else data
    for row, line in enumerate(content.split(b"\n"), first_row):
        text = line.strip()
        if not text:
            continue
        try:
            flat = _read_slowly(text, wanted, unsupported)
        except PenstockError as error:
            raise error.in_row(row) from None
        builder.add(flat)
    return builder.build()


def _read(
    data: bytes | bytearray | memoryview, wanted: WantedNames, unsupported: Unsupported, first_row: int = 1
) -> tuple[Batch, int]:
    """The batch, and how many lines the kernel has left to be read slowly."""
    is_skip(unsupported)
    arena = _padded(data)
    end = arena.size - len(json_blocks.PADDING)
    lines, colons, is_ascii = json_lines.measure(arena, end)
    most = min(colons, lines * len(wanted.numbers), end // _VALUE_BYTES_MIN)
    start, count = np.empty(lines, np.int64), np.empty(lines, np.int32)
    values = _Values(
        np.empty(most, np.int32), np.empty(most, np.uint8), np.empty(most, np.int64), np.empty(most, np.int32)
    )
    has_mark = first_row == 1 and arena[: len(codecs.BOM_UTF8)].tobytes() == codecs.BOM_UTF8
    begin = len(codecs.BOM_UTF8) if has_mark else 0
    is_suspect = not (is_ascii or _is_utf8(data))
    attribute, state, bits, length = values
    scratch = np.full(json_lines.SCRATCH + wanted.node_count, -1, np.int64)
    events, size = json_lines.read_lines(
        arena, begin, end, is_suspect, *wanted.index, scratch, start, count, attribute, state, bits, length
    )
    start, count = start[:events], count[:events]
    slow = [(int(start[event]), event) for event in np.flatnonzero(count == json_lines.SLOW).tolist()]
    has_lists = bool((state[:size] == json_values.LIST_TEXT).any())
    content = bytes(data) if slow or has_lists else b""
    lists: _Lists = {}
    if has_lists:
        # Their values have places already, which are taken again.
        odd = _read_lists(content, size, values, start, count, lists)
        again = ((max(begin, content.rfind(b"\n", 0, at) + 1), event) for event, at in odd.items())
        slow = sorted([*slow, *again])
    _settle(arena, size, values)
    for at, event in slow:
        stop = content.find(b"\n", at)
        try:
            flat = _read_slowly(content[at : stop if stop >= 0 else end], wanted, unsupported)
        except PenstockError as error:
            raise error.in_row(first_row + content.count(b"\n", 0, at)) from None
        place = size
        if count[event] == json_lines.SLOW:
            start[event] = size
            size += len(flat)
        else:
            place = int(start[event])
        count[event] = len(flat)
        for number, value in sorted((wanted.numbers[name], value) for name, value in flat.items()):
            if type(value) is tuple:
                lists.setdefault(number, []).append((place, value))
            # A string is no longer than its JSON, so all of a line have room in its place.
            at += values.put(place, number, value, at, arena)
            place += 1
    if has_lists and len(slow):
        # What an event has no longer leaves its place.
        size, start, lists = _closed_up(start, count, values, lists)
    entries = np.arange(size, dtype=np.int32)
    table = (attribute[:size], state[:size], bits[:size], length[:size])
    return with_lists(Batch(start, count, entries, *table, arena), columns_of(lists)), len(slow)


_Lists: TypeAlias = dict[int, list[tuple[int, List]]]
"""By the number of an attribute: the places of its lists in the table of values, and the lists."""


class _Values(NamedTuple):
    """The table of values of a batch that is being built, with room to spare."""

    attribute: NDArray[np.int32]
    state: NDArray[np.uint8]
    bits: NDArray[np.int64]
    length: NDArray[np.int32]

    def put(self, place: int, number: int, value: Value, at: int, arena: NDArray[np.uint8]) -> int:
        """Write a value, if it is text then at this place of the arena; return how much that takes."""
        self.attribute[place] = number
        self.bits[place] = 0
        self.length[place] = 0
        if isinstance(value, str):
            text = value.encode()
            self.state[place], self.bits[place], self.length[place] = STRING, at, len(text)
            arena[at : at + len(text)] = np.frombuffer(text, np.uint8)
            return len(text)
        if isinstance(value, bool):
            self.state[place] = TRUE if value else FALSE
        elif isinstance(value, int):
            self.state[place], self.bits[place] = INTEGER, value
        elif isinstance(value, float):
            # Never NaN, which JSON cannot say; nor are there times.
            self.state[place] = DOUBLE
            self.bits.view(np.float64)[place] = value
        else:
            self.state[place] = LIST
        return 0


def _closed_up(
    start: NDArray[np.int64], count: NDArray[np.int32], values: _Values, lists: _Lists
) -> tuple[int, NDArray[np.int64], _Lists]:
    """Have the values of events stand one after the other; return how many there are, and where all is."""
    counts = count.astype(np.int64)
    begin = np.cumsum(counts) - counts
    size = int(counts.sum())
    places = np.repeat(start - begin, counts) + np.arange(size)
    place_of = np.zeros(len(values.state), np.int64)
    place_of[places] = np.arange(size)
    for column in values:
        column[:size] = column[places]
    moved = {number: [(int(place_of[at]), each) for at, each in found] for number, found in lists.items()}
    return size, begin, moved


def _read_lists(
    content: bytes,
    size: int,
    values: _Values,
    start: NDArray[np.int64],
    count: NDArray[np.int32],
    found: _Lists,
) -> dict[int, int]:
    """Read the lists that the kernel has only found.

    An event of which a list has no element, or something that is no value, is to be read slowly. For each
    such event it is returned where its list begins.
    """
    attribute, state, bits, length = values
    places = np.flatnonzero(state[:size] == json_values.LIST_TEXT)
    some = np.flatnonzero(count > 0)
    events = some[np.searchsorted(start[some], places, "right") - 1].tolist()
    begins = bits[places].tolist()
    ends = (bits[places] + length[places]).tolist()
    read = [_list_in(content[at:end]) for at, end in zip(begins, ends, strict=True)]
    odd = {event: at for event, at, elements in zip(events, begins, read, strict=True) if elements is None}
    for event, place, elements in zip(events, places.tolist(), read, strict=True):
        if elements is not None and event not in odd:
            found.setdefault(int(attribute[place]), []).append((place, elements))
    state[places], bits[places], length[places] = LIST, 0, 0
    return odd


def _list_in(text: bytes) -> List | None:
    try:
        return read_list(decode_list(text), "")
    except PenstockError:
        return None


def _settle(arena: NDArray[np.uint8], size: int, values: _Values) -> None:
    """Finish the values that the kernel has only found: strings with escapes, doubles of many digits."""
    _attribute, state, bits, length = values
    if not (state[:size] > STRING).any():
        return
    json_values.unescape(arena, size, state, bits, length)
    places = np.flatnonzero(state[:size] == json_values.LONG_DOUBLE)
    starts = bits[places]
    stops = starts + length[places]
    text = arena.data
    # Python rounds correctly, as does the decoder of the slow path.
    doubles = [float(bytes(text[at:stop])) for at, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    state[places] = DOUBLE
    bits.view(np.float64)[places] = doubles
    length[places] = 0


def _read_slowly(line: bytes, wanted: WantedNames, unsupported: Unsupported) -> dict[str, Value]:
    return flatten(wanted.restrict(decode_object(line.strip())), unsupported)


def _padded(data: bytes | bytearray | memoryview) -> NDArray[np.uint8]:
    """A copy that kernels may read, with the padding that they need."""
    return np.frombuffer(bytearray().join([data, json_blocks.PADDING]), np.uint8)


def _is_utf8(data: bytes | bytearray | memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
