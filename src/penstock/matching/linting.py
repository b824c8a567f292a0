"""What is wrong with a set of rules, found without any event: rules that cannot match, and rules too many.

| check | level | what is found |
|---|---|---|
| invalid | error | a rule that cannot be read (found by whoever reads the rules) |
| never-matches | error | a rule that no event can match |
| unknown-attribute | error | a rule on an attribute that the schema does not list |
| wrong-type | error | a rule that compares an attribute with a type that it does not have in the schema |
| wrong-value | error | a rule that asks an attribute for none of the values that the schema lists |
| dead-alternative | warning | an alternative that no event can match, of a rule that some can |
| matches-all | warning | a rule that every event matches |
| duplicate | warning | a rule that says the same as an earlier one |
| covered | note | a rule that matches no event which another rule does not match |
| repeated-id | note | a rule under the id of an earlier one, to which it is an alternative |
| rare-attribute | note | without a schema: an attribute that few rules name, much like one that many name |

A duplicate or covered rule under the id of the other adds nothing. Under another id it may be meant: two ids
for the same events, or a graver alert for some of them. A rule that every event
matches has a finding of its own, and is not named as what covers all others.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from penstock.filters.asked import Kind, Lists, attributes_in, conditions_inside, kinds_in
from penstock.filters.disagreements import Disagreement, suggestion
from penstock.filters.filter import ALWAYS
from penstock.filters.predicate import Predicate
from penstock.filters.schema_check import check, check_inside
from penstock.filters.valuesets import ValueSet
from penstock.matching.covered import covered_rules
from penstock.model.names import Id
from penstock.model.schema import Schema

Level = Literal["error", "warning", "note"]

LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")
"""The gravest first."""

Check = Literal[
    "invalid",
    "never-matches",
    "unknown-attribute",
    "wrong-type",
    "wrong-value",
    "dead-alternative",
    "matches-all",
    "duplicate",
    "covered",
    "repeated-id",
    "rare-attribute",
]


_SHOWN: Final = 200
"""Characters shown of an alternative or of values."""

_TIMES: Final = 10
"""A name is rare beside one that so many times as many rules have."""

_COMMON: Final = 256
_RARE: Final = 256
"""Of names that are common, and of those that are not, so many are compared, the extremes first."""

_DIGITS: Final = re.compile("[0-9]+")
"""Names that differ in nothing else are numbered on purpose."""


class About(NamedTuple):
    """What is to be known of a check."""

    level: Level
    summary: str


CHECKS: Final[dict[Check, About]] = {
    "invalid": About("error", "The rule cannot be read."),
    "never-matches": About("error", "No event can match the rule."),
    "unknown-attribute": About("error", "The schema does not list the attribute."),
    "wrong-type": About("error", "The attribute has another type in the schema."),
    "wrong-value": About("error", "The attribute has none of these values in the schema."),
    "dead-alternative": About("warning", "No event can match an alternative of the rule."),
    "matches-all": About("warning", "Every event matches the rule."),
    "duplicate": About("warning", "Another rule says the same."),
    "covered": About("note", "Another rule matches all events that this rule matches."),
    "repeated-id": About("note", "Rules under one id are alternatives."),
    "rare-attribute": About("note", "Few rules name the attribute, and many name one much like it."),
}


class Finding(NamedTuple):
    """Something about one of the rules, which are numbered."""

    check: Check
    rule: int
    message: str
    other: int | None = None
    """The rule that it has to do with."""


class Rules(msgspec.Struct):
    """Rules to look at: their ids and predicates, rule by rule."""

    ids: list[Id] = []
    predicates: list[Predicate] = []
    never: dict[int, tuple[str, ...]] = {}
    """Alternatives of rules that no event can match; predicates do not show them."""

    def add(self, key: Id, predicate: Predicate, never: tuple[str, ...] = ()) -> None:
        """Add a rule. `never` are its alternatives that no event can match (`parsing.never_matching`)."""
        if never:
            self.never[len(self.ids)] = never
        self.ids.append(key)
        self.predicates.append(predicate)

    def __len__(self) -> int:
        return len(self.ids)


def lint(
    rules: Rules, schema: Schema | None = None, tell: Callable[[str], None] = lambda _what: None
) -> list[Finding]:
    """All that is to be said of the rules, in their order. `tell` is told what is being done."""
    tell("duplicates and contradictions")
    found = [*_alone(rules.predicates), *_dead(rules), *_repeated(rules.ids)]
    if schema is not None:
        found += _misfits(rules, schema)
        found += _wrong_values(rules, schema)
    else:
        found += _rare(rules.predicates)
    tell("covered rules")
    found += _too_many(rules)
    found.sort(key=lambda one: (one.rule, LEVELS.index(CHECKS[one.check].level)))
    return found


def _alone(predicates: Sequence[Predicate]) -> Iterator[Finding]:
    """What a rule shows by itself."""
    for at, predicate in enumerate(predicates):
        if not predicate.satisfiable:
            yield Finding("never-matches", at, "no event can match: its conditions exclude each other")
        elif ALWAYS in predicate.filters:
            yield Finding("matches-all", at, "every event matches")


def _dead(rules: Rules) -> Iterator[Finding]:
    for at, alternatives in rules.never.items():
        for text in alternatives:
            yield Finding("dead-alternative", at, f"no event can match the alternative {_cut(text)}")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _repeated(ids: Sequence[Id]) -> Iterator[Finding]:
    first: dict[Id, int] = {}
    for at, key in enumerate(ids):
        known = first.setdefault(key, at)
        if known != at:
            yield Finding("repeated-id", at, "an alternative to an earlier rule with this id", known)


def _too_many(rules: Rules) -> Iterator[Finding]:
    predicates = rules.predicates
    first: dict[Predicate, int] = {}
    numbers: list[int] = []
    for at, predicate in enumerate(predicates):
        known = first.setdefault(predicate, at)
        if known != at and predicate.satisfiable:
            yield Finding("duplicate", at, f"{_called(rules, known)} says the same", known)
        elif known == at and ALWAYS not in predicate.filters:
            # What every event matches covers all others, and would hide what else covers them.
            numbers.append(at)
    for at, general in zip(numbers, covered_rules([predicates[at] for at in numbers]), strict=True):
        if general is not None:
            other = numbers[general]
            message = f"{_called(rules, other)} matches all events that this rule matches"
            yield Finding("covered", at, message, other)


def _called(rules: Rules, at: int) -> str:
    return f"rule {rules.ids[at]!r:.80}"


def _misfits(rules: Rules, schema: Schema) -> Iterator[Finding]:
    # Many rules ask for the same; what is wrong with it is looked up.
    known: dict[tuple[str, frozenset[Kind]], Disagreement | None] = {}
    inside: dict[tuple[Lists, str, frozenset[Kind]], Disagreement | None] = {}
    for at, predicate in enumerate(rules.predicates):
        asked = {(name, frozenset(kinds)) for name, kinds in kinds_in(predicate.filters).items()}
        if not known.keys() >= asked:
            found = {one.attribute: one for one in check(predicate.filters, schema)}
            known.update((pair, found.get(pair[0])) for pair in asked)
        for pair in sorted(asked, key=lambda pair: pair[0]):
            misfit = known[pair]
            if misfit is not None:
                yield _misfit(at, misfit)
        of_elements = {
            (lists, name, frozenset(kinds))
            for lists, some in conditions_inside(predicate.filters)
            for name, kinds in some.items()
        }
        for key in sorted(of_elements, key=lambda key: key[:2]):
            if key not in inside:
                inside[key] = check_inside(schema, *key)
            misfit = inside[key]
            if misfit is not None:
                yield _misfit(at, misfit)


def _wrong_values(rules: Rules, schema: Schema) -> Iterator[Finding]:
    listed = {name: one for name, one in schema.attributes.items() if one.values is not None}
    known: dict[tuple[str, ValueSet], bool] = {}
    for at, predicate in enumerate(rules.predicates):
        asked: dict[str, list[ValueSet]] = {}
        for f in predicate.filters:
            for box in f.boxes():
                for name in box.conditions.keys() & listed.keys():
                    asked.setdefault(name, []).append(box.conditions[name])
        for name, sets in sorted(asked.items()):
            attribute = listed[name]
            if not {states.kind for states in sets} & attribute.families:
                continue  # Presence alone, or the wrong type, which is told of already.
            for states in sets:
                if (name, states) not in known:
                    known[name, states] = states.admits(None) or any(
                        map(states.admits, attribute.values or ())
                    )
            if not any(known[name, states] for states in sets):
                values = ", ".join(attribute.listed())
                yield Finding(
                    "wrong-value",
                    at,
                    f"in the schema {name!r:.80} has none of these values, but {_cut(values)}",
                )


def _rare(predicates: Sequence[Predicate]) -> Iterator[Finding]:
    """Names that few rules have, much like one that many have."""
    names = [{name for f in predicate.filters for name in attributes_in(f)} for predicate in predicates]
    counts = Counter(name for some in names for name in some)
    common = [name for name, count in counts.most_common(_COMMON) if count >= _TIMES]
    meant: dict[str, str] = {}
    for name, count in counts.most_common()[: -_RARE - 1 : -1]:
        likely = [other for other in common if counts[other] >= _TIMES * count]
        if not likely:
            break
        found = suggestion(
            name, [other for other in likely if _DIGITS.sub("", other) != _DIGITS.sub("", name)]
        )
        if found is not None:
            meant[name] = found
    for at, some in enumerate(names):
        for name in sorted(some & meant.keys()):
            other = meant[name]
            few = "1 rule names" if counts[name] == 1 else f"{counts[name]:,} rules name"
            message = f"{few} {name!r:.80}, and {counts[other]:,} name {other!r:.80}"
            yield Finding("rare-attribute", at, message)


def _misfit(at: int, found: Disagreement) -> Finding:
    name = f"{found.attribute!r:.80}"
    if found.problem == "unknown":
        if found.has:
            return Finding("unknown-attribute", at, f"{name} is a record; it has {', '.join(found.has)}")
        hint = "" if found.suggestion is None else f"; did you mean {found.suggestion!r:.80}?"
        note = f"; {found.note}" if found.note else ""
        return Finding("unknown-attribute", at, f"the schema has no attribute {name}{hint}{note}")
    if found.problem == "unmatchable":
        return Finding("wrong-type", at, f"{name} is {found.detail} in the schema: no rule can match it")
    asked = " or a ".join(found.asked)
    message = f"compares {name} with a {asked}, but in the schema it is {found.detail}"
    return Finding("wrong-type", at, message)
