"""What rules and events disagree about is found, counted and named; what fits is not."""

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.asked import Kind, kinds_in
from penstock.filters.disagreements import DisagreementWarning
from penstock.filters.parsing import parse
from penstock.filters.valuesets import Presence
from penstock.matching.matcher import Matcher
from penstock.model.events import Event
from penstock.model.packed import encode_event
from penstock.model.schema import Schema
from penstock.model.values import Family, Time, family_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

NAMES = ("aaa", "bbbb", "ccccc.dd")
"""Unlike each other, so that none is suggested for another."""

CONDITIONS = st.sampled_from(
    [
        f"{name} {condition}"
        for name in NAMES
        for condition in (
            "= true",
            "> 5",
            "!= 5",
            "< timestamp '2020-01-01'",
            "= 'x'",
            "like '%x'",
            "is null",
            "is not null",
        )
    ]
)
PARTS = st.lists(CONDITIONS, min_size=1, max_size=3).map(" and ".join)
RULES = st.lists(st.lists(PARTS, min_size=1, max_size=3).map(" or ".join), min_size=1, max_size=8)
VALUES = st.sampled_from([True, 5, 7.5, float("nan"), "x", "", Time(5)])
EVENTS = st.lists(
    st.dictionaries(st.sampled_from((*NAMES, "other")), VALUES, min_size=1), min_size=1, max_size=6
)

Report = dict[tuple[str, str], tuple[int, set[str], dict[str, int]]]


def expected(rules: Mapping[int, str], events: list[dict[str, object]]) -> Report:
    """The same, by looking at every rule and every value."""
    asked = {key: kinds_in(parse(text).filters) for key, text in rules.items()}
    found: Report = {}
    for name in NAMES:
        values = [Event(event).attributes[name] for event in events if name in event]
        seen = {
            family.label: sum(family_of(v) is family for v in values)
            for family in Family
            if any(family_of(v) is family for v in values)
        }
        mine: dict[int, set[Kind]] = {key: kinds[name] for key, kinds in asked.items() if name in kinds}
        every: set[Kind] = set().union(*mine.values())
        compared = {kind.label for kind in every if isinstance(kind, Family)}
        if not mine or (not values and every == {Presence.ABSENT}):
            continue
        if not values:
            found[name, "unknown"] = len(mine), compared, {}
        elif compared - seen.keys():
            vain = [
                labels
                for kinds in mine.values()
                if (labels := {k.label for k in kinds if isinstance(k, Family)})
                and not labels & seen.keys()
                and Presence.EXISTS not in kinds
            ]
            if vain:
                found[name, "family"] = len(vain), set().union(*vain), seen
        elif compared and Presence.EXISTS not in every and seen.keys() - compared:
            others = {label: count for label, count in seen.items() if label not in compared}
            comparing = [kinds for kinds in mine.values() if any(isinstance(k, Family) for k in kinds)]
            found[name, "mixed"] = len(comparing), compared, others
    return found


def reported(matcher: Matcher) -> Report:
    return {
        (one.attribute, one.problem): (one.rules, set(one.asked), one.seen) for one in matcher.disagreements()
    }


def matcher_of(rules: Mapping[int, str], *, compact: bool) -> Matcher:
    matcher = Matcher(rules)
    if compact:
        matcher.compact()
    return matcher


@pytest.mark.property
@given(RULES, EVENTS, st.booleans(), st.booleans())
def test_what_is_reported_is_what_looking_at_everything_finds(
    texts: list[str], events: list[dict[str, object]], compact: bool, one_by_one: bool
) -> None:
    rules = dict(enumerate(texts))
    matcher = matcher_of(rules, compact=compact)
    if one_by_one:
        for event in events:
            matcher.match(event)
    else:
        matcher.match_batch(events)
    assert reported(matcher) == expected(rules, events)


@pytest.mark.property
@given(RULES, EVENTS)
def test_all_forms_of_events_are_counted_alike(texts: list[str], events: list[dict[str, object]]) -> None:
    rules = dict(enumerate(texts))
    packed = [encode_event(Event(event)) for event in events]
    offsets = [0]
    for data in packed:
        offsets.append(offsets[-1] + len(data))
    matcher = matcher_of(rules, compact=False)
    matcher.match_packed(b"".join(packed), offsets)
    assert reported(matcher) == expected(rules, events)
    # JSON has no times and no NaN.
    plain = [{n: v for n, v in event.items() if not isinstance(v, Time) and v == v} for event in events]
    plain = [event for event in plain if event]
    matcher = matcher_of(rules, compact=False)
    matcher.match_json("".join(json.dumps(event) + "\n" for event in plain))
    if plain:
        assert reported(matcher) == expected(rules, plain)


