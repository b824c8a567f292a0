"""Streams and batches of events, as rows.

What Spark calls where, as its own code has it: `initialOffset`, `latestOffset`, `partitions` and `commit` of
a stream in one Python process at the driver, which lives as long as the query and is then killed; `read` in
tasks, on a copy. So the subscriber is started by whichever of the first is called first, and the copies have
none. A stream is handed neither its checkpoint's place nor filters.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.errors import InputError, printable
from penstock.filters.parsing import parse
from penstock.model.packed import decode_event
from penstock.spark.source import log
from penstock.spark.source.arrivals import Arrivals
from penstock.spark.source.connection import connecting
from penstock.spark.source.options import Options
from penstock.spark.source.pushdown import push
from penstock.spark.source.rows import MICROSECOND, Misfits, arrow_schema, check_readable, json_of, rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_log: Final = logging.getLogger("penstock.spark")

EVENTS_PER_PARTITION: Final = 20_000
"""A task for fewer costs more than it gains."""

PLAIN: Final = ("event", "publisher", "number", "received_at")


class LogPartition(InputPartition):
    """A stretch of the log. Whoever published an event, those of theirs within it are in order."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))


class _Rows:
    """How events become rows; sent to tasks."""

    def __init__(self, schema: "StructType", options: Options) -> None:
        self.schema = arrow_schema(schema)
        self._strict = options.mismatch == "error"
        self._keep_nan = options.nan == "keep"
        self.is_plain = tuple(self.schema.names) == PLAIN
        check_readable(self.schema)

    def of(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The rows of events as the log has them."""
        events = [decode_event(data).attributes for data in batch["data"].to_pylist()]
        if self.is_plain:
            import pyarrow as pa

            received = [nanoseconds // MICROSECOND for nanoseconds in batch["received"].to_pylist()]
            return pa.RecordBatch.from_arrays(
                [
                    pa.array(map(json_of, events), pa.string()),
                    batch["origin"],
                    batch["number"],
                    pa.array(received, pa.int64()).cast(self.schema.field("received_at").type),
                ],
                schema=self.schema,
            )
        misfits = Misfits()
        rows = rows_of(events, self.schema, strict=self._strict, keep_nan=self._keep_nan, misfits=misfits)
        for sentence in misfits.sentences():
            _log.warning("%s", printable(sentence))
        return rows


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All events that come, by way of the log."""

    def __init__(self, schema: "StructType", options: Options) -> None:
        self._rows = _Rows(schema, options)
        self._options = options
        self._folder = Path(options.log or "").absolute()
        self._arrivals: Arrivals | None = None
        self._initial: int | None = None
        self._target: int | None = None

    def _started(self) -> Arrivals:
        if self._arrivals is None:
            arrivals = Arrivals(log.Log.open(self._folder), self._options)
            try:
                arrivals.start()
            except BaseException:
                arrivals.log.close()
                raise
            self._arrivals = arrivals
        self._arrivals.check()
        return self._arrivals

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names, here and below
        """Where a new query begins: at the first event that the log still has."""
        arrivals = self._started()
        if self._initial is None:
            # Asked for again it has to be the same, whatever has been deleted since.
            self._initial = arrivals.log.first
        return {"position": self._initial}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What one batch may have, if the options say so."""
        most = self._options.max_events_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """How far the next batch goes."""
        position, there = start["position"], self._started().log.end
        if position > there:
            raise InputError(
                f"{self._folder}: the log ends at position {there:,}, and the checkpoint is at {position:,}: "
                "they are not of the same query"
            )
        end = there if self._target is None else min(there, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, position + limit.max_rows)
        elif isinstance(limit, ReadMinRows) and end - position < limit.min_rows:
            end = position
        return {"position": max(position, end)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """How far there are events, for the progress that Spark reports."""
        return {"position": self._started().log.end}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Gather for as long as the options say; the query is about what the log has then."""
        arrivals = self._started()
        begun, count = arrivals.log.end, self._options.count
        arrivals.wait(
            self._options.seconds or 0.0, lambda: count is not None and arrivals.log.end - begun >= count
        )
        self._target = arrivals.log.end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The stretches of the log that tasks read."""
        self._started()
        return list(stretches(start["position"], end["position"], self._options.partitions))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of a stretch."""
        start, end = partition.value
        return map(self._rows.of, log.read(self._folder, start, end))

    def commit(self, end: dict[str, int]) -> None:
        """Forget what is dealt with."""
        self._started().log.forget(end["position"])

    def stop(self) -> None:
        """End; Spark calls this only where something went wrong."""
        if self._arrivals is not None:
            self._arrivals.stop()
            self._arrivals.log.close()
            self._arrivals = None


def stretches(start: int, end: int, most: int) -> Iterator[LogPartition]:
    """Cut a stretch of the log into a few of about the same length, if it is long."""
    count = min(most, -(-(end - start) // EVENTS_PER_PARTITION))
    for at in range(count):
        yield LogPartition(start + (end - start) * at // count, start + (end - start) * (at + 1) // count)


class BatchReader(DataSourceReader):
    """What comes within some seconds of an action."""

    def __init__(self, schema: "StructType", options: Options) -> None:
        self._rows = _Rows(schema, options)
        self._options = options
        self._wanted = parse(options.filter)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Subscribe, wait, and give what has come. There is one task: a second would get the same events."""
        if not self._wanted.satisfiable:
            return
        entries = asyncio.run(_gather(self._options, self._wanted.to_sql()))
        for at in range(0, len(entries), log.ROWS_TOGETHER):
            yield self._rows.of(log.batch_of(entries[at : at + log.ROWS_TOGETHER]))


class PushingReader(BatchReader):
    """The same with the DataFrame's filters in its subscription.

    A class of its own: in sessions where Spark hands over no filters, it refuses whatever could take them.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Take what filters say into the subscription; give back those that Spark has to look at as well."""
        if self._rows.is_plain:
            return filters
        keep_nan = self._options.nan == "keep"
        self._wanted, left = push(filters, self._rows.schema, self._wanted, keep_nan=keep_nan)
        return left


async def _gather(options: Options, text: str) -> list[log.Entry]:
    """The events that come within the time that the options say."""
    seconds, count = options.seconds or 0.0, options.count
    found: list[log.Entry] = []
    async with (
        connecting(options, "batch", reconnect=False) as net,
        await net.subscribe(text) as subscription,
    ):
        try:
            async with asyncio.timeout(seconds):
                while count is None or len(found) < count:
                    one = await anext(subscription)
                    found.append(log.Entry(one.data, one.origin, one.number, time.time_ns()))
        except TimeoutError:
            pass
    return found
