"""`penstock bench spark --covering`: the filters poset of many rules, and how long each step takes.

thresholds   `amount > k`, all different: one chain in which each rule covers half of the others
alerts       the rules of `penstock.workloads.alerts`: many small chains, lists, alternatives
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.bench.spark.trial import Say
from penstock.spark.analysis.covering import blocks_for, linked, placed, poset_rows
from penstock.workloads import alerts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS: Final = 100_000
"""Rules of a file."""

_STEP: Final = 2_654_435_761
"""Scatters neighbours: prime, and so without a divisor in common with any number of rules."""

FEW: Final = 100
"""So many rules are enough for workers to start with."""

GOAL: Final = 600 / 1_000_000
"""Seconds for each rule: a million in ten minutes, on two cores."""


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """What the poset of some rules took, in seconds."""

    rules: str
    count: int
    blocks: int
    parsing_seconds: float
    """Parsing the rules, and splitting them into blocks."""
    comparing_seconds: float
    """Comparing blocks."""
    ordering_seconds: float
    """Putting all links in order, in one task."""
    links: int
    roots: int
    depth: int
    """Layers of the poset."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.parsing_seconds + self.comparing_seconds + self.ordering_seconds

    @property
    def goal_seconds(self) -> float:
        """What so many should take at most."""
        return GOAL * self.count


def _thresholds(count: int, seed: int) -> Iterator[str]:
    return (f"amount > {(number + seed) * _STEP % count}" for number in range(count))


RULES: Final[dict[str, Callable[[int, int], Iterator[str]]]] = {
    "thresholds": _thresholds,
    "alerts": alerts.texts,
}


def measure(session: "SparkSession", folder: Path, rules: str, count: int, seed: int, say: Say) -> Covered:
    """The poset of so many rules of a kind."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    say(f"{rules}: writing {count:,} rules")
    subscriptions = session.read.parquet(str(_written(folder, rules, count, seed)))
    say(f"{rules}: parsing, and splitting into blocks")
    started = time.perf_counter()
    blocks = placed(subscriptions, "sql", None)
    parsed = time.perf_counter()
    say(f"{rules}: comparing blocks")
    links = linked(blocks).localCheckpoint()
    compared = time.perf_counter()
    say(f"{rules}: putting links in order")
    (found,) = (
        poset_rows(links)
        .agg(
            F.sum(F.size("parents")).alias("links"),
            F.sum(F.col("root").cast("int")).alias("roots"),
            F.max("layer").alias("layer"),
        )
        .collect()
    )
    return Covered(
        rules=rules,
        count=count,
        blocks=blocks_for(count),
        parsing_seconds=parsed - started,
        comparing_seconds=compared - parsed,
        ordering_seconds=time.perf_counter() - compared,
        links=found.links,
        roots=found.roots,
        depth=found.layer + 1,
    )


def _written(folder: Path, rules: str, count: int, seed: int) -> Path:
    """A folder with the rules as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = folder / f"{rules}-{count}-{seed}"
    target.mkdir(exist_ok=True)
    texts = RULES[rules](count, seed)
    for first in range(0, count, _ROWS):
        some = [text for _, text in zip(range(min(_ROWS, count - first)), texts, strict=False)]
        ids = [f"r{number}" for number in range(first, first + len(some))]
        pq.write_table(pa.table({"id": ids, "filter": some}), target / f"part-{first:09d}.parquet")
    return target


def document(found: list[Covered]) -> list[dict[str, object]]:
    """What was measured, for machines."""
    return [{**msgspec.to_builtins(one), "seconds": one.seconds} for one in found]
