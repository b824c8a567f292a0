"""Routing a stream while subscriptions change.

    query = route_stream(events, "rules", sinks=ParquetSink("routed"), checkpoint="checkpoints/routed")
    await_query(query)

Each micro-batch is matched with the latest version of the table. Which that is, is logged before anything is
matched (see `versions_log`): a batch that is done again after a crash gives the same results, and sinks that
have a folder for each batch (see `sinks`) have them once. A stream whose subscriptions do not change needs
none of this: `route(events, table)` is a streaming DataFrame as any other.
"""

import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InputError
from penstock.model.events import Unsupported
from penstock.spark.disagreements import report
from penstock.spark.failures import own_error
from penstock.spark.layout import Layout
from penstock.spark.places import for_spark, local_folder
from penstock.spark.placing import Share, place
from penstock.spark.routing import Unmatched, Wish, chosen_layout, counted_by, routed_by
from penstock.spark.shipping import Shipped, Where, mapped
from penstock.spark.sinks import ForeachSink, Owner, Sink, prepare
from penstock.spark.tables import Table, checked_folder
from penstock.spark.versions_log import HOME, Entry, Home, Run, mark_of, reopened
from penstock.spark.workers import Output

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from penstock.spark.left_out import Counts

Trigger = str | Mapping[str, Any]
"""When batches are made: see `route_stream`."""

_BATCHES: Final = "_penstock_batches"
"""What a query is given to remember its errors by."""

_TRIGGERS: Final = ("processingTime", "availableNow", "once")
"""Those that have batches."""


def route_stream(
    events: "DataFrame",
    table: str | PathLike[str],
    *,
    sinks: "Sink | Callable[[DataFrame, int], object] | Sequence[Sink]",
    checkpoint: str | PathLike[str] | None = None,
    output: Output = "ids",
    unmatched: Unmatched = "drop",
    column: str | None = None,
    unsupported: Unsupported = "refuse",
    strict: bool = False,
    layout: Layout | str | None = None,
    share: Share = "auto",
    rows: int | None = None,
    memory: int | None = None,
    trigger: Trigger | None = None,
    name: str | None = None,
    log: str | PathLike[str] | None = None,
) -> "StreamingQuery":
    """Start a query that routes a stream, each batch by the latest version of a table.

    events          a streaming DataFrame.
    table           the folder of a saved table; `save_table` adds versions to it while the query runs.
    sinks           where results go: one or several of `penstock.spark.sinks`, or a function of the results
                    and the number of the batch.
    checkpoint      a folder of this query alone; started from it again, the query goes on where it was.
    trigger         "10 seconds": a batch every so often; "available-now": what there is, then end; or what
                    Spark's `trigger` takes, as a mapping. By default a batch begins when the last has ended.
    name            what Spark calls the query.
    log             a folder for the versions of batches; by default `penstock` in the checkpoint. It has to
                    be given where the checkpoint is in an object store.

    The others are those of `route`. Errors in a batch end the query: `await_query` raises them.
    """
    wish = Wish(
        output=output,
        unmatched=unmatched,
        column=column,
        unsupported=unsupported,
        strict=strict,
        layout=layout,
        share=share,
        rows=rows,
        memory=memory,
    )
    if not isinstance(table, str | PathLike):
        raise InputError(
            f"table is the folder of a saved table, not {type(table).__name__}: its versions are what "
            "changes while the query runs; save_table(subscriptions, folder) makes the first"
        )
    if not events.isStreaming:
        raise InputError("these events do not stream: use route(events, …), and write what it gives")
    given = _sinks(sinks)
    home, spark_checkpoint = _homes(checkpoint, log)
    folder = checked_folder(table)
    session = events.sparkSession
    # On no events: what is wrong with columns, table or layout shows before anything is started.
    none = session.createDataFrame([], events.schema)
    first = Table.open(table)
    if strict:
        report(first, events.schema, strict=True)
    schema = routed_by(none, first, wish, chosen_layout(none, first, wish), mapped(first)).schema
    known = home.query()
    if known is not None and known.spark in {str(query.id) for query in session.streams.active}:
        raise InputError(f"{checkpoint}: a query runs with this checkpoint already: each has its own")
    writer = _triggered(events.writeStream, trigger).option("checkpointLocation", spark_checkpoint)
    run = Run(uuid.uuid4().hex, socket.gethostname(), os.getpid())
    prepare(given, Owner(home.claim(uuid.uuid4().hex).id, str(checkpoint)), schema)
    # Last: what runs from this checkpoint elsewhere ends now.
    home.begin(run)
    batches = _Batches(folder, wish, given, home, run)
    if name is not None:
        writer = writer.queryName(name)
    from penstock.spark.left_out import hold

    batches.skipped = counted_by(events, wish)
    query = writer.foreachBatch(batches).start()
    vars(query)[_BATCHES] = batches
    hold(query, batches.skipped)
    return query


