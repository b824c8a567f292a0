"""`penstock schema infer`, and schemas that rules and events are held against."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from penstock.cli.main import main

Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("warm_kernels")

EVENTS = [
    {"amount": 5, "at": "2024-01-01T00:00:00Z", "order": {"price": 1.5}, "tags": ["a"], "note": None},
    {"amount": 2.5, "at": "2024-01-02T00:00:00Z", "kind": "x", "up": True},
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_jsonl(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def rules(*texts: str) -> None:
    write_jsonl("s.jsonl", [{"id": f"r{n}", "filter": text} for n, text in enumerate(texts)])


def match(*more: str, events: str = "e.jsonl") -> int:
    return main(["match", "--subscriptions", "s.jsonl", "--events", events, *more])


def inferred(capsys: Capture, *names: str) -> dict[str, Any]:
    assert main(["schema", "infer", *names]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_schema_of_json_lines_is_inferred(capsys: Capture) -> None:
    write_jsonl("e.jsonl", EVENTS)
    found = inferred(capsys, "e.jsonl")
    assert found["additionalProperties"] is False
    properties = found["properties"]
    assert properties["amount"] == {"type": "number"}
    assert properties["at"] == {"type": "string", "format": "date-time"}
    assert properties["order"]["properties"] == {"price": {"type": "number"}}
    assert properties["note"] == {}
    assert list(properties) == ["amount", "at", "kind", "note", "order", "tags", "up"]


def test_csv_and_parquet_give_the_schema_of_the_same_events(capsys: Capture) -> None:
    Path("e.csv").write_text("amount,at,kind,up,empty\n5,2024-01-01,x,true,\n2.5,2024-01-02,7,false,\n")
    table = pa.table(
        {
            "amount": [5, 2.5],
            "at": pa.array([0, 1], pa.timestamp("s")),
            "kind": ["x", "7"],
            "up": [True, False],
            "empty": pa.nulls(2),
        }
    )
    papq.write_table(table, "e.parquet")
    assert inferred(capsys, "e.csv") == inferred(capsys, "e.parquet")


def test_the_plain_command_still_prints_the_schema_of_filters(capsys: Capture) -> None:
    assert main(["schema"]) == 0
    assert "attribute" in capsys.readouterr().out


def test_mistakes_in_events_are_said_with_their_place(capsys: Capture) -> None:
    Path("e.jsonl").write_text('{"a": 1}\n[]\n')
    assert main(["schema", "infer", "e.jsonl", "--output", "out.json"]) == 2
    assert "e.jsonl:2: an event is a JSON object" in capsys.readouterr().err
    Path("empty.jsonl").write_text("")
    assert main(["schema", "infer", "empty.jsonl", "--output", "out.json"]) == 2
    assert "there is no event" in capsys.readouterr().err
    assert not Path("out.json").exists()


def test_rules_that_do_not_fit_the_schema_are_refused_before_events_are_read(capsys: Capture) -> None:
    write_jsonl("e.jsonl", EVENTS)
    assert main(["schema", "infer", "e.jsonl", "--output", "schema.json"]) == 0
    rules("amuont > 5", "kind > 7", "amount > 1")
    Path("broken.jsonl").write_text("not read")
    compiling = ["compile", "--subscriptions", "s.jsonl", "--output", "rules"]
    matching = ["match", "--subscriptions", "s.jsonl", "--events", "broken.jsonl"]
    for command in (matching, compiling):
        assert main([*command, "--schema", "schema.json"]) == 2
        err = capsys.readouterr().err
        assert "the schema has no attribute 'amuont', which 1 rule (r0) names; did you mean 'amount'?" in err
        assert "1 rule (r1) compares 'kind' with a number, but in the schema it is string" in err
        assert "broken" not in err
    assert not Path("rules").exists()
    assert main(compiling) == 0
    assert main(["match", "--subscriptions", "rules", "--events", "e.jsonl", "--schema", "schema.json"]) == 2
    assert "'amuont'" in capsys.readouterr().err


def test_text_is_a_time_where_the_schema_says_so(capsys: Capture) -> None:
    write_jsonl(
        "e.jsonl", [{"id": n, **{k: v for k, v in e.items() if k == "at"}} for n, e in enumerate(EVENTS)]
    )
    assert main(["schema", "infer", "e.jsonl", "--output", "schema.json"]) == 0
    rules("at >= timestamp '2024-01-02T00:00:00Z'")
    assert match("--schema", "schema.json", "--strict") == 0
    assert capsys.readouterr().out == '{"event":1,"ids":["r0"]}\n'


def test_events_that_do_not_fit_the_schema_are_a_warning_and_with_strict_an_error(capsys: Capture) -> None:
    Path("schema.json").write_text('{"properties": {"x": {"type": "number"}}}')
    write_jsonl("e.jsonl", [{"x": 1}, {"x": "n/a", "y": 1}])
    rules("x = 1")
    assert match("--schema", "schema.json") == 0
    out, err = capsys.readouterr()
    assert out == '{"event":0,"ids":["r0"]}\n'
    assert "1 value of 'x' has the family string, but in the schema it is number" in err
    assert "events have 'y', which the schema does not list" in err
    assert match("--schema", "schema.json", "--strict") == 2
    assert capsys.readouterr().out == ""


def test_a_column_that_no_rule_can_match_is_refused_before_rules_are_read(capsys: Capture) -> None:
    papq.write_table(pa.table({"x": [1], "blob": [b"x"], "no": pa.array([None], pa.binary())}), "e.parquet")
    Path("s.jsonl").write_text("not read")
    assert match(events="e.parquet") == 2
    err = capsys.readouterr().err
    assert "e.parquet: the column 'blob' of type binary has no family" in err
    assert "--unsupported skip" in err
    papq.write_table(pa.table({"x": [1], "no": pa.array([None], pa.binary())}), "e.parquet")
    rules("x = 1")
    assert match(events="e.parquet") == 0
    assert capsys.readouterr().out == '{"event":0,"ids":["r0"]}\n'


def test_strict_holds_rules_against_the_columns_before_rows_are_read(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    papq.write_table(pa.table({"amount": [1], "other": [b"x"]}), "e.parquet")
    rules("amuont > 0 or gone is null", "other = 'x'", "missing is null")

    def read(*_given: object) -> None:
        raise AssertionError("rows are read")

    monkeypatch.setattr("penstock.cli.chunks.parquet_batches", read)
    assert match("--strict", "--unsupported", "skip", events="e.parquet") == 2
    lines = [line.removeprefix("penstock: warning: ") for line in capsys.readouterr().err.splitlines()]
    assert [line.split("'")[1] for line in lines[:-1]] == ["amuont", "other"]


def test_schemas_of_arrow_files_are_read(capsys: Capture) -> None:
    table = pa.table({"amount": [1]})
    with pa.OSFile("file.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile("stream.arrow", "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    papq.write_table(table, "file.parquet")
    Path("bad.arrow").write_text("no")
    write_jsonl("e.jsonl", [{"amount": 7}])
    rules("amuont > 0")
    for name in ("file.arrow", "stream.arrow", "file.parquet"):
        assert match("--schema", name) == 2
        assert "did you mean 'amount'" in capsys.readouterr().err
    assert match("--schema", "bad.arrow") == 2
    assert "bad.arrow: not an Arrow file" in capsys.readouterr().err
    assert match("--schema", "absent.json") == 2
    assert "absent.json: no such file" in capsys.readouterr().err
