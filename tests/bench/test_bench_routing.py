"""`penstock bench routing` measures what it says."""

import json

import pytest

from penstock.cli.main import main
from penstock.workloads import range_filters


def test_the_benchmark_prints_every_table_and_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "routing", "--count", "200", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [(r["distribution"], r["table"]) for r in results] == [
        (d, table) for d in range_filters.DISTRIBUTIONS for table in ("forest", "poset")
    ]
    for forest, poset in zip(results[::2], results[1::2], strict=True):
        assert forest["roots"] == poset["roots"] > 0
        assert forest["entries"] == poset["entries"] <= 200
        assert forest["depth"] <= poset["depth"]
        assert forest["tests"] == poset["tests"] == 0


def test_one_table_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "routing", "--count", "50", "--table", "forest", "--json"]) == 0
    assert {r["table"] for r in json.loads(capsys.readouterr().out)["results"]} == {"forest"}


def test_the_benchmark_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "routing", "--count", "50"]) == 0
    assert capsys.readouterr().out.count("forest") == 3


@pytest.mark.parametrize("distribution", range_filters.DISTRIBUTIONS)
def test_range_filters_are_repeatable_and_within_their_domain(
    distribution: range_filters.Distribution,
) -> None:
    made = range_filters.filters(1000, 7, distribution)
    again = range_filters.filters(1000, 7, distribution)
    assert (made.low == again.low).all()
    assert (made.low <= made.high).all()
    assert made.low.min() >= 0
    assert made.high.max() < range_filters.DOMAIN
    assert (made.low != range_filters.filters(1000, 8, distribution).low).any()
