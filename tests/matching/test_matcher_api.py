"""What users hand to a matcher, and what they are told when it does not do."""

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Matcher
from penstock.errors import (
    EventError,
    FilterError,
    FilterSyntaxError,
    InputError,
    PenstockError,
    UnsupportedValueError,
)
from penstock.matching.matches import Matches
from penstock.model.arrow import events_from_arrow
from penstock.model.names import Id


def test_a_dict_of_subscriptions() -> None:
    m = Matcher({"ab": "price > 10", 7: "price > 20"})
    assert m.match({"price": 11}) == ["ab"]
    assert m.ids() == [7, "ab"]


@pytest.mark.parametrize("given", [["ab"], "x=1", [("a", "x = 1", 3)], [5]])
def test_what_are_no_pairs_is_refused(given: object) -> None:
    with pytest.raises(FilterError, match="pairs"):
        Matcher(given)  # type: ignore[arg-type]


def test_one_text_and_a_schema_that_is_none_are_told_what_to_give() -> None:
    with pytest.raises(PenstockError, match=r"a dict or pairs .id, filter., not one text: Matcher\(\{'late'"):
        Matcher("x > 1")  # type: ignore[arg-type]
    gives: list[Any] = [Matcher().check, Matcher().misfits, lambda schema: Matcher(schema=schema)]
    for give in gives:
        with pytest.raises(PenstockError, match=r"a schema is a penstock.Schema, not dict: Schema.from_json"):
            give({"properties": {}})


def test_what_a_matcher_has_is_listed() -> None:
    assert "warns" in dir(Matcher)
    assert {name for name in dir(Matcher()) if name[0] != "_"} == {
        name for name in dir(Matcher) if name[0] != "_"
    }


def test_the_wrong_one_of_many_is_named() -> None:
    m = Matcher()
    with pytest.raises(FilterSyntaxError, match="row 2: ") as caught:
        m.add_many([("a", "x = 1"), ("b", "x = 2"), ("c", "x ~ 3")])
    assert caught.value.row == 2
    assert len(m) == 0
    with pytest.raises(FilterSyntaxError) as caught:
        m.add("c", "x ~ 3")
    assert caught.value.row is None


def test_numpy_integers_are_ids() -> None:
    m = Matcher([(np.int64(5), "x = 1")])  # type: ignore[list-item]
    assert m.match({"x": 1}) == [5]
    m.remove(np.int32(5))  # type: ignore[arg-type]
    assert len(m) == 0


def table(**columns: object) -> pa.Table:
    return pa.table(columns)


def test_rows_of_a_filter_may_stand_apart_where_a_column_tells() -> None:
    apart = table(
        id=["a", "b", "a"],
        filter=[1, 1, 1],
        attribute=["country", "x", "total"],
        op=["=", "=", ">"],
        string=["CH", None, None],
        number=[None, 1, 1000],
    )
    m = Matcher()
    m.add_constraints(apart)
    assert m.match({"country": "CH", "total": 5}) == []
    assert m.match({"country": "CH", "total": 5_000}) == ["a"]
    assert m.match({"x": 1}) == ["b"]
    with pytest.raises(InputError, match="do not follow one another"):
        m.add_constraints(apart.drop_columns("filter"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"number": ["8001"]}, "number .* string"),
        ({"time": ["2026-01-01"]}, "time .* string"),
        ({"value": [1]}, "takes a value"),
        ({"number": [1], "string": ["a"]}, "two values"),
        ({"number": [1], "op": ["=="]}, "no operator"),
    ],
)
def test_tables_that_do_not_do_are_refused(columns: dict[str, list[object]], message: str) -> None:
    m = Matcher()
    with pytest.raises(PenstockError, match=message):
        m.add_constraints(table(**{"id": [1], "attribute": ["zip"], "op": ["="], **columns}))
    assert len(m) == 0


def test_things_that_are_no_tables_or_lines_are_refused() -> None:
    m = Matcher()
    with pytest.raises(InputError, match="Arrow table"):
        m.add_constraints([{"id": 1}])
    with pytest.raises(EventError, match="text or bytes"):
        m.match_json(["x"])  # type: ignore[arg-type]
    with pytest.raises(EventError, match="surrogates not allowed at character 1"):
        m.match_json("{\ud800")


def test_the_type_of_results_does_not_depend_on_what_matched() -> None:
    m = Matcher({"a": "x = 1", 7: "x = 2"})
    kinds = {str(m.match_batch([{"x": x}]).to_arrow().type) for x in (1, 2, 3)}
    assert kinds == {"list<item: string>"}
    numbers = Matcher({6: "x = 1", 7: "x = 2"})
    assert {str(numbers.match_batch([{"x": x}]).to_arrow().type) for x in (1, 3)} == {"list<item: int64>"}
    assert m.match_batch([]).to_arrow().to_pylist() == []


