"""Without kernels a matcher gives the same answers: on every kind of input, and through all changes."""

import math

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cold_kernels import Cold
from matching_cases import EVENT, EVENTS, IDS, PREDICATE, SCALAR_EVENT, SUBSCRIPTIONS, Attributes
from penstock.errors import EventError, LimitError, PenstockError, UnknownSubscriptionError
from penstock.filters.expression import Expression, normalise
from penstock.filters.predicate import Predicate
from penstock.matching import plain
from penstock.matching.arrival import KERNELS
from penstock.matching.arrow_texts import texts_of
from penstock.matching.batch import Batch
from penstock.matching.json_events import WantedNames, read_json_lines
from penstock.matching.lines import Lines
from penstock.matching.matcher import Matcher
from penstock.matching.matches import Matches
from penstock.matching.packed_events import read_packed
from penstock.matching.plain import PlainStore
from penstock.matching.reference import ReferenceMatcher
from penstock.model.events import Event, Unsupported
from penstock.model.names import Id
from penstock.model.packed import encode_event
from penstock.model.values import Time

pytestmark = pytest.mark.property


@pytest.fixture(autouse=True)
def _warm() -> None:
    assert KERNELS.wait()


def predicates(subscriptions: list[tuple[Id, Expression]]) -> list[tuple[Id, Predicate]]:
    return [(key, normalise(expression)) for key, expression in subscriptions]


def plain_matcher(subscriptions: list[tuple[Id, Predicate]]) -> Matcher:
    with Cold():
        made = Matcher(subscriptions)
    assert isinstance(made._kept, PlainStore)
    return made


def is_plain(matcher: Matcher) -> bool:
    return isinstance(matcher._kept, PlainStore)


def told(matcher: Matcher) -> list[object]:
    """What it says of rules and events that disagree, but for what is in lists; rules in no order."""
    found = [one for one in matcher.disagreements() if "[]" not in one.attribute]
    return [(one.attribute, one.problem, one.rules, one.seen, one.events) for one in found]


def same(found: Matches, wanted: Matches) -> None:
    """The same ids for the same events, in every form that they can be asked for."""
    assert list(found) == list(wanted)
    assert found.offsets.dtype == wanted.offsets.dtype
    assert np.array_equal(found.offsets, wanted.offsets)
    assert found.numbers.dtype == wanted.numbers.dtype
    assert found.ids().dtype == wanted.ids().dtype
    assert found.to_arrow(ordered=True).equals(wanted.to_arrow(ordered=True))
    assert found.sorted().ids().tolist() == wanted.sorted().ids().tolist()


@given(SUBSCRIPTIONS, EVENTS)
def test_batches_and_single_events(
    subscriptions: list[tuple[Id, Expression]], events: list[Attributes]
) -> None:
    made = predicates(subscriptions)
    compiled, reference, cold = Matcher(made), ReferenceMatcher(made), plain_matcher(made)
    assert cold.names == compiled.names
    with Cold():
        found = cold.match_batch([*events, None])
        same(found, compiled.match_batch([*events, None]))
        assert told(cold) == told(compiled)
        assert [cold.match(event) for event in events] == [reference.match(event) for event in events]
        assert found.table.objects_of(found.numbers).tolist() == found.ids().tolist()
        assert is_plain(cold)
    # The same matcher goes over to kernels, and numbers everything as before.
    after = cold.match_batch([*events, None])
    assert not is_plain(cold)
    same(after, found)
    assert sorted(after.numbers.tolist()) == sorted(found.numbers.tolist())


