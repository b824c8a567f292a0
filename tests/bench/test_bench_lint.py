"""`penstock bench lint`, tiny; and the rules that it has checked."""

import json

import pytest

from penstock import parse
from penstock.cli.main import main
from penstock.filters.parsing import never_matching
from penstock.workloads import alerts


def test_a_tiny_run_has_all_figures(capsys: pytest.CaptureFixture[str], warm_kernels: None) -> None:
    assert main(["bench", "lint", "--scale", "0.001", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rules"] == 1_000
    assert found["seconds"] > 0
    assert found["elapsed_seconds"] > 0
    assert found["peak_gb"] > 0.01
    assert found["rules_per_second"] == pytest.approx(1_000 / found["seconds"])
    assert found["found"]["warning"] > 0
    assert main(["bench", "lint", "--rules", "100"]) == 0
    assert "rules/s" in capsys.readouterr().out


def test_alert_rules_have_the_slips_that_they_say() -> None:
    texts = list(alerts.texts(20_000, 3))
    assert texts == list(alerts.texts(20_000, 3)) != list(alerts.texts(20_000, 4))
    assert len(texts) == 20_000
    repeated = len(texts) - len({*texts})
    assert 100 < repeated < 400
    predicates = [parse(text) for text in texts]
    assert 5 < sum(not predicate.satisfiable for predicate in predicates) < 60
    with_or = [text for text, predicate in zip(texts, predicates, strict=True) if predicate.satisfiable]
    assert 5 < sum(bool(never_matching(text)) for text in with_or if " or " in text) < 60