def test_a_loaded_matcher_learns_if_it_never_has(tmp_path: object) -> None:
    m = Matcher((i, f"a = 1 and b = {i}") for i in range(3_000))
    m.save(f"{tmp_path}/m")
    loaded = Matcher.load(f"{tmp_path}/m")
    assert not loaded._store.learnt
    m.learn([{"a": 1, "b": i} for i in range(100)])
    m.save(f"{tmp_path}/m")
    assert Matcher.load(f"{tmp_path}/m")._store.learnt


def test_a_text_is_no_list_of_ids() -> None:
    m = Matcher([("a", "x = 1")])
    with pytest.raises(PenstockError, match="ids come as a list"):
        m.remove_many("a")
    assert "a" in m


def test_matches_are_a_sequence() -> None:
    m = Matcher([("all", "x is not null"), (2, "x = 2"), ("odd", "x in (1, 3, 5)")])
    found = m.match_batch([{"x": i} for i in range(6)] + [{"y": 1}])
    odd: list[str | int] = ["all", "odd"]
    plain: list[list[str | int]] = [["all"], odd, [2, "all"], odd, ["all"], odd, []]
    assert len(found) == 7
    assert list(found) == plain
    assert list(reversed(found)) == plain[::-1]
    for at in range(-7, 7):
        assert found[at] == found[np.int64(at)] == plain[at]
    for part in (
        slice(2, 5),
        slice(None),
        slice(-3, None),
        slice(5, 2),
        slice(9, 12),
        slice(None, None, 2),
        slice(None, None, -1),
        slice(6, 0, -3),
    ):
        some = found[part]
        assert isinstance(some, Matches)
        assert list(some) == plain[part]
        assert some.to_arrow(ordered=True).to_pylist() == [list(map(str, ids)) for ids in plain[part]]
        assert len(some.ids()) == some.offsets[-1] == sum(map(len, plain[part]))
    for outside in (7, -8, 10**20):
        with pytest.raises(IndexError, match=f"there are 7 events; {outside} is none of them"):
            found[outside]
    with pytest.raises(TypeError):
        found["2"]  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        found[1.0]  # type: ignore[call-overload]
    none = m.match_batch([])
    assert list(none[1:]) == []
    with pytest.raises(IndexError, match="there are 0 events"):
        none[0]


@pytest.mark.parametrize("compiled", [True, False])
def test_stats_count_the_constraints_of_living_filters(compiled: bool) -> None:
    m = Matcher({"first": "a = 1 and b = 2"})
    m.compact()
    m.add_many((i, f"x in ({i}, {i + 3}, {i + 7}) and s like '%a%' and y != 3") for i in range(100))
    if compiled:
        m.compact()
    assert m.stats().constraints == 302
    m.remove_many([*range(0, 100, 2), "first"])
    assert (m.stats().filters, m.stats().constraints) == (50, 150)
    m.compact()
    assert (m.stats().filters, m.stats().constraints) == (50, 150)


@pytest.mark.parametrize("compiled", [True, False])
def test_stats_name_what_costs_and_can_be_changed(compiled: bool) -> None:
    m = Matcher({"first": "a = 1"})
    m.compact()
    m.add_many(
        [("everything", penstock.parse("true")), ("odd", "x != 5"), ("gone", "x != 6"), ("same", "x != 5")]
    )
    if compiled:
        m.compact()
    m.remove("gone")
    stats = m.stats([{"x": 1, "a": 2}])
    assert [(str(cost.constraint), cost.filters) for cost in stats.expensive_constraints] == [("x != 5", 2)]
    assert "gone" not in {cost.id for cost in stats.expensive_filters}


