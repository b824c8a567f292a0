"""The Spark program that the demo starts beside its network.

    python -m penstock.cli.demo_stream FOLDER COLUMNS

It is a process of its own, with a JVM below it. Lines on its standard input say what to do, and lines of JSON
on its standard output (see `Message`) what has been done:

    subscribe URLS    subscribe to a broker, and route whatever comes      → Ready
    add               save a second version of the table                   → Saved
    stop              end; so does the end of the input                    → nothing more

Each micro-batch is told of (`Batch`) when its results are in their folder, and the first error (`Failed`).
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from penstock.cli.demo_scene import ROW
from penstock.spark.sinks import BATCH, ParquetSink
from penstock.spark.versions_log import HOME, Home, VersionsLog
from penstock.workloads.flights import Subscription, subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ADDED: Final = Subscription("boston-all", "Boston Newcomer", "dest = 'BOS'")
"""What the second version of the table has besides the hundred."""

IDS: Final = "ids"
ROUTED: Final = "routed"
"""The folder of the results, in the one that is given."""

_TRIGGER: Final = "1 second"
_BATCH_MAX: Final = 5_000
"""Flights of a batch: on a machine that falls behind, too, they come one after the other."""
_WAITS: Final = "Waiting for"
"""What Spark says of a query that has asked its source, and goes on to the next trigger."""
_POLL: Final = 0.05
_ERROR_MAX: Final = 1_000
"""Characters of an error that are told; all of it is on standard error."""

Tell = Callable[["Message"], None]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The broker knows the subscription."""


class Saved(msgspec.Struct, frozen=True, tag=True):
    """There is a version of the table."""

    version: int
    ids: int


class Batch(msgspec.Struct, frozen=True, tag=True):
    """A batch has been routed, and its results are there."""

    batch: int
    version: int
    """By the log, which was written before anything was matched."""
    flights: int
    wanted: int
    """How many of them match something."""
    matches: int
    seconds: float
    """For reading, matching and writing."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It does not go on."""

    error: str


Message = Ready | Saved | Batch | Failed


def batch_folders(folder: Path) -> dict[int, Path]:
    """The folders of the batches that are there, by their numbers."""
    found = {int(entry.name.partition("=")[2]): entry for entry in folder.glob(f"{BATCH}=*")}
    return dict(sorted(found.items()))


class _TellingSink(ParquetSink):
    """Parquet files, and a message for each batch."""

    def __init__(self, folder: Path, log: VersionsLog, tell: Tell) -> None:
        super().__init__(folder)
        self._log = log
        self._tell = tell

    def write(self, routed: "DataFrame", batch: int) -> None:
        """Write the results of a batch, and tell what they are."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        begin = time.monotonic()
        super().write(routed, batch)
        seconds = time.monotonic() - begin
        entry = self._log.find(batch)
        ids = pq.read_table(batch_folders(Path(self.folder))[batch], columns=[IDS], partitioning=None)[IDS]
        counts = pc.list_value_length(ids).to_numpy()
        version = 0 if entry is None or entry.version is None else entry.version
        self._tell(
            Batch(batch, version, len(counts), int((counts > 0).sum()), int(counts.sum()), round(seconds, 3))
        )


class _Stream:
    """A session, a table and, once there is a network to subscribe to, a query."""

    def __init__(self, folder: Path, columns: str, tell: Tell) -> None:
        from penstock.spark.session import builder

        self._folder = folder
        self._rules = folder / "rules"
        self._columns = columns
        self._tell = tell
        self._query: StreamingQuery | None = None
        self._spark: SparkSession = builder("penstock-demo", "local[2]", _settings(folder)).getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")

    def save(self, sample: list[Subscription]) -> None:
        """Save a version of the table."""
        from penstock.spark.subscriptions import save_table

        rows = self._spark.createDataFrame(
            [(one.id, one.subscriber, one.filter) for one in sample],
            "id string, subscriber string, filter string",
        )
        table = save_table(rows, self._rules)
        self._tell(Saved(table.version or 0, table.ids))

    def warm(self) -> None:
        """Route a row of nothing in each worker: what they load takes seconds, while brokers start, too."""
        from penstock.spark.routing import route

        rows = self._spark.range(2, numPartitions=2).withColumnRenamed("id", ROW)
        route(rows, self._rules, unmatched="keep").write.format("noop").mode("overwrite").save()

    def subscribe(self, urls: str) -> None:
        """Start the query; return when its subscription is there."""
        from penstock.spark.streaming import route_stream

        checkpoint = self._folder / "checkpoint"
        events = (
            self._spark.readStream.format("penstock")
            .schema(self._columns)
            .options(url=urls, name="pipeline", filter=f"{ROW} is not null", log=str(checkpoint / "arrived"))
            .option("maxEventsPerBatch", _BATCH_MAX)
            .load()
        )
        log = Home(checkpoint / HOME).log
        query = route_stream(
            events,
            self._rules,
            sinks=_TellingSink(self._folder / ROUTED, log, self._tell),
            checkpoint=checkpoint,
            # So that all flights are there to be counted, not those alone that somebody wants.
            unmatched="keep",
            trigger=_TRIGGER,
        )
        self._query = query
        threading.Thread(target=self._await, args=(query,), name="penstock-query", daemon=True).start()
        # The source subscribes when it is first asked how far there are events, which is before this.
        while query.isActive and not str(query.status["message"]).startswith(_WAITS):
            time.sleep(_POLL)
        if query.isActive:
            self._tell(Ready())

    def _await(self, query: "StreamingQuery") -> None:
        from penstock.spark.streaming import await_query

        try:
            await_query(query)
        except Exception as error:
            self._tell(_failure(error))

    def stop(self) -> None:
        """End the query, and the session."""
        if self._query is not None:
            self._query.stop()
        self._spark.stop()


def _settings(folder: Path) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.streaming.stopTimeout": "10s",
        # It runs for seconds: the compiler that optimizes would take longer than it saves.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def _failure(error: Exception) -> Failed:
    from penstock.spark.failures import own_error

    traceback.print_exception(error)
    # Else it is Spark's, with the stack of the JVM below the first lines.
    text = str(own_error(error) or error).strip()
    return Failed(text[:_ERROR_MAX] or type(error).__name__)


def _own_output() -> IO[bytes]:
    """Standard output for messages alone: what Java and others print there goes to standard error."""
    own = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return own


def main(arguments: list[str]) -> int:
    """Do what the lines of the input say."""
    folder, columns = arguments
    out = _own_output()
    lock = threading.Lock()

    def tell(message: Message) -> None:
        with lock:
            out.write(msgspec.json.encode(message) + b"\n")

    stream = None
    try:
        stream = _Stream(Path(folder), columns, tell)
        sample = list(subscriptions())
        stream.save(sample)
        stream.warm()
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "subscribe":
                stream.subscribe(rest)
            elif word == "add":
                stream.save([*sample, ADDED])
            else:
                break
    except BrokenPipeError:
        # Whoever started this is gone.
        return 1
    except Exception as error:
        tell(_failure(error))
        return 1
    finally:
        if stream is not None:
            stream.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
