"""What the clients of a scenario do and when, drawn from its seed; and who must get which event.

Filters are boxes: a closed interval on each attribute. Where they lie, and where events do, follows the
workload's distribution: anywhere (uniform), mostly in the middle (gaussian), or around popular places (zipf;
then few sizes occur too, so that filters are the same now and then). With local placement, each broker has a
place in the domain, a short random step from that of the broker it was linked to first, and its subscribers'
filters lie around it.

Who must get an event is found by comparing it with the ends of all intervals that are asked for when it is
published, with no part of the filters' algebra. All of it is drawn before the simulation begins, so that the
time that this takes is not taken for the simulation's.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.sim.scenario import Scenario

_PLACES: Final = 100
"""Popular places of an attribute; the n-th is an n-th as popular as the first."""

_STEP: Final = 0.1
"""How far from each other, as a share of the domain, the places of neighbouring brokers are."""

_SPREAD: Final = 0.2
"""The share of the domain around a broker's place in which its subscribers' filters lie."""

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class Change(NamedTuple):
    """A subscription is taken back, and another of the same client takes its place."""

    at: float
    gone: int
    come: int


class Publication(NamedTuple):
    """An event, and the subscribers that want it when it is published."""

    at: float
    publisher: int
    event: Event
    wanted_by: frozenset[int]


class Agenda:
    """Everything that clients of a scenario do."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = random = np.random.default_rng(_entropy(scenario.seed))
        self._ranks = [random.permutation(_PLACES) for _ in range(scenario.workload.attributes)]
        clients, brokers = scenario.clients, scenario.topology.brokers
        self.subscriber_homes: list[int] = random.integers(0, brokers, clients.subscribers).tolist()
        self.publisher_homes: list[int] = random.integers(0, brokers, clients.publishers).tolist()
        self.standing = scenario.workload.subscriptions
        """So many subscriptions, the first ones, are there from the beginning."""
        changes = round(scenario.workload.churn * scenario.duration)
        self.owner: list[int] = (np.arange(self.standing + changes) % clients.subscribers).tolist()
        self.changes = self._draw_changes(changes)
        self._low, self._high = self._draw_boxes()
        self.advertised = self._draw_advertised()
        self.publications, self.probes = self._draw_publications()

    def filter(self, subscription: int) -> Predicate:
        """What a subscription asks for."""
        ends = zip(self._low[subscription].tolist(), self._high[subscription].tolist(), strict=True)
        return Predicate([Filter([Constraint(f"x{a}", "between", end) for a, end in enumerate(ends)])])

    def advertisement(self, publisher: int) -> Predicate:
        """What a publisher advertises."""
        return Predicate([Filter([Constraint("x0", "between", self.advertised[publisher])])])

    def _draw_changes(self, count: int) -> list[Change]:
        random = self._random
        alive = list(range(self.standing))
        changes = []
        for come, at in enumerate(np.sort(random.random(count) * self._scenario.duration), self.standing):
            place = int(random.integers(0, len(alive)))
            changes.append(Change(float(at), alive[place], come))
            self.owner[come] = self.owner[alive[place]]
            alive[place] = come
        return changes

    def _draw(self, count: int) -> tuple[Array, Array]:
        """Points of the unit cube, and how much larger than on average their intervals are."""
        random, attributes = self._random, self._scenario.workload.attributes
        shape = (count, attributes)
        distribution = self._scenario.workload.distribution
        if distribution == "uniform":
            return random.random(shape), 2 * random.random(shape)
        if distribution == "gaussian":
            return np.clip(random.normal(0.5, 0.15, shape), 0, 1), 2 * random.random(shape)
        weights = 1 / np.arange(1, _PLACES + 1)
        drawn = random.choice(_PLACES, shape, p=weights / weights.sum())
        cells = np.stack([self._ranks[a][drawn[:, a]] for a in range(attributes)], axis=1)
        return (cells + 0.5) / _PLACES, random.choice([0.5, 1.0, 1.5], shape)

    def _draw_boxes(self) -> tuple[Integers, Integers]:
        workload = self._scenario.workload
        centre, size = self._draw(len(self.owner))
        if self._scenario.clients.placement == "local":
            places = self._draw_places()
            homes = [self.subscriber_homes[owner] for owner in self.owner]
            centre = _reflected(places[homes] + (centre - 0.5) * _SPREAD)
        half = size * workload.width / 2
        low = np.clip(np.floor((centre - half) * workload.domain), 0, workload.domain - 1)
        high = np.clip(np.floor((centre + half) * workload.domain), 0, workload.domain - 1)
        return low.astype(np.int64), high.astype(np.int64)

    def _draw_places(self) -> Array:
        """A place for each broker: near those of its neighbours."""
        brokers, attributes = self._scenario.topology.brokers, self._scenario.workload.attributes
        near: dict[int, list[int]] = {broker: [] for broker in range(brokers)}
        for a, b in self._scenario.edges():
            near[a].append(b)
            near[b].append(a)
        places = np.full((brokers, attributes), np.nan)
        for start in range(brokers):
            if np.isnan(places[start, 0]):
                places[start] = self._random.random(attributes)
            left = [start]
            while left:
                at = left.pop()
                for other in near[at]:
                    if np.isnan(places[other, 0]):
                        step = self._random.normal(0, _STEP, attributes)
                        places[other] = _reflected(places[at] + step)
                        left.append(other)
        return places

    def _draw_advertised(self) -> list[tuple[int, int]]:
        """The intervals of the first attribute that publishers advertise, spread over the domain."""
        workload, publishers = self._scenario.workload, self._scenario.clients.publishers
        size = max(1, round(workload.advertised * workload.domain))
        lows = np.linspace(0, workload.domain - size, publishers).astype(np.int64).tolist()
        return [(low, low + size - 1) for low in lows]

    def _draw_publications(self) -> tuple[list[Publication], list[Publication]]:
        workload, random = self._scenario.workload, self._random
        count = workload.events + workload.probes
        times = np.sort(random.random(workload.events) * (workload.events / workload.rate)).tolist()
        publishers = random.integers(0, self._scenario.clients.publishers, count)
        points = self._draw(count)[0]
        if workload.distribution == "zipf":
            # Anywhere at the popular place, or events would only ever meet filters in the middle.
            points = points + (random.random(points.shape) - 0.5) / _PLACES
        values = np.minimum((points * workload.domain).astype(np.int64), workload.domain - 1)
        low, high = np.array(self.advertised)[publishers].T
        values[:, 0] = low + (points[:, 0] * (high - low + 1)).astype(np.int64).clip(0, high - low)
        asked = _Asked(self._low, self._high, self.owner, self.standing)
        changes = iter([*self.changes, Change(float("inf"), -1, -1)])
        following = next(changes)
        made = []
        for number in range(count):
            at = times[number] if number < workload.events else self._scenario.duration
            # A change and an event at the same time happen in this order in the simulation too.
            while following.at <= at:
                asked.change(following)
                following = next(changes)
            event = Event.from_flat({f"x{a}": value for a, value in enumerate(values[number].tolist())})
            made.append(Publication(at, int(publishers[number]), event, asked.owners(values[number])))
        return made[: workload.events], made[workload.events :]


