"""The pipeline part of the demo: Spark beside the network, and its results held against the matcher's."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import demo_network, demo_pipeline
from penstock.cli.demo_pipeline import Findings, Pipeline, Progress, Routed, compare, expected, members
from penstock.cli.demo_play import Play
from penstock.cli.demo_stream import ADDED, Batch, Failed, Message, Ready, Saved
from penstock.cli.main import main
from penstock.errors import MissingExtraError, PenstockError
from penstock.workloads.flights import load_flights

WANTED = {1: [["a"], [], ["b"], []], 2: [["a", "c"], ["c"], ["b"], []]}


def test_spark_routes_what_comes_out_of_the_network_while_its_table_changes(
    warm_kernels: None, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["demo", "--flights", "1500", "--brokers", "5"])
    out, err = capsys.readouterr()
    assert status == 0, out + err
    process = re.search(
        r"^Spark runs \(process (\d+)\), and has subscribed to all flights at b2\.$", out, re.M
    )
    assert process is not None, out
    assert members(int(process[1])) == []
    batch = r"^ *\d+\.\d s  pipeline: batch(?:es \d+ to)? \d+, ([\d,]+) flights routed by version (\d), "
    told = [(int(flights.replace(",", "")), version) for flights, version in re.findall(batch, out, re.M)]
    assert sum(flights for flights, _ in told) == 1_500
    # The last flight waits for it.
    assert told[-1][1] == "2"
    assert (
        " s  pipeline: version 2 of its table is saved, with 101 subscriptions: the next batch has it" in out
    )
    assert "The pipeline routed 1,500 of 1,500 flights, " in out
    assert out.endswith("every flight is there once, with the ids that the plain matcher gives.\n")
    # What else there is, is there too.
    assert "1,500 flights against 100 subscriptions: " in out
    assert "nothing lost, nothing twice" in out


def test_no_process_stays_when_the_demo_fails(
    warm_kernels: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[int] = []

    async def nothing(*_arguments: object) -> None:
        pass

    async def fail(pipeline: Pipeline, _urls: object) -> None:
        started.append(pipeline.pid)
        # Java, and what it is started by.
        while len(members(pipeline.pid)) < 2:
            assert pipeline.progress.failure is None
            await asyncio.sleep(0.05)
            pipeline.take()
        raise PenstockError("enough")

    monkeypatch.setattr(Play, "start", nothing)
    monkeypatch.setattr(Pipeline, "subscribe", fail)
    assert main(["demo", "--only", "pipeline", "--flights", "50", "--brokers", "5"]) == 2
    assert capsys.readouterr().err == "penstock: enough\n"
    assert len(started) == 1
    assert members(started[0]) == []


def test_a_pipeline_that_ends_by_itself_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def cannot(command: list[str], **rest: Any) -> "subprocess.Popen[bytes]":
        return popen([sys.executable, "-c", "import sys; sys.exit('no memory')"], **rest)

    popen = subprocess.Popen
    monkeypatch.setattr("penstock.cli.demo_pipeline.subprocess.Popen", cannot)
    pipeline = Pipeline(tmp_path, load_flights().slice(0, 10))
    try:
        asyncio.run(pipeline.subscribe(["penstock://127.0.0.1:1"]))
        assert pipeline.check(lambda _row: True) == [
            "the pipeline failed: it ended by itself; it said:\n  no memory"
        ]
        assert pipeline.summary(0.0) == []
    finally:
        pipeline.end_now()


@pytest.mark.parametrize("is_alone", [False, True])
def test_without_spark_the_rest_runs_unless_the_pipeline_is_all_that_is_wanted(
    is_alone: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[bool] = []

    def missing() -> None:
        raise MissingExtraError("there is no Java")

    def show(*_arguments: object, with_pipeline: bool) -> int:
        shown.append(with_pipeline)
        return 0

    monkeypatch.setattr(demo_pipeline, "check_spark", missing)
    monkeypatch.setattr(demo_network, "show", show)
    status = main(["demo", "--flights", "10", *(["--only", "pipeline"] if is_alone else [])])
    err = capsys.readouterr().err
    if is_alone:
        assert (status, shown, err) == (2, [], "penstock: there is no Java\n")
    else:
        assert (status, shown) == (0, [False])
        assert "penstock: note: this runs without the pipeline: there is no Java\n" in err


def test_spark_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_pipeline, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"^Spark needs pyspark: pip install 'penstock\[spark\]'$"):
        demo_pipeline.check_spark()


def test_the_pipeline_alone_and_no_pipeline_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--only", "pipeline", "--no-pipeline"]) == 2
    assert capsys.readouterr().err == "penstock: --only pipeline and --no-pipeline leave nothing to run\n"


def test_the_second_version_has_what_the_first_has_and_what_was_added() -> None:
    table = load_flights().slice(0, 500)
    by_version = expected(table)
    flights = table.column("dest").to_pylist()
    for dest, before, after in zip(flights, by_version[1], by_version[2], strict=True):
        assert list(after) == sorted([*before, *([ADDED.id] if dest == "BOS" else [])])
    assert "BOS" in flights


# What is right and what is not


def _compared(*results: Routed, excused: set[int] | None = None) -> Findings:
    return compare(results, WANTED, 4, (excused or set()).__contains__)


def test_every_flight_once_by_the_version_of_its_batch_is_right() -> None:
    found = _compared(
        Routed(0, 1, [], []), Routed(1, 1, [2, 0], [["b"], ["a"]]), Routed(2, 2, [1, 3], [["c"], []])
    )
    assert found == Findings(4, 0, [])


@pytest.mark.parametrize(
    ("results", "wrong"),
    [
        (
            [Routed(1, 1, [0, 1, 2, 3], [["a"], ["c"], ["b"], []])],
            "batch 1: 1 flights, such as row 1, have other",
        ),
        (
            [Routed(1, 1, [0, 1, 2, 3, 3], [["a"], [], ["b"], [], []])],
            "1 flights, such as row 3, were routed twice",
        ),
        (
            [Routed(1, 1, [0, 1, 2, 3, 4], [["a"], [], ["b"], [], []])],
            "batch 1: 1 flights, such as row 4, have other",
        ),
        ([Routed(1, None, [0, 1, 2, 3], [["a"], [], ["b"], []])], "batch 1 has results of version None"),
        ([Routed(1, 1, [1, 2], [[], ["b"]])], "2 flights, such as row 0, never came, without excuse"),
    ],
)
def test_anything_else_is_not(results: list[Routed], wrong: str) -> None:
    found = _compared(*results)
    assert len(found.wrong) == 1
    assert found.wrong[0].startswith(wrong)


def test_what_the_kill_excuses_may_be_missing_and_nothing_else() -> None:
    result = Routed(1, 1, [1, 2], [[], ["b"]])
    assert _compared(result, excused={0, 3}) == Findings(2, 2, [])
    found = _compared(result, excused={3})
    assert (found.excused, list(found.wrong)) == (1, ["1 flights, such as row 0, never came, without excuse"])


# What is said


def _batch(batch: int, version: int, flights: int) -> Batch:
    return Batch(batch, version, flights, flights // 2, 2 * flights, 0.5)


def test_batches_are_told_once_a_second_and_each_version_by_itself() -> None:
    progress = Progress()
    first: tuple[Message, ...] = (Saved(1, 100), Ready(), _batch(0, 1, 0))
    for message in first:
        progress.take(message)
    assert progress.is_ready
    assert list(progress.lines(0.0)) == []
    progress.take(_batch(1, 1, 1_000))
    assert list(progress.lines(1.0)) == [
        "batch 1, 1,000 flights routed by version 1, 2,000 matches, 2,000 flights a second"
    ]
    progress.take(_batch(2, 1, 10))
    assert list(progress.lines(1.5)) == []
    progress.take(_batch(3, 1, 20))
    assert [line[:31] for line in progress.lines(2.1)] == ["batches 2 to 3, 30 flights rout"]
    progress.take(_batch(4, 1, 40))
    assert list(progress.lines(2.2)) == []
    for message in (Saved(2, 101), _batch(5, 2, 50), Failed("no space\nat some place")):
        progress.take(message)
    said = [line.partition(",")[0] for line in progress.lines(2.3)]
    assert said == ["batch 4", "version 2 of its table is saved", "batch 5", "it has failed: no space"]
    progress.take(_batch(6, 2, 60))
    assert list(progress.lines(2.4)) == []
    assert len(list(progress.lines(2.4, over=True))) == 1
    assert progress.flights == 1_180
    assert progress.failure == "no space\nat some place"


def test_the_summary_tells_flights_matches_batches_and_versions() -> None:
    progress = Progress()
    for message in (Saved(1, 100), _batch(0, 1, 0), _batch(1, 1, 1_000), Saved(2, 101), _batch(2, 2, 998)):
        progress.take(message)
    first, second = progress.summary(Findings(1_998, 2, []), 2_000, progress.last_batch - 4.0)
    assert first == (
        "The pipeline routed 1,998 of 2,000 flights, 999 of them to somebody, with 3,996 matches: "
        "batch 1 by version 1 (100 subscriptions), batch 2 by version 2 (101 subscriptions)."
    )
    assert second == (
        "From the first flight to its last batch 4.0 s, 1.0 s of them for routing; 2 flights were lost "
        "around the kill; every other is there once, with the ids that the plain matcher gives."
    )
    *_, wrong = progress.summary(Findings(2_000, 0, ["a flight was routed twice"]), 2_000, 0.0)
    assert wrong.endswith("; this is not what the plain matcher gives.")
