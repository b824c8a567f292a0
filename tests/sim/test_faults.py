"""What fails, and is mended: the steps of plans and the faults of scenarios do the same to a network."""

from typing import Any

import pytest

from penstock.sim import faults
from penstock.sim.inject import inject
from penstock.sim.network import Network
from penstock.sim.observers import Observer
from penstock.sim.scenario import Crash, Cut, Delay, Duplicate, Fault, Heal, Loss, Partition, Reorder, Restart


class Noting(Observer):
    def __init__(self) -> None:
        self.faults: list[tuple[str, str, str]] = []

    def on_fault(self, what: str, broker: str, link: str, about: dict[str, Any], now: float) -> None:
        self.faults.append((what, broker, link))


def square() -> tuple[Network, Noting]:
    """Brokers b0 to b3 in a circle."""
    network, noting = Network(lease=2.0), Noting()
    for number in range(4):
        network.add_broker(f"b{number}")
    for a, b in ("01", "12", "23", "03"):
        network.add_link(f"b{a}", f"b{b}")
    network.observers.append(noting)
    return network, noting


def test_what_is_down_does_not_crash_and_what_runs_is_not_restarted() -> None:
    network, noting = square()
    assert faults.restart(network, "b1", with_state=False) == 0
    assert (faults.crash(network, "b1"), faults.crash(network, "b1")) == (1, 0)
    assert not network.is_running("b1")
    assert [faults.restart(network, "b1", with_state=True) for _ in range(2)] == [1, 0]
    assert noting.faults == [("Crash", "b1", ""), ("Restart", "b1", "")]


def test_links_are_cut_and_healed_where_they_are() -> None:
    network, noting = square()
    links = [("b0", "b1"), ("b0", "b2"), ("b2", "b1"), ("b9", "b0")]
    assert (faults.cut(network, links), faults.cut(network, links)) == (2, 0)
    assert network.component("b1") == {"b1"}
    assert (faults.heal(network, links), faults.heal(network, links)) == (2, 0)
    assert network.component("b1") == {"b0", "b1", "b2", "b3"}
    assert faults.flap(network, ("b0", "b1")) == 2
    faults.cut(network, [("b0", "b1")])
    assert faults.flap(network, ("b0", "b1")) == 2 - 1
    assert faults.flap(network, ("b0", "b2")) == 0
    assert {what for what, _broker, _link in noting.faults} == {"Cut", "Heal"}


def test_a_partition_cuts_what_is_between_the_sides() -> None:
    network, _noting = square()
    assert faults.partition(network, {"b0", "b1"}) == 2
    assert sorted(map(sorted, network.components())) == [["b0", "b1"], ["b2", "b3"]]
    assert faults.heal(network, faults.between(network, {"b0", "b1"})) == 2
    assert len(network.components()) == 1


def test_links_are_degraded_and_restored() -> None:
    network, _noting = square()
    assert faults.degrade(network, [("b0", "b1"), ("b0", "b2")], "loss", 0.5) == 1
    assert faults.degrade(network, network.links(), "delay", 0.2) == 4
    model = network.direction("b1", "b0").model
    assert (model.loss, model.delay, network.is_lossy()) == (0.5, 0.2, True)
    assert faults.restore(network) == 4
    assert not network.is_lossy()
    assert network.direction("b1", "b0").model == network.direction("b2", "b3").model


@pytest.mark.parametrize(
    ("fault", "changed", "told"),
    [
        (Crash(at_s=0, broker=1), 1, {"Crash"}),
        (Restart(at_s=0, broker=1), 0, set()),
        (Cut(at_s=0, link=(0, 1)), 1, {"Cut"}),
        (Heal(at_s=0, link=(0, 1)), 0, set()),
        (Partition(at_s=0, side=[0]), 2, {"Cut"}),
        (Delay(at_s=0, ms=30), 4, {"Degrade"}),
        (Delay(at_s=0, ms=30, link=(3, 0)), 1, {"Degrade"}),
        (Duplicate(at_s=0, share=0.5), 4, {"Degrade"}),
        (Reorder(at_s=0, share=0.5, link=(1, 0)), 1, {"Degrade"}),
        (Loss(at_s=0, share=0.5), 4, {"Degrade"}),
    ],
)
def test_the_faults_of_scenarios_are_these(fault: Fault, changed: int, told: set[str]) -> None:
    network, noting = square()
    assert inject(network, fault) == changed
    assert {what for what, _broker, _link in noting.faults} == told
    if isinstance(fault, Partition):
        assert inject(network, Heal(at_s=0, side=fault.side)) == changed
    if isinstance(fault, Delay | Duplicate | Reorder | Loss):
        field = type(fault).__name__.lower()
        much = fault.ms / 1000 if isinstance(fault, Delay) else fault.share
        assert getattr(network.direction("b0", "b3" if field == "delay" else "b1").model, field) == much
