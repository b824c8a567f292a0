"""format("penstock") on a live broker."""

import asyncio
import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMinRows
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType, TimestampType

import penstock
from live_commands import NOWHERE
from net_cases import config, serving, token, with_tokens
from patience import HANGS
from penstock.errors import (
    AccessError,
    EventError,
    FilterError,
    InputError,
    NetworkError,
    PenstockError,
    UnsupportedValueError,
)
from penstock.model.events import Event
from penstock.model.packed import encode_event
from penstock.model.values import Time
from penstock.net.client.sync import SyncClient
from penstock.node.client.notices import Notice
from penstock.spark.source.log import Entry, batch_of, read
from penstock.spark.source.news import heard
from penstock.spark.source.options import Options, read_options
from penstock.spark.source.reading import StreamReader, _Rows
from penstock.spark.source.rows import Misfits, arrow_schema, check_columns, check_readable, filled, rows_of
from penstock.spark.source.source import PenstockSource

SCHEMA = StructType().add("n", "integer")
PLAIN = StructType().add("event", "string").add("publisher", "string").add("number", "long")
PLAIN = PLAIN.add("received_at", "timestamp")


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where a broker listens, and one that asks for tokens."""
    found: list[str] = []
    ready = threading.Event()
    ends: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        ends.append(lambda: loop.call_soon_threadsafe(over.set))
        asking = with_tokens(tmp_path_factory.mktemp("tokens"), name="asking")
        async with serving(config("open"), asking) as servers:
            found.extend(server.urls[0] for server in servers)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    # A first one may have to compile its kernels, which takes minutes.
    assert ready.wait(600)
    yield found[0], found[1]
    ends[0]()
    thread.join()


@pytest.fixture
def net(urls: tuple[str, str]) -> Iterator[SyncClient]:
    with penstock.connect_sync(urls[0]) as client:
        yield client


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def reading(url: str, folder: Path, schema: StructType, **more: str) -> Iterator[StreamReader]:
    """A reader as Spark has one at the driver, without Spark."""
    reader = PenstockSource({"url": url, "log": str(folder), **more}).streamReader(schema)
    try:
        yield reader
    finally:
        reader.stop()


def rows(reader: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, Any]]:
    """What tasks read, each with a copy of the reader as it was planned."""
    copy: StreamReader = pickle.loads(pickle.dumps(StreamReader(SCHEMA, reader._options)))  # noqa: S301
    parts = reader.partitions(start, end)
    return [row for part in parts for batch in copy.read(part) for row in batch.to_pylist()]


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so; Spark takes its time where others do too."""
    end = time.monotonic() + HANGS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def subscribed(net: SyncClient, name: str) -> Callable[[], bool]:
    """Whether the broker knows what a client of some name wants."""
    return lambda: any(c["name"] == name and c["subscriptions"] for c in net.status()["clients"])


def lines(folder: Path) -> list[dict[str, Any]]:
    """What a file sink has: the files of batches that are done, as its manifest names them.

    Others lie beside them already, and are removed again when a batch is stopped.
    """
    names = set()
    for manifest in (folder / "_spark_metadata").glob("[0-9]*"):
        _version, *entries = manifest.read_text().splitlines()
        names |= {json.loads(entry)["path"].rpartition("/")[2] for entry in entries}
    return [json.loads(line) for name in names for line in (folder / name).read_text().splitlines()]


