"""`penstock match` against the oracle, over random filters and events."""

import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import State, holds
from penstock import Time
from penstock.cli.main import main
from penstock.filters.expression import Expression, normalise
from strategies import BOOLS, NUMBERS, STRINGS, TIMES, mixed

pytestmark = pytest.mark.property

Row = dict[str, State]
Subscriptions = list[tuple[Any, Expression]]

SUBSCRIPTIONS = st.lists(
    st.tuples(st.sampled_from([1, 2, 10, "1", "a"]), mixed(complete=False)), min_size=1, max_size=4
)
JSON_STATES = st.sampled_from([*(n for n in NUMBERS if not isinstance(n, Decimal)), *STRINGS, *BOOLS])
JSON_EVENTS = st.fixed_dictionaries({"always": st.just(1)}, optional={"x": JSON_STATES, "y": JSON_STATES})
INTEGERS = tuple(n for n in NUMBERS if isinstance(n, int))
DOUBLES = tuple(n for n in NUMBERS if isinstance(n, float))


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Rows whose columns x and y have one type each, with nulls."""
    pools: list[tuple[Any, ...]] = [INTEGERS, DOUBLES, STRINGS, TIMES, BOOLS]
    columns = {name: st.none() | st.sampled_from(draw(st.sampled_from(pools))) for name in ("x", "y")}
    return draw(st.lists(st.fixed_dictionaries({"always": st.just(1), **columns}), min_size=1, max_size=5))


def to_arrow(values: list[Any]) -> pa.Array:
    if any(isinstance(value, Time) for value in values):
        ticks = [None if value is None else value.nanoseconds for value in values]
        return pa.array(ticks, pa.int64()).cast(pa.timestamp("ns", "UTC"))
    return pa.array(values)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def match(folder: Path, subscriptions: Subscriptions, events: Path) -> list[tuple[Any, list[Any]]]:
    rules, output = folder / "s.jsonl", folder / "out.jsonl"
    write_jsonl(rules, [{"id": key, "filter": normalise(e).to_sql()} for key, e in subscriptions])
    arguments = ["--subscriptions", str(rules), "--events", str(events), "--output", str(output)]
    assert main(["match", *arguments]) == 0
    lines = [json.loads(line) for line in output.read_bytes().splitlines()]
    return [(line["event"], line["ids"]) for line in lines]


def expected(subscriptions: Subscriptions, events: list[Row]) -> list[tuple[int, list[Any]]]:
    found = []
    for row, event in enumerate(events):
        ids = {key for key, expression in subscriptions if holds(expression, event)}
        if ids:
            integers = sorted(key for key in ids if isinstance(key, int))
            found.append((row, [*integers, *sorted(key for key in ids if isinstance(key, str))]))
    return found


@given(SUBSCRIPTIONS, st.lists(JSON_EVENTS, min_size=1, max_size=5))
def test_json_lines_match_what_the_oracle_says(subscriptions: Subscriptions, events: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.jsonl"
        write_jsonl(path, events)
        assert match(Path(folder), subscriptions, path) == expected(subscriptions, events)


@given(SUBSCRIPTIONS, tables())
def test_parquet_matches_what_the_oracle_says(subscriptions: Subscriptions, rows: list[Row]) -> None:
    events: list[Row] = [{n: v for n, v in row.items() if v is not None} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.parquet"
        papq.write_table(pa.table({name: to_arrow([row[name] for row in rows]) for name in rows[0]}), path)
        assert match(Path(folder), subscriptions, path) == expected(subscriptions, events)
