"""Scenarios: what `penstock sim` simulates, as TOML.

A scenario says what the network looks like, what its clients do and what fails. Keys are those of the
classes here; one that they do not have is refused, and every mistake is told with file, table and field. The
scenarios that come with the program are in `scenarios`, and are examples to copy.
"""

import tomllib
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from penstock.broker.protocols import protocol_named
from penstock.errors import InputError, PenstockError
from penstock.mistakes import said
from penstock.routing.schemes.catalog import SCHEMES
from penstock.workloads.topologies import Edge, topology

LATENCIES_MIN: Final = 4
"""So many times the longest latency is the shortest lease: brokers renew theirs four times in it."""

Count: TypeAlias = Annotated[int, Meta(ge=1, le=10_000_000)]
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Number: TypeAlias = Annotated[int, Meta(ge=0)]
Link: TypeAlias = tuple[Number, Number]


_NOT_RELIABLE: Final = "is for plain links; those that are reliable lose, repeat and reorder nothing"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Refuses keys that it does not know."""


class Topology(_Strict, frozen=True, kw_only=True):
    """Which brokers are linked, see `penstock.workloads.topologies`; by default by the scenario's seed."""

    kind: Literal["hierarchical", "acyclic", "general", "hybrid"]
    brokers: Annotated[int, Meta(ge=1, le=100_000)]
    degree: Amount = 3.0
    fan_out: Count = 3
    cluster: Count = 5
    seed: int | None = None


class Links(_Strict, frozen=True, kw_only=True):
    """What links are like. Bandwidth is in bytes a second, 0 for no limit; loss is a share of messages.

    Of kind "plain", they carry messages between brokers' cores. Of kind "reliable", brokers and clients are
    whole nodes, as on sockets: links carry bytes, and sessions acknowledge and retransmit. `links =
    "reliable"` is short for that kind.
    """

    kind: Literal["plain", "reliable"] = "plain"

    latency_ms: Amount = 10.0
    bandwidth: Amount = 0.0
    loss: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class Service(_Strict, frozen=True, kw_only=True):
    """How long a broker takes over a message, in microseconds; others wait in its queue meanwhile.

    `measured` takes the medians of what this machine takes, and so makes a run depend on the machine.
    """

    measured: bool = False
    publish_us: Amount = 0.0
    subscribe_us: Amount = 0.0
    unsubscribe_us: Amount = 0.0
    other_us: Amount = 0.0


class Clients(_Strict, frozen=True, kw_only=True):
    """Who is there. With placement `local`, subscribers near each other have similar interests."""

    subscribers: Count
    publishers: Count
    placement: Literal["uniform", "local"] = "uniform"


class Workload(_Strict, frozen=True, kw_only=True):
    """What clients ask for and publish; see `penstock.sim.agenda`.

    Each filter is a closed interval on each of so many integer attributes, each below `domain`; `width` is
    the mean share of the domain that an interval takes. `rate` is events a second, of all publishers
    together, and `churn` unsubscriptions a second, each followed by a new subscription. A publisher
    advertises a share `advertised` of the domain of the first attribute. When all is over and the network is
    at rest, so many `probes` are published, and must come to whom brute force says.
    """

    kind: Literal["ranges"]
    subscriptions: Count
    events: Annotated[int, Meta(ge=0, le=10_000_000)]
    rate: Annotated[float, Meta(gt=0, le=1e9)]
    attributes: Annotated[int, Meta(ge=1, le=10)] = 2
    domain: Annotated[int, Meta(ge=2, le=2**53)] = 10_000
    width: Annotated[float, Meta(gt=0, le=0.5)] = 0.1
    distribution: Literal["uniform", "zipf", "gaussian"] = "uniform"
    churn: Amount = 0.0
    advertised: Annotated[float, Meta(gt=0, le=1)] = 1.0
    probes: Annotated[int, Meta(ge=0, le=1_000_000)] = 100


class SchemeChoice(_Strict, frozen=True, kw_only=True):
    """The routing scheme, see `penstock.routing.schemes`. Without a lease, state ends only with a link.

    A lease is at least four times as long as a message takes over a link. A protocol that has no schemes
    does not look at the name.
    """

    name: str = "covering"
    advertisements: bool = True
    lease_s: Annotated[float, Meta(gt=0)] | None = None