def await_query(query: "StreamingQuery", timeout: float | None = None) -> bool:
    """Wait until a query ends, or for so many seconds; say whether it has ended.

    Where an error of Penstock ended it, in a batch or in a worker, that is raised, and not what Spark makes
    of it.
    """
    from pyspark.errors import StreamingQueryException

    try:
        # Without a timeout, Spark returns nothing when it is over.
        return query.awaitTermination(timeout) is not False  # type: ignore[arg-type]
    except StreamingQueryException as error:
        batches = vars(query).get(_BATCHES)
        remembered = batches.error if isinstance(batches, _Batches) else None
        own = own_error(error if remembered is None else remembered)
        if own is None:
            raise
        raise own from None


class _Batches:
    """What is done with each batch: Spark calls it with one after the other."""

    def __init__(self, table: Path, wish: Wish, sinks: Sequence[Sink], home: Home, run: Run) -> None:
        self.error: Exception | None = None
        self.skipped: Accumulator[Counts] | None = None
        """What values that are left out are counted by."""
        self._table = table
        self._wish = wish
        self._sinks = sinks
        self._home = home
        self._run = run
        self._placed: tuple[str, Where] | None = None

    def __call__(self, events: "DataFrame", batch: int) -> None:
        try:
            self._route(events, batch)
        except Exception as error:
            self.error = error
            raise

    def _route(self, events: "DataFrame", batch: int) -> None:
        log = self._home.log
        self._home.check(self._run, _query_id(events.sparkSession))
        logged = log.find(batch)
        table = Table.open(self._table) if logged is None else reopened(logged, log.file(batch))
        choice = chosen_layout(events, table, self._wish)
        where = self._where(events.sparkSession, table, events.schema)
        routed = routed_by(events, table, self._wish, choice, where, self.skipped)
        if logged is None:
            # Not before the job is built: a version that these events do not go with would be there to stay.
            log.write(Entry(batch, table.version, table.path, mark_of(table)))
        self._hand_over(routed, batch)
        log.forget(batch)

    def _where(self, session: "SparkSession", table: Table, columns: "StructType") -> Where:
        """How workers get at a version: it is sent to them once, not with every batch."""
        # Not by the path: another table may have been saved there.
        key = mapped(table).key
        if self._placed is None or self._placed[0] != key:
            if self._placed is not None and isinstance(self._placed[1], Shipped):
                self._placed[1].broadcast.unpersist()
            # Once for each version.
            wish = self._wish
            report(table, columns, strict=wish.strict, unsupported=wish.unsupported)
            self._placed = (key, place(session, table, self._wish.share, own=False))
        return self._placed[1]

    def _hand_over(self, routed: "DataFrame", batch: int) -> None:
        if len(self._sinks) == 1:
            self._sinks[0].write(routed, batch)
            return
        # Or each sink would have it matched anew.
        routed = routed.persist()
        try:
            for sink in self._sinks:
                sink.write(routed, batch)
        finally:
            routed.unpersist()


def _query_id(session: "SparkSession") -> str | None:
    """Spark's id of the query whose batch this is; None where it does not tell."""
    try:
        found = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception:
        return None
    return None if found is None else str(found)


def _sinks(given: object) -> list[Sink]:
    several = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    found: list[Sink] = []
    for sink in several:
        if isinstance(sink, Sink) and not isinstance(sink, type):
            found.append(sink)
        elif callable(sink) and not isinstance(sink, type):
            found.append(ForeachSink(sink))
        else:
            raise InputError(
                "a sink has write(routed, batch), as ParquetSink(folder) does, or is a function; "
                f"{sink!r:.80} is none"
            )
    if not found:
        raise InputError("a stream needs a sink, such as ParquetSink(folder)")
    return found


def _homes(checkpoint: str | PathLike[str] | None, log: str | PathLike[str] | None) -> tuple[Home, str]:
    """Where the log is, and the checkpoint as Spark is told of it."""
    if checkpoint is None or not str(checkpoint):
        raise InputError(
            "a stream needs checkpoint=, a folder of its own: without it, it would begin anew at each start"
        )
    place = local_folder(checkpoint)
    own = None if place is None else place / HOME
    home = own if log is None else local_folder(log)
    if home is None:
        raise InputError(
            f"{log or checkpoint}: which version each batch has is logged in plain files, which cannot be "
            "written here: give log=, a folder that every driver which may run this query has mounted"
        )
    return Home(home), str(checkpoint) if place is None else for_spark(place)


def _triggered(writer: "DataStreamWriter", trigger: Trigger | None) -> "DataStreamWriter":
    if trigger is None:
        return writer
    if isinstance(trigger, str):
        trigger = {"availableNow": True} if trigger == "available-now" else {"processingTime": trigger}
    if len(trigger) != 1 or not set(trigger) <= set(_TRIGGERS):
        raise InputError(
            f"trigger is '10 seconds', 'available-now', or one of {', '.join(_TRIGGERS)} in a mapping, not "
            f"{trigger!r:.80}"
        )
    try:
        return writer.trigger(**trigger)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"trigger {trigger!r:.80} is none: {first}") from None
