"""The users' ids and their numbers. Kernels know only numbers.

An id is kept as bytes: text as UTF-8, an integer as 0xFF (which no UTF-8 starts with) and its eight bytes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.matching.columns import offsets_of
from penstock.model.names import Id, id_order

if TYPE_CHECKING:
    import pyarrow as pa

INTEGER_MARK: Final = 0xFF
INTEGER_LENGTH: Final = 9
"""How an integer begins, and how many bytes it has with that."""

_INTEGER: Final = bytes([INTEGER_MARK])
_FEW: Final = 4
"""So many numbers are looked up one by one: arrays would cost more."""

_SOME: Final = 64
"""So many ids are sorted one by one."""


def encoded(identifier: Id) -> bytes:
    """The id as bytes."""
    if isinstance(identifier, str):
        return identifier.encode()
    return _INTEGER + identifier.to_bytes(8, "little", signed=True)


def decoded(key: bytes) -> Id:
    """The id that the bytes stand for."""
    return int.from_bytes(key[1:], "little", signed=True) if key[:1] == _INTEGER else key.decode()


class IdTable:
    """Ids in the order in which they came. Numbers never change; ids are never taken out."""

    def __init__(self) -> None:
        self.count = 0
        self._bytes: NDArray[np.uint8] = np.zeros(1024, np.uint8)
        self._offsets: NDArray[np.int64] = np.zeros(64, np.int64)
        self._slots: NDArray[np.int32] = np.zeros(128, np.int32)

    @classmethod
    def from_arrays(cls, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> "IdTable":
        """The table of ids laid end to end, all different."""
        table = cls()
        table.count = len(offsets) - 1
        table._bytes, table._offsets = text, offsets
        table._slots = np.zeros(0, np.int32)
        return table

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of the ids, and where each starts."""
        count = self.count
        offsets = self._offsets[: count + 1]
        return self._bytes[: offsets[-1]], offsets

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._bytes.nbytes + self._offsets.nbytes + self._slots.nbytes

    def intern(self, identifiers: Sequence[Id]) -> NDArray[np.int32]:
        """The numbers of ids; those that have none get one."""
        keys = [encoded(identifier) for identifier in identifiers]
        return self.intern_bytes(
            np.frombuffer(b"".join(keys), np.uint8).copy(),
            offsets_of(np.fromiter(map(len, keys), np.int64, len(keys))),
        )

    def intern_array(self, identifiers: "pa.Array") -> NDArray[np.int32]:
        """The numbers of ids in an Arrow array of strings or integers."""
        import pyarrow as pa

        if pa.types.is_dictionary(identifiers.type):
            numbers = self.intern_array(identifiers.dictionary)
            found: NDArray[np.int32] = numbers[identifiers.indices.to_numpy(zero_copy_only=False)]
            return found
        if pa.types.is_integer(identifiers.type):
            values = identifiers.cast(pa.int64()).to_numpy(zero_copy_only=False)
            text = np.empty((len(values), 9), np.uint8)
            text[:, 0] = 0xFF
            text[:, 1:] = values.astype("<i8").view(np.uint8).reshape(-1, 8)
            return self.intern_bytes(text.reshape(-1), np.arange(0, 9 * len(values) + 1, 9, dtype=np.int64))
        array = identifiers.cast(pa.large_string())
        _, raw_offsets, data = array.buffers()
        all_offsets = np.frombuffer(raw_offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        text = (
            np.frombuffer(data, np.uint8)[all_offsets[0] : all_offsets[-1]].copy()
            if data
            else np.zeros(0, np.uint8)
        )
        return self.intern_bytes(text, all_offsets - all_offsets[0])

    def intern_bytes(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
        """The numbers of ids laid end to end as bytes."""
        from penstock.matching.kernels.results import intern

        more = len(offsets) - 1
        self._make_room(more, len(text))
        numbers = np.empty(more, np.int32)
        self.count = intern(self._bytes, self._offsets, self.count, self._slots, text, offsets, numbers)
        return numbers

    def find(self, identifiers: Sequence[Id]) -> NDArray[np.int32]:
        """The numbers of ids, -1 for those that have none."""
        from penstock.matching.kernels.results import find_all

        self._make_room(0, 0)
        keys = [encoded(identifier) for identifier in identifiers]
        numbers = np.empty(len(keys), np.int32)
        offsets = offsets_of(np.fromiter(map(len, keys), np.int64, len(keys)))
        text = np.frombuffer(b"".join(keys), np.uint8).copy()
        find_all(self._bytes, self._offsets, self._slots, text, offsets, numbers)
        return numbers

    def get(self, number: int) -> Id:
        """The id of a number."""
        return decoded(self._bytes[self._offsets[number] : self._offsets[number + 1]].tobytes())

    def sorted_ids(self, numbers: NDArray[np.int32]) -> list[Id]:
        """The ids of numbers in order: integers first, then text by code point."""
        if len(numbers) <= _SOME:
            return sorted(map(self.get, numbers.tolist()), key=id_order)
        are_integers = self.are_integers(numbers)
        integers = self.integers_of(numbers[are_integers])
        return [*np.sort(integers).tolist(), *sorted(self._texts_at(numbers[~are_integers]))]

    def ordered(self, numbers: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
        """Different numbers in the order of their ids."""
        are_integers = self.are_integers(numbers)
        integers, rest = numbers[are_integers], numbers[~are_integers]
        texts = self._texts_at(rest)
        by_text = sorted(range(len(texts)), key=texts.__getitem__)
        return np.concatenate([integers[np.argsort(self.integers_of(integers))], rest[by_text]])

    def _texts_at(self, numbers: NDArray[np.signedinteger]) -> list[str]:
        """The ids of numbers that all stand for text."""
        if len(numbers) <= _SOME:
            return [str(self.get(number)) for number in numbers.tolist()]
        import pyarrow as pa

        texts: list[str] = self._arrow_texts().take(pa.array(numbers)).to_pylist()
        return texts

    def _arrow_texts(self) -> "pa.Array":
        """All ids as Arrow text. Integers are no text: they are not to be taken from it."""
        import pyarrow as pa

        text, offsets = self.arrays()
        return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))

    def are_integers(self, numbers: NDArray[np.signedinteger]) -> NDArray[np.bool_]:
        """Which of the numbers stand for integers; the others stand for text."""
        starts = self._offsets[numbers]
        some = self._offsets[numbers + 1] > starts
        found = np.zeros(len(numbers), np.bool_)
        found[some] = self._bytes[starts[some]] == _INTEGER[0]
        return found

    def integers_of(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """The ids of numbers that all stand for integers."""
        if len(numbers) <= _FEW:
            text, starts = self._bytes, self._offsets[numbers].tolist()
            return np.array(
                [int.from_bytes(text[at + 1 : at + 9], "little", signed=True) for at in starts], np.int64
            )
        text, offsets = self.arrays()
        found: NDArray[np.int64] = text[offsets[numbers][:, None] + np.arange(1, 9)].view("<i8").reshape(-1)
        return found

    def objects_of(self, numbers: NDArray[np.int32]) -> NDArray[np.object_]:
        """The ids of numbers as they were given, text or integers."""
        different, which = self._different(numbers)
        known = np.empty(len(different), np.object_)
        known[:] = [self.get(number) for number in different.tolist()]
        return known[which]

    def texts_of(self, numbers: NDArray[np.int32]) -> "pa.Array":
        """The ids of numbers as text, integers in decimal."""
        import pyarrow as pa

        different, which = self._different(numbers)
        if self.are_integers(different).any():
            known = pa.array([str(self.get(number)) for number in different.tolist()], pa.string())
        else:
            known = self._arrow_texts().take(pa.array(different)).cast(pa.string())
        return known.take(pa.array(which))

    def _different(self, numbers: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The different ones among numbers, and for each number which of them it is."""
        used = np.zeros(self.count, np.bool_)
        used[numbers] = True
        return np.flatnonzero(used), (np.cumsum(used) - 1)[numbers]

    def _make_room(self, ids: int, size: int) -> None:
        """Grow the arrays, by new ones: readers may hold the old."""
        used = int(self._offsets[self.count])
        if used + size > len(self._bytes):
            self._bytes = _grown(self._bytes, used, used + size)
        if self.count + ids + 1 > len(self._offsets):
            self._offsets = _grown(self._offsets, self.count + 1, self.count + ids + 1)
        if 2 * (self.count + ids) > len(self._slots) or not len(self._slots):
            from penstock.matching.kernels.search import build_hash

            self._slots = np.zeros(1 << max(7, (2 * (self.count + ids)).bit_length()), np.int32)
            build_hash(self._bytes, self._offsets[: self.count + 1], self._slots)


def _grown(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    # By a quarter: tables are large, and mostly filled at once.
    made = np.zeros(needed + needed // 4 + 64, array.dtype)
    made[:used] = array[:used]
    return made