def test_a_reader_gives_the_same_rows_for_the_same_offsets(
    urls: tuple[str, str], net: SyncClient, tmp_path: Path
) -> None:
    with reading(urls[0], tmp_path / "log", SCHEMA, filter="n >= 0", maxEventsPerBatch="3") as reader:
        start = reader.initialOffset()
        assert start == {"position": 0}
        net.publish_many(({"n": n, "x": "y"} for n in range(-5, 5)), ack="handled")
        # What is acknowledged to the publisher is in the log.
        limit = reader.getDefaultReadLimit()
        assert reader.latestOffset(start, limit) == {"position": 3}
        assert reader.latestOffset(start, ReadAllAvailable()) == {"position": 5}
        assert reader.latestOffset(start, ReadMinRows(6)) == start
        assert [row["n"] for row in rows(reader, start, {"position": 3})] == [0, 1, 2]
        assert reader.partitions(start, start) == []
        assert reader.initialOffset() == start
    with reading(urls[0], tmp_path / "log", SCHEMA, filter="n >= 0") as reader:
        assert [row["n"] for row in rows(reader, start, {"position": 3})] == [0, 1, 2]
        net.publish_many(({"n": n} for n in range(5, 7)), ack="handled")
        end = reader.latestOffset({"position": 3}, ReadAllAvailable())
        assert end == reader.reportLatestOffset() == {"position": 7}
        assert [row["n"] for row in rows(reader, {"position": 3}, end)] == [3, 4, 5, 6]
        reader.commit({"position": 5})
        with pytest.raises(InputError, match="are not in this log"):
            rows(reader, start, end)
        assert [row["n"] for row in rows(reader, {"position": 5}, end)] == [5, 6]
        with pytest.raises(InputError, match="they are not of the same query"):
            reader.latestOffset({"position": 8}, ReadAllAvailable())


def test_what_was_logged_before_a_restart_is_not_taken_again(
    urls: tuple[str, str], net: SyncClient, tmp_path: Path
) -> None:
    with reading(urls[0], tmp_path, SCHEMA) as reader:
        reader.initialOffset()
        net.publish({"n": 1}, ack="handled")
    with reading(urls[0], tmp_path, SCHEMA) as reader:
        (first,) = read(tmp_path, 0, 1)
        # As from a publisher that lost its broker, and publishes again under the same numbers.
        again: Any = SimpleNamespace(origin=first["origin"][0].as_py(), number=first["number"][0].as_py())
        assert not reader._started()._is_new(again)
        again.number += 1
        assert reader._started()._is_new(again)


