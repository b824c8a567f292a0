"""Events held against a schema, every one and all of it: what `penstock match --schema --strict` does.

Unlike counting what filters name (`penstock.matching.observed`), this looks at each value of each event.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.model.arrow import (
    column_values,
    elements_of,
    family_of_arrow,
    rows_of_elements,
)
from penstock.model.arrow_layouts import is_arrow_list, plain, without_views
from penstock.model.events import is_list
from penstock.model.limits import NESTING_MAX
from penstock.model.places import ELEMENT, written
from penstock.model.schema import Attribute, Schema, value_text
from penstock.model.values import Family, family_of, time_in, to_value

if TYPE_CHECKING:
    import pyarrow as pa

_EVERY = frozenset(Family)

_SHOWN: Final = 80
"""Characters of a value that are kept as an example."""


class Fitting:
    """Shown all events; counts what does not fit."""

    def __init__(self, schema: Schema, families: Mapping[str, Family] | None = None) -> None:
        """`families`: attributes that are read as these, whatever they are."""
        self.schema = schema
        self._families = families or {}
        self._found: Counter[tuple[str, str]] = Counter()
        self._unlisted: Counter[tuple[str, str]] = Counter()
        """Values that an attribute may not have, by name and family."""
        self._examples: dict[tuple[str, str], str] = {}

    def see(self, event: Mapping[str, object]) -> None:
        """Hold a decoded event, which may be nested, against the schema."""
        self._see(event, self.schema, ())

    def _see(self, event: Mapping[str, object], schema: Schema, lists: tuple[str, ...]) -> None:
        """Hold an event, or an element of a list, against what the schema says of it."""
        attributes = schema.attributes
        for name, value in _leaves(event, "", len(lists)):
            attribute = attributes.get(name)
            place = written((*lists, name))
            if attribute is not None and (
                value is None or (_takes_anything(attribute) and attribute.values is None)
            ):
                continue
            if attribute is None:
                # An empty record, or null in its place, is none of its attributes.
                if schema.is_open or (value is None and _is_record(name, schema)):
                    continue
                self._found[place, "null" if value is None else _label(value)] += 1
                continue
            given = None if lists else self._families.get(name)
            label = _label(value) if given is None else given.label
            if not _fits(label, value, attribute):
                self._found[place, label] += 1
            elif given is not None and given is not Family.TIME:
                continue
            elif attribute.elements is not None and is_list(value):
                for element in value if len(lists) < NESTING_MAX else ():
                    # Null is no element.
                    if element is not None:
                        inner = element if isinstance(element, Mapping) else {ELEMENT: element}
                        self._see(inner, attribute.elements, (*lists, name))
                continue
            elif _is_listed(value, attribute):
                continue
            else:
                self._unlisted[place, label] += 1
            self._keep(place, label, value)

    def see_rows(self, rows: "pa.RecordBatch", families: Mapping[str, Family]) -> None:
        """Hold the rows of a table against the schema; `families`: columns of text that are read as these."""
        self._see_rows(rows, families, self.schema, ())

    def _see_rows(
        self,
        rows: "pa.RecordBatch",
        families: Mapping[str, Family],
        schema: Schema,
        lists: tuple[str, ...],
    ) -> None:
        """Hold rows, or the elements of lists, against what the schema says of them."""
        attributes = schema.attributes
        for name, array in _columns(rows, ""):
            count = len(array) - array.null_count
            attribute = attributes.get(name)
            place = written((*lists, name))
            if (
                attribute is not None
                and attribute.values is not None
                and families.get(name) in (None, Family.TIME)
            ):
                self._see_values(place, array, attribute, families.get(name))
            if not count or (schema.is_open if attribute is None else _takes_anything(attribute)):
                continue
            family = families.get(name) or family_of_arrow(array.type)
            label = str(array.type) if family is None else family.label
            if attribute is not None:
                if family in attribute.families:
                    if attribute.elements is not None and is_arrow_list(array.type):
                        elements = rows_of_elements(elements_of(array)[0], ELEMENT)
                        self._see_rows(elements, {}, attribute.elements, (*lists, name))
                    continue
                if family is Family.STRING and Family.TIME in attribute.families:
                    count -= _times_among(array)
            if count:
                self._found[place, label] += count
                if (place, label) not in self._examples:
                    is_time = attribute is not None and Family.TIME in attribute.families
                    self._examples[place, label] = _example_among(array, times=is_time)

    def _see_values(self, place: str, array: "pa.Array", attribute: Attribute, given: Family | None) -> None:
        """Count the values of a column that the schema does not list; `given`: the family it is read as."""
        family = family_of_arrow(array.type)
        is_text_of_times = family is Family.STRING and Family.TIME in attribute.families
        if family is None or family is Family.LIST:
            return
        if family not in attribute.families and not is_text_of_times:
            return
        label = (given or family).label
        counts = without_views(array).value_counts()
        for value, count in zip(column_values(counts.field(0)), counts.field(1).to_pylist(), strict=True):
            if value is not None and not _is_listed(value, attribute):
                self._unlisted[place, label] += count
                self._keep(place, label, value)

    def _keep(self, place: str, label: str, value: object) -> None:
        if (place, label) not in self._examples:
            self._examples[place, label] = _shown(value)

    def take(self, other: "Fitting") -> None:
        """Add what another has counted."""
        self._found.update(other._found)
        self._unlisted.update(other._unlisted)
        self._examples = {**other._examples, **self._examples}

    def another(self) -> "Fitting":
        """One that has not seen any event, to be taken in later."""
        return Fitting(self.schema, self._families)

    def misfits(self) -> list[tuple[str, dict[str, int]]]:
        """The attributes that do not fit, in the order of names; what families events have, and how often."""
        return _by_name(self._found)

    def unlisted_values(self) -> list[tuple[str, dict[str, int]]]:
        """The same of values of the right family that are none of those that the schema lists."""
        return _by_name(self._unlisted)

    def example(self, name: str, label: str) -> str:
        """A value of an attribute in this family, as text; empty where none was kept."""
        return self._examples.get((name, label), "")


def _is_record(name: str, schema: Schema) -> bool:
    return any(known.startswith(name + ".") for known in schema.attributes)


def _by_name(found: Counter[tuple[str, str]]) -> list[tuple[str, dict[str, int]]]:
    by_name: dict[str, dict[str, int]] = {}
    for (name, label), count in sorted(found.items()):
        by_name.setdefault(name, {})[label] = count
    return list(by_name.items())


def _is_listed(value: object, attribute: Attribute) -> bool:
    """Whether a schema lists a value, or lists none, or it is no value that the model has."""
    if attribute.values is None or isinstance(value, PenstockError):
        return True
    try:
        return attribute.lists(to_value(value))
    except PenstockError:
        # A list, or what is left out, and counted as that.
        return True


def _shown(value: object) -> str:
    text = value_text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _example_among(array: "pa.Array", *, times: bool) -> str:
    """The first value of a column, with `times` the first that is no time."""
    for value in array.drop_null():
        try:
            given = value.as_py()
        except (ValueError, OverflowError):
            continue  # Python has no such time.
        if not (times and isinstance(given, str) and time_in(given) is not None):
            return _shown(given)
    return ""


def _takes_anything(attribute: Attribute) -> bool:
    # Of types that no rule can match, it makes no difference to rules which it is.
    return not attribute.families or attribute.families >= _EVERY


def _fits(label: str, value: object, attribute: Attribute) -> bool:
    families = attribute.families
    if label in {family.label for family in families} or (label == "list" and "array" in attribute.others):
        return True
    return Family.TIME in families and isinstance(value, str) and time_in(value) is not None


def _label(value: object) -> str:
    try:
        return family_of(to_value(value)).label
    except PenstockError:
        if isinstance(value, int):
            return Family.NUMBER.label
        return "list" if isinstance(value, list | tuple) else type(value).__name__


def _leaves(event: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for key, value in event.items():
        name = prefix + key
        if isinstance(value, Mapping) and depth < NESTING_MAX:
            if value:
                yield from _leaves(value, name + ".", depth + 1)
            else:
                yield name, None
        else:
            yield name, value


def _columns(rows: "pa.RecordBatch | pa.StructArray", prefix: str) -> "Iterator[tuple[str, pa.Array]]":
    import pyarrow as pa

    is_batch = isinstance(rows, pa.RecordBatch)
    fields, arrays = (rows.schema, rows.columns) if is_batch else (rows.type, rows.flatten())
    for field, array in zip(fields, map(plain, arrays), strict=True):
        if pa.types.is_struct(array.type):
            yield from _columns(array, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, array


def _times_among(array: "pa.Array") -> int:
    """How many texts of a column are times."""
    import pyarrow.compute as pc

    plain = without_views(array)
    counts = pc.value_counts(plain)
    texts = column_values(counts.field(0))
    numbers = counts.field(1).to_pylist()
    return sum(
        number
        for text, number in zip(texts, numbers, strict=True)
        if isinstance(text, str) and time_in(text) is not None
    )
