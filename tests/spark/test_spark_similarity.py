"""Similarity: equation 3, from a history, is equation 2, by definition, at every broker of the way."""

import json
import math
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.errors import InputError
from penstock.sim.scenario import load
from penstock.sim.simulate import Simulation
from penstock.sim.trace import Trace
from penstock.spark.analysis.similarity import (
    TRACE,
    Entry,
    Line,
    entries_of,
    history_from_trace,
    history_of_batches,
    similarity,
)

TABLE_1 = [
    ("P1", "P", "S", 1),
    ("P2", "P", "S", 5),
    ("P3", "P", "S", 1),
    ("P4", "P", "S", 1),
    ("P5", "P", "S", 7),
]


class World:
    """A tree of brokers, subscriptions at some of them, and events that match some of these."""

    def __init__(self, random: Random) -> None:
        brokers = random.randint(1, 8)
        self.above = {b: random.randrange(b) for b in range(1, brokers)}
        self.homes = {f"s{n}": random.randrange(brokers) for n in range(random.randint(1, 6))}
        self.events = [
            (random.randrange(brokers), [s for s in self.homes if random.random() < 0.4])
            for _ in range(random.randint(1, 12))
        ]

    def way(self, start: int, end: int) -> list[int]:
        """The brokers from one to another: up from both until they meet."""
        ups, downs = [start], [end]
        while ups[-1] != downs[-1]:
            longer = ups if ups[-1] > downs[-1] else downs
            longer.append(self.above[longer[-1]])
        return ups[:-1] + downs[::-1]

    def lines(self, number: int) -> list[Line]:
        """What a trace says of an event: it comes to a broker once, however many are behind it."""
        home, matching = self.events[number]
        came: dict[int, int] = {}
        for name in matching:
            way = self.way(home, self.homes[name])
            came.update(zip(way[1:], way, strict=False))
        about = (f"t{home}", number)
        hops = [
            Line(*about, float(len(self.way(home, b))), f"b{b}", f"b{came[b]}", None) for b in sorted(came)
        ]
        return hops + [Line(*about, 9.0, f"b{self.homes[s]}", f"client-{s}", [s]) for s in matching]

    def counted_distance(self, number: int, name: str) -> int:
        """As the paper's brokers count: up at each hop, from zero where several subscriptions match."""
        home, matching = self.events[number]
        distance = 0
        for broker in self.way(home, self.homes[name]):
            behind = sum(broker in self.way(home, self.homes[other]) for other in matching)
            distance = 0 if behind > 1 or broker == home else distance + 1
        return distance

    def phi(self, name: str, home: int, broker: int) -> Fraction:
        """Equation 2: of what the subscription matched, the share that comes to a broker without it too."""
        matched = [m for h, m in self.events if h == home and name in m]
        still = sum(
            broker == home or any(broker in self.way(home, self.homes[other]) for other in m if other != name)
            for m in matched
        )
        return Fraction(still, len(matched))


worlds = st.randoms(use_true_random=False).map(World)


def share_within(distances: list[int], mu: int) -> Fraction:
    """Equation 3."""
    return Fraction(sum(distance <= mu for distance in distances), len(distances))


@pytest.mark.property
@given(worlds)
def test_distances_are_those_that_the_papers_brokers_count(world: World) -> None:
    for number, (_home, matching) in enumerate(world.events):
        entries = entries_of(world.lines(number))
        assert {entry.subscription: entry.distance for entry in entries} == {
            name: world.counted_distance(number, name) for name in matching
        }


@pytest.mark.property
@given(worlds)
def test_what_a_history_tells_is_what_every_broker_would_still_receive(world: World) -> None:
    distances = defaultdict(list)
    for number, (home, _matching) in enumerate(world.events):
        for entry in entries_of(world.lines(number)):
            distances[entry.subscription, home].append(entry.distance)
    for (name, home), found in distances.items():
        for mu, broker in enumerate(world.way(world.homes[name], home)):
            assert share_within(found, mu) == world.phi(name, home, broker)


@pytest.mark.property
@given(worlds, st.randoms(use_true_random=False))
def test_batches_may_end_anywhere_and_copies_that_come_later_change_nothing(
    world: World, random: Random
) -> None:
    lines: list[Line] = []
    for number in range(len(world.events)):
        mine = world.lines(number)
        mine += [line._replace(at=20.0, link="elsewhere") for line in mine if line.subscriptions is None][:2]
        random.shuffle(mine)
        lines += mine
    lines.sort(key=lambda line: (line.origin, line.number))
    names = list(Line._fields)
    kinds = [pa.string(), pa.int64(), pa.float64(), pa.string(), pa.string(), pa.list_(pa.string())]
    table = pa.table(
        [pa.array(c, k) for c, k in zip(list(zip(*lines, strict=True)) or [()] * 6, kinds, strict=True)],
        names,
    )
    found = [
        Entry(**row)
        for batch in history_of_batches(table.to_batches(max_chunksize=random.randint(1, 5)))
        for row in batch.to_pylist()
    ]
    assert Counter(found) == Counter(
        entry for number in range(len(world.events)) for entry in entries_of(world.lines(number))
    )


def test_no_lines_give_an_empty_history() -> None:
    (batch,) = history_of_batches([])
    assert batch.num_rows == 0


# On Spark


