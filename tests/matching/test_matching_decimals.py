"""Decimals in the matcher: it finds what the reference finds, whatever events and filters come as."""

import itertools
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import PRECISE
from cold_kernels import Cold
from penstock import Event, Matcher, parse
from penstock.errors import LimitError, UnsupportedValueError
from penstock.filters.constraint import Constraint
from penstock.filters.expression import Expression, normalise
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.matching.arrival import KERNELS
from penstock.matching.arrow_events import batch_of_arrow
from penstock.matching.batch import DECIMAL, DOUBLE, INTEGER
from penstock.matching.columns import number_keys
from penstock.matching.decimals import RECORD_BYTES, decimal_at, key_of_number, record_of
from penstock.matching.plain import PlainStore, value_of
from penstock.matching.reference import ReferenceMatcher
from penstock.model.decimals import ExactDecimal, number_of
from penstock.model.packed import encode_event
from strategies import conjunctions, disjunctions, plain_constraints

LONG = Decimal("0.1000000000000000001")
POOL: tuple[Any, ...] = (
    0,
    5,
    0.1,
    19.99,
    5.000000000000001,
    2**53 + 1,
    -5e-324,
    *map(
        Decimal,
        (
            "0.10000000000000000000",
            "0.1000000000000000001",
            "0.1000000000000000002",
            "5.0000000000000000001",
            "5.0000000000000009999",
            "4.9999999999999999999",
            "19.990",
            "9007199254740992.5",
            "9007199254740993.5",
            "9223372036854775807.5",
            "9223372036854775808",
            "-9223372036854775808.5",
            "-1e-330",
            "1e-330",
            "12345678901234567.89",
        ),
    ),
)
"""Doubles and integers, what lies beside them, and several in one gap."""

NAMES = ("x", "y.z")
EVENTS = st.lists(
    st.dictionaries(st.sampled_from((*NAMES, "other")), st.sampled_from(POOL), min_size=1),
    min_size=1,
    max_size=12,
)
SUBSCRIPTIONS = st.lists(
    st.tuples(st.integers(0, 9), disjunctions(plain_constraints(NAMES, (POOL,)))), min_size=1, max_size=12
)


def predicates(given_: list[tuple[int, Expression]]) -> list[tuple[int, Predicate]]:
    return [(key, normalise(expression)) for key, expression in given_]


def packed(events: list[dict[str, Any]]) -> tuple[bytes, list[int]]:
    encoded = [encode_event(Event(event)) for event in events]
    return b"".join(encoded), [0, *itertools.accumulate(map(len, encoded))]


def table(events: list[dict[str, Any]]) -> pa.Table:
    """The events, as far as decimals of 256 bits can hold them."""
    kind = pa.decimal256(76, 40)
    return pa.table(
        {name: pa.array([held(event.get(name)) for event in events], kind) for name in (*NAMES, "other")}
    )


def held(value: Any) -> Decimal | None:
    if value is None:
        return None
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return number if number.as_tuple().exponent >= -40 else None  # type: ignore[operator]


@pytest.mark.property
@given(SUBSCRIPTIONS, EVENTS)
def test_every_form_of_events_finds_what_the_reference_finds(
    subscriptions: list[tuple[int, Expression]], events: list[dict[str, Any]]
) -> None:
    made = predicates(subscriptions)
    reference = ReferenceMatcher(made)
    compiled = Matcher(made)
    compiled.compact()
    # What is added later stands in a delta.
    delta = Matcher([(-1, "other = 'nobody'")])
    delta.compact()
    for key, predicate in made:
        delta.add(key, predicate)
    expected = [reference.match(event) for event in events]
    rows = table(events)
    of_rows = [reference.match(event) for event in Event.from_arrow(rows)]
    for matcher in (compiled, delta):
        assert list(matcher.match_batch(events)) == expected
        assert [matcher.match(event) for event in events] == expected
        assert list(matcher.match_packed(*packed(events))) == expected
        assert [matcher.match_packed(*packed([event]))[0] for event in events] == expected
        assert list(matcher.match_batch(rows)) == of_rows
        for key, _ in made:
            # A predicate that nothing matches is there as a filter that nothing matches.
            kept = {f for f in matcher.filters(key) if f.satisfiable}
            assert kept == {f for other, p in made if other == key for f in p.filters}