@given(SUBSCRIPTIONS, EVENTS, st.integers(0, 12))
def test_kernels_that_come_in_the_middle_of_a_batch(
    subscriptions: list[tuple[Id, Expression]], events: list[Attributes], when: int
) -> None:
    made = predicates(subscriptions)
    cold, compiled = plain_matcher(made), Matcher(made)
    with Cold(), pytest.MonkeyPatch.context() as patch:
        # Having no budget left stands for kernels that come: the rest is done by them.
        patch.setattr(cold._kept, "work", plain.Work(20 * when))
        same(cold.match_batch(events), compiled.match_batch(events))


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), IDS, PREDICATE),
        st.tuples(st.just("remove"), IDS, st.none()),
        st.tuples(st.just("remove one"), IDS, PREDICATE),
        st.tuples(st.just("go over"), st.none(), st.none()),
    ),
    max_size=15,
)


@given(SUBSCRIPTIONS, CHANGES, EVENTS, st.booleans())
def test_any_interleaving_of_changes(
    subscriptions: list[tuple[Id, Expression]],
    changes: list[tuple[str, Id | None, Expression | None]],
    events: list[Attributes],
    often: bool,
) -> None:
    made = predicates(subscriptions)
    cold, compiled = plain_matcher(made), Matcher(made)
    with Cold(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_DEAD_MIN", 1 if often else 64)
        for what, key, expression in changes:
            before = cold.match_batch(events) if is_plain(cold) else None
            seen = None if before is None else list(before)
            done = [change(one, what, key, expression) for one in (cold, compiled)]
            assert done[0] == done[1]
            assert before is None or list(before) == seen
            same(cold.match_batch(events), compiled.match_batch(events))
            assert (cold.ids(), len(cold)) == (compiled.ids(), len(compiled))
            for held in cold.ids():
                assert sorted(map(str, cold.filters(held))) == sorted(map(str, compiled.filters(held)))
            assert [k in cold for k in ("alice", 1, 2.5)] == [k in compiled for k in ("alice", 1, 2.5)]


def change(matcher: Matcher, what: str, key: Id | None, expression: Expression | None) -> str:
    try:
        if what == "go over":
            assert matcher._store is matcher._kept
        elif what == "add":
            assert key is not None
            assert expression is not None
            matcher.add(key, normalise(expression))
        elif key is not None:
            matcher.remove(key, None if expression is None else normalise(expression))
    except UnknownSubscriptionError as error:
        return str(error)
    return "done"


def test_removing_many_is_all_or_nothing() -> None:
    for cold in (True, False):
        matcher = plain_matcher([]) if cold else Matcher()
        with Cold():
            matcher.add_many({"a": "x = 1", "b": "x = 2", 3: "x = 1"})
            cases: list[tuple[list[Id], str]] = [(["a", "c"], "under 'c'"), (["a", "b", "a"], "twice")]
            cases.append((["a", 4], "under 4"))
            for keys, wrong in cases:
                with pytest.raises(PenstockError, match=wrong):
                    matcher.remove_many(keys)
                assert matcher.ids() == [3, "a", "b"]
            matcher.remove_many(["a", 3])
            assert matcher.match({"x": 1}) == []
            assert is_plain(matcher) is cold


def test_the_form_of_ids_is_told_by_all_that_there_are() -> None:
    cases: list[tuple[list[Id], object]] = [(["a", 1], object), ([1, 2], np.int64)]
    for given_ids, kind in cases:
        cold = plain_matcher([(key, normalise_text("x = 1")) for key in given_ids])
        with Cold():
            found = cold.match_batch([{"x": 1}])
            assert found.ids().dtype == kind
            cold.remove_many(given_ids)
            assert cold.match_batch([{"x": 1}]).ids().dtype == kind


def normalise_text(text: str) -> Predicate:
    from penstock import parse

    return parse(text)


def test_too_many_attributes_are_refused_and_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.matching.store.TABLE_ATTRIBUTES_MAX", 3)
    cold = plain_matcher([])
    with Cold():
        cold.add("a", "x = 1 and y = 1")
        with pytest.raises(LimitError, match="TABLE_ATTRIBUTES_MAX"):
            cold.add("b", "z = 1 and w = 1")
        assert (cold.ids(), cold.names) == (["a"], {"x": 0, "y": 1})


# Input without kernels

LINES = st.lists(
    st.one_of(
        st.dictionaries(
            st.sampled_from(("x", "y", "order.z", "other")),
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(-(2**64), 2**64),
                st.floats(allow_nan=False, allow_infinity=False),
                st.text(max_size=5),
                st.lists(st.integers(), max_size=2),
                st.dictionaries(st.sampled_from(("z", "a")), st.integers(0, 3), max_size=2),
            ),
            max_size=4,
        ).map(msgspec.json.encode),
        st.sampled_from(
            [
                b"",
                b"  ",
                b"\x0c",
                b"\t{}\r",
                b'{"x":1,"x":2}',
                b'{"x":"\\u00e9\\n"}',
                b"[1]",
                b'{"x":',
                b"\xff",
            ]
        ),
        st.sampled_from(
            [b'{"order":{"z":1.5e300},"y":"\xc3\xa9"}', b'{"y":"\xff"}', b'{"x":1e999}', b"null"]
        ),
    ),
    max_size=6,
)


