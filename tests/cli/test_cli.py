"""The program: commands on filters, help, and how it starts and ends."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import __version__, parse
from penstock.cli.main import main

PROGRAM = Path(sys.executable).with_name("penstock")
Capture = pytest.CaptureFixture[bytes]


def run(capture: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capture.readouterr()
    return status, out.decode(), err.decode()


def stopped(capture: Capture, *arguments: str) -> tuple[int, str, str]:
    """Run what argparse itself ends: help, version, wrong arguments."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capture.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, out.decode(), err.decode()


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["parse", "not (price <= 10 or symbol != 'ACME')"], "price > 10 and symbol = 'ACME'"),
        (["parse", "[class,eq,'STOCK'],[price,<,20]", "--from", "padres"], "class = 'STOCK' and price < 20"),
        (["parse", "price < 20 and class = 'STOCK'", "--to", "padres"], "[class,eq,'STOCK'],[price,<,20]"),
        (["parse", '{"attribute": "x", "op": ">", "value": 1}', "--from", "json"], "x > 1"),
        (["parse", "größe = 'ß'"], "größe = 'ß'"),
        (["covers", "price > 10", "price > 20"], "true"),
        (["covers", "price > 20", "price > 10"], "false"),
        (["covers", "[x,>,1]", "[x,>,2]", "--from", "padres"], "true"),
        (["overlaps", "a > 1", "b = 2"], "true"),
        (["overlaps", "a > 1", "a < 1"], "false"),
        (["identical", "price < 300 or price > 400", "price not between 300 and 400"], "true"),
        (["identical", "x > 1", "x >= 1"], "false"),
        (["merge", "price between 50 and 100", "price between 90 and 120"], "price between 50 and 120"),
        (["merge", "x = 1"], "x = 1"),
    ],
)
def test_a_command_prints_its_answer(arguments: list[str], printed: str, capsysbinary: Capture) -> None:
    assert run(capsysbinary, *arguments) == (0, printed + "\n", "")


def test_parse_prints_json_that_says_the_same(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "parse", "x in (1, 2) or y is null", "--to", "json")
    assert (status, err) == (0, "")
    assert parse(json.loads(out), "json") == parse("x in (1, 2) or y is null")


def test_parse_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n größe > 1\n".encode())))
    assert run(capsysbinary, "parse", "-") == (0, "größe > 1\n", "")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x = '\xff'")))
    status, out, err = run(capsysbinary, "parse", "-")
    assert (status, out) == (2, "")
    assert err.startswith("penstock: standard input is not UTF-8")


def test_an_imperfect_merger_is_told_on_standard_error(capsysbinary: Capture) -> None:
    arguments = ("merge", "x = 1 and y = 1", "x = 2 and y = 2", "--budget", "0.5")
    status, out, err = run(capsysbinary, *arguments)
    assert (status, out) == (0, "x in (1, 2) and y in (1, 2)\n")
    assert err.startswith("imperfect: about 50.0 %")
    status, out, err = run(capsysbinary, *arguments, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {"predicate": "x in (1, 2) and y in (1, 2)", "perfect": False, "excess": 0.5}


def test_schema_prints_a_json_schema(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "schema")
    assert (status, err) == (0, "")
    assert json.loads(out)["$schema"].startswith("https://json-schema.org/")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parse", "x >"], "column 4: expected a value"),
        (["parse", ""], "column 1: expected a condition"),
        (["parse", "x =\n\n'"], "line 3, column 1: expected a closing '"),
        (["parse", "x in (1, 2)", "--to", "padres"], "PADRES cannot say"),
        (["parse", "x > 1", "--from", "json"], "JSON"),
        (["covers", "x >", "y"], "F: column 4"),
        (["overlaps", "x", "y >"], "G: column 4"),
        (["merge", "x = 1", "y >"], "filter 2: column 4"),
    ],
)
def test_a_mistake_in_a_filter_is_one_line_that_says_where(
    arguments: list[str], message: str, capsysbinary: Capture
) -> None:
    status, out, err = run(capsysbinary, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("penstock: ")
    assert message in err
    assert err.count("\n") == 1
    assert err.endswith("\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nope"],
        ["parse"],
        ["covers", "x"],
        ["merge"],
        ["merge", "x", "--budget", "2"],
        ["demo", "--flights", "0"],
        ["demo", "--only", "everything"],
        ["match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--jobs", "0"],
        ["compile", "--subscriptions", "s.jsonl"],
        ["sub"],
        ["sub", "x", "--composite", "[x = 1]"],
        ["sub", "x", "--timeout", "0"],
        ["sub", "x", "--token", "a", "--token-file", "b"],
        ["advertise"],
        ["trace"],
        ["top", "--interval", "nan"],
    ],
)
def test_wrong_arguments_end_with_usage(arguments: list[str], capsysbinary: Capture) -> None:
    status, out, err = stopped(capsysbinary, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("usage: penstock")


COMMANDS = [
    "parse",
    "schema",
    "covers",
    "overlaps",
    "identical",
    "merge",
    "match",
    "compile",
    "check",
    "sim",
    "broker",
    "network",
    "torture",
    "pub",
    "sub",
    "advertise",
    "trace",
    "top",
    "bench",
    "bench filters",
    "bench routing",
    "bench strangers",
    "demo",
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command: str, capsysbinary: Capture) -> None:
    status, out, err = stopped(capsysbinary, *command.split(), "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: penstock {command}".rstrip())
    if command not in ("schema", "demo", "bench filters"):
        assert f"  penstock {command}".rstrip() in out.partition("examples:")[2]


def test_the_program_lists_its_commands(capsysbinary: Capture) -> None:
    _status, out, _err = stopped(capsysbinary, "--help")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("    ") and line.split()]
    assert {command.split()[0] for command in COMMANDS} <= set(listed)


def test_the_program_tells_its_version(capsysbinary: Capture) -> None:
    assert stopped(capsysbinary, "--version") == (0, f"penstock {__version__}\n", "")


def test_the_installed_program_speaks_utf8_whatever_the_locale() -> None:
    ran = subprocess.run(
        [PROGRAM, "parse", "größe = 'ß'"],
        capture_output=True,
        env={"LC_ALL": "C", "PYTHONUTF8": "1", "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (ran.returncode, ran.stdout.decode(), ran.stderr) == (0, "größe = 'ß'\n", b"")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from penstock.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    assert "penstock.cli.main" in loaded
    heavy = {"pyarrow", "rich", "numpy", "pandas", "numba", "asyncio"}
    assert not loaded & (heavy | {"penstock.cli.match", "penstock.cli.files", "penstock.workloads.flights"})


def test_a_reader_that_leaves_early_is_no_error() -> None:
    process = subprocess.Popen([PROGRAM, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
