"""`penstock why`: each condition of a rule, and what the event has there."""

import io
import json
from pathlib import Path

import pytest

from penstock.cli.main import main

Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = [
        {"id": "late", "filter": "dep_delay > 60 and origin = 'JFK'"},
        {"id": "late", "filter": "dest in ('LAX', 'SFO') or x > 1"},
        {"id": "broken", "filter": "x > "},
        {"id": 10, "filter": "x > 1"},
        {"id": "never", "filter": "x > 5 and x < 3"},
    ]
    Path("r.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))


def why(capture: Capture, *arguments: str, rules: str = "r.jsonl") -> str:
    assert main(["why", *arguments, "--subscriptions", rules]) == 0
    out, err = capture.readouterr()
    assert err == b""
    return out.decode()


def test_each_condition_is_told_with_what_the_event_has(capsysbinary: Capture) -> None:
    # A rule that cannot be read stands between: only those of the id are read.
    assert why(capsysbinary, "late", '{"Dep_delay": 70, "origin": 5}') == (
        "late does not match\n"
        "r.jsonl:1: dep_delay > 60 and origin = 'JFK'\n"
        "  no   dep_delay > 60  dep_delay is missing; the event has Dep_delay\n"
        "  no   origin = 'JFK'  origin is 5, a number; the rule wants a string\n"
        "or r.jsonl:2: dest in ('LAX', 'SFO')\n"
        "  no   dest in ('LAX', 'SFO')  dest is missing\n"
        "or r.jsonl:2: x > 1\n"
        "  no   x > 1  x is missing\n"
    )
    assert why(capsysbinary, "10", '{"x": 2}') == ("10 matches\nr.jsonl:4: x > 1\n  yes  x > 1  x is 2\n")
    assert why(capsysbinary, "never", '{"x": 4}') == (
        "never does not match\n"
        "r.jsonl:5: false\n"
        "  no   no event can match: its conditions exclude each other\n"
    )


def test_json_says_the_same(capsysbinary: Capture) -> None:
    assert json.loads(why(capsysbinary, "10", '{"x": 1}', "--json")) == {
        "id": 10,
        "matches": False,
        "alternatives": [
            {
                "file": "r.jsonl",
                "line": 4,
                "filter": "x > 1",
                "matches": False,
                "conditions": [{"condition": "x > 1", "holds": False, "found": "x is 1"}],
            }
        ],
    }


def test_compiled_rules_are_told_of_too(capsysbinary: Capture) -> None:
    Path("s.csv").write_text("id,filter\n10,x > 1\na,at > date '2024-01-01'\n")
    assert main(["compile", "--subscriptions", "s.csv", "--output", "rules"]) == 0
    capsysbinary.readouterr()
    assert why(capsysbinary, "10", '{"x": 2}', rules="rules") == "10 matches\nx > 1\n  yes  x > 1  x is 2\n"
    told = why(capsysbinary, "a", '{"at": "2024-05-01"}', "--family", "at=time", rules="rules")
    assert told.startswith("a matches\n")


def test_the_event_may_be_standard_input(capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"x": 2}\n')))
    assert why(capsysbinary, "10", "-").startswith("10 matches\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone", '{"x": 1}'], "no rule has the id 'gone'"),
        (["late", '{"x": }'], "EVENT: not a JSON object"),
        (["late", "[1]"], "EVENT: an event is a JSON object, not an array"),
        (["broken", '{"x": 1}'], "r.jsonl:3: column 5: expected a value"),
        (["late", '{"x": 1}', "--family", "x"], "--family 'x': write NAME=FAMILY"),
    ],
)
def test_what_cannot_be_told_is_refused(arguments: list[str], message: str, capsysbinary: Capture) -> None:
    assert main(["why", *arguments, "--subscriptions", "r.jsonl"]) == 2
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert err.decode().startswith(f"penstock: {message}")


def test_an_integer_and_a_text_that_look_alike_are_two_rules(capsysbinary: Capture) -> None:
    rules = [{"id": 7, "filter": "x > 1"}, {"id": "7", "filter": "y = 2"}, {"id": 7, "filter": "x < 0"}]
    Path("s.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    assert why(capsysbinary, "7", '{"x": 2}', rules="s.jsonl") == (
        "7 matches\n"
        "s.jsonl:1: x > 1\n"
        "  yes  x > 1  x is 2\n"
        "or s.jsonl:3: x < 0\n"
        "  no   x < 0  x is 2\n"
        "'7' does not match\n"
        "s.jsonl:2: y = 2\n"
        "  no   y = 2  y is missing\n"
    )
    told = json.loads(why(capsysbinary, "7", '{"x": 2}', "--json", rules="s.jsonl"))
    assert [(one["id"], one["matches"]) for one in told["alternatives"]] == [
        (7, True),
        ("7", False),
        (7, False),
    ]


def test_text_is_a_time_where_matching_reads_it_as_one(capsysbinary: Capture) -> None:
    event = '{"at": "2024-05-05"}'
    late = {"id": "late", "filter": "at > timestamp '2024-01-01'"}
    Path("late.jsonl").write_text(json.dumps(late) + "\n")
    assert main(["compile", "--subscriptions", "late.jsonl", "--output", "late"]) == 0
    capsysbinary.readouterr()
    assert "late matches" in why(capsysbinary, "late", event, rules="late.jsonl")
    assert "late matches" in why(capsysbinary, "late", event, rules="late")
    assert "does not match" in why(capsysbinary, "late", event, "--family", "at=string", rules="late.jsonl")
    # Another rule compares it with a string: then it is text, unless a schema says something else.
    other = {"id": "open", "filter": "at = 'not yet'"}
    Path("both.jsonl").write_text(json.dumps(late) + "\n" + json.dumps(other) + "\n")
    said = why(capsysbinary, "late", event, rules="both.jsonl")
    assert "does not match" in said
    because = (
        "at is '2024-05-05', a string; the rule wants a time, as which it is not read because of rule open "
        "(at = 'not yet')"
    )
    assert because in said
    assert main(["compile", "--subscriptions", "both.jsonl", "--output", "both"]) == 0
    capsysbinary.readouterr()
    assert because in why(capsysbinary, "late", event, rules="both")
    itself = {"id": "itself", "filter": "at > timestamp '2024-01-01' or at = 'soon'"}
    Path("itself.jsonl").write_text(json.dumps(itself) + "\n")
    assert "because of rule itself (at = 'soon')" in why(capsysbinary, "itself", event, rules="itself.jsonl")
    # Other text would not be a time anyway.
    assert "because" not in why(capsysbinary, "late", '{"at": "soon"}', rules="both.jsonl")
    assert "because" not in why(capsysbinary, "late", event, "--family", "at=string", rules="both.jsonl")
    schema = {"properties": {"at": {"type": "string", "format": "date-time"}}}
    Path("schema.json").write_text(json.dumps(schema))
    said = why(capsysbinary, "late", event, "--schema", "schema.json", rules="both.jsonl")
    assert "late matches" in said
    assert main(["compile", "--subscriptions", "both.jsonl", "--output", "both"]) == 0
    capsysbinary.readouterr()
    assert "does not match" in why(capsysbinary, "late", event, rules="both")
    assert "late matches" in why(capsysbinary, "late", event, "--schema", "schema.json", rules="both")
