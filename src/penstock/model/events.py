"""The event: a set of named attributes, each with a value of some family.

Nested objects are flattened with dots, and null is absence. So `{"a": null}`, `{"a": {}}` and `{}` are the
same event: one without attributes. What has no family (bytes) is refused, or skipped when the
caller says so; it is never turned into something else.

A list is a value: a tuple of its elements. Objects in it are records, which are events themselves. Null is no
element, and a list without elements is absence.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from operator import is_
from typing import TYPE_CHECKING, Final, Literal, TypeGuard

import msgspec

from penstock.errors import EventError, LimitError, UnsupportedValueError
from penstock.model.decimals import ExactDecimal, write_number
from penstock.model.limits import ATTRIBUTES_MAX, ELEMENTS_MAX, NESTING_MAX, SKIPPED_NAMES_MAX
from penstock.model.names import check_name
from penstock.model.nesting import nest
from penstock.model.places import ELEMENT, Place, split
from penstock.model.values import Family, List, Time, Value, family_of, is_null, time_in, to_value

if TYPE_CHECKING:
    import pyarrow as pa


class Skipping:
    """What to pass as `unsupported` to leave values out as "skip" does, and to know which.

    For each attribute it counts the values that were left out, and keeps the reason for the first.
    """

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        """`lock`: where several threads share it."""
        self._lock = nullcontext() if lock is None else lock
        self._found: dict[str, tuple[int, str]] = {}

    def note(self, name: str, why: str, count: int = 1) -> None:
        """Take note of values of an attribute that are left out."""
        with self._lock:
            known = self._found.get(name)
            if known is not None:
                self._found[name] = known[0] + count, known[1]
            elif len(self._found) < SKIPPED_NAMES_MAX:
                self._found[name] = count, why

    def count(self, name: str) -> int:
        """How many values of the attribute were left out."""
        return self._found.get(name, (0, ""))[0]

    def counts(self) -> dict[str, tuple[int, str]]:
        """By attribute: how many values were left out, and why the first was."""
        with self._lock:
            return dict(self._found)

    def detail(self, name: str) -> str:
        """Why the first of them was left out."""
        return self._found.get(name, (0, ""))[1]


class _SkippingInside(Skipping):
    """The same for the elements of a list, which are called by their places."""

    def __init__(self, outer: Skipping, name: str) -> None:
        super().__init__()
        self._outer, self._name = outer, name

    def note(self, name: str, why: str, count: int = 1) -> None:
        """See Skipping."""
        joint = "." if name and not name.startswith("[]") else ""
        self._outer.note(f"{self._name}[]{joint}{name}", why, count)


def skipping_inside(unsupported: "Unsupported", name: str) -> "Unsupported":
    """What to do with values in the elements of a list."""
    return _SkippingInside(unsupported, name) if isinstance(unsupported, Skipping) else unsupported


Unsupported = Literal["refuse", "skip"] | Skipping
"""What to do with a value that has no family: raise an error, or leave the attribute out (and count it)."""

_SKIP_HINT: Final = "unsupported='skip' leaves it out"
_SCALARS: Final = frozenset({str, int, float, bool, Time, ExactDecimal})
_LISTS: Final = (list, tuple, set, frozenset)


class Event(Mapping[str, Value]):
    """An event: a read-only mapping from attribute names to values.

    `attributes` is the flat dict itself, to read and not to change. Two events are equal when they have
    the same attributes, of the same families and with the same values (2 equals 2.0; True does not equal
    1; a NaN stands for itself).
    """

    __slots__ = ("attributes",)

    attributes: dict[str, Value]

    def __init__(self, attributes: Mapping[str, object], *, unsupported: Unsupported = "refuse") -> None:
        self.attributes = flatten(attributes, unsupported)

    @classmethod
    def from_json(cls, text: str | bytes, *, unsupported: Unsupported = "refuse") -> "Event":
        """Read one JSON object. JSON has no times: `with_family` turns text into them."""
        return cls(decode_object(text), unsupported=unsupported)

    @staticmethod
    def from_arrow(
        rows: "pa.Table | pa.RecordBatch", *, unsupported: Unsupported = "refuse"
    ) -> "Iterator[Event]":
        """Yield an event for each row of a table; nulls are absent attributes."""
        from penstock.model.arrow import events_from_arrow

        return events_from_arrow(rows, unsupported=unsupported)

    @classmethod
    def from_flat(cls, attributes: dict[str, Value]) -> "Event":
        """Wrap attributes that are known to be flat and valid, without checking or copying them."""
        event = cls.__new__(cls)
        event.attributes = attributes
        return event

    def with_family(
        self, families: Mapping[str, Family | str], *, unsupported: Unsupported = "refuse"
    ) -> "Event":
        """Return the event with the named attributes read as the given families, where present.

        A family may be given by its name: `event.with_family({"at": "time"})`. Text is parsed
        (`"2013-01-31T05:00:00Z"` as a time, `"7"` as a number, `"true"` as a bool), and anything becomes
        text; what cannot be read so is refused or left out.
        """
        return Event.from_flat(read_families(self.attributes, families, unsupported))

    def nested(self) -> dict[str, object]:
        """The attributes as nested dicts and lists: `order.price` is under `["order"]["price"]`.

        A dot stays in the name where it could not be read back: below a name that has a value itself, and
        beside an empty segment.
        """
        return nest(self.attributes)

    def __getitem__(self, name: str) -> Value:
        return self.attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> frozenset[tuple[str, Family, object]]:
        items = self.attributes.items()
        return frozenset((name, *_value_key(value)) for name, value in items)

    def __reduce__(self) -> tuple[object, ...]:
        return Event.from_flat, (self.attributes,)

    def __repr__(self) -> str:
        return f"Event({self.attributes!r})"


def _value_key(value: Value) -> tuple[Family, object]:
    """What tells values apart: of one family, and alike."""
    if type(value) is tuple:
        return Family.LIST, tuple(each if isinstance(each, Event) else _value_key(each) for each in value)
    return family_of(value), value if value == value else "nan"


_JSON: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder()
_JSON_LIST: Final = msgspec.json.Decoder(list[object])
_DIGITS_READ: Final = 400
"""Of longer integers: any number of hundreds of digits is refused alike."""


def as_event(given: "Event | Mapping[str, object]", unsupported: Unsupported = "refuse") -> Event:
    """Take an event, or the mapping that one can be made of."""
    return given if isinstance(given, Event) else Event(given, unsupported=unsupported)


def decode_object(text: str | bytes) -> dict[str, object]:
    """Decode JSON text that is an object; of a key that is there twice, the last counts."""
    try:
        decoded = _JSON.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        decoded = _with_long_integers(text) if "Integer value out of range" in str(error) else None
        if decoded is None:
            raise EventError(f"not a JSON object: {error}") from None
    except RecursionError:
        raise LimitError("objects nest too deep in a JSON text", "NESTING_MAX", NESTING_MAX) from None
    if not isinstance(decoded, dict):
        raise EventError(f"an event is a JSON object, not {_json_name(decoded)}")
    return decoded


def _with_long_integers(text: str | bytes) -> object:
    """What a JSON text says that has integers of more digits than the decoder reads; None if it is no JSON.

    Nobody can match such an integer, but other attributes of the event. It becomes one of hundreds of digits,
    which is refused, or left out, where it is named.
    """
    try:
        return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite)
    except ValueError:
        return None


def _integer(text: str) -> int:
    return int(text[:_DIGITS_READ])


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def decode_list(text: str | bytes) -> list[object]:
    """Decode JSON text that is an array."""
    try:
        return _JSON_LIST.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise EventError(f"not a JSON array: {error}") from None


def flatten(attributes: Mapping[str, object], unsupported: Unsupported = "refuse") -> dict[str, Value]:
    """The attributes with those of nested objects under dotted names, nulls left out, every value checked."""
    flat: dict[str, Value] = {}
    is_skip(unsupported)
    _flatten(attributes, "", flat, unsupported, 0)
    return flat


def is_skip(unsupported: Unsupported) -> bool:
    """Whether values without a family are to be left out."""
    if isinstance(unsupported, Skipping):
        return True
    if unsupported not in ("refuse", "skip"):
        raise EventError(f"unsupported={unsupported!r}: say 'refuse' or 'skip'")
    return unsupported == "skip"


def note_skipped(unsupported: Unsupported, name: str, why: object, count: int = 1) -> None:
    """Take note of values that are left out, where somebody counts them."""
    if isinstance(unsupported, Skipping):
        unsupported.note(name, str(why), count)


def _flatten(
    attributes: Mapping[str, object],
    prefix: str,
    flat: dict[str, Value],
    unsupported: Unsupported,
    depth: int,
    above: str = "",
) -> None:
    """Put the attributes into `flat`, those of nested objects under dotted names; `above`: for messages, what
    stands before the names of an element."""
    if not isinstance(attributes, Mapping):
        raise EventError(f"an event is a mapping of names to values, not {type(attributes).__name__}")
    if depth > NESTING_MAX:
        raise LimitError(f"objects nest too deep at {prefix[:60]!r}", "NESTING_MAX", NESTING_MAX)
    for name, value in attributes.items():
        path = prefix + check_name(name)
        if type(value) not in _SCALARS and isinstance(value, Mapping):
            _flatten(value, path + ".", flat, unsupported, depth + 1, above)
            continue
        accepted = _accepted(value, above + path, unsupported, depth)
        if accepted is None:
            continue
        if prefix:
            check_name(path)
        if path in flat:
            raise EventError(f"{path!r:.80} is there twice, once nested and once with a dotted name")
        flat[path] = accepted
    if len(flat) > ATTRIBUTES_MAX:
        raise LimitError("an event has too many attributes", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)


def _accepted(value: object, path: str, unsupported: Unsupported, depth: int) -> Value | None:
    """A value as the model has it; None for one that is absent, or left out."""
    if type(value) not in _SCALARS:
        if is_null(value):
            return None
        if is_list(value):
            return read_list(value, path, unsupported, depth)
    try:
        return to_value(value)
    except UnsupportedValueError as error:
        if unsupported == "refuse":
            raise UnsupportedValueError(f"{path!r:.80}: {error} ({_SKIP_HINT})") from None
        note_skipped(unsupported, path, error)
        return None


def is_list(value: object) -> TypeGuard[Collection[object]]:
    """Whether a value is read as a list: lists, tuples, sets, and NumPy's arrays of one dimension or more."""
    if isinstance(value, _LISTS):
        return True
    return type(value).__module__ == "numpy" and getattr(value, "ndim", 0) > 0


