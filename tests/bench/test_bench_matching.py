"""Scenarios run and say all they should; workloads are what they claim; other engines agree with the matcher.

Nothing here depends on how long anything takes.
"""

import json
import re
from typing import Any

import msgspec
import numpy as np
import pytest

from penstock.bench import loads, matching, measures, others
from penstock.bench.loads import ForwardingLoad, Load, RangesLoad, RulesLoad
from penstock.bench.scenario import (
    ChurnScenario,
    FiguresScenario,
    ForwardingWorkload,
    GrowthScenario,
    MatchScenario,
    RangesWorkload,
    RulesWorkload,
    Scenario,
    StartScenario,
    Workload,
    parse,
    scaled,
    scenarios,
)
from penstock.cli.main import main
from penstock.errors import InputError

KNOWN = scenarios()
WORKLOADS: list[Workload] = [
    ForwardingWorkload(filters=400),
    ForwardingWorkload(filters=400, ids=20, text_ids=True),
    RulesWorkload(filters=400, values=12),
    RangesWorkload(filters=400, width=0.3, text_ids=True),
]
"""Small, with some matches an event."""

QUIET = matching.Choices(scale=1e-9, others=False)


def tiny(scenario: Scenario) -> Scenario:
    """The scenario with few events and little patience; `QUIET` sees to the filters."""
    few: dict[str, Any] = {
        "warm_up": 50,
        "events": 60,
        "batch": 20,
        "passes": 1,
        "seconds": 0.05,
        "rounds": 2,
        "standing": 200,
    }
    few = {key: value for key, value in few.items() if hasattr(scenario, key)}
    return msgspec.structs.replace(scenario, **few)


def brute(load: Load, begin: int, end: int) -> list[set[object]]:
    """What each event matches, by trying every filter."""
    keys = load.ids().to_pylist()
    filters = [load.filter(i) for i in range(load.workload.filters)]
    return [
        {key for key, f in zip(keys, filters, strict=True) if f.matches(event)}
        for event in load.dicts(begin, end)
    ]


@pytest.mark.parametrize("name", sorted(set(KNOWN) - {"figures"}))
def test_every_scenario_says_all_it_should(name: str) -> None:
    scenario = tiny(KNOWN[name])
    outcome = matching.measure(scenario, QUIET)
    assert outcome.scenario == name
    assert [result.what for result in outcome.results] == [bar.what for bar in scenario.bars]
    assert all(np.isfinite(result.measured) for result in outcome.results)
    if isinstance(scenario, MatchScenario | GrowthScenario):
        assert all(point.events == 60 and point.us_per_event > 0 for point in outcome.points)
        assert len(outcome.points) == (len(scenario.sizes) if isinstance(scenario, GrowthScenario) else 1)
    assert (outcome.churn is not None) == isinstance(scenario, ChurnScenario)
    assert (outcome.start is not None) == isinstance(scenario, StartScenario)
    document = json.loads(msgspec.json.encode(matching.document([outcome], QUIET)))
    assert document["machine"]["cpus"] >= 1
    assert [row["met"] for row in document["scenarios"][0]["results"]] == [None] * len(outcome.results)
    full = matching.document([outcome], msgspec.structs.replace(QUIET, scale=1.0))["scenarios"]
    assert [row["met"] for row in full[0]["results"]] == [r.met for r in outcome.results]  # type: ignore[index]


def test_every_bar_of_the_project_is_in_a_scenario() -> None:
    bars = {(name, bar.what): (bar.bar, bar.goal) for name, known in KNOWN.items() for bar in known.bars}
    assert bars == {
        ("forwarding", "time"): (20, 8),
        ("forwarding", "memory"): (24, 12),
        ("forwarding-20-ids", "time"): (10, 4),
        ("rules", "rate"): (1_000_000, 2_000_000),
        ("rules-json", "rate"): (500_000, 1_000_000),
        ("ranges", "time"): (15, 5),
        ("growth", "growth"): (3, None),
        ("compile", "compile"): (10, None),
        ("text-prefixes", "load"): (10, None),
        ("text-prefixes", "ratio"): (3, None),
        ("text-prefixes", "peak"): (1.8, None),
        ("text-lists", "load"): (12, None),
        ("text-lists", "ratio"): (3, None),
        ("text-lists", "peak"): (1.5, None),
        ("text-words", "load"): (10, None),
        ("text-words", "ratio"): (2, None),
        ("text-words", "peak"): (1.8, None),
        ("text-exclusions", "load"): (2, None),
        ("text-exclusions", "ratio"): (3, None),
        ("text-exclusions", "match"): (40, None),
        ("churn", "changes"): (100_000, None),
        ("churn", "slowdown"): (1.5, None),
        ("start", "import"): (0.3, None),
        ("start", "load and match"): (1, None),
        ("start", "compile and match"): (1, None),
    }