def test_columns_of_arrow_are_counted_by_the_values_that_events_have() -> None:
    rules = {"a": "x > 5", "b": "y = 'q'", "c": "z > 5", "d": "word > 5"}
    rows = 30_000
    table = pa.table(
        {
            "x": pa.array([None, 7] * (rows // 2)),
            "y": pa.array([None] * rows, pa.string()),
            "Z": pa.array([1] * rows),
            "word": pa.array(["p", None, "q"] * (rows // 3)).dictionary_encode(),
        }
    )
    matcher = Matcher(rules)
    matcher.match_batch(table)
    # A column of nothing but nulls is there, and not misspelt.
    assert [str(one) for one in matcher.disagreements()] == [
        "1 rule (d) compares 'word' with a number, but in the events it is a string (20,000 values): "
        "no event can match",
        "'y', which 1 rule (b) names, is null in all 30,000 events",
        "none of 30,000 events has 'z', which 1 rule (c) names; did you mean 'Z'?",
    ]


def test_values_that_were_left_out_are_counted_with_the_reason() -> None:
    matcher = Matcher({"a": "x > 5", "b": "blob = 'x'"})
    matcher.match_batch([{"x": 2**70, "y": 1}, {"x": 6}, {"blob": b"x", "other": b"y"}], unsupported="skip")
    matcher.match_batch(pa.table({"blob": [b"x", None, b"y"], "y": [1, 2, 3]}), unsupported="skip")
    found = {one.attribute: one for one in matcher.disagreements()}
    assert {name: (one.problem, one.skipped) for name, one in found.items()} == {
        "x": ("skipped", 1),
        "blob": ("skipped", 3),
    }
    assert "64-bit" in found["x"].detail
    assert "bytes" in found["blob"].detail


def test_rules_that_have_been_removed_are_not_reported() -> None:
    matcher = Matcher(dict.fromkeys(range(10), "amuont > 5"))
    matcher.add("good", "amount > 5")
    matcher.match({"amount": 7})
    assert [one.rules for one in matcher.disagreements()] == [10]
    matcher.remove_many(range(9))
    assert [(one.rules, one.ids) for one in matcher.disagreements()] == [(1, (9,))]
    matcher.remove(9)
    matcher.compact()
    assert matcher.disagreements() == []


def test_counts_survive_that_attributes_are_numbered_anew() -> None:
    matcher = Matcher({n: f"a{n} = 1" for n in range(100)})
    matcher.match_batch([{f"a{n}": 1, "x": 5} for n in range(0, 100, 2)])
    matcher.remove_many(range(50))
    matcher.compact()
    matcher.add("x", "xx = 1")
    odd = {f"a{n}" for n in range(51, 100, 2)}
    assert {one.attribute for one in matcher.disagreements()} == odd
    matcher.match({"x": 1})
    assert {one.attribute for one in matcher.disagreements()} == {*odd, "xx"}


def test_filters_kept_with_clauses_are_looked_into() -> None:
    pairs = " and ".join(f"not (a{n} = 1 and b{n} = 1)" for n in range(40))
    matcher = Matcher({"r": f"kind = 'x' and {pairs}", "s": "kind = 'y'"})
    matcher.match({f"{name}{n}": 1 for n in range(40) for name in "ab"} | {"kind": "x"})
    assert matcher.disagreements() == []
    matcher = Matcher({"r": f"kind = 'x' and {pairs}"})
    matcher.match({f"{name}{n}": 1 for n in range(39) for name in "ab"} | {"kind": "x", "a39": "1", "B39": 1})
    found = {one.attribute: (one.problem, one.rules, one.suggestion) for one in matcher.disagreements()}
    assert found == {"a39": ("family", 1, None), "b39": ("unknown", 1, "B39")}


FORMS: dict[str, Callable[[Matcher, list[dict[str, object]]], object]] = {
    "one by one": lambda matcher, events: [matcher.match(event) for event in events],
    "few": lambda matcher, events: [
        matcher.match_batch(events[at : at + 9]) for at in range(0, len(events), 9)
    ],
    "many": lambda matcher, events: matcher.match_batch(events),
    "json": lambda matcher, events: matcher.match_json("\n".join(map(json.dumps, events))),
    "arrow": lambda matcher, events: matcher.match_batch(
        pa.table({name: [event.get(name) for event in events] for name in ("x", "y")})
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("value", "family"), [("n/a", "string"), ([1], "list"), (False, "bool")])
def test_a_rare_value_of_another_family_is_told_with_a_rule_that_it_escapes(
    form: str, value: object, family: str
) -> None:
    if form == "arrow":
        # A column has one type: the rules compare it with two.
        events: list[dict[str, object]] = [{"x": None, "y": n} for n in range(6_000)]
        events[5_000]["x"] = value
        rules = {"late": "y > 5 and x > 60", "b": "x > 70 or x is null", "n": "y < 5"}
        matcher = Matcher(
            rules, schema=Schema.from_json({"properties": {"x": {"type": "number"}, "y": {}, "aa": {}}})
        )
        expected = "; 2 rules, such as late (x > 60 and y > 5), name it"
        problem = "misfit"
    else:
        events = [{"x": 5.5, "y": n} for n in range(6_000)]
        events[5_000] = {"x": value}
        matcher = Matcher({"late": "y > 5 and x > 60", "b": "x > 70", "n": "y < 5"})
        expected = (
            "; 2 rules, such as late (x > 60 and y > 5), compare it with a number only, and never match there"
        )
        problem = "mixed"
    FORMS[form](matcher, events)
    (found,) = [one for one in matcher.disagreements() if one.problem == problem]
    shown = "" if isinstance(value, list) else repr(value)
    head = f"1 of 6,000 events has a {family} in 'x'" + (f", such as {shown}" if shown else "")
    middle = ", but in the schema it is number" if problem == "misfit" else ""
    hint = "; any(x) = … asks for an element, as '…' in x does" if problem == "mixed" and not shown else ""
    assert str(found) == head + middle + expected + hint
    assert (found.example, found.rule, found.events) == (shown, "x > 60 and y > 5", 6_000)
    matcher.add("more", "aa = 1")
    matcher.compact()
    (found,) = [one for one in matcher.disagreements() if one.problem == problem]
    assert found.example == shown


@pytest.mark.parametrize("form", [*FORMS, "packed"])
def test_a_rule_that_takes_a_list_of_records_for_a_record_is_told_how_to_ask(form: str) -> None:
    events: list[dict[str, object]] = [{"x": 1, "y": 2, "order": {"items": [{"sku": "A7"}]}}]
    matcher = Matcher({"a": "order.items.sku = 'A7'", "b": "x.sku = 'A7'"})
    if form == "arrow":
        matcher.match_batch(pa.Table.from_pylist(events))
    elif form == "packed":
        packed = encode_event(Event(events[0]))
        matcher.match_packed(packed, [0, len(packed)])
    else:
        FORMS[form](matcher, events)
    matcher.compact()
    assert [str(one) for one in matcher.disagreements()] == [
        "none of 1 event has 'order.items.sku', which 1 rule (a) names; "
        "'order.items' is a list: any(order.items where sku = …)",
        "none of 1 event has 'x.sku', which 1 rule (b) names",
    ]


def test_what_tells_is_the_events_where_there_is_no_schema() -> None:
    matcher = Matcher({"a": "x > 5", "b": "z = 'a'"})
    matcher.match_batch([{"x": "5", "y": 1}])
    assert {one.basis for one in matcher.disagreements()} == {"events"}
    schema = Schema.from_json({"properties": {"y": {"type": "number"}}})
    assert {one.basis for one in matcher.check(schema)} == {"schema"}


@pytest.mark.parametrize("compact", [False, True])
def test_a_number_that_no_double_is_is_never_in_json_and_reported(compact: bool) -> None:
    rules = {
        "a": "x = 0.1000000000000000001",
        "b": "y > 0 and x in (0.1000000000000000001, 12345678901234567.89)",
        "c": "x in (0.1000000000000000001, 5)",
        "d": "x > 0.1000000000000000001 and x != 0.3000000000000000001",
        "e": "z = 0.1000000000000000001",
        "f": "x = 0.1000000000000000001 or y = 7",
    }
    matcher = Matcher(rules)
    if compact:
        matcher.compact()
    matcher.match_json('{"x": 0.1000000000000000001, "y": 5}\n{"x": 5}\n')
    found = [one for one in matcher.disagreements() if one.problem == "inexact"]
    assert [str(one) for one in found] == [
        "3 rules (a, b, f) ask for 'x' = 0.1000000000000000001, which no double is: numbers in JSON are "
        "doubles, and never equal it"
    ]
    # Other events may have such numbers.
    matcher.match({"x": 5})
    assert [one.problem for one in matcher.disagreements() if one.problem == "inexact"] == []


def test_before_any_event_there_is_nothing_to_disagree_about() -> None:
    assert Matcher({"a": "x > 5"}).disagreements() == []
    assert Matcher().disagreements() == []


def test_an_attribute_is_looked_for_from_when_a_filter_names_it() -> None:
    matcher = Matcher({"a": "x = 1"})
    matcher.match_batch([{"x": 1, "y": 1}] * 10)
    # Events that came before were not looked into for it.
    matcher.add("b", "y = 1")
    assert matcher.disagreements() == []
    matcher.add("c", "z = 1")
    matcher.match_batch([{"x": 1}] * 5)
    assert [str(one) for one in matcher.disagreements()] == [
        "none of 5 events has 'z', which 1 rule (c) names",
    ]
    assert matcher.disagreements(patience=6) == []
    matcher.remove("a")
    matcher.compact()
    assert [one.events for one in matcher.disagreements()] == [5]


def warned(caught: pytest.WarningsRecorder) -> list[str]:
    found = [str(one.message) for one in caught if one.category is DisagreementWarning]
    caught.clear()
    return found


@pytest.mark.parametrize("form", ["batch", "json"])
def test_a_matcher_warns_once_of_each_disagreement_when_enough_events_have_come(
    form: str, recwarn: pytest.WarningsRecorder
) -> None:
    m = Matcher({"slip": "amuont > 5", "other": "country > 7", "good": "amount > 5"})

    def match(events: list[dict[str, object]]) -> None:
        if form == "batch":
            m.match_batch(events)
        else:
            m.match_json("\n".join(map(json.dumps, events)))

    match([{"amount": 1, "country": "US"}] * 999)
    assert warned(recwarn) == []
    match([{"amount": 1, "country": "US"}])
    assert [text.split("'")[1] for text in warned(recwarn)] == ["amuont", "country"]
    m.add("late", "cuontry = 'US'")
    # The next look is at four times as many.
    match([{"amount": 1, "country": "US"}] * 2999)
    assert warned(recwarn) == []
    match([{"amount": 1, "country": "US"}])
    assert [text.split("'")[1] for text in warned(recwarn)] == ["cuontry"]
    match([{"amount": 1, "country": "US"}] * 50_000)
    assert warned(recwarn) == []


def test_a_warning_can_be_an_error_and_can_be_left_out(
    recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    rows = [{"amount": 1}] * 1000
    quiet = Matcher({"slip": "amuont > 5"})
    quiet.warns = False
    quiet.match_batch(rows)
    quiet.save(tmp_path / "table")
    Matcher.load(tmp_path / "table", learn=False).match_batch(rows)
    assert warned(recwarn) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", DisagreementWarning)
        strict = Matcher({"slip": "amuont > 5"})
        with pytest.raises(DisagreementWarning, match="did you mean 'amount'"):
            strict.match_batch(rows)
        assert len(strict.match_batch(rows)) == 1000


def test_with_more_rules_than_events_nobody_waits_for_a_look(recwarn: pytest.WarningsRecorder) -> None:
    m = Matcher((n, f"gone = {n}") for n in range(1500))
    m.match_batch([{"x": 1}] * 1499)
    assert warned(recwarn) == []
    m.match_batch([{"x": 1}])
    assert len(warned(recwarn)) == 1


def test_summaries_and_explanations_tell_of_disagreements() -> None:
    m = Matcher({"slip": "amuont > 5", "good": "amount > 5"})
    summary = m.summary(m.match_batch([{"amount": 7}, {"amount": 1}]))
    told = "none of 2 events has 'amuont', which 1 rule (slip) names; did you mean 'amount'?"
    assert list(map(str, summary.disagreements)) == [told]
    assert str(summary).endswith(f"\n\nrules and events disagree:\n  {told}")
    (as_json,) = json.loads(json.dumps(summary.to_dict()))["disagreements"]
    assert (as_json["attribute"], as_json["problem"], as_json["text"]) == ("amuont", "unknown", told)
    assert (as_json["ids"], as_json["suggestion"], as_json["events"]) == (["slip"], "amount", 2)
    explained = m.explain({"amount": 7})
    assert [one.id for one in explained] == ["good"]
    assert str(explained) == f"good: amount > 5 (found by amount > 5)\n{told}"
    assert explained.disagreements == list(summary.disagreements)
    for shown in (summary, explained):
        assert "amuont" in shown._repr_html_()
    assert str(Matcher({"good": "amount > 5"}).explain({"amount": 7})).count("\n") == 0


def test_only_the_rules_asked_for_are_looked_into() -> None:
    m = Matcher({n: f"gone > {n}" for n in range(30)})
    m.match_batch([{"x": 1}])
    (found,) = m.disagreements(concerning=lambda key: int(key) % 2 == 0, ids_max=12)
    assert (found.rules, found.ids) == (15, tuple(range(0, 24, 2)))
    assert m.disagreements(concerning=lambda _key: False) == []


def test_patience_is_for_families_too_and_what_is_not_counted_is_not_seen() -> None:
    m = Matcher({"a": "x > 5", "b": "gone = 1"})
    data = encode_event(Event({"x": "text"}))
    for _ in range(2):
        m.match_packed(data * 2, [0, len(data), 2 * len(data)])
        m.match_packed(data, [0, len(data)], counted=False)
    assert m.observed.events == 4
    assert m.disagreements(patience=5) == []
    assert [one.problem for one in m.disagreements(patience=4)] == ["unknown", "family"]
