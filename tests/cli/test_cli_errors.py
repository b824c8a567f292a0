"""`penstock match` over files with mistakes: one line that says where, and no half-written output."""

import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from patience import HANGS
from penstock.cli.main import main

Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")


GOOD: dict[str, bytes] = {
    "s.jsonl": b'{"id": "a", "filter": "x > 1"}\n',
    "e.jsonl": b'{"x": 1}\n{"x": 2}\n',
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in GOOD.items():
        Path(name).write_bytes(content)
    return tmp_path


def failure(capture: Capture, *more: str, subscriptions: str = "s.jsonl", events: str = "e.jsonl") -> str:
    """Run match, which must fail with nothing on standard output; return its one line."""
    status = main(["match", "--subscriptions", subscriptions, "--events", events, *more])
    out, err = capture.readouterr()
    assert (status, out) == (2, b"")
    line = err.decode()
    assert line.startswith("penstock: ")
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return line.removeprefix("penstock: ").rstrip("\n")


BAD_SUBSCRIPTIONS: list[tuple[str, bytes, str]] = [
    ("b.jsonl", b"nope\n", "b.jsonl:1: not a JSON object: JSON is malformed"),
    ("b.jsonl", b"[1]\n", "b.jsonl:1: not a JSON object, but of type array$"),
    (
        "b.jsonl",
        b'{"id": "a", "filter": "x > 1"}\n\n{"id": "b"}\n',
        "b.jsonl:3: missing required field 'filter'",
    ),
    ("b.jsonl", b'{"filter": "x > 1"}\n', "b.jsonl:1: missing required field 'id'$"),
    ("b.jsonl", b'{"id": "a", "filter": null}\n', "b.jsonl:1: a filter is text, or an object"),
    ("b.jsonl", b'{"id": "a", "filter": 5}\n', "b.jsonl:1: a filter is text, or an object"),
    ("b.jsonl", b'{"id": "a", "filter": "x > 1 and"}\n', "b.jsonl:1: column 10: expected a condition"),
    ("b.jsonl", b'{"id": "a", "filter": {"attribute": "x", "op": "~"}}\n', "b.jsonl:1: .*no operator '~'"),
    ("b.jsonl", b'{"id": null, "filter": "x > 1"}\n', "b.jsonl:1: 'id' must be int or str, not null$"),
    ("b.jsonl", b'{"id": true, "filter": "x > 1"}\n', "b.jsonl:1: 'id' must be int or str, not bool$"),
    ("b.jsonl", b'{"id": 1.5, "filter": "x > 1"}\n', "b.jsonl:1: 'id' must be int or str, not float$"),
    ("b.jsonl", b'{"id": "", "filter": "x > 1"}\n', "b.jsonl:1: an id is empty"),
    ("b.jsonl", b'{"id": 9223372036854775808, "filter": "x > 1"}\n', "b.jsonl:1: .*64 bits"),
    ("b.jsonl", b'{"id": "%s", "filter": "x > 1"}\n' % (b"i" * 513), "b.jsonl:1: .*ID_LENGTH_MAX"),
    ("b.jsonl", b'{"id": "a", "filter": "x = \'\xff\'"}\n', "b.jsonl:1: not "),
    ("b.jsonl", b'{"id": "a", "filter": ' + b'{"not":' * 5000 + b"1" + b"}" * 5001, "b.jsonl:1: "),
    ("b.csv", b"", "b.csv:1: a header with the columns id and filter"),
    ("b.csv", b"id,text\na,x > 1\n", "b.csv:1: a column 'filter' is missing; there are: id, text"),
    ("b.csv", b"a,x > 1\n", "b.csv:1: a column 'id' is missing"),
    ("b.csv", b"id,filter\na,x > 1\nb,x > 1,y\n", "b.csv:3: 2 fields were expected, found 3"),
    ("b.csv", b"id,filter\na\n", "b.csv:2: 2 fields were expected, found 1"),
    ("b.csv", b"id,filter\na,\n", "b.csv:2: column 1: expected a condition"),
    ("b.csv", b"id,filter\n,x > 1\n", "b.csv:2: an id is empty"),
    ("b.csv", b'id,filter\na,"x > 1\n', "b.csv:2: not CSV"),
    ("b.csv", b'id,filter\na,"x > 1\nand x < 9"\n\nb,x >\n', "b.csv:5: column 4"),
    ("b.csv", b"id,filter\na,x = '\xff'\n", "b.csv:2: not UTF-8"),
    ("b.parquet", b"id,filter\n", "b.parquet: not Parquet"),
    ("b.parquet", b"", "b.parquet: not Parquet"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_SUBSCRIPTIONS, ids=range(len(BAD_SUBSCRIPTIONS)))
def test_a_mistake_in_the_subscriptions_is_told_with_its_place(
    name: str, content: bytes, message: str, capsysbinary: Capture
) -> None:
    Path(name).write_bytes(content)
    line = failure(capsysbinary, subscriptions=name)
    assert re.match(message, line), line


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1, 2], "filter": ["x > 1", None]}, "b.parquet: row 1: a filter is text, not null"),
        ({"id": [1], "filter": [5]}, "b.parquet: row 0: a filter is text, not int"),
        ({"id": [1, 2], "filter": ["x > 1", "x >"]}, "b.parquet: row 1: column 4: expected a value"),
        ({"id": [1.5], "filter": ["x"]}, "b.parquet: row 0: an id is text or an integer, not float"),
        ({"id": [None], "filter": ["x"]}, "b.parquet: row 0: an id is text or an integer"),
        ({"id": [1]}, "b.parquet: a column 'filter' is missing"),
        ({"filter": ["x"]}, "b.parquet: a column 'id' is missing"),
    ],
)
def test_a_mistake_in_parquet_subscriptions_is_told_with_its_row(
    columns: dict[str, Any], message: str, capsysbinary: Capture
) -> None:
    papq.write_table(pa.table(columns), "b.parquet")
    assert failure(capsysbinary, subscriptions="b.parquet").startswith(message)


