"""Plans for whole nodes, drawn from a seed: clients publish all the time, and faults happen meanwhile.

A phase is a calm beginning, faults with events in between, everything mended, rest, and events of which it is
known exactly who must get them. How long faults last is drawn around the times that brokers and clients
wait: a little less and a little more than each. How long brokers keep events is longer than that: the outages
that last about as long are drawn in `penstock.sim.whole.outages`, for a share of the seeds.
"""

from random import Random
from typing import Any, Final, TypeAlias

from msgspec.structs import astuple

from penstock.node.settings import Times
from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.plan import Plan, Step
from penstock.sim.sizes import large
from penstock.sim.whole.hostile import ATTACKS
from penstock.sim.whole.outages import Outages, World, has_long_outages
from penstock.workloads import topologies

_QUICK: Final = Times(ping=1.5, lease=10.0, linger=20.0, keep=25.0)
"""Brokers that notice silence sooner, so that runs are shorter. As with the defaults, a neighbour's lease
ends later than its silence is noticed, and what was for it is kept."""

_AROUND: Final = (0.05, 0.3, 1.0, 1.4, 1.9, 2.3, 3.6, 4.4, 6.0, 8.0, 11.0, 16.0, 22.0, 35.0)
"""Seconds that faults last, about."""

_KINDS: Final[dict[str, float]] = {
    "crash": 3.0,
    "several": 1.0,
    "vanish": 0.7,
    "cut": 3.0,
    "partition": 1.5,
    "sever": 2.0,
    "pause": 2.0,
    "unplug": 2.0,
    "drop": 1.5,
    "stall": 1.0,
    "client stall": 0.7,
    "client pause": 1.0,
    "latency": 1.0,
    "lag": 0.7,
    "exit": 0.7,
    "flip": 1.0,
    "long pause": 0.6,
    "manual": 2.0,
    "manual exit": 0.7,
    "hostile": 2.5,
    "drain": 1.0,
}
"""Faults, and how often each is drawn."""

_AT_ONCE: Final = ("sever", "drop", "flip", "exit", "hostile")
"""Kinds that are over as soon as they begin, for all who have to wait for their end."""

_PAD: Final = 6_000
"""Bytes of events that fill windows, so that slow readers are noticed."""

_FLOODS: Final = 0.1
_LONG_FLOODS: Final = 1 / 3
"""The shares of plans under `flood`. Few of the others are long, so more of those are."""

_Timed: TypeAlias = tuple[float, int, Step]


def draw_whole(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"whole plan {seed}")
    size = large(seed, "reliable")
    brokers = random.choice([1, 2, 3, 3, 4, 4, 5, 6]) if size is None else size.brokers
    edges = topologies.topology(
        random.choice(topologies.KINDS), brokers, seed, degree=random.uniform(2, 4), cluster=2
    )
    clients = random.randint(2, 5) if size is None else size.clients
    homes = tuple(random.randrange(brokers) for _ in range(clients))
    gateways = tuple(client for client in range(clients) if random.random() < 0.08)
    pad = _PAD if random.random() < 0.1 else 0
    times = Times() if random.random() < 0.25 else _QUICK
    is_long = has_long_outages(seed)
    artist = _Artist(random, brokers, list(edges), homes, gateways, times, lags=bool(pad), is_long=is_long)
    return Plan(
        seed=seed,
        scheme=random.choice(list(SCHEMES)),
        protocol="flood" if random.random() < (_LONG_FLOODS if is_long else _FLOODS) else "trees",
        advertisements=random.random() < 0.8,
        brokers=brokers,
        edges=tuple(edges),
        homes=homes,
        steps=tuple(artist.steps()),
        latencies=tuple(round(random.uniform(0.0005, 0.03), 4) for _ in edges),
        links="reliable",
        others=artist.others,
        gateways=gateways,
        pad=pad,
        times=times,
    )


