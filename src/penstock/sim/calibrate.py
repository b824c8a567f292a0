"""How long this machine takes over the messages of a scenario: medians of a short run.

The run has the scenario's network, subscriptions and scheme, some of its events and some changes. In a
simulation all brokers share one matcher that matches each event once and ahead of time, so that the time of
a publication is that of routing it, without matching.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import msgspec

from penstock.broker.effects import Effect
from penstock.routing.schemes.scheme import Scheme
from penstock.sim.network import Network, Node
from penstock.sim.scenario import Scenario, Service
from penstock.sim.service import ServiceModel, kind_of
from penstock.sim.simulate import Simulation
from penstock.wire.messages import Control, Message

_EVENTS: Final = 500
_CHANGES: Final = 100


class _TimedNetwork(Network):
    """Notes how long brokers take over each message, by kind."""

    def __init__(self, make_scheme: Callable[[], Scheme], **rest: Any) -> None:
        super().__init__(make_scheme, **rest)
        self.seconds: dict[str, list[float]] = {}
        self._message: Message | None = None
        self._began = 0.0

    def _handle(self, node: Node, message: Message, link: str) -> None:
        self._message = message
        self._began = time.perf_counter()
        super()._handle(node, message, link)

    def _carry_out(self, name: str, effects: list[Effect]) -> None:
        took = time.perf_counter() - self._began
        message = self._message
        if message is not None:
            bodies = message.bodies if isinstance(message, Control) else (message,)
            for body in bodies:
                self.seconds.setdefault(kind_of(body), []).append(took / len(bodies))
        super()._carry_out(name, effects)


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
    simulation = Simulation(short, make_network=_TimedNetwork)
    simulation.run()
    network = simulation.network
    if not isinstance(network, _TimedNetwork):
        return ServiceModel()
    return ServiceModel(**{kind: median(seconds) for kind, seconds in network.seconds.items()})
