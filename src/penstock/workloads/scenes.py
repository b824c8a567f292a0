"""Overlays with clients, and what these do: for comparing routing schemes, from a seed.

ladder           a random tree, with and without locality of interest, for seed paper 000, section 4
core_and_edges   the 49 brokers of seed paper 002, section V.A, for its table II

Subscriptions and events are `penstock.workloads.quotes`. What the papers leave open is ours.

*The ladder.* A client has ten subscriptions, eight of them to its favourite symbol. Locality is where clients
are, and nothing else: with it, clients with the same favourite are near each other, without it they are
anywhere. Each of ten publishers, anywhere too, publishes quotes of two symbols, most of them in one half of
the prices only; some symbols have no publisher. A tenth of the subscriptions is taken back again.

*Core and edges.* The paper describes neither its subscriptions nor, in the copy that we have, its overlay:
the figure is missing. Fixed before anything was measured:

- Of 49 brokers, five, A to E, are core; three edge brokers are close to E and have the publishers, all other
  edge brokers subscribers; there are other inner brokers; triggered messages grow from A to E. We read: A to
  E are a line, inner brokers hang from them, each with three edge brokers. 5 + 11 × 4 = 49. E has one inner
  broker, A and D, the ends of what is left, have three each, B and C two.
- There is a symbol for every 210 subscriptions, so that these cover each other to about the same degree at
  any size; ranges are on a grid of 100 steps; subscriptions come in random order, each at a random edge
  broker.
- Publishers advertise everything, so that all subscriptions travel to E, as they do in the paper.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.workloads.quotes import DOMAIN, Quotes, name_of
from penstock.workloads.topologies import topology

LEAVE: Final = 0.1
"""The share of the ladder's subscriptions that is taken back."""

CORE: Final = "ABCDE"

