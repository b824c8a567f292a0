"""Events held against a schema, every one and all of it: what `penstock match --schema --strict` does.

Unlike counting what filters name (`penstock.matching.observed`), this looks at each value of each event.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.model.arrow import (
    column_values,
    elements_of,
    family_of_arrow,
    is_arrow_list,
    rows_of_elements,
    without_views,
)
from penstock.model.events import is_list
from penstock.model.limits import NESTING_MAX
from penstock.model.places import ELEMENT, written
from penstock.model.schema import Attribute, Schema
from penstock.model.values import Family, family_of, time_in, to_value

if TYPE_CHECKING:
    import pyarrow as pa

_EVERY = frozenset(Family)


class Fitting:
    """Shown all events; counts what does not fit."""

    def __init__(self, schema: Schema, families: Mapping[str, Family] | None = None) -> None:
        """`families`: attributes that are read as these, whatever they are."""
        self.schema = schema
        self._families = families or {}
        self._found: Counter[tuple[str, str]] = Counter()

    def see(self, event: Mapping[str, object]) -> None:
        """Hold a decoded event, which may be nested, against the schema."""
        self._see(event, self.schema, ())

    def _see(self, event: Mapping[str, object], schema: Schema, lists: tuple[str, ...]) -> None:
        """Hold an event, or an element of a list, against what the schema says of it."""
        attributes = schema.attributes
        for name, value in _leaves(event, "", len(lists)):
            attribute = attributes.get(name)
            place = written((*lists, name))
            if attribute is not None and (value is None or _takes_anything(attribute)):
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
            elif attribute.elements is not None and given is None and is_list(value):
                for element in value if len(lists) < NESTING_MAX else ():
                    # Null is no element.
                    if element is not None:
                        inner = element if isinstance(element, Mapping) else {ELEMENT: element}
                        self._see(inner, attribute.elements, (*lists, name))

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
                self._found[written((*lists, name)), label] += count

    def take(self, other: "Fitting") -> None:
        """Add what another has counted."""
        self._found.update(other._found)

    def another(self) -> "Fitting":
        """One that has not seen any event, to be taken in later."""
        return Fitting(self.schema, self._families)

    def misfits(self) -> list[tuple[str, dict[str, int]]]:
        """The attributes that do not fit, in the order of names; what families events have, and how often."""
        by_name: dict[str, dict[str, int]] = {}
        for (name, label), count in sorted(self._found.items()):
            by_name.setdefault(name, {})[label] = count
        return list(by_name.items())


def _is_record(name: str, schema: Schema) -> bool:
    return any(known.startswith(name + ".") for known in schema.attributes)


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
    for field, array in zip(fields, arrays, strict=True):
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
