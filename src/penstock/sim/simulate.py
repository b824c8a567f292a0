"""Running a scenario.

First the network is built, publishers advertise and subscribers subscribe, spread over some seconds; it
comes to rest. Then time begins: events, changes and faults come as the agenda says. When it is over and the
network is at rest again, probes are published, and must come to exactly whom brute force says. Checkers look
on all the while (`penstock.sim.checking`).
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from penstock.model.names import Key
from penstock.node.settings import Times
from penstock.oracle import Ledger, Name
from penstock.sim import results
from penstock.sim.agenda import Agenda, Change, Publication
from penstock.sim.checkers.delivered import wanting
from penstock.sim.checking import Checks
from penstock.sim.clients import Client
from penstock.sim.counts import Counts
from penstock.sim.inject import inject
from penstock.sim.links import LinkModel
from penstock.sim.matching import FEW, SharedMatching, warm_up
from penstock.sim.network import Network
from penstock.sim.observers import Observer
from penstock.sim.results import Deliveries, Phase, Result, Sample, Series, Slice
from penstock.sim.scenario import Scenario
from penstock.sim.service import ServiceModel
from penstock.sim.trace import Trace
from penstock.sim.whole.network import WholeNetwork
from penstock.wire.messages import Publish

SLICES: Final = 200
"""Parts of the time of a scenario: after each, queues are looked at and progress is reported."""

_SETTING_UP_S: Final = 10.0
"""Over this time subscriptions are spread, so that queues are not those of a stampede."""

_PROBES_S: Final = 0.001
"""Between two probes."""

_AT_ONCE: Final = 256
"""Events that are matched at a time, before they are published: fewer than the matching remembers."""

_WAITS_MAX: Final = 1000
"""Leases that are waited for queues to empty."""

_SILENCE_S: Final = 1.0
"""For how long a network without a lease has to be silent at rest."""

_MERGING: Final = ("merging", "imperfect")
"""Schemes that make filters of their own."""

_MERGED: Final = 3
"""Times as many filters as there are subscriptions under these, at most: 2.3 were seen."""

_ALLOCATED_MAX: Final = 20_000
"""Objects that are made before the collector looks for garbage."""

MakeNetwork = Callable[..., Any]
"""Makes a Network, or a WholeNetwork, which offers the same."""

Advance = Callable[[int], None]


def service_model(scenario: Scenario) -> ServiceModel:
    """The service times that a scenario gives."""
    times = msgspec.structs.asdict(scenario.service)
    kinds = ("publish", "subscribe", "unsubscribe", "other")
    return ServiceModel(**{kind: times[f"{kind}_us"] / 1e6 for kind in kinds})


def may_need_engine(scenario: Scenario) -> bool:
    """Whether there may be so many filters that the matching engine is started."""
    changes = scenario.workload.churn * scenario.duration
    filters = scenario.workload.subscriptions + scenario.clients.publishers + changes
    return filters * (_MERGED if scenario.scheme.name in _MERGING else 1) > FEW


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage seldom, and not among what is there: most of a simulation lives as long as it does."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALLOCATED_MAX, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Simulation(Observer):
    """One run of a scenario. Without `checks` no checkers look on."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        name: str = "",
        service: ServiceModel | None = None,
        trace: Trace | None = None,
        make_network: MakeNetwork | None = None,
        checks: bool = True,
    ) -> None:
        self._scenario = scenario
        self._name = name
        self._service = service or service_model(scenario)
        self._trace = trace
        self._edges = scenario.edges()
        self._agenda = Agenda(scenario)
        if make_network is None:
            make_network = whole_network if scenario.links.kind == "reliable" else Network
        self.network: Any = make_network(
            scenario.scheme.name,
            protocol=scenario.protocol,
            advertisements=scenario.scheme.advertisements,
            lease=scenario.scheme.lease_s,
            seed=scenario.seed,
            service=self._service,
        )
        self._checks = Checks(self.network) if checks else None
        self.network.observers.append(self)
        self._got: list[tuple[str, tuple[str, int], bool]] = []
        self._names: dict[int, tuple[str, int]] = {}
        """What the network calls the events that were published, by their identity here."""
        self._samples: list[Sample] = []
        self._slices = [Slice(scenario.duration * part / SLICES) for part in range(1, SLICES + 1)]
        self._faults: Counter[str] = Counter()

    def run(self, advance: Advance = lambda _slices: None) -> tuple[Result, Series]:
        """Run it all; `advance` is told of each slice."""
        if may_need_engine(self._scenario):
            # Kernels may have to be compiled, which is no part of what is simulated.
            self._warm_up()
        started = time.perf_counter()
        network, scenario = self.network, self._scenario
        if self._trace is not None:
            self._trace.begin(
                scenario=self._name,
                title=scenario.title,
                seed=scenario.seed,
                protocol=scenario.protocol,
                scheme=scenario.scheme_name,
                advertisements=scenario.scheme.advertisements,
            )
            network.observers.append(self._trace)
        setting_up = self._timed(self._set_up)
        matched = results.events_matched(network)
        running = self._timed(lambda: self._play(advance))
        counts = network.counts
        matched = results.events_matched(network) - matched
        while_running = self._judge(self._agenda.publications, self._slices)
        subscription_tables, advertisement_tables = results.table_sizes(network)
        covering_tests = results.covering_tests(network)
        exact = not network.is_lossy()
        at_rest = self._probe()
        self._check()
        made = Result(
            scenario=self._name,
            title=scenario.title,
            seed=scenario.seed,
            protocol=scenario.protocol,
            scheme=scenario.scheme_name,
            advertisements=scenario.scheme.advertisements,
            topology=scenario.topology.kind,
            brokers=scenario.topology.brokers,
            links=len(self._edges),
            subscriptions=scenario.workload.subscriptions,
            service_us=results.service_us(self._service),
            service_measured=scenario.service.measured,
            faults=dict(self._faults),
            setting_up=setting_up,
            running=running,
            while_running=while_running,
            at_rest=at_rest,
            at_rest_exact=exact,
            checks=[] if self._checks is None else self._checks.found(),
            subscription_tables=subscription_tables,
            advertisement_tables=advertisement_tables,
            queues=results.queues(counts, self._samples),
            waits=results.waits(counts),
            delays=results.delays(counts.delays),
            events_matched=max(0, matched),
            covering_tests=covering_tests,
            wall_s=time.perf_counter() - started,
            handled_per_s=running.handled / running.wall_s,
        )
        faults = [(fault.at_s, type(fault).__name__.lower()) for fault in scenario.faults]
        return made, Series(self._samples, counts.delays, self._slices, sorted(faults))

    def _warm_up(self) -> None:
        agenda = self._agenda
        some = range(min(agenda.standing, _AT_ONCE))
        events = [publication.event for publication in (agenda.publications or agenda.probes)[:_AT_ONCE]]
        warm_up([agenda.filter(number) for number in some], events)

    def _timed(self, part: Callable[[], None]) -> Phase:
        """Run a part of the simulation, and count what happens in it by itself."""
        network = self.network
        counts = network.counts = Counts()
        began, started, worked = network.now, time.perf_counter(), time.process_time()
        with _seldom_collecting():
            part()
        return results.phase(
            counts,
            virtual_s=network.now - began,
            wall_s=time.perf_counter() - started,
            cpu_s=time.process_time() - worked,
        )

    # Setting up

    def _set_up(self) -> None:
        scenario, network, agenda = self._scenario, self.network, self._agenda
        for broker in range(scenario.topology.brokers):
            network.add_broker(f"b{broker}")
        for a, b in self._edges:
            # A model each: faults change those of one link.
            network.add_link(f"b{a}", f"b{b}", self._link_model())
        for number, home in enumerate(agenda.publisher_homes):
            client = network.add_client(f"p{number}", f"b{home}")
            if scenario.scheme.advertisements:
                network.advertise(client, "a", agenda.advertisement(number))
        for number, home in enumerate(agenda.subscriber_homes):
            network.add_client(f"s{number}", f"b{home}")
        self._settle()
        began = network.now
        spread = _SETTING_UP_S / agenda.standing
        self._follow(
            (began + number * spread, self._subscribe, (number,)) for number in range(agenda.standing)
        )
        network.run(began + _SETTING_UP_S)
        self._settle()

    def _link_model(self) -> LinkModel:
        links = self._scenario.links
        return LinkModel(latency=links.latency_ms / 1000, bandwidth=links.bandwidth, loss=links.loss)

    def _subscribe(self, subscription: int) -> None:
        client = self.network.clients[f"s{self._agenda.owner[subscription]}"]
        self.network.subscribe(client, subscription, self._agenda.filter(subscription))

    def _settle(self) -> None:
        """Wait until nothing more happens, but that leases are renewed."""
        network, lease = self.network, self._scenario.scheme.lease_s
        if lease is None:
            network.run()
            return
        across = self._scenario.topology.brokers * self._scenario.links.latency_ms / 1000
        network.run(network.now + 5 * lease + 4 * across)
        for _ in range(_WAITS_MAX):
            # Some link is always busy with what renews leases, but not for long.
            narrow = max(network.backlogs(), default=0.0) > lease / 4
            if not narrow and not any(node.queue for node in network.nodes.values()):
                break
            network.run(network.now + lease)

    # Running

    def _play(self, advance: Advance) -> None:
        scenario, network, agenda = self._scenario, self.network, self._agenda
        began = network.now
        self._follow((began + c.at, self._change, (c,)) for c in agenda.changes)
        self._follow((began + p.at, self._publish, (p,)) for p in self._foreseen(agenda.publications))
        for fault in sorted(scenario.faults, key=lambda fault: fault.at_s):
            network.at(began + fault.at_s, self._inject, fault)
        for part in range(1, SLICES + 1):
            network.run(began + scenario.duration * part / SLICES)
            self._look(network.now - began)
            advance(1)
        self._settle()

    def _follow(self, actions: Iterable[tuple[float, Callable[..., object], tuple[Any, ...]]]) -> None:
        """Have things happen one after the other, without all of them in the network's agenda at once."""
        self._step(iter(actions), None)

    def _step(
        self, actions: Iterator[tuple[float, Callable[..., object], tuple[Any, ...]]], due: Any | None
    ) -> None:
        if due is not None:
            due[1](*due[2])
        following = next(actions, None)
        if following is not None:
            self.network.at(following[0], self._step, actions, following)

    def _foreseen(self, publications: list[Publication]) -> Iterator[Publication]:
        """The publications, matched some at a time."""
        for at in range(0, len(publications), _AT_ONCE):
            some = publications[at : at + _AT_ONCE]
            self.network.foresee([publication.event for publication in some])
            yield from some

    def _change(self, change: Change) -> None:
        client = self.network.clients[f"s{self._agenda.owner[change.gone]}"]
        self.network.unsubscribe(client, change.gone)
        self._subscribe(change.come)

    def _publish(self, publication: Publication) -> Publish | None:
        client = self.network.clients[f"p{publication.publisher}"]
        published: Publish | None = self.network.publish(client, publication.event)
        if published is not None:
            self._names[id(publication.event)] = published.name
        return published

    def _inject(self, fault: Any) -> None:
        self._faults[type(fault).__name__.lower()] += inject(self.network, fault)

    def _look(self, at: float) -> None:
        lengths = [len(node.queue) for node in self.network.nodes.values()]
        self._samples.append(
            Sample(at, max(lengths), sum(lengths) / len(lengths), max(self.network.backlogs(), default=0.0))
        )

    def on_deliver(  # noqa: D102 - as in Observer
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        self._got.append((client.name, publish.name, late))

    # Judging

    def _check(self) -> None:
        """Have checkers say what is wrong now that all is quiet."""
        if self._checks is not None:
            self._checks.rest(self._scenario.scheme.lease_s or _SILENCE_S)

    def _probe(self) -> Deliveries:
        """Publish events now that all is quiet; those who cannot be reached need not get them."""
        network = self.network
        network.counts = Counts()
        reachable = {name: members for members in network.components() for name in members}
        probes = []
        if self._checks is not None:
            self._checks.probe()
        for number, probe in enumerate(self._agenda.probes):
            home = f"b{self._agenda.publisher_homes[probe.publisher]}"
            near = reachable.get(home, set())
            homes = self._agenda.subscriber_homes
            wanted = frozenset(owner for owner in probe.wanted_by if f"b{homes[owner]}" in near)
            probes.append(probe._replace(wanted_by=wanted))
            network.at(network.now + number * _PROBES_S, self._publish_probe, probes[-1])
        network.run(network.now + len(probes) * _PROBES_S)
        self._settle()
        return self._judge(probes)

    def _publish_probe(self, probe: Publication) -> None:
        published = self._publish(probe)
        if published is not None and self._checks is not None:
            clients = [self.network.clients[f"s{owner}"] for owner in sorted(probe.wanted_by)]
            self._checks.expect(published, wanting(clients, probe.event))

    def _judge(self, publications: Iterable[Publication], slices: Sequence[Slice] = ()) -> Deliveries:
        """Compare what was delivered with what was wanted, in all and by when it was published."""
        ledger, made = Ledger(), Deliveries()
        slice_of: dict[Name, Slice] = {}
        for publication in publications:
            name = self._names.pop(id(publication.event), None)
            if name is None:
                made.unpublished += 1
                continue
            ledger.publish(name, [f"s{owner}" for owner in publication.wanted_by])
            if slices:
                place = min(int(publication.at / self._scenario.duration * len(slices)), len(slices) - 1)
                slice_of[name] = slices[place]
                slices[place].expected += len(publication.wanted_by)
        for who, name, late in self._got:
            ledger.deliver(who, name, late=late)
        self._got = []
        tally, found = ledger.judge()
        for finding in found:
            if finding.sort == "missed" and slices:
                slice_of[finding.name].missed += 1
        for figure in ("published", "expected", "delivered", "late", "missed", "unwanted", "twice"):
            setattr(made, figure, getattr(tally, figure))
        return made


def whole_network(
    scheme: str, *, protocol: str, advertisements: bool, lease: float | None, seed: int, **_more: Any
) -> WholeNetwork:
    """A network of whole nodes, whose brokers share what matches events."""
    matching = SharedMatching()
    times = Times() if lease is None else Times(lease=lease)
    return WholeNetwork(
        protocol,
        scheme,
        advertisements=advertisements,
        seed=seed,
        times=times,
        make_matching=lambda: matching,
    )
