"""Profiles: what is claimed to be exact is what brute force counts, however the events are cut into parts."""

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from penstock import Matcher
from penstock.errors import InputError, UnsupportedValueError
from penstock.filters.constraint import value_set
from penstock.filters.estimate import Estimator
from penstock.filters.merging import merge
from penstock.filters.parsing import as_predicate
from penstock.model.arrow import events_from_arrow
from penstock.model.values import Family, Time, Value
from penstock.spark.analysis import binning, sketches
from penstock.spark.analysis.distributions import AttributeProfile
from penstock.spark.analysis.profile import (
    answer_questions,
    distributions,
    merge_summaries,
    profile,
    profile_of,
    sample_events,
    summarise,
)
from penstock.spark.analysis.summaries import COMMON, SAMPLE, decode
from penstock.spark.events import Attribute
from strategies import NUMBERS, STRINGS

DOUBLES = (*(float(number) for number in NUMBERS), math.inf, -math.inf, math.nan)
INTEGERS = tuple(number for number in NUMBERS if isinstance(number, int))
TICKS = (-(2**63), -(2**63) // 1000, -1, 0, 1, 10**15, 2**63 // 1000, 2**63 - 1)
KINDS: dict[str, tuple[Family, T.DataType, pa.DataType, tuple[Any, ...]]] = {
    "flag": (Family.BOOL, T.BooleanType(), pa.bool_(), (False, True)),
    "count": (Family.NUMBER, T.LongType(), pa.int64(), INTEGERS),
    "price": (Family.NUMBER, T.DoubleType(), pa.float64(), DOUBLES),
    "text": (Family.STRING, T.StringType(), pa.string(), (*STRINGS, "x" * 300, "x" * 301)),
    "at": (Family.TIME, T.TimestampType(), pa.timestamp("us", tz="UTC"), TICKS),
}


def batches_of(parts: list[list[Any]], kind: pa.DataType) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array(part, kind)], names=["c0"]) for part in parts]


def profiled(
    kind: str, tasks: list[list[list[Any]]], *, bins: int = 4, top: int = 3, seed: int = 0
) -> AttributeProfile:
    """A profile of one column, made by the functions that tasks run, without Spark."""
    family, spark_type, arrow_type, _pool = KINDS[kind]
    parts = [sent for task in tasks for sent in summarise(1, batches_of(task, arrow_type))]
    Random(seed).shuffle(parts)
    ((sent,),) = (batch.column("summary").to_pylist() for batch in merge_summaries(parts))
    summary = decode(sent)
    asked = binning.question(summary, bins)
    answered = None
    if not summary.is_complete:
        answered = np.zeros(binning.bin_count(asked) + len(asked.values), np.int64)
        for task in tasks:
            for batch in answer_questions({0: asked}, batches_of(task, arrow_type)):
                np.add.at(answered, batch.column("slot").to_numpy(), batch.column("count").to_numpy())
    return profile_of(Attribute("c0", ("c0",), family, spark_type), summary, asked, answered, top)


def carried(kind: str, values: Iterable[Any]) -> list[Value]:
    """The values that events can carry, as the model has them."""
    present = [value for value in values if value is not None]
    if kind != "at":
        return present
    return [Time(tick * 1000) for tick in present if -(2**63) <= tick * 1000 < 2**63]


def in_bins(edges: list[Any], values: list[Any]) -> list[int]:
    """Counts by definition: [e0, e1), [e1, e2) …, all that is outside in the outermost."""
    counts = [0] * max(0, len(edges) - 1)
    for value in values if counts else []:
        at = next((at for at, edge in enumerate(edges[1:-1]) if value < edge), len(counts) - 1)
        counts[at] += 1
    return counts


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, list[list[list[Any]]]]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    values = st.none() | st.sampled_from(KINDS[kind][3])
    return kind, draw(st.lists(st.lists(st.lists(values, max_size=6), max_size=3), min_size=1, max_size=4))


