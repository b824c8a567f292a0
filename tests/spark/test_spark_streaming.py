import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from patience import HANGS
from penstock.errors import InputError, PenstockError
from penstock.spark import (
    ConsoleSink,
    JsonLinesSink,
    ParquetSink,
    PenstockSink,
    Table,
    await_query,
    route,
    route_stream,
    save_table,
    skipped,
)
from penstock.spark.versions_log import Entry, VersionsLog, mark_of
from stream_cases import answers, events_of, rules_of, save_version, stream_of, write_events

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def nothing(routed: DataFrame, batch: int) -> None:
    routed.collect()


class Case:
    """A folder with a table of one version, some files of events, and a place for everything else."""

    def __init__(self, spark: SparkSession, folder: Path, files: int, **options: Any) -> None:
        self.spark = spark
        self.folder = folder
        self.rules = folder / "rules"
        self.routed = folder / "routed"
        self.checkpoint = folder / "checkpoint"
        self.log = VersionsLog(self.checkpoint / "penstock" / "versions")
        write_events(folder / "events", range(files))
        save_version(self.rules, rules_of(1), **options)

    @property
    def events(self) -> DataFrame:
        return stream_of(self.spark, self.folder / "events")

    def start(self, sinks: Any, **options: Any) -> "StreamingQuery":
        given: dict[str, Any] = {"checkpoint": self.checkpoint, "trigger": "available-now", **options}
        return route_stream(self.events, self.rules, sinks=sinks, **given)

    def run(self, sinks: Any, **options: Any) -> None:
        assert await_query(self.start(sinks, **options))

    def read(self) -> list[tuple[int, int, list[str]]]:
        """All results: (batch, event, ids), as any reader sees them."""
        rows = self.spark.read.parquet(f"file://{self.routed}").collect()
        return sorted((row["batch_id"], row["n"], row["ids"]) for row in rows)

    def expected(self, versions: list[int]) -> list[tuple[int, int, list[str]]]:
        """What a plain matcher says if batch i, which is file i, has the version `versions[i]`."""
        return [
            (batch, n, ids)
            for batch, version in enumerate(versions)
            for n, ids in sorted(answers(version, [batch]).items())
        ]

    def logged(self) -> list[int | None]:
        found = map(self.log.find, self.log.batches())
        return [entry.version for entry in found if entry is not None]

    def committed(self) -> list[int]:
        return sorted(int(entry.name) for entry in (self.checkpoint / "commits").glob("[0-9]*"))


@pytest.mark.parametrize("output", ["ids", "rows"])
def test_a_plain_stream_is_routed_as_a_matcher_says(spark: SparkSession, tmp_path: Path, output: Any) -> None:
    case = Case(spark, tmp_path, 2)
    routed = route(case.events, case.rules, output=output)
    assert routed.isStreaming
    query = (
        routed.writeStream.format("memory").queryName(f"plain_{output}").trigger(availableNow=True).start()
    )
    assert await_query(query)
    rows = spark.table(f"plain_{output}").collect()
    spark.catalog.dropTempView(f"plain_{output}")
    expected = answers(1, [0, 1], keep=False)
    if output == "ids":
        assert {row["n"]: row["ids"] for row in rows} == expected
    else:
        pairs = sorted((row["n"], row["id"]) for row in rows)
        assert pairs == [(n, key) for n, ids in sorted(expected.items()) for key in ids]


