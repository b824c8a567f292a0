"""Where routed events go, what each place promises, and how many there were."""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.pipeline.config import Console, JsonLines, Parquet, Pipeline, Sink
from penstock.spark.pipeline.sources import network_options, texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.sinks import ConsoleSink, JsonLinesSink, ParquetSink, PenstockSink

    AnySink = ConsoleSink | JsonLinesSink | ParquetSink | PenstockSink

_WAIT_S: Final = 5.0
"""Seconds for which the last counts are waited for: Spark tells them a moment after a job has ended."""

_PROMISES: Final = {
    "exactly once": "exactly once: a batch that is run again takes the place of what it wrote before",
    "at least once": "at least once: a batch that is run again comes again",
}


def sinks_of(pipeline: Pipeline) -> "list[AnySink]":
    """The sinks of a pipeline."""
    return [_made(sink) for sink in pipeline.sinks]


def described(sink: Sink) -> str:
    """A sink, in words: its kind, and where it is."""
    if isinstance(sink, Parquet | JsonLines):
        return f"{_kind(sink)} {sink.path}"
    if isinstance(sink, Console):
        return f"console, {sink.rows:,} rows of each batch"
    return f"penstock {sink.url if isinstance(sink.url, str) else ', '.join(sink.url)}"


def promised(sink: Sink) -> str:
    """What holds of the results in a sink, whatever fails and is run again."""
    return _PROMISES[_made(sink).delivery]


class Counts:
    """Rows that were routed and matches in them, told by the jobs that write them: nothing is run for it."""

    def __init__(self, column: str, output: str) -> None:
        self.routed = 0
        self.matches = 0
        self._column = column
        self._output = output
        self._lock = threading.Lock()
        self._pending: list[threading.Thread] = []

    def watched(self, routed: "DataFrame") -> "DataFrame":
        """The same rows, which are counted when they are first written."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

        ids = F.col(f"`{self._column}`")
        per_row = F.size(ids) if self._output == "ids" else ids.isNotNull().cast("int")
        told = Observation()
        watched = routed.observe(
            told, F.count(F.lit(1)).alias("rows"), F.coalesce(F.sum(per_row), F.lit(0)).alias("matches")
        )
        # A batch that a sink has already is not written again, and never told of: so nobody waits here.
        thread = threading.Thread(target=self._take, args=(told,), name="penstock-counts", daemon=True)
        self._pending = [other for other in self._pending if other.is_alive()] + [thread]
        thread.start()
        return watched

    def settle(self) -> None:
        """Wait for the counts of what has just been written."""
        for thread in self._pending[-2:]:
            thread.join(_WAIT_S)

    def _take(self, told: Any) -> None:
        # The session may end before it tells.
        with suppress(Exception):
            found = told.get
            with self._lock:
                self.routed += int(found["rows"])
                self.matches += int(found["matches"])


def count_with(counts: Counts, sinks: "list[AnySink]") -> None:
    """Have the first sink count what it is given: all of them get the same rows."""
    from penstock.spark.sinks import ConsoleSink

    first = sinks[0]
    write = first.write

    def counting(routed: "DataFrame", batch: int) -> None:
        watched = counts.watched(routed)
        if not isinstance(first, ConsoleSink):
            write(watched, batch)
            return
        # It would read no more than it shows: then nobody had read the rest.
        watched = watched.persist()
        try:
            watched.count()
            write(watched, batch)
        finally:
            watched.unpersist()

    # Not a sink around it: others look at what kind of sink it is.
    first.write = counting  # type: ignore[method-assign]


def _made(given: Sink) -> "AnySink":
    from penstock.spark.sinks import ConsoleSink, JsonLinesSink, ParquetSink, PenstockSink

    if isinstance(given, Parquet | JsonLines):
        kind = ParquetSink if isinstance(given, Parquet) else JsonLinesSink
        return kind(given.path, partition_by=given.partition_by, options=texts(given.options))
    if isinstance(given, Console):
        return ConsoleSink(given.rows, truncate=given.truncate)
    options = network_options(given)
    if given.advertise is not None:
        options["advertise"] = given.advertise
    return PenstockSink(options.pop("url"), **options)


def _kind(sink: Sink) -> str:
    return str(sink.__struct_config__.tag)
