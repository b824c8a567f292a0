"""Plans: what is to happen in a simulation, as a list of steps that can be written down, replayed and cut
short.

A plan that is drawn from a seed goes through phases: things change and fail, with events in between; then
the network comes to rest; then events are published of which it is known exactly who must get them.
"""

from random import Random
from typing import Any, Final

import msgspec

from penstock.broker.protocols import protocol_named
from penstock.errors import InputError, PenstockError
from penstock.model.events import Event
from penstock.node.settings import Times
from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.sizes import large
from penstock.sim.whole.hostile import ATTACKS
from penstock.workloads import topologies

LEASE: Final = 2.0

LATENCY: Final = 0.01
"""Of links of which nothing else is said, in seconds."""


class Step(msgspec.Struct, array_like=True, frozen=True):
    """One thing that happens: a verb, and what it is about."""

    verb: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.verb, *map(str, self.arguments)])


class Plan(msgspec.Struct, frozen=True):
    """A network, and what happens in it."""

    seed: int
    scheme: str
    advertisements: bool
    brokers: int
    edges: tuple[tuple[int, int], ...]
    homes: tuple[int, ...]
    """The broker of each client."""
    steps: tuple[Step, ...]
    latencies: tuple[float, ...] = ()
    """Of the links; 10 ms where not given."""
    protocol: str = "trees"
    """What brokers run; one without schemes does not look at the scheme."""
    linger: float = 0.0
    condenses: bool = False
    """These two as in `penstock.broker.protocols.CoreSettings`; live brokers linger and condense."""

    links: str = "plain"
    """"plain": messages on links that may lose them. "reliable": whole nodes, and connections as bytes."""
    others: tuple[tuple[int, ...], ...] = ()
    """The other brokers that each client may go to; only on reliable links, as the rest."""
    gateways: tuple[int, ...] = ()
    """The clients that are those of a gateway, in their broker's process."""
    times: Times = Times()
    """For how long brokers wait for others."""
    pad: int = 0
    """So many characters more in each event; then windows are as small as they can be set, and fill."""

    @property
    def way(self) -> str:
        """What its runs are told apart by: the scheme, or a protocol that has none."""
        protocol = protocol_named(self.protocol)
        return self.scheme if protocol.schemes else protocol.name


_SHAPES: Final[dict[str, tuple[type | tuple[type, ...], ...]]] = {
    "advertise": (int, str, str),
    "unadvertise": (int, str),
    "subscribe": (int, str, str),
    "unsubscribe": (int, str),
    "publish": (int, dict),
    "leave": (int,),
    "crash": (int,),
    "restart": (int, bool),
    "cut": (int, int),
    "heal": (int, int),
    "flap": (int, int),
    "partition": (list,),
    "degrade": (int, int, str, (int, float)),
    "restore": (),
    "vanish": (int,),
    "pause": (str,),
    "continue": (str,),
    "sever": (str, str),
    "unplug": (int, int),
    "plug": (int, int),
    "stall": (str, str),
    "flow": (str, str),
    "flip": (str, str),
    "latency": (str, str, (int, float)),
    "lag": (int, (int, float)),
    "exit": (int,),
    "manual": (int, (int, float), (int, float)),
    "auto": (int,),
    "attack": (int, str),
    "drain": (int, (int, float)),
    "mend": (),
    "pass": ((int, float),),
    "settle": (),
}
"""What each verb is said with."""

LINKS: Final = ("plain", "reliable")
_PLAIN_ONLY: Final = ("flap", "degrade", "restore")
_RELIABLE_ONLY: Final = (
    *("vanish", "pause", "continue", "sever", "unplug", "plug"),
    *("stall", "flow", "flip", "latency", "lag", "exit", "mend"),
    *("manual", "auto", "attack", "drain"),
)
_OF_NAMES: Final = ("pause", "continue", "sever", "stall", "flow", "flip", "latency")
"""Verbs about processes by name: b0 is a broker, c0 a client."""

