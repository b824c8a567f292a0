"""What is routed: the rules of `penstock.workloads.rules`, of so many codes that an event matches about one.

Filters are text, as users give them; for joins they are columns as well. Events are made by Spark from their
number and a seed alone, so that every run, on however many cores, has the same rows.
"""

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from penstock.errors import InputError
from penstock.workloads import rules, tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

FILES: Final = 16
"""Files of events: half of them are half of the events, and any number of cores up to this has its share."""

_FEWEST: Final = rules.INCLUDED + rules.EXCLUDED
_EVENT_BYTES: Final = 48
_FILTER_BYTES: Final = 600
"""On disk, rather too many; filters as text, as columns, and twice compiled."""
_EPOCH: Final = 1_700_000_000
_DAY: Final = 86_400


class Rows(NamedTuple):
    """Events of a seed: how many, and how many codes each of their attributes has."""

    events: int
    values: int
    seed: int

    @property
    def name(self) -> str:
        """What tells them from others."""
        return f"events-{self.events}-{self.values}-{self.seed}"


def values_for(filters: int) -> int:
    """How many codes make so many filters match about one event each."""
    return max(_FEWEST, round(math.sqrt(filters * rules.INCLUDED)))


def check_space(folder: Path, events: int, filters: list[int]) -> None:
    """Raise InputError unless there is room for events and filters of all sizes."""
    needed = _EVENT_BYTES * events * len(filters) + _FILTER_BYTES * sum(filters)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{folder}: about {needed / 1e9:,.1f} GB are needed, and {free / 1e9:,.1f} GB are free: "
            "give another --folder, or a --scale"
        )


# Events


def write_events(session: "SparkSession", rows: Rows, folder: Path) -> list[Path]:
    """The files of events, in order; they are made unless they are there."""
    target = folder / rows.name
    # Spark writes this file last.
    if not (target / "_SUCCESS").exists():
        _events(session, rows).write.mode("overwrite").parquet(str(target))
    return sorted(target.glob("part-*.parquet"))


def _events(session: "SparkSession", rows: Rows) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    known = rules.texts(rows.values)
    numbers = session.range(0, rows.events, 1, FILES)

    def drawn(what: int, below: int) -> "Column":
        return F.pmod(F.xxhash64(F.col("id"), F.lit(rows.seed), F.lit(what)), F.lit(below))

    columns = [F.col("id")]
    for at, name in enumerate(rules.ATTRIBUTES):
        own = known[at * rows.values : (at + 1) * rows.values]
        # A literal, once Spark has simplified it, of which one is picked.
        picked = F.element_at(F.split(F.lit(" ".join(own)), " "), (drawn(at, rows.values) + 1).cast("int"))
        columns.append(picked.alias(name))
    columns.append((drawn(-1, 1_000_000) / 1_000).alias("latency_ms"))
    columns.append(F.timestamp_seconds(drawn(-2, _DAY) + _EPOCH).alias("at"))
    return numbers.select(*columns)


def read_events(session: "SparkSession", files: list[Path]) -> "DataFrame":
    """Events of some files."""
    return session.read.parquet(*map(str, files))


def first_events(session: "SparkSession", files: list[Path], count: int, folder: Path) -> list[Path]:
    """Files with so many of the events, spread over all of them."""
    target = folder / f"few-{count}"
    few = read_events(session, files).where(f"id < {count}").repartition(FILES)
    few.write.mode("overwrite").parquet(str(target))
    return sorted(target.glob("part-*.parquet"))


# Filters


def ids(count: int) -> "pa.Array":
    """The ids of so many filters."""
    return tables.ids(np.arange(count), text=True)


def as_texts(made: rules.Rules) -> "pa.Table":
    """Filters as (id, filter), in SQL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = as_columns(made)

    def quoted(name: str) -> "pa.Array":
        return pc.binary_join_element_wise("'", columns[name], "'", "")

    def listed(name: str, width: int) -> "pa.Array":
        return pc.binary_join_element_wise(*(quoted(f"{name}_{at}") for at in range(width)), ", ")

    text = pc.binary_join_element_wise(
        columns["equal_name"],
        pc.binary_join_element_wise("= ", quoted("equal_code"), ""),
        "and",
        columns["listed_name"],
        pc.binary_join_element_wise("in (", listed("listed", rules.INCLUDED), ")", ""),
        "and",
        columns["excluded_name"],
        pc.binary_join_element_wise("not in (", listed("excluded", rules.EXCLUDED), ")", ""),
        " ",
    )
    return pa.table({"id": columns["id"], "filter": text})


def as_columns(made: rules.Rules) -> "pa.Table":
    """Filters as columns: for each of the three attributes its name and number, and the codes asked for."""
    import pyarrow as pa

    names, codes = pa.array(rules.ATTRIBUTES), pa.array(rules.texts(made.values))
    columns = {"id": ids(len(made.equal))}
    asked = {
        "equal": {"equal_code": made.equal},
        "listed": {f"listed_{at}": made.included[:, at] for at in range(rules.INCLUDED)},
        "excluded": {f"excluded_{at}": made.excluded[:, at] for at in range(rules.EXCLUDED)},
    }
    for place, (kind, wanted) in enumerate(asked.items()):
        attribute = made.attribute[:, place]
        columns[f"{kind}_name"] = names.take(pa.array(attribute))
        columns[f"{kind}_at"] = pa.array(attribute.astype(np.int32))
        for name, value in wanted.items():
            columns[name] = codes.take(pa.array(attribute * made.values + value))
    return pa.table(columns)


def write_filters(filters: int, values: int, seed: int, folder: Path) -> tuple[Path, Path]:
    """Filters as text and as columns, a Parquet file each."""
    import pyarrow.parquet as pq

    made = rules.filters(filters, seed, values)
    texts, columns = (
        folder / f"{kind}-{filters}-{values}-{seed}.parquet" for kind in ("filters", "filter-columns")
    )
    # Some row groups, so that all cores have something to parse.
    pq.write_table(as_texts(made), texts, row_group_size=max(1, -(-filters // FILES)))
    pq.write_table(as_columns(made), columns)
    return texts, columns