def test_available_now_is_what_comes_in_some_seconds(
    urls: tuple[str, str], net: SyncClient, tmp_path: Path
) -> None:
    with reading(urls[0], tmp_path, PLAIN, seconds="60", count="2", name="now") as reader:
        preparing = threading.Thread(target=reader.prepareForTriggerAvailableNow)
        preparing.start()
        until(subscribed(net, "now"))
        net.publish_many([{"a.b": 1, "t": Time(0)}, {"x": "y"}], ack="handled")
        preparing.join()
        net.publish({"x": "later"}, ack="handled")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        found = [
            row for part in reader.partitions(start, end) for b in reader.read(part) for row in b.to_pylist()
        ]
        assert [row["event"] for row in found] == ['{"a":{"b":1},"t":"1970-01-01T00:00:00Z"}', '{"x":"y"}']
        assert len({row["publisher"] for row in found}) == 1
        assert found[0]["number"] < found[1]["number"]
        assert found[0]["received_at"].year >= 2024
        assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_what_may_have_been_missed_can_end_a_stream(
    urls: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missed = Notice("missed", "it was away")
    with reading(urls[0], tmp_path, SCHEMA) as reader:
        arrivals = reader._started()
        told = heard(tmp_path)
        assert told is not None
        assert (told.is_connected, told.missed) == (True, 0)
        arrivals._noticed(Notice("disconnected", "it is away"))
        told = heard(tmp_path)
        assert told is not None
        assert not told.is_connected
        arrivals._noticed(missed)
        told = heard(tmp_path)
        assert told is not None
        assert (told.is_connected, told.missed) == (True, 1)
        reader.initialOffset()
        assert "events may have been missed: it was away" in caplog.text
    with reading(urls[0], tmp_path, SCHEMA, missed="fail") as reader:
        arrivals = reader._started()
        assert arrivals._loop is not None
        arrivals._loop.call_soon_threadsafe(arrivals._noticed, missed)
        with pytest.raises(NetworkError, match=r"option\('missed'\) is 'fail': it was away"):
            until(lambda: reader.initialOffset() is None)


def test_a_full_log_takes_no_more_until_something_is_dealt_with(
    urls: tuple[str, str], net: SyncClient, tmp_path: Path
) -> None:
    with reading(urls[0], tmp_path, SCHEMA, maxLogBytes="1") as reader:
        reader.initialOffset()
        net.publish({"n": 0}, ack="handled")
        waiting = net.publish_nowait({"n": 1}, ack="handled")
        time.sleep(0.2)
        assert not waiting.done()
        assert reader.reportLatestOffset() == {"position": 1}


def test_a_stream_that_is_killed_in_a_batch_has_each_event_once(
    spark: SparkSession, urls: tuple[str, str], net: SyncClient, tmp_path: Path
) -> None:
    def stream(name: str) -> DataStreamWriter:
        reader = spark.readStream.format("penstock").schema("n int, s struct<d: double, t: timestamp>")
        reader = reader.option("url", urls[0]).option("log", str(tmp_path / "checkpoint" / "penstock"))
        df = reader.option("name", name).option("filter", "n >= 0").load()
        return df.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))

    begun, gone = threading.Event(), threading.Event()

    def never(_df: DataFrame, _batch: int) -> None:
        begun.set()
        gone.wait(HANGS)
        raise RuntimeError("this batch is not to end")

    query = stream("killed").foreachBatch(never).start()
    try:
        until(subscribed(net, "killed"))
        net.publish_many(({"n": n, "s.d": 1, "s.t": Time(0)} for n in range(-10, 20)), ack="handled")
        assert begun.wait(HANGS)
        net.publish_many(({"n": n} for n in range(20, 30)), ack="handled")
        os.kill(int((tmp_path / "checkpoint" / "penstock" / "lock").read_text()), signal.SIGKILL)
    finally:
        gone.set()
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(HANGS)
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    with running(stream("after").format("json").start(str(tmp_path / "out"))):
        until(subscribed(net, "after"))
        net.publish_many(({"n": n} for n in range(30, 40)), ack="handled")
        until(lambda: len(lines(tmp_path / "out")) >= 40)
    found = sorted(lines(tmp_path / "out"), key=lambda row: row["n"])
    assert [row["n"] for row in found] == list(range(40))
    assert found[0]["s"] == {"d": 1.0, "t": "1970-01-01T00:00:00.000Z"}
    assert "s" not in found[39]


def test_filters_on_a_batch_travel_to_the_broker(
    spark: SparkSession, urls: tuple[str, str], net: SyncClient
) -> None:
    reader = spark.read.format("penstock").schema("kind string, n int, x double")
    df = reader.option("seconds", HANGS).option("count", 5).load(urls[0])
    over = threading.Event()

    def publish() -> None:
        at = 0
        while not over.wait(0.01):
            at += 1
            # Fractions are greater than 2 and no whole number: Spark looks at those again.
            net.publish({"kind": "ab"[at % 2], "n": at / 4, "x": 1}, ack="handled")

    delivered = net.status()["counts"]["delivered"]
    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        found = df.where("kind = 'a' and n > 2 and x < 100").collect()
    finally:
        over.set()
        publisher.join()
    # Every other of the kind is a whole number. The five that came were all of it, and greater than 2.
    assert {(row.kind, row.n > 2) for row in found} == {("a", True)}
    assert 2 <= len(found) <= 3
    assert net.status()["counts"]["delivered"] - delivered < 20


def test_a_sink_publishes_rows_as_events(
    spark: SparkSession, urls: tuple[str, str], net: SyncClient, tmp_path: Path
) -> None:
    columns = (
        "id as n",
        "timestamp'2020-01-01' as at",
        "struct(id % 2 = 0 as even) as s",
        "array(id) as l",
        "x'00' as raw",
    )
    with net.subscribe("n >= 0") as taken:
        options = {"url": urls[0], "unsupported": "skip", "advertise": "n < 100"}
        spark.range(6).selectExpr(*columns).write.format("penstock").mode("append").options(**options).save()
        events = sorted((dict(taken.next(HANGS)) for _ in range(6)), key=lambda event: event["n"])
        midnight = Time.parse("2020-01-01")
        assert events == [{"n": n, "at": midnight, "s.even": n % 2 == 0, "l": (n,)} for n in range(6)]

        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        sink = source.selectExpr("value as n").writeStream.format("penstock").option("url", urls[0])
        with running(sink.option("checkpointLocation", str(tmp_path / "sink")).start()):
            assert {taken.next(HANGS)["n"] for _ in range(6)} == set(range(6))


