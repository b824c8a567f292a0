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
    assert (
        "1 of 2 events has a string in 'x', such as 'n/a', but in the schema it is number; rule r0 (x = 1)"
        in err
    )
    assert "events have 'y', which the schema does not list" in err
    assert match("--schema", "schema.json", "--strict") == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_strict_looks_at_every_event(kind: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.chunks.BYTES", 1 << 14)
    Path("schema.json").write_text(
        '{"properties": {"x": {"type": "number"}, "word": {"type": "string"}, '
        '"at": {"type": "string", "format": "date-time"}, "order": {"properties": {"price": {}}}}}'
    )
    many, at = 5_000, ["2024-01-02"] * 5_000
    columns: dict[str, list[Any]] = {"x": [1] * many, "word": ["a"] * many, "at": at}
    rules("x = 1")

    def write() -> None:
        if kind == "parquet":
            papq.write_table(pa.table(columns), "e.parquet")
            return
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if kind == "jsonl":
            write_jsonl("e.jsonl", [{n: v for n, v in row.items() if v is not None} for row in rows])
        else:
            lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
            Path("e.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")

    name = f"e.{kind}"
    write()
    for more in ([], ["--jobs", "3"]):
        assert match("--schema", "schema.json", "--strict", *more, events=name) == 0
    capsys.readouterr()
    # In one event, far from any sample; rules name neither.
    columns["other"] = [None] * 4_000 + ["here"] + [None] * 999
    at[4_500] = "soon"
    write()
    for more in ([], ["--jobs", "3"]):
        assert match("--schema", "schema.json", "--strict", *more, events=name) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "has a string in 'at', such as 'soon', but in the schema it is a time (date-time)" in err
        assert "1 of 5,000 events " in err
        assert "events have 'other', which the schema does not list" in err
        assert len(err.splitlines()) == 3
    assert match("--schema", "schema.json", events=name) == 0


def test_strict_takes_empty_records_lists_and_large_numbers_for_what_they_are(capsys: Capture) -> None:
    schema = {"order": {"type": "object", "properties": {"n": {"type": "number"}}}, "x": {"type": "integer"}}
    Path("schema.json").write_text(json.dumps({"properties": {**schema, "tags": {"type": "array"}}}))
    rules("x = 1")
    good: list[dict[str, Any]] = [
        {"x": 1, "order": {}},
        {"order": None, "tags": [1]},
        {"order": {"n": 10**30}, "tags": None},
    ]
    write_jsonl("e.jsonl", good)
    assert match("--schema", "schema.json", "--strict") == 0
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"order": 5}, "events have 'order', which the schema does not list"),
        (
            {"order": {"n": [1]}},
            "1 of 4 events has a list in 'order.n', such as [1], but in the schema it is number",
        ),
        ({"tagz": None}, "events have 'tagz', which the schema does not list; did you mean 'tags'?"),
    ]
    for bad, what in wrong:
        write_jsonl("e.jsonl", [*good, bad])
        assert match("--schema", "schema.json", "--strict") == 2
        assert what in capsys.readouterr().err


def test_a_schema_says_which_texts_are_times_whatever_the_events_come_in(capsys: Capture) -> None:
    Path("schema.json").write_text(
        '{"properties": {"id": {"type": "number"}, "at": {"type": "string", "format": "date-time"}, '
        '"tags": {"type": "array"}}}'
    )
    rules("at >= timestamp '2024-01-02T00:00:00Z' or at = 'never'")
    at = ["2024-01-01", "2024-01-02", "soon", None]
    write_jsonl("e.jsonl", [{"id": n, "at": one, "tags": [1]} for n, one in enumerate(at)])
    Path("e.csv").write_text("id,at\n" + "".join(f"{n},{one or ''}\n" for n, one in enumerate(at)))
    papq.write_table(pa.table({"id": [0, 1, 2, 3], "at": at}), "e.parquet")
    assert main(["compile", "--subscriptions", "s.jsonl", "--schema", "schema.json", "--output", "c"]) == 0
    capsys.readouterr()
    for name in ("e.jsonl", "e.csv", "e.parquet"):
        # Text that is no time is a warning, and lists that nobody names are nothing.
        assert match("--schema", "schema.json", events=name) == 0
        out, err = capsys.readouterr()
        assert out == '{"event":1,"ids":["r0"]}\n'
        assert "1 of 4 events has a string in 'at', such as 'soon', but in the schema it is a time" in err
        assert match("--schema", "schema.json", "--strict", events=name) == 2
        # A folder keeps what the schema said.
        capsys.readouterr()
        assert main(["match", "--subscriptions", "c", "--events", name]) == 0
        assert capsys.readouterr().out == '{"event":1,"ids":["r0"]}\n'
        # What somebody says of an attribute goes first.
        assert match("--family", "at=string", "--unsupported", "skip", events=name) == 0
        assert capsys.readouterr().out == ""


