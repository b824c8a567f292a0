"""What the documentation says is so: its code runs, its commands print what it shows, its links lead on."""

import doctest
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model import limits
from penstock.net.config import example
from penstock.net.gateway.context import Context
from penstock.net.gateway.metrics import metrics_text
from penstock.net.gateway.ports import GatewayLimits
from terminals import TERMINAL, is_live, terminals, with_free_ports

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "PAPERS.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
LIVE_PAGES = [
    page
    for page in PAGES
    if page.name != "PIPELINE.md"
    and any(TERMINAL.match(code) for _kind, code in FENCE.findall(page.read_text()))
]


def blocks(language: str) -> list[tuple[str, str]]:
    found = [
        (page.name, text)
        for page in PAGES
        for kind, text in FENCE.findall(page.read_text())
        # That page is one program: tests/spark runs it, where there is a session.
        if kind == language and not is_live(text) and page.name != "PIPELINE.md"
    ]
    assert found
    return found


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_code_in_the_documentation_runs(page: str, code: str) -> None:
    exec(compile(code, page, "exec"), {})  # noqa: S102


def test_the_five_lines_print_what_their_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    code = next(code for page, code in blocks("python") if "# True" in code)
    assert len([line for line in code.splitlines() if line.strip()]) <= 5
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out.split() == re.findall(r"# (\w+)$", code, re.MULTILINE)


@pytest.mark.parametrize(("page", "session"), blocks("console"))
def test_commands_in_the_documentation_print_what_it_shows(page: str, session: str, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("penstock")
    for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _newline, shown = step.partition("\n")
        if command.startswith("cat "):
            (tmp_path / command.removeprefix("cat ")).write_text(shown)
            continue
        assert command.startswith(".venv/bin/penstock "), f"{page}: {command}"
        line = command.replace(".venv/bin/penstock", str(program), 1)
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S607
        # What goes to standard error is shown where it is what the page is about.
        assert shown in (done.stdout, done.stdout + done.stderr)


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("openssl") is None, reason="needs both")
@pytest.mark.parametrize("page", LIVE_PAGES, ids=lambda page: page.name)
def test_what_terminals_show_in_the_documentation_is_so(
    page: Path, tmp_path: Path, warm_kernels: None
) -> None:
    with terminals(tmp_path) as at:
        for kind, code in FENCE.findall(with_free_ports(page.read_text())):
            if kind == "console" and is_live(code):
                at.play(code)
            elif kind == "python" and is_live(code):
                exec(compile(code, page.name, "exec"), {})  # noqa: S102


def test_every_setting_of_a_broker_is_explained() -> None:
    text = (ROOT / "docs" / "OPERATIONS.md").read_text()
    shown = dict(re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", text, re.MULTILINE))
    settings, table = {}, ""
    for line in example().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            table = f"{heading[1]}."
        elif setting := re.fullmatch(r"#?(\w+) = (.+)", line):
            settings[f"{table}{setting[1]}"] = setting[2]
    assert shown == settings


def test_every_metric_of_a_broker_is_explained() -> None:
    text = (ROOT / "docs" / "OPERATIONS.md").read_text()
    rows = re.findall(r"^\| (`penstock_.*?) \|", text, re.MULTILINE)
    shown = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    broker: Any = SimpleNamespace(status=lambda: {"links": [{"peer": "b2"}]})
    printed = metrics_text(Context(broker, GatewayLimits())).decode()
    assert shown == set(re.findall(r"^(penstock_\w+)", printed, re.MULTILINE))


def test_every_row_of_the_threat_model_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "OPERATIONS.md").read_text()
    model = text[text.index("## Threat model") : text.index("## Metrics")]
    rows = [row for row in model.splitlines() if row.startswith("| ") and not row.startswith("| at worst")]
    assert len(rows) > 20
    for row in rows:
        named = TEST.findall(row)
        assert named, f"no test is named: {row}"
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"


def test_every_must_of_the_specification_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "FILTERS.md").read_text()
    rules = [
        rule for rule in re.split(r"\n(?=- |\n|#)", text) if "MUST" in rule and not rule.startswith("# ")
    ]
    rules = [rule for rule in rules if not rule.lstrip().startswith("This is the specification")]
    assert len(rules) > 20
    for rule in rules:
        named = TEST.findall(rule)
        assert named, f"no test is named: {rule}"
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"


def test_the_table_of_limits_is_true() -> None:
    text = (ROOT / "docs" / "FILTERS.md").read_text()
    shown = {
        name: int(value.replace(",", "")) for name, value in re.findall(r"`(\w+_MAX)`[^|]*\| ([\d,]+)", text)
    }
    assert shown == {name: getattr(limits, name) for name in shown}
    assert len(shown) == 26


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
    for target in re.findall(r"`((?:tests|docs)/[\w/]+\.\w+)", text):
        assert (ROOT / target).exists(), target
    if page.name == "PAPERS.md":
        for target in re.findall(r"`(?:src/penstock/)?((?:filters|model)/[\w/]*(?:\.py)?)`", text):
            assert (ROOT / "src" / "penstock" / target).exists(), target


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"(?:^ {4}|`)make (\w+)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, page.name


@pytest.mark.parametrize(
    "module", ["penstock.filters.parsing", "penstock.filters.merging", "penstock.filters.estimate"]
)
def test_examples_in_docstrings_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted
    assert not results.failed