@pytest.mark.parametrize("key", [1.5, None, True, "", "\ud800", "x" * 600, 2**70, ("a",), [1]])
def test_what_cannot_be_an_id_is_not_in_a_matcher(key: object) -> None:
    assert key not in Matcher({1: "x = 1", "a": "x = 2"})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([1, "a", 1], "^1 is to be removed twice"),
        (["a", 1, 2, "a", 1], "^'a' is to be removed twice"),
        ([1, "1", "a"], "nothing is subscribed under '1'"),
        ([1, "a", 1.5], "row 2: an id is text or an integer, not float"),
        (None, "ids come as a list, not as NoneType"),
        (5, "ids come as a list, not as int"),
    ],
)
def test_ids_that_cannot_be_removed_are_named_and_nothing_is_removed(keys: list[Id], message: str) -> None:
    m = Matcher({1: "x = 1", "a": "x = 2", 2: "x = 3"})
    with pytest.raises(PenstockError, match=message):
        m.remove_many(keys)
    assert m.ids() == [1, 2, "a"]
    assert m.match_batch([{"x": 1}, {"x": 2}, {"x": 3}]).offsets[-1] == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("b", "x = 1"), ("c",)], r"row 1: subscriptions are pairs \(id, filter\), not \('c',\)"),
        ([("b", "x = 1"), None], "row 1: subscriptions are pairs"),
        (None, "list of pairs .* or as a dict, not as NoneType"),
        (5, "list of pairs .* or as a dict, not as int"),
        (pa.table({"id": [1], "filter": ["x = 1"]}), "add_constraints"),
    ],
)
def test_what_cannot_be_added_is_told_with_its_row(given: list[tuple[Id, str]], message: str) -> None:
    m = Matcher({"a": "x = 2"})
    with pytest.raises(FilterError, match=message):
        m.add_many(given)
    with pytest.raises(FilterError, match=message):
        Matcher(given)
    assert m.ids() == ["a"]


def test_an_error_of_the_callers_own_is_left_alone() -> None:
    def pairs() -> Iterator[tuple[Id, str]]:
        yield "a", "x = 1"
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        Matcher(pairs())


@pytest.mark.parametrize("given", [5, 1.5, {"x": 1}, pa.array([1, 2]), pa.chunked_array([["a"]])])
def test_what_is_no_batch_is_refused(given: list[Any]) -> None:
    m = Matcher({"a": "x = 1"})
    for attempt in (m.match_batch, m.learn, m.stats):
        with pytest.raises(EventError, match="a batch is a table or a list of events, not "):
            attempt(given)
    with pytest.raises(InputError, match="Arrow table"):
        m.add_constraints(given)
    with pytest.raises(EventError, match="a list of events, not NoneType"):
        m.match_batch(None)


def test_structs_are_matched_as_rows() -> None:
    m = Matcher({"one": "x = 1", "two": "y.z = 2", "without": "x is null"})
    rows = pa.array([{"x": 5}, {"x": 1, "y": {"z": 2}}, {"x": 3, "y": None}, None, {"x": 1}])
    for given in (rows.slice(1, 2), pa.chunked_array([rows.slice(1, 1), rows.slice(2, 1)])):
        assert list(m.match_batch(given)) == [["one", "two"], []]
    for given in (rows, pa.chunked_array([rows[:2], rows[2:]])):
        assert list(m.match_batch(given)) == [[], ["one", "two"], [], ["without"], ["one"]]
        assert list(m.match_batch(given.to_pylist())) == list(m.match_batch(given))


def test_json_lines_may_be_text_or_any_view_of_bytes() -> None:
    m = Matcher({"a": "x = 1", "é": "x = 'é'"})
    assert list(m.match_json('{"x": 1}\n{"x": "é"}')) == [["a"], ["é"]]
    assert list(m.match_json(memoryview(b'{ " x " : 1 } \n ')[::2])) == [["a"]]


def test_a_matcher_is_saved_not_pickled_or_copied() -> None:
    m = Matcher({"a": "x = 1"})
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"save\(folder\), and Matcher\.load\(folder\)"):
            attempt(m)
    assert list(copy.deepcopy(m.match_batch([{"x": 1}]))) == [["a"]]


def types_of(found: Matches) -> tuple[str, str]:
    return str(found.to_arrow().type.value_type), str(found.ids().dtype)


def test_the_type_of_results_is_that_of_the_ids_at_the_time() -> None:
    m = Matcher({1: "x = 1", 2: "x = 2"})
    before = m.match_batch([{"x": 1}])
    m.add("text", "x = 1")
    between = m.match_batch([{"x": 1}])
    m.add("more", "x = 3")
    m.remove("text", "x = 1")
    assert types_of(m.match_batch([{"x": 3}])) == ("string", "object")
    m.remove("more")
    after = m.match_batch([{"x": 1}])
    for found in (before, before[:1], before.sorted(), after):
        assert types_of(found) == ("int64", "int64")
        assert found.to_arrow().to_pylist() == [[1]]
    assert types_of(between) == ("string", "object")
    assert between.to_arrow(ordered=True).to_pylist() == [["1", "text"]]
    m.compact()
    assert types_of(m.match_batch([{"x": 1}])) == ("int64", "int64")