def read_list(
    values: Collection[object], path: str, unsupported: Unsupported = "refuse", depth: int = 0
) -> List | None:
    """A list as the model has it, or None where it has no element."""
    if depth > NESTING_MAX:
        raise LimitError(f"lists nest too deep at {path[:60]!r}", "NESTING_MAX", NESTING_MAX)
    check_elements(len(values), path)
    elements: list[Value | Event] = []
    for value in values:
        if isinstance(value, Event):
            elements.append(value)
        elif type(value) not in _SCALARS and isinstance(value, Mapping):
            record: dict[str, Value] = {}
            _flatten(value, "", record, unsupported, depth + 1, f"{path}[].")
            elements.append(Event.from_flat(record))
        elif is_list(value):
            inner = read_list(value, f"{path}[]", unsupported, depth + 1)
            if inner is not None:
                elements.append(inner)
        else:
            accepted = _accepted(value, f"{path}[]", unsupported, depth)
            if accepted is not None:
                elements.append(accepted)
    return tuple(elements) or None


def check_elements(count: int, path: str) -> None:
    """Raise when a list has more elements than one may have."""
    if count > ELEMENTS_MAX:
        raise LimitError(f"the list {path[:60]!r} has {count:,} elements", "ELEMENTS_MAX", ELEMENTS_MAX)


