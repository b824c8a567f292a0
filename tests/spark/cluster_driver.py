"""A program for a standalone cluster: routes random events in several ways and prints what came out.

python cluster_driver.py MASTER FOLDER
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock import Matcher
from penstock.spark import builder, route, save_table

ROUTE_ONLY = "PENSTOCK_ROUTE_ONLY" in os.environ
RULES = {f"r{n:03}": f"x = {n % 7} and y > {n % 11}" for n in range(60)}


def executors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where tasks run: each executor of a standalone cluster has a folder of its own."""
    for batch in batches:
        folder = str(Path.cwd())
        yield pa.RecordBatch.from_arrays([pa.array([folder] * batch.num_rows, pa.string())], ["folder"])


def found(routed: DataFrame) -> dict[int, list[str]]:
    """The ids of each event."""
    return {row.n: row.ids for row in routed.collect()}


def main(master: str, folder: str) -> None:
    """Route in every way, and compare with a matcher in this process."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.executorEnv.PYTHONPATH": os.environ["PENSTOCK_EXECUTORS_PATH"],
        # Both executors, not the one that was there first.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }
    session = builder("cluster", master, settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    events = session.range(0, 400, 1, 4).selectExpr("id as n", "id % 7 as x", "id % 13 as y")
    rules = session.createDataFrame(list(RULES.items()), "id string, filter string")
    if ROUTE_ONLY:
        # It fails before a job is started.
        route(events, rules)
    matcher = Matcher(RULES)
    expected = {}
    for row in events.collect():
        ids = matcher.match(row.asDict())
        if ids:
            expected[row.n] = ids
    told = {
        "executors": len({row.folder for row in events.mapInArrow(executors, "folder string").collect()}),
        "expected": len(expected),
        # Compiled here, of which workers see nothing: sent to them.
        "broadcast": found(route(events, rules)) == expected,
        "folder": found(route(events, rules, folder=f"{folder}/driver")) == expected,
        "executors compile": found(
            route(events, save_table(rules, f"{folder}/executors", blocks=3, compile_on="executors"))
        )
        == expected,
        "grid": found(route(events, rules, layout="2x2")) == expected,
    }
    sys.stdout.write(json.dumps(told) + "\n")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
