"""The jobs: subscriptions, events, and how many subscriptions each event matches.

`equalities` is what all parties can do: each subscription is a conjunction of equalities on some of three
attributes. `ranges` is what only a content-based network can: intervals and prefixes. In both an event
matches about one subscription, whatever their number: some match none, some several.
"""

from functools import cached_property
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.matching.matcher import Matcher

Job = Literal["equalities", "ranges"]
Topic = tuple[str | None, str | None, str | None]
"""Region, kind and symbol that a subscription asks for; None where it leaves one out."""

TOPIC: Final = ("region", "kind", "symbol")
EVENT_BYTES: Final = 150
"""Of an event on the wire, about."""

_POOL: Final = 16_384
"""Different events; after the last the first comes again."""
_REGIONS: Final = 20
_KINDS: Final = 10
_PRICES: Final = 1_000
_LETTERS: Final = np.array(list("abcdefghij"))
_CODE: Final = 6
_FULL, _BY_REGION, _BY_KIND = 0.6, 0.25, 0.15
"""Shares of the subscriptions that ask for all three, for region and symbol, for kind and symbol."""
_SYMBOLS: Final = _FULL / (_REGIONS * _KINDS) + _BY_REGION / _REGIONS + _BY_KIND / _KINDS
"""So many symbols for each subscription make one match an event."""
_PAYLOAD_HEAD: Final = len(msgspec.msgpack.encode("payload")) + 2


class Plan(msgspec.Struct, frozen=True):
    """What a workload is made from; each process makes its own, and all make the same."""

    job: Job
    subscriptions: int
    seed: int


class Workload:
    """Subscriptions and events of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._symbols = max(1, round(plan.subscriptions * _SYMBOLS))

    @cached_property
    def topics(self) -> list[Topic]:
        """The subscriptions of the job `equalities`, all different."""
        draw = np.random.default_rng([self.plan.seed, 1])
        count = self.plan.subscriptions
        by_region, by_kind = round(count * _BY_REGION), round(count * _BY_KIND)
        symbols = self._symbols
        made: list[Topic] = [
            (f"r{n % _REGIONS}", None, f"s{n // _REGIONS}")
            for n in _sample(draw, _REGIONS * symbols, by_region)
        ]
        made += [
            (None, f"k{n % _KINDS}", f"s{n // _KINDS}") for n in _sample(draw, _KINDS * symbols, by_kind)
        ]
        for n in _sample(draw, _REGIONS * _KINDS * symbols, count - by_region - by_kind):
            region, rest = n % _REGIONS, n // _REGIONS
            made.append((f"r{region}", f"k{rest % _KINDS}", f"s{rest // _KINDS}"))
        return made

    @cached_property
    def filters(self) -> list[str]:
        """The subscriptions, in Penstock's language."""
        return self._ranges() if self.plan.job == "ranges" else [_as_filter(topic) for topic in self.topics]

    def _ranges(self) -> list[str]:
        """Half ask for a kind, half for a prefix; all for an interval of prices."""
        draw = np.random.default_rng([self.plan.seed, 2])
        count = self.plan.subscriptions
        letters = min(_CODE, max(1, len(str(count)) - 2))
        made = []
        for number in range(count):
            if number % 2:
                what, values = f"code like '{''.join(draw.choice(_LETTERS, letters))}%'", 10**letters
            else:
                what, values = f"kind = 'k{draw.integers(_KINDS)}'", _KINDS
            width = _PRICES * min(1, values / count)
            low = draw.uniform(0, _PRICES - width)
            made.append(f"{what} and price between {low:.3f} and {low + width:.3f}")
        return made

    @cached_property
    def events(self) -> list[dict[str, str | int | float]]:
        """The events, but for `seq` and `sent`, which each gets when it is published."""
        draw = np.random.default_rng([self.plan.seed, 3])
        regions, kinds = draw.integers(_REGIONS, size=_POOL), draw.integers(_KINDS, size=_POOL)
        symbols, prices = draw.integers(self._symbols, size=_POOL), draw.uniform(0, _PRICES, _POOL)
        codes = draw.choice(_LETTERS, (_POOL, _CODE))
        return [
            _padded(
                {
                    "region": f"r{region}",
                    "kind": f"k{kind}",
                    "symbol": f"s{symbol}",
                    "code": "".join(code),
                    "price": round(price, 3),
                }
            )
            for region, kind, symbol, code, price in zip(
                regions.tolist(),
                kinds.tolist(),
                symbols.tolist(),
                codes.tolist(),
                prices.tolist(),
                strict=True,
            )
        ]

    def event(self, seq: int, sent: int) -> dict[str, str | int | float]:
        """The event of this number, sent at that time."""
        return {**self.events[seq % _POOL], "seq": seq, "sent": sent}

    def matches(self) -> NDArray[np.int64]:
        """How many subscriptions each event of the pool matches, as the matcher says."""
        matcher = Matcher(enumerate(self.filters))
        matcher.warns = False
        found = matcher.match_batch(self.events)
        return np.array([len(ids) for ids in found], dtype=np.int64)


class Oracle:
    """What a party should deliver, from how many subscriptions each event of the pool matches."""

    def __init__(self, matches: NDArray[np.int64], *, once: bool) -> None:
        self._each = np.minimum(matches, 1) if once else matches
        self._before = np.concatenate(([0], np.cumsum(self._each)))

    def until(self, seq: int) -> int:
        """Deliveries of all events before this one."""
        rounds, rest = divmod(seq, len(self._each))
        return rounds * int(self._before[-1]) + int(self._before[rest])

    def of(self, first: int, count: int) -> NDArray[np.int64]:
        """Deliveries of each of so many events."""
        return self._each[np.arange(first, first + count) % len(self._each)]

    def wrong(self, first: int, count: int, delivered: NDArray[np.int64]) -> int:
        """Deliveries missing or too many, when `delivered` are the numbers of the events that came."""
        inside = delivered[(delivered >= first) & (delivered < first + count)]
        came = np.bincount(inside - first, minlength=count)
        return int(np.abs(came - self.of(first, count)).sum()) + len(delivered) - len(inside)


def _sample(draw: np.random.Generator, below: int, count: int) -> list[int]:
    chosen: list[int] = draw.choice(below, count, replace=False).tolist()
    return chosen


def _as_filter(topic: Topic) -> str:
    parts = zip(TOPIC, topic, strict=True)
    return " and ".join(f"{name} = '{value}'" for name, value in parts if value is not None)


def _padded(event: dict[str, str | int | float]) -> dict[str, str | int | float]:
    """The event with a payload that makes it as long as it should be."""
    bare = len(msgspec.msgpack.encode({**event, "seq": 2**17, "sent": 2**50}))
    return {**event, "payload": "x" * max(0, EVENT_BYTES - bare - _PAYLOAD_HEAD)}
