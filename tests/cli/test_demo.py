"""The demo, and the sample subscriptions against counts that DuckDB made."""

import json
from collections import Counter
from pathlib import Path

import pytest

from penstock import parse
from penstock.cli.main import main
from penstock.matching.reference import ReferenceMatcher
from penstock.model.arrow import events_from_arrow
from penstock.workloads.flights import load_flights, subscriptions

COUNTS = Path(__file__).parent.parent / "fixtures" / "flight_counts.json"


def test_there_are_a_hundred_subscriptions_that_parse() -> None:
    sample = list(subscriptions())
    assert len(sample) == len({one.id for one in sample}) == 100
    for one in sample:
        predicate = parse(one.filter)
        assert predicate.filters, one
        assert parse(predicate.to_sql()) == predicate


def test_the_year_of_flights_gives_every_subscription_what_duckdb_counts() -> None:
    expected: dict[str, int] = json.loads(COUNTS.read_text())
    reached = expected.pop("_any")
    matcher = ReferenceMatcher((one.id, parse(one.filter)) for one in subscriptions())
    counts: Counter[str] = Counter()
    found_any = rows = 0
    for event in events_from_arrow(load_flights()):
        assert event is not None
        ids = matcher.match(event)
        counts.update(ids)
        found_any += bool(ids)
        rows += 1
    assert (rows, found_any) == (336_776, reached)
    assert {one.id: counts[one.id] for one in subscriptions()} == expected


def test_the_demo_prints_a_table_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--flights", "500"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].strip() == "Who gets what"
    for one in subscriptions():
        assert any(line.lstrip().startswith(one.subscriber[:20]) for line in lines), one.subscriber
    assert "500 flights against 100 subscriptions: " in out
    assert "reference matcher" in lines[-1]
    assert max(map(len, lines)) <= 140