def test_table_1_of_the_paper(spark: SparkSession) -> None:
    history = spark.createDataFrame(
        TABLE_1, "publication string, publisher string, subscription string, distance int"
    )
    (row,) = similarity(history, thresholds=(0.6, 0.8, 0.9)).collect()
    assert (row.subscription, row.publisher, row.publications) == ("S", "P", 5)
    assert [tuple(step) for step in row.phi] == [(1, 0.6), (5, 0.8), (7, 1.0)]
    # The paper has 10 for 0.9, which is no distance of its table.
    assert [tuple(found) for found in row.critical] == [(0.6, 1), (0.8, 5), (0.9, 7)]


@settings(max_examples=3, deadline=None)
@given(st.lists(worlds, min_size=20, max_size=40), st.lists(st.floats(0.01, 1), min_size=1, max_size=4))
def test_similarity_is_equation_3(spark: SparkSession, many: list[World], thresholds: list[float]) -> None:
    distances: dict[tuple[str, str], list[int]] = defaultdict(list)
    rows = []
    for at, world in enumerate(many):
        for number in range(len(world.events)):
            for entry in entries_of(world.lines(number)):
                key = (f"{at}/{entry.subscription}", entry.publisher)
                distances[key].append(entry.distance)
                rows += [(number, entry.publisher, key[0], entry.distance)] * (1 + number % 2)
    schema = "publication long, publisher string, subscription string, distance int"
    found = similarity(spark.createDataFrame(rows, schema), thresholds=thresholds).collect()
    assert {(row.subscription, row.publisher) for row in found} == set(distances)
    for row in found:
        mine = distances[row.subscription, row.publisher]
        assert row.publications == len(mine)
        assert [tuple(step) for step in row.phi] == [
            (mu, float(share_within(mine, mu))) for mu in sorted(set(mine))
        ]
        least = [next(m for m in range(99) if float(share_within(mine, m)) >= t) for t in thresholds]
        assert [tuple(each) for each in row.critical] == list(zip(thresholds, least, strict=True))


def simulated(scheme: str) -> list[bytes]:
    """The trace of a small run on an acyclic overlay."""
    scenario = load("acyclic")
    scenario = msgspec.structs.replace(
        scenario,
        topology=msgspec.structs.replace(scenario.topology, brokers=8),
        clients=msgspec.structs.replace(scenario.clients, subscribers=12, publishers=3),
        workload=msgspec.structs.replace(
            scenario.workload, subscriptions=40, events=150, churn=0.0, width=0.4, probes=1
        ),
        scheme=msgspec.structs.replace(scenario.scheme, name=scheme),
    )
    lines: list[bytes] = []
    Simulation(scenario, trace=Trace(lines.append)).run()
    return lines


def test_a_trace_of_a_simulation_gives_what_its_brokers_would_still_receive(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = simulated("covering")
    (tmp_path / "trace.jsonl").write_bytes(b"".join(lines))
    history = history_from_trace(spark.read.schema(TRACE).json(str(tmp_path / "trace.jsonl"))).cache()
    found = similarity(history, thresholds=[0.5]).collect()
    ways: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    got: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for line in map(json.loads, lines):
        if line["kind"] == "Publish" and "origin" in line:
            ways[line["origin"], line["number"]][line["broker"]] = line["link"]
        elif line["kind"] == "Deliver":
            got[line["origin"], line["number"]] += [(name, line["broker"]) for name in line["subscriptions"]]
    assert history.count() == sum(map(len, got.values()))
    history.unpersist()
    assert {row.publisher for row in found} == {origin for origin, _number in got}
    assert any(step.share < 1 for row in found for step in row.phi)
    for row in found:
        mine = [key for key in got if key[0] == row.publisher and row.subscription in dict(got[key])]
        assert row.publications == len(mine)
        way = way_up(ways[mine[0]], dict(got[mine[0]])[row.subscription])
        for mu, broker in enumerate(way):
            still = sum(
                broker == way[-1]
                or any(
                    broker in way_up(ways[key], home) for name, home in got[key] if name != row.subscription
                )
                for key in mine
            )
            assert math.isclose(phi_at(row.phi, mu), still / len(mine))


def way_up(came_from: dict[str, str], broker: str) -> list[str]:
    way = [broker]
    while way[-1] in came_from:
        way.append(came_from[way[-1]])
    return way


def phi_at(phi: list[Any], mu: int) -> float:
    return max((step.share for step in phi if step.distance <= mu), default=0.0)


def test_the_scheme_of_routing_does_not_matter_and_wrong_tables_are_refused(spark: SparkSession) -> None:
    schemes = [entries_of_trace(simulated(scheme)) for scheme in ("simple", "covering", "flooding")]
    assert schemes[0] == schemes[1] == schemes[2] != Counter()
    with pytest.raises(InputError, match="publisher, subscription, distance is missing"):
        similarity(spark.createDataFrame([], "publication long"))
    with pytest.raises(InputError, match="thresholds are shares"):
        similarity(spark.createDataFrame([], "publication long"), thresholds=[0.5, 1.5])
    with pytest.raises(InputError, match="lines of a trace have origin"):
        history_from_trace(spark.createDataFrame([], TRACE).drop("origin"))


def entries_of_trace(lines: list[bytes]) -> Counter[tuple[Any, ...]]:
    """The history of a trace without Spark; times left out."""
    of_one = defaultdict(list)
    for line in map(json.loads, lines):
        if line["kind"] in ("Publish", "Deliver") and "origin" in line:
            told = {**line, "subscriptions": line.get("subscriptions")}
            of_one[line["origin"], line["number"]].append(Line(*(told[name] for name in Line._fields)))
    return Counter(entry[:-1] for some in of_one.values() for entry in entries_of(some))
