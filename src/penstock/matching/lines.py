"""What events matched as JSON lines."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.matching.arrival import is_interpreting
from penstock.matching.batch import DECIMAL, DOUBLE, LIST, NAN, TIME, Batch
from penstock.matching.decimals import decimal_at
from penstock.matching.elements import lists_of
from penstock.matching.ids import IdTable
from penstock.matching.kernels.lines import READY, write_lines
from penstock.matching.matches import Matches
from penstock.matching.plain import value_of
from penstock.model.decimals import write_number
from penstock.model.nesting import json_value
from penstock.model.values import List, Time

if TYPE_CHECKING:
    import pyarrow as pa


class Lines:
    """Writes lines for a matcher whose ids do not change any more."""

    def __init__(self, ids: IdTable, name: int) -> None:
        self._rank, texts = _in_order(ids)
        self._text, self._offsets = _bytes_of(texts)
        self._name = name

    def write(
        self, batch: Batch, matches: Matches, events: NDArray[np.int64], first_row: int
    ) -> NDArray[np.uint8]:
        """A line for each of the events, which have matched something; `first_row` is the batch's."""
        if is_interpreting():
            return self._write_plainly(batch, matches, events, first_row)
        state, bits, length, ready = _names(batch, self._name)
        return write_lines(  # type: ignore[no-any-return]
            events,
            first_row,
            batch.start,
            batch.count,
            batch.entries,
            batch.value_attribute,
            state,
            bits,
            length,
            batch.arena,
            ready,
            self._name,
            matches.offsets,
            matches.numbers,
            self._rank,
            self._text,
            self._offsets,
        )

    def _write_plainly(
        self, batch: Batch, matches: Matches, events: NDArray[np.int64], first_row: int
    ) -> NDArray[np.uint8]:
        """The same without kernels."""
        encode = msgspec.json.Encoder().encode
        text, starts = self._text.tobytes(), self._offsets.tolist()
        lines, lists = [], lists_of(batch)
        for event in events.tolist():
            found = matches.numbers[matches.offsets[event] : matches.offsets[event + 1]]
            ids = b",".join(text[starts[r] : starts[r + 1]] for r in sorted(self._rank[found].tolist()))
            first = int(batch.start[event])
            entries = batch.entries[first : first + max(0, int(batch.count[event]))]
            named = entries[batch.value_attribute[entries] == self._name]
            name: object = first_row + event
            if len(named):
                place = int(named[0])
                name = lists[place] if place in lists else value_of(batch, place)
            shown = encode(json_value(name))
            lines.append(b'{"event":' + shown + b',"ids":[' + ids + b"]}\n")
        return np.frombuffer(b"".join(lines), np.uint8)


def _in_order(ids: IdTable) -> "tuple[NDArray[np.int64], pa.Array]":
    """The rank of each id, integers before text, and the ids as JSON in that order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text, offsets = ids.arrays()
    rank = np.empty(ids.count, np.int64)
    # An id has at least a byte; 0xFF, which no UTF-8 has, stands before integers.
    is_integer = text[offsets[:-1]] == 0xFF
    integers, strings = np.flatnonzero(is_integer), np.flatnonzero(~is_integer)
    numbers = text[offsets[integers][:, None] + np.arange(1, 9)].copy().view("<i8").reshape(-1)
    order = np.argsort(numbers)
    rank[integers[order]] = np.arange(len(integers))
    known = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), ids.count, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    words = known.take(pa.array(strings)).cast(pa.large_string())
    # Bytes of UTF-8 are in the order of their code points.
    by_word = pc.sort_indices(words)
    rank[strings[by_word.to_numpy()]] = np.arange(len(integers), ids.count)
    return rank, pa.concat_arrays(
        [pc.cast(pa.array(numbers[order]), pa.large_string()), _quoted(words.take(by_word))]
    )


def _quoted(words: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(words, r'["\\\x00-\x1f]')).as_py():
        encode = msgspec.json.Encoder().encode
        return pa.array([encode(word).decode() for word in words.to_pylist()], pa.large_string())
    quote, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(quote, words, quote, nothing)


def _bytes_of(texts: "pa.Array") -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of an array of large strings, and where each starts."""
    _, raw_offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(raw_offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1].copy()
    return np.frombuffer(data, np.uint8)[: offsets[-1]].copy(), offsets


def _names(
    batch: Batch, attribute: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
    """State, bits and length of the batch's values, and bytes that names are made of which are no text.

    Doubles, times and lists are rare as names, and Python writes them.
    """
    state, bits, length = batch.value_state, batch.value_bits, batch.value_length
    named = np.flatnonzero(batch.value_attribute == attribute)
    odd = named[np.isin(state[named], (NAN, DOUBLE, TIME, DECIMAL, LIST))]
    if not len(odd):
        return state, bits, length, np.zeros(0, np.uint8)
    encode = msgspec.json.Encoder().encode
    state, bits, length = state.copy(), bits.copy(), length.copy()
    texts = []
    lists: Mapping[int, List] = {}
    size = 0
    for at in odd.tolist():
        if state[at] == TIME:
            text = encode(str(Time(int(bits[at]))))
        elif state[at] == LIST:
            lists = lists or lists_of(batch)
            text = encode(json_value(lists[at]))
        elif state[at] == DECIMAL:
            text = write_number(decimal_at(batch.arena, int(bits[at]))).encode()
        else:
            text = encode(float(bits[at : at + 1].view(np.float64)[0]) if state[at] == DOUBLE else None)
        texts.append(text)
        state[at], bits[at], length[at] = READY, size, len(text)
        size += len(text)
    return state, bits, length, np.frombuffer(b"".join(texts), np.uint8).copy()
