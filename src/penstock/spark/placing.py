"""Where a session's workers find a table, and what they have to hold it with."""

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Literal

from penstock.errors import InputError
from penstock.spark.shipping import Shipped, Where, block_name, mapped, pack
from penstock.spark.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Share = Literal["auto", "folder", "broadcast"]


def place(session: "SparkSession", table: Table, share: Share, *, own: bool) -> Where:
    """How workers get at a table. `own`: whether it lies in a folder of this machine alone."""
    if share == "auto":
        share = "broadcast" if own and not is_local(session) else "folder"
    if share == "folder":
        return mapped(table)
    try:
        context = session.sparkContext
    except Exception:
        raise InputError(
            "this session cannot broadcast: give folder=, one that all workers have mounted"
        ) from None
    data = pack(table)
    # Not by content: who routes twice ships twice, and a hash of gigabytes is not free either.
    key = f"{context.applicationId}-{Path(table.path).name.lstrip('.')}-{os.urandom(4).hex()}"
    blocks = tuple(map(block_name, range(len(table.blocks))))
    return Shipped(key, context.broadcast(data), blocks, table.times)


def is_local(session: "SparkSession") -> bool:
    """Whether workers run on this machine, under the driver."""
    try:
        return str(session.sparkContext.master).startswith("local")
    except Exception:
        return False


def cores_of(session: "SparkSession") -> int:
    """How many tasks run at a time, as far as the session knows."""
    try:
        return max(1, int(session.sparkContext.defaultParallelism))
    except Exception:
        return 1


def memory_of(session: "SparkSession") -> int | None:
    """Bytes that a worker can hold of a table: half of this machine's where it is the worker."""
    if not is_local(session):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def scratch_folder() -> Path:
    """A folder for a table that is compiled for one job; it goes when the program ends."""
    folder = Path(mkdtemp(prefix="penstock-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "table"
