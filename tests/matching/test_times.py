"""Text that is a time is one where rules or a schema say time, in every form of input."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cold_kernels import Cold
from penstock.filters.asked import times_in
from penstock.filters.parsing import parse
from penstock.matching.matcher import Matcher
from penstock.matching.reference import ReferenceMatcher
from penstock.matching.times import TimeTexts, times_of
from penstock.model.events import Event
from penstock.model.names import Id
from penstock.model.packed import encode_event
from penstock.model.schema import Schema
from penstock.model.values import Time, time_in

pytestmark = pytest.mark.usefixtures("warm_kernels")

# Texts

DIGITS = "{:04}-{:02}-{:02}".format
DATES = st.builds(
    DIGITS,
    st.sampled_from([0, 1, 1677, 1678, 1900, 1969, 1970, 2000, 2023, 2024, 2100, 2261, 2262, 9999]),
    st.integers(0, 13),
    st.integers(0, 32),
)
CLOCKS = st.builds("{:02}:{:02}".format, st.integers(0, 25), st.integers(0, 61))
SECONDS = st.builds(":{:02}".format, st.integers(0, 61))
FRACTIONS = st.text("0123456789", min_size=0, max_size=10).map(".{}".format)
ZONES = st.sampled_from(
    ["", "Z", "z", "+01:00", "-0530", "-23:59", "+24:00", "+01:60", " Z", " +00:00", "ZZ", "é"]
)
MOMENTS = st.one_of(
    DATES,
    st.builds("{}{}{}{}".format, DATES, st.sampled_from("Tt x"), CLOCKS, ZONES),
    st.builds("{}{}{}{}{}".format, DATES, st.sampled_from("Tt "), CLOCKS, SECONDS, ZONES),
    st.builds("{}{}{}{}{}{}".format, DATES, st.sampled_from("Tt "), CLOCKS, SECONDS, FRACTIONS, ZONES),
)
EDGES = [f"2262-04-11T23:47:{second}.{rest}Z" for second in (15, 16, 17) for rest in (854775807, 854775808)]
EDGES += [f"1677-09-21T00:12:{second}.{rest}" for second in (42, 43, 44) for rest in (145224191, 145224192)]


@pytest.mark.property
@given(st.lists(st.one_of(MOMENTS, st.sampled_from(EDGES), st.text(min_size=10, max_size=12)), max_size=60))
def test_texts_are_read_as_times_together_as_they_are_one_by_one(texts: list[str]) -> None:
    # Few are read one by one anyway.
    texts = [text for text in texts * 40 if 10 <= len(text.encode()) <= 36][:2_000]
    data = [text.encode() for text in texts]
    length = np.array([len(text) for text in data], np.int64)
    start = np.cumsum(length) - length
    arena = np.frombuffer(b"".join(data), np.uint8)
    nanoseconds, are_times = times_of(arena, start, length)
    expected = [time_in(text) for text in texts]
    assert are_times.tolist() == [time is not None for time in expected]
    assert nanoseconds[are_times].tolist() == [time.nanoseconds for time in expected if time is not None]


# Rules that say time

NAMES = st.sampled_from(["a", "b", "c.d"])
TESTS = st.sampled_from(
    [
        "> timestamp '2024-01-01'",
        "<= timestamp '2024-06-01T00:00:00Z'",
        "= date '2024-02-02'",
        "= '2024-02-02'",
        "like '%-02'",
        "like '2024-03%'",
        "> 5",
    ]
)
PLAIN = st.builds("{} {}".format, NAMES, st.one_of(TESTS, st.sampled_from(["is null", "is not null"])))
OF_ELEMENTS = st.one_of(
    st.builds("{} {}".format, st.sampled_from(["a", "b", "this"]), TESTS),
    st.builds("any({}) {}".format, st.sampled_from(["a", "this"]), TESTS),
)
ON_LISTS = st.builds(
    "{}any({} where {})".format,
    st.sampled_from(["", "not "]),
    NAMES,
    st.one_of(OF_ELEMENTS, st.lists(OF_ELEMENTS, min_size=2, max_size=2).map(" or ".join)),
)
CONDITIONS = st.one_of(PLAIN, PLAIN, ON_LISTS)
RULE = st.one_of(
    CONDITIONS,
    st.lists(CONDITIONS, min_size=2, max_size=3).map(" and ".join),
    st.lists(CONDITIONS, min_size=2, max_size=3).map(" or ".join),
)
CLAUSES = " and ".join(f"not (k{i} = 1 and m{i} = 1)" for i in range(12))
"""More than can be expanded: such a rule is found by a computed attribute."""
LONG = st.builds(f"({{}} or k0 = 3) and {CLAUSES}".format, CONDITIONS)
VALUES = st.sampled_from(
    [
        None,
        7,
        True,
        "",
        "x-02",
        "2024-02-02",
        "2024-02-30",
        "2024-07-01T00:00:00Z",
        "2024-03-03 05:00",
        Time(5),
    ]
)
ELEMENTS = st.one_of(
    VALUES,
    st.lists(VALUES, max_size=2),
    st.dictionaries(
        st.sampled_from(["a", "b", "this"]), st.one_of(VALUES, st.lists(VALUES, max_size=2)), max_size=2
    ),
)
EVENTS = st.lists(
    st.dictionaries(NAMES, st.one_of(VALUES, VALUES, st.lists(ELEMENTS, max_size=3))), min_size=1, max_size=4
)
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.one_of(RULE, LONG)), min_size=1, max_size=12)


def every_form(matcher: Matcher, events: Sequence[dict[str, object]]) -> list[list[list[Id]]]:
    """What events match, handed over in every way."""
    packed = [encode_event(Event(event)) for event in events]
    offsets = np.cumsum([0, *map(len, packed)])
    return [
        [list(matcher.match(event)) for event in events],
        list(matcher.match_batch(list(events))),
        list(matcher.match_packed(b"".join(packed), offsets)),
    ]


@pytest.mark.property
@given(CHANGES, EVENTS)
def test_rules_that_come_and_go_decide_which_texts_are_times(
    changes: list[tuple[int, str]], events: list[dict[str, object]]
) -> None:
    living: dict[int, str] = {}
    matcher = Matcher()
    with Cold():
        plain = Matcher()
    for key, text in changes:
        if key in living:
            for one in (matcher, plain):
                one.remove(key)
            del living[key]
        else:
            for one in (matcher, plain):
                one.add(key, text)
            living[key] = text
        if key == 5:
            matcher.compact()
        expected = times_in(f for text in living.values() for f in parse(text).filters)
        assert matcher.read_as_times == plain.read_as_times == expected
        reference = ReferenceMatcher((key, parse(text)) for key, text in living.items())
        found = [reference.match(event) for event in events]
        for answer in every_form(matcher, events):
            assert answer == found
        assert [plain.match(event) for event in events] == found


def test_a_single_removal_of_a_predicate_counts(tmp_path: Path) -> None:
    matcher = Matcher({"new": "at > timestamp '2024-01-01'"})
    matcher.add("new", "at = 'never'")
    assert matcher.match({"at": "2024-05-05"}) == []
    matcher.save(tmp_path / "rules")
    for one in (matcher, Matcher.load(tmp_path / "rules")):
        assert one.read_as_times == set()
        one.remove("new", "at = 'never'")
        assert one.match({"at": "2024-05-05"}) == ["new"]
        one.add("word", "at like 'n%'")
        assert one.match({"at": "2024-05-05"}) == []


@pytest.mark.property
@given(st.lists(RULE, min_size=1, max_size=6), st.lists(RULE, max_size=3), EVENTS)
def test_what_was_saved_reads_the_same_texts_as_times(
    rules: list[str], more: list[str], events: list[dict[str, object]]
) -> None:
    from tempfile import TemporaryDirectory

    matcher = Matcher(enumerate(rules))
    with TemporaryDirectory() as folder:
        matcher.save(f"{folder}/rules")
        loaded = Matcher.load(f"{folder}/rules")
    for at, text in enumerate(["x = 1", *more]):
        for one in (matcher, loaded):
            one.add(f"more {at}", text)
        assert loaded.read_as_times == matcher.read_as_times
        assert list(loaded.match_batch(events)) == list(matcher.match_batch(events))
    for one in (matcher, loaded):
        one.remove(0)
    assert loaded.read_as_times == matcher.read_as_times


def test_explain_and_why_read_as_matching_does() -> None:
    matcher = Matcher({"new": "at > timestamp '2024-01-01'", "other": "x = 1"})
    event = {"at": "2024-05-05T00:00:00Z"}
    assert [one.id for one in matcher.explain(event)] == ["new"]
    assert matcher.why("new", event).matches


# Schemas that say time

SCHEMA = Schema.from_json(
    {"properties": {"at": {"type": "string", "format": "date-time"}, "x": {"type": "number"}}}
)
LATE = {"late": "at >= timestamp '2024-01-02T00:00:00Z'"}
AT = ["2024-01-02", "2024-01-01T23:59:59.999999999Z", "2024-01-02T01:00:00+01:00", "soon", None]


def test_text_is_a_time_where_the_schema_says_so_in_every_form_of_input(tmp_path: Path) -> None:
    # The rules do not: one compares it with a string.
    rules = {"late": "at >= timestamp '2024-01-02T00:00:00Z' or at = 'soon'"}
    events: list[dict[str, object]] = [{"at": at} for at in AT]
    expected: list[list[Id]] = [["late"], [], ["late"], ["late"], []]
    matcher = Matcher(rules, schema=SCHEMA)
    matcher.save(tmp_path / "rules")
    with Cold():
        plain = Matcher(rules, schema=SCHEMA)
    columns = [
        pa.array(AT),
        pa.array(AT, pa.large_string()),
        pa.array(AT).dictionary_encode(),
        pa.array(AT, pa.string_view()),
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    for one in (matcher, Matcher.load(tmp_path / "rules"), plain):
        found = every_form(one, events)
        found += [list(one.match_batch(pa.table({"at": column}))) for column in columns]
        found.append(list(one.match_json(lines)))
        for answer in found:
            assert answer == expected


@pytest.mark.parametrize("compact", [False, True])
def test_why_names_the_rule_that_keeps_text_from_being_a_time(compact: bool) -> None:
    matcher = Matcher({**LATE, "open": "at = 'not yet' and x = 1"})
    if compact:
        matcher.compact()
    assert "because of rule open (at = 'not yet' and x = 1)" in str(matcher.why("late", {"at": "2024-05-05"}))
    assert "because" not in str(matcher.why("late", {"at": "soon"}))
    matcher.remove("open")
    assert str(matcher.why("late", {"at": "2024-05-05"})).startswith("matches")


def test_text_that_is_no_time_is_counted_as_a_misfit() -> None:
    matcher = Matcher(LATE, schema=SCHEMA)
    matcher.match_batch([{"at": at} for at in AT] * 3)
    assert [str(one) for one in matcher.disagreements() if one.problem == "misfit"] == [
        "3 of 15 events have a string in 'at', such as 'soon', but in the schema it is a time (date-time); "
        "rule late (at >= timestamp '2024-01-02T00:00:00Z') names it"
    ]


def test_another_schema_goes_before_the_one_that_was_saved(tmp_path: Path) -> None:
    Matcher({"any": "at is not null"}, schema=SCHEMA).save(tmp_path / "rules")
    assert Matcher.load(tmp_path / "rules").read_as_times == {"at"}
    text = Schema.from_json({"properties": {"at": {"type": "string"}}})
    loaded = Matcher.load(tmp_path / "rules", schema=text)
    assert loaded.read_as_times == set()


def test_who_matches_for_others_may_leave_rules_out_of_it() -> None:
    matcher = Matcher(LATE, texts=TimeTexts(by_rules=False))
    assert matcher.match({"at": "2024-05-05"}) == []
    assert [str(one) for one in matcher.disagreements()] == [
        "1 rule (late) compares 'at' with a time, but in the events it is a string (1 value): no event can "
        "match; text is read as a time where a schema says that it is one"
    ]
    matcher.texts = TimeTexts()
    assert matcher.match({"at": "2024-05-05"}) == ["late"]


# Rules that disagree


def test_rules_that_ask_for_times_and_strings_are_reported_where_text_would_be_a_time() -> None:
    both = {**LATE, "word": "at = 'soon'"}
    matcher = Matcher(both)
    matcher.match_json(b'{"at": "soon"}\n')
    assert [one.problem for one in matcher.disagreements()] == ["family"]
    matcher = Matcher({"one": "at >= timestamp '2024-01-02' or at = 'soon'"})
    matcher.match_batch([{"at": "soon"}] * 3)
    assert matcher.disagreements() == []
    for rules in (both, {"one": "at >= timestamp '2024-01-02' or at = 'soon'"}):
        for batch in ([{"at": "2024-05-05"}] * 40, [{"at": "2024-05-05"}]):
            matcher = Matcher(rules)
            assert list(matcher.match_batch(batch)) == [[]] * len(batch)
            found = matcher.disagreements()
            assert [(one.problem, one.rules, one.seen) for one in found] == [
                ("texts", 1, {"string": len(batch)})
            ]
            assert "with a time, and rules compare it with a string, too: text there is not read" in str(
                found[0]
            )
    matcher.match({"at": "2024-05-05"})
    assert matcher.disagreements()[0].seen == {"string": 2}
