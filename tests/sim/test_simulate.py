"""Scenarios run: events come to whom brute force says, the same seed gives the same run, queues show."""

import msgspec
import numpy as np
import pytest

from penstock.broker.local import Tick
from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.routing.schemes.catalog import SCHEMES
from penstock.routing.schemes.identity import Identity
from penstock.routing.schemes.scheme import Source, Steps
from penstock.sim.agenda import Agenda
from penstock.sim.calibrate import calibrate
from penstock.sim.checkers.catalog import promises
from penstock.sim.matching import SharedMatching
from penstock.sim.results import Result, Series
from penstock.sim.scenario import Fault, Scenario, Service, shipped
from penstock.sim.service import ServiceModel
from penstock.sim.simulate import Simulation
from penstock.sim.trace import Trace
from penstock.wire.messages import Control, Publish, Subscribe, Unadvertise, Unsubscribe

SHIPPED = shipped()


def small(scenario: Scenario, **workload: object) -> Scenario:
    """The scenario with few clients, subscriptions and events, over the same time."""
    few: dict[str, object] = {"subscriptions": 20, "events": 60, "probes": 20, "width": 0.3, **workload}
    return msgspec.structs.replace(
        scenario,
        topology=msgspec.structs.replace(scenario.topology, brokers=min(20, scenario.topology.brokers)),
        clients=msgspec.structs.replace(scenario.clients, subscribers=10, publishers=4),
        workload=msgspec.structs.replace(scenario.workload, **few),
        duration_s=scenario.duration,
    )


def simulated(scenario: Scenario, scheme: str | None = None) -> tuple[Result, Series]:
    if scheme is not None:
        chosen = msgspec.structs.replace(scenario.scheme, name=scheme)
        scenario = msgspec.structs.replace(scenario, scheme=chosen)
    return Simulation(scenario, name="small").run()


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_shipped_scenario_is_right_at_rest(name: str) -> None:
    result, _series = simulated(small(SHIPPED[name]))
    assert result.at_rest_exact
    assert result.is_right
    assert result.at_rest.published > 0
    assert result.at_rest.delivered == result.at_rest.expected > 0
    assert result.running.traffic["Publish"] > 0
    assert (result.while_running.missed > 0) <= bool(result.faults or SHIPPED[name].workload.churn)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_deliveries_are_the_same_under_every_scheme(scheme: str) -> None:
    result, _series = simulated(small(SHIPPED["plain"]), scheme)
    expected, _series = simulated(small(SHIPPED["plain"]), "simple")
    assert result.while_running == expected.while_running
    assert result.at_rest == expected.at_rest
    assert result.scheme == scheme


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_shipped_scenario_is_right_where_brokers_flood(name: str) -> None:
    scenario = msgspec.structs.replace(small(SHIPPED[name]), protocol="flood")
    result, _series = simulated(scenario)
    assert (result.protocol, result.scheme) == ("flood", None)
    assert result.is_right
    assert result.at_rest.delivered == result.at_rest.expected > 0
    # Nodes that were away ask for what they missed.
    assert set(result.running.traffic) - {"Apart", "Gone", "Missing", "Whereabouts", "Ended"} == {"Publish"}
    assert {check.outcome for check in result.checks} == {"held"}


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_checks_hold_in_every_shipped_scenario(name: str) -> None:
    result, _series = simulated(small(SHIPPED[name]))
    outcomes = {check.name: check.outcome for check in result.checks}
    assert set(outcomes) == set(promises(whole=SHIPPED[name].links.kind == "reliable"))
    assert outcomes.pop("tables") in ("held", "skipped")
    assert set(outcomes.values()) == {"held"}


def test_events_that_are_overtaken_are_counted_as_late_and_not_as_missed() -> None:
    fault = {"at_s": 0.0, "kind": "reorder", "share": 0.5}
    faults = msgspec.convert([fault, {**fault, "at_s": 29.0, "share": 0.0}], list[Fault])
    scenario = msgspec.structs.replace(small(SHIPPED["faulty"], events=400, churn=0.0), faults=faults)
    result, _series = simulated(scenario)
    assert result.while_running.late > 0
    assert result.while_running.missed == result.while_running.twice == 0
    assert result.is_right


def traced(scenario: Scenario) -> bytes:
    lines: list[bytes] = []
    Simulation(scenario, trace=Trace(lines.append)).run()
    return b"".join(lines)


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    scenario = small(SHIPPED["congested"])
    trace = traced(scenario)
    assert trace == traced(scenario)
    assert trace != traced(msgspec.structs.replace(scenario, seed=2))
    assert b'"kind":"Deliver"' in trace


def test_events_matched_ahead_go_the_same_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    # More filters than are tried one by one, and changes after the events have been matched.
    scenario = small(SHIPPED["plain"], subscriptions=300, churn=10.0)
    ahead = traced(scenario)
    monkeypatch.setattr(SharedMatching, "foresee", lambda *_arguments: None)
    assert traced(scenario) == ahead


