"""What events had: values by attribute and family, names, and what was left out.

This is what rules are held against when nothing else says what events look like (`disagreements`). Counting
is exact, since to say that an attribute is never there takes all events. It reads two small arrays of each
batch once, some nanoseconds an event, and small batches are counted together, many at a time. Names that no
filter mentions are needed only to suggest one that was perhaps meant: they are taken from a few events, more
rarely the more events there were.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.matching.arrival import is_interpreting
from penstock.matching.batch import DECIMAL, DOUBLE, FALSE, INTEGER, LIST, NAN, STRING, TIME, TRUE, Batch
from penstock.matching.kernels.jit import direct
from penstock.matching.kernels.observe import STATES, count_values
from penstock.model.arrow_layouts import is_arrow_list, plain_type
from penstock.model.events import Skipping, decode_object
from penstock.model.limits import ATTRIBUTES_MAX, NAME_LENGTH_MAX, NESTING_MAX
from penstock.model.packed import decode_event
from penstock.model.places import Place, outermost
from penstock.model.shapes import lists_in, names_in
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

FAMILY_OF_STATE: Final = {
    NAN: Family.NUMBER,
    INTEGER: Family.NUMBER,
    DOUBLE: Family.NUMBER,
    DECIMAL: Family.NUMBER,
    FALSE: Family.BOOL,
    TRUE: Family.BOOL,
    TIME: Family.TIME,
    STRING: Family.STRING,
    LIST: Family.LIST,
}


def families_of_states(counts: NDArray[np.int64]) -> dict[Family, int]:
    """Counts of values by their states as counts by family."""
    found: dict[Family, int] = {}
    for state in np.flatnonzero(counts).tolist():
        family = FAMILY_OF_STATE[state]
        found[family] = found.get(family, 0) + int(counts[state])
    return dict(sorted(found.items()))


NAMES_MAX: Final = ATTRIBUTES_MAX
"""Names of events that are remembered: as many as one event may have."""

_TOGETHER: Final = 4_096
"""Values of small batches that are counted at once. A batch of so many is counted by a kernel."""

_LOOKED_AT: Final = 16
"""Events of a batch whose names are looked at."""


class Observed:
    """See the module. Attributes have the numbers of a store's names. Safe to share between threads."""

    def __init__(self) -> None:
        self.events = 0
        """How many events there were."""
        self.names: dict[str, None] = {}
        """Names that events had; of their attributes, not all."""
        self.had_json = self.had_others = False
        """Whether events came as JSON lines, whose numbers are doubles, and in other forms."""
        self.lists: dict[str, None] = {}
        """Those of the names that were lists with elements in some event, and the places of lists in them."""
        self.beside: set[str] = set()
        """Those of the lists beside which an event had names of a record: `http` and `http.status`."""
        self.skipping = Skipping(threading.Lock())
        """What to pass as `unsupported` so that values that are left out are counted."""
        self._kept: NDArray[np.int64] = np.zeros(0, np.int64)
        """For each attribute, texts that would be times if no rule compared them with strings."""
        self._examples: dict[int, str] = {}
        """The first value of each attribute and state, as text; under the places that `_counts` has."""
        self._kept_inside: dict[int, Counter[Place]] = {}
        self._began: dict[int, int] = {}
        """Attributes that filters name only since so many events had come."""
        self._lock = threading.Lock()
        self._counts: NDArray[np.int64] = np.zeros(64 * STATES, np.int64)
        self._small: list[tuple[NDArray[np.int32], NDArray[np.uint8]]] = []
        self._small_size = 0
        self._next = 0

    # Counting

    def see(self, batch: Batch) -> None:
        """Count the values of a batch."""
        self.events += len(batch.start)
        size = len(batch.entries)
        if size >= _TOGETHER and not is_interpreting():
            with self._lock:
                self._have_room(int(batch.value_attribute.max(initial=0)))
                if count_values(batch.entries, batch.value_attribute, batch.value_state, self._counts):
                    self._keep_examples(batch)
        elif size:
            attribute, state = batch.value_attribute, batch.value_state
            if len(batch.start) == 1 and (count := direct(count_values)) is not count_values:
                # Without a look at types: those of one event are the same always.
                with self._lock:
                    self._have_room(max(attribute.tolist()))
                    if count(batch.entries, attribute, state, self._counts):
                        self._keep_examples(batch)
                return
            if size != len(attribute):
                attribute, state = attribute[batch.entries], state[batch.entries]
            with self._lock:
                self._keep_examples(batch)
                self._small.append((attribute, state))
                # An empty batch would never fill it, and one of one value counts for more than that.
                self._small_size += size + 8
                if self._small_size >= _TOGETHER:
                    self._fold()

    def _keep_examples(self, batch: Batch) -> None:
        """Keep a value of each attribute and state that no event had before."""
        from penstock.matching.plain import shown_at

        attribute, state = batch.value_attribute[batch.entries], batch.value_state[batch.entries]
        places = attribute.astype(np.int64) * STATES + state
        # Either way it takes some microseconds for a thousand values.
        are_many = len(places) >= _TOGETHER
        some = np.flatnonzero(np.bincount(places)).tolist() if are_many else places.tolist()
        for place in set(some).difference(self._examples):
            first = int(batch.entries[np.argmax(places == place)])
            self._examples[place] = shown_at(batch, first)

    def example(self, attribute: int, family: Family) -> str:
        """The first value of an attribute in a family, as text; empty if there was none."""
        states = (state for state, known in FAMILY_OF_STATE.items() if known is family)
        found = (self._examples.get(attribute * STATES + state) for state in states)
        return next((text for text in found if text), "")

    def keep(self, counts: NDArray[np.int64]) -> None:
        """Take note of texts that would be times if no rule compared them with strings, by attribute."""
        with self._lock:
            if len(counts) > len(self._kept):
                counts, self._kept = self._kept, counts.astype(np.int64)
            self._kept[: len(counts)] += counts

    def keep_inside(self, attribute: int, counts: Mapping[Place, int]) -> None:
        """The same of texts in lists, by their places in the list under one attribute."""
        with self._lock:
            self._kept_inside.setdefault(attribute, Counter()).update(counts)

    def kept_inside(self, attribute: int) -> Mapping[Place, int]:
        """How many of these texts there were."""
        with self._lock:
            return dict(self._kept_inside.get(attribute, ()))

    def kept(self, attribute: int) -> int:
        """How many of these texts there were."""
        return int(self._kept[attribute]) if attribute < len(self._kept) else 0

    def begin(self, attribute: int) -> None:
        """Filters name an attribute from now on; what events had before, nobody counted."""
        if self.events:
            self._began[attribute] = self.events

    def events_of(self, attribute: int) -> int:
        """In how many events an attribute has been looked for."""
        return self.events - self._began.get(attribute, 0)

    def _fold(self) -> None:
        if self._small:
            attribute = np.concatenate([attribute for attribute, _ in self._small]).astype(np.int64)
            state = np.concatenate([state for _, state in self._small])
            self._small, self._small_size = [], 0
            self._have_room(int(attribute.max()))
            found = np.bincount(attribute * STATES + state)
            self._counts[: len(found)] += found

    def _have_room(self, attribute: int) -> None:
        if (attribute + 1) * STATES > len(self._counts):
            grown = np.zeros(2 * (attribute + 1) * STATES, np.int64)
            grown[: len(self._counts)] = self._counts
            self._counts = grown

    def counts(self, attributes: int) -> NDArray[np.int64]:
        """For each attribute, how many values of each state there were."""
        with self._lock:
            self._fold()
            self._have_room(attributes)
            return self._counts[: attributes * STATES].reshape(-1, STATES).copy()

    def renumbered(self, number_of: NDArray[np.int32]) -> "Observed":
        """The same when attributes have other numbers; those that have none (-1) are left out."""
        made = Observed()
        made.events, made.names, made.skipping = self.events, self.names, self.skipping
        made._next, made.lists, made.beside = self._next, self.lists, self.beside
        made.had_json, made.had_others = self.had_json, self.had_others
        began = {int(number_of[number]): events for number, events in self._began.items()}
        for place, text in list(self._examples.items()):
            number, state = divmod(place, STATES)
            if number < len(number_of) and number_of[number] >= 0:
                made._examples[int(number_of[number]) * STATES + state] = text
        made._began = {number: events for number, events in began.items() if number >= 0}
        counts = self.counts(len(number_of))
        made._have_room(int(number_of.max(initial=0)))
        for number in np.flatnonzero(self._kept[: len(number_of)]).tolist():
            if number_of[number] >= 0:
                made.keep(np.bincount([number_of[number]], [self._kept[number]]).astype(np.int64))
        for number, counted in self._kept_inside.items():
            if number < len(number_of) and number_of[number] >= 0:
                made.keep_inside(int(number_of[number]), counted)
        kept = number_of >= 0
        made._counts.reshape(-1, STATES)[number_of[kept]] = counts[kept]
        return made

    # Names

    @property
    def is_curious(self) -> bool:
        """Whether the names of some more events should be looked at."""
        return self.events >= self._next and len(self.names) < NAMES_MAX

    def look(self, names: Iterable[str], lists: Iterable[str] = ()) -> None:
        """Remember the names of an event, or of a table, and which of them are lists."""
        self._next = self.events + self.events // 4 + 1
        names, lists = list(names), set(lists)
        if lists:
            self.beside |= lists & _records_of(names)
        for name in names:
            if len(self.names) >= NAMES_MAX:
                return
            # Names that no filter mentions have not been checked.
            if len(name) <= NAME_LENGTH_MAX:
                self.names[name] = None
        for name in lists:
            if outermost(name) in self.names and len(self.lists) < NAMES_MAX:
                self.lists[name] = None

    def look_at_lines(self, lines: bytes | bytearray | memoryview) -> None:
        """Remember the names in a few JSON lines."""
        self.had_json = True
        if self.is_curious:
            for event in _events_in_lines(bytes(lines[:_LINE_BYTES])):
                self.look(names_in(event), lists_in(event))

    def look_at_packed(self, data: Any, offsets: Any) -> None:
        """Remember the names of a few packed events, which have been checked."""
        self.had_others = True
        if self.is_curious:
            ends = [int(end) for end in offsets[: _LOOKED_AT + 1]]
            view = memoryview(data)
            for begin, stop in pairwise(ends):
                event = decode_event(view[begin:stop].tobytes())
                self.look(event, lists_in(event))

    def look_at_columns(self, schema: "pa.Schema") -> None:
        """Remember the names of a table's columns."""
        self.had_others = True
        if self.is_curious:
            lists = (place for name, kind in _leaves_of(schema, "", 0) for place in _lists_of(name, kind, 0))
            self.look((name for name, _kind in _leaves_of(schema, "", 0)), lists)

    def looking(self, events: Iterable[Any]) -> Iterator[Any]:
        """The events themselves, the names of the first remembered on the way."""
        is_curious = self.is_curious
        for at, event in enumerate(events):
            self.had_others = True
            if is_curious and at < _LOOKED_AT and isinstance(event, Mapping):
                self.look(names_in(event), lists_in(event))
            yield event


