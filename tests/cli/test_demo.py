"""The demo, and the sample subscriptions against counts that DuckDB made."""

import json
import re
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
    assert main(["demo", "--only", "matching", "--flights", "500"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].strip() == "Who gets what"
    for one in subscriptions():
        assert any(line.lstrip().startswith(one.subscriber[:20]) for line in lines), one.subscriber
    assert "500 flights against 100 subscriptions: " in out
    (took,) = (line for line in lines if "reference matcher" in line)
    assert re.match(r"Matching took \d+\.\d\d s: [\d,]+ flights a second\. ", took)
    # The composite over the flights, counted again.
    assert re.fullmatch(r"DuckDB counts \d+ by a join: the same\.", lines[-1])
    assert max(map(len, lines)) <= 140


def test_the_demo_shows_the_counts_of_the_whole_year(capsys: pytest.CaptureFixture[str]) -> None:
    expected: dict[str, int] = json.loads(COUNTS.read_text())
    reached = expected.pop("_any")
    assert main(["demo", "--only", "matching"]) == 0
    out = capsys.readouterr().out
    assert f"{sum(expected.values()):,} deliveries; {reached:,} flights reached somebody" in out
    table = " ".join(out.split())
    for one in subscriptions():
        assert f" {expected[one.id]:,} " in table, one.id


def test_the_last_flight_of_a_subscription_is_the_latest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--only", "matching", "--flights", "3000"]) == 0
    out = capsys.readouterr().out
    flights = load_flights().slice(0, 3000)
    for one in list(subscriptions())[:20]:
        predicate = parse(one.filter)
        got = [event for event in events_from_arrow(flights) if event and predicate.matches(event)]
        if got:
            last = max(enumerate(got), key=lambda pair: (pair[1]["time_hour"], pair[0]))[1]
            shown = f"{last['month']:02}-{last['day']:02} {last['carrier']}{last['flight']}"
            assert shown in out, one.id
