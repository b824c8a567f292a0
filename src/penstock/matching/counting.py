"""The extended counting algorithm: Carzaniga and Wolf, "Fast Forwarding for Content-Based Networking", §4.1.

For each attribute of a message, find the constraints that it matches; for each of these, count up the
filters that it is part of, but for those whose interface is already known to match; a filter counted full
makes its interface match; stop when all interfaces do.

This is the algorithm of the paper and no more: it is here to be compared with. It knows the paper's operators
(=, <, > on integers and strings; prefix, suffix, substring on strings) and its table does not change.

What differs: the map of counters is an array, with the number of the message in each counter's upper half, so
that nothing is cleared between messages; and filters are counted up a thousand at a time, so an interface's
other filters among these are still counted after it has matched.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import LimitError, UnsupportedValueError
from penstock.filters.constraint import Constraint
from penstock.filters.order import canonical_number
from penstock.matching.paper_table import (
    NUMBER_OPERATORS,
    Constraints,
    ForwardingTable,
    Ints,
    Messages,
    build_table,
    flatten,
    nbytes,
)
from penstock.model.decimals import ExactDecimal
from penstock.model.events import Event, as_event
from penstock.model.limits import ATTRIBUTES_MAX, INTEGER_MAX, INTEGER_MIN
from penstock.model.values import Value

_INTEGER, _STRING, _OTHER = 0, 1, 2

_GATHERED: Final = 2_048
"""Room for filters that are counted up together: small enough for the fastest cache."""


class Batch(NamedTuple):
    """Messages laid out for the kernel: names and strings as bytes, integers as such.

    `kind` of an attribute is 0 for an integer, 1 for a string, 2 for what no constraint can be about.
    """

    offsets: NDArray[np.int64]
    name_offsets: NDArray[np.int64]
    name_data: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    number: NDArray[np.int64]
    text_offsets: NDArray[np.int64]
    text_data: NDArray[np.uint8]


class SelectivityRows(NamedTuple):
    """The attributes of the selectivity table's first rows, and their sets of interfaces, bit by bit."""

    names: NDArray[np.int32]
    rows: NDArray[np.uint64]


class _Scratch(NamedTuple):
    """What a message leaves behind. `clock` counts messages and looked-up strings."""

    clock: NDArray[np.int64]
    counters: NDArray[np.uint32]
    reported: NDArray[np.int64]
    present: NDArray[np.int64]
    ignored: NDArray[np.uint64]
    found: NDArray[np.int32]
    gathered: NDArray[np.int32]
    attributes: NDArray[np.int32]


NO_ROWS: Final = SelectivityRows(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint64))


