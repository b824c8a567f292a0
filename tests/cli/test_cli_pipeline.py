"""`penstock pipeline`: real runs in processes of their own, each with a Java machine, so few of them."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from patience import HANGS
from penstock.cli.demo_pipeline import members
from penstock.cli.main import main
from penstock.spark.pipeline.config import example

Capture = pytest.CaptureFixture[bytes]


SUBSCRIPTIONS = '{"id": "late", "filter": "delay > 60"}\n{"id": 7, "filter": "carrier = \'AA\'"}\n'
EVENTS = '{"carrier": "AA", "delay": 90}\n{"carrier": "UA", "delay": 75}\n{"carrier": "UA", "delay": 1}\n'
SETTINGS = '[spark]\ndriver.memory = "1g"\nsql.shuffle.partitions = 2\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/a.json").write_text(EVENTS)
    Path("rules.jsonl").write_text(SUBSCRIPTIONS)
    return tmp_path


def pipeline(source: str, sink: str, above: str = "") -> None:
    Path("p.toml").write_text(
        f'master = "local[2]"\n{above}\n[source]\n{source}\n[subscriptions]\npath = "rules.jsonl"\n'
        f"[[sinks]]\n{sink}\n{SETTINGS}"
    )


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", "pipeline", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As a terminal does it: Ctrl-C comes to a group of processes.
        start_new_session=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=HANGS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert "Traceback" not in err
    assert "\tat " not in err
    return process.returncode, out, err


def nothing_stays(process: "subprocess.Popen[str]") -> None:
    """All that it started end with it, the Java machine too; a helper of that may take a moment."""
    end = time.monotonic() + HANGS
    while members(process.pid):
        assert time.monotonic() < end
        time.sleep(0.1)


def rows(folder: Path) -> list[tuple[str, int, list[str]]]:
    found = [
        json.loads(line) for file in folder.rglob("part-*.json") for line in file.read_text().splitlines()
    ]
    return sorted((row["carrier"], row["delay"], row["ids"]) for row in found)


def test_the_example_is_printed_and_mistakes_cost_no_session(capfdbinary: Capture) -> None:
    assert main(["pipeline", "example"]) == 0
    assert capfdbinary.readouterr().out.decode() == example()
    Path("p.toml").write_text("[source]\nkind = 'rate'")
    assert main(["pipeline", "run", "p.toml"]) == 2
    said = capfdbinary.readouterr().err.decode()
    assert said == "penstock: p.toml: 2 mistakes: subscriptions: is missing; sinks: is missing\n"
    assert main(["pipeline", "run", "nowhere.toml"]) == 2
    for source, sink, missing in (
        ('kind = "files"\npath = "no.csv"', 'kind = "console"', "source.path"),
        ('kind = "files"\npath = "in"\nformat = "json"', 'kind = "console"', "subscriptions.path"),
    ):
        pipeline(source, sink)
        if missing == "subscriptions.path":
            Path("rules.jsonl").unlink()
        capfdbinary.readouterr()
        assert main(["pipeline", "run", "p.toml"]) == 2
        said = capfdbinary.readouterr().err.decode()
        assert said.startswith(f"penstock: {missing}: ")
        assert said.endswith(": no such file or folder\n")


def test_files_are_routed_once_into_a_folder_that_is_ours() -> None:
    import pyarrow.parquet as papq

    pipeline('kind = "files"\npath = "in"\nformat = "json"', 'kind = "parquet"\npath = "out"')
    with Path("in/a.json").open("a") as file:
        file.write("no object\n")
    status, out, err = ended(started("run", "p.toml", "--quiet", "--json"))
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["ended"], told["events"], told["routed"], told["matches"]) == ("finished", 4, 2, 3)
    assert told["malformed"] == 1
    found = papq.read_table("out/batch_id=0").to_pylist()
    assert set(found[0]) == {"carrier", "delay", "ids"}
    assert sorted((row["carrier"], row["ids"]) for row in found) == [("AA", ["7", "late"]), ("UA", ["late"])]


def test_a_stream_goes_on_with_subscriptions_as_they_are_then_and_ctrl_c_ends_it() -> None:
    source = 'kind = "folder"\npath = "in"\nformat = "json"'
    pipeline(source, 'kind = "jsonl"\npath = "out"', 'checkpoint = "state"\ntrigger = "available-now"')
    status, out, _err = ended(started("run", "p.toml"))
    assert status == 0
    assert "finished" in out
    assert "1 batch, 3 events in, 2 rows out, 3 matches" in out
    first = [("AA", 90, ["7", "late"]), ("UA", 75, ["late"])]
    assert rows(Path("out")) == first

    Path("rules.jsonl").write_text('{"id": "new", "filter": "delay < 5"}\n')
    Path("in/b.json").write_text(EVENTS + "{\n")
    process = started("run", "p.toml", "--trigger", "1 second", "--log", "spark.log")
    end = time.monotonic() + HANGS
    while not Path("state/commits/1").exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    status, out, err = ended(process)
    assert status == 130
    assert err.endswith("penstock: interrupted\n")
    assert "p: interrupted after" in out
    assert "1 batch, 4 events in, 1 row out, 1 match," in out
    assert "malformed: 1 line was routed as far as Spark could read" in out
    assert "(version 2)" in out
    assert rows(Path("out")) == sorted([*first, ("UA", 1, ["new"])])
    nothing_stays(process)


def is_java(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/java")
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="this system does not list its processes")
@pytest.mark.parametrize("to", ["us", "all of us"])
def test_who_is_stopped_while_java_starts_leaves_no_java(to: str) -> None:
    pipeline('kind = "files"\npath = "in"\nformat = "json"', 'kind = "parquet"\npath = "out"')
    process = started("run", "p.toml")
    end = time.monotonic() + HANGS
    while not any(map(is_java, members(process.pid))) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    for one in [process.pid] if to == "us" else members(process.pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGTERM)
    assert ended(process) == (130, "", "penstock: interrupted\n")
    nothing_stays(process)
