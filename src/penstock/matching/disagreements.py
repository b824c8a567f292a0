"""What the filters of a matcher and the events that it saw disagree about.

Nothing is kept for this while filters come and go: their conditions are read back from the tables when
somebody asks. Most attributes are settled by what is asked of them in all; only those about which there is
something to say are looked into rule by rule.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters.asked import Kind, Lists
from penstock.filters.disagreements import (
    IDS_SHOWN,
    Basis,
    Disagreement,
    Problem,
    Rules,
    fields_of,
    in_lists,
    is_in_vain,
    of_records,
    suggestion,
)
from penstock.filters.reasons import shown
from penstock.filters.schema_check import listed_by, problem_by, report_by
from penstock.filters.valuesets import Presence
from penstock.matching.batch import DECIMAL, DOUBLE, INTEGER, LIST
from penstock.matching.behind import Behind, behind
from penstock.matching.columns import PATTERN_ONLY
from penstock.matching.computed import filter_of, is_computed
from penstock.matching.exact_cuts import only_inexact
from penstock.matching.inside_lists import look_inside, look_inside_by, misfits_inside
from penstock.matching.observed import FAMILY_OF_STATE, Observed, families_of_states
from penstock.matching.plain import PlainSnapshot, value_of
from penstock.matching.times import TimeTexts
from penstock.model.decimals import write_number
from penstock.model.names import Id
from penstock.model.places import Place, split, written
from penstock.model.schema import Schema
from penstock.model.values import Family, family_of

if TYPE_CHECKING:
    from penstock.matching.store import Snapshot

_OF_VALUES = ("misfit", "value")
_OF_LISTS: frozenset[Kind] = frozenset({Family.LIST, Presence.EXISTS, Presence.ABSENT})
_KINDS = 16
_KIND_OF: dict[int, Kind] = {
    **{int(family): family for family in Family},
    PATTERN_ONLY: Family.STRING,
    Presence.NAN: Family.NUMBER,
    Presence.EXISTS: Presence.EXISTS,
    Presence.ABSENT: Presence.ABSENT,
}
_KNOWN = sum(1 << kind for kind in _KIND_OF)


class _Seen(NamedTuple):
    """What events had of one attribute."""

    families: dict[Family, int]
    skipped: int
    is_known: bool
    """Whether some event had the name, perhaps with no value."""
    kept: int = 0
    """How many texts would be times if no rule compared them with strings."""


def disagreements(
    snapshot: "Snapshot | PlainSnapshot",
    observed: Observed,
    texts: TimeTexts,
    *,
    patience: int = 1,
    concerning: Callable[[Id], bool] | None = None,
    ids_max: int = IDS_SHOWN,
) -> list[Disagreement]:
    """See the module; in the order of attributes. `texts`: which texts the matcher reads as times.

    `patience`: in so many events an attribute is looked for before it is said that rules never match there.
    `concerning`: the rules that count, by id. `ids_max`: how many ids are named.
    """
    names = list(snapshot.names)
    if not observed.events or not names:
        return []
    asked = _asked(snapshot, len(names))
    counts = observed.counts(len(names))
    rules = Rules(ids_max)
    seen: dict[str, _Seen] = {}
    looked: dict[str, int] = {}
    shapes: dict[str, str] = {}
    at_issue: dict[int, list[Problem]] = {}
    known = observed.names.keys() | {
        name for name, values in zip(names, counts, strict=True) if values.any() and not is_computed(name)
    }
    for number, name in enumerate(names):
        kinds = asked.get(number)
        if kinds is None:
            continue
        looked[name] = observed.events_of(number)
        found = _seen(counts[number], observed, name)
        problems = _problems(name, kinds, found, known)
        kept = observed.kept(number)
        if kept and {Family.TIME, Family.STRING} <= kinds:
            problems.append("texts")
            found = found._replace(kept=kept)
        other = _other_shape(name, kinds, found, known, observed)
        if other:
            shapes[name] = other
            if found.families and "mixed" not in problems:
                problems.append("mixed")
        problems = [one for one in problems if _is_sure(one, looked[name], observed, patience)]
        if problems:
            seen[name], at_issue[number] = found, problems
    if not at_issue:
        return inexact(snapshot, observed, ids_max)
    wanted = np.zeros(len(names), np.bool_)
    wanted[list(at_issue)] = True
    for number, mask, ids in _rules(snapshot, wanted):
        name, kinds = names[number], _kinds_of(mask)
        # Rules that ask for times are concerned by one of these.
        is_told = "texts" in at_issue[number] and Family.TIME in kinds
        problems = [
            problem
            for problem in at_issue[number]
            if _concerns(problem, kinds, seen[name], name in shapes) and not (is_told and problem == "family")
        ]
        if concerning is None:
            count, some = len(ids), [snapshot.ids.get(int(one)) for one in ids[:ids_max] if problems]
        else:
            some = [key for one in ids if problems and concerning(key := snapshot.ids.get(int(one)))]
            count = len(some)
        for problem in problems if count else ():
            rules.add_many(name, problem, kinds, some, count)
    reported = inexact(snapshot, observed, ids_max) + rules.report(
        known,
        seen={names[at]: _shown(seen[names[at]], found, asked[at]) for at, found in at_issue.items()},
        events=looked,
        skipped={name: one.skipped for name, one in seen.items()},
        example=_examples(observed, at_issue, seen, asked, names),
        lists=observed.lists,
        detail={name: observed.skipping.detail(name) for name, one in seen.items() if one.skipped},
        note=shapes,
    )
    return with_notes(reported, texts)


def inexact(snapshot: "Snapshot | PlainSnapshot", observed: Observed, ids_max: int) -> list[Disagreement]:
    """Rules that ask for numbers that no double is, where events came as JSON alone."""
    if observed.had_others or not observed.had_json:
        return []
    names = list(snapshot.names.items())
    asked: dict[int, tuple[str, str]] = {}
    counts = observed.counts(len(names))
    for text, number in names:
        if not is_computed(text) or not behind(text).has_numbers:
            continue
        for name, states in filter_of(text).conditions.items():
            literal, values = only_inexact(states), counts[snapshot.names[name]]
            if literal is not None and (values[INTEGER] or values[DOUBLE]) and not values[DECIMAL]:
                asked[number] = name, write_number(literal)
    rules: dict[str, tuple[str, list[NDArray[np.int32]]]] = {}
    is_asked = np.zeros(len(names), np.bool_)
    is_asked[list(asked)] = True
    for ids, attribute, _kind in conditions_of(snapshot) if asked else ():
        for at in np.flatnonzero(is_asked[attribute]).tolist():
            name, literal_text = asked[int(attribute[at])]
            rules.setdefault(name, (literal_text, []))[1].append(ids[at])
    found = []
    for name, (literal_text, owners) in sorted(rules.items()):
        numbers = np.unique(np.array(owners)).tolist()
        keys = tuple(snapshot.ids.get(number) for number in numbers[:ids_max])
        seen = {Family.NUMBER.label: int(counts[snapshot.names[name]].sum())}
        events = observed.events_of(snapshot.names[name])
        found.append(
            Disagreement(
                name,
                "inexact",
                (Family.NUMBER.label,),
                seen,
                len(numbers),
                keys,
                events=events,
                detail=literal_text,
                basis="events",
            )
        )
    return found


def _examples(
    observed: Observed,
    at_issue: Mapping[int, list[Problem]],
    seen: Mapping[str, _Seen],
    asked: Mapping[int, set[Kind]],
    names: list[str],
) -> dict[str, str]:
    """Of each mixed attribute a value that no rule asks for."""
    others = {
        at: [family for family in sorted(seen[names[at]].families) if family not in asked[at]]
        for at, problems in at_issue.items()
        if "mixed" in problems
    }
    return {names[at]: observed.example(at, families[0]) for at, families in others.items() if families}


def with_notes(found: list[Disagreement], texts: TimeTexts) -> list[Disagreement]:
    """Where rules do not have texts read as times: what does."""
    if texts.by_rules or not found:
        return found
    always = set(map(written, texts.always))
    return [_with_note(one, always) for one in found]


def _with_note(found: Disagreement, always: set[str]) -> Disagreement:
    is_text = found.problem == "family" and Family.TIME.label in found.asked
    if not is_text or Family.STRING.label not in found.seen or found.attribute in always:
        return found
    return msgspec.structs.replace(found, note="text is read as a time where a schema says that it is one")


def misfits(
    snapshot: "Snapshot | PlainSnapshot", observed: Observed, schema: Schema, *, ids_max: int = IDS_SHOWN
) -> list[Disagreement]:
    """What events had that a schema does not allow: of the attributes that filters name, and other names."""
    found = _misfits(snapshot.names, observed, schema) + _values(snapshot, schema)
    found = _with_rules(snapshot, found, ids_max)
    if not isinstance(snapshot, PlainSnapshot):
        found += _misfits_inside(snapshot, observed.events, schema, ids_max)
    return sorted(found, key=lambda one: one.attribute)


def _misfits_inside(
    snapshot: "Snapshot", events: int, schema: Schema, ids_max: int
) -> Iterator[Disagreement]:
    """The same of what elements of lists had, in so many events."""
    inside = {
        lists: (known, _misfits(elements.names, elements.observed, known))
        for lists, elements, known in misfits_inside(snapshot, schema)
    }
    odd = {(lists, one.attribute) for lists, (_known, found) in inside.items() for one in found}

    def judge(lists: Lists, name: str, _kinds: set[Kind]) -> Problem | None:
        return "misfit" if (lists, name) in odd else None

    rules = Rules(ids_max)
    if odd:
        look_inside(snapshot, judge, rules, ids_max)
    for lists, (known, found) in inside.items():
        for one in _with_ids(found, rules.within(lists)):
            yield msgspec.structs.replace(in_lists(lists, one, known.attributes), events=events)


def _misfits(numbers: Mapping[str, int], observed: Observed, schema: Schema) -> list[Disagreement]:
    names = [name for name in numbers if not is_computed(name)]
    counts = observed.counts(len(numbers))
    found = []
    for name in sorted({*names, *observed.names}):
        number = numbers.get(name)
        families = {} if number is None else _seen(counts[number], observed, name).families
        attribute = schema.attributes.get(name)
        if attribute is None:
            # An empty record, or null in its place, is none of its attributes.
            is_there = name in observed.names and not fields_of(name, schema.attributes)
            if not schema.is_open and (families or is_there):
                meant = suggestion(name, schema.attributes)
                found.append(_of_events(name, "unlisted", families, observed, suggestion=meant))
            continue
        others = {family: count for family, count in families.items() if family not in attribute.families}
        if others and attribute.is_matchable:
            example = "" if number is None else observed.example(number, min(others))
            found.append(_of_events(name, "misfit", others, observed, detail=attribute.type, example=example))
    return found


def _values(snapshot: "Snapshot | PlainSnapshot", schema: Schema) -> list[Disagreement]:
    """Values that the schema does not list, of attributes that filters name, in a sample of the events."""
    listed = {
        snapshot.names[name]: name
        for name, one in schema.attributes.items()
        if one.values is not None and name in snapshot.names
    }
    batch = snapshot.sample.batch(snapshot.names) if listed else None
    if batch is None:
        return []
    attribute, state = batch.value_attribute[batch.entries], batch.value_state[batch.entries]
    found = []
    for number, name in listed.items():
        asked = schema.attributes[name]
        states = [one for one, family in FAMILY_OF_STATE.items() if family in asked.families and one != LIST]
        places = batch.entries[(attribute == number) & np.isin(state, states)].tolist()
        others = [value for value in (value_of(batch, at) for at in places) if not asked.lists(value)]
        if others:
            counts = Counter(family_of(value) for value in others)
            seen = {family.label: counts[family] for family in sorted(counts)}
            example = shown(next(value for value in others if family_of(value) is min(counts)))
            events, detail = len(batch.start), listed_by(asked)
            found.append(
                Disagreement(name, "value", (), seen, 0, (), events=events, detail=detail, example=example)
            )
    return found


def _with_rules(
    snapshot: "Snapshot | PlainSnapshot", found: list[Disagreement], ids_max: int
) -> list[Disagreement]:
    """Misfits with the rules that name their attributes."""
    numbers = {snapshot.names[one.attribute]: one for one in found if one.problem in _OF_VALUES}
    if not numbers:
        return found
    wanted = np.zeros(len(snapshot.names), np.bool_)
    wanted[list(numbers)] = True
    rules = Rules(ids_max)
    for number, _mask, ids in _rules(snapshot, wanted):
        some = [snapshot.ids.get(int(one)) for one in ids[:ids_max]]
        rules.add_many(numbers[number].attribute, "misfit", (), some, len(ids))
    return _with_ids(found, rules)


def _with_ids(found: list[Disagreement], rules: Rules) -> list[Disagreement]:
    known = {one.attribute: one for one in rules.report(())}
    return [
        msgspec.structs.replace(one, rules=known[one.attribute].rules, ids=known[one.attribute].ids)
        if one.problem in _OF_VALUES and one.attribute in known
        else one
        for one in found
    ]


def _of_events(
    name: str, problem: Problem, families: dict[Family, int], observed: Observed, **more: Any
) -> Disagreement:
    seen = {family.label: count for family, count in sorted(families.items())}
    return Disagreement(name, problem, (), seen, 0, (), events=observed.events, **more)


def disagreements_by(
    snapshot: "Snapshot | PlainSnapshot", schema: Schema, basis: Basis = "schema"
) -> list[Disagreement]:
    """What the filters and a schema disagree about, in the order of attributes."""
    names = list(snapshot.names)
    wanted = np.zeros(len(names), np.bool_)
    for number, kinds in _asked(snapshot, len(names)).items():
        attribute = schema.attributes.get(names[number])
        # What all filters together ask for may fit although that of one does not.
        wanted[number] = any(problem_by(schema, names[number], {kind}) for kind in kinds) or attribute is None
    rules = Rules()
    if wanted.any():
        for number, mask, ids in _rules(snapshot, wanted):
            kinds = _kinds_of(mask)
            problem = problem_by(schema, names[number], kinds)
            if problem is not None:
                keys = (snapshot.ids.get(int(one)) for one in ids[:IDS_SHOWN])
                rules.add_many(names[number], problem, kinds, keys, len(ids))
    look_inside_by(snapshot, schema, rules, IDS_SHOWN)
    return report_by(schema, rules, basis)


def _shown(seen: _Seen, problems: list[Problem], kinds: set[Kind]) -> dict[str, int]:
    """The families to report: of a mixed attribute, those that no rule asks for."""
    if problems == ["texts"]:
        return {Family.STRING.label: seen.kept}
    is_mixed = "mixed" in problems
    families = sorted(seen.families.items())
    return {family.label: count for family, count in families if not (is_mixed and family in kinds)}


def _seen(counts: NDArray[np.int64], observed: Observed, name: str) -> _Seen:
    return _Seen(families_of_states(counts), observed.skipping.count(name), name in observed.names)


def _problems(name: str, kinds: set[Kind], seen: _Seen, known: set[str]) -> list[Problem]:
    """What there may be to say about an attribute, by all that is asked of it."""
    found: list[Problem] = ["skipped"] if seen.skipped else []
    compared = {kind for kind in kinds if isinstance(kind, Family)}
    if not seen.families:
        # A name that events do have, with null, is not misspelt.
        is_record = bool(fields_of(name, known))
        is_slip = kinds != {Presence.ABSENT} or is_record or suggestion(name, known) is not None
        if is_slip and not seen.skipped and (is_record or not seen.is_known):
            found.append("unknown")
        elif not seen.skipped and kinds != {Presence.ABSENT}:
            found.append("null")
    elif compared - seen.families.keys():
        # Unless each rule has an alternative that fits, which is looked at later.
        found.append("family")
    elif compared and Presence.EXISTS not in kinds and seen.families.keys() - compared:
        found.append("mixed")
    return found


def _other_shape(name: str, kinds: set[Kind], seen: _Seen, known: set[str], observed: Observed) -> str:
    """How some events have an attribute that others have as rules take it: a list that is a record there, or
    an attribute of a record that is a list there. A list beside such names is neither."""
    if Family.LIST in seen.families and not kinds.isdisjoint(_OF_LISTS):
        fields = () if name in observed.beside else fields_of(name, known)
        return f"{name!r:.80} is a record in some events; it has {', '.join(fields)}" if fields else ""
    return of_records(name, observed.lists.keys() - observed.beside, " in some events")


def _is_sure(problem: Problem, looked: int, observed: Observed, patience: int) -> bool:
    """Whether an attribute was looked for in enough events to say so."""
    if problem == "null" and looked < observed.events:
        # Before, it may have had values, which nobody counted.
        return False
    return looked >= patience or problem not in ("unknown", "family", "null")


def _concerns(problem: Problem, kinds: set[Kind], seen: _Seen, has_shapes: bool) -> bool:
    """Whether a rule that asks for this is one of those concerned. `has_shapes`: see `_other_shape`."""
    if problem == "family":
        return is_in_vain(kinds, seen.families)
    if problem == "texts":
        return Family.TIME in kinds
    if problem == "null":
        return kinds != {Presence.ABSENT}
    return problem != "mixed" or has_shapes or any(isinstance(kind, Family) for kind in kinds)


def _kinds_of(mask: int) -> set[Kind]:
    return {_KIND_OF[bit] for bit in _KIND_OF if mask >> bit & 1}


def _asked(
    snapshot: "Snapshot | PlainSnapshot",
    attributes: int,
    inside: Callable[[Behind], None] = lambda _behind: None,
) -> dict[int, set[Kind]]:
    """What living filters ask for of each attribute, by number. `inside` is shown what computed attributes
    stand for."""
    pairs: NDArray[np.int64] = np.zeros(attributes * _KINDS, np.int64)
    found: dict[int, set[Kind]] = {}
    for _ids, attribute, kind in conditions_of(snapshot):
        some = np.bincount(attribute.astype(np.int64) * _KINDS + kind, minlength=len(pairs))
        pairs += some[: len(pairs)]
    for pair in np.flatnonzero(pairs).tolist():
        known = _KIND_OF.get(pair % _KINDS)
        if known is not None:
            found.setdefault(pair // _KINDS, set()).add(known)
    # A copy: names come while this is looked at.
    names = list(snapshot.names.items())
    computed = [number for name, number in names if number in found and is_computed(name)]
    texts = list(snapshot.names)
    for number in computed:
        del found[number]
        asked = behind(texts[number])
        inside(asked)
        for name, kinds in asked.kinds.items():
            found.setdefault(snapshot.names[name], set()).update(kinds)
    return found


def families_of(snapshot: "Snapshot | PlainSnapshot") -> dict[Place, set[Family]]:
    """The families that living filters compare attributes with, and those of elements of lists."""
    names = list(snapshot.names)
    found: dict[Place, set[Family]] = {}

    def see(asked: Behind) -> None:
        for place, families in asked.families.items():
            if not isinstance(place, str):
                found.setdefault(place, set()).update(families)

    for number, kinds in _asked(snapshot, len(names), see).items():
        if number < len(names):
            found[names[number]] = {kind for kind in kinds if isinstance(kind, Family)}
    return found


def text_rules(snapshot: "Snapshot | PlainSnapshot", places: Collection[Place]) -> dict[Place, Id]:
    """For each of some places a rule that compares it with a string, if there is one."""
    names, lists = split(places)
    numbers = {snapshot.names[name]: name for name in names if name in snapshot.names}
    wanted = np.zeros(len(snapshot.names), np.bool_)
    wanted[list(numbers)] = True
    found: dict[Place, Id] = {}
    for number, mask, ids in _rules(snapshot, wanted) if numbers else ():
        if Family.STRING in _kinds_of(mask):
            found.setdefault(numbers[number], snapshot.ids.get(int(ids[0])))

    def judge(lists: Lists, name: str, kinds: set[Kind]) -> Problem | None:
        return "texts" if Family.STRING in kinds and (*lists, name) in places else None

    rules = Rules(1)
    if lists:
        look_inside(snapshot, judge, rules, 1)
    for above, some in rules.inside.items():
        found.update({(*above, one.attribute): one.ids[0] for one in some.report(())})
    return found


def _rules(
    snapshot: "Snapshot | PlainSnapshot", wanted: NDArray[np.bool_]
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """For each attribute wanted, and each set of kinds that rules ask of it: these rules, by number of id."""
    computed = {
        number: kinds
        for name, number in list(snapshot.names.items())
        if number < len(wanted)
        if is_computed(name)
        if (kinds := _wanted_kinds(name, snapshot, wanted))
    }
    is_open = wanted.copy()
    is_open[list(computed)] = True
    keys: list[NDArray[np.int64]] = []
    bits: list[NDArray[np.int64]] = []
    for ids, attribute, kind in conditions_of(snapshot):
        some = np.flatnonzero(is_open[attribute])
        owner, number = ids[some].astype(np.int64), attribute[some].astype(np.int64)
        mask = np.int64(1) << kind[some].astype(np.int64)
        plain = wanted[number]
        keys.append((number << 32 | owner)[plain])
        bits.append(mask[plain])
        # Not what nothing can match, which stands under the first of all attributes.
        for at in np.flatnonzero(~plain & (mask & _KNOWN > 0)).tolist():
            inner = computed[int(number[at])]
            keys.append(np.array([other << 32 | int(owner[at]) for other in inner], np.int64))
            bits.append(np.array(list(inner.values()), np.int64))
    if not keys:
        return
    key, bit = np.concatenate(keys), np.concatenate(bits)
    bit &= _KNOWN
    key, bit = key[bit > 0], bit[bit > 0]
    order = np.argsort(key, kind="stable")
    key, bit = key[order], bit[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.zeros(0, np.int64)
    masks = np.bitwise_or.reduceat(bit, first) if len(first) else bit
    numbers, owners = key[first] >> 32, key[first] & 0xFFFFFFFF
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        for mask_of in np.unique(masks[mine]).tolist():
            yield number, mask_of, owners[mine & (masks == mask_of)]


def _wanted_kinds(
    name: str, snapshot: "Snapshot | PlainSnapshot", wanted: NDArray[np.bool_]
) -> dict[int, int]:
    """Of what a computed attribute stands for: the attributes wanted, and the kinds asked for as bits."""
    found = {}
    for inner, kinds in behind(name).kinds.items():
        number = snapshot.names[inner]
        if number < len(wanted) and wanted[number]:
            found[number] = sum(1 << int(kind) for kind in kinds)
    return found


def conditions_of(
    snapshot: "Snapshot | PlainSnapshot",
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]]:
    """The conditions of living filters, some at a time: number of the id, number of the attribute, kind."""
    for part in snapshot.parts:
        for positions, offsets, attribute, kind in part.conditions(snapshot.names):
            owner = np.repeat(part.ids[positions], np.diff(offsets))
            yield owner, attribute, kind
