"""Filters with clauses in the matcher: it finds what the reference finds, in every form of events."""

import itertools
import json
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clause_cases import clauses_of, independent, keeping
from matching_cases import IDS, Attributes
from penstock import Event, Matcher, Predicate, parse
from penstock.errors import InputError, PenstockError, UnknownSubscriptionError
from penstock.filters.expression import Expression, normalise
from penstock.filters.languages import sql
from penstock.matching import computed
from penstock.matching.computed import is_computed, name_of
from penstock.matching.encode import batch_of_events
from penstock.matching.reference import ReferenceMatcher
from penstock.model.names import Id
from penstock.model.packed import encode_event
from strategies import NUMBERS, plain_constraints

FEW = ("a", "b", "c.d")
VALUES = st.one_of(st.sampled_from(NUMBERS[:6]), st.sampled_from(["a", "ab", "b"]), st.booleans())
SIMPLE = st.lists(
    st.dictionaries(st.sampled_from((*FEW, "other")), VALUES, min_size=1), min_size=1, max_size=12
)


def nested(event: dict[str, object]) -> dict[str, object]:
    """The event with `c.d` as an object."""
    made = {name: value for name, value in event.items() if name != "c.d"}
    return made | {"c": {"d": event["c.d"]}} if "c.d" in event else made


def packed(events: Iterable[dict[str, object]]) -> tuple[bytes, list[int]]:
    encoded = [encode_event(Event(nested(event))) for event in events]
    return b"".join(encoded), [0, *itertools.accumulate(map(len, encoded))]


@pytest.mark.property
@given(
    st.lists(
        st.tuples(IDS, clauses_of(plain_constraints(FEW, (NUMBERS[:6], ("a", "ab", "b"))))),
        min_size=1,
        max_size=4,
    ),
    SIMPLE,
)
def test_every_form_of_events_finds_what_the_reference_finds(
    subscriptions: list[tuple[Id, Expression]], events: list[dict[str, object]]
) -> None:
    with keeping():
        given_ = [(key, normalise(expression)) for key, expression in subscriptions]
        reference, matcher = ReferenceMatcher(given_), Matcher(given_)
        expected = [reference.match(nested(event)) for event in events]
        assert list(matcher.match_batch(list(map(nested, events)))) == expected
        assert [matcher.match(nested(event)) for event in events] == expected
        lines = "\n".join(json.dumps(nested(event)) for event in events).encode()
        assert list(matcher.match_json(lines)) == expected
        assert list(matcher.match_packed(*packed(events))) == expected
        numbers = [{n: v for n, v in event.items() if type(v) in (int, float)} for event in events]
        some = [event for event in numbers if event]
        table = pa.table({n: pa.array([e.get(n) for e in some], pa.float64()) for n in (*FEW, "other")})
        assert list(matcher.match_batch(table)) == [reference.match(nested(event)) for event in some]
        stats = matcher.stats(list(map(nested, events)))
        assert stats.matches_per_event >= 0


@pytest.fixture
def eu() -> Predicate:
    return parse(independent(40))


def good(**others: object) -> dict[str, object]:
    return {"region": "eu"} | {f"{n}{i}": i % 2 + (n == "b") for n in "ab" for i in range(40)} | others


def test_rows_that_are_no_events_stay_none(eu: Predicate) -> None:
    matcher = Matcher([("eu", eu), (1, "region = 'eu'")])
    rows = [None, good(), good(b1=1), {"other": 1}, None]
    assert list(matcher.match_batch(rows)) == [[], [1, "eu"], [1], [], []]
    assert list(matcher.match_batch([])) == []


def found(match: Callable[[], Iterable[list[Id]]]) -> list[list[Id]]:
    """What is found, which is nothing where the event is refused."""
    try:
        return list(match())
    except PenstockError as error:
        assert "NAME_LENGTH_MAX" in str(error)
        return [[]]


def test_no_event_can_claim_to_match(eu: Predicate) -> None:
    matcher = Matcher([("eu", eu)])
    name = name_of(eu.filters[0])
    assert is_computed(name)
    number = matcher.names[name]
    for claimed in (name, computed.unread(number), f"{name}.{name}"):
        bad = good(b1=1) | {claimed: True}
        table = pa.table({n: [v] for n, v in bad.items()})
        lines = json.dumps(bad).encode()
        assert found(partial(matcher.match_batch, [bad])) == [[]]
        assert found(partial(matcher.match_batch, table)) == [[]]
        assert found(partial(matcher.match_json, lines)) == [[]]
    # Whatever a batch has under that number is not looked at.
    batch = batch_of_events([good(b1=1), good()], matcher.names)
    completed = matcher._store.snapshot().completed(batch)
    assert list(matcher.match_encoded(completed)) == [[], ["eu"]]
    # The last value of the second event says that it matches; now the first event has it, too.
    entries = completed.entries.copy()
    assert completed.value_attribute[entries[-1]] == number
    entries[0] = entries[-1]
    assert matcher.match_encoded(completed._replace(entries=entries))[0] == []