class _Asked:
    """The intervals that are asked for at a time."""

    def __init__(self, low: Integers, high: Integers, owner: list[int], standing: int) -> None:
        self._all_low, self._all_high = low, high
        self._low, self._high = low[:standing].copy(), high[:standing].copy()
        self._all_owner = owner
        self._owner = list(owner[:standing])
        self._row = {subscription: subscription for subscription in range(standing)}

    def change(self, change: Change) -> None:
        """One goes, and another comes in its row."""
        row = self._row[change.come] = self._row.pop(change.gone)
        self._low[row], self._high[row] = self._all_low[change.come], self._all_high[change.come]
        self._owner[row] = self._all_owner[change.come]

    def owners(self, point: Integers) -> frozenset[int]:
        """Whose intervals a point lies in."""
        inside = ((self._low <= point) & (point <= self._high)).all(axis=1)
        return frozenset(self._owner[row] for row in np.flatnonzero(inside).tolist())


def _entropy(seed: int) -> list[int]:
    """What the generator is seeded with: NumPy takes no negative numbers, and scenarios do."""
    return [seed, 4] if seed >= 0 else [-seed, 4, 1]


def _reflected(points: Array) -> Array:
    """Points that left the unit cube, thrown back into it."""
    folded: Array = np.abs(points) % 2
    return np.where(folded > 1, 2 - folded, folded)