def read_families(
    attributes: Mapping[str, Value], families: Mapping[str, Family | str], unsupported: Unsupported
) -> dict[str, Value]:
    """The attributes, those named read as the given families."""
    changed = dict(attributes)
    for name, family in families.items():
        wanted = Family.named(family)
        if name not in changed:
            continue
        try:
            changed[name] = read_as(wanted, changed[name])
        except UnsupportedValueError as error:
            if not is_skip(unsupported):
                raise UnsupportedValueError(f"{name!r:.80}: {error} ({_SKIP_HINT})") from None
            note_skipped(unsupported, name, error)
            del changed[name]
    return changed


def with_times(attributes: Mapping[str, Value], places: Collection[Place]) -> Mapping[str, Value]:
    """The attributes; at these places, texts that can be read as times are times."""
    found: dict[str, Value] = {}
    names, in_lists = split(places)
    for name, inner in in_lists.items():
        elements = attributes.get(name)
        if type(elements) is tuple and (read := list_with_times(elements, inner)) is not elements:
            found[name] = read
    for name in names if len(names) < len(attributes) else attributes:
        value = attributes.get(name)
        if type(value) is str and name in names and (time := time_in(value)) is not None:
            found[name] = time
    return {**attributes, **found} if found else attributes


def list_with_times(elements: List, places: frozenset[Place]) -> List:
    """The same of a list, whose elements have these places; itself where there is no such text."""
    read: list[Value | Event] = []
    for element in elements:
        if isinstance(element, Event):
            attributes = with_times(element.attributes, places)
            same = attributes is element.attributes
            read.append(element if same else Event.from_flat(dict(attributes)))
        else:
            read.append(with_times({ELEMENT: element}, places)[ELEMENT])
    return elements if all(map(is_, read, elements)) else tuple(read)


def read_as(family: Family, value: Value) -> Value:
    """Read a value as one of the given family, or raise UnsupportedValueError."""
    if family_of(value) is family:
        return value
    if family is Family.STRING and type(value) is not tuple:
        if isinstance(value, bool):
            return "true" if value else "false"
        return write_number(value) if isinstance(value, ExactDecimal) else str(value)
    if isinstance(value, str):
        text = value.strip()
        if family is Family.TIME:
            return Time.parse(text)
        if family is Family.BOOL and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if family is Family.NUMBER and _NUMBER.fullmatch(text):
            # Digits are an integer, exactly; anything else is the nearest double, as in JSON.
            if not _NOT_DIGITS.search(text):
                return to_value(int(text))
            if not math.isinf(float(text)) or text[-1:].lower() == "f":
                return float(text)
    raise UnsupportedValueError(f"{value!r:.60} cannot be read as a {family.label}")


_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d{1,400}(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf|nan)", re.ASCII | re.IGNORECASE
)
_NOT_DIGITS: Final = re.compile(r"[^\d+-]", re.ASCII)


def _json_name(decoded: object) -> str:
    names = {type(None): "null", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(decoded), "a number")
