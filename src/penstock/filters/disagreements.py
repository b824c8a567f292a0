"""Where rules and events disagree: a rule then matches less than its author thinks, perhaps nothing.

A rule on `amuont` is a correct filter, and so is a rule on a number where events have text. Neither ever
matches, and nothing else would tell. What events have is known from counting them or from a schema:

| problem | what is reported |
|---|---|
| unknown | rules name an attribute that no event has, or that the schema does not list |
| family | rules compare it with a family that no event has there; they have another |
| mixed | some events have it in a family that no rule compares it with, or a record in place of a list |
| skipped | some values of it were left out, because no rule can match them |
| unmatchable | by the schema, none of its values can be matched |
| inexact | rules ask for a number that no double is, and events come as JSON, whose numbers are doubles |
| null | an attribute that rules name is null in all events |
| texts | rules compare it with a time and with a string: texts that events have there are not read as times |
| unlisted | events have it, and the schema does not list it |
| misfit | events have it in a family that the schema does not allow |
| value | events have a value there that is none of those that the schema lists (`enum`, `const`) |
| unadvertised | no publisher of a network has advertised events that the rule can match; about no attribute |

An attribute of elements is called by its place: `items[].sku` that of records in the list `items`, `tags[]`
an element that is no record. Each condition on elements is looked at on its own.

A rule is concerned if all that it asks of the attribute is in vain. So `x > 5 or x = 'a'` fits numbers and
texts. A rule that asks only for absence (`x is null`) may well mean an attribute that is never there: it is
concerned only where the name looks like a slip, and where a schema lists the names.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from penstock.errors import DisagreementError, printable
from penstock.filters import html
from penstock.filters.asked import Kind, Lists
from penstock.filters.valuesets import Presence
from penstock.model.names import Id
from penstock.model.places import ELEMENT, is_inside, written
from penstock.model.values import Family

Problem = Literal[
    "unknown",
    "family",
    "mixed",
    "skipped",
    "unmatchable",
    "inexact",
    "null",
    "texts",
    "unlisted",
    "misfit",
    "value",
    "unadvertised",
]

Basis = Literal["events", "schema", "columns", "advertisements"]
"""What tells: events that were counted, a schema that was given, the columns of events, or what publishers
have advertised."""

_LACKS: Final[dict[Basis, str]] = {
    "schema": "the schema has no attribute {}, which",
    "columns": "the events have no column {}, which",
    "advertisements": "no advertisement names {}, which",
}
_IN: Final[dict[Basis, str]] = {
    "schema": "the schema",
    "columns": "the events",
    "advertisements": "the advertisements",
}

IDS_SHOWN: Final = 10
"""Ids that a report of a disagreement names: enough to find the rules, short enough for a log line."""

_LINES_MAX: Final = 20
"""Disagreements that a text shows."""

_IDS_IN_TEXT: Final = 3
_AT_A_TIME: Final = 16
"""Names that are compared before others have their turn: a tenth of a millisecond or two."""
_FIELDS_SHOWN: Final = 3

_CLOSENESS: Final = 0.75
"""How alike two names are for one to be suggested (difflib's ratio): one letter in four may be wrong."""
_LONGER: Final = 2 * (1 - _CLOSENESS) / _CLOSENESS
"""By what share of its length a name that is so alike can be longer or shorter."""

_COMPARED_MAX: Final = 500
_COMPARED_LENGTH_MAX: Final = 64
"""Names that one is compared with, letter by letter, and how long it may be: some milliseconds in all."""


class DisagreementWarning(UserWarning):
    """Rules and events disagree: what a Matcher warns of. `warnings.simplefilter` makes it an error."""


class Disagreement(msgspec.Struct, frozen=True):
    """One attribute about which rules and events, or rules and a schema, disagree."""

    attribute: str
    problem: Problem
    asked: tuple[str, ...]
    """The families that the rules concerned compare it with. Empty if they ask only whether it is there."""
    seen: dict[str, int]
    """The families that events have there, and how many values of each; by a schema, the families with 0."""
    rules: int
    """How many ids are concerned."""
    ids: tuple[Id, ...]
    """Some of them."""
    suggestion: str | None = None
    """A name that events do have and that was perhaps meant."""
    events: int | None = None
    """How many events were looked at; None where a schema tells."""
    skipped: int = 0
    """How many values were left out."""
    detail: str = ""
    """The first value that was left out, or the type in the schema."""
    has: tuple[str, ...] = ()
    """Where it is a record: the names of some of its attributes."""
    note: str = ""
    """What else there is to know."""
    basis: Basis = "schema"
    """What tells."""
    example: str = ""
    """A value that events have in one of the families `seen`, of `mixed`, `misfit` and `value`."""
    rule: str = ""
    """What the first of `ids` asks for, of `mixed`, `misfit` and `value`."""

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it, and the sentence as `text`."""
        return {**msgspec.to_builtins(self), "text": str(self)}

    def together(self, other: "Disagreement") -> "Disagreement":
        """The same disagreement of these rules and of others, which were held against the same events."""
        return msgspec.structs.replace(
            self,
            asked=tuple(sorted({*self.asked, *other.asked})),
            seen={
                family: max(self.seen.get(family, 0), other.seen.get(family, 0))
                for family in (*self.seen, *other.seen)
            },
            rules=self.rules + other.rules,
            ids=(*self.ids, *other.ids)[:IDS_SHOWN],
            events=None if self.events is None else max(self.events, other.events or 0),
            skipped=max(self.skipped, other.skipped),
            example=self.example or other.example,
            rule=self.rule or other.rule,
        )

    def __str__(self) -> str:
        return f"{_sentence(self)}; {self.note}" if self.note else _sentence(self)


class Disagreements(list[Disagreement]):
    """Disagreements, as notebooks show them."""

    def _repr_html_(self) -> str:
        return html.table(("problem", "what"), ((one.problem, one) for one in self), len(self))


def lines_of(found: Sequence[Disagreement]) -> list[str]:
    """Disagreements as lines of a text, the first ones."""
    more = [f"… and {len(found) - _LINES_MAX:,} more"] if len(found) > _LINES_MAX else []
    return [printable(str(one)) for one in found[:_LINES_MAX]] + more


def _sentence(found: Disagreement) -> str:
    name = f"{found.attribute!r:.80}"
    who = _who(found)
    hint = f"; did you mean {found.suggestion!r:.80}?" if found.suggestion is not None else ""
    asked = " or a ".join(found.asked)
    seen = " or a ".join(found.seen)
    counted = ", ".join(f"{count:,}" for count in found.seen.values())
    values = "value" if counted == "1" else "values"
    match found.problem:
        case "unknown" | "null":
            return _sentence_of_nothing(found, name, who, hint)
        case "texts" if not found.rules:
            return f"rules compare {name} with a time and with a string: text there is not read as a time"
        case "texts":
            return (
                f"{who} {_verb(found, 'compare')} {name} with a time, and rules compare it with a string, "
                "too: text there is not read as a time"
            )
        case "family" if found.events is None:
            return (
                f"{who} {_verb(found, 'compare')} {name} with a {asked}, but in {_IN[found.basis]} it is "
                f"{found.detail}: no event can match{_of_elements(found)}"
            )
        case "family":
            return (
                f"{who} {_verb(found, 'compare')} {name} with a {asked}, but in the events it is a {seen} "
                f"({counted} {values}): no event can match{_of_elements(found)}"
            )
        case "mixed" | "misfit" | "value":
            return _sentence_of_some(found, name, asked)
        case "skipped":
            return (
                f"{_count(found.skipped, 'value')} of {name}, which {who} {_verb(found, 'name')}, "
                f"{'was' if found.skipped == 1 else 'were'} left out: "
                f"{found.detail}"
            )
        case "unmatchable":
            return (
                f"{who} {_verb(found, 'name')} {name}, which in {_IN[found.basis]} is {found.detail}: "
                "no rule can match a value of this type"
            )
        case "inexact":
            return (
                f"{who} {_verb(found, 'ask')} for {name} = {found.detail}, which no double is: "
                "numbers in JSON are doubles, and never equal it"
            )
        case "unlisted":
            return f"events have {name}, which the schema does not list{hint}"
        case "unadvertised":
            return f"no publisher has advertised events that {who} can match"


def _sentence_of_some(found: Disagreement, name: str, asked: str) -> str:
    """That some events have values which rules, or the schema, do not expect."""
    values, rules = _of_values(found, name), _such_as(found)
    if found.problem == "misfit":
        misfit = f"{values}, but in the schema it is {found.detail}"
        return f"{misfit}; {rules} {_verb(found, 'name')} it" if found.rules else misfit
    if found.problem == "value":
        unlisted = f"{values}, but the schema lists {found.detail}"
        return f"{unlisted}; {rules} {_verb(found, 'name')} it" if found.rules else unlisted
    if not found.asked:
        return f"{rules} {_verb(found, 'ask')} only whether there is {name}"
    if not found.seen:
        take, family = _verb(found, "take"), " or a ".join(found.asked)
        return f"{rules} {take} {name} for a {family}, which it is not in all events"
    compare, match = _verb(found, "compare"), "matches" if found.rules == 1 else "match"
    return f"{values}; {rules} {compare} it with a {asked} only, and never {match} there{_of_elements(found)}"


def _of_values(found: Disagreement, name: str) -> str:
    """How many events have what, and a value that one of them has."""
    counts = sum(found.seen.values())
    families = {family.label for family in Family}
    what = " or ".join(f"a {one}" if one in families else f"a value of type {one}" for one in found.seen)
    such = f", such as {found.example}" if found.example else ""
    # An event may have many elements.
    of = f"{_count(counts, 'element')} in" if is_inside(found.attribute) else f"{counts:,} of"
    return (
        f"{of} {_count(found.events or 0, 'event')} {'has' if counts == 1 else 'have'} {what} in {name}{such}"
    )


def _such_as(found: Disagreement) -> str:
    """The rules concerned, one of them with what it asks for."""
    if not found.ids:
        return "the filter" if found.rules == 1 else _count(found.rules, "rule")
    example = f"{found.ids[0]!s:.80}" + (f" ({found.rule})" if found.rule else "")
    return f"rule {example}" if found.rules == 1 else f"{found.rules:,} rules, such as {example},"


def _of_elements(found: Disagreement) -> str:
    """How to ask for the elements of a list, where a rule takes it for one value."""
    is_list = Family.LIST.label in found.seen and Family.LIST.label not in found.asked
    name = found.attribute
    return f"; any({name}) = … asks for an element, as '…' in {name} does" if is_list else ""


def _sentence_of_nothing(found: Disagreement, name: str, who: str, hint: str) -> str:
    """That no event has an attribute, or that the schema has none."""
    named = f"{name}, which {who} {_verb(found, 'name')}"
    if found.problem == "null":
        looked = "the only event" if found.events == 1 else f"all {found.events:,} events"
        return f"{named}, is null in {looked}"
    if found.has:
        fields = ", ".join(f"{field:.80}" for field in found.has)
        return f"{named}, is a record; it has {fields}"
    if found.events is None:
        return f"{_LACKS[found.basis].format(name)} {who} {_verb(found, 'name')}{hint}"
    return f"none of {_count(found.events, 'event')} has {named}{hint}"


def _who(found: Disagreement) -> str:
    if found.rules == 1 and not found.ids:
        return "the filter"
    shown = ", ".join(str(key) for key in found.ids[:_IDS_IN_TEXT])
    if found.rules > _IDS_IN_TEXT:
        shown += ", …"
    counted = _count(found.rules, "rule")
    return f"{counted} ({shown})" if shown else counted


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _verb(found: Disagreement, verb: str) -> str:
    return verb + "s" if found.rules == 1 else verb


def refuse(found: Sequence[Disagreement]) -> None:
    """Raise DisagreementError if there is anything that rules and a schema disagree about."""
    if found:
        more = f" (and {len(found) - _IDS_IN_TEXT:,} more)" if len(found) > _IDS_IN_TEXT else ""
        raise DisagreementError("; ".join(map(str, found[:_IDS_IN_TEXT])) + more)


class Rules:
    """The rules concerned by each disagreement, while they are looked through."""

    def __init__(self, ids: int = IDS_SHOWN) -> None:
        """`ids`: how many of each are named."""
        self._ids = ids
        self._found: dict[tuple[str, Problem], tuple[set[Family], list[Id], int]] = {}
        self.inside: dict[Lists, Rules] = {}
        """The same about what elements have, by the lists that they are in."""

    def __bool__(self) -> bool:
        return bool(self._found or self.inside)

    @property
    def problems(self) -> set[tuple[str, Problem]]:
        """What there is to say, without the rules that it is about."""
        return set(self._found)

    def within(self, lists: "Lists") -> "Rules":
        """Those about the elements of a list."""
        known = self.inside.get(lists)
        if known is None:
            known = self.inside[lists] = Rules(self._ids)
        return known

    def add(self, name: str, problem: Problem, kinds: Iterable[Kind], key: Id) -> None:
        """Take note of one rule, which has not been noted for this before."""
        self.add_many(name, problem, kinds, [key], 1)

    def add_many(
        self, name: str, problem: Problem, kinds: Iterable[Kind], keys: Iterable[Id], count: int
    ) -> None:
        """Take note of so many rules, some of whose ids are given."""
        families, ids, before = self._found.get((name, problem), (set(), [], 0))
        families.update(kind for kind in kinds if isinstance(kind, Family))
        ids.extend(key for key, _ in zip(keys, range(self._ids - len(ids)), strict=False))
        self._found[name, problem] = families, ids, before + count

    def report(
        self,
        names: Collection[str],
        *,
        basis: Basis = "schema",
        pace: Callable[[], object] = lambda: None,
        lists: Collection[str] = (),
        **more: Mapping[str, Any],
    ) -> list[Disagreement]:
        """All disagreements, in the order of attributes; `more` has fields by attribute.

        `lists`: which of the names are lists, and the places of lists in these.
        """
        made = []
        for (name, problem), (families, ids, count) in sorted(self._found.items()):
            fields = {field: values[name] for field, values in more.items() if name in values}
            note = fields.pop("note", "")
            if problem == "unknown":
                note = of_records(name, lists)
            made.append(
                Disagreement(
                    attribute=name,
                    problem=problem,
                    asked=tuple(family.label for family in sorted(families)),
                    seen=fields.pop("seen", {}),
                    rules=count,
                    ids=tuple(ids),
                    suggestion=None if note or problem != "unknown" else suggestion(name, names, pace),
                    basis="events" if "events" in fields else basis,
                    has=fields_of(name, _paced(names, pace)) if problem == "unknown" else (),
                    note=note,
                    **fields,
                )
            )
        return made


def of_records(name: str, lists: Collection[str], where: str = "") -> str:
    """How to ask for an attribute of records in a list, where a rule takes the list for a record."""
    dot = name.find(".")
    while dot >= 0:
        if name[:dot] in lists:
            ask = _asking(name[:dot], name[:dot], name[dot + 1 :], lists)
            return f"{name[:dot]!r:.80} is a list{where}: {ask}"
        dot = name.find(".", dot + 1)
    return ""


def _asking(place: str, name: str, field: str, lists: Collection[str]) -> str:
    """How to ask for a field of what is in a list, which has a place and a name there. Lists may be in it."""
    inner = place + "[]"
    asked = f"{field:.80} = …"
    if inner in lists:
        asked = _asking(inner, ELEMENT, field, lists)
    else:
        dot = field.find(".")
        while dot >= 0 and f"{inner}.{field[:dot]}" not in lists:
            dot = field.find(".", dot + 1)
        if dot >= 0:
            asked = _asking(f"{inner}.{field[:dot]}", field[:dot], field[dot + 1 :], lists)
    return f"any({name:.80} where {asked})"


def is_in_vain(kinds: Collection[Kind], families: Collection[Family]) -> bool:
    """Whether a rule that asks for this asks in vain, where values have these families and no other."""
    if Presence.EXISTS in kinds and families:
        return False
    compared = {kind for kind in kinds if isinstance(kind, Family)}
    return bool(compared) and not compared & set(families)


def in_lists(lists: Lists, found: Disagreement, known: Collection[str]) -> Disagreement:
    """A disagreement about elements, which have the attributes `known`, with the places that these have."""
    meant = None if found.suggestion is None else written((*lists, found.suggestion))
    place = written((*lists, found.attribute))
    has = found.has
    if found.problem == "unknown" and found.attribute == ELEMENT and meant is None:
        has = has or tuple(sorted(known)[:_FIELDS_SHOWN])
    fields = tuple(written((*lists, name)) for name in has)
    return msgspec.structs.replace(found, attribute=place, suggestion=meant, has=fields)


def fields_of(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """If a name is that of a record: the names of its first attributes, in order."""
    return tuple(sorted(known for known in names if known.startswith(name + "."))[:_FIELDS_SHOWN])


def suggestion(name: str, names: Collection[str], pace: Callable[[], object] = lambda: None) -> str | None:
    """The name that was perhaps meant: the same but for case and separators, its end, or one much like it.

    `pace` is called every few names.
    """
    bare = _bare(name)
    for known in _paced(names, pace):
        if known != name and _bare(known) == bare:
            return known
    ends = [known for known in names if _ends_alike(known, name)]
    if len(ends) == 1:
        return ends[0]
    by_case: dict[str, str] = {}
    # To compare two names costs the product of their lengths.
    if len(name) <= _COMPARED_LENGTH_MAX:
        for known in _paced(names, pace):
            if abs(len(known) - len(name)) <= len(name) * _LONGER and len(by_case) < _COMPARED_MAX:
                by_case.setdefault(known.casefold(), known)
    close = _closest(name.casefold(), _paced(by_case, pace))
    return None if close is None else by_case[close]


def _closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like one, as difflib.get_close_matches has it; it looks at all in one go."""
    from difflib import SequenceMatcher

    likeness = SequenceMatcher(b=name)
    best: tuple[float, str] | None = None
    for known in names:
        likeness.set_seq1(known)
        if likeness.real_quick_ratio() < _CLOSENESS or likeness.quick_ratio() < _CLOSENESS:
            continue
        score = likeness.ratio()
        if score >= _CLOSENESS and (best is None or (score, known) > best):
            best = score, known
    return None if best is None else best[1]


def _paced(names: Iterable[str], pace: Callable[[], object]) -> Iterator[str]:
    for number, name in enumerate(names):
        if number % _AT_A_TIME == 0:
            pace()
        yield name


def _bare(name: str) -> str:
    return "".join(character for character in name.casefold() if character not in "_-. ")


def _ends_alike(a: str, b: str) -> bool:
    """Whether one is the other without the objects that it stands in: `price` and `order.price`."""
    a, b = a.casefold(), b.casefold()
    return a != b and (a.endswith("." + b) or b.endswith("." + a))