@pytest.mark.property
@given(SUBSCRIPTIONS, EVENTS)
def test_without_kernels_the_same_is_found(
    subscriptions: list[tuple[int, Expression]], events: list[dict[str, Any]]
) -> None:
    assert KERNELS.wait()
    made = predicates(subscriptions)
    reference = ReferenceMatcher(made)
    with Cold():
        cold = Matcher(made)
        assert isinstance(cold._kept, PlainStore)
        assert list(cold.match_batch(events)) == [reference.match(event) for event in events]
        assert [cold.match(event) for event in events] == [reference.match(event) for event in events]
        assert list(cold.match_packed(*packed(events))) == [reference.match(event) for event in events]
        rows = table(events)
        assert list(cold.match_batch(rows)) == [reference.match(e) for e in Event.from_arrow(rows)]


@pytest.mark.property
@given(SUBSCRIPTIONS, EVENTS)
def test_saved_filters_find_and_are_the_same(
    subscriptions: list[tuple[int, Expression]], events: list[dict[str, Any]]
) -> None:
    made = predicates(subscriptions)
    matcher, reference = Matcher(made), ReferenceMatcher(made)
    with tempfile.TemporaryDirectory() as folder:
        matcher.save(Path(folder) / "table")
        loaded = Matcher.load(Path(folder) / "table")
        assert list(loaded.match_batch(events)) == [reference.match(event) for event in events]
        for key, _ in made:
            wanted = {f for other, p in made if other == key for f in p.filters}
            assert {f for f in loaded.filters(key) if f.satisfiable} == wanted


@pytest.mark.property
@given(SUBSCRIPTIONS, st.data())
def test_filters_can_be_removed_one_by_one(
    subscriptions: list[tuple[int, Expression]], data: st.DataObject
) -> None:
    made = [(key, f) for key, predicate in predicates(subscriptions) for f in predicate.filters]
    matcher = Matcher([(key, f) for key, f in made])
    while made:
        at = data.draw(st.integers(0, len(made) - 1))
        key, f = made.pop(at)
        matcher.remove(key, f)
        assert sorted(matcher.filters(key), key=lambda f: f.sort_key()) == sorted(
            (other for owner, other in made if owner == key), key=lambda f: f.sort_key()
        )


@pytest.mark.property
@given(
    st.lists(
        st.one_of(
            st.decimals(
                allow_nan=False, allow_infinity=False, places=18, min_value=-(10**15), max_value=10**15
            ),
            st.decimals(
                allow_nan=False, allow_infinity=False, places=2, min_value=-(10**17), max_value=10**17
            ),
            st.floats(-1e9, 1e9).map(lambda x: held(round(x, 6))),
            st.none(),
        ),
        max_size=20,
    ),
    st.sampled_from([pa.decimal128(38, 18), pa.decimal256(60, 18), pa.decimal256(76, 30)]),
    st.integers(0, 3),
)
def test_columns_are_read_as_the_model_reads_them(
    values: list[Decimal | None], kind: Any, first: int
) -> None:
    rows = pa.record_batch({"x": pa.array(values, kind)}).slice(first)
    batch = batch_of_arrow(rows, {"x": 0})
    found = [value_of(batch, at) for at in batch.entries.tolist()]
    assert found == [number_of(value) for value in values[first:] if value is not None]
    # A double is never written as a decimal.
    for at in batch.entries.tolist():
        assert (batch.value_state[at] == DECIMAL) == isinstance(value_of(batch, at), ExactDecimal)


def test_a_column_whose_decimals_have_doubles_is_not_looked_at_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from penstock.matching import arrow_decimals

    def refuse(_value: object, _records: object) -> None:
        raise AssertionError("looked at a row")

    monkeypatch.setattr(arrow_decimals, "_one", refuse)
    cents = [Decimal(n).scaleb(-2) for n in (1999, 0, -5, 10**14)]
    for kind in (pa.decimal64(18, 2), pa.decimal128(18, 2), pa.decimal128(38, 18), pa.decimal256(76, 25)):
        batch = batch_of_arrow(pa.record_batch({"x": pa.array([*cents, None], kind)}), {"x": 0})
        assert set(batch.value_state[batch.entries].tolist()) == {DOUBLE}


