"""Files of pipelines: what is read from them, every mistake in them, and what is told of a run."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.spark.pipeline.checks import format_of, trigger_of
from penstock.spark.pipeline.config import Files, Folder, Network, Pipeline, example, load, parse
from penstock.spark.pipeline.progress import EVENTS, Backlog, Summary, Tally, batch_line, stream_line
from penstock.spark.pipeline.run import check_checkpoint, owner_of_batch
from penstock.spark.pipeline.sessions import in_keys, said_by_spark
from penstock.spark.sinks import Owner

FOLDER = 'kind = "folder"\npath = "in"\nformat = "json"'
CONSOLE = 'kind = "console"'


def text(
    source: str = FOLDER,
    sink: str = CONSOLE,
    above: str = 'checkpoint = "state"',
    subscriptions: str = 'path = "s.jsonl"',
    more: str = "",
) -> str:
    return f"{above}\n[source]\n{source}\n[subscriptions]\n{subscriptions}\n[[sinks]]\n{sink}\n{more}"


def said(toml: str, **overrides: Any) -> str:
    with pytest.raises(InputError) as error:
        parse(toml, "p.toml", "/here", overrides)
    return str(error.value)


def test_paths_are_those_from_the_file_on_and_of_flags_from_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "p.toml").write_text(text(sink='kind = "parquet"\npath = "../out"'))
    monkeypatch.chdir(tmp_path)
    found = load("sub/p.toml", {"checkpoint": "other"})
    assert isinstance(found.source, Folder)
    assert found.source.path == str(tmp_path / "sub" / "in")
    assert found.subscriptions.path == str(tmp_path / "sub" / "s.jsonl")
    assert found.checkpoint == str(tmp_path / "other")
    assert found.is_stream


def test_addresses_are_no_paths() -> None:
    files = 'kind = "files"\npath = ["s3a://b/a.parquet", "file:///x/b.parquet"]'
    found = parse(text(files, above=""), "p.toml", "/here")
    assert isinstance(found.source, Files)
    assert found.source.path == ["s3a://b/a.parquet", "/x/b.parquet"]
    assert not found.is_stream
    network = parse(text('kind = "penstock"\nurl = "penstock://b1:7400"\nschema = "a int"'), "p.toml")
    assert isinstance(network.source, Network)
    assert network.source.url == "penstock://b1:7400"


def test_settings_of_spark_have_their_full_names_however_they_are_nested() -> None:
    more = '[spark]\nsql.shuffle.partitions = 4\n"spark.a.b" = true\n[spark.driver]\nmemory = "2g"'
    assert parse(text(more=more), "p.toml").settings == {
        "spark.sql.shuffle.partitions": "4",
        "spark.a.b": "true",
        "spark.driver.memory": "2g",
    }


def test_the_example_is_a_pipeline_also_with_each_other_source_and_sink_of_it() -> None:
    lines = example().splitlines()
    assert parse("\n".join(lines), "example").is_stream
    # Each commented table in its place, with its commented settings.
    tables = re.findall(r"^#(\[+\w+\]+)\n((?:#\w.*\n)+)", example(), re.MULTILINE)
    kinds = set()
    for heading, body in tables:
        body = body.replace("\n#", "\n").removeprefix("#")
        kinds.add((heading, re.findall(r'kind = "(\w+)"', body)[0]))
        is_batch = '"files"' in body
        above = "" if is_batch else 'checkpoint = "state"'
        route = '[route]\noutput = "rows"'
        made = text(body, above=above) if heading == "[source]" else text(sink=body, more=route)
        assert isinstance(parse(made, "example"), Pipeline)
    assert len(kinds) == 7
    # And every setting that is shown.
    shown = re.sub(
        r"^#(\w+(?:\.\w+)* = )", r"\1", example().partition("# Files that are there")[0], flags=re.M
    )
    rest = "[subscriptions]" + example().partition("[subscriptions]")[2].partition("#[[sinks]]")[0]
    shown += re.sub(r"^#(\w+ = )", r"\1", rest, flags=re.M)
    assert parse(shown, "example").route.layout == "auto"


@pytest.mark.parametrize(
    ("toml", "what"),
    [
        ("[", "not TOML"),
        ("", "3 mistakes: source: is missing; subscriptions: is missing; sinks: is missing"),
        (
            text('kind = "folders"'),
            "source.kind: invalid value 'folders'; there are files, folder, rate, socket",
        ),
        (text('path = "in"'), "source.kind: is missing; there are files"),
        (text('kind = "folder"\npath = "in"'), "source.format: is missing; there are csv, json, parquet"),
        (text(f"{FOLDER}\nmax_file_per_batch = 1"), "no such field; perhaps max_files_per_batch"),
        (
            text(f"{FOLDER}\nmax_files_per_batch = 0"),
            "source.max_files_per_batch: expected `int` >= 1, given 0",
        ),
        (text('kind = "socket"\nhost = "h"\nport = 70000'), "source.port: expected `int` <= 65535"),
        (
            text(sink='kind = "parket"\npath = "x"'),
            "sinks[0].kind: invalid value 'parket'; there are parquet",
        ),
        (text(sink='kind = "parquet"'), "sinks[0].path: is missing"),
        (
            text().replace("[[sinks]]", "[sinks]"),
            "sinks: expected `array`, got `object`; begin each with [[sinks]]",
        ),
        (text(subscriptions="path = 3"), "subscriptions.path: expected `str`, got `int`, given 3"),
        (text(subscriptions='path = ""'), "subscriptions.path: expected `str` of length >= 1"),
        (text(subscriptions='path = "s"\nlanguage = "xpath"'), "subscriptions.language: invalid"),
        (text(more='[route]\noutput = "id"'), "route.output: invalid"),
        (text(more='[route]\nlayout = "2by3"'), "route.layout: is auto, or parts of the table x parts"),
        (text(above=""), "checkpoint: is missing; a stream notes there"),
        (
            text(above='checkpoint = "s3a://b/c"'),
            "checkpoint: is a folder of this machine, or one that is mounted",
        ),
        (
            text(above='checkpoint = "c"\ntrigger = "soon"'),
            'trigger: is "available-now", "once" or as "5 sec',
        ),
        (text(above='checkpoint = "c"\ntrigger = "5"'), "trigger: is"),
        (
            text('kind = "rate"', above='checkpoint = "c"\ntrigger = "once"'),
            "trigger: once has no end to wait for",
        ),
        (
            text('kind = "files"\npath = "a.csv"'),
            'checkpoint: is for streams; files are read once (kind = "folder"',
        ),
        (
            text('kind = "files"\npath = "a.txt"', above=""),
            "source.format: is missing; /here/a.txt does not end in",
        ),
        (
            text('kind = "files"\npath = ["a.csv", "b.json"]', above=""),
            "source.path: files of several formats",
        ),
        (text(sink='kind = "jsonl"\npath = "in"'), "sinks[0].path: is source.path already"),
        (text(sink='kind = "jsonl"\npath = "state"'), "sinks[0].path: is checkpoint already"),
        (
            text(sink='kind = "jsonl"\npath = "o"\n[[sinks]]\nkind = "jsonl"\npath = "o"'),
            "is sinks[0].path already",
        ),
        (text('kind = "penstock"\nurl = "b1:x"\nschema = "a int"'), "source.url: "),
        (
            text('kind = "penstock"\nurl = "penstock://b"\nschema = "a int"\nfilter = "a >"'),
            "source.filter: ",
        ),
        (text('kind = "penstock"\nurl = "penstock://b"'), "source.schema: is missing"),
        (text(more='[spark]\nmaster = "local"'), "spark.master: is set as master, above all tables"),
        (text(above='checkpoint = "c"\nmaster = "sc://h"'), "master: Spark Connect is no master"),
    ],
)
def test_each_mistake_is_told_with_its_place(toml: str, what: str) -> None:
    told = said(toml)
    assert told.startswith("p.toml: ")
    assert what in told
    assert "\n" not in told


def test_all_mistakes_are_told_at_once() -> None:
    toml = text(
        f"{FOLDER}\nspeed = 3\nmax_files_per_batch = 'x'",
        sink='kind = "console"\nrows = 0\n[[sinks]]\nkind = "parquet"\npath = 1',
        above='checkpoint = "c"\nmastr = "x"',
        more='[route]\nunmatched = "perhaps"',
    )
    told = said(toml)
    assert told.startswith("p.toml: 6 mistakes: ")
    for place in ("mastr", "source.speed", "source.max_files_per_batch", "sinks[0].rows", "sinks[1].path"):
        assert f"{place}: " in told
    assert "route.unmatched: invalid" in told
    meant = said(
        text('kind = "rate"', sink='kind = "parquet"\npath = "c"', above='checkpoint="c"\ntrigger="once"')
    )
    assert meant.startswith("p.toml: 2 mistakes: trigger: once")


def test_what_flags_say_wrong_is_told_of_them() -> None:
    assert said(text(), trigger="soon").startswith("p.toml: --trigger: is ")


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        load(tmp_path / "p.toml")


JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(-5, 5), st.text("abck =", max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab", max_size=3), inner)),
    max_leaves=5,
)


@given(
    key=st.sampled_from(["source", "subscriptions", "sinks", "route", "checkpoint", "spark", "trigger", "x"]),
    value=JSON,
)
def test_whatever_is_given_is_read_or_refused(key: str, value: object) -> None:
    given_ = {"checkpoint": "c", "source": {"kind": "rate"}, "subscriptions": {"path": "s"}}
    try:
        parse("[[sinks]]\nkind = 'console'", "p.toml", overrides={**given_, key: value})
    except InputError as error:
        assert str(error).startswith("p.toml: ")


def test_triggers_and_formats() -> None:
    assert trigger_of("5 Seconds") == {"processingTime": "5 seconds"}
    assert trigger_of("available-now") == {"availableNow": True}
    assert trigger_of("once") == {"once": True}
    assert trigger_of("5 parsecs") is None
    assert [format_of(name) for name in ("a.jsonl", "a.csv.gz", "A.PARQUET", "day/*.json", "a", "b.txt")] == [
        "json", "csv", "parquet", "json", None, None,
    ]  # fmt: skip


def report(batch: int, events: int, *, read: int | None = None, done: bool = True) -> dict[str, Any]:
    durations = {"latestOffset": 1, "triggerExecution": 500} | ({"addBatch": 400} if done else {})
    return {
        "batchId": batch,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "numInputRows": events if read is None else read,
        "durationMs": durations,
        "observedMetrics": {EVENTS: {"n": events}},
    }


def test_batches_are_added_up_once_by_the_events_that_were_observed() -> None:
    tally = Tally()
    assert stream_line(tally, None, None) == "waiting for the first batch"
    assert tally.add(report(7, 100, read=200))
    assert not tally.add(report(7, 100))
    assert not tally.add(report(8, 0, done=False))
    assert tally.missed(report(9, 1))
    assert tally.add({**report(8, 50), "observedMetrics": {EVENTS: {"n": 50, "malformed": 2}}})
    assert tally.malformed == 2
    assert tally.add({**report(9, 0, read=5), "observedMetrics": {}})
    assert (tally.batches, tally.events, tally.last, tally.rows_per_s) == (3, 155, 9, 10.0)
    later = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=2.5)
    assert tally.lag_s(later, busy=True) == 2.5
    assert tally.lag_s(later, busy=False) == 0
    line = stream_line(tally, 2.5, "3 files waiting")
    assert line == "batch 9, 155 events, 10 rows/s, lag 2.5 s, 3 files waiting"
    assert batch_line(1, 4, 2) == "1 of 4 tasks, 2 s"


def test_files_wait_that_are_in_the_folder_and_in_no_log(tmp_path: Path) -> None:
    folder, log = tmp_path / "in", tmp_path / "state" / "sources" / "0"
    backlog = Backlog(folder, tmp_path / "state")
    assert backlog.waiting() is None
    folder.mkdir()
    log.mkdir(parents=True)
    for name in ("a.json", "b c.json", "d.json", ".hidden", "_SUCCESS"):
        (folder / name).touch()
    assert backlog.waiting() == 3
    (log / "0").write_text('v1\n{"path":"file:///x/in/a.json","timestamp":1,"batchId":0}\n')
    assert backlog.waiting() == 2
    (log / "1").write_text('v1\n{"path":"file:///x/in/b%20c.json","timestamp":1,"batchId":1}')
    assert backlog.waiting() == 1


def test_the_summary_says_what_came_of_it_and_where_it_is() -> None:
    lines = Summary(
        name="p", kind="stream", ended="interrupted", batches=1, events=1000, routed=10, matches=12,
        seconds=2, events_per_s=500, table="rules", table_version=3, sinks=["parquet out"],
        checkpoint="state",
    ).lines()  # fmt: skip
    assert lines == [
        "p: interrupted after 2.0 s: 1 batch, 1,000 events in, 10 rows out, 12 matches, 500 events/s",
        "table: rules (version 3)",
        "results: parquet out",
        "checkpoint: state; the next run goes on from there",
    ]


def test_the_summary_of_a_run_that_another_cannot_go_on_from_says_so() -> None:
    lines = Summary(name="p", kind="stream", checkpoint="state", resumes=False).lines()
    assert lines[1:] == ["checkpoint: state; the next run needs another"]
    lines = Summary(name="p", kind="batch", malformed=1).lines()
    assert lines[1:] == ["malformed: 1 line was routed as far as Spark could read"]
    lines = Summary(
        name="p", kind="stream", rejected=2, first_rejected="a: no filter", missed=1, is_cut_off=True
    ).lines()
    assert lines[1:] == [
        "quarantined: 2 subscriptions; the first, a: no filter",
        "missed: the connection was lost so that events may not have come, once",
        "the last batch did not end in time: the next run does it again",
    ]


def test_batches_of_one_name_over_other_files_do_not_replace_each_others_results() -> None:
    def owner(*files: str) -> Owner:
        paths = ", ".join(f'"{file}"' for file in files)
        return owner_of_batch("p", parse(text(f'kind = "files"\npath = [{paths}]', above=""), "p.toml"))

    assert owner("a.csv") == owner("a.csv")
    assert len({owner("a.csv").query, owner("b.csv").query, owner("a.csv", "b.csv").query}) == 3


def test_a_socket_does_not_begin_where_an_earlier_run_ended(tmp_path: Path) -> None:
    socket = 'kind = "socket"\nhost = "localhost"\nport = 9'
    made = parse(text(socket, above=f'checkpoint = "{tmp_path}"'), "p.toml")
    check_checkpoint(made)
    (tmp_path / "offsets").mkdir()
    check_checkpoint(made)
    (tmp_path / "offsets" / "0").touch()
    with pytest.raises(InputError, match=r"^checkpoint: .* is of an earlier run, and a socket cannot send"):
        check_checkpoint(made)
    check_checkpoint(parse(text(above=f'checkpoint = "{tmp_path}"'), "p.toml"))


def test_of_what_spark_says_one_sentence_is_told() -> None:
    worker = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n  File 'x', line 1\nValueError: not that\n\n\tat org.A.b(C)\n"
    )
    assert said_by_spark(Exception(worker)) == "ValueError: not that"
    ours = worker.replace("ValueError", "penstock.errors.InputError")
    assert said_by_spark(Exception(ours)) == "not that"
    sql = "[UNRESOLVED_COLUMN.SUGGESTED] A column `x` is not there. SQLSTATE: 42703; line 1 pos 0;\n'Project"
    assert said_by_spark(Exception(sql)) == "A column `x` is not there"
    java = "org.apache.spark.SparkException: Master removed our application\n\tat org.apache"
    assert said_by_spark(Exception(java)) == "Master removed our application"
    called = (
        "An error occurred while calling o52.showString.\n"
        ": org.apache.spark.SparkException: [FAILED_READ] Cannot read file:///a.json.  SQLSTATE: KD001\n"
        "\tat org.A.b(C)\nCaused by: org.apache.spark.SparkException: [MALFORMED] A record. SQLSTATE: 22023\n"
        "Caused by: com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'nope'\n\t... 27 more"
    )
    assert said_by_spark(Exception(called)) == "Cannot read file:///a.json: Unrecognized token 'nope'"
    ended = "Query [id = 8d29-a, runId = 6962] terminated with exception: Connection refused SQLSTATE: XXKST"
    assert said_by_spark(Exception(ended)) == "Connection refused"
    assert said_by_spark(Exception()) == "Exception"
    assert in_keys("cast it; unsupported='skip' leaves it out").endswith(
        'route.unsupported = "skip" leaves it out'
    )
