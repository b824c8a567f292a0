"""Events from their bytes, as they travel and are stored, into a batch: no Python object for any of them.

This is where a broker's trust begins. Every event is checked throughout, whether any filter names its
attributes or not, because what passes is forwarded byte by byte to whoever reads it next.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.errors import EventError, PenstockError
from penstock.matching.arrival import is_interpreting
from penstock.matching.batch import DECIMAL, DOUBLE, INTEGER, LIST, Batch, with_lists
from penstock.matching.decimals import RECORD_BYTES, record_of
from penstock.matching.encode import BatchBuilder, columns_of
from penstock.matching.json_events import WantedNames
from penstock.matching.kernels import packed_maps
from penstock.matching.kernels.jit import direct
from penstock.matching.kernels.json_blocks import PADDING
from penstock.matching.kernels.packed_values import PACKED_DECIMAL
from penstock.model.decimals import ExactDecimal
from penstock.model.packed import decode_decimal, decode_event, decode_list
from penstock.model.values import List

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]
"""What bytes may come as; it has to be in one piece."""


def read_packed(data: Buffer, offsets: ArrayLike, wanted: WantedNames) -> Batch:
    """Read an event from each stretch of bytes between two offsets; the error of a bad one names its row.

    The caller has offsets that never fall and stay within the data; others are refused, as a bad event is.
    """
    try:
        given = np.frombuffer(data, np.uint8)
    except (TypeError, ValueError, BufferError):
        raise EventError(f"events are read from bytes in one piece, not from {type(data).__name__}") from None
    if is_interpreting():
        return _read_plainly(given, offsets, wanted)
    # Copies, because a kernel reads a little past the end, and takes only arrays that can be written.
    text = np.zeros(given.size + len(PADDING), np.uint8)
    text[: given.size] = given
    bounds = np.array(offsets, np.int64)
    events = max(bounds.size - 1, 0)
    most = min(events * len(wanted.numbers), given.size // packed_maps.ATTRIBUTE_BYTES_MIN) + 1
    start, count = np.empty(events, np.int64), np.empty(events, np.int32)
    attribute, state = np.empty(most, np.int32), np.empty(most, np.uint8)
    bits, length = np.empty(most, np.int64), np.empty(most, np.int32)
    scratch = np.empty(packed_maps.SCRATCH + len(wanted.numbers), np.int64)
    scratch.fill(-1)
    read = packed_maps.read_events if events != 1 else direct(packed_maps.read_events)
    good, size = read(
        text, given.size, bounds, *wanted.index, scratch, start, count, attribute, state, bits, length
    )
    if good < events:
        raise _error(given, int(bounds[good]), int(bounds[good + 1]), good)
    entries = np.arange(size, dtype=np.int32)
    if scratch[packed_maps.DECIMALS] >= 0:
        text = _settled(text, state[:size], bits[:size], length[:size])
    batch = Batch(start, count, entries, attribute[:size], state[:size], bits[:size], length[:size], text)
    return _with_lists(batch) if (batch.value_state == LIST).any() else batch


def _with_lists(batch: Batch) -> Batch:
    """The batch with the lists that the kernel has checked, and found."""
    places = np.flatnonzero(batch.value_state == LIST)
    begins = batch.value_bits[places]
    ends = begins + batch.value_length[places]
    found: dict[int, list[tuple[int, List]]] = {}
    for place, begin, end in zip(places.tolist(), begins.tolist(), ends.tolist(), strict=True):
        elements = decode_list(batch.arena[begin:end].tobytes())
        found.setdefault(int(batch.value_attribute[place]), []).append((place, elements))
    batch.value_bits[places], batch.value_length[places] = 0, 0
    return with_lists(batch, columns_of(found))


def _settled(
    text: NDArray[np.uint8], state: NDArray[np.uint8], bits: NDArray[np.int64], length: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Finish the decimals, whose texts were only checked; their records come behind the text."""
    records = [text.tobytes()]
    end = text.size
    for at in np.flatnonzero(state == PACKED_DECIMAL).tolist():
        value = decode_decimal(text[bits[at] : bits[at] + length[at]].tobytes())
        length[at] = 0
        if isinstance(value, ExactDecimal):
            records.append(record_of(value))
            state[at], bits[at], length[at] = DECIMAL, end, RECORD_BYTES
            end += RECORD_BYTES
        elif isinstance(value, int):
            state[at], bits[at] = INTEGER, value
        else:
            state[at] = DOUBLE
            bits[at] = np.float64(value).view(np.int64)
    return np.frombuffer(b"".join(records), np.uint8).copy()


def _read_plainly(given: NDArray[np.uint8], offsets: ArrayLike, wanted: WantedNames) -> Batch:
    """The same without kernels."""
    builder = BatchBuilder(wanted.numbers)
    data = given.tobytes()
    bounds = np.array(offsets, np.int64).tolist()
    for row, (begin, stop) in enumerate(pairwise(bounds)):
        if not 0 <= begin <= stop <= len(data):
            raise _error(given, begin, stop, row)
        try:
            builder.add(decode_event(data[begin:stop]).attributes)
        except PenstockError as error:
            raise error.in_row(row) from None
    return builder.build()


def check_packed(data: Buffer, offsets: ArrayLike) -> None:
    """Check events without matching them: raise what `read_packed` would."""
    read_packed(data, offsets, _nothing())


@cache
def _nothing() -> WantedNames:
    return WantedNames([])


def _error(data: NDArray[np.uint8], begin: int, stop: int, row: int) -> PenstockError:
    """What is wrong with an event that the kernel has refused."""
    if not 0 <= begin <= stop <= data.size:
        return EventError(f"it goes from byte {begin:,} to {stop:,} of {data.size:,}").in_row(row)
    try:
        decode_event(data[begin:stop].tobytes())
    except PenstockError as error:
        return error.in_row(row)
    return EventError("its bytes are no event").in_row(row)