_OF_CLIENTS: Final = (
    "advertise",
    "unadvertise",
    "subscribe",
    "unsubscribe",
    "publish",
    "leave",
    "lag",
    "exit",
    "manual",
    "auto",
)
_DEGREES: Final = ("loss", "duplicate", "reorder", "delay")
_PASS_MAX: Final = 1e4
_BROKERS_MAX: Final = 1_000
_PAD_MAX: Final = 100_000
_FLOODS: Final = 0.05
"""The share of plans under `flood`."""
_LINGERS: Final = 0.5
"""For how long brokers linger in half of the plans, in seconds: longer than most links take."""


def check(plan: Plan) -> None:
    """Raise InputError unless a plan, from a file perhaps, makes sense."""
    brokers = range(plan.brokers)
    if not brokers or not plan.homes:
        raise InputError("there is at least one broker, and one client")
    if any(broker not in brokers for broker in [*plan.homes, *(b for edge in plan.edges for b in edge)]):
        raise InputError(f"homes and edges name brokers from 0 to {plan.brokers - 1}")
    if any(a == b for a, b in plan.edges) or len({frozenset(edge) for edge in plan.edges}) < len(plan.edges):
        raise InputError("a link is between two brokers, and there once")
    if not all(0 <= latency <= _PASS_MAX for latency in plan.latencies):
        raise InputError(f"latencies are between 0 and {_PASS_MAX:g} seconds")
    if not 0 <= plan.linger < LEASE:
        raise InputError(f"linger is from 0 to below {LEASE:g} seconds, the time of a lease")
    if plan.links not in LINKS:
        raise InputError(f"links are {' or '.join(LINKS)}, not {plan.links!r:.40}")
    _check_reliable(plan, brokers)
    foreign = _PLAIN_ONLY if plan.links == "reliable" else _RELIABLE_ONLY
    for at, step in enumerate(plan.steps):
        why = "" if step.verb not in foreign else f"is not for links that are {plan.links}"
        why = why or _mistake(step, brokers, range(len(plan.homes)))
        if why:
            raise InputError(f"step {at}: {step.verb}: {why}")


def _check_reliable(plan: Plan, brokers: range) -> None:
    """What plans for reliable links have besides, and how much there may be of anything."""
    if any(broker not in brokers for others in plan.others for broker in others):
        raise InputError(f"others name brokers from 0 to {plan.brokers - 1}")
    if any(client not in range(len(plan.homes)) for client in plan.gateways):
        raise InputError(f"gateways name clients from 0 to {len(plan.homes) - 1}")
    if len(plan.others) > len(plan.homes) or len(plan.latencies) > len(plan.edges):
        raise InputError("others are as many as homes at the most, and latencies as edges")
    if plan.brokers > _BROKERS_MAX or len(plan.homes) > _BROKERS_MAX:
        raise InputError(f"there are {_BROKERS_MAX:,} brokers and clients at the most")
    if not 0 <= plan.pad <= _PAD_MAX:
        raise InputError(f"the pad has {_PAD_MAX:,} characters at the most")


def _mistake(step: Step, brokers: range, clients: range) -> str:
    """What is wrong with a step, if anything is."""
    shape = _SHAPES.get(step.verb)
    if shape is None:
        return f"no such step; there are {', '.join(_SHAPES)}"
    if len(step.arguments) != len(shape) or not all(map(isinstance, step.arguments, shape)):
        return f"is said with {len(shape)} arguments of other types than {list(step.arguments)!r:.80}"
    if step.verb in _OF_NAMES:
        return _names_mistake(step, {f"b{n}" for n in brokers} | {f"c{n}" for n in clients})
    if step.verb in ("unplug", "plug"):
        is_there = step.arguments[0] in clients and step.arguments[1] in brokers
        return "" if is_there else "names a client or a broker that is not there"
    if step.verb in _OF_CLIENTS:
        return _client_mistake(step, clients)
    if step.verb == "pass":
        return "" if 0 <= step.arguments[0] <= _PASS_MAX else f"lasts from 0 to {_PASS_MAX:g} seconds"
    if step.verb == "degrade" and (step.arguments[2] not in _DEGREES or not 0 <= step.arguments[3] <= 1):
        return f"is by a share from 0 to 1 of {', '.join(_DEGREES)}"
    if step.verb in ("attack", "drain") and (why := _attack_mistake(step)):
        return why
    count = 1 if step.verb in ("attack", "drain") else 2
    named = step.arguments[0] if step.verb == "partition" else step.arguments[:count]
    numbers = [n for n in named if type(n) is not bool]
    return "" if all(n in brokers for n in numbers) else "names a broker that is not there"


