"""Faults, drawn from a seed: what goes wrong, where, when and for how long.

They are the kinds that `penstock check` draws for whole nodes. Some last a little less and some longer than
everything that brokers and clients wait for. Faults may overlap, but not at the same place.
"""

from random import Random
from typing import Final

import msgspec

from penstock.net.torture.networks import Network
from penstock.node.settings import Times

_RESUME: Final = Times().resume
"""Seconds that brokers keep a session whose connection is gone."""
_KEPT: Final = Times().resume + Times().grace
"""Seconds until they look for other ways for what was behind it."""
_PING: Final = Times().ping
"""Seconds after which brokers ask whether the other side is there."""
_PATIENCE: Final = Times().patience
"""Seconds that the others wait for a reader."""

_MOMENT: Final = (0.3, 4.0)
_AGE: Final = (20.0, 30.0)
"""Longer than every time that a broker or a client waits, but for a lease and for what is kept."""

_LENGTHS: Final[dict[str, tuple[tuple[float, float], ...]]] = {
    "kill": ((0.3, 8.0),),
    "bounce": ((0.0, 0.3),),
    "term": ((0.0, 3.0),),
    "pause": (_MOMENT, _AGE),
    "freeze": (_MOMENT, _AGE),
    "long": ((_RESUME * 1.4, _KEPT * 2),),
    "split": ((7.0, 9.0),),
    "oneway": ((1.0, 6.0), (15.0, 25.0)),
    "failover": ((2.0, _KEPT * 2),),
    "dead": ((_PING, _PING * 2.4),),
    "manual": ((_PATIENCE * 1.2, _PATIENCE * 2),),
    "hostile": ((3.0, 8.0),),
    "flip": ((0.5, 0.5),),
    "short": ((0.1, _RESUME / 2),),
    "stall": ((0.3, min(_RESUME, _PING) * 0.4),),
    "storm": ((0.05, _RESUME / 4),),
    "lag": ((1.0, 6.0),),
    "slow": ((2.0, 8.0),),
}
"""From and to, in seconds, of which one pair is drawn; short ones leave a reconnect the time it takes."""

KINDS: Final = tuple(_LENGTHS)

STRANGERS: Final = ("manual", "hostile")
"""Kinds that are clients of their own, by whom nobody else may be held up."""

ENDING: Final = ("kill", "bounce", "term")
"""Kinds that end a broker's process."""

_LEAD: Final = 3.0
"""Seconds of a round before its first fault, so that some events must arrive whatever follows."""

_APART: Final = 1.0
"""Seconds between faults at the same place, and longer than a broker takes to start again."""

_PARTING: Final = ("pause", "freeze", "split", "oneway", "long", "dead")
"""Kinds by which somebody is away for long."""

_REJOINING: Final = 6.0
"""Seconds until a broker that was started again has told and heard everything."""

_MIXED: Final = 6
"""Each round of this number, and its multiples, has kinds of both sorts."""

_TRIES: Final = 30
"""Places and times that are drawn for a fault."""


class Fault(msgspec.Struct, frozen=True):
    """Something that goes wrong, in seconds since the round began."""

    kind: str
    on: str
    """"broker", "link", "client", or "network" for several links or connections at once."""
    target: int
    begin: float
    length: float
    amount: float = 0.0
    """How much: seconds of a lag, bytes a second for a slow consumer. From 0 to 1 it chooses: which way is
    stalled, which bit is flipped, what a hostile client does."""
    side: tuple[int, ...] = ()
    """The brokers of one part of a split."""

    @property
    def end(self) -> float:
        """When it is mended."""
        return self.begin + self.length


