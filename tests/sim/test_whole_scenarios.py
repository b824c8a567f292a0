"""Scenarios on reliable links: whole nodes in place of cores."""

from typing import Any

import pytest

from penstock.errors import InputError
from penstock.sim.scenario import Scenario, convert
from penstock.sim.simulate import Simulation
from penstock.sim.whole.network import WholeNetwork

GIVEN: dict[str, Any] = {
    "title": "whole nodes",
    "links": "reliable",
    "seed": 3,
    "duration_s": 14.0,
    "topology": {"kind": "general", "brokers": 5, "degree": 3.0},
    "clients": {"subscribers": 6, "publishers": 2},
    "workload": {"kind": "ranges", "subscriptions": 12, "events": 60, "rate": 6.0, "probes": 20},
    "scheme": {"name": "covering", "advertisements": True, "lease_s": 20.0},
}


def scenario(**more: Any) -> Scenario:
    return convert({**GIVEN, **more}, "a.toml")


def test_whole_nodes_deliver_what_brute_force_says_and_keep_the_contract() -> None:
    faults = [
        {"kind": "crash", "at_s": 2.0, "broker": 1},
        {"kind": "restart", "at_s": 9.0, "broker": 1, "state": False},
    ]
    simulation = Simulation(scenario(faults=faults))
    assert isinstance(simulation.network, WholeNetwork)
    result, _series = simulation.run()
    assert result.is_right
    assert result.faults == {"crash": 1, "restart": 1}
    assert result.at_rest.delivered == result.at_rest.expected > 0
    assert {check.name: check.outcome for check in result.checks}["kept"] == "held"
    assert all(check.outcome == "held" for check in result.checks)


def test_the_same_workload_without_faults_comes_to_the_same_deliveries_on_plain_links() -> None:
    whole, plain = Simulation(scenario()).run()[0], Simulation(scenario(links="plain")).run()[0]
    for one in (whole, plain):
        assert one.while_running.missed == one.while_running.twice == 0
    assert whole.while_running.delivered == plain.while_running.delivered > 0
    assert whole.at_rest.delivered == plain.at_rest.delivered


def test_links_may_be_said_in_short_or_beside_other_settings() -> None:
    assert scenario().links.kind == "reliable"
    assert scenario(links={"kind": "reliable", "latency_ms": 3.0}).links.latency_ms == 3.0


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"links": "reliabel"}, "links.kind: .*there are plain, reliable"),
        ({"links": {"kind": "reliable", "loss": 0.1}}, "links.loss: is for plain links"),
        ({"links": {"kind": "reliable", "bandwidth": 1e6}}, "links.bandwidth: is for plain links"),
        ({"service": {"publish_us": 5.0}}, "service: is for plain links"),
        ({"faults": [{"kind": "loss", "at_s": 1.0, "share": 0.1}]}, r"faults\[0\].kind: is for plain links"),
        (
            {"faults": [{"kind": "restart", "at_s": 1.0, "broker": 1, "state": True}]},
            r"faults\[0\].state: a process that crashed has kept nothing",
        ),
    ],
)
def test_what_only_plain_links_have_is_refused(more: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        scenario(**more)