def _names_mistake(step: Step, there: set[str]) -> str:
    named = [name for name in step.arguments if isinstance(name, str)]
    if not there.issuperset(named):
        return "names a process that is not there"
    if len(named) == 2 and (len(set(named)) < 2 or {name[0] for name in named} == {"c"}):
        return "is between two brokers, or a client and a broker"
    return _seconds_mistake(step)


def _client_mistake(step: Step, clients: range) -> str:
    if step.arguments[0] not in clients:
        return f"there is no client {step.arguments[0]}"
    if step.verb == "publish":
        try:
            Event(step.arguments[1])
        except PenstockError as error:
            return str(error)
    return _seconds_mistake(step) if step.verb in ("lag", "manual") else ""


def _attack_mistake(step: Step) -> str:
    if step.verb == "attack" and step.arguments[1] not in ATTACKS:
        return f"no such attack; there are {', '.join(ATTACKS)}"
    return _seconds_mistake(step)


def _seconds_mistake(step: Step) -> str:
    times = [time for time in step.arguments[1:] if type(time) in (int, float)]
    return "" if all(0 <= time <= _PASS_MAX for time in times) else f"takes from 0 to {_PASS_MAX:g} seconds"


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"plan {seed}")
    size = large(seed, "plain")
    brokers = random.randint(1, 9) if random.random() < 0.9 else random.randint(10, 14)
    if size is not None:
        brokers = size.brokers
    edges = topologies.topology(
        random.choice(topologies.KINDS),
        brokers,
        seed,
        degree=random.uniform(2, 4),
        cluster=random.randint(2, 4),
    )
    clients = random.randint(1, 8) if size is None else size.clients
    homes = tuple(random.randrange(brokers) for _ in range(clients))
    artist = _Artist(random, brokers, edges, len(homes))
    return Plan(
        seed=seed,
        scheme=random.choice(list(SCHEMES)),
        advertisements=random.random() < 0.6,
        brokers=brokers,
        edges=tuple(edges),
        homes=homes,
        steps=tuple(artist.steps()),
        latencies=tuple(
            0.0 if random.random() < 0.05 else round(random.uniform(0.001, 0.05), 4) for _ in edges
        ),
        protocol="flood" if random.random() < _FLOODS else "trees",
        linger=random.choice([0.0, _LINGERS]),
        condenses=random.random() < 0.5,
    )


