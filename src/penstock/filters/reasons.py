"""Why a filter matches an event, or does not: each condition, whether it holds, and what the event has there.

    for alternative in reasons(parse("origin = 'JFK' and dep_delay > 60").filters, event):
        print(alternative)

Conditions are those of the canonical form, which may be fewer than were written: of `x > 1 and x > 2` only
`x > 2` is left.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from penstock.filters import html, lists
from penstock.filters.asked import attributes_in, families_at
from penstock.filters.constraint import Constraint
from penstock.filters.describe import describe_filter, describe_states
from penstock.filters.disagreements import fields_of, of_records, suggestion
from penstock.filters.expression import And, Expression, Or
from penstock.filters.filter import Clause, Filter
from penstock.filters.languages.sql import write_expression, write_name
from penstock.filters.valuesets import Presence, ValueSet
from penstock.model.decimals import ExactDecimal, write_number
from penstock.model.events import Event, Unsupported, as_event, with_times
from penstock.model.names import Id
from penstock.model.nesting import nest_list
from penstock.model.places import Place, in_order, inside, split
from penstock.model.shapes import lists_in
from penstock.model.values import Family, List, Time, Value, family_of, time_in

_VALUE_SHOWN: Final = 80
"""Characters of a value that are shown."""

_RULE_SHOWN: Final = 120
"""Characters shown of what a rule asks for."""

EXCLUDED: Final = "no event can match: its conditions exclude each other"


class Condition(msgspec.Struct, frozen=True):
    """One condition of a filter, and what it finds in an event."""

    text: str
    """The condition in SQL."""
    holds: bool
    found: str
    """What the event has there, in words."""

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no '}  {self.text}  ({self.found})"


class Alternative(msgspec.Struct, frozen=True):
    """One filter of a rule: it matches if all of its conditions hold."""

    filter: Filter
    matches: bool
    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        if not self.filter.satisfiable:
            return EXCLUDED
        return "\n".join(map(str, self.conditions)) or "yes  true  (every event matches)"


class Reasons(list[Alternative]):
    """Why some filters, one of which has to match, match an event or do not."""

    @property
    def matches(self) -> bool:
        """Whether one of them matches."""
        return any(alternative.matches for alternative in self)

    def __str__(self) -> str:
        head = "matches" if self.matches else "does not match"
        return f"{head}\n" + "\nor\n".join(str(alternative) for alternative in self)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str, str]] = []
        for alternative in self:
            if rows:
                rows.append(("or", "", ""))
            if not alternative.filter.satisfiable:
                rows.append(("no", "false", EXCLUDED))
            rows += [("yes" if one.holds else "no", one.text, one.found) for one in alternative.conditions]
        head = "matches" if self.matches else "does not match"
        return html.paragraph(head) + html.table(("holds", "condition", "event"), rows)


def reasons(
    filters: Iterable[Filter],
    event: Event | Mapping[str, object],
    *,
    unsupported: Unsupported = "refuse",
    text_rules: Mapping[Place, str] | None = None,
) -> Reasons:
    """For each of some filters its conditions, and whether they hold of the event.

    `text_rules`: by place, the rule because of which its text is not read as a time.
    """
    attributes = as_event(event, unsupported).attributes
    return Reasons(_alternative(f, attributes, text_rules or {}) for f in filters)


def _alternative(f: Filter, attributes: Mapping[str, Value], text_rules: Mapping[Place, str]) -> Alternative:
    conditions = tuple(_conditions(f, attributes, text_rules)) if f.satisfiable else ()
    return Alternative(f, f.satisfiable and f.admits(attributes), conditions)


def texts_like_times(filters: Iterable[Filter], attributes: Mapping[str, Value]) -> list[Place]:
    """The places that filters compare with times, and where there is text which would be one."""
    asked = in_order(place for place, families in families_at(filters).items() if Family.TIME in families)
    return [place for place in asked if with_times(attributes, (place,)) is not attributes]


def _conditions(
    f: Filter, attributes: Mapping[str, Value], text_rules: Mapping[Place, str]
) -> Iterator[Condition]:
    for name, states in f.conditions.items():
        value = attributes.get(name)
        parts = describe_states(name, states)
        found = _found(name, states, attributes)
        if states.kind is Family.TIME and name in text_rules and type(value) is str and time_in(value):
            found += f", as which it is not read because of {text_rules[name]}"
        for part in parts:
            more = _of_elements(name, part, value, text_rules) if type(value) is tuple else ""
            yield Condition(write_expression(part), _holds(part, value), found + more)
    for clause in f.clauses:
        yield _clause(clause, attributes)


def _clause(clause: Clause, attributes: Mapping[str, Value]) -> Condition:
    """Alternatives within a filter, as one condition."""
    text = write_expression(Or(tuple(describe_filter(one) for one in clause)))
    found = dict.fromkeys(
        _found(name, states, attributes) for one in clause for name, states in one.conditions.items()
    )
    return Condition(text, any(one.admits(attributes) for one in clause), "; ".join(found))


def _of_elements(name: str, part: Expression, elements: List, text_rules: Mapping[Place, str]) -> str:
    """Which element a condition on elements is true of, or which comes closest."""
    if not isinstance(part, Constraint) or part.operator not in ("any", "not any"):
        return ""
    filters = lists.filters_of(part.value)
    closest: tuple[tuple[int, int], int, Filter] | None = None
    for at, element in enumerate(elements):
        attributes = lists.attributes_of(element)
        for f in filters:
            if f.admits(attributes):
                return f"; {write_name(name)}[{at}] matches: {shown((element,))[1:-1]}"
            true = sum(states.admits(attributes.get(inner)) for inner, states in f.conditions.items())
            rank = true, sum(inner in attributes for inner in f.conditions)
            if closest is None or rank > closest[0]:
                closest = rank, at, f
    said = (
        "; none of 1 element matches"
        if len(elements) == 1
        else f"; none of {len(elements):,} elements matches"
    )
    if closest is None or part.operator == "not any":
        return said
    _rank, at, f = closest
    inner = lists.attributes_of(elements[at])
    rules = {place: text_rules[inside(name, place)] for place in split(text_rules)[1].get(name, ())}
    wrong = [f"{one.text}: {one.found}" for one in _conditions(f, inner, rules) if not one.holds]
    return f"{said}; {write_name(name)}[{at}] comes closest, but not {'; '.join(wrong)}"


def _holds(expression: Expression, value: Value | None) -> bool:
    """Whether an expression about one attribute is true of its value."""
    if isinstance(expression, Constraint):
        return expression.states.admits(value)
    assert isinstance(expression, And | Or)  # noqa: S101 - canonical forms have no Not
    holds = (_holds(part, value) for part in expression.parts)
    return all(holds) if isinstance(expression, And) else any(holds)


def asked_of(name: str, filters: Iterable[Filter]) -> str:
    """The first of some filters that asks anything of an attribute, as messages show it."""
    asked = (str(f) for f in filters if name in attributes_in(f))
    return f"{next(asked, ''):.{_RULE_SHOWN}}"


def rule_shown(key: Id, place: Place, filters: Iterable[Filter]) -> str:
    """A rule that compares an attribute, or what elements have, with a string, as messages show it."""
    compared = [f for f in filters if Family.STRING in families_at([f]).get(place, ())]
    name = place if isinstance(place, str) else place[0]
    return f"rule {key!s:.80} ({asked_of(name, compared)})"


def _found(name: str, states: ValueSet, attributes: Mapping[str, Value]) -> str:
    """What the event has of an attribute, as far as it matters to a condition."""
    written = write_name(name)
    value = attributes.get(name)
    if value is None:
        is_list = of_records(name, set(lists_in(attributes)))
        if is_list:
            return f"{written} is missing; {is_list}"
        if fields := fields_of(name, attributes):
            wanted = f"; the rule wants a {states.kind.label}" if isinstance(states.kind, Family) else ""
            return f"{written} is a record; it has {', '.join(map(write_name, fields))}{wanted}"
        meant = None if states.kind is Presence.ABSENT else suggestion(name, list(attributes))
        hint = "" if meant is None else f"; the event has {write_name(meant)}"
        return f"{written} is missing{hint}"
    said = f"{written} is {shown(value)}"
    if isinstance(states.kind, Family) and family_of(value) is not states.kind:
        return f"{said}, a {family_of(value).label}; the rule wants a {states.kind.label}"
    return said


def shown(value: Value) -> str:
    """A value as messages show it."""
    text = _written(nest_list(value) if type(value) is tuple else value)
    return text if len(text) <= _VALUE_SHOWN else f"{text[:_VALUE_SHOWN]}…"


def _written(value: object) -> str:
    """A value, or what is in a list, as text."""
    if isinstance(value, Time):
        return str(value)
    if isinstance(value, ExactDecimal):
        return write_number(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {_written(inner)}' for name, inner in value.items())}}}"
    return repr(value)