def draw_faults(
    network: Network,
    random: Random,
    number: int,
    *,
    kinds: tuple[str, ...],
    seconds: float,
    count: int | None = None,
) -> tuple[Fault, ...]:
    """So many faults, or one to three; over the rounds every kind comes in turn."""
    if not kinds:
        return ()
    turn = list(kinds)
    Random(f"torture {network.seed} kinds").shuffle(turn)
    if count is None:
        chosen = [turn[(number - 1) % len(turn)]]
        chosen += [random.choice(turn) for _ in range(random.choice([0, 0, 1, 1, 2]))]
        latest = max(0.5, seconds / 2 - _LEAD)
    else:
        chosen = _in_turn(turn, number, count)
        latest = max(0.5, seconds - _LEAD)
    faults: list[Fault] = []
    # What ends brokers comes first: it is the hardest to find a time for.
    for kind in sorted(chosen, key=lambda kind: kind not in ENDING):
        drawn = [_fault(network, random, kind, latest) for _ in range(_TRIES)]
        free = [fault for fault in drawn if not any(_collide(fault, other) for other in faults)]
        good = [fault for fault in free if not any(_spoil(fault, other) for other in faults)]
        faults += (good or free)[:1]
    return tuple(sorted(faults, key=lambda fault: fault.begin))


def _in_turn(turn: list[str], number: int, count: int) -> list[str]:
    """The kinds of a round with many faults.

    A broker that ends while somebody is away excuses losses. So most rounds have the one or the other: then
    nothing may be lost.
    """
    unlike: tuple[str, ...] = ()
    if number % _MIXED:
        unlike = _PARTING if number % 2 else ENDING
    kinds = [kind for kind in turn if kind not in unlike] or turn
    first = number // 2 * count
    return [kinds[at % len(kinds)] for at in range(first, first + count)]


def _collide(a: Fault, b: Fault) -> bool:
    """Whether two are at the same place at the same time. Clients of their own are in nobody's way."""
    if (a.on, a.target) != (b.on, b.target) or {a.kind, b.kind} & set(STRANGERS):
        return False
    return a.begin < b.end + _APART and b.begin < a.end + _APART


def _spoil(a: Fault, b: Fault) -> bool:
    """Whether events may be lost and told by the two together: what keeps them ends while others are away."""
    if a.kind not in ENDING and b.kind not in ENDING:
        return False
    if a.kind not in (*ENDING, *_PARTING) or b.kind not in (*ENDING, *_PARTING):
        return False
    return a.begin < b.end + _REJOINING and b.begin < a.end + _REJOINING


def _fault(network: Network, random: Random, kind: str, latest: float) -> Fault:
    on, target = _target(network, random, kind)
    low, high = random.choice(_LENGTHS[kind])
    begin = round(_LEAD + random.uniform(0, latest), 2)
    length = round(random.uniform(low, high), 2)
    side: tuple[int, ...] = ()
    amount = 0.0
    if kind == "lag":
        amount = round(random.uniform(0.02, 0.3), 3)
    elif kind == "slow":
        amount = float(random.choice([16_384, 65_536]))
    elif kind in ("oneway", "flip", "hostile"):
        amount = round(random.random(), 3)
    elif kind == "split":
        side = _side(network, random)
    return Fault(kind, on, target, begin, length, amount, side)


def _target(network: Network, random: Random, kind: str) -> tuple[str, int]:
    if kind in (*ENDING, *STRANGERS, "pause"):
        return "broker", random.randrange(network.brokers)
    if kind in ("storm", "split"):
        return "network", 0
    if kind in ("slow", "dead"):
        return "client", random.choice(network.subscribers)
    if kind == "freeze":
        return "client", random.randrange(len(network.clients))
    settled = [number for number, client in enumerate(network.clients) if len(client.homes) == 1]
    if kind == "failover":
        return "client", random.choice([n for n in range(len(network.clients)) if n not in settled])
    if kind in ("short", "stall") and settled and random.random() < 0.3:
        # Only of clients that have nowhere else to go: they resume.
        return "client", random.choice(settled)
    return "link", random.randrange(len(network.links))


def _side(network: Network, random: Random) -> tuple[int, ...]:
    """Some brokers that are connected with each other: a part of the overlay, but not all of it."""
    side = {random.randrange(network.brokers)}
    for _ in range(random.randrange(network.brokers - 1)):
        beside = {b for link in network.links if set(link) & side for b in link} - side
        if len(side) + 1 < network.brokers:
            side.add(random.choice(sorted(beside)))
    return tuple(sorted(side))