def test_decimals_beside_texts_and_in_dictionaries_keep_their_places() -> None:
    names = {"s": 0, "x": 1, "y": 2, "d": 3}
    short = pa.array([Decimal("1.5"), LONG, None], pa.decimal128(30, 19))
    rows = pa.record_batch(
        {
            "y": pa.array([LONG, Decimal(2), None], pa.decimal128(30, 19)),
            "s": pa.array(["a", "b", "c"]),
            "x": short,
            "d": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), short),
        }
    )
    batch = batch_of_arrow(rows, names)
    of_number = {number: name for name, number in names.items()}
    events = [
        {of_number[int(batch.value_attribute[v])]: value_of(batch, v) for v in batch.entries[a : a + n]}
        for a, n in zip(batch.start.tolist(), batch.count.tolist(), strict=True)
    ]
    assert events == [event.attributes for event in Event.from_arrow(rows)]


def test_a_decimal_that_is_no_number_is_refused_by_its_row() -> None:
    matcher = Matcher([(1, "x > 0")])
    digits = Decimal("1." + "1" * 75)
    rows = pa.table({"x": pa.array([Decimal(1), digits], pa.decimal256(76, 75))})
    assert list(matcher.match_batch(rows)) == [[1], [1]]
    with pytest.raises(LimitError, match=r"row 1.*DECIMAL_DIGITS_MAX"):
        matcher.match_batch([{"x": 1}, {"x": Decimal("1." + "1" * 80)}])
    with pytest.raises(UnsupportedValueError, match="outside the range of doubles"):
        matcher.match({"x": Decimal("1e400")})


@pytest.mark.property
@given(st.sampled_from(POOL))
def test_a_record_has_the_key_of_its_gap_and_reads_back(value: Any) -> None:
    number = number_of(Decimal(repr(value)) if isinstance(value, float) else Decimal(value))
    if not isinstance(number, ExactDecimal):
        high, low = number_keys([number])
        assert key_of_number(number) == (high[0], low[0])
        return
    record = np.frombuffer(b"??" + record_of(number), np.uint8)
    assert len(record) == 2 + RECORD_BYTES
    assert decimal_at(record, 2) == number
    assert type(decimal_at(record, 2)) is ExactDecimal


@pytest.mark.property
@given(st.lists(conjunctions(plain_constraints(("x",), (POOL,)), 3), min_size=1, max_size=8), EVENTS)
def test_tables_of_constraints_take_decimals(filters: list[Any], events: list[dict[str, Any]]) -> None:
    rows: list[tuple[int, Constraint]] = []
    for number, parts in enumerate(filters):
        for constraint in parts.parts:
            values = constraint.value if isinstance(constraint.value, tuple) else (constraint.value,)
            if all(held(value) is not None for value in values):
                rows.append((number, constraint))
    lists = [c.value if isinstance(c.value, tuple) else (c.value,) for _, c in rows]
    constraints = pa.table(
        {
            "id": pa.array([number for number, _ in rows], pa.int64()),
            "attribute": pa.array([c.attribute for _, c in rows], pa.string()),
            "op": pa.array([c.operator for _, c in rows], pa.string()),
            "number": pa.array([list(map(held, some)) for some in lists], pa.list_(pa.decimal256(76, 40))),
        }
    )
    matcher = Matcher()
    matcher.add_constraints(constraints)
    by_id: dict[int, list[Constraint]] = {}
    for number, constraint in rows:
        by_id.setdefault(number, []).append(constraint)
    reference = Matcher([(key, Filter(some)) for key, some in by_id.items()])
    assert list(matcher.match_batch(events)) == list(reference.match_batch(events))
    for key in by_id:
        assert matcher.filters(key) == reference.filters(key)


DUCK = tuple(v for v in POOL if isinstance(v, int) or (isinstance(v, Decimal) and held(v) is not None))


