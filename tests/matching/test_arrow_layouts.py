"""Columns of Arrow that are dictionaries or views, at any depth, are what plain ones are."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Event, Matcher, Schema
from penstock.errors import EventError, LimitError
from penstock.model.arrow_layouts import is_arrow_list
from penstock.model.fitting import Fitting
from penstock.model.limits import NESTING_MAX

RULES = {
    "five": "any(l) = 5",
    "no five": "not any(l) = 5",
    "a": "'a' in l",
    "inside": "any(l where any(this) = 5)",
    "text inside": "any(l where any(this) = 'a')",
    "record": "any(l where n = 5)",
    "record's text": "any(l where s = 'a')",
    "record's list": "any(l where any(t) = 'a')",
    "field": "l.n = 5",
    "text field": "l.s = 'a'",
    "list field": "any(l.t) = 'a'",
    "record's field": "any(l where r.n = 5)",
    "field's field": "l.r.n = 5",
    "none": "not any(l where n = 5)",
}
SCALARS = st.sampled_from([pa.int64(), pa.string()])
KINDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.list_view, inner),
        st.builds(
            lambda t, r: pa.struct([("n", pa.int64()), ("s", pa.string()), ("t", t), ("r", r)]), inner, inner
        ),
    ),
    max_leaves=4,
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    some: st.SearchStrategy[Any]
    if is_arrow_list(kind):
        some = st.lists(values_of(kind.value_type), max_size=3)
    elif pa.types.is_struct(kind):
        some = st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    else:
        some = st.sampled_from([5, 2]) if kind == pa.int64() else st.sampled_from(["a", "b"])
    return st.one_of(st.none(), some)


def laid_out(array: pa.Array, data: st.DataObject) -> pa.Array:
    """The same values in other layouts."""
    if data.draw(st.booleans()):
        values = array.to_pylist()
        keys = list(dict.fromkeys(map(repr, values)))
        firsts = [list(map(repr, values)).index(key) for key in keys]
        entries = laid_out(array.take(pa.array(firsts, pa.int64())), data)
        indices = pa.array([keys.index(repr(value)) for value in values], pa.int32())
        return pa.DictionaryArray.from_arrays(indices, entries)
    if pa.types.is_struct(array.type):
        fields = [laid_out(field, data) for field in array.flatten()]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    if is_arrow_list(array.type):
        counts = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        ends = np.append(0, np.cumsum(counts)).astype(np.int64)
        mask = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
        inner = laid_out(pc.list_flatten(array), data)
        return pa.LargeListArray.from_arrays(pa.array(ends, mask=mask), inner)
    if array.type == pa.string() and data.draw(st.booleans()):
        return array.cast(pa.string_view())
    return array


@pytest.mark.property
@given(KINDS, st.data())
def test_dictionaries_and_views_at_any_depth_are_their_values(kind: pa.DataType, data: st.DataObject) -> None:
    rows = data.draw(st.lists(values_of(kind), min_size=1, max_size=6))
    plain = pa.table({"l": pa.array(rows, kind)})
    other = pa.table({"l": laid_out(plain["l"].combine_chunks(), data)})
    matcher = Matcher(RULES)
    expected = list(matcher.match_batch(plain))
    assert list(Event.from_arrow(other)) == list(Event.from_arrow(plain))
    assert list(matcher.match_batch(other)) == expected
    assert list(matcher.match_batch(other.slice(1))) == expected[1:]
    families = {name: one.families for name, one in Schema.from_arrow(plain.schema).places()}
    assert {name: one.families for name, one in Schema.from_arrow(other.schema).places()} == families
    fitting = Fitting(Schema.from_arrow(plain.schema))
    for batch in other.to_batches():
        fitting.see_rows(batch, {})
    assert not fitting.misfits()


def found(rule: str, array: pa.Array) -> list[bool]:
    return [bool(ids) for ids in Matcher({"c": rule}).match_batch(pa.table({"l": array}))]


def test_rows_that_share_a_list_of_a_dictionary_all_match() -> None:
    lists = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0, 1, 1, None]), pa.array([[5], [2]]))
    assert found("any(l) = 5", lists) == [True, True, True, False, False, False]
    assert found("not any(l) = 5", lists) == [False, False, False, True, True, False]


def test_fields_of_a_dictionary_of_records_match() -> None:
    records = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1, None]), pa.array([{"x": 5}, {"x": 2}]))
    assert found("l.x = 5", records) == [True, True, False, False]


def test_lists_have_views_in_them() -> None:
    views = pa.array([["a", None], None, ["b", "a"], []], pa.list_(pa.string_view()))
    assert found("'a' in l", views) == [True, False, True, False]
    records = pa.array([[{"s": "a"}, None], [{"s": "b"}]], pa.list_(pa.struct([("s", pa.string_view())])))
    assert found("any(l where s = 'a')", records) == [True, False]


@pytest.mark.parametrize("entries", [[[5]], [{"x": 5}]], ids=str)
def test_an_index_outside_a_dictionary_of_lists_or_records_is_refused(entries: list[Any]) -> None:
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(entries), safe=False)
    with pytest.raises(EventError, match="outside its dictionary"):
        found("any(l) = 5 or l.x = 5", broken)


@pytest.mark.property
@given(st.lists(st.booleans(), min_size=NESTING_MAX - 2, max_size=NESTING_MAX + 3), st.data())
def test_lists_and_records_nest_as_deep_as_in_dicts(are_lists: list[bool], data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        are_lists = [True] * len(are_lists)
    value: Any = 5
    kind = pa.int64()
    for is_list in reversed(are_lists):
        value = [value] if is_list else {"x": value}
        kind = pa.list_(kind) if is_list else pa.struct([("x", kind)])
    column = pa.array([value], kind)
    # The column is named by the attribute that a rule asks for.
    depth = are_lists.index(True) if True in are_lists else len(are_lists)
    name = ".".join(["l", *["x"] * depth])
    matcher = Matcher({"c": f"{name} = 5 or any({name}) = 5"})
    table = pa.table({"l": column})
    try:
        expected = [matcher.match({"l": value})]
    except LimitError:
        with pytest.raises(LimitError, match="NESTING_MAX"):
            list(matcher.match_batch(table))
        with pytest.raises(LimitError, match="NESTING_MAX"):
            list(Event.from_arrow(table))
        return
    assert list(matcher.match_batch(table)) == expected
    assert list(Event.from_arrow(table)) == [Event({"l": value})]


def test_lists_that_nest_too_deep_are_refused_where_a_rule_names_them() -> None:
    deep = pa.array([5, 6])
    for _ in range(41):
        deep = pa.ListArray.from_arrays(pa.array(range(len(deep) + 1), pa.int32()), deep)
    with pytest.raises(LimitError, match="NESTING_MAX"):
        found("any(l) = 5", deep)
    table = pa.table({"l": deep, "x": pa.array([1] * len(deep))})
    assert list(Matcher({"c": "x = 1"}).match_batch(table)) == [["c"]] * len(deep)
    assert found("any(l) = 5", pa.nulls(1, deep.type)) == [False]
