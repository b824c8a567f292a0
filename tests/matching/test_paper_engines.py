"""The engines of the forwarding paper against the reference matcher."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Constraint, Filter, Predicate
from penstock.bench import figures
from penstock.errors import FilterError, UnsupportedValueError
from penstock.matching.counting import CountingTable, batch_of_events
from penstock.matching.kernels import counting as kernel
from penstock.matching.paper_table import OPERATORS, Constraints, build_table
from penstock.matching.reference import ReferenceMatcher
from penstock.matching.selectivity import SelectivityTable
from penstock.workloads import forwarding

Table = list[tuple[int, list[Constraint]]]

ROUNDS = (0, 1, 2, 100)

# Prefixes of one another, repeated parts, the least and the greatest bytes, two and four bytes a letter.
_WORDS = (
    *("", "a", "b", "aa", "ab", "ba", "aba", "abab", "abb", "bab", "abba", "abc", "c", "ca", "\0", "a\0"),
    *("é", "aé", "éa", "ü", "\U0001f600", "a\U0001f600"),
)
_words = st.sampled_from(_WORDS) | st.text(alphabet="abé", max_size=5)
_integers = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
_names = st.sampled_from(["x", "y", "xy", "é"])
_constraints = st.one_of(
    st.builds(Constraint, _names, st.sampled_from(OPERATORS[:3]), _integers),
    st.builds(Constraint, _names, st.sampled_from(OPERATORS), _words),
)
_tables = st.lists(
    st.tuples(st.integers(0, 5), st.lists(_constraints, min_size=1, max_size=4)), min_size=1, max_size=25
)
_events = st.dictionaries(
    st.sampled_from(["x", "y", "xy", "é", "other"]),
    _integers | _words | st.booleans(),
    min_size=1,
    max_size=5,
)


def reference(table: Sequence[tuple[int, Sequence[Constraint]]]) -> ReferenceMatcher[int]:
    return ReferenceMatcher((interface, Predicate([Filter(f)])) for interface, f in table)


def both(table: Sequence[tuple[int, Sequence[Constraint]]]) -> tuple[CountingTable, SelectivityTable]:
    counting = CountingTable.of(table)
    return counting, SelectivityTable(counting)


@pytest.mark.property
@given(_tables, st.lists(_events, min_size=1, max_size=6))
def test_both_engines_find_what_the_reference_finds(table: Table, events: list[dict[str, object]]) -> None:
    expected = [reference(table).match(event) for event in events]
    counting, selectivity = both(table)
    assert [counting.forward(event) for event in events] == expected
    for rounds in ROUNDS:
        assert [selectivity.forward(event, rounds) for event in events] == expected


@pytest.mark.property
@given(st.lists(st.tuples(st.sampled_from(OPERATORS), _words), min_size=1, max_size=40, unique=True), _words)
def test_the_string_index_finds_each_constraint_once(conditions: list[tuple[str, str]], value: str) -> None:
    # One constraint a filter, one filter an interface: what is found is what matches.
    table = [(i, [Constraint("x", operator, word)]) for i, (operator, word) in enumerate(conditions)]
    found = CountingTable.of(table).forward_many(batch_of_events([{"x": value}]))[1].tolist()
    assert len(found) == len(set(found))
    assert sorted(found) == reference(table).match({"x": value})


@pytest.mark.property
@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 20, 64, 65, 300]))
def test_the_paper_workload_is_forwarded_as_the_reference_does(seed: int, interfaces: int) -> None:
    compare_on_workload(300, interfaces, 20, seed)


@pytest.mark.parametrize("interfaces", [10, 100, 2_000])
def test_two_thousand_filters_of_the_paper(interfaces: int) -> None:
    compare_on_workload(2_000, interfaces, 200, 7)


def compare_on_workload(count: int, number_of_interfaces: int, message_count: int, seed: int) -> None:
    filters = forwarding.filters(count, seed)
    interfaces = forwarding.interfaces(count, number_of_interfaces, seed)
    messages = forwarding.messages(message_count, seed)
    counting = CountingTable.build(filters, interfaces, forwarding.names(), forwarding.words())
    selectivity = SelectivityTable(counting)
    matcher = ReferenceMatcher(
        (int(interfaces[i]), Predicate([forwarding.as_filter(filters, i)])) for i in range(count)
    )
    expected = [matcher.match(forwarding.as_event(messages, i)) for i in range(message_count)]
    batch = counting.batch(messages)
    for rounds in (None, 0, 10, 10_000):
        offsets, found = (
            counting.forward_many(batch) if rounds is None else selectivity.forward_many(batch, rounds)
        )
        assert [sorted(part.tolist()) for part in np.split(found, offsets[1:-1])] == expected


def test_figure_2_of_the_paper_has_the_determinants_that_the_paper_says() -> None:
    # "price" determines I1 and I3, "stock" I3, and no other name determines any interface.
    table = [
        (1, [Constraint("dest", "=", "ORD"), Constraint("price", "<", 200)]),
        (1, [Constraint("price", "<", 500), Constraint("upgradeable", "=", "yes")]),
        (2, [Constraint("stock", "=", "MSFT")]),
        (2, [Constraint("airline", "=", "UA"), Constraint("dest", "=", "ORD")]),
        (3, [Constraint("stock", "=", "MSFT"), Constraint("price", ">", 60)]),
        (3, [Constraint("price", "<", 40), Constraint("stock", "=", "MSFT")]),
    ]
    counting, selectivity = both(table)
    assert selectivity.rows() == [("price", [1, 3]), ("stock", [3])]
    for event, expected in (
        ({"dest": "ORD", "price": 199}, [1]),
        ({"stock": "MSFT", "price": 61}, [2, 3]),
        ({"stock": "MSFT", "price": 50}, [2]),
        ({"airline": "UA", "dest": "ORD"}, [2]),
        ({"volume": 5}, []),
    ):
        assert counting.forward(event) == expected
        for rounds in ROUNDS:
            assert selectivity.forward(event, rounds) == expected


def test_ten_rows_exclude_about_as_many_interfaces_as_the_paper_says() -> None:
    # §3: 131 000 of 200 000 predicates, by the first 10 of 1000 entries.
    count = 5_000
    filters, messages = forwarding.filters(count, 1), forwarding.messages(200, 1)
    interfaces = forwarding.interfaces(count, count, 1)
    counting = CountingTable.build(filters, interfaces, forwarding.names(), forwarding.words())
    rows = SelectivityTable(counting).rows()
    assert [len(interfaces) for _name, interfaces in rows] == sorted(
        (len(interfaces) for _name, interfaces in rows), reverse=True
    )
    excluded = 0
    for i in range(200):
        present = forwarding.as_event(messages, i)
        excluded += len({one for name, determined in rows[:10] if name not in present for one in determined})
    assert 0.55 < excluded / (200 * count) < 0.70


def test_a_name_constrained_twice_in_one_filter_determines_no_more_than_that_filter() -> None:
    table = [(1, [Constraint("x", ">", 1), Constraint("x", "<", 9)]), (1, [Constraint("y", "=", 1)])]
    assert both(table)[1].rows() == []


def test_a_message_without_any_determinant_is_excluded_from_every_interface_before_counting() -> None:
    table = [(1, [Constraint("x", "=", 1)]), (2, [Constraint("x", "=", 2), Constraint("y", "=", 2)])]
    _counting, selectivity = both(table)
    assert selectivity.forward({"z": 1}, 1) == []
    assert len(selectivity) == 2


def test_a_substring_that_occurs_twice_counts_once() -> None:
    table = [(1, [Constraint("x", "substring", "ab"), Constraint("y", "=", 1)])]
    counting, _selectivity = both(table)
    assert counting.forward({"x": "abab"}) == []
    assert counting.forward({"x": "abab", "y": 1}) == [1]


def test_a_filter_that_says_the_same_twice_matches() -> None:
    table = [(1, [Constraint("x", "=", 1), Constraint("x", "=", 1.0), Constraint("y", "prefix", "")])]
    assert both(table)[0].forward({"x": 1, "y": "anything"}) == [1]


def test_an_interface_matches_once_however_many_of_its_filters_do() -> None:
    table = [(4, [Constraint("x", ">", i)]) for i in range(5_000)] + [(9, [Constraint("y", "=", 0)])]
    _offsets, found = both(table)[0].forward_many(batch_of_events([{"x": 10_000}, {"x": 10_000, "y": 0}]))
    assert found.tolist() == [4, 4, 9]


def test_counters_survive_the_end_of_their_stamps() -> None:
    table = [(1, [Constraint("x", "=", 1), Constraint("y", "=", 1)]), (2, [Constraint("x", ">", 0)])]
    counting, selectivity = both(table)
    half, whole = {"x": 1, "z": 1}, {"x": 1, "y": 1}
    for messages in (1, kernel.EPOCHS - 3, 1, 1, 1, kernel.EPOCHS, 1):
        offsets, found = counting.forward_many(batch_of_events([half] * messages))
        assert found.tolist() == [2] * messages
        assert len(offsets) == messages + 1
        assert selectivity.forward(whole) == [1, 2]


def test_what_no_constraint_can_be_about_is_only_present() -> None:
    counting, selectivity = both([(1, [Constraint("x", "=", 1)])])
    assert counting.forward({"x": True}) == selectivity.forward({"x": True}) == []
    assert counting.forward({"x": 1.0}) == [1]
    with pytest.raises(UnsupportedValueError, match="only integers"):
        counting.forward({"x": 1.5})


def test_a_table_without_filters_forwards_nothing() -> None:
    counting, selectivity = both([])
    assert counting.forward({"x": 1}) == selectivity.forward({"x": "a"}) == []


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("x", ">=", 1),
        Constraint("x", "like", "a%"),
        Constraint("x", "exists"),
        Constraint("x", "=", 1.5),
        Constraint("x", "=", True),
    ],
)
def test_anything_beyond_the_paper_is_refused(constraint: Constraint) -> None:
    with pytest.raises(FilterError, match="this engine knows only"):
        CountingTable.of([(1, [constraint])])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"operator": [3]}, "only the paper's operators"),
        ({"operator": [6], "is_string": [True]}, "only the paper's operators"),
        ({"attribute": [1]}, "outside the list"),
        ({"is_string": [True], "value": [2]}, "outside the list"),
        ({"filter_offsets": [0, 0]}, "has 1 to"),
        ({"filter_offsets": [0, 1, 1]}, "give one for each"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(changed: dict[str, list[int]], message: str) -> None:
    flat = {"filter_offsets": [0, 1], "attribute": [0], "operator": [0], "is_string": [False], "value": [0]}
    arrays = {name: np.array(column) for name, column in {**flat, **changed}.items()}
    with pytest.raises(FilterError, match=message):
        build_table(Constraints(**arrays), np.array([0]), ["x"], ["a", "b"])


def test_the_workload_is_the_same_for_the_same_seed_and_as_the_paper_describes() -> None:
    made, again = forwarding.filters(20_000, 3), forwarding.filters(20_000, 3)
    assert all((one == other).all() for one, other in zip(made, again, strict=True))
    assert not (forwarding.filters(20_000, 4).attribute[:1_000] == made.attribute[:1_000]).all()
    sizes = np.diff(made.filter_offsets)
    assert (sizes.min(), sizes.max()) == (1, 9)
    assert 4.9 < sizes.mean() < 5.1
    row = np.repeat(np.arange(20_000), sizes)
    assert len(np.unique(row * 1_000 + made.attribute)) == len(row)
    assert 0.49 < made.is_string.mean() < 0.51
    on_strings = np.bincount(made.operator[made.is_string], minlength=6) / made.is_string.sum()
    assert np.abs(on_strings - [0.35, 0.1, 0.1, 0.15, 0.15, 0.15]).max() < 0.01
    on_numbers = np.bincount(made.operator[~made.is_string], minlength=6) / (~made.is_string).sum()
    assert np.abs(on_numbers - [0.6, 0.2, 0.2, 0, 0, 0]).max() < 0.01
    assert len(set(forwarding.names() + forwarding.words())) == 2_000
    attributes = np.diff(forwarding.messages(5_000, 3).offsets)
    assert (attributes.min(), attributes.max()) == (1, 19)


def test_every_interface_has_a_filter() -> None:
    assert forwarding.interfaces(7, 7, 1).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert set(forwarding.interfaces(50, 40, 1).tolist()) == set(range(40))
    with pytest.raises(ValueError, match="cannot use"):
        forwarding.interfaces(2, 3, 1)


def test_the_figures_of_the_paper_can_be_measured_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scale = figures.Scale(
        constraints=(50, 1_000),
        ratio_constraints=500,
        ratios=(1, 10),
        round_constraints=(500, 1_000),
        rounds=(0, 10),
        messages=10,
        passes=1,
    )
    told: list[str] = []
    result = figures.measure(scale, progress=told.append)
    # Ten filters cannot have twenty interfaces.
    assert {number: len(series) for number, series in result.by_constraints.items()} == {
        10: 4,
        20: 2,
        50: 2,
        100: 2,
        figures.ONE_EACH: 4,
    }
    assert len(told) == 7 + 2 + 2
    assert figures.gains(result.by_rounds[0])[0] == 0
    assert [path.stat().st_size > 0 for path in figures.plot(result, tmp_path)] == [True] * 3


def test_messages_are_json_lines_of_events() -> None:
    messages = forwarding.messages(3, 5)
    lines = forwarding.as_json_lines(messages).splitlines()
    assert [json.loads(line) for line in lines] == [forwarding.as_event(messages, i) for i in range(3)]
