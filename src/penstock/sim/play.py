"""Playing a plan: the network runs, faults happen, checkers look on."""

from typing import Any, Final

import msgspec

from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.sim import faults
from penstock.sim.checkers.catalog import checkers_for, the
from penstock.sim.checkers.checker import Checker
from penstock.sim.checkers.delivered import Delivered, Recipients, wanting
from penstock.sim.checkers.silence import Silence
from penstock.sim.clients import Client
from penstock.sim.links import LinkModel
from penstock.sim.network import Network
from penstock.sim.plan import LATENCY, LEASE, Plan
from penstock.sim.trace import Trace

_STORM: Final = 1_000_000
"""A plan that leads to so many messages and timers does not come to rest; the longest have a tenth of it."""


class Outcome(msgspec.Struct):
    """What came of a plan."""

    wrong: list[str]
    published: int
    checked: int
    faults: int
    handled: int
    results: list[tuple[str, ...]]
    faults_by_kind: dict[str, int] = {}
    excused: dict[str, int] = {}
    """Deliveries that were not made, by why that is allowed (`penstock.sim.checkers.contract`)."""
    missed: dict[str, int] = {}
    missed_in_vain: dict[str, int] = {}
    missed_with_count: dict[str, int] = {}
    """How often clients were told `missed`, how often in vain, and how often of these because of events that
    were dropped but were for others, by the kind of fault that led to it."""


def play(plan: Plan, trace: Trace | None = None) -> Outcome:
    """Run a plan; say what was wrong."""
    if plan.links == "reliable":
        from penstock.sim.whole.play import WholePlay

        return WholePlay(plan, trace).run()
    return Player(plan, trace).run()


class Player:
    """Plays one plan: a method for each verb."""

    settling = 5 * LEASE
    """Time in which a network comes to rest after whatever happened: leases run out, and what follows."""
    rest = LEASE
    """Time for which nothing may be said at rest."""

    def __init__(self, plan: Plan, trace: Trace | None) -> None:
        self._plan = plan
        self._network = network = self._new_network()
        network.caused_max = _STORM
        self._checkers = self._new_checkers()
        self._delivered = the(Delivered, self._checkers.values())
        self._silence = the(Silence, self._checkers.values())
        self._rests = False
        self._open = False
        """Whether events may be under way that were published at rest."""
        self._faults = 0
        self._wrong: list[str] = []
        if trace is not None:
            trace.begin(
                seed=plan.seed,
                protocol=plan.protocol,
                scheme=plan.scheme if network.protocol.schemes else None,
                advertisements=plan.advertisements,
            )
            network.observers.append(trace)
        for checker in self._checkers.values():
            network.observers.append(checker)

    def _new_network(self) -> Any:
        plan = self._plan
        return Network(
            plan.scheme,
            protocol=plan.protocol,
            advertisements=plan.advertisements,
            lease=LEASE,
            linger=plan.linger,
            condenses=plan.condenses,
            seed=plan.seed,
        )

    def _new_checkers(self) -> dict[str, Checker]:
        return checkers_for(self._network.protocol, self._network)

    def _add_client(self, number: int) -> None:
        self._network.add_client(f"c{number}", f"b{self._plan.homes[number]}")

    def run(self) -> Outcome:
        """Play all steps."""
        plan, network = self._plan, self._network
        for broker in range(plan.brokers):
            network.add_broker(f"b{broker}")
        for at, (a, b) in enumerate(plan.edges):
            latency = plan.latencies[at] if at < len(plan.latencies) else LATENCY
            network.add_link(f"b{a}", f"b{b}", LinkModel(latency=latency))
        for client in range(len(plan.homes)):
            self._add_client(client)
        for step in plan.steps:
            if self._open and step.verb not in ("publish", "pass", "settle"):
                self._settle()
            getattr(self, f"_{step.verb}")(*step.arguments)
            if self._wrong:
                break
        else:
            self._settle()
        return Outcome(
            wrong=self._wrong,
            published=network.counts.published,
            checked=self._delivered.checked,
            faults=self._faults,
            handled=network.counts.handled,
            results=self._delivered.results,
        )

    # Steps

    def _settle(self) -> None:
        """Come to rest; then everything must be as it should."""
        network = self._network
        network.run(network.now + self.settling)
        self._open = False
        if network.is_lossy():
            return
        self._silence.begin()
        network.run(network.now + self.rest)
        self._rests = True
        self._wrong += self._found()

    def _found(self) -> list[str]:
        """What checkers find wrong, now that the network is at rest."""
        return [f"{type(c).__name__}: {text}" for c in self._checkers.values() for text in c.at_rest()]

    def _pass(self, seconds: float) -> None:
        self._network.run(self._network.now + seconds)

    def _publish(self, client: int, event: dict[str, Any]) -> None:
        publisher, made = self._client(client), Event(event)
        published = self._network.publish(publisher, made)
        if published is not None and self._rests:
            self._delivered.expect(published, self._expected(publisher, made))
            self._open = True

    def _expected(self, publisher: Client, event: Event) -> Recipients:
        """Who must get an event that is published at rest."""
        network = self._network
        offered = publisher.advertisements.values()
        if self._plan.advertisements and not any(predicate.matches(event) for predicate in offered):
            return {}
        near = network.component(publisher.home)
        return wanting((client for client in network.clients.values() if client.home in near), event)

    def _client(self, number: int) -> Client:
        client: Client = self._network.clients[f"c{number}"]
        return client

    def _subscribe(self, client: int, key: str, text: str) -> None:
        self._rests = False
        # A key is never used for two filters, so that a late event can be told from a wrong one.
        self._network.subscribe(self._client(client), key, as_predicate(text))

    def _unsubscribe(self, client: int, key: str) -> None:
        self._rests = False
        if key in self._client(client).subscriptions:
            self._network.unsubscribe(self._client(client), key)

    def _advertise(self, client: int, key: str, text: str) -> None:
        self._rests = False
        self._network.advertise(self._client(client), key, as_predicate(text))

    def _unadvertise(self, client: int, key: str) -> None:
        self._rests = False
        if key in self._client(client).advertisements:
            self._network.unadvertise(self._client(client), key)

    def _leave(self, client: int) -> None:
        self._rests = False
        self._network.leave(self._client(client))

    # Faults

    def _fault(self, changed: int) -> None:
        self._faults += changed
        self._rests = self._rests and not changed

    def _crash(self, broker: int) -> None:
        self._fault(faults.crash(self._network, f"b{broker}"))

    def _restart(self, broker: int, with_state: bool) -> None:
        self._fault(faults.restart(self._network, f"b{broker}", with_state=with_state))

    def _cut(self, a: int, b: int) -> None:
        self._fault(faults.cut(self._network, [(f"b{a}", f"b{b}")]))

    def _heal(self, a: int, b: int) -> None:
        self._fault(faults.heal(self._network, [(f"b{a}", f"b{b}")]))

    def _flap(self, a: int, b: int) -> None:
        self._fault(faults.flap(self._network, (f"b{a}", f"b{b}")))

    def _partition(self, side: list[int]) -> None:
        self._fault(faults.partition(self._network, {f"b{broker}" for broker in side}))

    def _degrade(self, a: int, b: int, by: faults.Degree, much: float) -> None:
        self._fault(faults.degrade(self._network, [(f"b{a}", f"b{b}")], by, much))

    def _restore(self) -> None:
        # No fault, but what was under way may still come in another order.
        self._rests = False
        faults.restore(self._network)