BAD_EVENTS: list[tuple[str, bytes, str]] = [
    ("b.jsonl", b'{"x": 2}\n\nnope\n', "b.jsonl:3: not a JSON object"),
    ("b.jsonl", b'{"x": 2}\n[1]\n', "b.jsonl:2: an event is a JSON object, not an array"),
    ("b.jsonl", b'{"x": 2}\n{"x": "\xff"}\n', "b.jsonl:2: not a JSON object"),
    ("b.jsonl", b'{"x": 2}\nnull\n', "b.jsonl:2: an event is a JSON object, not null"),
    ("b.jsonl", b'{"x": 2}\n{"x": {"y": [18446744073709551616]}}\n', r"b.jsonl:2: 'x\.y\[\]': .*64-bit"),
    ("b.jsonl", b'{"x": 2}\n{"x": 9223372036854775808}\n', "b.jsonl:2: 'x': .*64-bit"),
    ("b.jsonl", b'{"x": 2}\n{"x": {"y": 1}, "x.y": 2}\n', r"b.jsonl:2: 'x\.y' is there twice"),
    ("b.jsonl", b'{"x": 2}\n' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "b.jsonl:2: .*NESTING_MAX"),
    ("b.jsonl", b'{"x": 2}\n{"x": 1', "b.jsonl:2: not a JSON object"),
    ("b.csv", b"", "b.csv:1: not CSV"),
    ("b.csv", b"x,y\n2,1\n3\n", "b.csv:3: not CSV"),
    ("b.csv", b"x,y\n2,1\n3,4,5\n", "b.csv:3: not CSV"),
    ("b.csv", b"x,x\n2,1\n", "b.csv:1: the column 'x' is there twice"),
    ("b.csv", b"x,\n2,1\n", "b.csv:1: an attribute name is empty"),
    ("b.csv", b"x,y\n2,\xff\n", "b.csv:2: not UTF-8"),
    ("b.csv", b"x,y\n1,2\n\n\n2,3,4\n", "b.csv:5: not CSV"),
    ("b.csv", b'x\n1\n"[[[\n', "b.csv:3: not CSV: unexpected end of data"),
    ("b.csv", b'x,y\n"a\nb",1\n"c",1e999\n', "b.csv:4: row 1: 'y': '1e999' cannot be read as a number"),
    ("b.csv", b"x\n1\n99999999999999999999\n", "b.csv:3: row 1: .x.: .*64-bit"),
    ("b.csv", b"x\n1.5\n1e999\n", "b.csv:3: row 1: 'x': '1e999' cannot be read as a number"),
    ("b.jsonl", b"\xef\xbb\xbf[1]\n", "b.jsonl:1: an event is a JSON object, not an array"),
    ("b.parquet", b"PAR1", "b.parquet: not Parquet"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_EVENTS, ids=range(len(BAD_EVENTS)))
def test_a_mistake_in_the_events_is_told_with_its_place(
    name: str, content: bytes, message: str, capsysbinary: Capture
) -> None:
    Path(name).write_bytes(content)
    line = failure(capsysbinary, events=name)
    assert re.match(message, line), line


def test_a_mistake_in_parquet_events_is_told_with_its_row(capsysbinary: Capture) -> None:
    papq.write_table(pa.table({"x": ["1", "2", "two"]}), "b.parquet")
    line = failure(capsysbinary, "--family", "x=number", events="b.parquet")
    assert (
        line == "b.parquet: row 2: 'x': 'two' cannot be read as a number (--unsupported skip leaves it out)"
    )
    papq.write_table(pa.table({"x": [b"1"], "y": [2]}), "b.parquet")
    assert "the column 'x'" in failure(capsysbinary, events="b.parquet")


def test_a_row_with_a_mistake_is_counted_over_the_batches_of_a_file(capsysbinary: Capture) -> None:
    papq.write_table(pa.table({"x": ["1"] * 20_000 + ["two"]}), "b.parquet")
    line = failure(capsysbinary, "--family", "x=number", events="b.parquet")
    assert line.startswith("b.parquet: row 20000: ")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_parquet_is_refused(share: float, capsysbinary: Capture) -> None:
    papq.write_table(pa.table({"x": range(1000), "id": range(1000), "filter": ["x > 1"] * 1000}), "b.parquet")
    content = Path("b.parquet").read_bytes()
    Path("b.parquet").write_bytes(content[: int(len(content) * share)])
    assert failure(capsysbinary, events="b.parquet").startswith("b.parquet: not Parquet")
    assert failure(capsysbinary, subscriptions="b.parquet").startswith("b.parquet: not Parquet")


@pytest.mark.parametrize("side", ["subscriptions", "events"])
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_file_that_cannot_be_opened_is_named(side: str, ending: str, capsysbinary: Capture) -> None:
    name = f"gone.{ending}"
    named = {side: name}
    assert failure(capsysbinary, **named) == f"{name}: no such file or directory"
    Path(name).mkdir()
    assert failure(capsysbinary, **named) == f"{name}: there is no file in this folder"


@pytest.mark.parametrize("side", ["subscriptions", "events"])
@pytest.mark.parametrize("name", ["rules", "rules.txt"])
def test_a_name_that_does_not_tell_the_format_is_refused(side: str, name: str, capsysbinary: Capture) -> None:
    assert failure(capsysbinary, **{side: name}) == f"{name}: no such file or folder"
    Path(name).write_bytes(GOOD["s.jsonl"])
    assert failure(capsysbinary, **{side: name}).startswith(f"{name}: the name does not tell the format")


@pytest.mark.parametrize("side", ["subscriptions", "events"])
@pytest.mark.parametrize(
    ("name", "command", "format_said"),
    [
        ("some.jsonl.bz2", "bzcat some.jsonl.bz2", ""),
        ("some.xz", "xzcat some.xz", ""),
        ("some of it.csv.XZ", "xzcat 'some of it.csv.XZ'", "csv"),
        ("some.parquet.zst", "zstdcat some.parquet.zst", "parquet"),
    ],
)
def test_how_to_read_a_compressed_file_is_told(
    side: str, name: str, command: str, format_said: str, capsysbinary: Capture
) -> None:
    assert failure(capsysbinary, **{side: name}) == f"{name}: no such file or folder"
    Path(name).write_bytes(b"\x1f\x8b")
    more = f" --{side}-format {format_said}" if format_said else ""
    told = f"{name}: compressed files are not read: {command} | penstock … --{side} -{more}"
    assert failure(capsysbinary, **{side: name}) == told


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_of_another_format_than_said_is_refused(kind: str, capsysbinary: Capture) -> None:
    assert failure(capsysbinary, "--subscriptions-format", kind).startswith("s.jsonl")
    Path("e.jsonl").write_bytes(b'{"x": 1}\n{"x": 2, "y": 3}\n')
    assert failure(capsysbinary, "--events-format", kind).startswith("e.jsonl")


def test_only_one_file_is_standard_input(capsysbinary: Capture) -> None:
    assert "only one of" in failure(capsysbinary, subscriptions="-", events="-")


def test_a_mistake_in_standard_input_is_told_with_its_line(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    for side in ("subscriptions", "events"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\nnope\n")))
        assert failure(capsysbinary, **{side: "-"}).startswith("standard input:2: not a JSON object")


@pytest.mark.parametrize("pair", ["x", "x=", "=time", "x=date", ""])
def test_a_family_that_does_not_exist_is_refused(pair: str, capsysbinary: Capture) -> None:
    line = failure(capsysbinary, "--family", pair)
    assert line.startswith(f"--family {pair!r}: ")
    assert "write NAME=FAMILY" in line or "the families are bool, number, time, string" in line


@pytest.mark.parametrize(
    ("pair", "shown"), [("x=time", "1 cannot be read as a time"), ("x=bool", "as a bool")]
)
def test_a_value_that_the_family_cannot_hold_is_refused(pair: str, shown: str, capsysbinary: Capture) -> None:
    line = failure(capsysbinary, "--family", pair)
    assert line.startswith("e.jsonl:1: 'x': ")
    assert shown in line


def test_output_is_written_whole(folder: Path, capsysbinary: Capture) -> None:
    Path("out.jsonl").write_text("old")
    arguments = ["match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--output", "out.jsonl"]
    assert main(arguments) == 0
    assert capsysbinary.readouterr() == (b"", b"")
    assert Path("out.jsonl").read_bytes() == b'{"event":1,"ids":["a"]}\n'
    assert {path.name for path in folder.iterdir()} == {*GOOD, "out.jsonl"}


def test_after_an_error_there_is_no_output_and_what_was_there_is_untouched(
    folder: Path, capsysbinary: Capture
) -> None:
    Path("e.jsonl").write_bytes(b'{"x": 2}\n' * 5000 + b"nope\n")
    assert failure(capsysbinary, "--output", "out.jsonl").startswith("e.jsonl:5001: ")
    assert {path.name for path in folder.iterdir()} == set(GOOD)
    Path("out.jsonl").write_text("old")
    failure(capsysbinary, "--output", "out.jsonl")
    assert Path("out.jsonl").read_text() == "old"
    assert {path.name for path in folder.iterdir()} == {*GOOD, "out.jsonl"}


def test_after_an_error_standard_output_is_empty_unless_line_buffered(capsysbinary: Capture) -> None:
    Path("e.jsonl").write_bytes(b'{"x": 2}\n{"x": 1}\nnope\n')
    assert failure(capsysbinary).startswith("e.jsonl:3: ")
    arguments = ["match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--line-buffered"]
    assert main(arguments) == 2
    out, err = capsysbinary.readouterr()
    assert out == b'{"event":0,"ids":["a"]}\n'
    assert err.startswith(b"penstock: e.jsonl:3: ")


def test_an_output_that_cannot_be_written_is_refused(folder: Path, capsysbinary: Capture) -> None:
    Path("out").mkdir()
    assert failure(capsysbinary, "--output", "out") == "out: cannot be written: is a directory"
    line = failure(capsysbinary, "--output", "gone/out.jsonl")
    assert line == "gone/out.jsonl: cannot be written: no such file or directory"
    assert {path.name for path in folder.iterdir()} == {*GOOD, "out"}


def test_a_file_is_written_whole_and_so_not_line_by_line(capsysbinary: Capture) -> None:
    line = failure(capsysbinary, "--output", "out.jsonl", "--line-buffered")
    assert line.startswith("--line-buffered is for standard output")
    assert not Path("out.jsonl").exists()


def test_a_long_field_does_not_hide_the_place_of_a_mistake(capsysbinary: Capture) -> None:
    Path("b.csv").write_text("id,x\na," + "y" * 200_000 + "\nb,z\n,soon\n")
    line = failure(capsysbinary, "--family", "x=string", "--family", "id=number", events="b.csv")
    assert line.startswith("b.csv:2: row 0: 'id': 'a' cannot be read as a number")


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["parse a=1", "parse -", "--version", "parse a="])
def test_a_stream_that_is_closed_is_no_traceback(command: str, closing: str, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("penstock")
    line = f"{program} {command} {closing}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, input=b"a=1", check=False)  # noqa: S607
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr


def test_being_ended_leaves_nothing_behind(folder: Path) -> None:
    program = Path(sys.executable).with_name("penstock")
    command = [str(program), "match", "--subscriptions", "s.jsonl", "--events", "-", "--output", "out.jsonl"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"x": 2}\n')
        process.stdin.flush()
        while not list(folder.glob(".*.part")):
            assert process.poll() is None
        process.terminate()
        try:
            assert process.wait(timeout=HANGS) == 130
        finally:
            process.kill()
    assert {path.name for path in folder.iterdir()} == set(GOOD)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_kernels_are_compiled_is_heard_after_a_callback(number: signal.Signals) -> None:
    program = f"""if True:
        import ctypes, os, time
        from penstock.cli.signals import end_on_signals
        end_on_signals()
        def _raw_object_cache_notify():
            os.kill(os.getpid(), {int(number)})
            print("compiled", flush=True)
        try:
            ctypes.CFUNCTYPE(None)(_raw_object_cache_notify)()
            time.sleep(60)
        except KeyboardInterrupt:
            print("heard")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=HANGS, check=False)
    assert (done.stdout, done.stderr) == (b"compiled\nheard\n", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_does_not_interrupt_what_waits_is_heard(number: signal.Signals) -> None:
    # Another thread takes the signal, so that the read of the main thread goes on: what happens to a signal
    # that comes just before the read.
    program = f"""if True:
        import os, signal, threading, time
        from penstock.cli.signals import end_on_signals
        end_on_signals()
        def disturb():
            time.sleep(0.3)
            signal.pthread_kill(threading.get_ident(), {int(number)})
            time.sleep(60)
        try:
            threading.Thread(target=disturb, daemon=True).start()
            os.read(0, 1)
        except KeyboardInterrupt:
            print("heard")
    """
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            process.wait(timeout=HANGS)
        finally:
            process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == b"heard\n"
