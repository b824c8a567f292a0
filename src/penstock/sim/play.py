"""Playing a plan: the network runs, faults happen, checkers look on."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.routing.schemes.catalog import scheme_named
from penstock.routing.schemes.scheme import Scheme
from penstock.sim.checkers.checker import Checker, Published
from penstock.sim.checkers.delivered import Delivered
from penstock.sim.checkers.loops import Loops
from penstock.sim.checkers.once import Once
from penstock.sim.checkers.order import Order
from penstock.sim.checkers.silence import Silence
from penstock.sim.checkers.tables import Tables
from penstock.sim.checkers.trees import Ways
from penstock.sim.links import LinkModel
from penstock.sim.network import Network
from penstock.sim.plan import LATENCY, LEASE, Plan
from penstock.sim.trace import Trace

_SETTLING: Final = 5 * LEASE
"""Time in which a network comes to rest after whatever happened: leases run out, and what follows."""


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


def play(plan: Plan, make_scheme: Callable[[], Scheme] | None = None, trace: Trace | None = None) -> Outcome:
    """Run a plan under its scheme, or another; say what was wrong."""
    return _Play(plan, make_scheme or scheme_named(plan.scheme), trace).run()


class _Play:
    def __init__(self, plan: Plan, make_scheme: Callable[[], Scheme], trace: Trace | None) -> None:
        self._plan = plan
        self._trace = trace
        self._network = network = Network(
            make_scheme, advertisements=plan.advertisements, lease=LEASE, seed=plan.seed
        )
        network.caused_max = _STORM
        self._delivered = Delivered(network)
        self._silence = Silence(network)
        self._checkers: list[Checker] = [
            self._delivered,
            Once(network),
            Order(network),
            Loops(network),
            Ways(network),
            Tables(network),
            self._silence,
        ]
        self._rests = False
        self._open = False
        """Whether events may be under way that were published at rest."""
        self._faults = 0
        self._wrong: list[str] = []
        network.on_deliver = self._on_deliver
        network.on_carry = self._on_carry
        if trace is not None:
            trace.begin(seed=plan.seed, scheme=plan.scheme, advertisements=plan.advertisements)
            trace.watch(network)

    def run(self) -> Outcome:
        """Play all steps."""
        plan, network = self._plan, self._network
        for broker in range(plan.brokers):
            network.add_broker(f"b{broker}")
        for at, (a, b) in enumerate(plan.edges):
            latency = plan.latencies[at] if at < len(plan.latencies) else LATENCY
            network.add_link(f"b{a}", f"b{b}", LinkModel(latency=latency))
        for client, home in enumerate(plan.homes):
            network.add_client(f"c{client}", f"b{home}")
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

    def _on_deliver(self, *arguments: Any) -> None:
        if self._trace is not None:
            self._trace.delivered(*arguments)
        for checker in self._checkers:
            checker.on_deliver(*arguments[:3])

    def _on_carry(self, *arguments: Any) -> None:
        for checker in self._checkers:
            checker.on_carry(*arguments)

    # Steps

    def _settle(self) -> None:
        """Come to rest; then everything must be as it should."""
        network = self._network
        network.run(network.now + _SETTLING)
        self._open = False
        if network.is_lossy():
            return
        self._silence.begin()
        network.run(network.now + LEASE)
        self._rests = True
        self._wrong += [f"{type(c).__name__}: {text}" for c in self._checkers for text in c.at_rest()]

    def _pass(self, seconds: float) -> None:
        self._network.run(self._network.now + seconds)

    def _publish(self, client: int, event: dict[str, Any]) -> None:
        network = self._network
        publisher = network.clients[f"c{client}"]
        made = Event(event)
        allowed = not self._plan.advertisements or any(
            predicate.matches(made) for predicate in publisher.advertisements.values()
        )
        expected: dict[str, frozenset[Key]] = {}
        if allowed and self._rests:
            near = network.component(publisher.home)
            for other in network.clients.values():
                keys = frozenset(key for key, p in other.subscriptions.items() if p.matches(made))
                if other.home in near and keys:
                    expected[other.name] = keys
        published = Published(publisher.name, made, self._rests, expected)
        if network.is_running(publisher.home):
            for checker in self._checkers:
                checker.on_publish(published)
            network.publish(publisher, made)
            self._open = self._open or self._rests

    def _subscribe(self, client: int, key: str, text: str) -> None:
        self._rests = False
        # A key is never used for two filters, so that a late event can be told from a wrong one.
        self._network.subscribe(self._network.clients[f"c{client}"], key, as_predicate(text))

    def _unsubscribe(self, client: int, key: str) -> None:
        self._rests = False
        known = self._network.clients[f"c{client}"]
        if key in known.subscriptions:
            self._network.unsubscribe(known, key)

    def _advertise(self, client: int, key: str, text: str) -> None:
        self._rests = False
        self._network.advertise(self._network.clients[f"c{client}"], key, as_predicate(text))

    def _unadvertise(self, client: int, key: str) -> None:
        self._rests = False
        known = self._network.clients[f"c{client}"]
        if key in known.advertisements:
            self._network.unadvertise(known, key)

    def _leave(self, client: int) -> None:
        self._rests = False
        self._network.leave(self._network.clients[f"c{client}"])

    def _fault(self) -> None:
        self._rests = False
        self._faults += 1

    def _crash(self, broker: int) -> None:
        if self._network.is_running(f"b{broker}"):
            self._fault()
            self._network.crash(f"b{broker}")

    def _restart(self, broker: int, with_state: bool) -> None:
        if not self._network.is_running(f"b{broker}"):
            self._fault()
            self._network.restart(f"b{broker}", with_state=with_state)

    def _cut(self, a: int, b: int) -> None:
        if self._has(a, b) and self._network.direction(f"b{a}", f"b{b}").up:
            self._fault()
            self._network.cut(f"b{a}", f"b{b}")

    def _heal(self, a: int, b: int) -> None:
        if self._has(a, b) and not self._network.direction(f"b{a}", f"b{b}").up:
            self._fault()
            self._network.heal(f"b{a}", f"b{b}")

    def _flap(self, a: int, b: int) -> None:
        self._cut(a, b)
        self._heal(a, b)

    def _partition(self, side: list[int]) -> None:
        for a, b in self._plan.edges:
            if (a in side) != (b in side):
                self._cut(a, b)

    def _degrade(self, a: int, b: int, kind: str, much: float) -> None:
        if self._has(a, b):
            self._fault()
            model = self._network.direction(f"b{a}", f"b{b}").model
            self._network.set_model(f"b{a}", f"b{b}", msgspec.structs.replace(model, **{kind: much}))

    def _restore(self) -> None:
        self._rests = False
        for a, b in self._plan.edges:
            model = LinkModel(latency=self._network.direction(f"b{a}", f"b{b}").model.latency)
            self._network.set_model(f"b{a}", f"b{b}", model)

    def _has(self, a: int, b: int) -> bool:
        return (a, b) in self._plan.edges or (b, a) in self._plan.edges