class _Artist:
    """Draws steps that make sense one after the other."""

    def __init__(self, random: Random, brokers: int, edges: list[topologies.Edge], clients: int) -> None:
        self._random = random
        self._brokers = brokers
        self._edges = edges
        self._clients = clients
        self._faulty = random.random() < 0.7
        self._crashed: set[int] = set()
        self._cut: set[topologies.Edge] = set()

    def steps(self) -> list[Step]:
        """All steps of a plan."""
        random = self._random
        steps: list[Step] = []
        for client in range(self._clients):
            if random.random() < 0.7:
                steps.append(Step("advertise", (client, "a", self._filter(wide=True))))
            if random.random() < 0.7:
                steps.append(Step("subscribe", (client, "s0", self._filter())))
        for _phase in range(random.randint(1, 3)):
            for _ in range(random.randint(0, 14)):
                steps.append(self._change())
                if random.random() < 0.5:
                    steps.append(
                        Step("pass", (round(random.choice([0.001, 0.02, 0.3, 3.0]) * random.random(), 4),))
                    )
            if random.random() < 0.7:
                steps += self._mend()
            steps.append(Step("settle"))
            steps += [self._publish() for _ in range(random.randint(1, 8))]
            steps.append(Step("settle"))
        return steps

    def _change(self) -> Step:
        random = self._random
        client = random.randrange(self._clients)
        choice = random.random()
        if self._faulty and choice < 0.35:
            return self._fault()
        if choice < 0.55:
            return Step("subscribe", (client, f"s{random.randrange(4)}", self._filter()))
        if choice < 0.7:
            return Step("unsubscribe", (client, f"s{random.randrange(4)}"))
        if choice < 0.78:
            return Step("advertise", (client, random.choice("ab"), self._filter(wide=True)))
        if choice < 0.82:
            return Step("unadvertise", (client, random.choice("ab")))
        if choice < 0.84:
            return Step("leave", (client,))
        return self._publish()

    def _fault(self) -> Step:
        random = self._random
        verb = random.choice(["crash", "restart", "cut", "heal", "degrade", "partition", "flap"])
        if verb == "crash":
            broker = random.randrange(self._brokers)
            self._crashed.add(broker)
            return Step("crash", (broker,))
        if verb == "restart" and self._crashed:
            broker = random.choice(sorted(self._crashed))
            self._crashed.discard(broker)
            return Step("restart", (broker, random.random() < 0.5))
        if verb == "partition":
            side = [b for b in range(self._brokers) if random.random() < 0.5]
            self._cut.update(edge for edge in self._edges if (edge[0] in side) != (edge[1] in side))
            return Step("partition", (side,))
        if not self._edges:
            return self._publish()
        a, b = random.choice(self._edges)
        if verb == "heal" and self._cut:
            a, b = random.choice(sorted(self._cut))
            self._cut.discard((a, b))
            return Step("heal", (a, b))
        if verb == "degrade":
            kind = random.choice(["loss", "duplicate", "reorder", "delay"])
            much = 1.0 if kind == "loss" and random.random() < 0.3 else round(random.uniform(0.05, 0.6), 2)
            return Step("degrade", (a, b, kind, much))
        if verb == "flap":
            return Step("flap", (a, b))
        self._cut.add((a, b))
        return Step("cut", (a, b))

    def _mend(self) -> list[Step]:
        """Put everything right again, or only the links that are not cut: then nothing is said anew."""
        random = self._random
        if random.random() < 0.3:
            return [Step("restore")]
        steps = [Step("restart", (broker, random.random() < 0.5)) for broker in sorted(self._crashed)]
        steps += [Step("heal", edge) for edge in sorted(self._cut)]
        self._crashed, self._cut = set(), set()
        return [*steps, Step("restore")]

    def _publish(self) -> Step:
        random = self._random
        event: dict[str, Any] = {"x": random.randrange(20)}
        if random.random() < 0.7:
            event["y"] = random.randrange(6)
        if random.random() < 0.3:
            event["s"] = random.choice(["a", "ab", "b"])
        return Step("publish", (random.randrange(self._clients), event))

    def _filter(self, *, wide: bool = False) -> str:
        random = self._random
        parts = []
        if random.random() < (0.5 if wide else 0.9):
            low = random.randrange(20)
            parts.append(f"x between {low} and {low + random.choice([0, 2, 5, 10, 20])}")
        if random.random() < 0.3:
            low = random.randrange(6)
            parts.append(f"y between {low} and {low + random.randrange(4)}")
        if random.random() < 0.1:
            parts.append(random.choice(["s = 'a'", "s like 'a%'", "s is null", "s in ('a', 'b')"]))
        text = " and ".join(parts) or random.choice(["x is not null", "y >= 0 or x >= 0", "x >= 0"])
        if random.random() < 0.1:
            text = f"({text}) or y = {random.randrange(6)}"
        return text
