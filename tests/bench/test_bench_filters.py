"""The benchmark of filters: what it measures, and that it says how far it has come."""

import json

import pytest

from penstock.bench import filters
from penstock.cli.main import main


def test_all_that_is_measured_is_said_beforehand() -> None:
    said: list[str] = []
    results = filters.measure(300, 1, said.append)
    assert said[0] == "drawing filters"
    names = [result.name for result in results]
    assert said[1:] == [f"{name} ({at} of {len(names)})" for at, name in enumerate(names, 1)]
    assert len(set(names)) == len(names) == 8
    assert all(result.measured > 0 for result in results)


def test_a_terminal_is_told_how_far_it_has_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["bench", "filters", "--count", "300", "--json"]) == 0
    # The output is not taken for a part of what is told.
    assert len(json.loads(capsys.readouterr().out)["results"]) == 8