class CountingTable:
    """A forwarding table: give it messages, it says on which interfaces they go out.

    Counters are kept in the table: one thread may use it at a time.
    """

    def __init__(self, table: ForwardingTable, names: Sequence[str], words: Sequence[str]) -> None:
        self.table = table
        self._names = [name.encode() for name in names]
        self._words = [word.encode() for word in words]
        on_numbers = np.diff(table.numbers.bounds[::NUMBER_OPERATORS])
        on_strings = np.diff(table.strings.bounds)
        self._scratch = _Scratch(
            clock=np.zeros(2, dtype=np.int64),
            counters=np.zeros(len(table.size), dtype=np.uint32),
            reported=np.zeros(len(table.strings.mask), dtype=np.int64),
            present=np.zeros(len(names), dtype=np.int64),
            ignored=np.zeros((len(table.interface_ids) + 63) // 64, dtype=np.uint64),
            found=np.empty(max(on_numbers.max(initial=0), on_strings.max(initial=0)), dtype=np.int32),
            gathered=np.empty(_GATHERED, dtype=np.int32),
            attributes=np.empty(ATTRIBUTES_MAX, dtype=np.int32),
        )

    @classmethod
    def build(
        cls, constraints: Constraints, interfaces: Ints, names: Sequence[str], words: Sequence[str]
    ) -> "CountingTable":
        """Build the table of flat arrays; filter `i` belongs to interface `interfaces[i]`."""
        return cls(build_table(constraints, interfaces, names, words), names, words)

    @classmethod
    def of(cls, filters: Iterable[tuple[int, Sequence[Constraint]]]) -> "CountingTable":
        """Build the table of pairs of an interface and a filter, which is a sequence of constraints.

        Anything but the paper's operators, integers and strings raises FilterError.
        """
        given = list(filters)
        constraints, names, words = flatten(constraints for _interface, constraints in given)
        interfaces = np.array([interface for interface, _constraints in given], dtype=np.int64)
        return cls.build(constraints, interfaces, names, words)

    @property
    def nbytes(self) -> int:
        """Bytes of the table, its counters included."""
        return nbytes(self.table) + nbytes(self._scratch)

    def attribute_names(self) -> list[str]:
        """The name of each attribute: attributes are numbered in the order of their names."""
        return [name.decode() for name in sorted(set(self._names))]

    def forward(self, event: Event | Mapping[str, object]) -> list[int]:
        """The interfaces, sorted, on which the event goes out."""
        _offsets, interfaces = self.forward_many(batch_of_events([event]))
        return sorted(interfaces.tolist())

    def forward_many(self, batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The interfaces of each message: those of message `i` are `interfaces[offsets[i]:offsets[i + 1]]`.

        They are in the order in which they were found to match.
        """
        return self.run(batch, NO_ROWS, 0)

    def run(
        self, batch: Batch, selectivity: SelectivityRows, rounds: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Like `forward_many`, after so many pre-processing rounds over the selectivity table."""
        from penstock.matching.kernels.counting import forward_messages

        offsets, ranks = forward_messages(self.table, selectivity, rounds, batch, self._scratch)
        return offsets, self.table.interface_ids[ranks]

    def batch(self, messages: Messages) -> Batch:
        """Lay messages out; their names and words are those that the table was built with."""
        texts = messages.is_string
        names = [self._names[i] for i in messages.attribute.tolist()]
        words = [
            self._words[value] if text else b""
            for value, text in zip(messages.value.tolist(), texts.tolist(), strict=True)
        ]
        kind = np.where(texts, _STRING, _INTEGER).astype(np.uint8)
        offsets = np.array(messages.offsets, dtype=np.int64)
        if np.diff(offsets).max(initial=0) > ATTRIBUTES_MAX:
            raise LimitError("a message has too many attributes", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
        return Batch(offsets, *_joined(names), kind, messages.value.astype(np.int64), *_joined(words))


def batch_of_events(events: Iterable[Event | Mapping[str, object]]) -> Batch:
    """Lay events out for `forward_many`."""
    offsets, names, texts = [0], [], []
    kinds: list[int] = []
    numbers: list[int] = []
    for event in events:
        for name, value in as_event(event).attributes.items():
            kind, number, text = _encode(value)
            names.append(name.encode())
            kinds.append(kind)
            numbers.append(number)
            texts.append(text)
        offsets.append(len(names))
    kind_column, number_column = np.array(kinds, dtype=np.uint8), np.array(numbers, dtype=np.int64)
    return Batch(
        np.array(offsets, dtype=np.int64), *_joined(names), kind_column, number_column, *_joined(texts)
    )


def _encode(value: Value) -> tuple[int, int, bytes]:
    """A value's kind, and what it is as an integer and as bytes."""
    if isinstance(value, str):
        return _STRING, 0, value.encode()
    if isinstance(value, bool) or not isinstance(value, int | float | ExactDecimal):
        return _OTHER, 0, b""
    number = value if isinstance(value, ExactDecimal) else canonical_number(value)
    if isinstance(number, int) and INTEGER_MIN <= number <= INTEGER_MAX:
        return _INTEGER, number, b""
    raise UnsupportedValueError(
        f"this engine knows only integers of 64 bits, as its paper does, not {value!r}"
    )


def _joined(parts: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Strings one after another: where each begins, and their bytes."""
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    # bytearray: the kernels are compiled for writeable arrays.
    return offsets, np.frombuffer(bytearray(b"".join(parts)), dtype=np.uint8)
