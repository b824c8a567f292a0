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
