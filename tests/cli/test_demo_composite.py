"""The composite of the demo: what it finds in a year of flights is what a join counts."""

import pytest

from penstock.cli.demo_composite import by_schedule, counted_by_duckdb, detections, show
from penstock.workloads.flights import load_flights


def test_a_composite_over_flights_finds_what_duckdb_counts() -> None:
    flights = by_schedule(load_flights())
    found = len(detections(flights))
    assert found == counted_by_duckdb(flights)
    assert found > 20_000


def test_a_difference_is_told_and_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = load_flights().slice(0, 20_000)
    assert show(some) == 0
    assert "the same." in capsys.readouterr().out
    monkeypatch.setattr("penstock.cli.demo_composite.counted_by_duckdb", lambda _flights: 1)
    assert show(some) == 1
    assert "a mistake" in capsys.readouterr().out
    monkeypatch.setattr("penstock.cli.demo_composite.counted_by_duckdb", lambda _flights: None)
    assert show(some) == 0
