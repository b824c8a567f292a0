"""Turning Arrow's columns of texts into values: all such columns of a record batch together."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import EventError
from penstock.matching.arrival import is_interpreting
from penstock.model.limits import STRING_LENGTH_MAX

if TYPE_CHECKING:
    import pyarrow as pa

_MEMO_MIN: Final = 16
_MEMO_MAX: Final = 16_384
"""Texts of a column that are remembered, to be one value where they come again: as many as there are rows,
rounded up to a power of two, and no more than the processor's caches hold."""

_BYTES_MIN: Final = 16
"""Twice the bytes that the kernel reads at once: then eight before or after any place are there."""


_BROKEN: Final = "a column of strings has offsets that are outside its bytes"


class Texts(NamedTuple):
    """The values of some columns, and for each row and column which of them it has."""

    attribute: NDArray[np.int32]
    start: NDArray[np.int64]
    length: NDArray[np.int32]
    text: NDArray[np.uint8]
    which: NDArray[np.int32]
    """A row for each row, a column for each column; -1 where it is null."""


def is_text(kind: "pa.DataType") -> bool:
    """Whether `texts_of` takes columns of a type."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def texts_of(arrays: "list[pa.Array]", attributes: list[int]) -> Texts | None:
    """The values of columns, each as long as the others; None where a text is too long or not UTF-8."""
    if is_interpreting():
        return _texts_plainly(arrays, attributes)
    from penstock.matching.kernels.texts import BROKEN, TOO_LONG, encode_texts

    rows, width = len(arrays[0]), len(arrays)
    places = _MEMO_MIN
    while places < rows and places < _MEMO_MAX:
        places *= 2
    memo = np.zeros(2 * places, np.uint64)
    which = np.empty(rows * width, np.int32)
    # A column needs room for as many values as it has rows. Most have fewer: twice that is room for many.
    attribute, length = np.empty(2 * rows, np.int32), np.empty(2 * rows, np.int32)
    start = np.empty(2 * rows, np.int64)
    text = np.empty(0, np.uint8)
    values = end = 0
    for column, array in enumerate(arrays if rows else []):
        first, offsets, data, valid = _buffers(array)
        attribute = _with_room(attribute, values, rows)
        start = _with_room(start, values, rows)
        length = _with_room(length, values, rows)
        text = _with_room(text, end, int(offsets[-1]) - int(offsets[0]))
        values, end = encode_texts(
            offsets,
            data,
            valid,
            first,
            STRING_LENGTH_MAX,
            attributes[column],
            column,
            width,
            values,
            end,
            memo,
            which,
            attribute,
            start,
            length,
            text,
        )
        if values == TOO_LONG:
            return None
        if values == BROKEN:
            raise EventError(_BROKEN)
    made = Texts(attribute[:values], start[:values], length[:values], text[:end], which.reshape(rows, width))
    return made if _is_utf8(made) else None


def _texts_plainly(arrays: "list[pa.Array]", attributes: list[int]) -> Texts | None:
    """The same without kernels."""
    import pyarrow as pa

    rows = len(arrays[0])
    which = np.full((rows, len(arrays)), -1, np.int32)
    attribute: list[int] = []
    texts: list[bytes] = []
    for column, array in enumerate(arrays):
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        is_large = pa.types.is_large_string(array.type)
        known: dict[bytes, int] = {}
        # As bytes: their texts need not be UTF-8.
        plain = array.view(pa.large_binary() if is_large else pa.binary())
        try:
            plain.validate(full=True)
        except pa.ArrowInvalid:
            raise EventError(_BROKEN) from None
        for row, text in enumerate(plain.to_pylist()):
            if text is None:
                continue
            if len(text) > STRING_LENGTH_MAX:
                return None
            if text not in known:
                known[text] = len(texts)
                attribute.append(attributes[column])
                texts.append(text)
            which[row, column] = known[text]
    length = np.array([len(text) for text in texts], np.int32)
    start = np.zeros(len(texts), np.int64)
    np.cumsum(length[:-1], out=start[1:])
    data = np.frombuffer(b"".join(texts), np.uint8).copy()
    made = Texts(np.array(attribute, np.int32), start, length, data, which)
    return made if _is_utf8(made) else None


def _buffers(array: "pa.Array") -> tuple[int, NDArray[Any], NDArray[np.uint8], NDArray[np.uint8]]:
    """Where a column begins; its offsets, from there on; its bytes; a bit for each text, if some are null."""
    import pyarrow as pa

    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    kind, size = (np.int64, 8) if pa.types.is_large_string(array.type) else (np.int32, 4)
    first, rows = array.offset, len(array)
    valid, offsets, data = array.buffers()
    if data is None or data.size < _BYTES_MIN:
        data = (b"" if data is None else data.to_pybytes()).ljust(_BYTES_MIN, b"\0")
    return (
        first,
        _view(offsets, kind, rows + 1, first * size),
        _view(data, np.uint8),
        _view(valid, np.uint8, (first + rows + 7) // 8) if array.null_count else _view(b"", np.uint8, 0),
    )


def _view(buffer: "pa.Buffer | bytes", kind: type[Any], count: int = -1, at: int = 0) -> NDArray[Any]:
    """A buffer as an array that cannot be written to: not all can, and kernels are compiled for one kind."""
    made = np.frombuffer(buffer, kind, count, at)
    made.flags.writeable = False
    return made


def _with_room(array: NDArray[Any], used: int, more: int) -> NDArray[Any]:
    """The array, or a longer one that begins with what is used of it."""
    if used + more <= len(array):
        return array
    made = np.empty(max(used + more, 2 * len(array)), array.dtype)
    made[:used] = array[:used]
    return made


def _is_utf8(texts: Texts) -> bool:
    """Whether each text is UTF-8 for itself."""
    if not len(texts.text) or texts.text.max() < 0x80:
        return True
    try:
        texts.text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    begins = texts.text[texts.start[texts.length > 0]]
    return not ((begins & 0xC0) == 0x80).any()