def test_each_batch_has_the_version_that_was_the_latest_when_it_began(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(spark, tmp_path, 4)
    seen: list[list[int | None]] = []

    def change(_: DataFrame, batch: int) -> None:
        # It was logged before anything was matched.
        seen.append(case.logged())
        if batch in (0, 2):
            save_version(case.rules, rules_of(batch // 2 + 2))
        # What is left of a run that was killed is nobody's data.
        shutil.copytree(case.routed / f"batch_id={batch}", case.routed / f".batch_id={batch + 1}-left")

    lines = JsonLinesSink(tmp_path / "lines", options={"compression": "none"})
    case.run([ParquetSink(case.routed), lines, change, ConsoleSink(1)], unmatched="keep", name="changing")
    assert seen == [[1], [1, 2], [1, 2, 2], [1, 2, 2, 3]]
    assert case.read() == case.expected([1, 2, 2, 3])
    assert {entry.name for entry in case.routed.glob(".batch*")} == {".batch_id=4-left"}
    written = [
        (int(path.parent.name.removeprefix("batch_id=")), line["n"], line["ids"])
        for path in (tmp_path / "lines").glob("batch_id=*/part-*")
        for line in map(json.loads, path.read_text().splitlines())
    ]
    assert sorted(written) == case.expected([1, 2, 2, 3])
    assert "batch 3\n+" in capsys.readouterr().out


def test_a_stream_of_rows_runs_on_a_grid(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, 2, subscribers=True, blocks=2)
    sink = ParquetSink(case.routed, partition_by=["origin"])
    case.run(sink, output="rows", layout="2x2", share="broadcast")
    rows = spark.read.parquet(f"file://{case.routed}").collect()
    origins = {event["n"]: event["origin"] for file in (0, 1) for event in events_of(file)}
    assert sorted((row["n"], row["id"], row["subscriber"], row["origin"]) for row in rows) == sorted(
        (n, key, key.upper(), origins[n]) for n, ids in answers(1, [0, 1]).items() for key in ids
    )


def test_a_stream_of_lists_runs_on_a_grid(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, 1, blocks=2)
    with pytest.raises(InputError, match="or route_stream"):
        route(case.events, case.rules, layout="2x1")
    case.run(ParquetSink(case.routed), layout="2x1", unmatched="keep")
    assert case.read() == case.expected([1])


def killed(folder: Path, when: str, batch: int) -> None:
    """Run the query in another process until it kills itself."""
    here = Path(__file__).parent
    paths = [str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(here / "stream_driver.py"), str(folder), when, str(batch)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
        capture_output=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-3000:]


def test_each_event_is_there_once_though_the_driver_was_killed(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, 3)
    killed(tmp_path, "after", 0)
    # Written, and not committed: it will be done again, though subscriptions have changed.
    assert case.committed() == []
    assert case.read() == case.expected([1])
    before = {path.name for path in (case.routed / "batch_id=0").glob("*.parquet")}
    save_version(case.rules, rules_of(2))
    killed(tmp_path, "before", 1)
    # Logged, and not written.
    assert case.committed() == [0]
    assert case.logged() == [1, 2]
    assert case.read() == case.expected([1])
    assert before.isdisjoint(path.name for path in (case.routed / "batch_id=0").glob("*.parquet"))
    save_version(case.rules, rules_of(3))
    case.run(ParquetSink(case.routed), unmatched="keep")
    assert case.logged() == [1, 2, 3]
    assert case.read() == case.expected([1, 2, 3])
    assert [n for _, n, _ in case.read()] == list(range(60))


def test_a_batch_whose_version_is_gone_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, 1)
    first = Table.open(case.rules)
    case.log.write(Entry(0, 1, first.path, mark_of(first)))
    save_version(case.rules, rules_of(2))
    Table.prune(case.rules, keep=1)
    with pytest.raises(
        InputError, match="batch 0 is done again, and was to be matched with version 1"
    ) as caught:
        case.run(ParquetSink(case.routed), unmatched="keep")
    assert "\n" not in str(caught.value)
    # As it says.
    case.log.file(0).unlink()
    case.run(ParquetSink(case.routed), unmatched="keep")
    assert case.read() == case.expected([2])


def test_errors_of_workers_and_of_others_come_as_what_they_are(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, 1)

    def lose(routed: DataFrame, _: int) -> None:
        shutil.rmtree(case.rules / "v000001" / "block-00000")
        routed.collect()

    def fail(_routed: DataFrame, _: int) -> None:
        raise KeyError("not ours")

    with pytest.raises(StreamingQueryException, match="not ours"):
        case.run(fail)
    with pytest.raises(InputError, match="this worker does not see the table's folder") as caught:
        case.run(lose)
    assert "\n" not in str(caught.value)


def test_two_queries_share_neither_checkpoint_nor_folder(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, 1)
    query = case.start(ParquetSink(case.routed), trigger="1 second", unmatched="keep")
    try:
        query.processAllAvailable()
        assert not await_query(query, 0.01)
        with pytest.raises(InputError, match="a query runs with this checkpoint already"):
            case.start(nothing)
        with pytest.raises(InputError, match="here are the results of another query"):
            case.start(ParquetSink(case.routed), checkpoint=tmp_path / "other")
    finally:
        query.stop()
    write_events(tmp_path / "events", [1])
    # Without a trigger that ends: it goes on where it was, and is then stopped.
    query = case.start(ParquetSink(case.routed), trigger=None, unmatched="keep")
    query.processAllAvailable()
    query.stop()
    assert await_query(query)
    assert case.read() == case.expected([1, 1])


Change = Callable[[Case], dict[str, Any]]


def half_written(case: Case) -> dict[str, Any]:
    (case.rules / "v000001" / "table.json").unlink()
    return {}


def file_in_routed(case: Case) -> dict[str, Any]:
    case.routed.mkdir()
    (case.routed / "other.parquet").write_text("")
    return {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: {"checkpoint": None}, "a stream needs checkpoint="),
        (lambda _: {"checkpoint": "s3a://bucket/c"}, "give log=, a folder that every driver"),
        (lambda _: {"log": "s3a://bucket/c"}, "s3a://bucket/c: which version each batch has"),
        (lambda case: {"table": case.folder / "none"}, "the folder does not exist"),
        (lambda case: {"table": case.folder}, "no table is saved here"),
        (lambda _: {"table": "s3a://bucket/rules"}, "mapped into memory"),
        (lambda case: {"table": case.events}, "the folder of a saved table, not DataFrame"),
        (half_written, "half-written"),
        (file_in_routed, r"something else here .'other.parquet'"),
        (
            lambda case: {"events": case.spark.read.json(str(case.folder / "events"))},
            "these events do not stream",
        ),
        (lambda case: {"events": case.events.selectExpr("map('a', delay) delay")}, "'delay'"),
        (lambda case: {"events": case.events.withColumnRenamed("n", "Batch_ID")}, "column 'batch_id'"),
        (lambda case: {"events": case.events.withColumnRenamed("n", "ids")}, "column 'ids' already"),
        (lambda _: {"sinks": []}, "needs a sink"),
        (lambda _: {"sinks": ParquetSink}, "is none"),
        (lambda _: {"sinks": ["out"]}, "'out' is none"),
        (
            lambda case: {"sinks": [ParquetSink(case.routed), JsonLinesSink(f"file:{case.routed}/")]},
            "two sinks",
        ),
        (lambda case: {"sinks": ParquetSink(case.routed, partition_by="x")}, "no column 'x'"),
        (
            lambda case: {"sinks": ParquetSink(case.folder / "events" / "0.json")},
            "cannot be written: file exists",
        ),
        (
            lambda case: {
                "events": case.events.selectExpr("*", "x'00' raw"),
                "sinks": PenstockSink("penstock://h"),
            },
            "rows cannot be published: the column 'raw'",
        ),
        (lambda _: {"trigger": "soon"}, "trigger .* is none: "),
        (lambda _: {"trigger": {"continuous": "1 second"}}, "trigger is '10 seconds', 'available-now'"),
        (lambda _: {"output": "all"}, "output is one of"),
        (lambda _: {"layout": "5x1"}, "5"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(
    spark: SparkSession, tmp_path: Path, change: Change, message: str
) -> None:
    case = Case(spark, tmp_path, 1)
    options: dict[str, Any] = {
        "events": case.events,
        "table": case.rules,
        "sinks": ParquetSink(case.routed),
        "checkpoint": case.checkpoint,
        **change(case),
    }
    with pytest.raises(PenstockError, match=message) as caught:
        route_stream(options.pop("events"), options.pop("table"), **options)
    assert "\n" not in str(caught.value)
    assert not spark.streams.active


def test_a_table_that_is_replaced_in_its_place_is_taken_up(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(spark, tmp_path, 3)

    def replace(_: DataFrame, batch: int) -> None:
        if batch == 0:
            shutil.rmtree(case.rules)
            save_version(case.rules, rules_of(2))

    case.run([ParquetSink(case.routed), replace], unmatched="keep")
    assert case.logged() == [1, 1, 1]
    assert case.read() == case.expected([1, 2, 2])


def test_a_query_counts_the_values_that_its_batches_leave_out(spark: SparkSession, tmp_path: Path) -> None:
    rules = spark.createDataFrame([("a", "day > timestamp '2024-01-01'")], "id string, filter string")
    save_table(rules, tmp_path / "rules")
    (tmp_path / "events").mkdir()
    for file in range(2):
        (tmp_path / "events" / f"{file}.json").write_text('{"n": 1, "day": "9999-12-31"}\n' * 3)
    reader = spark.readStream.schema("n long, day date").option("maxFilesPerTrigger", 1)
    query = route_stream(
        reader.json(str(tmp_path / "events")),
        tmp_path / "rules",
        sinks=nothing,
        checkpoint=tmp_path / "checkpoint",
        trigger="available-now",
        unsupported="skip",
        layout="1x1",
    )
    assert await_query(query, HANGS)
    assert skipped(query) == {"day": 6}