def test_matching_is_measured_over_a_thousand_events_at_least() -> None:
    for scenario in KNOWN.values():
        if isinstance(scenario, MatchScenario | GrowthScenario):
            assert scenario.events >= 1_000


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("passes = 5", "passes = 5\npace = 3"), "unknown field `pace`"),
        (('kind = "ranges"', 'kind = "ranges"\nheight = 3'), "unknown field `height`"),
        (("unit =", "units ="), "unknown field `units`"),
        (("passes = 5", "passes = 'five'"), "Expected `int`"),
        (('measure = "match"', 'measure = "guess"'), "guess"),
        (('kind = "ranges"', 'kind = "roses"'), "roses"),
        (('what = "time"', 'what = "mood"'), "'mood', but what is measured is time"),
        (('name = "ranges"', 'name = "other"'), "its file should be other.toml"),
        (("passes = 5", "passes ="), "Invalid value"),
    ],
)
def test_a_scenario_file_that_says_something_unknown_is_refused(
    change: tuple[str, str], complaint: str
) -> None:
    from importlib.resources import files

    text = files("penstock.bench.scenarios").joinpath("ranges.toml").read_text("utf-8")
    assert parse(text, "ranges.toml") == KNOWN["ranges"]
    assert change[0] in text
    with pytest.raises(InputError, match=r"^ranges\.toml: ") as caught:
        parse(text.replace(*change), "ranges.toml")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"{type(w).__name__}-{getattr(w, 'ids', None)}")
def test_a_seed_makes_the_same_load_again_and_another_seed_another(workload: Any) -> None:
    one, same, other = (loads.make(workload, 30, seed) for seed in (1, 1, 2))
    assert one.table() == same.table()
    assert one.json_lines(0, 30) == same.json_lines(0, 30)
    assert one.table() != other.table()
    assert one.json_lines(0, 30) != other.json_lines(0, 30)
    fewer = one.first(100)
    assert [fewer.filter(i) for i in range(100)] == [one.filter(i) for i in range(100)]
    assert fewer.table().num_rows == fewer.constraints


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"{type(w).__name__}-{getattr(w, 'ids', None)}")
def test_all_forms_of_a_load_mean_the_same(workload: Any) -> None:
    load = loads.make(workload, 40, 3)
    expected = brute(load, 10, 40)
    assert any(expected)
    matcher, _ = measures.matcher_of(load)
    forms: list[Any] = [load.dicts(10, 40), load.json_lines(10, 40)]
    if isinstance(load, ForwardingLoad):
        with pytest.raises(InputError, match="no Arrow rows"):
            load.record_batch(10, 40)
    else:
        forms += [load.record_batch(10, 40), load.record_batch(10, 40, dictionary=True)]
    for events in forms:
        assert [set(ids) for ids in measures.match(matcher, events)] == expected


@pytest.mark.parametrize("name", ["rules", "ranges"])
def test_an_event_matches_about_ten_filters(name: str) -> None:
    scenario = KNOWN[name]
    assert isinstance(scenario, MatchScenario)
    # A hundredth of the filters, so a tenth of a match an event: 4 000 events have about 400.
    small = scaled(scenario, 0.01)
    assert isinstance(small, MatchScenario)
    load = loads.make(small.workload, 4_000, 1)
    assert isinstance(load, RulesLoad | RangesLoad)
    sample = sum(map(len, brute(load, 0, 100)))
    matcher, _ = measures.matcher_of(load)
    found = measures.match(matcher, load.record_batch(0, 4_000))
    assert int(found.offsets[100]) == sample
    assert 8 < len(found.numbers) / 4_000 * 100 < 12


def test_an_event_of_the_rules_has_about_185_bytes_of_json() -> None:
    load = loads.make(RulesWorkload(filters=1, values=176), 200, 1)
    assert 180 < len(load.json_lines(0, 200)) / 200 < 190