def test_rules_say_which_texts_are_times_without_a_schema(capsys: Capture) -> None:
    write_jsonl("e.jsonl", [{"at": "2024-01-02"}])
    papq.write_table(pa.table({"at": ["2024-01-02"]}), "e.parquet")
    for name in ("e.jsonl", "e.parquet"):
        rules("at >= timestamp '2024-01-02T00:00:00Z'")
        assert match("--strict", events=name) == 0
        assert capsys.readouterr().out == '{"event":0,"ids":["r0"]}\n'
        assert match("--family", "at=string", events=name) == 0
        assert capsys.readouterr().out == ""
        rules("at >= timestamp '2024-01-02T00:00:00Z'", "at = 'soon'")
        assert match(events=name) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert "1 rule (r0) compares 'at' with a time, and rules compare it with a string, too" in err


def test_a_rule_on_a_record_is_told_what_the_record_has(capsys: Capture) -> None:
    Path("schema.json").write_text(
        '{"properties": {"order": {"properties": {"price": {}, "id": {}}}}, "additionalProperties": true}'
    )
    write_jsonl("e.jsonl", [{"order": {"price": 5, "id": 1}}])
    rules("order = 5 or order is null")
    assert match() == 0
    said = "'order', which 1 rule (r0) names, is a record; it has order.id, order.price"
    assert said in capsys.readouterr().err
    Path("closed.json").write_text(
        '{"properties": {"order": {"properties": {"price": {}, "id": {}}, "additionalProperties": false}}}'
    )
    assert match("--schema", "closed.json") == 2
    assert said in capsys.readouterr().err
    lint = ["lint", "s.jsonl", "--schema", "closed.json"]
    assert main(lint) == 1
    assert "'order' is a record; it has order.id, order.price" in capsys.readouterr().out


def test_an_attribute_that_is_null_in_all_events_is_reported(capsys: Capture) -> None:
    write_jsonl("e.jsonl", [{"x": 1, "at": None}] * 3)
    rules("x = 1 or at is null", "at is null", "at > 5 or x = 1", "at is not null")
    assert match() == 0
    assert "'at', which 2 rules (r2, r3) name, is null in all 3 events" in capsys.readouterr().err


def test_a_column_that_no_rule_can_match_is_refused_where_a_rule_names_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = pa.array([{"raw": b"x", "y": 7}], pa.struct([("raw", pa.binary()), ("y", pa.int64())]))
    odd = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    table = pa.table(
        {"x": [1], "blob": [b"x"], "odd": odd, "inner": inner, "no": pa.array([None], pa.binary())}
    )
    papq.write_table(table, "e.parquet")
    rules("x = 1 and inner.y = 7", "no is null")
    # Also where rows are read one by one.
    for more in ([], ["--family", "x=number"], ["--unsupported", "skip"]):
        assert match(*more, events="e.parquet") == 0
        assert capsys.readouterr().out == '{"event":0,"ids":["r0","r1"]}\n'

    def read(*_given: object) -> None:
        raise AssertionError("rows are read")

    monkeypatch.setattr("penstock.cli.chunks.parquet_batches", read)
    for name in ("blob", "odd", "inner.raw"):
        rules("x = 1", f"x = 2 or {name} = 'x'", "not a rule, and never read")
        assert match(events="e.parquet") == 2
        err = capsys.readouterr().err
        assert f"e.parquet: the column '{name}' of type" in err
        assert "--unsupported skip" in err
    rules("blob is null")
    assert main(["compile", "--subscriptions", "s.jsonl", "--output", "rules"]) == 0
    capsys.readouterr()
    assert main(["match", "--subscriptions", "rules", "--events", "e.parquet"]) == 2
    assert "the column 'blob' of type binary" in capsys.readouterr().err


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


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_values_that_the_schema_does_not_list_are_reported_once_each(kind: str, capsys: Capture) -> None:
    properties = {"status": {"enum": ["open", "closed", None]}, "v": {"const": 2}, "other": {"enum": ["a"]}}
    Path("schema.json").write_text(json.dumps({"properties": properties}))
    rows = [{"status": "open", "v": 2, "other": "a"}] * 900
    rows += [{"status": "opne", "v": 3, "other": "b"}] * 2
    if kind == "jsonl":
        write_jsonl("e.jsonl", rows)
    elif kind == "parquet":
        papq.write_table(pa.Table.from_pylist(rows), "e.parquet")
    else:
        Path("e.csv").write_text(
            "status,v,other\n" + "".join(f"{r['status']},{r['v']},{r['other']}\n" for r in rows)
        )
    rules("status = 'open' and v > 1")
    assert match("--schema", "schema.json", "--strict", events=f"e.{kind}") == 2
    *said, last = capsys.readouterr().err.splitlines()
    rule = "rule r0 (status = 'open' and v > 1) names it"
    assert said == [
        "penstock: warning: 2 of 902 events have a string in 'other', such as 'b', but the schema lists 'a'",
        "penstock: warning: 2 of 902 events have a string in 'status', such as 'opne', but the schema lists "
        f"'closed', 'open'; {rule}",
        f"penstock: warning: 2 of 902 events have a number in 'v', such as 3, but the schema lists 2; {rule}",
    ]
    assert "disagree in 3 ways" in last
    # Else a few hundred events are looked at, of what rules name.
    assert match("--schema", "schema.json", events=f"e.{kind}") == 0
    said = capsys.readouterr().err.splitlines()
    assert ["in 'status', such as 'opne', but the schema lists" in line for line in said] == [True, False]
    assert "in 'v', such as 3, but the schema lists 2; rule r0" in said[1]
