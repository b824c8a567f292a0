"""Turning events into batches: from Python objects, and from Arrow tables without looking at rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from penstock.errors import EventError, LimitError, UnsupportedValueError
from penstock.matching.batch import (
    DECIMAL,
    DOUBLE,
    FALSE,
    INTEGER,
    LIST,
    NAN,
    STRING,
    TIME,
    Batch,
    ListColumn,
    with_lists,
)
from penstock.matching.decimals import record_of
from penstock.model.decimals import ExactDecimal
from penstock.model.events import Event, Unsupported, flatten
from penstock.model.values import List, Time, Value

_STATES: Final[dict[type, int]] = {
    bool: FALSE,
    int: INTEGER,
    float: DOUBLE,
    Time: TIME,
    str: STRING,
    tuple: LIST,
    ExactDecimal: DECIMAL,
}


class BatchBuilder:
    """Collects events one by one."""

    def __init__(self, names: Mapping[str, int]) -> None:
        self._names = names
        self._count: list[int] = []
        self._attribute: list[int] = []
        self._state: list[int] = []
        self._integers: list[int] = []
        self._doubles: list[float] = []
        self._double_at: list[int] = []
        self._length: list[int] = []
        self._texts: list[bytes] = []
        self._text_end = 0
        self._lists: dict[int, list[tuple[int, List]]] = {}
        """By the number of the attribute: the places of values that are lists, and these."""

    def add(self, attributes: Mapping[str, Value]) -> None:
        """Add an event's attributes, known to be flat and valid; those that no filter names are left out."""
        names = self._names
        before = len(self._attribute)
        for name, value in attributes.items():
            number = names.get(name)
            if number is None:
                continue
            self._attribute.append(number)
            state = _STATES[type(value)]
            bits = length = 0
            if state in (STRING, DECIMAL):
                text = value.encode() if state == STRING else record_of(value)  # type: ignore[union-attr,arg-type]
                self._texts.append(text)
                bits, length = self._text_end, len(text)
                self._text_end += length
            elif state == DOUBLE:
                if value != value:
                    state = NAN
                else:
                    self._double_at.append(len(self._integers))
                    self._doubles.append(value)  # type: ignore[arg-type]
            elif state == FALSE:
                state = FALSE + bool(value)
            elif state == LIST:
                self._lists.setdefault(number, []).append((len(self._integers), value))  # type: ignore[arg-type]
            else:
                bits = value if state == INTEGER else value.nanoseconds  # type: ignore[assignment,union-attr]
            self._state.append(state)
            self._integers.append(bits)
            self._length.append(length)
        self._count.append(len(self._attribute) - before)

    def build(self) -> Batch:
        """All events that were added."""
        bits = np.array(self._integers, np.int64)
        bits[self._double_at] = np.array(self._doubles, np.float64).view(np.int64)
        count = np.array(self._count, np.int32)
        start = np.zeros(len(count), np.int64)
        np.cumsum(count[:-1], out=start[1:])
        made = Batch(
            start=start,
            count=count,
            entries=np.arange(len(bits), dtype=np.int32),
            value_attribute=np.array(self._attribute, np.int32),
            value_state=np.array(self._state, np.uint8),
            value_bits=bits,
            value_length=np.array(self._length, np.int32),
            arena=np.frombuffer(b"".join(self._texts), np.uint8).copy(),
        )
        return with_lists(made, columns_of(self._lists)) if self._lists else made


def columns_of(lists: Mapping[int, Sequence[tuple[int, List]]]) -> list[ListColumn]:
    """Lists with their places in a table of values, by the number of their attribute, as a batch has them."""
    return [
        ListColumn(number, np.array([place for place, _ in found], np.int32), [value for _, value in found])
        for number, found in lists.items()
    ]


def batch_of_events(
    events: Iterable[Event | Mapping[str, object] | None],
    names: Mapping[str, int],
    unsupported: Unsupported = "refuse",
) -> Batch:
    """Events, or mappings that they can be made of, as a batch. None is an event without attributes."""
    builder = BatchBuilder(names)
    for row, event in enumerate(events):
        try:
            builder.add({} if event is None else _attributes(event, unsupported))
        except (EventError, LimitError, UnsupportedValueError) as error:
            raise error.in_row(row) from None
    return builder.build()


def _attributes(event: Event | Mapping[str, object], unsupported: Unsupported) -> Mapping[str, Value]:
    return event.attributes if isinstance(event, Event) else flatten(event, unsupported)