@given(LINES, st.sampled_from(("refuse", "skip")), st.sampled_from((b"", b"\xef\xbb\xbf")), st.integers(1, 2))
def test_json_lines(lines: list[bytes], unsupported: Unsupported, mark: bytes, first_row: int) -> None:
    data = mark + b"\n".join(lines)
    wanted = WantedNames(["x", "y", "order.z"])

    def read() -> object:
        try:
            batch = read_json_lines(data, wanted, unsupported, first_row=first_row)
        except PenstockError as error:
            return str(error)
        return decoded(batch)

    compiled = read()
    with Cold():
        assert read() == compiled


def decoded(batch: Batch) -> list[object]:
    """The events of a batch: None for what is no event."""
    values = [(name, repr(value)) for name, value in plain.values_of(batch, ["x", "y", "order.z"])]
    return [
        None if count < 0 else sorted(values[entry] for entry in batch.entries[at : at + count])
        for at, count in zip(batch.start.tolist(), batch.count.tolist(), strict=True)
    ]


@given(st.lists(st.one_of(EVENT.map(lambda e: encode_event(Event(e))), st.binary(max_size=6)), max_size=5))
def test_packed_events(packed: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, packed)])
    wanted = WantedNames(["x", "y", "order.z"])

    def read() -> object:
        try:
            return decoded(read_packed(b"".join(packed), offsets, wanted))
        except PenstockError as error:
            return str(error)

    compiled = read()
    with Cold():
        assert read() == compiled


@pytest.mark.parametrize("offsets", [[0, 5, 2], [0, 99], [-1, 3]])
def test_offsets_that_are_wrong(offsets: list[int]) -> None:
    data = encode_event(Event({"x": 1})) * 4
    with pytest.raises(EventError) as raised:
        read_packed(data, offsets, WantedNames(["x"]))
    with Cold(), pytest.raises(EventError) as cold:
        read_packed(data, offsets, WantedNames(["x"]))
    assert str(cold.value) == str(raised.value)


TEXTS = st.lists(
    st.one_of(st.none(), st.sampled_from(("", "a", "é", "a\0")), st.text(max_size=40)), max_size=9
)


@given(TEXTS, st.sampled_from((pa.string(), pa.large_string(), pa.string_view())), st.integers(0, 3))
def test_arrow_texts(texts: list[str | None], kind: pa.DataType, skipped: int) -> None:
    columns = [pa.array(texts, kind)[skipped:], pa.array(texts[::-1], kind)[skipped:]]
    found = texts_of(columns, [4, 7])
    with Cold():
        cold = texts_of(columns, [4, 7])
    assert found is not None
    assert cold is not None
    shown = [
        [
            None if v < 0 else (int(t.attribute[v]), t.text[t.start[v] : t.start[v] + t.length[v]].tobytes())
            for v in t.which.reshape(-1).tolist()
        ]
        for t in (found, cold)
    ]
    assert shown[0] == shown[1]