def test_attributes_of_removed_clauses_are_forgotten(eu: Predicate) -> None:
    matcher = Matcher([("eu", eu), ("x", "x = 1")])
    assert {"region", "a7", "b39", "x"} <= matcher.names.keys()
    assert matcher.filters("eu") == list(eu.filters)
    matcher.compact()
    assert {"region", "a7", "b39", "x"} <= matcher.names.keys()
    assert matcher.match(good(x=1)) == ["eu", "x"]
    with pytest.raises(UnknownSubscriptionError):
        matcher.remove("eu", parse(independent(41)))
    matcher.remove("eu", eu)
    matcher.compact()
    assert matcher.names.keys() == {"x"}
    assert matcher.match(good(x=1)) == ["x"]


def test_an_explanation_shows_the_whole_filter(eu: Predicate) -> None:
    matcher = Matcher([("eu", eu)])
    (one,) = matcher.explain(good())
    assert (one.id, one.filter) == ("eu", eu.filters[0])
    assert "a7 != 1 or b7 != 1" in str(one)
    assert matcher.stats([good(), good(b1=1)]).matches_per_event == 0.5


def test_many_filters_with_clauses_come_and_go_one_by_one() -> None:
    matcher = Matcher()
    texts = [independent(12).replace("'eu'", f"'r{i}'") for i in range(40)]
    for i, text in enumerate(texts):
        matcher.add(i, text)
        assert matcher.match(good(region=f"r{i}")) == [i]
        assert matcher.match(good(region=f"r{i}", b1=1)) == []
    for i in range(0, 40, 2):
        matcher.remove(i)
    assert [matcher.match(good(region=f"r{i}")) for i in range(40)] == [
        [i] if i % 2 else [] for i in range(40)
    ]


def test_a_saved_table_with_a_filter_that_cannot_be_read_is_refused(
    eu: Predicate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        Matcher([("eu", eu)]).save(path)
        assert Matcher.load(path).match(good()) == ["eu"]
        monkeypatch.setattr(computed, "_REMEMBERED_FILTERS", computed._Remembered())
        manifest = path / "manifest.json"
        manifest.write_text(manifest.read_text().replace("a7 != 1 or", "a7 !! 1 or"))
        with pytest.raises(InputError):
            Matcher.load(path)


@pytest.mark.property
@given(SIMPLE)
def test_batches_without_clauses_are_left_as_they_are(events: list[Attributes]) -> None:
    matcher = Matcher([("a", "x = 1")])
    snapshot = matcher._store.snapshot()
    (batch,) = matcher._batches(events, "refuse", snapshot)
    assert snapshot.completed(batch) is batch


@pytest.mark.property
@given(
    st.lists(clauses_of(plain_constraints(FEW, (NUMBERS[:6], ("a", "ab", "b")))), min_size=1, max_size=6),
    SIMPLE,
    st.booleans(),
)
def test_what_comes_one_by_one_is_found_in_deltas_of_any_size(
    expressions: list[Expression], events: list[dict[str, object]], long: bool
) -> None:
    with keeping(), pytest.MonkeyPatch.context() as patch:
        for limit in ("_DELTA_MAX", "_DELTA_LONG_MAX"):
            patch.setattr(computed, limit, 5)
        patch.setattr(computed, "_COMPILED", 12)
        reference, matcher = ReferenceMatcher[int](), Matcher()
        given_ = [nested(event) | ({"text": "x" * 300} if long else {}) for event in events]
        for key, expression in enumerate([parse("text like '%xx'"), *map(normalise, expressions)]):
            reference.add(key, expression)
            matcher.add(key, expression)
            assert list(matcher.match_batch(given_)) == [reference.match(event) for event in given_]


def test_a_filter_that_comes_has_no_earlier_one_parsed_or_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher, read, sizes = Matcher(), list[str](), list[int]()
    group = computed._group

    def counted(known: Any, *rest: Any) -> Any:
        sizes.append(len(known))
        return group(known, *rest)

    monkeypatch.setattr(sql, "parse_kept", read.append)
    monkeypatch.setattr(computed, "_group", counted)
    for i in range(40):
        matcher.add(i, independent(12).replace("'eu'", f"'r{i}'"))
        assert matcher.match(good(region=f"r{i}")) == [i]
    assert read == []
    assert sizes == [1] * 40


def test_a_large_box_is_not_repeated_with_each_alternative() -> None:
    box = " and ".join(f"c{i} = {i}" for i in range(100))
    clauses = " and ".join(f"({' or '.join(f'd{i}_{j} = 1' for j in range(20))})" for i in range(10))
    predicate = parse(f"{box} and {clauses}")
    assert len(predicate.filters[0].clauses) == 10
    (known,) = [computed._alternatives(f) for f in predicate.filters]
    assert len(known.builder._sets) <= 100 + 200 * (computed._GUARDS + 1)
    matcher = Matcher([("large", predicate)])
    event = {f"c{i}": i for i in range(100)} | {f"d{i}_{i}": 1 for i in range(10)}
    assert matcher.match(event) == ["large"]
    # Every condition of the box is tested, not only those that are tested first.
    assert all(matcher.match(event | {f"c{i}": -1}) == [] for i in range(100))
    assert all(matcher.match(event | {f"d{i}_{i}": 0}) == [] for i in range(10))
