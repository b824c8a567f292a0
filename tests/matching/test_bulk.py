"""Constraints in bulk: what comes of a table is what comes of its rows, one by one."""

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching_cases import CONSTRAINT_ROWS, ConstraintRow, table_of_rows
from penstock import Matcher, PenstockError
from penstock.errors import FilterError, InputError, LimitError
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, normalise
from penstock.filters.filter import NEVER, Filter
from penstock.matching import bulk_lists

TEXTS = st.text(st.sampled_from("ab\0é"), max_size=3)
NUMBERS = st.sampled_from([0, 1, -1, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), -5, 7])
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, 0.5, -1e308, 1e300, 5e-324, 2.0**53, 2.0**63])
OPS = st.sampled_from(["in", "not in", "=", "!="])


def lists(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[tuple[str, list[object]]]]:
    many = st.lists(values, min_size=1, max_size=6)
    one = st.lists(values, min_size=1, max_size=1)
    row = OPS.flatmap(lambda op: st.tuples(st.just(op), many if op.endswith("in") else one))
    return st.lists(row, min_size=1, max_size=8)


def loaded(rows: list[tuple[str, list[object]]], column: str, kind: pa.DataType) -> Matcher:
    made = Matcher()
    made.add_constraints(
        pa.table(
            {
                "id": list(range(len(rows))),
                "attribute": ["x"] * len(rows),
                "op": [op for op, _ in rows],
                column: pa.array([values for _, values in rows], pa.list_(kind)),
            }
        )
    )
    return made


def assert_as_one_by_one(rows: list[tuple[str, list[object]]], made: Matcher) -> None:
    for at, (op, values) in enumerate(rows):
        value = tuple(values) if op.endswith("in") else values[0]
        assert made.filters(at) == [Filter([Constraint("x", op, value)])]


@pytest.mark.property
@given(lists(TEXTS))
def test_lists_of_text(rows: list[tuple[str, list[object]]]) -> None:
    assert_as_one_by_one(rows, loaded(rows, "string", pa.string()))


@pytest.mark.property
@given(lists(NUMBERS))
def test_lists_of_integers(rows: list[tuple[str, list[object]]]) -> None:
    assert_as_one_by_one(rows, loaded(rows, "number", pa.int64()))


@pytest.mark.property
@given(lists(DOUBLES))
def test_lists_of_doubles(rows: list[tuple[str, list[object]]]) -> None:
    assert_as_one_by_one(rows, loaded(rows, "number", pa.float64()))


LIST_TYPES = {
    "list": pa.list_(pa.int64()),
    "large": pa.large_list(pa.int64()),
    "fixed": pa.list_(pa.int64(), 2),
    "view": pa.list_view(pa.int64()),
    "large view": pa.large_list_view(pa.int64()),
    "of dictionaries": pa.list_(pa.dictionary(pa.int32(), pa.int64())),
}


@pytest.mark.parametrize("kind", LIST_TYPES.values(), ids=LIST_TYPES)
@pytest.mark.parametrize("sliced", [False, True])
def test_lists_of_every_kind(kind: pa.DataType, sliced: bool) -> None:
    values = [[9, 8], [1, 5], None, [2, 3], [7, 7]]
    column = pa.array(values, kind)
    table = pa.table(
        {
            "id": [0, 1, 2, 3, 4],
            "attribute": ["x"] * 5,
            "op": ["in", "between", "exists", "not in", "in"],
            "number": column,
        }
    )
    made = Matcher()
    # In two chunks, of which the rows of filter 1 stand apart.
    table = pa.concat_tables([table.slice(1, 2) if sliced else table.slice(0, 3), table.slice(3)])
    made.add_constraints(table)
    apart = table.append_column("filter", pa.array([1] * (len(table) - 1) + [2])).take([0, len(table) - 1, 1])
    Matcher().add_constraints(pa.concat_tables([apart, apart]))
    assert made.match({"x": 3}) == [1, 2]
    assert made.match({"x": 7}) == [2, 3, 4]
    assert made.match({"x": 8}) == ([2, 3] if sliced else [0, 2, 3])


