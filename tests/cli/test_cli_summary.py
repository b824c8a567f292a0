"""`penstock match --summary` and `--output x.parquet`."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from penstock.cli import parquet_output
from penstock.cli.main import main

Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")

RULES: list[tuple[str | int, str]] = [("big", "x > 10"), ("all", "x is not null"), ("none", "x < 0")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put("s.jsonl", [{"id": key, "filter": text} for key, text in RULES])


def put(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def match(capture: Capture, *more: str, events: str = "e.jsonl", rules: str = "s.jsonl") -> str:
    assert main(["match", "--subscriptions", rules, "--events", events, *more]) == 0
    out, err = capture.readouterr()
    assert err == b""
    return out.decode()


def refusal(capture: Capture, *more: str) -> str:
    assert main(["match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", *more]) == 2
    out, err = capture.readouterr()
    assert out == b""
    return err.decode()


def test_a_summary_takes_the_place_of_lines(capsysbinary: Capture) -> None:
    put("e.jsonl", [{"x": 1}, {"x": 11}, {"y": 1}, {"x": 12}])
    assert match(capsysbinary, "--summary") == (
        "4 events: 3 matched (75.0 %), 5 hits\n"
        "3 rules: 2 matched, 1 never\n"
        "\n"
        "noisiest:\n"
        "  all  3 (75.0 %)\n"
        "  big  2 (50.0 %)\n"
        "\n"
        "never matched:\n"
        "  none\n"
    )
    assert json.loads(match(capsysbinary, "--summary=json", "--jobs", "2")) == {
        "events": 4,
        "matched": 3,
        "hits": 5,
        "rules": 3,
        "never": ["none"],
        "by_rule": [{"id": "all", "hits": 3}, {"id": "big", "hits": 2}, {"id": "none", "hits": 0}],
        "disagreements": [],
    }


def test_a_summary_as_json_has_what_rules_and_events_disagree_about(capsysbinary: Capture) -> None:
    put("e.jsonl", [{"x": "one", "y": 1}])
    command = ["match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--summary=json"]
    assert main(command) == 0
    out, err = capsysbinary.readouterr()
    (found,) = json.loads(out)["disagreements"]
    assert (found["attribute"], found["problem"], found["ids"]) == ("x", "family", ["big", "none"])
    assert found["text"].encode() in err
    assert main([*command[:-1], "--summary"]) == 0
    assert b"compare" not in capsysbinary.readouterr().out


def test_lines_are_written_beside_a_summary_if_there_is_an_output(capsysbinary: Capture) -> None:
    put("e.jsonl", [{"x": 1}, {"x": 11}])
    lines = match(capsysbinary)
    assert match(capsysbinary, "--summary", "--output", "o.jsonl").startswith("2 events: 2 matched")
    assert Path("o.jsonl").read_text() == lines


def test_hits_add_up_over_chunks_and_files(capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.cli import chunks

    monkeypatch.setattr(chunks, "BYTES", 100)
    Path("day").mkdir()
    for at in range(3):
        put(f"day/{at}.jsonl", [{"x": n} for n in range(100)])
    told = json.loads(match(capsysbinary, "--summary=json", events="day"))
    assert (told["events"], told["matched"]) == (300, 300)
    assert {one["id"]: one["hits"] for one in told["by_rule"]} == {"all": 300, "big": 267, "none": 0}


def test_events_of_which_nothing_is_left_count_as_in_lines(capsysbinary: Capture) -> None:
    put("s.jsonl", [{"id": "a", "filter": "zzz is null"}, {"id": "b", "filter": "x = 1"}])
    put("e.jsonl", [{"x": 1}, {"q": {}}, {"x": 5}, {"q": [[1]]}])
    lines = match(capsysbinary, "--unsupported", "skip")
    told = json.loads(match(capsysbinary, "--unsupported", "skip", "--summary=json"))
    counted = [key for line in lines.splitlines() for key in json.loads(line)["ids"]]
    assert {one["id"]: one["hits"] for one in told["by_rule"]} == {
        key: counted.count(key) for key in ("a", "b")
    }
    assert told["matched"] == len(lines.splitlines())


def test_compiled_rules_are_summed_up_too(capsysbinary: Capture) -> None:
    put("e.jsonl", [{"x": 1}])
    assert main(["compile", "--subscriptions", "s.jsonl", "--output", "rules"]) == 0
    capsysbinary.readouterr()
    told = json.loads(match(capsysbinary, "--summary=json", rules="rules"))
    assert told["never"] == ["big", "none"]


def parquet(name: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = papq.read_table(name).to_pydict()
    return found


def types(name: str) -> list[pa.DataType]:
    return list(papq.read_schema(name).types)


def test_parquet_has_what_lines_have(capsysbinary: Capture) -> None:
    put("e.jsonl", [{"x": 1}, {"y": 1}, {"x": 11}])
    assert match(capsysbinary, "--output", "o.parquet") == ""
    assert parquet("o.parquet") == {"event": [0, 2], "ids": [["all"], ["all", "big"]]}
    assert types("o.parquet") == [pa.int64(), pa.list_(pa.string())]
    put("s.jsonl", [{"id": n, "filter": f"x > {n}"} for n in (10, 9, 2)])
    assert match(capsysbinary, "--output", "o.pq") == ""
    assert parquet("o.pq") == {"event": [2], "ids": [[2, 9, 10]]}
    assert types("o.pq") == [pa.int64(), pa.list_(pa.int64())]


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_names_become_text_when_one_of_them_is_no_integer(
    rows: int, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.cli import chunks

    monkeypatch.setattr(chunks, "BYTES", 64)
    monkeypatch.setattr(parquet_output, "_ROWS", rows)
    events: list[dict[str, Any]] = [{"x": n} for n in range(20)] + [{"id": 500, "x": 1}]
    put("e.jsonl", events)
    match(capsysbinary, "--output", "o.parquet")
    assert parquet("o.parquet")["event"] == [*range(20), 500]
    events += [{"id": 'näm"e', "x": 1}, {"x": 5}, {"id": 1.5, "x": 1}, {"id": True, "x": 1}]
    put("e.jsonl", events)
    match(capsysbinary, "--output", "o.parquet")
    names = [str(n) for n in range(20)]
    assert parquet("o.parquet")["event"] == [*names, "500", 'näm"e', "22", "1.5", "true"]
    lines = [json.loads(line)["ids"] for line in match(capsysbinary).splitlines()]
    assert parquet("o.parquet")["ids"] == lines


def test_parquet_of_no_match_has_no_rows(capsysbinary: Capture) -> None:
    put("e.jsonl", [{"x": -5, "y": 1}])
    put("s.jsonl", [{"id": "a", "filter": "x > 0"}])
    match(capsysbinary, "--output", "o.parquet")
    assert parquet("o.parquet") == {"event": [], "ids": []}
    assert types("o.parquet") == [pa.int64(), pa.list_(pa.string())]


def test_parquet_is_whole_or_not_there(capsysbinary: Capture) -> None:
    Path("e.jsonl").write_text('{"x": 1}\n' * 10 + "nope\n")
    Path("o.parquet").write_text("before")
    assert "e.jsonl:11: " in refusal(capsysbinary, "--output", "o.parquet")
    assert Path("o.parquet").read_text() == "before"
    assert {path.name for path in Path().iterdir()} == {"s.jsonl", "e.jsonl", "o.parquet"}
    assert "e.jsonl:11: " in refusal(capsysbinary, "--summary")


def test_what_would_mix_or_mislead_is_refused(capsysbinary: Capture) -> None:
    put("e.jsonl", [{"x": 1}])
    for flags in (["--output", "-"], ["--line-buffered"]):
        assert "--summary is written to standard output" in refusal(capsysbinary, "--summary", *flags)
    assert "output is not compressed" in refusal(capsysbinary, "--output", "o.jsonl.gz")
    assert not Path("o.jsonl.gz").exists()
