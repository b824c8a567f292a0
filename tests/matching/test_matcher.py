"""The production engine equals the reference: on every kind of input."""

from collections.abc import Iterator
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching_cases import (
    CONSTRAINT_ROWS,
    EVENT,
    EVENTS,
    NAMES,
    SCALAR_EVENT,
    SUBSCRIPTIONS,
    VALUES,
    Attributes,
    ConstraintRow,
    filters_of_rows,
    table_of_rows,
)
from penstock.filters.expression import Expression, normalise
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.matching import placing
from penstock.matching.matcher import Matcher
from penstock.matching.reference import ReferenceMatcher
from penstock.model.events import Event
from penstock.model.names import Id
from penstock.model.packed import encode_mapping
from penstock.model.values import Time
from strategies import BOOLS, FAMILIES, NUMBERS, STRINGS, TIMES, shapes

pytestmark = pytest.mark.property


@pytest.fixture(params=["as costs say", "planes wherever possible"], autouse=True)
def _planes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small tables are not worth a plane: make some anyway."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "as costs say":
            patch.setattr(placing, "_LOOK", -10.0)
            patch.setattr(placing, "_SKIM", -10.0)
        yield


def both(subscriptions: list[tuple[Id, Expression]]) -> tuple[Matcher, ReferenceMatcher[Id]]:
    made = [(key, normalise(expression)) for key, expression in subscriptions]
    return Matcher(made), ReferenceMatcher(made)


def as_json(event: Attributes) -> bytes | None:
    """The event as JSON, half of it nested, if JSON can say it."""
    if any(isinstance(value, Time | Decimal) or value != value for value in event.values()):
        return None
    plain = {name: value for name, value in event.items() if name != "order.z"}
    if "order.z" in event:
        plain["order"] = {"z": event["order.z"]}
    return msgspec.json.encode(plain)


def as_arrow(events: list[Attributes], dictionary: bool) -> list[pa.Table]:
    """The events as tables: a column has one family, so a table for each set of families."""
    tables = []
    for event in events:
        columns = {}
        for name, value in event.items():
            array = (
                pa.array([value.nanoseconds], pa.timestamp("ns"))
                if isinstance(value, Time)
                else pa.array([value])
            )
            columns[name] = array.dictionary_encode() if dictionary and isinstance(value, str) else array
        tables.append(pa.table(columns))
    return tables


@given(SUBSCRIPTIONS, EVENTS, EVENTS)
def test_batches_of_dicts_and_single_events(
    subscriptions: list[tuple[Id, Expression]], events: list[Attributes], others: list[Attributes]
) -> None:
    engine, reference = both(subscriptions)
    expected = [reference.match(event) for event in events]
    assert list(engine.match_batch(events)) == expected
    assert [engine.match(event) for event in events] == expected
    engine.learn(others)
    assert list(engine.match_batch([*events, None])) == [*expected, reference.match({})]


EVERY_VALUE: list[Attributes] = [
    *({NAMES[0]: value} for family in FAMILIES for value in family),
    {NAMES[0]: [1, "a"]},
    {"other": 1},
]


@pytest.mark.parametrize("operator", sorted({operator for operator, _ in shapes()}))
@given(st.data())
@settings(max_examples=40)
def test_every_value_against_filters_of_one_shape(operator: str, data: st.DataObject) -> None:
    of_one = [constraints for of, constraints in shapes(NAMES[:1]) if of == operator]
    alike = data.draw(st.sampled_from(of_one).flatmap(lambda one: st.lists(one, min_size=1, max_size=8)))
    engine, reference = both(list(enumerate(alike)))
    assert list(engine.match_batch(EVERY_VALUE)) == [reference.match(event) for event in EVERY_VALUE]


@given(SUBSCRIPTIONS, EVENTS)
def test_json_lines(subscriptions: list[tuple[Id, Expression]], events: list[Attributes]) -> None:
    engine, reference = both(subscriptions)
    lines = [(line, event) for event in events if (line := as_json(event)) is not None]
    found = engine.match_json(b"\n".join(line for line, _ in lines))
    assert list(found) == [reference.match(event) for _, event in lines]


@given(SUBSCRIPTIONS, st.lists(SCALAR_EVENT, min_size=1, max_size=10), st.booleans())
def test_arrow(
    subscriptions: list[tuple[Id, Expression]], events: list[Attributes], dictionary: bool
) -> None:
    engine, reference = both(subscriptions)
    expected = [reference.match(event) for event in events]
    tables = as_arrow(events, dictionary)
    assert [engine.match_batch(table)[0] for table in tables] == expected