def test_lists_do_not_pass_through_the_algebra_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many constraints are made as there are different values, not lists."""
    made: list[object] = []

    def counting(name: str, op: str, value: object) -> Constraint:
        made.append(value)
        return Constraint(name, op, value)

    def refuse(*_given: object) -> Constraint:
        raise AssertionError("a list went through the algebra")

    monkeypatch.setattr(bulk_lists, "Constraint", counting)
    monkeypatch.setattr("penstock.matching.bulk.Constraint", refuse)
    rows: list[tuple[str, list[object]]] = [("in", [i % 10, i // 10 % 10, i // 100]) for i in range(1_000)]
    engine = loaded(rows, "number", pa.int64())
    assert sorted(map(str, made)) == [str(i) for i in range(10)]
    monkeypatch.undo()
    assert_as_one_by_one(rows[::97], loaded(rows[::97], "number", pa.int64()))
    assert len(engine.match({"x": 3})) == 1_000 - 9**3


@pytest.mark.parametrize(
    ("op", "values", "error", "says"),
    [
        ("in", [], FilterError, "at least one value"),
        ("not in", [], FilterError, "at least one value"),
        ("=", [1.0, 2.0], FilterError, "= takes one value, not a list of 2"),
        ("in", [1.0, None], PenstockError, "row 1: "),
        ("in", [1.0, math.nan], PenstockError, "row 1: "),
        ("in", [1.0, math.inf], FilterError, "row 1: .* numbers are finite"),
        ("in", [0.5] * 100_001, LimitError, "LIST_VALUES_MAX"),
        ("~", [1.0], FilterError, "'~' is no operator"),
    ],
)
def test_lists_that_are_none_are_refused_with_their_row(
    op: str, values: list[object], error: type[PenstockError], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        loaded([("in", [1.5]), (op, values)], "number", pa.float64())
    assert caught.value.row == 1


def test_a_dictionary_may_hold_an_id_twice() -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", "a", "b"]))
    rows = {"attribute": ["x", "y", "x", "x"], "op": ["="] * 4, "number": [1, 2, 1, 9]}
    made = Matcher()
    made.add_constraints(pa.table({"id": ids, **rows}).slice(0, 3))
    assert [f.to_sql() for f in made.filters("a")] == ["x = 1 and y = 2"]
    assert made.match({"x": 1}) == ["b"]
    # Rows of "a" stand apart, whichever entry they name.
    with pytest.raises(InputError, match="do not follow one another"):
        made.add_constraints(pa.table({"id": ids, **rows}))
    made.add_constraints(pa.table({"id": ids, "filter": [1, 1, 1, 2], **rows}))
    assert made.match({"x": 9}) == ["a"]


@pytest.mark.parametrize("column", ["id", "attribute", "op"])
def test_null_in_a_dictionary_is_null(column: str) -> None:
    table = pa.table({"id": ["a", "b"], "attribute": ["x", "y"], "op": ["exists", "exists"]})
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([table[column][0].as_py(), None]))
    table = table.set_column(table.column_names.index(column), column, values)
    with pytest.raises(InputError, match=f"row 1: the column {column} of a table of constraints has nulls"):
        Matcher().add_constraints(table)


# Several rows on one attribute


def expression_texts(rows: list[ConstraintRow]) -> list[tuple[str, str]]:
    """The filters of the rows as text, and the id of each."""
    filters: dict[tuple[str, int], list[Constraint]] = {}
    for key, which, constraint in rows:
        filters.setdefault((key, which), []).append(constraint)
    return [(key, normalise(And(constraints)).to_sql()) for (key, _), constraints in filters.items()]


@pytest.mark.property
@given(CONSTRAINT_ROWS, st.booleans())
def test_tables_are_the_filters_of_their_texts(rows: list[ConstraintRow], into_delta: bool) -> None:
    in_bulk, one_by_one = Matcher(), Matcher()
    if into_delta:
        # What comes to a matcher that has a table stands in a delta first.
        for made in (in_bulk, one_by_one):
            made.add("first", "x = 1")
            made.compact()
    in_bulk.add_constraints(table_of_rows(rows))
    texts = expression_texts(rows)
    for key, text in texts:
        one_by_one.add(key, text)
    assert in_bulk.ids() == one_by_one.ids()
    for known in one_by_one.ids():
        assert in_bulk.filters(known) == one_by_one.filters(known)
    assert in_bulk.stats([]).constraints == one_by_one.stats([]).constraints
    in_bulk.compact()
    for key, text in texts:
        assert in_bulk.filters(key) == one_by_one.filters(key)
        in_bulk.remove(key, text)
        one_by_one.remove(key, text)
    assert in_bulk.ids() == one_by_one.ids()


CONTRADICTIONS = {
    "families": ("x = 5 and x = 'a'", [("=", "number", 5), ("=", "string", "a")]),
    "absent": ("x is null and x = 3", [("absent", "number", None), ("=", "number", 3)]),
    "absent and there": ("x is null and x is not null", [("absent", "", None), ("exists", "", None)]),
    "a pattern of a number": (
        "x like '%b%' and x >= 11",
        [("substring", "string", "b"), (">=", "number", 11)],
    ),
    "patterns": (
        "x like '%b%' and x not like '%b%'",
        [(op, "string", "b") for op in ("substring", "not substring")],
    ),
    "ends": ("x > 5 and x < 5", [(">", "number", 5), ("<", "number", 5)]),
    "one row by itself": ("x between 5 and 3", [("between", "numbers", [5, 3])]),
}


@pytest.mark.parametrize(("text", "rows"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_contradicts_itself_matches_nothing_and_says_so(
    text: str, rows: list[tuple[str, str, object]]
) -> None:
    rows = [*rows, ("=", "number", 1)]
    table = pa.table(
        {
            "id": ["a"] * len(rows),
            "attribute": ["x"] * (len(rows) - 1) + ["y"],
            "op": [op for op, _, _ in rows],
            "number": pa.array(
                [
                    value if isinstance(value, list) else [value] if isinstance(value, int) else None
                    for _, _, value in rows
                ],
                pa.list_(pa.int64()),
            ),
            "string": [value if isinstance(value, str) else None for _, _, value in rows],
        }
    )
    made = Matcher()
    made.add_constraints(table)
    assert made.filters("a") == [NEVER]
    assert made.match({"x": 5, "y": 1}) == made.match({"x": "b", "y": 1}) == made.match({"y": 1}) == []
    made.compact()
    assert made.filters("a") == [NEVER]
    made.remove("a", f"({text}) and y = 1")
    assert len(made) == 0


def test_rows_on_one_attribute_are_one_condition() -> None:
    made = Matcher()
    rows = [("x", ">=", 3), ("y", "=", 1), ("x", "<=", 9), ("x", "!=", 5)]
    made.add_constraints(
        pa.table(
            {
                "id": [7] * 4,
                **dict(zip(("attribute", "op", "number"), map(list, zip(*rows, strict=True)), strict=True)),
            }
        )
    )
    assert [f.to_sql() for f in made.filters(7)] == ["x between 3 and 9 and x != 5 and y = 1"]
    assert made.stats([]).constraints == 2


@pytest.mark.parametrize("limit", ["CONSTRAINTS_MAX", "PATTERNS_MAX"])
def test_filters_that_are_too_large_are_refused_with_their_row(limit: str) -> None:
    count = 2_000
    table = pa.table(
        {
            "id": ["small", *["large"] * count],
            "attribute": ["x", *(f"a{i}" if limit == "CONSTRAINTS_MAX" else "x" for i in range(count))],
            "op": ["substring"] * (count + 1),
            "string": [f"{i}b" for i in range(count + 1)],
        }
    )
    made = Matcher()
    with pytest.raises(LimitError, match=limit) as caught:
        made.add_constraints(table)
    assert caught.value.row == 1
    assert len(made) == 0


def test_an_error_names_the_row_as_it_was_given() -> None:
    table = {"id": [1, 2, 1], "filter": [1, 1, 1], "attribute": ["x"] * 3, "op": ["=", "~", "="]}
    with pytest.raises(FilterError, match="row 1: '~' is no operator"):
        Matcher().add_constraints(pa.table({**table, "number": [1, 2, 3]}))


# What tables hold, and what they are told


def constraints(**columns: object) -> pa.Table:
    """Three rows, of which some columns are others."""
    plain: dict[str, object] = {"id": ["a", "b", "c"], "attribute": ["x", "y", "z"], "op": ["="] * 3}
    return pa.table({**plain, "number": [1, 2, 3], **columns})


def dictionary(indices: list[int], entries: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.uint32()), entries)


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_views_are_texts(as_dictionary: bool) -> None:
    """Which Polars has, and Arrow cannot take from."""

    def views(*texts: str) -> pa.Array:
        made = pa.array(texts, pa.string_view())
        return dictionary([0, 1, 2], made) if as_dictionary else made

    table = pa.table(
        {
            "id": views("a", "b", "a"),
            "filter": views("f", "f", "f"),
            "attribute": views("x", "y", "z"),
            "op": views("=", "=", "="),
            "string": views("p", "q", "r"),
        }
    )
    made = Matcher()
    made.add_constraints(table)
    assert [f.to_sql() for f in made.filters("a")] == ["x = 'p' and z = 'r'"]
    assert [f.to_sql() for f in made.filters("b")] == ["y = 'q'"]


def test_lists_of_views_are_lists_of_texts() -> None:
    texts = pa.array([["p", "q"], ["q"], ["p", "r"]], pa.large_list(pa.string_view()))
    made = Matcher()
    made.add_constraints(constraints(op=["in", "=", "between"], string=texts, number=pa.nulls(3)))
    assert made.match({"x": "q"}) == ["a"]
    assert made.match({"y": "q"}) == ["b"]
    assert made.match({"z": "q"}) == ["c"]


def test_entries_of_a_dictionary_that_no_row_has_are_not_looked_at() -> None:
    texts = pa.array(["", "a", None, "x" * 100_000, "b", *(f"other{i}" for i in range(70_000))])
    few = dictionary([1, 1, 4], texts)
    numbers = dictionary([1, 1, 1], pa.array([2**64 - 1, 5], pa.uint64()))
    made = Matcher()
    made.add_constraints(constraints(id=few, attribute=few, filter=few, number=numbers))
    assert made.ids() == ["a", "b"]
    assert made.match({"a": 5}) == ["a"]
    assert list(made._store.names) == ["a", "b"]
    assert made._store.ids.count == 2


def test_what_rows_beside_a_slice_hold_is_not_looked_at() -> None:
    numbers = pa.array([[2**64 - 1, 1], [1, 5], [3]], pa.list_(pa.uint64()))
    made = Matcher()
    made.add_constraints(constraints(op=["between", "between", "in"], number=numbers).slice(1))
    assert made.match({"y": 4}) == ["b"]


def not_utf8(*texts: bytes) -> pa.Array:
    plain = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(plain), plain.buffers())


WRONG_ROWS: dict[str, tuple[str, str, dict[str, object]]] = {
    "id": ("id", "an id is empty", {"id": ["a", "a", ""]}),
    "id of a dictionary": ("id", "is empty", {"id": dictionary([1, 1, 0], pa.array(["", "a"]))}),
    "number as id": ("id", "64-bit", {"id": pa.array([1, 1, 2**64 - 1], pa.uint64())}),
    "id that is no text": ("id", "not UTF-8", {"id": not_utf8(b"a", b"a", b"\xff")}),
    "attribute": ("attribute", "name is empty", {"attribute": ["x", "x", ""]}),
    "long attribute": ("attribute", "NAME_LENGTH_MAX", {"attribute": ["x", "x", "y" * 9_999]}),
    "op": ("op", "not UTF-8", {"op": not_utf8(b"=", b"=", b"\xff")}),
    "number": ("number", "64-bit", {"number": pa.array([1, 1, 2**64 - 1], pa.uint64())}),
    "number of a list": (
        "number",
        "64-bit",
        {"op": ["in"] * 3, "number": pa.array([[1], [1], [1, 2**64 - 1]], pa.list_(pa.uint64()))},
    ),
    "time": ("time", "64-bit", {"number": None, "time": pa.array([1, 1, 2**60], pa.timestamp("s"))}),
    "string": ("string", "not UTF-8", {"number": None, "string": not_utf8(b"a", b"a", b"\xff")}),
}


@pytest.mark.parametrize(("column", "says", "columns"), WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_what_is_wrong_is_named_with_its_row_and_column(
    column: str, says: str, columns: dict[str, object]
) -> None:
    given = {name: pa.nulls(3) if values is None else values for name, values in columns.items()}
    made = Matcher()
    with pytest.raises(PenstockError, match=f"^row 2, column '{column}': .*{says}") as caught:
        made.add_constraints(constraints(**given))
    assert caught.value.row == 2
    # Which add_constraints does not take.
    assert "skip" not in str(caught.value)
    assert len(made) == 0


def test_of_wrong_rows_the_first_is_named() -> None:
    with pytest.raises(FilterError, match=r"^row 1: ") as caught:
        Matcher().add_constraints(constraints(number=[3.0, math.inf, -math.inf]))
    assert caught.value.row == 1
    with pytest.raises(PenstockError, match=r"^row 1, column 'id': "):
        Matcher().add_constraints(constraints(id=dictionary([1, 2, 0], pa.array(["", "a", "b" * 9_999]))))


ODD_TYPES = {
    "list": pa.array([["a"]] * 3),
    "struct": pa.array([{"a": 1}] * 3),
    "map": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    "run_end_encoded": pa.array(["a"] * 3, pa.run_end_encoded(pa.int32(), pa.string())),
}


@pytest.mark.parametrize("kind", ODD_TYPES)
@pytest.mark.parametrize("column", ["id", "attribute", "op", "filter"])
def test_columns_of_odd_types_are_refused(column: str, kind: str) -> None:
    table = constraints(**{column: ODD_TYPES[kind]})
    # Of no rows, there are no filters to tell apart.
    for given_table in [table] if column == "filter" else [table, table.slice(3)]:
        with pytest.raises(InputError, match=f"the column {column} of .* is of type {kind}"):
            Matcher().add_constraints(given_table)


@pytest.mark.parametrize("column", ["id", "attribute", "op", "filter", "number"])
def test_a_column_that_is_there_twice_is_refused(column: str) -> None:
    table = constraints(filter=[1, 2, 3], another=[1, 2, 3]).append_column("another", pa.array([1, 2, 3]))
    Matcher().add_constraints(table)
    with pytest.raises(InputError, match=f"the column {column} twice"):
        Matcher().add_constraints(table.append_column(column, table[column]))


@pytest.mark.parametrize("op", ["in", "="])
def test_lists_of_lists_are_refused(op: str) -> None:
    with pytest.raises(InputError, match=r"the column number .* is of type list<"):
        Matcher().add_constraints(constraints(op=[op] * 3, number=[[[1]]] * 3))


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()])
def test_an_index_outside_a_dictionary_is_refused(kind: pa.DataType) -> None:
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 7, 0]), pa.array(["a"], kind), safe=False)
    with pytest.raises(InputError, match="outside its dictionary"):
        Matcher().add_constraints(constraints(attribute=broken))


def test_a_table_of_no_rows_adds_nothing() -> None:
    made = Matcher()
    for kind in (pa.null(), pa.string(), pa.int64(), pa.string_view()):
        made.add_constraints(constraints(id=pa.nulls(3, kind)).slice(3))
    assert len(made) == 0
