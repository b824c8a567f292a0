"""Rules, and events, held against a schema (`penstock.filters.disagreements`): of attributes, and of what
elements of lists have.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from penstock.filters.asked import Kind, Lists, conditions_inside, kinds_in
from penstock.filters.disagreements import (
    Basis,
    Disagreement,
    Problem,
    Rules,
    in_lists,
    is_in_vain,
    suggestion,
)
from penstock.filters.filter import Filter
from penstock.filters.valuesets import Presence
from penstock.model.fitting import Fitting
from penstock.model.names import Id
from penstock.model.places import place_above, written
from penstock.model.schema import Attribute, Schema
from penstock.model.values import Family

_VALUES_SHOWN: Final = 200
"""Characters shown of the values that a schema lists."""


class SchemaCheck:
    """Rules held against a schema, one by one; what fits costs a look into a dict for each condition."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._rules = Rules()

    def see(self, key: Id, filters: Collection[Filter]) -> None:
        """Hold the alternatives of a rule against the schema."""
        for name, kinds in kinds_in(filters).items():
            problem = problem_by(self._schema, name, kinds)
            if problem is not None:
                self._rules.add(name, problem, kinds, key)
        for (lists, name, problem), kinds in problems_inside(filters, self._schema).items():
            self._rules.within(lists).add(name, problem, kinds, key)

    def report(self) -> list[Disagreement]:
        """What does not fit, in the order of attributes."""
        return report_by(self._schema, self._rules)


def problem_by(schema: Schema, name: str, kinds: set[Kind]) -> Problem | None:
    """What is wrong, by a schema, with a rule that asks for this."""
    attribute = schema.attributes.get(name)
    if attribute is None:
        return None if schema.is_open else "unknown"
    if not attribute.is_matchable:
        return None if kinds == {Presence.ABSENT} else "unmatchable"
    return "family" if is_in_vain(kinds, attribute.families) else None


def report_by(
    schema: Schema, rules: Rules, basis: Basis = "schema", pace: Callable[[], object] = lambda: None
) -> list[Disagreement]:
    """What rules and a schema disagree about; `basis` says where the schema is from."""
    known = schema.attributes
    attributes = {name: known[name] for name, _problem in rules.problems if name in known}
    found = rules.report(
        known,
        basis=basis,
        seen={name: {family.label: 0 for family in sorted(one.families)} for name, one in attributes.items()},
        detail={name: one.type for name, one in attributes.items()},
        pace=pace,
        lists={written(place) for place, one in schema.places() if Family.LIST in one.families}
        if rules
        else (),
    )
    for lists, some in rules.inside.items():
        elements = elements_at(schema, lists)
        if elements is not None:
            inner = report_by(elements, some, basis, pace)
            found += [in_lists(lists, one, elements.attributes) for one in inner]
    return sorted(found, key=lambda one: (one.attribute, one.problem)) if rules.inside else found


def elements_at(schema: Schema | None, lists: Lists) -> Schema | None:
    """What a schema says of the elements of a list; None where it says nothing."""
    for name in lists:
        attribute = None if schema is None else schema.attributes.get(name)
        schema = None if attribute is None else attribute.elements
    return schema


def problems_inside(filters: Iterable[Filter], schema: Schema) -> dict[tuple[Lists, str, Problem], set[Kind]]:
    """What is wrong, by a schema, with what some alternatives ask of elements."""
    found: dict[tuple[Lists, str, Problem], set[Kind]] = {}
    for lists, asked in conditions_inside(filters):
        for name, kinds in asked.items():
            problem = problem_inside(schema, lists, name, kinds)
            if problem is not None:
                found.setdefault((lists, name, problem), set()).update(kinds)
    return found


def problem_inside(schema: Schema, lists: Lists, name: str, kinds: set[Kind]) -> Problem | None:
    """What is wrong, by a schema, with a condition that asks elements for this."""
    elements = elements_at(schema, lists)
    return None if elements is None else problem_by(elements, name, kinds)


def check_inside(schema: Schema, lists: Lists, name: str, kinds: Collection[Kind]) -> Disagreement | None:
    """What a schema and a condition that asks elements for this disagree about."""
    problem = problem_inside(schema, lists, name, set(kinds))
    if problem is None:
        return None
    rules = Rules()
    rules.within(lists).add_many(name, problem, kinds, (), 1)
    return report_by(schema, rules)[0]


def check(filters: Collection[Filter], schema: Schema) -> list[Disagreement]:
    """What the alternatives of one rule and a schema disagree about, in the order of attributes."""
    return report_by(schema, _problems(filters, schema))


def events_that_misfit(
    fitting: Fitting, events: int, concerned: Mapping[str, Disagreement] | None = None
) -> list[Disagreement]:
    """What all of so many events have that a schema does not allow, in the order of attributes.

    `concerned`: by attribute, misfits that were found otherwise, and the rules that they concern.
    """
    attributes = {written(place): one for place, one in fitting.schema.places()}
    rules = concerned or {}
    nobody = Disagreement("", "misfit", (), {}, 0, ())
    unlisted = [
        msgspec.structs.replace(
            rules.get(name, nobody),
            attribute=name,
            problem="value",
            seen=seen,
            events=events,
            detail=listed_by(attributes[name]),
            example=fitting.example(name, next(iter(seen))),
        )
        for name, seen in fitting.unlisted_values()
    ]
    return unlisted + [
        msgspec.structs.replace(
            rules.get(name, nobody),
            attribute=name,
            seen=seen,
            events=events,
            detail=attributes[name].type,
            example=fitting.example(name, next(iter(seen))),
        )
        if name in attributes
        else Disagreement(
            name, "unlisted", (), seen, 0, (), events=events, suggestion=_meant(name, attributes)
        )
        for name, seen in fitting.misfits()
    ]


def _meant(name: str, names: Collection[str]) -> str | None:
    """The place that was perhaps meant: one in the same list, whose own name is much alike."""
    above = place_above(name)
    own = {known.removeprefix(above): known for known in names if place_above(known) == above}
    meant = suggestion(name.removeprefix(above), own)
    return None if meant is None else own[meant]


def listed_by(attribute: Attribute) -> str:
    """The values that a schema lists, as messages show them."""
    shown = ", ".join(attribute.listed())
    return shown if len(shown) <= _VALUES_SHOWN else f"{shown[:_VALUES_SHOWN]}…"


def why_not(
    filters: Collection[Filter], schema: Schema, pace: Callable[[], object] = lambda: None
) -> str | None:
    """What is wrong with one rule, by a schema: the first thing only; or None.

    Names are compared with those of the schema at most once, so that a stranger may send the rule. With a
    large schema that takes milliseconds: `pace` is called every now and then.
    """
    found = _problems(filters, schema, most=1)
    return str(report_by(schema, found, pace=pace)[0]) if found else None


def _problems(filters: Collection[Filter], schema: Schema, most: int | None = None) -> Rules:
    rules = Rules()
    left = most
    for name, kinds in sorted(kinds_in(filters).items()):
        problem = problem_by(schema, name, kinds)
        if problem is not None and left != 0:
            rules.add_many(name, problem, kinds, (), 1)
            left = None if left is None else left - 1
    for (lists, name, problem), kinds in problems_inside(filters, schema).items():
        if left != 0:
            rules.within(lists).add_many(name, problem, kinds, (), 1)
            left = None if left is None else left - 1
    return rules