def test_rows_without_a_value_are_events_unless_told(urls: tuple[str, str], net: SyncClient) -> None:
    schema = StructType().add("n", "integer").add("s", StructType().add("x", "string"))
    batch = pa.RecordBatch.from_pylist(
        [{"n": 1, "s": None}, {"n": None, "s": {"x": None}}, {"n": None, "s": {"x": "y"}}],
        schema=arrow_schema(schema),
    )
    given = {"url": urls[0]}
    with pytest.raises(EventError, match=r"option\('empty', 'skip'\)"):
        PenstockSource({**given, "empty": "refuse"}).writer(schema, False).write(iter([batch]))
    with net.subscribe("true") as taken:
        assert PenstockSource(given).writer(schema, False).write(iter([batch])).events == 3
        assert [dict(taken.next(HANGS)) for _ in range(3)] == [{"n": 1}, {}, {"s.x": "y"}]
        assert (
            PenstockSource({**given, "empty": "skip"}).writer(schema, False).write(iter([batch])).events == 2
        )
        assert [dict(taken.next(HANGS)) for _ in range(2)] == [{"n": 1}, {"s.x": "y"}]


def test_who_cannot_connect_is_told_why(urls: tuple[str, str], tmp_path: Path) -> None:
    may_publish = token(advertise=["n > 1"])
    for url, more, kind in [
        (NOWHERE, {"timeout": "2"}, NetworkError),
        (urls[1], {"token": "no token"}, AccessError),
        (urls[1], {"token": may_publish}, AccessError),
        (urls[0], {"tokenFile": str(tmp_path / "none")}, InputError),
        (urls[0], {"ca": "x"}, InputError),
    ]:
        with reading(url, tmp_path / "log", SCHEMA, **more) as reader, pytest.raises(kind):
            reader.initialOffset()
    (tmp_path / "token").write_text(f"{may_publish}\n")
    options = {"url": urls[1], "tokenFile": str(tmp_path / "token")}
    writer = PenstockSource(options).streamWriter(SCHEMA, False)
    batch = pa.RecordBatch.from_pylist([{"n": 2}], schema=arrow_schema(SCHEMA))
    assert writer.write(iter([batch])).events == 1
    batch = pa.RecordBatch.from_pylist([{"n": 0}], schema=arrow_schema(SCHEMA))
    with pytest.raises(PenstockError):
        writer.write(iter([batch]))


def test_mistakes_are_said_in_one_sentence(spark: SparkSession, urls: tuple[str, str]) -> None:
    reader = spark.readStream.format("penstock").option("url", urls[0])
    with pytest.raises(
        PySparkException, match=r"InputError: format\('penstock'\) has no option 'fitler'; perhaps"
    ):
        reader.option("fitler", "x > 1").load()
    df = spark.readStream.format("penstock").option("url", urls[0]).load()
    with (
        running(df.writeStream.format("noop").start()) as query,
        pytest.raises(StreamingQueryException) as found,
    ):
        query.awaitTermination(HANGS)
    assert "InputError: a stream of events needs option('log', …), a folder below the query's" in str(
        found.value
    )
    lost = spark.range(1).write.format("penstock").mode("append").option("timeout", 2)
    with pytest.raises(PySparkException, match=r"NetworkError: penstock://127\.0\.0\.1:1: "):
        lost.option("url", NOWHERE).save()