@pytest.mark.property
@given(columns(), st.integers(1, 5), st.integers(0, 4))
def test_a_profile_of_few_values_is_what_brute_force_counts(
    column: tuple[str, list[list[list[Any]]]], bins: int, top: int
) -> None:
    kind, tasks = column
    rows = [value for task in tasks for batch in task for value in batch]
    values = carried(kind, rows)
    plain = [value for value in values if value == value]
    counts = Counter(plain)
    found = profiled(kind, tasks, bins=bins, top=top)
    assert (found.rows, found.present, found.nan) == (len(rows), len(values), len(values) - len(plain))
    assert found.unusable == sum(row is not None for row in rows) - len(values)
    assert (found.distinct, found.distinct_exact) == (len(counts), True)
    ends = [None if text is None else found.value(text) for text in (found.min, found.max)]
    shown = [value[:256] if isinstance(value, str) else value for value in plain]
    assert ends == ([min(shown), max(shown)] if shown else [None, None])
    showable = {
        value: count for value, count in counts.items() if not isinstance(value, str) or len(value) <= 256
    }
    expected = sorted(showable.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
    assert list(found.listed().items()) == expected
    assert found.rest == len(plain) - sum(count for _value, count in expected)
    assert set(found.others) <= {text for text in showable if isinstance(text, str)} | {"true", "false"}
    edges = [found.value(edge) for edge in found.edges]
    assert found.counts == in_bins(edges, plain)
    assert len(found.counts) <= bins
    if kind in ("count", "price", "at"):
        finite = [value for value in plain if isinstance(value, Time) or math.isfinite(value)]  # type: ignore[arg-type]
        assert edges[:1] + edges[-1:] == ([min(finite), max(finite)] if finite else [])
        assert edges == sorted(set(edges)) or edges[0] == edges[-1]


@pytest.mark.property
@given(columns(), st.randoms(use_true_random=False))
def test_the_order_and_the_parts_change_nothing(
    column: tuple[str, list[list[list[Any]]]], random: Random
) -> None:
    kind, tasks = column
    rows = [value for task in tasks for batch in task for value in batch]
    random.shuffle(rows)
    cut = random.randint(0, len(rows))
    assert profiled(kind, tasks) == profiled(
        kind, [[rows[:cut]], [rows[cut:], []]], seed=random.randint(0, 9)
    )


def many_values(seed: int) -> list[float]:
    """More than the sample holds, four of them frequent, one just below what is surely found."""
    random = Random(seed)
    rows = [random.gauss(0, 100) for _ in range(8_000)]
    for value, share in ((0.5, 0.1), (7.0, 0.05), (-3.25, 0.01), (1e9, 0.003), (2e9, 0.0015)):
        rows += [value] * round(share * 10_000)
    random.shuffle(rows)
    return rows


def test_of_many_values_frequent_ones_bins_and_ends_are_exact_and_the_rest_close() -> None:
    rows = many_values(1)
    tasks = [
        [rows[at : at + 700] for at in range(begin, begin + 3_500, 700)] for begin in range(0, 10_500, 3_500)
    ]
    found = profiled("price", tasks, bins=16, top=20)
    counts = Counter(rows)
    assert not found.distinct_exact
    assert abs(found.distinct / len(counts) - 1) < 4 / math.sqrt(SAMPLE)
    sure = {value: count for value, count in counts.items() if count * (COMMON + 1) > len(rows)}
    assert found.listed() == sure == {0.5: 1000, 7.0: 500, -3.25: 100, 1e9: 30}
    assert found.rest == len(rows) - sum(sure.values())
    edges = [found.value(edge) for edge in found.edges]
    assert (edges[0], edges[-1]) == (min(rows), max(rows))
    assert found.counts == in_bins(edges, rows)
    assert found == profiled("price", [[rows[::2]], [rows[1::2]]], bins=16, top=20)


def test_so_it_is_of_many_strings() -> None:
    rows = [f"{value:.6f}" for value in many_values(2)]
    found = profiled("text", [[rows[:3000], rows[3000:4000]], [rows[4000:]]], top=2)
    assert found.listed() == {"0.500000": 1000, "7.000000": 500}
    assert found.rest == len(rows) - 1500
    assert len(found.others) == 64
    assert set(found.others) <= set(rows) - {"0.500000", "7.000000"}
    assert abs(found.distinct / len(set(rows)) - 1) < 4 / math.sqrt(SAMPLE)


@pytest.mark.property
@given(
    st.lists(st.lists(st.integers(0, 40).map(lambda n: n * n // 40), max_size=30), min_size=1, max_size=6),
    st.integers(1, 8),
)
def test_sketches_keep_what_they_promise(parts: list[list[int]], size: int) -> None:
    counts = Counter(value for part in parts for value in part)
    sample = common = sketches.nothing("i")
    for part in parts:
        values = np.array(part, np.int64)
        found = sketches.counted(sketches.hash_numbers(values), values)
        sample = sketches.smallest(sketches.united(sample, sketches.smallest(found, size)), size)
        common = sketches.frequent(sketches.united(common, sketches.frequent(found, size)), size)
        common = sketches.unpack(sketches.pack(common))
    every = np.array(sorted(counts), np.int64)
    hashes = sketches.hash_numbers(every)
    smallest = every[np.argsort(hashes)][:size].tolist()
    assert dict(zip(sample.values.tolist(), sample.counts.tolist(), strict=True)) == {
        value: counts[value] for value in smallest
    }
    total = counts.total()
    kept = dict(zip(common.values.tolist(), common.counts.tolist(), strict=True))
    assert len(kept) <= size
    for value, count in counts.items():
        assert count - total / (size + 1) <= kept.get(value, 0) <= count


def test_text_that_is_not_utf8_is_counted_as_no_value_of_an_event() -> None:
    spoilt = pa.array([b"a", b"\xff", b"b", None], pa.binary()).view(pa.string())
    (sent,) = summarise(1, [pa.record_batch([spoilt], names=["c0"])])
    summary = decode(sent.column("summary")[0].as_py())
    assert (summary.rows, summary.present, summary.unusable, summary.low, summary.high) == (4, 2, 1, "a", "b")


def test_dates_are_times_at_their_first_instant() -> None:
    days = pa.array([date(2013, 1, 31), date(9999, 1, 1)], pa.date32())
    (sent,) = summarise(1, [pa.record_batch([days], names=["c0"])])
    summary = decode(sent.column("summary")[0].as_py())
    assert Time(summary.low) == Time(summary.high) == Time.parse("2013-01-31")
    assert summary.unusable == 1


# What a profile is good for


def share(found: AttributeProfile, text: str) -> float:
    (conjunction,) = as_predicate(text).filters
    return Estimator([conjunction], distributions([found])).share(conjunction)


@pytest.mark.property
@given(
    columns(),
    st.sampled_from(["c0 is not null", "c0 is null", "c0 >= 0", "c0 = 1", "c0 > 'a'", "c0 like '%b%'"]),
)
def test_of_few_values_shares_are_those_of_the_events(
    column: tuple[str, list[list[list[Any]]]], text: str
) -> None:
    kind, tasks = column
    rows = [value for task in tasks for batch in task for value in batch]
    rows = [row for row in rows if not isinstance(row, str) or len(row) <= 256]
    found = profiled(kind, [[rows]], top=40)
    (conjunction,) = as_predicate(text).filters
    states = conjunction.conditions["c0"]
    values: list[Value | None] = [*carried(kind, rows)]
    values += [None] * (len(rows) - len(values))
    assert not rows or math.isclose(
        share(found, text), sum(map(states.admits, values)) / len(rows), abs_tol=1e-12
    )
    assert rows or distributions([found]) == {}


def test_of_many_values_shares_are_close() -> None:
    rows = many_values(3)
    found = profiled("price", [[rows + [None] * 500 + [math.nan] * 500]], bins=32, top=20)
    total = len(rows) + 1000
    for text, expected in (
        ("c0 between -50 and 50", sum(-50 <= row <= 50 for row in rows)),
        ("c0 < -100", sum(row < -100 for row in rows)),
        ("c0 = 0.5", 1000),
        ("c0 in (0.5, 7)", 1500),
        ("c0 is not null", len(rows) + 500),
        ("c0 is null", 500),
    ):
        assert abs(share(found, text) - expected / total) < 0.02, text
    assert 0 < share(found, "c0 = 11") < 2 / total * 1.2
    assert share(found, "c0 = 'a'") == 0


@pytest.mark.parametrize("kind", ["count", "at"])
def test_so_they_are_of_integers_and_times(kind: str) -> None:
    rows = [round(value * 1e6) + 10**15 for value in many_values(6) if value < 1e8]
    found = profiled(kind, [[rows]], bins=32)
    assert not found.distinct_exact
    for below in (10**15 - 10**8, 10**15, 10**15 + 5 * 10**7):
        text = f"c0 < TIMESTAMP '{Time(below * 1000)}'" if kind == "at" else f"c0 < {below}"
        assert abs(share(found, text) - sum(row < below for row in rows) / len(rows)) < 0.02
    drawn = sample_events([found], 2_000, 3).column("c0").cast(pa.int64()).to_numpy()
    below = 10**15 * (1000 if kind == "at" else 1)
    assert abs((drawn < below).mean() - sum(row < 10**15 for row in rows) / len(rows)) < 0.05


def test_merging_takes_what_a_profile_knows() -> None:
    rows = ["JFK"] * 60 + ["LGA"] * 39 + ["EWR"]
    known = distributions([profiled("text", [[rows]])])
    loose = merge(["c0 in ('JFK', 'LGA')", "c0 = 'EWR' and x = 1"], budget=0.05, distributions=known)
    assert loose.predicate.to_sql() == "c0 in ('EWR', 'JFK', 'LGA')"
    assert known["c0"].share(value_set("=", "EWR")) == 0.01


@pytest.mark.property
@given(columns(), st.integers(0, 3), st.integers(0, 3))
def test_a_drawn_event_has_values_that_the_profile_has(
    column: tuple[str, list[list[list[Any]]]], top: int, seed: int
) -> None:
    kind, tasks = column
    found = profiled(kind, tasks, top=top)
    drawn = sample_events([found], 20, seed)
    assert drawn.equals(sample_events([found], 20, seed)) or kind == "price"
    if not found.present:
        assert drawn.num_rows == 0
        Matcher({"a": "c0 > 1"}).learn(drawn)
        return
    assert None not in list(events_from_arrow(drawn))
    values = drawn.column("c0").cast(pa.int64() if kind == "at" else KINDS[kind][2]).to_pylist()
    values = [Time(value) for value in values] if kind == "at" else values
    assert len(values) == 20
    assert None not in values
    if found.min is not None and found.max is not None:
        low, high = found.value(found.min), found.value(found.max)
        assert all(low <= value <= high for value in values if value == value)


def test_drawn_events_are_like_those_of_the_profile() -> None:
    rows = many_values(4)
    numbers = profiled("price", [[rows + [None] * 10_000]], bins=32)
    drawn = sample_events([numbers], 4_000, 1)
    assert drawn.column("c0").null_count == 0, "an event has an attribute"
    flags = profiled("flag", [[[True] * 20_000]])
    drawn = sample_events([numbers, AttributeProfile(**{**vars_of(flags), "name": "a.b"})], 4_000, 1)
    values = [value for value in drawn.column("c0").to_pylist() if value is not None]
    assert drawn.column_names == ["c0", "a.b"]
    assert abs(len(values) / 4_000 - numbers.presence) < 0.04
    assert abs(values.count(0.5) / len(values) - 0.1) < 0.03
    assert (
        abs(sum(value < -100 for value in values) / len(values) - sum(r < -100 for r in rows) / len(rows))
        < 0.04
    )
    matcher = Matcher({"a": "c0 > 1 and a.b = true"})
    matcher.learn(drawn)
    assert matcher.match({"c0": 2, "a": {"b": True}}) == ["a"]


def vars_of(found: AttributeProfile) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


# On Spark


def test_profiles_on_spark_are_those_of_the_plain_functions(spark: SparkSession) -> None:
    random = Random(5)
    moments = [datetime(2013, 1, 1 + hour // 24, hour % 24, tzinfo=UTC) for hour in range(60)]
    numbers = many_values(5)
    rows = [
        {
            "flag": random.choice([True, False, None]),
            "a.price": number,
            "way": random.choice([None, {"from": random.choice(["JFK", "LGA"]), "more": {"gate": 3}}]),
            "at": random.choice(moments),
            "blob": b"1",
        }
        for number in numbers
    ]
    events = spark.createDataFrame(pa.Table.from_pylist(rows)).repartition(3)
    with pytest.raises(UnsupportedValueError, match="'blob' of type binary"):
        profile(events)
    made = profile(events, bins=8, top=5, unsupported="skip")
    found = {row.name: row for row in made.collect()}
    assert list(found) == ["flag", "a.price", "way.from", "way.more.gate", "at"]
    assert [row.family for row in found.values()] == ["bool", "number", "string", "number", "time"]
    alone = profiled("price", [[numbers]], bins=8, top=5)
    for name in alone.__struct_fields__:
        if name not in ("name", "top"):
            assert found["a.price"][name] == getattr(alone, name), name
    assert [tuple(pair) for pair in found["a.price"].top] == [(pair.value, pair.count) for pair in alone.top]
    there = sum(row["way"] is not None for row in rows)
    assert (found["way.from"].present, found["way.more.gate"].present) == (there, there)
    assert found["way.from"].presence == there / len(rows)
    assert (found["at"].min, found["at"].max) == ("2013-01-01T00:00:00Z", "2013-01-03T11:00:00Z")
    assert (found["at"].distinct, sum(found["at"].counts)) == (60, len(rows))
    assert set(distributions(made)) == set(found)
    drawn = sample_events(found.values(), 10, 1)
    assert drawn.column_names == list(found)
    Matcher({"a": "way.from = 'JFK'"}).learn(drawn)


def test_no_rows_no_attributes_and_wrong_questions_are_answered_plainly(spark: SparkSession) -> None:
    (row,) = profile(spark.createDataFrame([], "x long")).collect()
    assert (row.rows, row.present, row.presence, row.min, row.edges, row.top) == (0, 0, 0.0, None, [], [])
    assert profile(spark.createDataFrame([], "x binary"), unsupported="skip").collect() == []
    with pytest.raises(InputError, match="bins is a whole number"):
        profile(spark.range(1), bins=0)
    with pytest.raises(InputError, match="the columns 'x' and 'X' differ in case only: rename one"):
        profile(spark.createDataFrame([(1, 2)], "x long, X long"))
    with pytest.raises(InputError, match="a stream has no end"):
        profile(spark.readStream.format("rate").load())
    with pytest.raises(InputError, match="no profile as profile"):
        distributions(spark.range(1))
