"""`penstock lint`: every finding with its file and line, in three formats, with a status for CI."""

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from penstock.cli.main import main
from penstock.matching.linting import CHECKS

Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")

# What SARIF 2.1.0 demands of the parts that are written (OASIS, sections 3.13 to 3.30).
_TEXT = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"]}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "message": _TEXT,
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "additionalProperties": False,
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "format": "uri-reference", "minLength": 1}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "properties": {"startLine": {"type": "integer", "minimum": 1}},
                },
            },
        },
    },
}
_RULE = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "shortDescription": _TEXT,
        "defaultConfiguration": {"type": "object", "properties": {"level": _LEVEL}},
    },
}
_RESULT = {
    "type": "object",
    "required": ["message"],
    "additionalProperties": False,
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": _LEVEL,
        "message": _TEXT,
        "locations": {"type": "array", "items": _LOCATION},
        "relatedLocations": {"type": "array", "items": _LOCATION},
    },
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {"type": "array", "items": _RULE},
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": _RESULT},
                },
            },
        },
    },
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, *rules: dict[str, Any] | str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    lines = [rule if isinstance(rule, str) else json.dumps(rule) for rule in rules]
    Path(name).write_text("".join(line + "\n" for line in lines))


def rule(key: str | int, text: str) -> dict[str, Any]:
    return {"id": key, "filter": text}


def lint(capture: Capture, *arguments: str) -> tuple[int, str]:
    status = main(["lint", *arguments])
    out, _err = capture.readouterr()
    return status, out.decode()


def findings(capture: Capture, *arguments: str) -> list[dict[str, Any]]:
    _status, out = lint(capture, *arguments, "--format", "json")
    found: list[dict[str, Any]] = json.loads(out)["findings"]
    return found


BAD = (
    rule("late", "delay > 60"),
    rule("late", "delay >"),
    "nope",
    "",
    rule("never", "delay > 9 and delay < 3"),
    rule("again", "delay > 10 and delay > 60"),
    rule("", "delay > 1"),
    rule("later", "delay > 90"),
    rule("late", "origin = 'JFK'"),
    '{"id": "x"}',
)


def test_all_that_is_wrong_is_told_at_once_with_its_line(capsysbinary: Capture) -> None:
    put("r.jsonl", *BAD)
    status, out = lint(capsysbinary, "r.jsonl")
    assert status == 1
    assert out == (
        "r.jsonl:2: error: late: column 8: expected a value (a number, 'text', true, false or timestamp "
        "'…'), found the end of the text: delay >⟨here⟩ [invalid]\n"
        "r.jsonl:3: error: not a JSON object: JSON is malformed: invalid character (byte 4) [invalid]\n"
        "r.jsonl:5: error: never: no event can match: its conditions exclude each other [never-matches]\n"
        "r.jsonl:6: warning: again: rule 'late' says the same (r.jsonl:1) [duplicate]\n"
        "r.jsonl:7: error: an id is empty [invalid]\n"
        "r.jsonl:8: note: later: rule 'late' matches all events that this rule matches (r.jsonl:1) "
        "[covered]\n"
        "r.jsonl:9: note: late: an alternative to an earlier rule with this id (r.jsonl:1) [repeated-id]\n"
        "r.jsonl:10: error: x: missing required field 'filter' [invalid]\n"
        "9 rules: 5 errors, 1 warning, 2 notes\n"
    )


def test_rules_in_which_nothing_is_found_pass(capsysbinary: Capture) -> None:
    put("r.jsonl", rule("a", "x > 1"), rule("b", "x < 1"))
    assert lint(capsysbinary, "r.jsonl") == (0, "2 rules: nothing found\n")
    put("e.jsonl")
    assert lint(capsysbinary, "e.jsonl", "--fail-on", "note") == (0, "0 rules: nothing found\n")


@pytest.mark.parametrize(
    ("text", "gravest"),
    [("x > 1 and x < 0", "error"), ("x > 1 or x is not null or x is null", "warning"), ("x > 5", "note")],
)
def test_the_status_says_whether_something_so_grave_was_found(
    text: str, gravest: str, capsysbinary: Capture
) -> None:
    put("r.jsonl", rule("a", "x > 1" if gravest == "note" else "y = 1"), rule("b", text))
    if gravest == "warning":
        put("r.jsonl", rule("b", text))
    levels = ["error", "warning", "note"]
    for level in levels:
        expected = int(levels.index(gravest) <= levels.index(level))
        assert lint(capsysbinary, "r.jsonl", "--fail-on", level)[0] == expected
    assert lint(capsysbinary, "r.jsonl")[0] == int(gravest != "note")
    assert lint(capsysbinary, "r.jsonl", "--fail-on", "never")[0] == 0