@pytest.mark.parametrize(
    "workload", [RulesWorkload(filters=400, values=12), RangesWorkload(filters=400, width=0.3)]
)
def test_a_grown_workload_has_as_many_matches(workload: RulesWorkload | RangesWorkload) -> None:
    counts = []
    for filters in (400, 1_600, 6_400):
        load = loads.make(workload.grown(filters), 500, 1)
        counts.append(len(measures.match(measures.matcher_of(load)[0], load.dicts(0, 500)).numbers) / 500)
    assert min(counts) > 1
    assert max(counts) < 1.25 * min(counts)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"{type(w).__name__}-{getattr(w, 'ids', None)}")
def test_other_engines_give_the_same_answers(workload: Any) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    scenario = MatchScenario(
        name="small",
        title="",
        why="",
        seed=1,
        workload=workload,
        input="dicts",
        warm_up=10,
        events=40,
        batch=20,
        passes=1,
    )
    load = loads.make(workload, 50, 1)
    point, matcher = measures.measure_match(load, scenario, lambda _what: None)
    made = others.compare(load, scenario, point, matcher, 5.0, lambda _what: None)
    papers = ["paper: counting", "paper: selectivity"] if isinstance(load, ForwardingLoad) else []
    assert [row.engine for row in made] == [*papers, "plain Python", "DuckDB join", "Polars join"]
    for row in made:
        assert row.agrees, row
        assert row.filters == 400
        assert row.ratio > 0


def test_an_engine_that_answers_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    load = loads.make(WORKLOADS[2], 50, 1)
    scenario = msgspec.structs.replace(tiny(KNOWN["rules"]), workload=WORKLOADS[2], warm_up=10, events=40)
    assert isinstance(scenario, MatchScenario)
    point, matcher = measures.measure_match(load, scenario, lambda _what: None)

    class Forgetful(others.PlainPython):
        def match(self, events: Any) -> Any:
            return super().match(events).slice(1)

    monkeypatch.setattr(others, "engines_for", lambda _load: [Forgetful])
    (row,) = others.compare(load, scenario, point, matcher, 5.0, lambda _what: None)
    assert not row.agrees


def test_an_engine_that_is_not_installed_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    load = loads.make(WORKLOADS[2], 50, 1)
    scenario = msgspec.structs.replace(tiny(KNOWN["rules"]), workload=WORKLOADS[2], warm_up=10, events=40)
    assert isinstance(scenario, MatchScenario)
    point, matcher = measures.measure_match(load, scenario, lambda _what: None)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    made = others.compare(load, scenario, point, matcher, 5.0, lambda _what: None)
    assert "not installed" in {row.engine: row for row in made}["DuckDB join"].note


def test_the_command_prints_a_table_and_draws_plots(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    pytest.importorskip("matplotlib")
    small = {name: tiny(KNOWN[name]) for name in ("rules", "growth")}
    monkeypatch.setattr(matching, "scenarios", lambda: small)
    arguments = ["bench", "matching", "--scale", "0.001", "--no-others", "--plots", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "rules" in printed
    assert "events/s" in printed
    assert (
        "scaled by 0.001; the bars are those of the full size, so none is said to be met or missed" in printed
    )
    assert not re.search(r"(met|missed) *$", printed, re.MULTILINE)
    assert [path.name for path in tmp_path.iterdir()] == ["growth.png"]
    assert main([*arguments[:-2], "--json", "--scenario", "rules"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [made["scenario"] for made in document["scenarios"]] == ["rules"]
    assert all(row["met"] is None for made in document["scenarios"] for row in made["results"])
    # In full size they are. The scenario is as small as before.
    assert main(["bench", "matching", "--no-others", "--scenario", "rules"]) == 0
    assert re.search(r"(met|missed) *$", capsys.readouterr().out, re.MULTILINE)
    assert main(["bench", "matching", "--scenario", "nothing"]) == 2
    assert "there is no scenario 'nothing'" in capsys.readouterr().err


def test_the_papers_figures_shrink_with_the_scale() -> None:
    assert isinstance(KNOWN["figures"], FiguresScenario)
    scale = matching.figures_scale(0.001)
    assert list(scale.constraints) == [1_000, 2_000, 3_500, 5_000]
    assert list(scale.ratios) == [1, 2, 3, 5, 10, 20, 50, 100]
    assert matching.figures_scale(1.0).constraints[-1] == 5_000_000