def test_mistakes_in_what_is_asked_for_are_found_before_anything_is_done() -> None:
    source = PenstockSource({"path": "penstock://x"})
    assert source.checked.url == ("penstock://x",)
    made: list[tuple[Callable[[], object], str]] = [
        (lambda: source.reader(SCHEMA), r"needs option\('seconds', …\)"),
        (lambda: source.streamReader(SCHEMA), r"needs option\('log', …\)"),
        (lambda: source.writer(SCHEMA, True), r"use mode\('append'\)"),
        (lambda: source.streamWriter(SCHEMA, True), r"use outputMode\('append'\)"),
        (lambda: PenstockSource({}), r"needs option\('url', 'penstock://host:7400'\)"),
    ]
    for make, why in made:
        with pytest.raises(InputError, match=why):
            make()


def test_options_are_read_whatever_their_case() -> None:
    given = {"URL": "penstock://a, penstock://b:1", "maxeventsperbatch": "7", "Token": "t", "queryName": "q"}
    read = read_options(given)
    assert read == Options(url=("penstock://a", "penstock://b:1"), max_events_per_batch=7, token="t")  # noqa: S106
    assert read_options({**given, "log": "file:///x/y"}).log == "/x/y"
    for name, text, why in [
        ("count", "0", "option('count') is a whole number from 1 on, not '0'"),
        ("seconds", "soon", "option('seconds') is a number from 0 on, not 'soon'"),
        ("mismatch", "skip", "option('mismatch') is 'null' or 'error', not 'skip'"),
        ("token_file", "x", "has no option 'token_file'; perhaps tokenFile"),
        ("qqqqq", "x", "has no option 'qqqqq'; there are advertise, ca,"),
        ("tokenFile", "x", "not both"),
        (
            "log",
            "hdfs://x/y",
            "option('log') is a folder of a file system that driver and workers have mounted",
        ),
    ]:
        with pytest.raises(InputError) as found:
            read_options({**given, name: text})
        assert why in str(found.value)
    with pytest.raises(FilterError, match=r"option\('advertise'\)"):
        read_options({**given, "advertise": "="})
    with pytest.raises(PenstockError):
        read_options({"url": "http://x"})


def test_values_that_a_column_cannot_hold_are_null_or_an_error() -> None:
    schema = pa.schema([("n", pa.int8()), ("s", pa.struct([("d", pa.date32()), ("t", pa.string())]))])
    day = 86_400 * 10**9
    events: list[dict[str, Any]] = [
        {"n": 5.0, "s.d": Time(day)},
        {"n": 5.5, "s.d": Time(day + 1), "s.t": "x"},
        {"n": 200, "s": "no struct"},
        {"n": True},
    ]
    found = rows_of(events, schema).to_pylist()
    assert [row["n"] for row in found] == [5, None, None, None]
    assert [row["s"] and {name: str(v) for name, v in row["s"].items()} for row in found] == [
        {"d": "1970-01-02", "t": "None"},
        {"d": "None", "t": "x"},
        None,
        None,
    ]
    with pytest.raises(InputError, match=r"'n' is 5.5 \(float\) in an event, which a column of type int8"):
        rows_of(events, schema, strict=True)
    needed = pa.schema([pa.field("n", pa.int8(), nullable=False)])
    with pytest.raises(InputError, match="an event has no 'n' that its column can hold"):
        rows_of(events, needed)
    inner = pa.schema([("s", pa.struct([pa.field("d", pa.date32(), nullable=False), ("t", pa.string())]))])
    with pytest.raises(InputError, match=r"an event lacks 's\.d'"):
        rows_of(events, inner)
    rows_of(events[:1] + events[2:], inner)


