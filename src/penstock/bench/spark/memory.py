"""What a Python worker of Spark holds, as it tells itself after it has matched.

Linux counts each page of a process as private, or as shared with others that map the same: a table that is
mapped from files is shared by all workers of a machine, and its pages can be dropped and read again.
"""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.spark.workers import Task, run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROLLUP: Final = "/proc/self/smaps_rollup"
_MAPS: Final = "/proc/self/smaps"
_STATUS: Final = "/proc/self/status"
_FIELD: Final = re.compile(r"(\w+):\s+(\d+) kB")
_HEAD: Final = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)")
_KB: Final = 1024


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that a process has in memory."""

    pid: int
    resident: int
    """Private and shared pages."""
    proportional: int
    """The same, each shared page divided by how many processes share it."""
    private: int
    """Pages that nobody else has."""
    table: int
    """Pages of the table's files, mapped."""
    peak: int
    """The most that was resident so far."""


def weights(events: "DataFrame", task: Task | None) -> list[Weight]:
    """What workers hold after they have matched events, or (without a task) only passed them on."""
    rows = events.mapInArrow(partial(_weighed, task), "weight binary").collect()
    found = [msgspec.msgpack.decode(row.weight, type=Weight) for row in rows]
    # A worker serves many tasks: what it said last is most.
    last = {one.pid: one for one in sorted(found, key=lambda one: (one.peak, one.resident))}
    return list(last.values())


def _weighed(task: Task | None, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for _ in batches if task is None else run(task, batches):
        pass
    weight = own_weight("" if task is None else getattr(task.where, "path", ""))
    if weight is not None:
        yield pa.RecordBatch.from_arrays(
            [pa.array([msgspec.msgpack.encode(weight)], pa.binary())], ["weight"]
        )


def own_weight(table: str = "") -> Weight | None:
    """What this process holds; None where the system does not say."""
    try:
        rollup, maps, status = (Path(name).read_text() for name in (_ROLLUP, _MAPS, _STATUS))
    except OSError:
        return None
    total = _fields(rollup)
    return Weight(
        pid=os.getpid(),
        resident=total["Rss"],
        proportional=total["Pss"],
        private=total["Private_Clean"] + total["Private_Dirty"],
        table=mapped_below(maps, table) if table else 0,
        peak=_fields(status)["VmHWM"],
    )


def mapped_below(maps: str, folder: str) -> int:
    """Bytes of files below a folder that are in memory, by the lines of `smaps`."""
    found, inside = 0, False
    for line in maps.splitlines():
        head = _HEAD.fullmatch(line)
        if head:
            inside = Path(head[1]).is_relative_to(folder)
        elif inside and line.startswith("Rss:"):
            found += _fields(line)["Rss"]
    return found


def _fields(text: str) -> dict[str, int]:
    return {name: int(number) * _KB for name, number in _FIELD.findall(text)}