def test_the_type_of_results_outlives_saving_and_emptying(tmp_path: Path) -> None:
    m = Matcher({i: f"x = {i}" for i in range(100)})
    m.add_many({f"t{i}": f"x = {i}" for i in range(100)})
    m.save(tmp_path / "mixed")
    assert types_of(Matcher.load(tmp_path / "mixed").match_batch([{"x": 1}])) == ("string", "object")
    m.remove_many([f"t{i}" for i in range(100)])
    m.save(tmp_path / "integers")
    loaded = Matcher.load(tmp_path / "integers")
    assert types_of(loaded.match_batch([{"x": 1}])) == ("int64", "int64")
    loaded.remove_many(loaded.ids())
    assert types_of(loaded.match_batch([{"x": 1}])) == ("int64", "int64")
    loaded.add("text", "x = 1")
    assert types_of(loaded.match_batch([{"x": 2}])) == ("string", "object")


def test_ids_tell_integers_from_text() -> None:
    m = Matcher({1: "x = 1", "1": "x = 1", -(2**63): "x = 2", "é": "x = 2"})
    found = m.match_batch([{"x": 1}, {"x": 2}, {"x": 3}])
    assert sorted(found.ids()[:2].tolist(), key=repr) == ["1", 1]
    assert {type(key) for key in found.ids().tolist()} == {int, str}
    assert found.sorted().ids().tolist() == [1, "1", -(2**63), "é"]
    assert found.to_arrow(ordered=True).to_pylist() == [["1", "1"], [str(-(2**63)), "é"], []]
    assert m.match_batch([{"x": 3}]).ids().tolist() == []
    assert Matcher().match_batch([{"x": 3}]).ids().tolist() == []


def test_what_an_error_advises_can_be_done() -> None:
    m = Matcher([("a", "x > 5")])
    events = [{"x": 6, "note": b"?"}, {"x": b"?"}]
    for ask in (m.learn, m.stats, m.match_batch):
        with pytest.raises(UnsupportedValueError, match="unsupported='skip' leaves it out"):
            ask(events)
        ask(events, unsupported="skip")
    assert m.stats(events, unsupported="skip").matches_per_event == 0.5


def not_utf8(*texts: bytes | None) -> pa.Array:
    plain = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(plain), plain.buffers())


OUT_OF_RANGE = {
    "number": pa.array([2**64 - 1, None, 2**64 - 1, 1], pa.uint64()),
    "time": pa.array([2**60, None, 2**60, 1], pa.timestamp("s")),
    "date": pa.array([2**30, None, 2**30, 1], pa.int32()).cast(pa.date32()),
    "text": not_utf8(b"\xff", None, b"\xff", b"a"),
    "view": not_utf8(b"\xff", None, b"\xff", b"a").cast(pa.string_view()),
    "dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 2, 1]), pa.array([2**64 - 1, 1, 2**64 - 1], pa.uint64())
    ),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, 2]), not_utf8(b"\xff", None, b"a").cast(pa.string_view())
    ),
    "struct": pa.StructArray.from_arrays([pa.array([2**64 - 1, None, 2**64 - 1, 1], pa.uint64())], ["inner"]),
}


@pytest.mark.parametrize("values", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
@pytest.mark.parametrize("named", [False, True])
def test_a_row_of_which_all_is_skipped_is_an_event_without_attributes(values: pa.Array, named: bool) -> None:
    """Also where no filter names the columns of what is skipped."""
    m = Matcher({"without": "x is null", "any": "x is null or y = 'no' or y.inner = 'no'"} if named else {})
    m.add("other", "z is null")
    rows = pa.table({"y": values, "w": pa.array([None, None, 1, None], pa.int64())})
    expected = [m.match(event) for event in events_from_arrow(rows, unsupported="skip")]
    assert all("other" in ids for ids in expected)
    assert list(m.match_batch(rows, unsupported="skip")) == expected
    assert list(m.match_batch(rows.slice(1), unsupported="skip")) == expected[1:]
    for each in range(4):
        assert list(m.match_batch(rows.slice(each, 1), unsupported="skip")) == expected[each : each + 1]


def test_columns_that_no_filter_names_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> None:
        raise AssertionError("a column that no filter names was read")

    m = Matcher({"without": "x is null"})
    rows = pa.table({"y": OUT_OF_RANGE["number"], "w": [1, 2, 3, 4]})
    monkeypatch.setattr("penstock.matching.arrow_events._column", refuse)
    monkeypatch.setattr("penstock.matching.arrow_events._texts", refuse)
    assert list(m.match_batch(rows, unsupported="skip")) == [["without"]] * 4
    assert list(m.match_batch(rows.drop_columns("w").slice(2))) == [["without"]] * 2
