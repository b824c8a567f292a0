"""The benchmark of hostile clients measures what it says, and its filters are among the expensive ones."""

import json

import pytest

from penstock.bench.strangers.command import BAR, Round, summed_up
from penstock.bench.strangers.crowd import Delays
from penstock.cli.main import main
from penstock.filters.parsing import parse
from penstock.node.asking import is_plain
from penstock.workloads.worst import WORST, worst_filters


def round_of(attack: bool, p99: float) -> Round:
    delays = Delays(
        events=10,
        p50_ms=1.0,
        p99_ms=p99,
        max_ms=p99,
        subscriptions=1,
        subscribe_p50_ms=1.0,
        subscribe_p99_ms=2 * p99,
        lost=0,
    )
    return Round(attack=attack, filters=5 if attack else 0, delays=delays)


@pytest.mark.parametrize(("under", "met"), [(2.0, True), (4.0, True), (4.1, False)])
def test_the_bar_is_a_ratio_of_medians(under: float, met: bool) -> None:
    rounds = [round_of(False, p99) for p99 in (1.0, 2.0, 90.0)] + [round_of(True, under)]
    result = summed_up(rounds)
    assert (result.p99_without_ms, result.p99_with_ms) == (2.0, under)
    assert result.ratio == under / 2.0
    assert result.met is met
    assert BAR == 2.0


def test_the_worst_filters_are_parsed_apart_and_are_not_refused() -> None:
    for text in WORST:
        assert not is_plain(text)
        assert parse(text, request=True).filters


def test_no_two_filters_that_are_sent_are_the_same() -> None:
    texts = worst_filters()
    sent = [next(texts) for _ in range(5 * len(WORST))]
    assert len(set(sent)) == len(sent)


def test_a_short_run_loses_nothing_and_its_hostile_clients_are_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Whether the bar is reached depends on the machine.
    main(["bench", "strangers", "--clients", "4", "--rounds", "1", "--seconds", "1.5", "--json"])
    document = json.loads(capsys.readouterr().out)
    without, under = document["rounds"]
    assert (without["attack"], under["attack"]) == (False, True)
    assert without["delays"]["lost"] == under["delays"]["lost"] == 0
    assert without["delays"]["events"] == under["delays"]["events"] == pytest.approx(30, abs=4)
    assert without["filters"] == 0 < under["filters"]
