"""What the rules of a table and the columns of events disagree about, before a job runs.

A DataFrame has a schema, so nothing has to be counted in tasks: a rule on a column that is not there, or on
one of another family, never matches. What all rules ask for is looked at first; rules are looked into one by
one only where there is something to say.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import UnsupportedValueError, printable
from penstock.filters.disagreements import Disagreement, refuse
from penstock.matching.arrival import is_interpreting
from penstock.matching.computed import is_computed
from penstock.model.arrow import SKIP_HINT
from penstock.model.events import Unsupported, is_skip
from penstock.model.places import ELEMENT, written
from penstock.model.schema import Attribute, Schema
from penstock.model.values import Family
from penstock.spark.events import attributes_of
from penstock.spark.rules import load_block

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from penstock.matching.matcher import Matcher
    from penstock.spark.tables import Table

_log: Final = logging.getLogger("penstock.spark")


def schema_of(columns: "StructType") -> Schema:
    """The schema of events with such columns; columns that no rule can match are there, without a family."""
    found = {name: Attribute(frozenset(), kind) for name, kind in _leaves(columns, "")}
    for attribute in attributes_of(columns, "skip"):
        kind = attribute.type
        elements = _elements(kind) if attribute.family is Family.LIST else None
        found[attribute.name] = Attribute(
            frozenset({attribute.family}), kind.simpleString(), elements=elements
        )
    return Schema(found)


def _elements(array: "DataType") -> Schema | None:
    """What the elements of an array are, looked at as events."""
    from pyspark.sql.types import NullType, StructField, StructType

    inner = array.elementType  # type: ignore[attr-defined]
    if isinstance(inner, NullType):
        return None
    return schema_of(inner if isinstance(inner, StructType) else StructType([StructField(ELEMENT, inner)]))


def _leaves(columns: "StructType", prefix: str) -> Iterator[tuple[str, str]]:
    for field in columns.fields:
        kind = type(field.dataType).__name__
        if kind == "StructType":
            yield from _leaves(field.dataType, f"{prefix}{field.name}.")  # type: ignore[arg-type]
        else:
            yield prefix + field.name, field.dataType.simpleString()


def disagreements(table: "Table", columns: "StructType") -> list[Disagreement]:
    """What the rules of a table and the columns of events disagree about, in the order of attributes."""
    schema = schema_of(columns).reading_times(table.times)
    matchers = [load_block(folder) for folder in table.folders]
    merged: dict[tuple[str, str], Disagreement] = {}
    texts = _kept_texts(table, schema)
    # Compiled tables are looked at by columns. While there are none, rules are few.
    if not (texts or is_interpreting()) and _fit(table, schema, matchers):
        return []
    for matcher in matchers:
        for one in matcher.check(schema, basis="columns"):
            if one.attribute in texts and Family.TIME.label in one.asked:
                one = msgspec.structs.replace(one, problem="texts")
            key = one.attribute, one.problem
            merged[key] = merged[key].together(one) if key in merged else one
    for name in texts - {one.attribute for one in merged.values() if one.problem == "texts"}:
        # Rules that compare it with both: none of them is in vain altogether.
        merged[name, "texts"] = Disagreement(
            name, "texts", ("time", "string"), {"string": 0}, 0, (), basis="columns"
        )
    return [merged[key] for key in sorted(merged)]


def _kept_texts(table: "Table", schema: Schema) -> set[str]:
    """Columns of text that are not read as times, because rules compare them with strings, too."""
    asked = table.asked
    both = set(asked.times).intersection(asked.strings)
    return {
        written(place)
        for place, attribute in schema.places()
        if place in both and Family.STRING in attribute.families
    }


def _fit(table: "Table", schema: Schema, matchers: "list[Matcher]") -> bool:
    """Whether all attributes are there, and no rule compares one with another family."""
    from penstock.matching.reading import families_asked

    if any(name not in schema.attributes or not schema.attributes[name].is_matchable for name in table.names):
        return False
    asked: set[tuple[str, Family]] = set()
    if any(is_computed(name) for matcher in matchers for one in matcher.tables() for name in one.names):
        # Rules may ask for what elements of lists have.
        return False
    for matcher in matchers:
        for some in families_asked(matcher.tables()):
            asked |= some
            if any(family not in schema.attributes[name].families for name, family in asked):
                return False
    return True


def report(table: "Table", columns: "StructType", *, strict: bool, unsupported: Unsupported = "skip") -> None:
    """Log each disagreement as a warning; with `strict` raise DisagreementError.

    A field that no rule can match is refused where a rule names it, unless it is to be left out.
    """
    found = disagreements(table, columns)
    odd = None if is_skip(unsupported) else next((one for one in found if one.problem == "unmatchable"), None)
    if odd is not None:
        raise UnsupportedValueError(f"{odd} ({SKIP_HINT})")
    if strict:
        refuse(found)
    for one in found:
        _log.warning("%s", printable(str(one)))