_SYMBOLS: Final = 20
_STEPS: Final = 20
_PUBLISHERS: Final = 10
_SYMBOLS_EACH: Final = 2
_PRICES: Final = ((0, DOMAIN // 2 - 1), (DOMAIN // 2, DOMAIN - 1), (0, DOMAIN - 1))
_SUBSCRIPTIONS_EACH: Final = 10
_FAVOURITE: Final = 0.8

_INNER: Final = {"A": 3, "B": 2, "C": 2, "D": 3, "E": 1}
_EDGES_EACH: Final = 3
_SUBSCRIPTIONS_PER_SYMBOL: Final = 210
_SYMBOLS_MIN: Final = 5
_FINE_STEPS: Final = 100


class Scene(NamedTuple):
    """An overlay, its clients and what they do. Clients are numbered; so are subscriptions."""

    brokers: list[str]
    edges: list[tuple[str, str]]
    homes: list[str]
    """The broker of each client."""
    advertisements: list[tuple[int, Predicate]]
    subscriptions: list[tuple[int, Predicate]]
    unsubscriptions: list[int]
    """Numbers of subscriptions, in this order."""
    events: Callable[[], Iterable[tuple[int, Event]]]
    """Makes the events anew each time that it is called, the same ones; they may be too many to keep."""
    events_count: int

    @property
    def steps(self) -> int:
        """How often a trial reports that it has come further."""
        return len(self.subscriptions) + len(self.unsubscriptions) + self.events_count


def ladder(brokers: int, subscriptions: int, events: int, seed: int, *, locality: bool) -> Scene:
    """The overlay, its clients and what they do; locality changes nothing but where clients are."""
    random = Random(f"ladder {seed}")
    quotes = Quotes(_SYMBOLS, _STEPS, seed)
    edges = [(f"b{a}", f"b{b}") for a, b in topology("acyclic", brokers, seed)]
    offers = [
        (random.sample(range(_SYMBOLS), _SYMBOLS_EACH), random.choice(_PRICES)) for _ in range(_PUBLISHERS)
    ]
    publishers = [random.randrange(brokers) for _ in offers]
    subscribers = max(1, subscriptions // _SUBSCRIPTIONS_EACH)
    favourites = [quotes.symbol() for _ in range(subscribers)]
    anywhere = [random.randrange(brokers) for _ in favourites]
    made = []
    for number in range(subscriptions):
        client = number % subscribers
        symbol = favourites[client] if random.random() < _FAVOURITE else quotes.symbol()
        made.append((_PUBLISHERS + client, quotes.subscription(symbol)))
    leaving = random.sample(range(subscriptions), round(subscriptions * LEAVE))
    published = [_draw(number % _PUBLISHERS, offers, quotes, random) for number in range(events)]
    homes = publishers + (_near(favourites, edges, brokers) if locality else anywhere)
    return Scene(
        brokers=[f"b{i}" for i in range(brokers)],
        edges=edges,
        homes=[f"b{home}" for home in homes],
        advertisements=[(i, _advertisement(*offer)) for i, offer in enumerate(offers)],
        subscriptions=made,
        unsubscriptions=leaving,
        events=lambda: published,
        events_count=events,
    )


def _advertisement(symbols: list[int], prices: tuple[int, int]) -> Predicate:
    """What a publisher may publish: a part of the space of events."""
    names = [name_of(symbol) for symbol in symbols]
    return Predicate([Filter([Constraint("symbol", "in", names), Constraint("price", "between", prices)])])


def _draw(
    publisher: int, offers: list[tuple[list[int], tuple[int, int]]], quotes: Quotes, random: Random
) -> tuple[int, Event]:
    symbols, prices = offers[publisher]
    return publisher, quotes.quote(random.choice(symbols), *prices)


def _near(favourites: list[int], edges: list[tuple[str, str]], brokers: int) -> list[int]:
    """Homes such that clients with the same favourite are near each other: in order along a walk."""
    links: dict[int, list[int]] = {broker: [] for broker in range(brokers)}
    for a, b in edges:
        links[int(a[1:])].append(int(b[1:]))
        links[int(b[1:])].append(int(a[1:]))
    walk = list(_walk(links))
    homes = [0] * len(favourites)
    for place, client in enumerate(sorted(range(len(favourites)), key=favourites.__getitem__)):
        homes[client] = walk[place * brokers // len(favourites)]
    return homes


def _walk(links: dict[int, list[int]]) -> Iterator[int]:
    """All brokers, depth first: those next to each other in it are mostly near each other in the overlay."""
    seen, left = set(), [0]
    while left:
        broker = left.pop()
        if broker not in seen:
            seen.add(broker)
            yield broker
            left += links[broker]


def _core_overlay() -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """The links, the publishers' edge brokers, and the other edge brokers."""
    edges = list(pairwise(CORE))
    publishing: list[str] = []
    subscribing: list[str] = []
    for core, inner_brokers in _INNER.items():
        for i in range(1, inner_brokers + 1):
            inner = f"{core}{i}"
            edges.append((core, inner))
            for j in range(1, _EDGES_EACH + 1):
                edge = f"{inner}.{j}"
                edges.append((inner, edge))
                (publishing if core == "E" else subscribing).append(edge)
    return edges, publishing, subscribing


def core_and_edges(subscriptions: int, publications: int, seed: int) -> Scene:
    """The overlay, a publisher or a subscriber at each edge broker, and what they do."""
    edges, publishing, subscribing = _core_overlay()
    symbols = max(_SYMBOLS_MIN, round(subscriptions / _SUBSCRIPTIONS_PER_SYMBOL))
    random = Random(f"covering {seed}")
    quotes = Quotes(symbols, _FINE_STEPS, seed)
    everything = Predicate([Filter([Constraint("symbol", "exists")])])
    first = len(publishing)

    def events() -> Iterator[tuple[int, Event]]:
        drawn, quoted = Random(f"events {seed}"), Quotes(symbols, _FINE_STEPS, seed + 1)
        for number in range(publications):
            yield number % first, quoted.quote(drawn.randrange(symbols))

    return Scene(
        brokers=sorted({broker for edge in edges for broker in edge}),
        edges=edges,
        homes=publishing + subscribing,
        advertisements=[(publisher, everything) for publisher in range(first)],
        subscriptions=[
            (first + random.randrange(len(subscribing)), quotes.subscription(quotes.symbol()))
            for _ in range(subscriptions)
        ],
        unsubscriptions=[],
        events=events,
        events_count=publications,
    )
