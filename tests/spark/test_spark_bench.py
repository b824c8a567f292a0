"""`penstock bench spark`, tiny, on the session of the tests: all agree, and all figures are there."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.bench.spark import command
from penstock.cli.main import main


def test_a_tiny_run_measures_all_and_all_agree(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    warm_kernels: None,
) -> None:
    monkeypatch.setattr(command, "_session", lambda _master, _folder: nullcontext(spark))
    arguments = ["--events", "256", "--filters", "60", "--repeats", "1", "--budget", "600"]
    assert main(["bench", "spark", *arguments, "--json", "--folder", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    (size,) = found["sizes"]
    assert size["agrees"]
    assert size["events"] == 256
    assert size["matches"] > 0
    assert {worker["table"] > 0 for worker in size["workers"]} <= {True}
    assert [join["name"] for join in found["joins"]] == ["expressions", "by hand"]
    for join in found["joins"]:
        assert join["agrees"]
        assert 0 < join["events"] <= 256
        assert join["matches"] > 0
    assert (tmp_path / f"events-256-{size['values']}-1").is_dir()


def test_posets_of_rules_are_measured_part_by_part(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    warm_kernels: None,
) -> None:
    monkeypatch.setattr(command, "_session", lambda _master, _folder: nullcontext(spark))
    arguments = ["bench", "spark", "--covering", "--filters", "100000", "--scale", "0.005"]
    assert main([*arguments, "--json", "--folder", str(tmp_path)]) == 0
    thresholds, alerts = json.loads(capsys.readouterr().out)["posets"]
    assert (thresholds["rules"], thresholds["count"]) == ("thresholds", 500)
    assert (thresholds["links"], thresholds["roots"], thresholds["depth"]) == (499, 1, 500)
    assert (alerts["rules"], alerts["count"]) == ("alerts", 500)
    assert 1 < alerts["depth"] < alerts["roots"] < 500
    for one in (thresholds, alerts):
        parts = ("parsing_seconds", "comparing_seconds", "ordering_seconds")
        assert one["seconds"] == pytest.approx(sum(one[part] for part in parts))
        assert min(one[part] for part in parts) > 0
    assert main([*arguments, "--folder", str(tmp_path)]) == 0
    assert "thresholds" in capsys.readouterr().out
