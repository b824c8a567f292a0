"""`penstock match` reads files, folders, patterns and compressed files."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from penstock.cli.main import main
from penstock.cli.sources import Source, sources
from penstock.errors import InputError

Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.jsonl").write_text(
        '{"id": "big", "filter": "x > 10"}\n{"id": "all", "filter": "x is not null"}\n'
    )


def put(name: str, content: str | bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def put_parquet(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    papq.write_table(pa.Table.from_pylist(rows), name)


def answer(capture: Capture, *events: str, rules: tuple[str, ...] = ("s.jsonl",)) -> dict[Any, list[Any]]:
    status = main(["match", "--subscriptions", *rules, "--events", *events])
    out, err = capture.readouterr()
    assert (status, err) == (0, b"")
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["event"]: line["ids"] for line in lines}


def complaint(capture: Capture, *events: str, rules: tuple[str, ...] = ("s.jsonl",)) -> str:
    status = main(["match", "--subscriptions", *rules, "--events", *events])
    out, err = capture.readouterr()
    assert (status, out) == (2, b"")
    return err.decode()


EXPECTED = {0: ["all"], 1: ["all", "big"], 2: ["all", "big"], 3: ["all"]}


def test_events_of_several_files_are_numbered_through(capsysbinary: Capture) -> None:
    put("a.jsonl", '{"x": 1}\n\n{"x": 11}\n')
    put("b.jsonl", '{"x": 12}\n{"x": 2}')
    assert answer(capsysbinary, "a.jsonl", "b.jsonl") == EXPECTED
    put("c.csv", "x\n1\n11\n")
    put("d.csv", "x\n12\n2\n")
    assert answer(capsysbinary, "c.csv", "d.csv") == EXPECTED
    put_parquet("e.parquet", [{"x": 1}, {"x": 11}])
    put_parquet("f.parquet", [{"x": 12}, {"x": 2}])
    assert answer(capsysbinary, "e.parquet", "f.parquet") == EXPECTED


@pytest.mark.parametrize("flag", [["--events", "b.jsonl"], ["b.jsonl"]])
def test_a_flag_takes_several_files_and_may_be_repeated(flag: list[str], capsysbinary: Capture) -> None:
    put("a.jsonl", '{"x": 1}\n{"x": 11}\n')
    put("b.jsonl", '{"x": 12}\n{"x": 2}\n')
    assert answer(capsysbinary, "a.jsonl", *flag) == EXPECTED


def test_a_folder_stands_for_all_files_below_it_but_hidden_ones(capsysbinary: Capture) -> None:
    put("day/h=01/part-0.json", '{"x": 1}\n{"x": 11}\n')
    put("day/h=02/part-0.json", '{"x": 12}\n')
    put("day/zz.jsonl", '{"x": 2}\n')
    # What Spark and Hadoop leave beside data.
    for name in ("_SUCCESS", ".part-0.json.crc", "h=01/_committed_1", "_temporary/0/part-1.json"):
        put(f"day/{name}", "not events")
    names = [source.path for source in sources(["day"], None, "--events-format")]
    assert names == ["day/zz.jsonl", "day/h=01/part-0.json", "day/h=02/part-0.json"]
    assert answer(capsysbinary, "day") == {0: ["all"], 1: ["all"], 2: ["all", "big"], 3: ["all", "big"]}
    # Given by itself, it is meant.
    put("_events.jsonl", '{"x": 12}\n')
    assert answer(capsysbinary, "_events.jsonl") == {0: ["all", "big"]}


def test_a_folder_of_parquet_may_be_called_like_a_file(capsysbinary: Capture) -> None:
    put_parquet("e.parquet/part-0.snappy.parquet", [{"x": 1}, {"x": 11}])
    put_parquet("e.parquet/part-1.snappy.parquet", [{"x": 12}, {"x": 2}])
    put("e.parquet/_SUCCESS", "")
    assert answer(capsysbinary, "e.parquet") == EXPECTED


@pytest.mark.parametrize("pattern", ["d*/e?.jsonl", "d*", "**/e*.jsonl", "d1/**"])
def test_a_pattern_stands_for_the_files_it_fits_each_once(pattern: str) -> None:
    for name in ("d1/e1.jsonl", "d1/e2.jsonl", "d1/_SUCCESS", "d1/.e3.jsonl"):
        put(name, "{}")
    found = sources([pattern], None, "--events-format")
    assert found == [Source("d1/e1.jsonl", "jsonl"), Source("d1/e2.jsonl", "jsonl")]


def test_a_name_that_looks_like_a_pattern_is_a_name_where_there_is_such_a_file() -> None:
    put("a[1].jsonl", "{}")
    put("a1.jsonl", "{}")
    assert sources(["a[1].jsonl"], None, "") == [Source("a[1].jsonl", "jsonl")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.jsonl.gz", '{"x": 1}\n{"x": 11}\n{"x": 12}\n{"x": 2}\n'),
        ("e.JSON.GZ", '{"x": 1}\n{"x": 11}\n{"x": 12}\n{"x": 2}\n'),
        ("e.csv.gz", "x\n1\n11\n12\n2\n"),
    ],
)
def test_compressed_files_are_unpacked_as_they_are_read(
    name: str, content: str, capsysbinary: Capture
) -> None:
    Path(name).write_bytes(gzip.compress(content.encode()))
    assert answer(capsysbinary, name) == EXPECTED
    # As logs come that were packed piece by piece.
    if name.endswith("gz"):
        first, second = content[: len(content) // 2].encode(), content[len(content) // 2 :].encode()
        Path(name).write_bytes(gzip.compress(first) + gzip.compress(second))
        assert answer(capsysbinary, name) == EXPECTED


def test_rules_come_from_several_files_of_several_formats(capsysbinary: Capture) -> None:
    put("e.jsonl", '{"x": 11}\n')
    put("rules/a.jsonl", '{"id": "a", "filter": "x > 10"}\n')
    put("rules/b.csv", "id,filter\nb,x < 20\n")
    put("rules/c.jsonl.gz", '{"id": "c", "filter": "x = 11"}\n')
    put_parquet("rules/d.parquet", [{"id": "d", "filter": "x != 5"}])
    assert answer(capsysbinary, "e.jsonl", rules=("rules", "s.jsonl")) == {
        0: ["a", "all", "b", "big", "c", "d"]
    }
    assert main(["compile", "--subscriptions", "rules/*", "s.jsonl", "--output", "compiled"]) == 0
    capsysbinary.readouterr()
    assert answer(capsysbinary, "e.jsonl", rules=("compiled",)) == {0: ["a", "all", "b", "big", "c", "d"]}


def corrupt(name: str) -> None:
    data = bytearray(gzip.compress(os.urandom(3000)))
    data[1500] ^= 0xFF
    Path(name).write_bytes(data)


@pytest.mark.parametrize("side", ["events", "rules"])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda name: Path(name).write_bytes(gzip.compress(os.urandom(3000))[:-40]), "cut off"),
        (lambda name: Path(name).write_bytes(b"x\n1\n"), "not gzip, or damaged"),
        (corrupt, "not gzip, or damaged|cut off|not "),
    ],
)
def test_compressed_files_that_are_damaged_are_refused(
    side: str, kind: str, write: Callable[[str], None], message: str, capsysbinary: Capture
) -> None:
    name = f"b.{kind}.gz"
    write(name)
    put("e.jsonl", '{"x": 1}\n')
    said = complaint(capsysbinary, name) if side == "events" else ""
    said = said or complaint(capsysbinary, "e.jsonl", rules=(name,))
    assert said.startswith(f"penstock: {name}")
    assert said.count("\n") == 1


def test_a_file_that_is_cut_off_is_said_to_be(capsysbinary: Capture) -> None:
    Path("b.jsonl.gz").write_bytes(gzip.compress(b'{"x": 1}\n' * 9)[:-4])
    assert complaint(capsysbinary, "b.jsonl.gz") == "penstock: b.jsonl.gz: the compressed file is cut off\n"
    Path("b.jsonl.gz").write_bytes(b"nope")
    said = complaint(capsysbinary, "b.jsonl.gz")
    assert said.startswith("penstock: b.jsonl.gz: not gzip, or damaged: ")


def test_events_of_several_formats_are_refused_before_anything_is_read(capsysbinary: Capture) -> None:
    put("day/a.jsonl", "")
    put("day/b.csv", "")
    put("rules.jsonl", "not read")
    assert complaint(capsysbinary, "day", rules=("rules.jsonl",)) == (
        "penstock: day/a.jsonl is read as jsonl, day/b.csv as csv: give files of one format at a time\n"
    )
    put("day/b.csv", "")
    put("day/README", "about")
    assert "day/README: the name does not tell the format" in complaint(capsysbinary, "day")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["empty"], "empty: there is no file in this folder"),
        (["hidden"], "hidden: there is no file in this folder"),
        (["nothing*.jsonl"], "nothing*.jsonl: no file has a name like this"),
        (["nothing"], "nothing: no such file or folder"),
        (["-", "-"], "standard input can be read only once"),
        (
            ["e.parquet.gz"],
            "e.parquet.gz: Parquet is compressed inside; unpack the file: gunzip e.parquet.gz",
        ),
    ],
)
def test_what_stands_for_no_file_is_refused(given: list[str], message: str) -> None:
    Path("empty").mkdir()
    put("hidden/_SUCCESS", "")
    put("e.parquet.gz", "")
    with pytest.raises(InputError) as caught:
        sources(given, None, "--events-format")
    assert str(caught.value).startswith(message)


def test_no_file_that_is_read_is_replaced(capsysbinary: Capture) -> None:
    put("day/a.jsonl", '{"x": 1}\n')
    for flags in (["--events", "day"], ["--events", "s.jsonl", "day/*"]):
        assert main(["match", "--subscriptions", "s.jsonl", *flags, "--output", "day/a.jsonl"]) == 2
        assert b"--output would replace what is read" in capsysbinary.readouterr().err


def test_a_mistake_is_told_with_the_file_and_the_line_in_it(capsysbinary: Capture) -> None:
    put("a.jsonl.gz", '{"x": 1}\n{"x": 2}\n')
    put("b.jsonl.gz", '{"x": 1}\nnope\n')
    assert complaint(capsysbinary, "?.jsonl.gz").startswith("penstock: b.jsonl.gz:2: not a JSON object")
    put("c.csv", "x,y\n1,2\n")
    put("d.csv", "x,y\n2,1\n3\n")
    assert complaint(capsysbinary, "c.csv", "d.csv").startswith("penstock: d.csv:3: not CSV")