class Crash(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="crash"):
    """A broker stops; its links go down."""

    at_s: Amount
    broker: Number


class Restart(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="restart"):
    """It comes back, with the state that it had or without."""

    at_s: Amount
    broker: Number
    state: bool = False


class Cut(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="cut"):
    """A link goes down."""

    at_s: Amount
    link: Link


class Heal(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="heal"):
    """A link comes up again, or all links between one side and the rest."""

    at_s: Amount
    link: Link | None = None
    side: list[Number] | None = None


class Partition(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """All links between one side and the rest go down."""

    at_s: Amount
    side: list[Number]


class Delay(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="delay"):
    """A link takes longer from now on, or all links; 0 ends it."""

    at_s: Amount
    ms: Amount
    link: Link | None = None


class Duplicate(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="duplicate"):
    """A share of the messages on a link comes twice from now on, or on all links; 0 ends it."""

    at_s: Amount
    share: Share
    link: Link | None = None


class Reorder(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="reorder"):
    """A share of the messages on a link is overtaken from now on, or on all links; 0 ends it."""

    at_s: Amount
    share: Share
    link: Link | None = None


class Loss(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="loss"):
    """A share of the messages on a link is lost from now on, or on all links; 0 ends it."""

    at_s: Amount
    share: Share
    link: Link | None = None


Fault: TypeAlias = Crash | Restart | Cut | Heal | Partition | Delay | Duplicate | Reorder | Loss


class Scenario(_Strict, frozen=True, kw_only=True):
    """All of it. Time begins when subscriptions are in place; without a duration it ends with the events.

    The protocol is what brokers run, see `penstock.broker.protocols`.
    """

    title: str
    topology: Topology
    clients: Clients
    workload: Workload
    scheme: SchemeChoice
    protocol: str = "trees"
    links: Links = Links()
    service: Service = Service()
    faults: list[Fault] = []
    seed: int = 1
    duration_s: Annotated[float, Meta(gt=0)] | None = None

    @property
    def duration(self) -> float:
        """How long it takes, in seconds of virtual time."""
        return self.workload.events / self.workload.rate if self.duration_s is None else self.duration_s

    @property
    def scheme_name(self) -> str | None:
        """The routing scheme; None where the protocol has none."""
        return self.scheme.name if protocol_named(self.protocol).schemes else None

    def edges(self) -> list[Edge]:
        """The links between brokers."""
        net = self.topology
        seed = self.seed if net.seed is None else net.seed
        sizes: dict[str, Any] = {"degree": net.degree, "fan_out": net.fan_out, "cluster": net.cluster}
        return topology(net.kind, net.brokers, seed, **sizes)


def parse(text: str, source: str) -> Scenario:
    """A scenario from TOML; `source` is the name of the file, for errors."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not TOML: {error}") from None
    return convert(given, source)


def convert(given: dict[str, Any], source: str) -> Scenario:
    """A scenario from what TOML says; `source` is the name of the file, for errors."""
    if isinstance(given.get("links"), str):
        given = {**given, "links": {"kind": given["links"]}}
    try:
        made = msgspec.convert(given, Scenario)
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: {said(str(error), given, Scenario)}") from None
    check(made, source)
    return made


def check(made: Scenario, source: str) -> None:
    """Refuse what can only be seen from several fields together."""
    for where, what in _mistakes(made):
        raise InputError(f"{source}: {where}: {what}")


def _mistakes(made: Scenario) -> list[tuple[str, str]]:
    found = []
    try:
        protocol_named(made.protocol)
    except PenstockError as error:
        found.append(("protocol", str(error)))
    if made.scheme.name not in SCHEMES and ":" not in made.scheme.name:
        found.append(("scheme.name", f"no scheme {made.scheme.name!r}; there are {', '.join(SCHEMES)}"))
    service = made.service
    given = (service.publish_us, service.subscribe_us, service.unsubscribe_us, service.other_us)
    if service.measured and any(given):
        found.append(("service.measured", "times are either measured or given"))
    needed = made.workload.events / made.workload.rate
    if made.duration < needed:
        what = f"{made.workload.events:,} events at {made.workload.rate:g} a second take {needed:g} s"
        found.append(("duration_s", f"{what}, not {made.duration:g}"))
    if made.scheme.lease_s is None and (made.links.loss or made.faults):
        found.append(("scheme.lease_s", "what is lost is only said again under a lease; give one"))
    found += _lease_mistakes(made)
    if made.links.kind == "reliable":
        found += _reliable_mistakes(made)
    links = {frozenset(edge) for edge in made.edges()}
    for at, fault in enumerate(made.faults):
        found += [(f"faults[{at}].{field}", what) for field, what in _fault_mistakes(fault, made, links)]
    return found


def _lease_mistakes(made: Scenario) -> list[tuple[str, str]]:
    """Under a lease that ends before it can be renewed, links would never be up for long."""
    lease = made.scheme.lease_s
    delay = max((fault.ms for fault in made.faults if isinstance(fault, Delay)), default=0.0)
    longest = (made.links.latency_ms + delay) / 1000
    if lease is None or lease >= LATENCIES_MIN * longest:
        return []
    what = f"{lease:g} s is too short for links that take up to {longest:g} s"
    return [("scheme.lease_s", f"{what}; give at least {LATENCIES_MIN * longest:g}")]


def _reliable_mistakes(made: Scenario) -> list[tuple[str, str]]:
    """What only plain links have."""
    found = []
    links = made.links
    if links.loss or links.bandwidth:
        found.append(("links.loss" if links.loss else "links.bandwidth", _NOT_RELIABLE))
    if made.service != Service():
        found.append(("service", "is for plain links: whole nodes take no time but on lines"))
    for at, fault in enumerate(made.faults):
        if isinstance(fault, Duplicate | Reorder | Loss):
            found.append((f"faults[{at}].kind", _NOT_RELIABLE))
        if isinstance(fault, Restart) and fault.state:
            found.append((f"faults[{at}].state", "a process that crashed has kept nothing; leave this out"))
    return found


def _fault_mistakes(fault: Fault, made: Scenario, links: set[frozenset[int]]) -> list[tuple[str, str]]:
    found = []
    last = made.topology.brokers - 1
    if fault.at_s > made.duration:
        found.append(("at_s", f"the scenario is over after {made.duration:g} s, before {fault.at_s:g}"))
    if isinstance(fault, Crash | Restart) and fault.broker > last:
        found.append(("broker", f"there is no broker {fault.broker}; they are numbered from 0 to {last}"))
    side = getattr(fault, "side", None)
    if side and max(side) > last:
        found.append(("side", f"there is no broker {max(side)}; they are numbered from 0 to {last}"))
    link = getattr(fault, "link", None)
    if link is not None and frozenset(link) not in links:
        found.append(("link", f"brokers {link[0]} and {link[1]} are not linked"))
    if isinstance(fault, Heal) and (fault.link is None) == (fault.side is None):
        found.append(("link", "give either link or side"))
    return found


def shipped_texts() -> dict[str, str]:
    """The scenarios that come with the program as they are written, by name."""
    found = sorted(files("penstock.sim.scenarios").iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".toml"): file.read_text("utf-8")
        for file in found
        if file.name.endswith(".toml")
    }


def shipped() -> dict[str, Scenario]:
    """The scenarios that come with the program, by name."""
    return {name: parse(text, f"{name}.toml") for name, text in shipped_texts().items()}


def description(text: str) -> str:
    """What the comment says that a scenario begins with."""
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.removeprefix("#").strip() for line in comment)


def load(name: str) -> Scenario:
    """The scenario of a file, or one of those that come with the program by its name."""
    return parse(*read(name))


def read(name: str) -> tuple[str, str]:
    """The text of a scenario that `load` takes, and the name of its file."""
    path = Path(name)
    if "/" not in name and not path.suffix and not path.exists():
        known = shipped_texts()
        if name not in known:
            raise InputError(f"{name}: no such file, and no such scenario; there are {', '.join(known)}")
        return known[name], f"{name}.toml"
    try:
        return path.read_text("utf-8"), name
    except OSError as error:
        raise InputError(f"{name}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8: {error}") from None