@given(
    SUBSCRIPTIONS,
    st.lists(
        st.tuples(
            *(st.one_of(st.none(), st.sampled_from(f)) for f in (NUMBERS, STRINGS, TIMES, BOOLS)), VALUES
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_arrow_columns_with_nulls(
    subscriptions: list[tuple[Id, Expression]], rows: list[tuple[object, ...]]
) -> None:
    engine, reference = both(subscriptions)
    numbers = [None if row[0] is None else float(row[0]) for row in rows]  # type: ignore[arg-type]
    times = [row[2].nanoseconds if isinstance(row[2], Time) else None for row in rows]
    text = pa.array([row[1] for row in rows], pa.string())
    order = pa.StructArray.from_arrays([pa.array(times, pa.timestamp("ns"))], ["z"])
    table = pa.table(
        {"x": pa.array(numbers, pa.float64()), "y": text, "order": order, "k": pa.array(range(len(rows)))}
    )
    events = [
        {
            name: value
            for name, value in (
                ("x", numbers[i]),
                ("y", row[1]),
                ("order.z", None if times[i] is None else row[2]),
                ("k", i),
            )
            if value is not None
        }
        for i, row in enumerate(rows)
    ]
    expected = [reference.match(event) for event in events]
    assert list(engine.match_batch(table)) == expected
    sliced = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert list(engine.match_batch(sliced)) == expected
    encoded = table.set_column(1, "y", text.dictionary_encode())
    assert list(engine.match_batch(encoded.combine_chunks().to_batches()[0])) == expected


@given(SUBSCRIPTIONS, EVENTS)
def test_results_as_arrays(subscriptions: list[tuple[Id, Expression]], events: list[Attributes]) -> None:
    engine, reference = both([(str(key), expression) for key, expression in subscriptions])
    expected = [reference.match(event) for event in events]
    found = engine.match_batch(events)
    assert found.offsets.tolist()[1:] == [sum(map(len, expected[: i + 1])) for i in range(len(events))]
    assert found.to_arrow(ordered=True).to_pylist() == expected
    flat = found.ids().tolist()
    for i, ids in enumerate(expected):
        assert sorted(flat[found.offsets[i] : found.offsets[i + 1]]) == ids


@given(SUBSCRIPTIONS, EVENT)
def test_explanations_are_the_filters_that_match(
    subscriptions: list[tuple[Id, Expression]], event: Attributes
) -> None:
    engine, _ = both(subscriptions)
    attributes = Event(event).attributes
    expected = sorted(
        ((str(key), str(f)) for key, e in subscriptions for f in normalise(e).filters if f.admits(attributes))
    )
    found = engine.explain(event)
    assert sorted((str(one.id), str(one.filter)) for one in found) == expected
    for one in found:
        assert one.found_by.conditions.items() <= one.filter.conditions.items()
    stats = engine.stats([event])
    assert stats.filters == sum(max(1, len(normalise(e).filters)) for _, e in subscriptions)
    assert stats.matches_per_event == len(expected)


@given(SUBSCRIPTIONS)
def test_filters_are_read_back_as_they_were(subscriptions: list[tuple[Id, Expression]]) -> None:
    engine, _ = both(subscriptions)
    for key in {key for key, _ in subscriptions}:
        given_filters = [f for k, e in subscriptions if k == key for f in normalise(e).filters]
        found = [f for f in engine.filters(key) if f.satisfiable]
        assert found == sorted(given_filters, key=Filter.sort_key)


@given(CONSTRAINT_ROWS, EVENTS)
def test_tables_of_constraints(rows: list[ConstraintRow], events: list[Attributes]) -> None:
    reference = ReferenceMatcher((key, Predicate((f,))) for key, f in filters_of_rows(rows))
    engine = Matcher()
    engine.add_constraints(table_of_rows(rows))
    assert list(engine.match_batch(events)) == [reference.match(event) for event in events]


NUMBER_OR_NULL = st.one_of(st.none(), st.sampled_from([0, 1, 2.5]))


@given(
    SUBSCRIPTIONS,
    st.lists(
        st.fixed_dictionaries({"x": NUMBER_OR_NULL, "y": NUMBER_OR_NULL, "other": NUMBER_OR_NULL}),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([("x", "y", "other"), ("x",), ("other",), ("x", "other")]),
)
def test_nulls_are_absent_attributes_in_every_input(
    subscriptions: list[tuple[Id, Expression]], rows: list[Attributes], columns: tuple[str, ...]
) -> None:
    engine, reference = both(subscriptions)
    rows = [{name: row[name] for name in columns} for row in rows]
    events = [{name: value for name, value in row.items() if value is not None} for row in rows]
    expected = [reference.match(event) for event in events]
    table = pa.table({name: pa.array([row[name] for row in rows], pa.float64()) for name in columns})
    lines = b"\n".join(map(msgspec.json.encode, rows))
    bare = b"\n".join(map(msgspec.json.encode, events))
    structs = pa.array([row or None for row in events], pa.struct(table.schema))
    packed, ends = [], [0]
    for row in rows:
        packed.append(encode_mapping(row))
        ends.append(ends[-1] + len(packed[-1]))
    for unsupported in ("refuse", "skip"):
        for found in (
            engine.match_batch(rows, unsupported=unsupported),
            engine.match_batch([event or None for event in events], unsupported=unsupported),
            engine.match_batch(table, unsupported=unsupported),
            engine.match_batch(table.combine_chunks().to_batches()[0], unsupported=unsupported),
            engine.match_batch(structs, unsupported=unsupported),
            engine.match_json(lines, unsupported=unsupported),
            engine.match_json(bare, unsupported=unsupported),
            engine.match_packed(b"".join(packed), ends),
            [engine.match(row, unsupported=unsupported) for row in rows],
        ):
            assert list(found) == expected