def test_arrow_texts_that_are_none() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 900, 2], np.int32)), pa.py_buffer(b"ab" * 9)]
    )
    not_utf8 = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff" * 18)]
    )
    for cold in (False, True):
        with Cold() if cold else pytest.MonkeyPatch.context():
            assert texts_of([not_utf8], [0]) is None
            with pytest.raises(EventError, match="offsets that are outside"):
                texts_of([broken], [0])


@given(SUBSCRIPTIONS, st.lists(SCALAR_EVENT, min_size=1, max_size=6))
def test_arrow_rows(subscriptions: list[tuple[Id, Expression]], events: list[Attributes]) -> None:
    made = predicates(subscriptions)
    cold, compiled = plain_matcher(made), Matcher(made)
    for event in events:
        columns = {
            name: pa.array([v.nanoseconds], pa.timestamp("ns")) if isinstance(v, Time) else pa.array([v])
            for name, v in event.items()
        }
        rows = pa.table(columns)
        with Cold():
            found = cold.match_batch(rows)
        same(found, compiled.match_batch(rows))


NAMES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(("\x7f", "\x85", "\u2028", '"\\', "\b\f\n\r\t\x00")),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.sampled_from((1.5, -0.0, 1e300, math.nan, Time(5), Time(10**18))),
)


@given(st.lists(NAMES, min_size=1, max_size=5), st.lists(IDS, min_size=1, max_size=5, unique=True))
def test_lines_of_what_matched(names: list[object], ids: list[Id]) -> None:
    matcher = Matcher((key, "id is not null") for key in ids)
    from penstock.matching.encode import batch_of_events

    batch = batch_of_events([*({"id": name} for name in names), {"x": 1}, None], {"id": 0, "x": 1})
    all_of_them = np.arange(len(ids), dtype=np.int32)
    offsets = np.arange(0, (len(names) + 3) * len(ids), len(ids), dtype=np.int64)
    table = matcher.match_batch([]).table
    matches = Matches(offsets, np.tile(all_of_them, len(names) + 2), table, integers=False)
    events = np.arange(0, len(names) + 2, dtype=np.int64)
    lines = Lines(table, 0)
    compiled = lines.write(batch, matches, events, 7).tobytes()
    with Cold():
        assert lines.write(batch, matches, events, 7).tobytes() == compiled


@pytest.mark.parametrize(
    ("rules", "least"),
    [
        (["x = 1 and 5 in tags"], 10 * 400),
        (["any(tags where this > 5 or this = 'a')"], 10 * 2 * 400),
        (["not any(tags where this > 5)", "5 in tags"], 10 * 2 * 400),
        (["any(rows where any(inner where this = 9))"], 10 * 2 * 2_000),
        (["x = 2 and 5 in tags"], 0),
    ],
)
def test_elements_that_filters_are_tried_on_count_as_work(rules: list[str], least: int) -> None:
    event = {"x": 1, "tags": list(range(400)), "rows": [{"inner": [1] * 99}] * 20}
    with Cold():
        matcher = Matcher(dict(enumerate(rules)))
        matcher._kept.work = plain.Work(0)  # type: ignore[union-attr]
        begun = matcher._snapshot().work  # type: ignore[union-attr]
        begun._left = 10**9
        matcher.match_batch([event] * 10)
        done = 10**9 - begun._left
    assert least <= done <= least + 10 * 100


def test_long_lists_are_left_to_kernels_when_there_is_too_much_work() -> None:
    with Cold():
        matcher = Matcher({"a": "any(tags where this > 1000)"})
        matcher._kept.work = plain.Work(5_000)  # type: ignore[union-attr]
        assert is_plain(matcher)
        assert list(matcher.match_batch([{"tags": list(range(1_000))}] * 20)) == [[]] * 20
    assert not is_plain(matcher)
