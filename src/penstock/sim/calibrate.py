"""How long this machine takes over the messages of a scenario: medians of a short run.

The run has the scenario's network, subscriptions and scheme, some of its events and some changes. In a
simulation all brokers share one matcher that matches each event once and ahead of time, so that the time of
a publication is that of routing it, without matching.
"""

import time
from statistics import median
from typing import Any, Final

import msgspec

from penstock.broker.effects import Effect
from penstock.sim.network import Network
from penstock.sim.overlay import Node
from penstock.sim.scenario import Scenario, Service
from penstock.sim.service import ServiceModel
from penstock.sim.simulate import Simulation
from penstock.wire.blocks import Block
from penstock.wire.messages import Message

_EVENTS: Final = 500
_CHANGES: Final = 100


class _TimedNetwork(Network):
    """Notes how long brokers take over each message, by what work it is."""

    def __init__(self, scheme: str, **rest: Any) -> None:
        super().__init__(scheme, **rest)
        self.seconds: dict[str, list[float]] = {}
        self._message: Message | Block | None = None
        self._began = 0.0

    def _handle(self, node: Node, message: Message | Block, link: str) -> None:
        self._message = message
        self._began = time.perf_counter()
        super()._handle(node, message, link)

    def _carry_out(self, node: Node, effects: list[Effect]) -> None:
        took = time.perf_counter() - self._began
        if self._message is not None:
            parts = self._message.parts
            for part in parts:
                self.seconds.setdefault(part.work, []).append(took / len(parts))
        super()._carry_out(node, effects)


def calibrate(scenario: Scenario) -> ServiceModel:
    """Measure the service times of a scenario on this machine."""
    workload = scenario.workload
    events = min(workload.events, _EVENTS)
    span = max(events / workload.rate, 1.0)
    short = msgspec.structs.replace(
        scenario,
        workload=msgspec.structs.replace(workload, events=events, churn=_CHANGES / span, probes=0),
        service=Service(),
        faults=[],
        duration_s=span,
    )
    simulation = Simulation(short, make_network=_TimedNetwork, checks=False)
    simulation.run()
    network = simulation.network
    if not isinstance(network, _TimedNetwork):
        return ServiceModel()
    return ServiceModel(**{kind: median(seconds) for kind, seconds in network.seconds.items()})
