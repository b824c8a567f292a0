"""What is wrong with a set of rules, found without any event: rules that cannot match, and rules too many.

| check | level | what is found |
|---|---|---|
| invalid | error | a rule that cannot be read (found by whoever reads the rules) |
| never-matches | error | a rule that no event can match |
| unknown-attribute | error | a rule on an attribute that the schema does not list |
| wrong-type | error | a rule that compares an attribute with a type that it does not have in the schema |
| matches-all | warning | a rule that every event matches |
| duplicate | warning | a rule that says the same as an earlier one |
| covered | note | a rule that matches no event which another rule does not match |
| repeated-id | note | a rule under the id of an earlier one, to which it is an alternative |

A duplicate or covered rule under the id of the other adds nothing. Under another id it may be meant: two ids
for the same events, or a graver alert for some of them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from penstock.filters.asked import Kind, kinds_in
from penstock.filters.disagreements import Disagreement, check
from penstock.filters.filter import ALWAYS
from penstock.filters.predicate import Predicate
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
    "matches-all",
    "duplicate",
    "covered",
    "repeated-id",
]


class About(NamedTuple):
    """What is to be known of a check."""

    level: Level
    summary: str


CHECKS: Final[dict[Check, About]] = {
    "invalid": About("error", "The rule cannot be read."),
    "never-matches": About("error", "No event can match the rule."),
    "unknown-attribute": About("error", "The schema does not list the attribute."),
    "wrong-type": About("error", "The attribute has another type in the schema."),
    "matches-all": About("warning", "Every event matches the rule."),
    "duplicate": About("warning", "Another rule says the same."),
    "covered": About("note", "Another rule matches all events that this rule matches."),
    "repeated-id": About("note", "Rules under one id are alternatives."),
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

    def add(self, key: Id, predicate: Predicate) -> None:
        """Add a rule."""
        self.ids.append(key)
        self.predicates.append(predicate)

    def __len__(self) -> int:
        return len(self.ids)


def lint(
    rules: Rules, schema: Schema | None = None, tell: Callable[[str], None] = lambda _what: None
) -> list[Finding]:
    """All that is to be said of the rules, in their order. `tell` is told what is being done."""
    tell("duplicates and contradictions")
    found = [*_alone(rules.predicates), *_repeated(rules.ids)]
    if schema is not None:
        found += _misfits(rules, schema)
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
        elif known == at:
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
    for at, predicate in enumerate(rules.predicates):
        asked = {(name, frozenset(kinds)) for name, kinds in kinds_in(predicate.filters).items()}
        if not known.keys() >= asked:
            found = {one.attribute: one for one in check(predicate.filters, schema)}
            known.update((pair, found.get(pair[0])) for pair in asked)
        for pair in sorted(asked, key=lambda pair: pair[0]):
            misfit = known[pair]
            if misfit is not None:
                yield _misfit(at, misfit)


def _misfit(at: int, found: Disagreement) -> Finding:
    name = f"{found.attribute!r:.80}"
    if found.problem == "unknown":
        if found.has:
            return Finding("unknown-attribute", at, f"{name} is a record; it has {', '.join(found.has)}")
        hint = "" if found.suggestion is None else f"; did you mean {found.suggestion!r:.80}?"
        return Finding("unknown-attribute", at, f"the schema has no attribute {name}{hint}")
    if found.problem == "unmatchable":
        return Finding("wrong-type", at, f"{name} is {found.detail} in the schema: no rule can match it")
    asked = " or a ".join(found.asked)
    message = f"compares {name} with a {asked}, but in the schema it is {found.detail}"
    return Finding("wrong-type", at, message)