def test_text_that_is_a_time_is_one_in_a_column_of_times() -> None:
    schema = pa.schema([("t", pa.timestamp("us", "UTC")), ("d", pa.date32())])
    events: list[dict[str, Any]] = [
        {"t": "2024-01-02T03:04:05.000006Z", "d": "2024-01-02"},
        {"t": "2024-01-02 04:04:05+01:00", "d": "2024-01-02T00:00:01Z"},
        {"t": "soon", "d": "2024-13-01"},
        {"t": 5},
    ]
    misfits = Misfits()
    found = rows_of(events, schema, misfits=misfits).to_pylist()
    assert [row["t"] and row["t"].isoformat() for row in found] == [
        "2024-01-02T03:04:05.000006+00:00",
        "2024-01-02T03:04:05+00:00",
        None,
        None,
    ]
    assert [row["d"] and str(row["d"]) for row in found] == ["2024-01-02", None, None, None]
    assert list(misfits.sentences()) == [
        "2 values of 'd' became null, because the column cannot hold them; the first: 2024-01-02T00:00:01Z, "
        "for a column of type date32[day]. option('mismatch', 'error') makes this an error",
        "2 values of 't' became null, because the column cannot hold them; the first: soon, "
        "for a column of type timestamp[us, tz=UTC]. option('mismatch', 'error') makes this an error",
    ]
    with pytest.raises(InputError, match=r"'t' is soon \(str\) in an event"):
        rows_of(events, schema, strict=True)


def test_what_is_lost_is_said_in_the_log_of_the_task(caplog: pytest.LogCaptureFixture) -> None:
    options = read_options({"url": "penstock://127.0.0.1:1"})
    rows = _Rows(StructType([StructField("t", TimestampType())]), options)
    entries = [Entry(encode_event(Event({"t": text})), "p", 1, 0) for text in ("2024-01-02", "soon")]
    assert [row["t"] is None for row in rows.of(batch_of(entries)).to_pylist()] == [False, True]
    (record,) = caplog.records
    assert record.getMessage().startswith("1 value of 't' became null")


def test_columns_that_events_do_not_have_are_refused() -> None:
    with pytest.raises(InputError, match=r"the column 'a\.l' is of type list"):
        check_readable(pa.schema([("a", pa.struct([("l", pa.list_(pa.binary()))]))]))
    with pytest.raises(InputError, match="a schema needs a column"):
        check_readable(pa.schema([]))
    lists = pa.schema([("l", pa.list_(pa.binary())), ("n", pa.int8())])
    with pytest.raises(UnsupportedValueError, match=r"the column 'l' .*option\('unsupported', 'skip'\)"):
        check_columns(lists, "refuse")
    check_columns(lists, "skip")
    with pytest.raises(PenstockError, match="no column can be an attribute"):
        check_columns(lists.remove(1), "skip")


def test_lists_come_as_arrays_and_go_as_lists() -> None:
    record = pa.struct(
        [("a", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("b", pa.struct([("c", pa.string())]))]
    )
    schema = pa.schema(
        [
            ("tags", pa.list_(pa.string())),
            ("items", pa.list_(record)),
            ("rows", pa.list_(pa.list_(pa.float64()))),
        ]
    )
    check_readable(schema)
    events = [
        Event(
            {
                "tags": ["x", "y"],
                "items": [{"a": 1, "at": Time(5_000), "b": {"c": "z"}}, {}],
                "rows": [[1, 2.5]],
            }
        ),
        Event({"tags": ["x", 5], "items": [{"a": 2**40}], "rows": [1]}),
        Event({"tags": "x"}),
    ]
    misfits = Misfits()
    rows = rows_of([event.attributes for event in events], schema, misfits=misfits)
    assert rows.schema == schema
    assert rows.column("tags").to_pylist() == [["x", "y"], None, None]
    assert rows.column("rows").to_pylist() == [[[1.0, 2.5]], None, None]
    assert {name: count for name, (count, _) in misfits.found.items()} == {"tags": 2, "items": 1, "rows": 1}
    check_columns(schema, "refuse")
    assert next(iter(Event.from_arrow(rows))) == Event(
        {"tags": ["x", "y"], "items": events[0]["items"], "rows": [[1, 2.5]]}
    )
    assert filled(pa.record_batch({"t": [[None], [], None, ["x"]]})).to_pylist() == [
        False,
        False,
        False,
        True,
    ]