def test_rules_of_several_files_are_held_against_each_other(capsysbinary: Capture) -> None:
    put("a/r.jsonl", rule("a", "x > 1"))
    Path("a/s.csv").write_text("id,filter\n\nb,x > 1\nc,x >\n7,y = 1\n")
    papq.write_table(pa.table({"id": ["d", "e"], "filter": ["z = 1", "y = "]}), "a/t.parquet")
    Path("a/u.jsonl.gz").write_bytes(gzip.compress(b'{"id": "f", "filter": "x > 2"}\n'))
    told = [
        (one["check"], one["file"], one.get("line"), one.get("row"), one.get("other"))
        for one in findings(capsysbinary, "a")
    ]
    assert told == [
        ("duplicate", "a/s.csv", 3, None, {"file": "a/r.jsonl", "line": 1}),
        ("invalid", "a/s.csv", 4, None, None),
        ("invalid", "a/t.parquet", None, 1, None),
        ("covered", "a/u.jsonl.gz", 1, None, {"file": "a/r.jsonl", "line": 1}),
    ]


def test_a_rule_that_cannot_be_read_is_told_with_its_id(capsysbinary: Capture) -> None:
    put(
        "r.jsonl",
        rule("late", "delay >"),
        '{"id": 7, "filter": 5}',
        '{"filter": "x >"}',
        "nope",
        rule("", "x >"),
    )
    Path("s.csv").write_text("filter,id\nx >,a\nx > 1\n")
    papq.write_table(pa.table({"id": [8], "filter": ["x >"]}), "t.parquet")
    _status, out = lint(capsysbinary, "r.jsonl", "s.csv", "t.parquet", "--format", "json")
    ids = [one["id"] for one in json.loads(out)["findings"] if one["check"] == "invalid"]
    assert ids == ["late", 7, None, None, None, "a", None, 8]


def test_what_an_alternative_hides_is_told(capsysbinary: Capture) -> None:
    put("r.jsonl", rule("a", "(x > 1 and x < 0) or y = 2"), rule("b", "z = 1 or z = 2"))
    _status, out = lint(capsysbinary, "r.jsonl")
    assert out == (
        "r.jsonl:1: warning: a: no event can match the alternative x > 1 and x < 0 [dead-alternative]\n"
        "2 rules: 1 warning\n"
    )


BAD_FILES: list[tuple[str, bytes, list[tuple[int | None, str]], int]] = [
    ("b.csv", b"", [(1, "a header with the columns id and filter")], 0),
    ("b.csv", b"id,text\na,b\n", [(1, "a column 'filter' is missing")], 0),
    ("b.csv", b"id,filter\na\nb,x > 1\n", [(2, "2 fields were expected, found 1")], 1),
    ("b.csv", b'id,filter\na,"x > 1"y\nb,x > 1\n', [(2, "not CSV")], 1),
    ("b.csv", b'id,filter\nb,x > 1\na,"x > 1\nc,x > 1\n', [(3, "not CSV: unexpected end")], 1),
    ("b.csv", b"id,filter\na,x = '\xff'\nb,x > 1\n\xff\n", [(2, "not UTF-8"), (4, "not UTF-8")], 1),
    (
        "b.jsonl",
        b'{"id": 1, "filter": "x = \'\xff\'"}\n{"id": 2, "filter": 5}\n{"id": 3, "filter": "x > 1"}\n',
        [(1, "not a JSON object"), (2, "a filter is text")],
        1,
    ),
    ("b.parquet", b"nope", [(None, "not Parquet")], 0),
    ("b.jsonl.gz", b"nope", [(None, "not gzip, or damaged")], 0),
]


