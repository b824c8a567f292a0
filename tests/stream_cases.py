"""Small streams: files of events, one for each batch; versions of a table, made without Spark; an oracle."""

import json
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.matching.matcher import Matcher
from penstock.spark.encoding import cut, encoded, joined, write_block
from penstock.spark.shipping import block_name
from penstock.spark.tables import Table, new_version, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rule = tuple[str, str]

SCHEMA = "n long, origin string, delay int"
AIRPORTS = ("JFK", "LGA", "EWR", "BOS")


def rules_of(version: int, count: int = 30) -> list[Rule]:
    """What a version holds: ids stay, filters change."""
    draw = random.Random(version)
    return [
        (f"r{at:02}", f"origin = '{draw.choice(AIRPORTS)}' and delay > {draw.randint(-10, 120)}")
        for at in range(count)
    ]


def save_version(folder: Path, rules: Sequence[Rule], *, subscribers: bool = False, blocks: int = 1) -> Table:
    """The next version of a table; the subscriber of an id is the id in capitals."""
    rows = [(*rule, rule[0].upper()) for rule in rules]
    whole = joined([encoded(rows, "sql", subscribers=subscribers)])
    written = new_version(folder)
    parts = cut(whole, blocks) if blocks > 1 else [whole]
    facts = [write_block(part, written / block_name(at)) for at, part in enumerate(parts)]
    return publish(written, folder, list(whole.columns.names), facts, subscribers=subscribers, rejected=0)


def events_of(file: int, count: int = 20) -> list[dict[str, Any]]:
    """The events of a file, numbered through all files."""
    draw = random.Random(1000 + file)
    return [
        {
            "n": file * count + at,
            "origin": draw.choice(AIRPORTS),
            "delay": draw.choice([None, *range(-5, 150)]),
        }
        for at in range(count)
    ]


def write_events(folder: Path, files: Iterable[int]) -> None:
    """Files that Spark takes in the order of their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        path = folder / f".{file}"
        path.write_text("".join(json.dumps(event) + "\n" for event in events_of(file)))
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))
        path.rename(folder / f"{file}.json")


def stream_of(spark: "SparkSession", folder: Path) -> "DataFrame":
    """The events of a folder, one file in each batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"file://{folder}")


def answers(version: int, files: Iterable[int], *, keep: bool = True) -> dict[int, list[str]]:
    """What the events of files match in a version, as a plain matcher says."""
    matcher = Matcher()
    matcher.add_many(rules_of(version))
    found = {}
    for file in files:
        for event in events_of(file):
            plain = {name: value for name, value in event.items() if value is not None}
            ids = sorted(map(str, matcher.match(plain)))
            if ids or keep:
                found[event["n"]] = ids
    return found
