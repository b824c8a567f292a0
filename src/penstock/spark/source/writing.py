"""Rows as events: each task publishes its rows, and is done when all are acknowledged.

A task whose broker is lost fails, and Spark does it again: so events come at least once, and those of a task
that was done twice come twice. Rows are published in the order in which the task has them.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.errors import EventError
from penstock.model.arrow import events_from_arrow
from penstock.model.events import Event, Unsupported
from penstock.node.client.notices import Notice
from penstock.spark.source.connection import connecting
from penstock.spark.source.options import Options
from penstock.spark.source.rows import arrow_schema, check_columns, filled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_LOG: Final = logging.getLogger(__name__)


@dataclass
class Published(WriterCommitMessage):
    """What a task tells the driver: how many events it has published."""

    events: int


class _Publisher:
    """Publishes rows, wherever it has been sent."""

    def __init__(self, schema: "StructType", options: Options) -> None:
        self._options = options
        check_columns(arrow_schema(schema), options.unsupported)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Published:
        """Publish the rows of a task."""
        # Spark calls this in a thread that has no loop.
        return Published(asyncio.run(self._publish(iterator)))

    async def _publish(self, batches: "Iterator[pa.RecordBatch]") -> int:
        count = 0
        # Another connection would not know what became of this one's events: the whole task is done again.
        async with connecting(self._options, "sink", reconnect=False, on_notice=_noticed) as net:
            if self._options.advertise is not None:
                await net.advertise(self._options.advertise)
            # The next batch is waited for aside: meanwhile the connection is to be kept alive.
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                count += await net.publish_many(self._events(batch))
        return count

    def _events(self, batch: "pa.RecordBatch") -> list[Event]:
        if self._options.empty != "publish":
            has = filled(batch)
            if has.true_count < batch.num_rows and self._options.empty == "refuse":
                raise EventError(
                    f"a row has no value in any of {batch.num_columns} columns: filter such rows out, or "
                    "leave them out with option('empty', 'skip')"
                )
            batch = batch.filter(has)
        unsupported = cast("Unsupported", self._options.unsupported)
        return list(events_from_arrow(batch, unsupported=unsupported))


def _noticed(notice: Notice) -> None:
    if notice.kind == "lost":
        _LOG.warning("events were published that could not be passed on to everybody: %s", notice.text)


class BatchWriter(_Publisher, DataSourceArrowWriter):
    """Publishes a DataFrame."""


class StreamWriter(_Publisher, DataSourceStreamArrowWriter):
    """Publishes a stream."""
