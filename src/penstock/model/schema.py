"""The schema of events: which attributes they may have, and of which families.

    schema = Schema.from_json('{"properties": {"amount": {"type": "number"}}}')
    schema = Schema.from_arrow(table.schema)

A schema is what rules are checked against before any event comes (`penstock.filters.disagreements`), and what
events are checked against. Names are those of flat events: nested objects have dots.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import EventError, LimitError
from penstock.model.decimals import ExactDecimal, write_number
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX
from penstock.model.names import check_name
from penstock.model.places import ELEMENT, Place, inside, split, written
from penstock.model.values import Family, Time, Value, family_of, time_in

if TYPE_CHECKING:
    import pyarrow as pa


NULLS: Final = "nulls"
"""What an attribute may have besides, if some elements of its lists are null."""


class Attribute(msgspec.Struct, frozen=True):
    """What a schema says of one attribute."""

    families: frozenset[Family]
    """The families that its values may have. Empty where no rule can match its type."""
    type: str
    """The type as the schema writes it, for messages."""
    values: tuple[Value, ...] | None = None
    """The values that it may have, where the schema lists them all."""
    others: frozenset[str] = frozenset()
    """Types of JSON that its values may have besides: null, array, object; and NULLS."""
    paths: frozenset[tuple[str, ...]] = frozenset()
    """Where it stands in events, if not where its name says: a key may have a dot."""
    elements: "Schema | None" = None
    """Where it may be a list: what elements are, looked at as events (`penstock.model.places`). None where
    nothing is known of them."""

    def lists(self, value: Value) -> bool:
        """Whether it may have this value, which is of one of its families, or text that may be a time."""
        if self.values is None or type(value) is tuple:
            return True
        # 1 is not true, though equal to it in Python.
        family = family_of(value)
        if any(value == known and family_of(known) is family for known in self.values):
            return True
        if type(value) is not str or Family.TIME not in self.families:
            return False
        time = time_in(value)
        # Text that is no time does not fit, if it may be nothing else.
        return Family.STRING not in self.families if time is None else self.lists(time)

    def listed(self) -> list[str]:
        """The values that it may have, as messages show them."""
        return sorted(map(value_text, self.values or ()))

    @property
    def is_matchable(self) -> bool:
        """Whether a rule can compare it with anything."""
        return bool(self.families)

    def united(self, other: "Attribute") -> "Attribute":
        """An attribute that may be as either says."""
        types = dict.fromkeys((*self.type.split(" or "), *other.type.split(" or ")))
        values = None
        if self.values is not None and other.values is not None:
            # 1 is not true, though equal to it in Python.
            values = tuple(
                {(family_of(value), value): value for value in self.values + other.values}.values()
            )
        return Attribute(
            self.families | other.families,
            " or ".join(types),
            values,
            self.others | other.others,
            self.paths | other.paths,
            _elements_united(self, other),
        )


class Schema(msgspec.Struct, frozen=True):
    """See the module."""

    attributes: dict[str, Attribute]
    is_open: bool = False
    """Whether events may have attributes that are not listed."""

    @classmethod
    def from_json(cls, text: str | bytes | Mapping[str, object]) -> "Schema":
        """Read a JSON Schema; `penstock.model.json_schema` says which part of the language is read."""
        from penstock.model.json_schema import read

        return read(text)

    def to_json(self) -> str:
        """Write the schema as a JSON Schema (2020-12)."""
        from penstock.model.json_schema import write

        return write(self)

    @classmethod
    def from_arrow(cls, schema: "pa.Schema") -> "Schema":
        """Take the columns of an Arrow table; structs are flattened with dots."""
        found: dict[str, Attribute] = {}
        for name, kind in leaves(schema):
            if name in found:
                raise EventError(f"the column {name!r:.80} is there twice")
            if len(found) >= ATTRIBUTES_MAX:
                raise LimitError("there are too many columns", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
            found[name] = _attribute_of_arrow(kind)
        return cls(found)

    @classmethod
    def of_families(cls, families: Mapping[str, frozenset[Family]], *, is_open: bool = False) -> "Schema":
        """A schema of families alone."""
        return cls({name: Attribute(some, labels(some)) for name, some in families.items()}, is_open)

    def united(self, other: "Schema") -> "Schema":
        """A schema of all events that either allows."""
        attributes = dict(self.attributes)
        for name, attribute in other.attributes.items():
            known = attributes.get(name)
            attributes[name] = attribute if known is None else known.united(attribute)
        return Schema(attributes, self.is_open or other.is_open)

    def times(self, names: Iterable[str]) -> dict[str, Family]:
        """Those of the names that can be nothing but times: text there is to be read as one."""
        only = frozenset({Family.TIME})
        known = self.attributes
        return {name: Family.TIME for name in names if name in known and known[name].families == only}

    def places(self) -> Iterator[tuple[Place, Attribute]]:
        """All attributes, and those of the elements of lists, with their places."""
        for name, one in self.attributes.items():
            yield name, one
            if one.elements is not None:
                yield from ((inside(name, place), inner) for place, inner in one.elements.places())

    def reading_times(self, places: Collection[Place]) -> "Schema":
        """The schema of the same events, where texts of these places are read as times if they can be."""
        times = frozenset({Family.TIME})
        names, in_lists = split(places)
        found = dict(self.attributes)
        for name, one in self.attributes.items():
            if name in names and Family.STRING in one.families:
                found[name] = msgspec.structs.replace(one, families=one.families | times)
            if name in in_lists and one.elements is not None:
                elements = one.elements.reading_times(in_lists[name])
                found[name] = msgspec.structs.replace(found[name], elements=elements)
        return Schema(found, self.is_open)

    def misfits(self, event: Mapping[str, Value], above: tuple[str, ...] = ()) -> Iterator[str]:
        """What of a flat event the schema does not allow, a sentence each; `above`: the lists it is in."""
        for name, value in event.items():
            known = self.attributes.get(name)
            place = written((*above, name))
            if known is None:
                if not self.is_open:
                    yield f"the schema has no {place!r:.80}"
            elif family_of(value) not in known.families:
                yield f"{place!r:.80} is a {family_of(value).label}, but in the schema it is {known.type}"
            elif type(value) is tuple and known.elements is not None:
                for element in value:
                    attributes = element if isinstance(element, Mapping) else {ELEMENT: element}
                    yield from known.elements.misfits(attributes, (*above, name))


def value_text(value: object) -> str:
    """A value as messages about schemas show it."""
    if type(value) is ExactDecimal:
        return write_number(value)
    return str(value) if type(value) is Time else repr(value)


def labels(families: frozenset[Family]) -> str:
    """Families in words."""
    return " or ".join(family.label for family in sorted(families)) or "nothing that rules can match"


def leaves(
    fields: "pa.Schema | pa.StructType", prefix: str = "", depth: int = 0
) -> "Iterator[tuple[str, pa.DataType]]":
    """The columns with their types, structs flattened with dots."""
    import pyarrow as pa

    from penstock.model.arrow_layouts import plain_type

    if depth > NESTING_MAX:
        raise LimitError(f"structs nest too deep at {prefix[:60]!r}", "NESTING_MAX", NESTING_MAX)
    for field in fields:
        name = prefix + check_name(field.name)
        kind = plain_type(field.type)
        if pa.types.is_struct(kind):
            yield from leaves(kind, name + ".", depth + 1)
        else:
            yield check_name(name), kind


def _elements_united(one: Attribute, other: Attribute) -> Schema | None:
    """What elements are of lists that either attribute may have."""
    lists = [each.elements for each in (one, other) if Family.LIST in each.families]
    known = [elements for elements in lists if elements is not None]
    if not known or len(known) < len(lists):
        return None
    return known[0] if len(known) == 1 else known[0].united(known[1])


def _attribute_of_arrow(kind: "pa.DataType", depth: int = 0) -> Attribute:
    """What the type of a column says of its values, and of the elements of its lists."""
    import pyarrow as pa

    from penstock.model.arrow_layouts import is_arrow_list, plain_type

    kind = plain_type(kind)
    families = _families_of_arrow(kind)
    if depth > NESTING_MAX or not is_arrow_list(kind) or pa.types.is_null(kind.value_type):
        return Attribute(families, str(kind))
    inner = plain_type(kind.value_type)
    members = list(leaves(inner)) if pa.types.is_struct(inner) else [(ELEMENT, inner)]
    elements = {name: _attribute_of_arrow(member, depth + 1) for name, member in members}
    return Attribute(families, str(kind), elements=Schema(elements) if families else None)


def _families_of_arrow(kind: "pa.DataType") -> frozenset[Family]:
    import pyarrow as pa

    from penstock.model.arrow import family_of_arrow

    if pa.types.is_null(kind):
        # Nothing but nulls: whatever rules ask for, it is never there, and no rule is to blame.
        return frozenset(Family)
    family = family_of_arrow(kind)
    return frozenset() if family is None else frozenset({family})