class _Artist:
    """Draws what happens."""

    def __init__(
        self,
        random: Random,
        brokers: int,
        edges: list[topologies.Edge],
        homes: tuple[int, ...],
        gateways: tuple[int, ...],
        times: Times,
        *,
        lags: bool,
        is_long: bool,
    ) -> None:
        """`lags`: clients are slow more often than not. `is_long`: the last phase has a long outage."""
        self._random = random
        self._brokers = brokers
        self._edges = edges
        self._homes = homes
        self._gateways = gateways
        self._times = times
        self.others = tuple(self._others(client) for client in range(len(homes)))
        self._order = 0
        self._is_long = is_long
        self._kinds = {**_KINDS, "lag": 8.0} if lags else _KINDS
        self._lag_max = 30.0 if lags else 8.0

    def _others(self, client: int) -> tuple[int, ...]:
        left = [broker for broker in range(self._brokers) if broker != self._homes[client]]
        if client in self._gateways:
            return ()
        return tuple(self._random.sample(left, min(len(left), self._random.choice([0, 0, 1, 1, 2]))))

    def steps(self) -> list[Step]:
        """All steps of a plan."""
        random = self._random
        clients = range(len(self._homes))
        steps = [Step("pass", (1.0,))]
        for client in clients:
            if random.random() < 0.7 or client == 0:
                steps.append(Step("advertise", (client, "a", self._filter(wide=True))))
            if random.random() < 0.8 or client == 1:
                steps.append(Step("subscribe", (client, "s0", self._filter(wide=True))))
        phases = random.choice([1, 1, 2])
        for phase in range(1, phases + 1):
            steps.append(Step("settle"))
            steps += self._outage() if self._is_long and phase == phases else self._phase()
            steps += [Step("mend"), Step("settle")]
            steps += [self._publish() for _ in range(random.randint(1, 4))]
        return [*steps, Step("settle")]

    def _phase(self) -> list[Step]:
        random = self._random
        timed: list[_Timed] = []
        begin = random.uniform(0.2, 1.0)
        end = begin
        for _ in range(random.choice([1, 1, 2, 2, 3])):
            at = random.choice([begin, random.uniform(begin, max(begin, end)), end + random.uniform(0, 3)])
            end = max(end, self._fault(timed, at))
        for _ in range(random.choice([0, 0, 1, 2])):
            self._put(timed, random.uniform(0, end), self._change())
        last = end + random.choice([0.5, 2.0, 6.0])
        for _ in range(random.randint(8, 40)):
            # Most of them near the beginning and the end of faults, where things go wrong.
            near = random.choice([begin, end, random.uniform(0, last)])
            self._put(timed, min(last, max(0.0, random.gauss(near, 0.7))), self._publish())
        return self._in_turn(timed, end)

    def _outage(self) -> list[Step]:
        """A phase with a long outage."""
        world = World(self._brokers, self._edges, self._homes, self._times)
        timed: list[_Timed] = []
        for at, step in Outages(self._random, world, self._change, self._publish).draw():
            self._put(timed, at, step)
        last = max(at for at, _order, _step in timed)
        return self._in_turn(timed, last + self._random.choice([0.5, 5.0, 15.0]))

    @staticmethod
    def _in_turn(timed: list[_Timed], end: float) -> list[Step]:
        """Steps in the order in which they come, and the time that passes between them and until the end."""
        steps: list[Step] = []
        now = 0.0
        for at, _order, step in sorted(timed, key=lambda one: one[:2]):
            if at > now:
                steps.append(Step("pass", (round(at - now, 4),)))
                now = at
            steps.append(step)
        return [*steps, Step("pass", (round(end - now, 4),))] if end > now else steps

    def _put(self, timed: list[_Timed], at: float, step: Step) -> None:
        self._order += 1
        timed.append((at, self._order, step))

    def _fault(self, timed: list[_Timed], at: float) -> float:
        """Draw a fault that begins at a time; return when it is over."""
        random = self._random
        kind = random.choices(list(self._kinds), list(self._kinds.values()))[0]
        lasts = random.choice(_AROUND) * random.uniform(0.9, 1.1)
        if kind == "long pause":
            lasts = longest(self._times) * random.uniform(1.1, 1.3)
        for when, step in self._steps_of(kind, lasts):
            self._put(timed, at + when, step)
        if kind == "drain":
            return at + self._times.drain + lasts
        return at + (0.0 if kind in _AT_ONCE else lasts)

    def _steps_of(self, kind: str, lasts: float) -> list[tuple[float, Step]]:
        random = self._random
        broker, client = random.randrange(self._brokers), random.randrange(len(self._homes))
        if kind in ("crash", "vanish"):
            with_memory = random.random() < 0.15
            return [(0.0, Step(kind, (broker,))), (lasts, Step("restart", (broker, with_memory)))]
        if kind == "several":
            some = random.sample(range(self._brokers), random.randint(1, self._brokers))
            return [(0.0, Step("crash", (b,))) for b in some] + [
                (lasts, Step("restart", (b, False))) for b in some
            ]
        if kind == "drain":
            return [(0.0, Step("drain", (broker, round(lasts, 2))))]
        if kind == "hostile":
            kinds = random.choices(list(ATTACKS), k=random.randint(2, 4))
            return [(at, Step("attack", (broker, kind))) for at, kind in enumerate(kinds)]
        if kind == "long pause":
            name = f"b{broker}" if random.random() < 0.5 or client in self._gateways else f"c{client}"
            return [(0.0, Step("pause", (name,))), (lasts, Step("continue", (name,)))]
        return self._steps_of_client(kind, lasts, broker, client)

    def _steps_of_client(self, kind: str, lasts: float, broker: int, client: int) -> list[tuple[float, Step]]:
        random = self._random
        home = self._homes[client]
        if kind in ("manual", "manual exit"):
            share = random.choice([0.0, 0.0, 0.3, 0.8, 1.0])
            begin = Step("manual", (client, share, round(random.uniform(0.0, 1.5 * self._times.patience), 2)))
            if kind == "manual exit":
                return [(0.0, begin), (lasts, Step("exit", (client,)))]
            # As often as not it never acknowledges what it holds.
            return [(0.0, begin), *([(lasts, Step("auto", (client,)))] if random.random() < 0.5 else [])]
        if kind == "pause":
            return [(0.0, Step("pause", (f"b{broker}",))), (lasts, Step("continue", (f"b{broker}",)))]
        if kind == "client pause" and client not in self._gateways:
            return [(0.0, Step("pause", (f"c{client}",))), (lasts, Step("continue", (f"c{client}",)))]
        if kind == "unplug":
            return [(0.0, Step("unplug", (client, home))), (lasts, Step("plug", (client, home)))]
        if kind == "exit":
            return [(0.0, Step("exit", (client,)))]
        if kind == "drop":
            return [(0.0, Step("sever", (f"c{client}", f"b{home}")))]
        if kind == "client stall":
            pair = random.choice([(f"c{client}", f"b{home}"), (f"b{home}", f"c{client}")])
            return [(0.0, Step("stall", pair)), (lasts, Step("flow", pair))]
        if kind == "lag":
            return [
                (0.0, Step("lag", (client, round(random.uniform(0.01, self._lag_max), 2)))),
                (lasts, Step("lag", (client, 0.0))),
            ]
        if not self._edges:
            return []
        return self._steps_of_link(kind, lasts)

    def _steps_of_link(self, kind: str, lasts: float) -> list[tuple[float, Step]]:
        random = self._random
        a, b = random.choice(self._edges)
        names = random.choice([(f"b{a}", f"b{b}"), (f"b{b}", f"b{a}")])
        if kind == "partition":
            side = [b for b in range(self._brokers) if random.random() < 0.5]
            cut = [edge for edge in self._edges if (edge[0] in side) != (edge[1] in side)]
            return [(0.0, Step("cut", edge)) for edge in cut] + [(lasts, Step("heal", edge)) for edge in cut]
        if kind == "sever":
            return [(0.0, Step("sever", names))]
        if kind == "flip":
            return [(0.0, Step("flip", names))]
        if kind == "stall":
            return [(0.0, Step("stall", names)), (lasts, Step("flow", names))]
        if kind == "latency":
            slow = round(random.uniform(0.05, 0.4), 3)
            return [(0.0, Step("latency", (*names, slow))), (lasts, Step("latency", (*names, 0.01)))]
        return [(0.0, Step("cut", (a, b))), (lasts, Step("heal", (a, b)))]

    def _change(self) -> Step:
        random = self._random
        client = random.randrange(len(self._homes))
        choice = random.random()
        if choice < 0.5:
            return Step("subscribe", (client, f"s{random.randrange(3)}", self._filter()))
        if choice < 0.7:
            return Step("unsubscribe", (client, f"s{random.randrange(3)}"))
        if choice < 0.9:
            return Step("advertise", (client, random.choice("ab"), self._filter(wide=True)))
        return Step("unadvertise", (client, "b"))

    def _publish(self, client: int | None = None) -> Step:
        random = self._random
        event: dict[str, Any] = {"x": random.randrange(20), "y": random.randrange(6)}
        return Step("publish", (random.randrange(len(self._homes)) if client is None else client, event))

    def _filter(self, *, wide: bool = False) -> str:
        random = self._random
        if random.random() < (0.6 if wide else 0.2):
            return "x >= 0"
        if random.random() < 0.1:
            # Not plain: a broker finds out elsewhere what it is, and goes on meanwhile.
            return f"x < {random.randrange(1, 12)} or y = {random.randrange(6)}"
        low = random.randrange(15)
        text = f"x between {low} and {low + random.choice([2, 5, 10, 20])}"
        return text if random.random() < 0.7 else f"{text} and y >= {random.randrange(3)}"


def longest(times: Times) -> float:
    """The longest time that anybody waits for anybody."""
    return max(map(float, astuple(times)))