def test_queues_show_where_brokers_take_time_and_only_there() -> None:
    crowded = small(SHIPPED["congested"], events=400)
    result, series = simulated(crowded, "flooding")
    assert result.queues.longest > 3
    assert result.queues.mean > 0
    assert max(sample.longest for sample in series.queues) <= result.queues.longest
    free = msgspec.structs.replace(crowded, service=Service())
    quick, _series = simulated(free, "flooding")
    assert (quick.queues.longest, quick.queues.mean) == (0, 0.0)
    assert quick.delays is not None
    assert result.delays is not None
    assert quick.delays.p95_ms < result.delays.p95_ms


def test_messages_wait_where_links_are_narrow() -> None:
    wide = small(SHIPPED["plain"], events=400, rate=1000.0)
    narrow = msgspec.structs.replace(wide, links=msgspec.structs.replace(wide.links, bandwidth=500))
    result, series = simulated(narrow, "flooding")
    assert result.waits is not None
    assert result.waits.longest_ms > result.waits.mean_ms > 0
    assert 0 < max(sample.wait_s for sample in series.queues) <= result.waits.longest_ms / 1000 + 1
    assert result.is_right
    free, series = simulated(wide, "flooding")
    assert free.waits is None
    assert not any(sample.wait_s for sample in series.queues)


def test_deliveries_over_time_add_up() -> None:
    result, series = simulated(small(SHIPPED["faulty"], events=120, rate=3.0))
    assert sum(part.expected for part in series.deliveries) == result.while_running.expected
    assert sum(part.missed for part in series.deliveries) == result.while_running.missed > 0
    assert series.faults[0] == (2.0, "crash")


def test_messages_take_the_time_of_their_kind_from_clients_and_from_brokers() -> None:
    model = ServiceModel(publish=1.0, subscribe=2.0, unsubscribe=4.0, other=8.0)
    wanted = as_predicate("x = 1")
    subscribe, unsubscribe = Subscribe("s", wanted), Unsubscribe("s")
    assert model.time_for(Publish(Event({"x": 1}))) == 1.0
    assert (model.time_for(subscribe), model.time_for(unsubscribe)) == (2.0, 4.0)
    assert model.time_for(Control((0, 1), 1, (subscribe, unsubscribe, Unadvertise("t")))) == 14.0
    assert model.time_for(Tick()) == 8.0


def test_service_times_can_be_measured() -> None:
    scenario = small(SHIPPED["plain"])
    model = calibrate(scenario)
    assert min(model.publish, model.subscribe, model.unsubscribe, model.other) > 0
    assert max(model.publish, model.subscribe, model.unsubscribe, model.other) < 1


def test_a_broken_scheme_is_found_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Identity):
        """Asks for every other filter only."""

        def put(self, source: Source, offer: object) -> Steps:
            steps = super().put(source, offer)  # type: ignore[arg-type]
            return steps if len(self.asked) % 2 else Steps([], steps.take_back)

    monkeypatch.setitem(SCHEMES, "identity", Forgetful)
    result, _series = simulated(small(SHIPPED["plain"]))
    assert not result.is_right
    assert result.at_rest.missed > 0


def test_what_is_lost_for_ever_is_not_called_wrong() -> None:
    scenario = small(SHIPPED["faulty"])
    scenario = msgspec.structs.replace(
        scenario, faults=[], links=msgspec.structs.replace(scenario.links, loss=0.3)
    )
    result, _series = simulated(scenario, "identity")
    assert result.at_rest.missed > 0
    assert not result.at_rest_exact
    assert result.is_right


def test_the_agendas_brute_force_agrees_with_the_filters() -> None:
    for name in ("plain", "acyclic", "general", "hybrid"):
        scenario = small(SHIPPED[name], churn=2.0)
        agenda = Agenda(scenario)
        asked = dict.fromkeys(range(agenda.standing))
        changes = list(agenda.changes)
        assert changes
        wanted = 0
        for publication in [*agenda.publications, *agenda.probes]:
            while changes and changes[0].at <= publication.at:
                change = changes.pop(0)
                del asked[change.gone]
                asked[change.come] = None
            owners = {agenda.owner[s] for s in asked if agenda.filter(s).matches(publication.event)}
            assert owners == publication.wanted_by
            assert agenda.advertisement(publication.publisher).matches(publication.event)
            wanted += len(owners)
        assert not changes
        assert wanted


def test_subscribers_near_each_other_have_similar_interests_if_placed_so() -> None:
    spreads = []
    for placement in ("uniform", "local"):
        scenario = small(SHIPPED["plain"], subscriptions=400, width=0.01)
        clients = msgspec.structs.replace(scenario.clients, subscribers=200, placement=placement)
        agenda = Agenda(msgspec.structs.replace(scenario, clients=clients))
        by_broker: dict[int, list[float]] = {}
        for subscription in range(agenda.standing):
            home = agenda.subscriber_homes[agenda.owner[subscription]]
            by_broker.setdefault(home, []).append(float(agenda._low[subscription, 0]))
        spreads.append(float(np.mean([np.std(lows) for lows in by_broker.values() if len(lows) > 2])))
    assert spreads[1] < spreads[0] / 2