_LINE_BYTES: Final = 16_384
"""Of JSON lines whose names are looked at."""


def _records_of(names: Iterable[str]) -> set[str]:
    """What the names would be attributes of, if dots stand for records."""
    found = set()
    for name in names:
        dot = name.find(".")
        while dot >= 0:
            found.add(name[:dot])
            dot = name.find(".", dot + 1)
    return found


def _events_in_lines(lines: bytes) -> Iterator[Mapping[str, object]]:
    for line in lines.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]:
        try:
            yield decode_object(line.strip())
        except PenstockError:
            # The last may be cut; what is wrong in others is for the reader to say.
            continue


def _leaves_of(fields: Any, prefix: str, depth: int) -> "Iterator[tuple[str, pa.DataType]]":
    import pyarrow as pa

    for field in fields:
        kind = plain_type(field.type)
        if pa.types.is_struct(kind) and depth < NESTING_MAX:
            yield from _leaves_of(kind, f"{prefix}{field.name}.", depth + 1)
        else:
            yield prefix + field.name, kind


def _lists_of(name: str, kind: "pa.DataType", depth: int) -> Iterator[str]:
    """The places of lists: a column that is one, and those in its elements."""
    import pyarrow as pa

    if is_arrow_list(kind):
        yield name
        of_elements = plain_type(kind.value_type)
        if depth < NESTING_MAX and pa.types.is_struct(of_elements):
            for inner, of_inner in _leaves_of(of_elements, f"{name}[].", depth + 1):
                yield from _lists_of(inner, of_inner, depth + 1)
        elif depth < NESTING_MAX:
            yield from _lists_of(f"{name}[]", of_elements, depth + 1)
