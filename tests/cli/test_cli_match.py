"""`penstock match`: what comes out, for every format that goes in."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from penstock.cli.main import main
from penstock.cli.match import Answering, Reporting
from penstock.errors import DisagreementError
from penstock.matching.matcher import Matcher
from penstock.model.values import Family

PROGRAM = Path(sys.executable).with_name("penstock")
Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")
Row = dict[str, Any]


def write_jsonl(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_csv(path: Path, rows: list[Row]) -> None:
    pacsv.write_csv(pa.Table.from_pylist(rows), path)


def write_parquet(path: Path, rows: list[Row]) -> None:
    papq.write_table(pa.Table.from_pylist(rows), path)


WRITERS: dict[str, Callable[[Path, list[Row]], None]] = {
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
}


def matched(out: bytes) -> dict[Any, list[Any]]:
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["event"]: line["ids"] for line in lines}


def match(capture: Capture, subscriptions: Path, events: Path, *more: str) -> dict[Any, list[Any]]:
    status = main(["match", "--subscriptions", str(subscriptions), "--events", str(events), *more])
    out, err = capture.readouterr()
    assert (status, err) == (0, b"")
    return matched(out)


RULES: list[Row] = [
    {"id": "late", "filter": "dep_delay > 60", "subscriber": "desk"},
    {"id": "jfk", "filter": "origin = 'JFK' and dep_delay is not null", "subscriber": None},
    {"id": "cancelled", "filter": "dep_delay is null", "subscriber": "desk"},
    {"id": "late", "filter": "origin = 'EWR'", "subscriber": None},
]
FLIGHTS: list[Row] = [
    {"origin": "JFK", "dep_delay": 75},
    {"origin": "LGA", "dep_delay": 5},
    {"origin": "EWR", "dep_delay": 0},
    {"origin": "LGA", "dep_delay": None},
]
ANSWER = {0: ["jfk", "late"], 2: ["late"], 3: ["cancelled"]}


@pytest.mark.parametrize("rules", sorted(WRITERS))
@pytest.mark.parametrize("events", sorted(WRITERS))
def test_every_pair_of_formats_gives_the_same_answer(
    rules: str, events: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    subscriptions, flights = tmp_path / f"rules.{rules}", tmp_path / f"flights.{events}"
    WRITERS[rules](subscriptions, RULES)
    WRITERS[events](flights, FLIGHTS)
    assert match(capsysbinary, subscriptions, flights, "--unsupported", "skip") == ANSWER


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    rules, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    write_jsonl(
        rules,
        [
            {"id": "r", "filter": "x > 1"},
            {"id": 10, "filter": "x > 2"},
            {"id": 9, "filter": {"attribute": "x", "op": "=", "value": 5}},
        ],
    )
    write_jsonl(events, [{"x": 1}, {"x": 5}, {"id": "e", "x": 2}, {"id": {"n": 1}, "x": 3}])
    return rules, events


def test_the_output_is_json_lines_with_the_id_or_the_row(
    files: tuple[Path, Path], capsysbinary: Capture
) -> None:
    rules, events = files
    assert main(["match", "--subscriptions", str(rules), "--events", str(events)]) == 0
    out, err = capsysbinary.readouterr()
    assert out == b'{"event":1,"ids":[9,10,"r"]}\n{"event":"e","ids":["r"]}\n{"event":3,"ids":[10,"r"]}\n'
    assert err == b""


@pytest.mark.parametrize("empty", ["rules", "events"])
@pytest.mark.parametrize("form", sorted(WRITERS))
def test_files_without_any_rule_or_event_are_told(
    empty: str, form: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    rules, events = tmp_path / f"s.{form}", tmp_path / f"e.{form}"
    WRITERS[form](rules, [{"id": "r", "filter": "x = 1"}])
    WRITERS[form](events, [{"x": 1}])
    path = rules if empty == "rules" else events
    if form == "parquet":
        papq.write_table(papq.read_table(path).slice(0, 0), path)
    else:
        path.write_text(path.read_text().split("\n")[0] + "\n" if form == "csv" else "")
    output = tmp_path / "out.jsonl"
    command = ["match", "--subscriptions", str(rules), "--events", str(events), "--output", str(output)]
    assert main([*command, "--strict"]) == 2
    told = f"no {empty} in {path}".encode()
    assert told in capsysbinary.readouterr().err
    assert not output.exists()
    assert main(command) == 0
    assert capsysbinary.readouterr().err == b"penstock: warning: " + told + b"\n"
    assert output.read_bytes() == b""
    if empty == "rules":
        assert main(["lint", str(rules)]) == 0
        assert capsysbinary.readouterr().err == b"penstock: warning: " + told + b"\n"


@pytest.mark.parametrize("value", [7, -1, 1.5, True, "", "ß"])
def test_an_event_is_named_by_its_id(value: Any, tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    write_jsonl(rules, [{"id": 1, "filter": "x = 1"}])
    write_jsonl(events, [{"id": value, "x": 1}])
    assert match(capsysbinary, rules, events) == {value: [1]}


def test_an_id_that_is_a_time_is_written_as_text(tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    write_jsonl(rules, [{"id": 1, "filter": "id > date '2013-01-01'"}])
    write_jsonl(events, [{"id": "2013-01-31T05:00:00.5+00:00"}])
    assert match(capsysbinary, rules, events, "--family", "id=time") == {"2013-01-31T05:00:00.5Z": [1]}


def test_nothing_that_matches_is_an_empty_output(
    files: tuple[Path, Path], tmp_path: Path, capsysbinary: Capture
) -> None:
    empty, header = tmp_path / "empty.jsonl", tmp_path / "header.csv"
    empty.write_text("")
    header.write_text("id,filter\n")
    for rules, events, what, path in (
        (empty, files[1], "rules", empty),
        (header, files[1], "rules", header),
        (files[0], empty, "events", empty),
    ):
        assert main(["match", "--subscriptions", str(rules), "--events", str(events)]) == 0
        told = f"penstock: warning: no {what} in {path}\n".encode()
        assert capsysbinary.readouterr() == (b"", told)


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_standard_input_holds_either_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    for side, rows, other_rows in (("events", FLIGHTS, RULES), ("subscriptions", RULES, FLIGHTS)):
        piped, other = tmp_path / f"piped.{kind}", tmp_path / "other.jsonl"
        WRITERS[kind](piped, rows)
        write_jsonl(other, other_rows)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped.read_bytes())))
        named = {"events": other, "subscriptions": other, side: Path("-")}
        more = [] if kind == "jsonl" else [f"--{side}-format", kind]
        found = match(capsysbinary, named["subscriptions"], named["events"], "--unsupported", "skip", *more)
        assert found == ANSWER


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(".ndjson", "jsonl"), (".json", "jsonl"), (".JSONL", "jsonl"), (".pq", "parquet"), (".CSV", "csv")],
)
def test_the_format_is_told_by_the_name(
    ending: str, kind: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    rules, events = tmp_path / f"s{ending}", tmp_path / f"e{ending}"
    WRITERS[kind](rules, RULES)
    WRITERS[kind](events, FLIGHTS)
    assert match(capsysbinary, rules, events, "--unsupported", "skip") == ANSWER


def test_a_format_given_overrides_the_name(tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "rules.txt", tmp_path / "events.jsonl"
    write_jsonl(rules, RULES)
    write_csv(events, FLIGHTS)
    formats = ("--subscriptions-format", "jsonl", "--events-format", "csv")
    assert match(capsysbinary, rules, events, *formats) == ANSWER


def test_line_ends_and_blank_lines_do_not_count_as_rows(tmp_path: Path, capsysbinary: Capture) -> None:
    for name, rules, events in (
        ("jsonl", b'\r\n{"id": 1, "filter": "x > 1"}\r\n', b'{"x": 1}\r\n\r\n  \n{"x": 2}'),
        ("csv", b"id,filter\r\n\r\n1,x > 1\r\n", b"x,y\r\n1,1\r\n\r\n2,2"),
    ):
        (tmp_path / f"s.{name}").write_bytes(rules)
        (tmp_path / f"e.{name}").write_bytes(events)
        found = match(capsysbinary, tmp_path / f"s.{name}", tmp_path / f"e.{name}")
        assert list(found) == [1]


def test_csv_may_begin_with_a_byte_order_mark(tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.csv", tmp_path / "e.csv"
    rules.write_bytes(b"\xef\xbb\xbfid,filter\na,x > 1\n")
    events.write_bytes(b"\xef\xbb\xbfx\n1\n2\n")
    assert match(capsysbinary, rules, events) == {1: ["a"]}


def test_a_filter_in_csv_may_run_over_lines(
    tmp_path: Path, files: tuple[Path, Path], capsysbinary: Capture
) -> None:
    rules = tmp_path / "s.csv"
    rules.write_text('filter,id\n"x > 1\nand x in (2, 7)",a\n')
    assert match(capsysbinary, rules, files[1]) == {"e": ["a"]}


@pytest.mark.parametrize(
    ("language", "text"), [("padres", "[x,>,4]"), ("json", '{"attribute": "x", "op": ">", "value": 4}')]
)
def test_filters_may_be_text_in_any_language(
    language: str, text: str, tmp_path: Path, files: tuple[Path, Path], capsysbinary: Capture
) -> None:
    for kind, write in WRITERS.items():
        write(tmp_path / f"rules.{kind}", [{"id": "a", "filter": text}])
        found = match(capsysbinary, tmp_path / f"rules.{kind}", files[1], "--from", language)
        assert found == {1: ["a"]}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_attribute_is_read_as_the_family_given(kind: str, tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / f"e.{kind}"
    filters = ["at >= timestamp '2013-01-31T05:00:00Z'", "zip = '01234'", "n < 10", "up = true"]
    write_jsonl(rules, [{"id": at, "filter": text} for at, text in enumerate(filters)])
    WRITERS[kind](events, [{"at": "2013-01-31T07:00:00+02:00", "zip": "01234", "n": "7", "up": "true"}])
    families = [f"--family={pair}" for pair in ("at=time", "zip=string", "n=number", "up=Bool")]
    assert match(capsysbinary, rules, events, *families) == {0: [0, 1, 2, 3]}


def test_csv_fields_that_mean_absent_can_be_named(tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / "e.csv"
    write_jsonl(rules, [{"id": "known", "filter": "x > 0"}, {"id": "unknown", "filter": "x is null"}])
    events.write_text("x,y\n1,a\nNA,b\n-,c\n,d\n")
    found = match(capsysbinary, rules, events, "--null", "NA", "--null", "-")
    assert found == {0: ["known"], 1: ["unknown"], 2: ["unknown"], 3: ["unknown"]}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_what_has_no_family_is_left_out_when_told(kind: str, tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / f"e.{kind}"
    write_jsonl(rules, [{"id": 1, "filter": "x is null"}, {"id": 2, "filter": "y > 0"}])
    odd = {"jsonl": 2**64, "parquet": b"1"}[kind]
    WRITERS[kind](events, [{"x": odd, "y": 1}, {"x": odd, "y": None}, {"x": None, "y": 3}])
    # The second row has nothing left: it is an event without attributes.
    command = ["match", "--subscriptions", str(rules), "--events", str(events), "--unsupported", "skip"]
    assert main(command) == 0
    out, err = capsysbinary.readouterr()
    assert matched(out) == {0: [1, 2], 1: [1], 2: [1, 2]}
    assert b"2 values of 'x', which 1 rule (1) names, were left out" in err


def test_rows_count_on_over_the_batches_of_a_file(tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / "e.parquet"
    write_jsonl(rules, [{"id": 1, "filter": "x in (16383, 16384, 39999)"}])
    papq.write_table(pa.table({"x": range(40_000)}), events, row_group_size=10_000)
    assert list(match(capsysbinary, rules, events)) == [16_383, 16_384, 39_999]


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / "e.parquet"
    write_jsonl(rules, [{"id": 1, "filter": "x >= 0"}])
    papq.write_table(pa.table({"x": range(20_000)}), events)
    for more in ([], ["--line-buffered"]):
        process = subprocess.Popen(
            [PROGRAM, "match", "--subscriptions", rules, "--events", events, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"event":0,"ids":[1]}\n'
        process.stdout.close()
        assert process.stderr is not None
        with process.stderr as stderr:
            assert stderr.read() == b""
        assert process.wait() == 0


def test_line_buffered_output_comes_before_the_input_ends(tmp_path: Path) -> None:
    rules = tmp_path / "s.jsonl"
    write_jsonl(rules, [{"id": 1, "filter": "x > 0"}])
    process = subprocess.Popen(
        [PROGRAM, "match", "--subscriptions", rules, "--events", "-", "--line-buffered"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # With PYTHONUNBUFFERED every output would be at once.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as stdin, process.stdout as stdout:
        for number in range(3):
            stdin.write(b'{"x": 1}\n')
            stdin.flush()
            assert json.loads(stdout.readline()) == {"event": number, "ids": [1]}
    assert process.wait() == 0


def test_csv_integers_beside_decimals_stay_exact(tmp_path: Path, capsysbinary: Capture) -> None:
    # Arrow reads such a column as doubles, in which 2**53 + 1 is 2**53.
    subscriptions, events = tmp_path / "s.csv", tmp_path / "e.csv"
    subscriptions.write_text("id,filter\neven,x = 9007199254740992\nodd,x = 9007199254740993\nhalf,x = 1.5\n")
    events.write_text("x\n1.5\n9007199254740993\n")
    assert main(["match", "--subscriptions", str(subscriptions), "--events", str(events)]) == 0
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert lines == [{"event": 0, "ids": ["half"]}, {"event": 1, "ids": ["odd"]}]


def test_output_through_a_link_goes_to_the_file_it_names(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x = 1"}])
    write_jsonl(tmp_path / "e.jsonl", [{"x": 1}])
    (tmp_path / "real.jsonl").write_text("old")
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    paths = ["--subscriptions", str(tmp_path / "s.jsonl"), "--events", str(tmp_path / "e.jsonl")]
    assert main(["match", *paths, "--output", str(tmp_path / "link.jsonl")]) == 0
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").read_text() == '{"event":0,"ids":["a"]}\n'


def test_output_to_a_pipe_does_not_replace_it(tmp_path: Path) -> None:
    # It did once, with /dev/full: what cannot be moved to is written to.
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x = 1"}])
    write_jsonl(tmp_path / "e.jsonl", [{"x": 1}])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [str(PROGRAM), "match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--output", "pipe"]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        assert pipe.read_text() == '{"event":0,"ids":["a"]}\n'
        assert process.wait() == 0
    assert pipe.is_fifo()


def test_a_full_disk_is_one_line_and_not_a_traceback(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x = 1"}])
    write_jsonl(tmp_path / "e.jsonl", [{"x": 1}])
    command = [str(PROGRAM), "match", "--subscriptions", "s.jsonl", "--events", "e.jsonl"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [b"penstock: standard output: no space left on device"]


def test_text_in_parquet_that_is_not_utf8_is_refused_or_left_out(
    tmp_path: Path, capsysbinary: Capture
) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x is null"}])
    broken = pa.array([b"good", b"\xff"]).cast(pa.binary())
    column = pa.Array.from_buffers(pa.string(), 2, broken.buffers())
    papq.write_table(pa.table({"x": column, "y": [1, 2]}), tmp_path / "e.parquet")
    paths = ["match", "--subscriptions", str(tmp_path / "s.jsonl"), "--events", str(tmp_path / "e.parquet")]
    assert main(paths) == 2
    assert b"row 1, column 'x': b'\\xff' is not UTF-8" in capsysbinary.readouterr().err
    assert main([*paths, "--unsupported", "skip"]) == 0
    assert capsysbinary.readouterr().out == b'{"event":1,"ids":["a"]}\n'


def notes(capsysbinary: Capture) -> list[str]:
    return [
        line.removeprefix("penstock: warning: ")
        for line in capsysbinary.readouterr().err.decode().splitlines()
    ]


def test_filters_that_ask_for_another_family_than_the_events_have_are_noted(
    tmp_path: Path, capsysbinary: Capture
) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / "e.csv"
    write_jsonl(rules, [{"id": "a", "filter": "delay > 60 or place = 'JFK' or there is null"}])
    events.write_text("delay,place\n70,JFK\nNA,JFK\n")
    command = ["match", "--subscriptions", str(rules), "--events", str(events)]
    assert main(command) == 0
    assert notes(capsysbinary) == [
        "1 rule (a) compares 'delay' with a number, but in the events it is a string (2 values): "
        "no event can match (see --family and --null)"
    ]
    assert main([*command, "--null", "NA"]) == 0
    assert notes(capsysbinary) == []
    assert main([*command, "--null", "NA", "--family", "dely=number"]) == 0
    assert notes(capsysbinary) == ["--family dely=…: no event has the attribute 'dely'"]


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_an_attribute_that_no_event_has_is_a_warning_with_what_was_meant(
    kind: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    rules, events, folder = tmp_path / "s.jsonl", tmp_path / f"e.{kind}", tmp_path / "compiled"
    write_jsonl(rules, [{"id": n, "filter": f"amuont > {n} or Place = 'x'"} for n in range(5)])
    WRITERS[kind](events, [{"amount": n, "place": "JFK"} for n in range(40)])
    assert main(["compile", "--subscriptions", str(rules), "--output", str(folder)]) == 0
    capsysbinary.readouterr()
    for given in (rules, folder):
        assert main(["match", "--subscriptions", str(given), "--events", str(events), "--jobs", "3"]) == 0
        assert notes(capsysbinary) == [
            "none of 40 events has 'Place', which 5 rules (0, 1, 2, …) name; did you mean 'place'?",
            "none of 40 events has 'amuont', which 5 rules (0, 1, 2, …) name; did you mean 'amount'?",
        ]


def test_strict_writes_nothing_and_fails_where_rules_and_events_disagree(
    tmp_path: Path, capsysbinary: Capture
) -> None:
    rules, events, out = tmp_path / "s.jsonl", tmp_path / "e.jsonl", tmp_path / "out.jsonl"
    write_jsonl(rules, [{"id": "a", "filter": "x = 1"}, {"id": "b", "filter": "y = 1"}])
    write_jsonl(events, [{"x": 1}])
    command = ["match", "--subscriptions", str(rules), "--events", str(events), "--strict"]
    assert main([*command, "--output", str(out)]) == 2
    err = capsysbinary.readouterr().err.decode().splitlines()
    assert err == [
        "penstock: warning: none of 1 event has 'y', which 1 rule (b) names",
        "penstock: --strict: rules and events disagree in 1 way; nothing is written",
    ]
    assert not out.exists()
    assert main(command) == 2
    assert capsysbinary.readouterr().out == b""
    write_jsonl(events, [{"x": 1}, {"y": 2}])
    assert match(capsysbinary, rules, events, "--strict") == {0: ["a"]}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_values_that_were_left_out_are_a_warning(kind: str, tmp_path: Path, capsysbinary: Capture) -> None:
    rules, events = tmp_path / "s.jsonl", tmp_path / f"e.{kind}"
    write_jsonl(rules, [{"id": "a", "filter": "x > 1"}])
    if kind == "jsonl":
        events.write_text('{"x": 5}\n{"x": 99999999999999999999999, "y": 1}\n' * 3)
    else:
        papq.write_table(pa.table({"x": pa.array([2**63, 5] * 3, pa.uint64()), "y": range(6)}), events)
    command = ["match", "--subscriptions", str(rules), "--events", str(events), "--unsupported", "skip"]
    assert main(command) == 0
    (note,) = notes(capsysbinary)
    assert note.startswith("3 values of 'x', which 1 rule (a) names, were left out: ")
    assert "does not fit a 64-bit integer" in note


def test_output_to_the_streams_device_adds_to_what_is_there(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x = 1"}])
    write_jsonl(tmp_path / "e.jsonl", [{"x": 1}])
    command = f"echo before; {PROGRAM} match --subscriptions s.jsonl --events e.jsonl --output /dev/stdout"
    script = f"({command}; echo after) > log.txt; {command} | cat > piped.txt"
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)  # noqa: S607
    line = '{"event":0,"ids":["a"]}\n'
    assert (tmp_path / "log.txt").read_text() == f"before\n{line}after\n"
    assert (tmp_path / "piped.txt").read_text().endswith(line)


def test_output_onto_what_is_read_is_refused(tmp_path: Path, capsysbinary: Capture) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x = 1"}])
    events = tmp_path / "e.jsonl"
    write_jsonl(events, [{"x": 1}])
    paths = ["--subscriptions", str(tmp_path / "s.jsonl"), "--events", str(events)]
    assert main(["match", *paths, "--output", str(events)]) == 2
    assert b"would replace what is read" in capsysbinary.readouterr().err
    assert events.read_text() == '{"x": 1}\n'


@pytest.mark.parametrize(
    ("fields", "matched"),
    [
        (["0x1F", "0x20"], "x = '0x1F'"),
        (["1", "true"], "x = '1'"),
        (["12:30", "13:00"], "x < '13'"),
        (["1e3", "-.5"], "x = 1000"),
        (["+7", "8"], "x = 7"),
        (["True", "FALSE"], "x = true"),
        (["2013-01-31", "2013-02-01T05:00"], "x < timestamp '2013-02-01'"),
        (["2013-01-31", "soon"], "x = '2013-01-31'"),
        (["9223372036854775807", "1"], "x = 9223372036854775807"),
    ],
)
def test_a_csv_column_has_the_family_that_all_its_fields_have(
    fields: list[str], matched: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": matched}])
    (tmp_path / "e.csv").write_text("x\n" + "\n".join(fields) + "\n")
    assert match(capsysbinary, tmp_path / "s.jsonl", tmp_path / "e.csv") == {0: ["a"]}


def test_lists_in_files(tmp_path: Path, capsysbinary: Capture) -> None:
    rules = tmp_path / "rules.jsonl"
    rules.write_text(
        '{"id": "red", "filter": "\'red\' in tags"}\n{"id": "big", "filter": "any(items where qty > 5)"}\n'
    )
    rows = [
        {"id": "a", "tags": ["red", "blue"], "items": [{"qty": 6}]},
        {"id": "b", "tags": [], "items": [{"qty": 5}, {"qty": None}]},
        {"id": "c", "tags": ["blue", "red"], "items": None},
    ]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    papq.write_table(pa.Table.from_pylist(rows), tmp_path / "e.parquet")
    expected = {"a": ["big", "red"], "c": ["red"]}
    for name in ("e.jsonl", "e.parquet"):
        assert match(capsysbinary, rules, tmp_path / name) == expected
    (tmp_path / "named.jsonl").write_text('{"id": ["x", {"y": [1]}], "tags": ["red"]}\n')
    assert main(["match", "--subscriptions", str(rules), "--events", str(tmp_path / "named.jsonl")]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"event": ["x", {"y": [1]}], "ids": ["red"]}


def test_fields_in_lists_that_nobody_names_may_be_bytes(tmp_path: Path, capsysbinary: Capture) -> None:
    rules = tmp_path / "rules.jsonl"
    rules.write_text('{"id": "a", "filter": "any(items where sku = \'A\')"}\n')
    rows = [
        {"items": [{"sku": "A", "raw": b"x"}], "n": "5"},
        {"items": [{"sku": "B", "raw": b"x"}], "n": "6"},
    ]
    papq.write_table(pa.Table.from_pylist(rows), tmp_path / "e.parquet")
    for more in ([], ["--family", "n=number"], ["--unsupported", "skip"]):
        assert match(capsysbinary, rules, tmp_path / "e.parquet", *more) == {0: ["a"]}


def test_an_endless_stream_is_told_of_each_disagreement_once(capsysbinary: Capture) -> None:
    matcher = Matcher({"a": "amuont > 5", "b": "word > 5", "c": "late > 5"})
    answering, now = Answering(matcher), [0.0]
    reporting = Reporting(answering, strict=False, at_once=True, clock=lambda: now[0])

    def told(*events: dict[str, object], seconds: float) -> list[str]:
        matcher.match_batch(events)
        now[0] += seconds
        reporting.look()
        return [line.split("'")[1] for line in capsysbinary.readouterr().err.decode().splitlines()]

    event: dict[str, object] = {"amount": 7, "word": "x"}
    assert told(event, seconds=1) == []
    assert told(seconds=10) == ["word"]
    # So few events do not say that an attribute is never there.
    assert told(*[event] * 990, seconds=10) == []
    assert told(*[event] * 10, seconds=9) == []
    assert told(seconds=1) == ["amuont", "late"]
    assert told(*[{**event, "late": "x"}] * 5, seconds=10) == ["late"]
    assert told(*[event] * 5_000, seconds=10) == []
    matcher.add("d", "missing = 1")
    matcher.match_batch([event])
    reporting.interrupt()
    assert b"'missing'" in capsysbinary.readouterr().err
    reporting.end()
    assert capsysbinary.readouterr().err == b""
    strict = Reporting(answering, strict=True, at_once=True, clock=lambda: now[0])
    now[0] += 20
    with pytest.raises(DisagreementError, match=r"disagree in 3 ways$"):
        strict.look()


def test_disagreements_are_told_when_somebody_ends_an_endless_stream(tmp_path: Path) -> None:
    rules = tmp_path / "s.jsonl"
    write_jsonl(rules, [{"id": "a", "filter": "x = 1"}, {"id": "b", "filter": "amuont = 1"}])
    command = ["match", "--subscriptions", str(rules), "--events", "-", "--line-buffered"]
    with subprocess.Popen([str(PROGRAM), *command], stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"x": 1, "amount": 5}\n')
        process.stdin.flush()
        assert process.stdout.readline() == b'{"event":0,"ids":["a"]}\n'
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert "none of 1 event has 'amuont', which 1 rule (b) names; did you mean 'amount'?" in said
    assert process.returncode == 130


@pytest.mark.parametrize("name", ["out.csv", "OUT.CSV", "out.tsv"])
def test_output_that_is_called_csv_is_refused(name: str, tmp_path: Path, capsysbinary: Capture) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x = 1"}])
    write_jsonl(tmp_path / "e.jsonl", [{"x": 1}])
    given = ["--subscriptions", str(tmp_path / "s.jsonl"), "--events", str(tmp_path / "e.jsonl")]
    assert main(["match", *given, "--output", str(tmp_path / name)]) == 2
    assert b"CSV is not written: end the name in .jsonl or .parquet" in capsysbinary.readouterr().err
    assert not (tmp_path / name).exists()


def test_options_are_hinted_at_only_where_they_help(tmp_path: Path, capsysbinary: Capture) -> None:
    rules = ["x > 1", "tags = 'a'", "'a' in y"]
    write_jsonl(tmp_path / "s.jsonl", [{"id": text, "filter": text} for text in rules])
    write_jsonl(tmp_path / "e.jsonl", [{"x": "1", "tags": ["a"], "y": "a"}])
    given = ["--subscriptions", str(tmp_path / "s.jsonl"), "--events", str(tmp_path / "e.jsonl")]
    assert main(["match", *given]) == 0
    said = capsysbinary.readouterr().err.decode().splitlines()
    assert [line.endswith("(see --family and --null)") for line in said] == [False, True, False]


def test_a_number_that_no_double_is_is_reported_for_json(tmp_path: Path, capsysbinary: Capture) -> None:
    write_jsonl(tmp_path / "s.jsonl", [{"id": "a", "filter": "x = 0.1000000000000000001"}])
    (tmp_path / "e.jsonl").write_text('{"x": 0.1000000000000000001}\n')
    table = pa.table({"x": pa.array([Decimal("0.1000000000000000001")])})
    papq.write_table(table, tmp_path / "e.parquet")
    for name, said, out in (("e.jsonl", True, b""), ("e.parquet", False, b'{"event":0,"ids":["a"]}\n')):
        given = ["--subscriptions", str(tmp_path / "s.jsonl"), "--events", str(tmp_path / name)]
        assert main(["match", *given]) == 0
        captured = capsysbinary.readouterr()
        assert captured.out == out
        assert (b"'x' = 0.1000000000000000001, which no double is" in captured.err) is said


@pytest.mark.parametrize("command", ["match", "why", "pub"])
def test_help_names_all_families(command: str, capsysbinary: Capture) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = " ".join(capsysbinary.readouterr().out.decode().split())
    found = re.search(r"read an attribute as ([a-z, ]+);", told)
    assert found is not None
    assert set(re.split(r", | or ", found[1])) == {family.label for family in Family}
