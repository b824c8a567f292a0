"""`penstock compile`, and `penstock match` with the folder that it wrote."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cold_kernels import Cold
from penstock.cli.main import main
from penstock.matching import arrival
from penstock.matching.arrival import KERNELS

Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")

RULES = [
    {"id": "late", "filter": "delay > 60"},
    {"id": 7, "filter": "origin = 'JFK'"},
    {"id": "late", "filter": "origin = 'EWR'"},
]
EVENTS = [{"delay": 70}, {"origin": "JFK", "delay": 90}, {"origin": "EWR"}, {"origin": "LGA"}]
ANSWER = b'{"event":0,"ids":["late"]}\n{"event":1,"ids":[7,"late"]}\n{"event":2,"ids":["late"]}\n'


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in RULES))
    Path("e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS))


def compile_rules(*more: str, subscriptions: str = "s.jsonl", output: str = "rules") -> int:
    return main(["compile", "--subscriptions", subscriptions, "--output", output, *more])


def match(rules: str = "rules", *more: str) -> int:
    return main(["match", "--subscriptions", rules, "--events", "e.jsonl", *more])


def test_compiled_subscriptions_match_as_those_of_the_file(capsysbinary: Capture) -> None:
    assert match("s.jsonl") == 0
    assert capsysbinary.readouterr() == (ANSWER, b"")
    assert compile_rules() == 0
    size = sum(file.stat().st_size for file in Path("rules").iterdir())
    said = f"rules: 3 filters under 2 ids, {size:,} bytes\n"
    assert capsysbinary.readouterr() == (said.encode(), b"")
    assert match() == 0
    assert match("rules/", "--jobs", "2") == 0
    assert capsysbinary.readouterr() == (2 * ANSWER, b"")


def test_no_subscriptions_can_be_compiled_too(capsysbinary: Capture) -> None:
    Path("s.jsonl").write_text("")
    assert compile_rules() == 0
    assert capsysbinary.readouterr().out.startswith(b"rules: 0 filters under 0 ids, ")
    assert match() == 0
    assert capsysbinary.readouterr() == (b"", b"penstock: warning: no rules in rules\n")


def test_compiling_reads_what_match_reads(monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture) -> None:
    text = b'id,filter\nlate,"[delay,>,60]"\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert compile_rules("--subscriptions-format", "csv", "--from", "padres", subscriptions="-") == 0
    assert capsysbinary.readouterr().out.startswith(b"rules: 1 filter under 1 id, ")
    assert match() == 0
    assert capsysbinary.readouterr().out == b'{"event":0,"ids":["late"]}\n{"event":1,"ids":["late"]}\n'


def test_compiling_again_replaces_what_was_compiled(capsysbinary: Capture) -> None:
    assert compile_rules() == 0
    Path("s.jsonl").write_text('{"id": "only", "filter": "delay = 70"}\n')
    assert compile_rules() == 0
    capsysbinary.readouterr()
    assert match() == 0
    assert capsysbinary.readouterr().out == b'{"event":0,"ids":["only"]}\n'
    Path("s.jsonl").write_text('{"id": "only", "filter": "delay ="}\n')
    assert compile_rules() == 2
    assert capsysbinary.readouterr().err.startswith(b"penstock: s.jsonl:1: column 8: ")
    assert match() == 0
    assert capsysbinary.readouterr().out == b'{"event":0,"ids":["only"]}\n'
    assert {path.name for path in Path().iterdir()} == {"s.jsonl", "e.jsonl", "rules"}


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("rules.csv", b"rules.csv: a folder is written"),
        ("s.jsonl", b"s.jsonl: --output would replace what is read"),
        ("taken", b"taken: there is something else here"),
    ],
)
def test_compiling_onto_something_else_is_refused(output: str, message: bytes, capsysbinary: Capture) -> None:
    Path("taken").mkdir()
    Path("taken/file").write_text("mine")
    assert compile_rules(output=output) == 2
    assert capsysbinary.readouterr().err.startswith(b"penstock: " + message)
    assert Path("taken/file").read_text() == "mine"


def test_what_somebody_put_into_the_folder_stays(capsysbinary: Capture) -> None:
    assert compile_rules() == 0
    Path("rules", "notes.txt").write_text("dear")
    capsysbinary.readouterr()
    assert compile_rules() == 2
    out, said = capsysbinary.readouterr()
    assert out == b""
    assert b"rules: there is something else here ('notes.txt')" in said
    assert Path("rules", "notes.txt").read_text() == "dear"
    assert match() == 0
    assert capsysbinary.readouterr().out == ANSWER


def test_a_folder_that_is_damaged_or_something_else_is_refused(capsysbinary: Capture) -> None:
    Path("empty").mkdir()
    assert match("empty") == 2
    assert capsysbinary.readouterr().err.startswith(b"penstock: empty: no matcher is saved here")
    assert compile_rules() == 0
    capsysbinary.readouterr()
    array = max(Path("rules").glob("*.bin"), key=lambda file: file.stat().st_size)
    content = bytearray(array.read_bytes())
    content[len(content) // 2] ^= 0xFF
    array.write_bytes(content)
    assert match("rules", "--output", "out.jsonl") == 2
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert err.startswith(b"penstock: rules: damaged: ")
    assert not Path("out.jsonl").exists()


def test_a_folder_is_no_file_of_subscriptions(capsysbinary: Capture) -> None:
    assert compile_rules() == 0
    assert match("rules", "--subscriptions-format", "jsonl") == 2
    told = b"penstock: rules: a folder that penstock compile wrote, and no folder of files\n"
    assert capsysbinary.readouterr().err == told
    assert main(["match", "--subscriptions", "s.jsonl", "--events", "rules"]) == 2
    assert capsysbinary.readouterr().err == told


def test_a_family_that_no_event_has_is_noted_with_a_folder_too(capsysbinary: Capture) -> None:
    assert compile_rules() == 0
    capsysbinary.readouterr()
    assert match("rules", "--family", "dely=number") == 0
    out, err = capsysbinary.readouterr()
    assert out == ANSWER
    assert err.decode() == "penstock: warning: --family dely=…: no event has the attribute 'dely'\n"


def test_families_that_cannot_meet_are_noted_with_a_folder_as_with_the_file(capsysbinary: Capture) -> None:
    rules = [
        {"id": "a", "filter": "delay > 60 and up = true"},
        {
            "id": "b",
            "filter": "origin like '%F%' and at > timestamp '2013-01-01T00:00:00Z' and there is null",
        },
        {"id": "c", "filter": "origin = 'JFK' or delay in (1, 2, 5) or code is not null or up != false"},
    ]
    events = [{"delay": "70", "origin": 5, "at": "yesterday", "up": True, "there": 1, "code": "x"}]
    Path("s.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    Path("e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert compile_rules() == 0
    capsysbinary.readouterr()
    said = []
    for source in ("s.jsonl", "rules"):
        assert match(source, "--family", "dely=number", "--family", "there=number") == 0
        said.append(capsysbinary.readouterr())
    assert said[0] == said[1]
    notes = said[1].err.decode().splitlines()
    assert [line.split("'")[1] for line in notes] == ["dely", "at", "delay", "origin"]


def test_a_folder_has_no_language(capsysbinary: Capture) -> None:
    assert compile_rules() == 0
    capsysbinary.readouterr()
    assert match("rules", "--from", "sql") == 2
    assert capsysbinary.readouterr() == (
        b"",
        b"penstock: --from sql: rules is compiled, and has no language\n",
    )
    assert match("s.jsonl", "--from", "sql") == 0


def test_what_is_not_there_is_said_not_to_be_there(capsysbinary: Capture) -> None:
    for command in (
        ["match", "--subscriptions", "nowhere", "--events", "e.jsonl"],
        ["match", "--subscriptions", "s.jsonl", "--events", "nowhere"],
        ["compile", "--subscriptions", "nowhere", "--output", "rules"],
    ):
        assert main(command) == 2
        assert capsysbinary.readouterr().err == b"penstock: nowhere: no such file or folder\n"


def test_a_folder_is_not_compiled_again(capsysbinary: Capture) -> None:
    assert compile_rules() == 0
    assert compile_rules(subscriptions="rules", output="again") == 2
    assert b"rules: a folder; subscriptions are compiled from a file" in capsysbinary.readouterr().err


@pytest.fixture
def _cold() -> Iterator[None]:
    """There are no kernels; what a process says once, it has not said."""
    assert KERNELS.wait()
    arrival._told.clear()
    with Cold():
        yield


@pytest.mark.usefixtures("_cold")
def test_who_waits_for_kernels_is_told_so(capsysbinary: Capture) -> None:
    note = (
        b"penstock: note: compiling kernels, which takes about half a minute; later runs find them on disk\n"
    )
    assert compile_rules() == 0
    assert capsysbinary.readouterr().err == note
    assert compile_rules(output="again") == 0
    assert capsysbinary.readouterr().err == b""


@pytest.mark.usefixtures("_cold")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_interpreter_answers_meanwhile_and_a_terminal_is_told_so(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setattr(arrival, "is_on_terminal", lambda: is_terminal)
    assert match("s.jsonl") == 0
    cold = capsysbinary.readouterr()
    note = b"penstock: note: kernels are being compiled in the background; until then "
    assert cold.err.startswith(note) if is_terminal else cold.err == b""
    assert cold.err.count(b"\n") == is_terminal
    KERNELS.are_here = True
    assert match("s.jsonl") == 0
    assert capsysbinary.readouterr().out == cold.out != b""


@pytest.mark.usefixtures("_cold")
def test_mistakes_are_told_before_kernels_are_spoken_of(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setattr(arrival, "is_on_terminal", lambda: True)
    Path("s.jsonl").write_text('{"id": "only", "filter": "delay ="}\n')
    assert match("s.jsonl") == 2
    assert capsysbinary.readouterr().err.startswith(b"penstock: s.jsonl:1: column 8: ")