@pytest.mark.property
@given(
    st.lists(
        disjunctions(plain_constraints(("x",), (tuple(v for v in DUCK if abs(Decimal(v)) < 10**17),))),
        min_size=1,
        max_size=4,
    )
)
def test_duckdb_finds_the_same_in_a_column_of_decimals(expressions: list[Expression]) -> None:
    values = [held(value) for value in POOL if 1e-300 < abs(Decimal(value)) < 10**17]
    kind = pa.decimal128(38, 20)
    rows = pa.table(
        {
            "x": pa.array(
                [v if v is None else v.quantize(Decimal("1e-20"), context=PRECISE) for v in values], kind
            )
        }
    )
    for expression in expressions:
        predicate = normalise(expression)
        matcher = Matcher([(1, predicate)])
        ours = [bool(found) for found in matcher.match_batch(rows)]
        with duckdb.connect() as connection:
            connection.register("events", rows)
            query = f"select coalesce({predicate.to_sql()}, false) from events"  # noqa: S608 - ours
            assert [row[0] for row in connection.execute(query).fetchall()] == ours


def test_filters_in_one_gap_are_told_apart() -> None:
    matcher = Matcher([(1, f"x = {LONG}"), (2, f"x > {LONG}"), (3, f"x < {LONG} or y = 1"), (4, "x > 0.1")])
    assert matcher.match({"x": LONG}) == [1, 4]
    assert matcher.match({"x": LONG + Decimal("1e-19")}) == [2, 4]
    assert matcher.match({"x": LONG - Decimal("1e-20")}) == [3, 4]
    assert matcher.match({"x": 0.1}) == [3]
    assert matcher.match({"x": 0.1, "y": 1}) == [3]
    assert matcher.match({"x": 0.11}) == [2, 4]
    assert list(matcher.match_json(b'{"x": 0.1000000000000000001}')) == [[3]]


def test_clauses_may_ask_for_decimals() -> None:
    pairs = " and ".join(f"not (a{i} = {LONG} and b{i} = 1)" for i in range(40))
    predicate = parse(pairs)
    assert predicate.filters[0].clauses
    matcher = Matcher([(1, predicate)])
    fine = {f"{n}{i}": 1 for n in "ab" for i in range(40)}
    near = number_of(LONG + Decimal("1e-19"))
    for event in (fine, fine | {"a3": LONG}, fine | {"a3": near}, fine | {"a3": LONG, "b3": 2}):
        assert matcher.match(event) == ([1] if predicate.matches(event) else [])
        assert matcher.match_packed(*packed([event]))[0] == matcher.match(event)
    assert matcher.match(fine | {"a3": LONG}) == []


def test_a_packed_decimal_that_has_a_double_is_that_double() -> None:
    import msgspec

    from penstock.model.packed import DECIMAL_CODE

    matcher = Matcher([(1, "x = 19.99"), (2, "x = 5"), (3, "y = 1")])
    events = [
        msgspec.msgpack.encode({"y": 1, "x": msgspec.msgpack.Ext(DECIMAL_CODE, text)})
        for text in (b"1999e-2", b"50e-1", b"1000000000000000001e-19")
    ]
    offsets = [0, *itertools.accumulate(map(len, events))]
    assert list(matcher.match_packed(b"".join(events), offsets)) == [[1, 3], [2, 3], [3]]
    for bad in (b"", b"1", b"01e1", b"1e-401", b"1e308", b"1e1234", b"-e1", b"1" * 77 + b"e0"):
        packed_ = msgspec.msgpack.encode({"q": msgspec.msgpack.Ext(DECIMAL_CODE, bad)})
        with pytest.raises(UnsupportedValueError, match="is not a decimal"):
            matcher.match_packed(packed_, [0, len(packed_)])


def test_integers_and_doubles_of_decimals_have_their_states() -> None:
    rows = pa.record_batch({"x": pa.array([Decimal(2**60), Decimal(2)], pa.decimal128(38, 0))})
    batch = batch_of_arrow(rows, {"x": 0})
    assert batch.value_state.tolist() in ([INTEGER, DOUBLE], [INTEGER, INTEGER])
    assert [value_of(batch, at) for at in range(2)] == [2**60, 2]
