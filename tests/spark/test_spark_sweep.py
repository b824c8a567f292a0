"""Sweeps: a row of results is what the simulator says of its scenario; mistakes are told before, or in it."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import InputError
from penstock.sim.scenario import parse
from penstock.sim.simulate import Simulation
from penstock.spark.analysis.sweep import (
    CLOCK,
    build,
    grid,
    known_settings,
    result_columns,
    results_of,
    run,
    sweep,
)

TINY = """
title = "tiny"
[topology]
kind = "acyclic"
brokers = 4
[clients]
subscribers = 4
publishers = 2
[workload]
kind = "ranges"
subscriptions = 8
events = 30
rate = 100.0
probes = 5
[scheme]
name = "identity"
"""


def timeless(results: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in results.items() if name not in CLOCK}


# What to simulate


def test_a_grid_has_each_combination_once() -> None:
    rows = grid(scenario=["plain", "hybrid"], **{"scheme.name": ["simple", "covering"], "seed": range(3)})
    assert len(rows) == 12
    assert rows[1] == {"scenario": "plain", "scheme.name": "simple", "seed": 1}
    assert len({tuple(row.values()) for row in rows}) == 12


def test_settings_are_those_of_scenarios_that_are_one_value() -> None:
    assert {"seed", "title", "duration_s", "scheme.name", "scheme.lease_s"} < set(known_settings())
    assert {"links.loss", "service.measured", "topology.seed"} < set(known_settings())
    assert not {"faults", "scheme", "workload.seed"} & set(known_settings())


def test_a_setting_replaces_what_the_scenario_says_and_null_does_not() -> None:
    made = build(TINY, {"seed": 7, "links.latency_ms": 5, "scheme.name": "covering", "workload.events": None})
    assert (made.seed, made.links.latency_ms, made.scheme.name, made.workload.events) == (
        7,
        5.0,
        "covering",
        30,
    )
    assert build("plain", {}).topology.brokers == 50


@pytest.mark.parametrize(
    ("scenario", "settings", "what"),
    [
        (None, {}, "scenario: is missing"),
        ("plane", {}, "'plane': neither a text nor a name; there are acyclic"),
        ("mine.toml", {}, "neither a text nor a name"),
        ("title = ", {}, "scenario: not TOML"),
        ("plain", {"scheme.name": "best"}, "plain.toml: scheme.name: no scheme 'best'"),
        (TINY, {"seed": "one"}, "scenario: seed: expected `int`, got `str`"),
        (TINY, {"links.loss": 0.5}, "scenario: scheme.lease_s"),
        ("links = 3", {"links.loss": 0.5}, "links: is no table"),
    ],
)
def test_a_mistake_is_told_with_its_place(scenario: str, settings: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError) as caught:
        build(scenario, settings)
    assert what in str(caught.value)
    assert what in results_of(scenario, settings)["error"]


# What comes of it


def test_results_are_flat_and_each_has_its_column() -> None:
    found = results_of(TINY, {"links.bandwidth": 1e6})
    columns = {column.name: column.type for column in result_columns()}
    # Both in one order, but for the error that there is none of.
    assert [*found] == [name for name in columns if name != "error"]
    python = {"long": int, "double": float, "string": str, "boolean": bool}
    for name, value in found.items():
        if columns[name].startswith("map of "):
            assert {type(entry) for entry in value.values()} <= {python[columns[name][7:]]}
        else:
            assert type(value) is python[columns[name]]
    assert found["running_messages"] == sum(found["running_traffic"].values()) > 0
    assert set(columns) > CLOCK


def test_results_are_those_of_the_simulator() -> None:
    result, _series = Simulation(parse(TINY, "tiny")).run()
    found = run(build(TINY, {}))
    assert found["while_running_delivered"] == result.while_running.delivered > 0
    assert found["running_traffic"] == result.running.traffic
    assert found["subscription_tables_largest"] == result.subscription_tables.largest
    assert result.delays is not None
    assert found["delays_median_ms"] == result.delays.median_ms
    assert not [name for name in found if name.startswith("waits")]


def test_a_simulation_that_fails_is_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: Simulation) -> None:
        raise RuntimeError("of a sudden")

    monkeypatch.setattr(Simulation, "run", fail)
    assert results_of(TINY, {})["error"] == "the simulation failed: RuntimeError: of a sudden"


# Spark


def test_a_sweep_gives_each_row_the_results_that_it_has_in_process(spark: SparkSession) -> None:
    rows = grid(scenario=[TINY], seed=[1, 2], **{"scheme.name": ["covering"]})
    scenarios = spark.createDataFrame(rows).withColumn("label", sf.lit("a"))
    swept = sweep(scenarios, keep=["label"])
    with_task = swept.withColumn("task", sf.spark_partition_id()).collect()
    assert len({row["task"] for row in with_task}) == len(with_task) == 2
    by_settings = {(row["seed"], row["scheme.name"]): row.asDict() for row in with_task}
    for row in rows:
        found = by_settings[row["seed"], row["scheme.name"]]
        want = results_of(TINY, {"seed": row["seed"], "scheme.name": row["scheme.name"]})
        assert found["error"] is None
        assert found["label"] == "a"
        assert found["waits_mean_ms"] is None
        assert {name: found[name] for name in timeless(want)} == timeless(want)
    assert swept.columns[: len(scenarios.columns)] == scenarios.columns
    assert len(set(swept.columns)) == len(swept.columns)


def test_a_row_that_is_wrong_is_refused_or_told_in_its_place(spark: SparkSession) -> None:
    scenarios = spark.createDataFrame(
        [(TINY, "best", 1), (TINY, None, 2), ("nothing", None, 3)],
        "scenario string, `scheme.name` string, seed int",
    )
    with pytest.raises(InputError, match=r"scenarios: row 0: .*no scheme 'best'.*; 1 more rows are wrong"):
        sweep(scenarios)
    swept = sweep(scenarios, invalid="row", parallelism=1)
    found = {row["seed"]: row for row in swept.collect()}
    assert "no scheme 'best'" in found[1]["error"]
    assert "neither a text nor a name" in found[3]["error"]
    assert (found[2]["error"], found[2]["scheme"]) == (None, "identity")
    assert found[1]["is_right"] is None
    assert sweep(scenarios.limit(0)).collect() == []


def test_columns_that_cannot_be_settings_are_refused(spark: SparkSession) -> None:
    def told(columns: str, **options: Any) -> str:
        frame: DataFrame = spark.createDataFrame([], columns)
        with pytest.raises(InputError) as caught:
            sweep(frame, **options)
        return str(caught.value)

    assert "no column 'scenario'" in told("seed int")
    assert "column 'sede': no such setting, nor named in keep; there are title" in told(
        "scenario string, sede int"
    )
    assert "column 'seed': array<int>; settings are" in told("scenario string, seed array<int>")
    assert "two columns 'seed'" in told("scenario string, seed int, SEED int")
    assert "no column 'label'" in told("scenario string", keep=["label"])
    assert "results have one of this name" in told("scenario string, error string", keep=["error"])
    assert "say 'refuse' or 'row'" in told("scenario string", invalid="drop")
    assert "at least 1" in told("scenario string", parallelism=0)


def test_a_stream_is_no_sweep(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="no stream"):
        sweep(spark.readStream.format("rate").load())