@pytest.mark.parametrize(("name", "content", "told", "good"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_reading_goes_on_behind_what_cannot_be_read(
    name: str, content: bytes, told: list[tuple[int | None, str]], good: int, capsysbinary: Capture
) -> None:
    Path(name).write_bytes(content)
    put("c.jsonl", rule("z", "y = 1"))
    status, out = lint(capsysbinary, name, "c.jsonl", "--format", "json")
    report = json.loads(out)
    assert status == 1
    found = report["findings"]
    assert [(one.get("line"), one["check"], one["file"]) for one in found] == [
        (line, "invalid", name) for line, _message in told
    ]
    for one, (_line, message) in zip(found, told, strict=True):
        assert one["message"].startswith(message)
    assert report["rules"] == good + 1 + len(told)
    assert report["counts"] == {"error": len(told), "warning": 0, "note": 0}


def test_rows_of_parquet_that_are_no_text_are_told_of(capsysbinary: Capture) -> None:
    papq.write_table(pa.table({"id": [1, None, 3], "filter": ["x > 1", "x > 1", None]}), "b.parquet")
    found = findings(capsysbinary, "b.parquet")
    assert [(one["row"], one["message"]) for one in found] == [
        (1, "an id is text or an integer, not NoneType"),
        (2, "a filter is text, not null"),
    ]


def test_sarif_is_as_its_standard_says(capsysbinary: Capture) -> None:
    put("my rules/r.jsonl", *BAD)
    papq.write_table(pa.table({"id": ["d"], "filter": ["x ="]}), "t.parquet")
    absolute = str(Path("t.parquet").resolve())
    _status, out = lint(capsysbinary, "my rules", absolute, "--format", "sarif")
    report = json.loads(out)
    jsonschema.validate(report, SARIF)
    (run,) = report["runs"]
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == list(CHECKS)
    results = run["results"]
    assert len(results) == 9
    for one in results:
        known = run["tool"]["driver"]["rules"][one["ruleIndex"]]
        assert known["id"] == one["ruleId"]
        assert known["defaultConfiguration"]["level"] == one["level"]
    place = results[3]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "my%20rules/r.jsonl"}, "region": {"startLine": 6}}
    assert results[3]["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 1}
    last = results[8]["locations"][0]["physicalLocation"]
    assert last == {"artifactLocation": {"uri": Path(absolute).as_uri()}}
    assert results[8]["message"]["text"].endswith("(row 0)")


SCHEMA = {"properties": {"amount": {"type": "number"}}, "additionalProperties": False}


def test_attributes_are_held_against_a_schema_of_either_kind(capsysbinary: Capture) -> None:
    put("r.jsonl", rule("a", "amuont > 1"), rule("b", "amount > 1"), rule("c", "amount = 'x'"))
    Path("s.json").write_text(json.dumps(SCHEMA))
    papq.write_table(pa.table({"amount": [1.5]}), "s.parquet")
    for schema in ("s.json", "s.parquet"):
        found = findings(capsysbinary, "r.jsonl", "--schema", schema)
        assert [(one["check"], one["line"]) for one in found] == [("unknown-attribute", 1), ("wrong-type", 3)]
        assert found[0]["message"] == "the schema has no attribute 'amuont'; did you mean 'amount'?"


def test_elements_of_lists_are_held_against_a_schema_of_either_kind(capsysbinary: Capture) -> None:
    put(
        "r.jsonl",
        rule("a", "any(items where skuu = 'x')"),
        rule("b", "any(items where sku = 'x' and qty > 1)"),
        rule("c", "any(items where qty = 'x') or 'a' in tags"),
    )
    events = [{"items": [{"sku": "x", "qty": 1}], "tags": ["a"]}]
    put("events.jsonl", *map(json.dumps, events))
    assert main(["schema", "infer", "events.jsonl", "--output", "s.json"]) == 0
    papq.write_table(pa.Table.from_pylist(events), "s.parquet")
    for schema in ("s.json", "s.parquet"):
        found = findings(capsysbinary, "r.jsonl", "--schema", schema)
        assert [(one["check"], one["line"]) for one in found] == [("unknown-attribute", 1), ("wrong-type", 3)]
        said = "the schema has no attribute 'items[].skuu'; did you mean 'items[].sku'?"
        assert found[0]["message"] == said
        assert "compares 'items[].qty' with a string, but in the schema it is" in found[1]["message"]


@pytest.mark.parametrize("kind", ["text", "json", "sarif"])
def test_output_is_written_into_a_file(kind: str, capsysbinary: Capture) -> None:
    put("r.jsonl", *BAD)
    _status, expected = lint(capsysbinary, "r.jsonl", "--format", kind)
    assert main(["lint", "r.jsonl", "--format", kind, "--output", "o.txt"]) == 1
    assert capsysbinary.readouterr() == (b"", b"9 rules: 5 errors, 1 warning, 2 notes\n")
    assert Path("o.txt").read_text() == expected


def test_what_rules_are_called_does_not_command_a_terminal(capsysbinary: Capture) -> None:
    put("r.jsonl", rule("\x1b[31mred\n\x07", "x > 1 and x < 0"))
    _status, out = lint(capsysbinary, "r.jsonl")
    assert "\x1b" not in out
    assert out.count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.jsonl"], "gone.jsonl: no such file or directory"),
        (["r.txt"], "r.txt: no such file or folder"),
        (["r.jsonl", "--schema", "gone.json"], "gone.json: no such file or directory"),
        (["r.jsonl", "--schema", "r.jsonl"], "r.jsonl: "),
        (["r.jsonl", "--output", "r.jsonl"], "r.jsonl: --output would replace what is read"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: list[str], message: str, capsysbinary: Capture) -> None:
    put("r.jsonl", rule("a", "x > 1"))
    assert main(["lint", *arguments]) == 2
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert err.decode().startswith(f"penstock: {message}")


def test_rules_come_from_standard_input_and_in_other_languages(
    capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("r.jsonl", rule("a", "[x,>,5],[x,<,3]"))
    with Path("r.jsonl").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        status, out = lint(capsysbinary, "-", "--from", "padres")
    assert status == 1
    assert out.startswith("standard input:1: error: a: no event can match")
