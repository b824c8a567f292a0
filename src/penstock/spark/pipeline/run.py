"""Running a pipeline: from the file's settings to the summary."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InputError, PenstockError
from penstock.spark.pipeline import progress as telling
from penstock.spark.pipeline import sinks as sinking
from penstock.spark.pipeline.checks import trigger_of
from penstock.spark.pipeline.config import Folder, Network, Pipeline, Socket, is_remote
from penstock.spark.pipeline.progress import Backlog, Summary, Tally
from penstock.spark.pipeline.sessions import in_keys, placed, said_by_spark
from penstock.spark.pipeline.sources import MALFORMED, SOURCE_LOG, check_there, described, events_of, watched
from penstock.spark.pipeline.subscriptions import check_path, subscriptions_of, table_for_stream
from penstock.spark.routing import COLUMN
from penstock.spark.sinks import Owner
from penstock.spark.source.news import News, heard
from penstock.spark.tables import Table
from penstock.spark.versions_log import HOME, Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Tell = Callable[[str], None]

_LOOK_S: Final = 0.25
_BACKLOG_S: Final = 2.0
_GRACE_S: Final = 10.0
"""For so long the running batch may go on, when a stream is asked to stop."""


class Stop:
    """How a run is asked to stop: politely, and then again."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.insisted = threading.Event()

    def ask(self) -> None:
        """Ask once more."""
        (self.insisted if self.asked.is_set() else self.asked).set()


class Run:
    """One run. `work` does it, in a thread of its own; `wait` lets the main thread have its signals."""

    def __init__(
        self, session: "SparkSession", pipeline: Pipeline, name: str, stop: Stop, tell: Tell
    ) -> None:
        self._session = session
        self._pipeline = pipeline
        self._stop = stop
        self._tell = tell
        route = pipeline.route
        self._counts = sinking.Counts(route.column or COLUMN[route.output], route.output)
        self._streams = False
        self._runs = False
        self._error: BaseException | None = None
        self._made_at = time.time()
        self.summary = Summary(
            name=name,
            kind="stream" if pipeline.is_stream else "batch",
            sinks=[sinking.described(sink) for sink in pipeline.sinks],
            checkpoint=pipeline.checkpoint,
            resumes=not isinstance(pipeline.source, Socket),
        )

    def wait(self) -> Summary:
        """Do it; raises PenstockError where it cannot begin. What fails later is in the summary."""
        from pyspark import InheritableThread

        thread = InheritableThread(target=self._work, name="penstock-pipeline", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_S)
            if self._stop.asked.is_set() and not self._streams:
                # Again and again: the next job may have begun meanwhile. Or Java was told to end, as we were.
                with suppress(Exception):
                    self._session.sparkContext.cancelAllJobs()
        if self._error is not None and self._stop.asked.is_set():
            self.summary.ended = "interrupted"
        elif isinstance(self._error, PenstockError) and not self._runs:
            raise InputError(in_keys(str(self._error))) from None
        elif self._error is not None:
            self.summary.ended = "failed"
            self.summary.error = in_keys(said_by_spark(self._error))
        return self.summary

    def _work(self) -> None:
        try:
            if self._pipeline.is_stream:
                self._stream()
            else:
                self._batch()
        except BaseException as error:
            self._error = error

    def _check_stop(self) -> None:
        """Begin nothing that somebody has asked to stop."""
        if self._stop.asked.is_set():
            raise KeyboardInterrupt

    # Batches

    def _batch(self) -> None:
        from pyspark.sql import Observation

        from penstock.spark.routing import route
        from penstock.spark.sinks import prepare
        from penstock.spark.subscriptions import check_subscriptions

        pipeline = self._pipeline
        self._tell("reading the schema")
        events = events_of(self._session, pipeline)
        self._tell("compiling subscriptions")
        given = pipeline.subscriptions
        found = subscriptions_of(self._session, given)
        options = {**_options(pipeline), "layout": pipeline.route.layout}
        self.summary.table = given.path
        if isinstance(found, str):
            self.summary.table_version = Table.open(found).version
        else:
            options |= {"language": given.language, "invalid": given.invalid}
            if given.invalid == "quarantine":
                self._quarantined(check_subscriptions(found, language=given.language))
        told = Observation()
        routed = route(watched(events, told), found, **options)
        sinks = sinking.sinks_of(pipeline)
        prepare(sinks, owner_of_batch(self.summary.name, pipeline), routed.schema)
        sinking.count_with(self._counts, sinks)
        if len(sinks) > 1:
            # Or each of them would have all events routed again.
            routed = routed.persist()
        began = time.monotonic()
        self._check_stop()
        try:
            with _Ticker(lambda: self._tell_tasks(began)):
                self._runs = True
                for sink in sinks:
                    sink.write(routed, 0)
        finally:
            self.summary.seconds = time.monotonic() - began
        self._counts.settle()
        self.summary.batches = 1
        self.summary.events = int(told.get["n"])
        self.summary.malformed = int(told.get.get("malformed", 0))
        self._count()

    def _quarantined(self, rejected: "DataFrame") -> None:
        self.summary.rejected = rejected.count()
        first = rejected.first()
        self.summary.first_rejected = None if first is None else f"{first.id}: {first.error}"

    def _tell_tasks(self, began: float) -> None:
        tracker = self._session.sparkContext.statusTracker()
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in found if stage is not None]
        done, tasks = (
            sum(stage.numCompletedTasks for stage in stages),
            sum(stage.numTasks for stage in stages),
        )
        self._tell(telling.batch_line(done, tasks, time.monotonic() - began))

    # Streams

    def _stream(self) -> None:
        from penstock.spark.streaming import route_stream

        pipeline = self._pipeline
        self._tell("reading the schema")
        events = events_of(self._session, pipeline)
        self._tell("compiling subscriptions")
        folder = table_for_stream(self._session, pipeline)
        sinks = sinking.sinks_of(pipeline)
        sinking.count_with(self._counts, sinks)
        self._check_stop()
        began = time.monotonic()
        query = route_stream(
            watched(events, telling.EVENTS),
            folder,
            checkpoint=str(pipeline.checkpoint),
            sinks=sinks,
            trigger=None if pipeline.trigger is None else trigger_of(pipeline.trigger),
            layout=pipeline.route.layout,
            name=self.summary.name,
            **_options(pipeline),
        )
        self._streams = self._runs = True
        tally = Tally()
        try:
            self._watch(query, tally)
        finally:
            self.summary.seconds = time.monotonic() - began
            self._counts.settle()
            self.summary.batches, self.summary.events = tally.batches, tally.events
            self.summary.malformed = tally.malformed
            self.summary.table = pipeline.subscriptions.path
            self.summary.table_version = _last_version(pipeline)
            with suppress(PenstockError):
                self.summary.rejected = Table.open(folder, self.summary.table_version).rejected
            self._count()

    def _watch(self, query: "StreamingQuery", tally: Tally) -> None:
        """Look at a query until it ends, or has been asked to."""
        from penstock.spark.streaming import await_query

        backlog = _backlog(self._pipeline)
        waiting: str | None = None
        looked = 0.0
        while not await_query(query, _LOOK_S):
            _take(query, tally)
            if backlog is not None and time.monotonic() - looked > _BACKLOG_S:
                count, looked = backlog.waiting(), time.monotonic()
                waiting = None if count is None else telling.files_waiting(count)
            news = self._news()
            if news is not None and not news.is_connected:
                waiting = telling.not_connected(time.time() - news.since)
            elif backlog is None:
                waiting = None
            status = query.status
            busy = bool(status["isTriggerActive"] and status["isDataAvailable"])
            self._tell(telling.stream_line(tally, tally.lag_s(telling.now(), busy=busy), waiting))
            if self._stop.asked.is_set():
                self._end(query, tally)
                break
        _take(query, tally)

    def _news(self) -> News | None:
        """How it stands with the broker, where there is one."""
        if not isinstance(self._pipeline.source, Network):
            return None
        news = heard(Path(self._pipeline.checkpoint or "") / SOURCE_LOG)
        if news is None or news.since < self._made_at:
            # Of an earlier run, until this one has connected.
            return None
        self.summary.missed = news.missed
        return news

    def _end(self, query: "StreamingQuery", tally: Tally) -> None:
        """Let the running batch come to its end if that is soon, and stop."""
        self.summary.ended = "interrupted"
        before, until = tally.batches, time.monotonic() + _GRACE_S
        self._tell("stopping after this batch; Ctrl-C again stops at once")
        while query.isActive and query.status["isTriggerActive"] and tally.batches == before:
            if time.monotonic() > until or self._stop.insisted.wait(_LOOK_S):
                self.summary.is_cut_off = True
                break
            _take(query, tally)
        query.stop()

    def _count(self) -> None:
        found = self.summary
        found.routed, found.matches = self._counts.routed, self._counts.matches
        found.events_per_s = found.events / found.seconds if found.seconds else 0.0


def explained(session: "SparkSession", pipeline: Pipeline) -> str:
    """What a pipeline would do, in words; no query is started for it."""
    from penstock.spark.routing import explain

    events = events_of(session, pipeline).drop(MALFORMED)
    given = pipeline.subscriptions
    found = subscriptions_of(session, given)
    options = {**_options(pipeline), "layout": pipeline.route.layout}
    if not isinstance(found, str):
        options |= {"language": given.language, "invalid": given.invalid}
    if events.isStreaming and pipeline.route.layout not in (None, "auto"):
        # A stream is laid out batch by batch, each of which is none.
        events = session.createDataFrame([], events.schema)
    with placed("subscriptions"):
        how = explain(events, found, **options)
    lines = [
        f"source: {described(pipeline)}",
        f"  columns: {', '.join(f'{field.name} {field.dataType.simpleString()}' for field in events.schema)}",
        f"subscriptions: {given.path}",
        *(f"  {line}" for line in how.splitlines()),
        f"route: output {pipeline.route.output}, unmatched events: {pipeline.route.unmatched}",
    ]
    for sink in pipeline.sinks:
        lines.append(f"sink: {sinking.described(sink)}")
        lines.append(f"  {sinking.promised(sink)}")
    if pipeline.is_stream:
        lines += [f"checkpoint: {pipeline.checkpoint}", f"trigger: {pipeline.trigger or 'batch after batch'}"]
    lines.append(f"master: {session.sparkContext.master}")
    return "\n".join(lines)


def owner_of_batch(name: str, pipeline: Pipeline) -> Owner:
    """Whose results those of files are: the same pipeline may write them anew, and nobody else's."""
    over = getattr(pipeline.source, "path", "")
    named = f"{name} over {over if isinstance(over, str) else ', '.join(over)}"
    return Owner(f"batch {named}", f"of the batch {named}: none")


def _options(pipeline: Pipeline) -> dict[str, Any]:
    route = pipeline.route
    return {
        "output": route.output,
        "unmatched": route.unmatched,
        "column": route.column,
        "unsupported": route.unsupported,
        "strict": route.strict,
    }


def check_places(pipeline: Pipeline) -> None:
    """Raise InputError for what is not there, or in the way, before Spark is started for nothing."""
    check_there(pipeline.source)
    check_path(pipeline.subscriptions)
    if pipeline.is_stream:
        check_checkpoint(pipeline)


def check_checkpoint(pipeline: Pipeline) -> None:
    """Refuse to go on where a source cannot; Spark would fail in the first batch, of offsets out of order."""
    if not isinstance(pipeline.source, Socket):
        return
    offsets = Path(pipeline.checkpoint or "") / "offsets"
    if offsets.is_dir() and any(entry.name.isdecimal() for entry in offsets.iterdir()):
        raise InputError(
            f"checkpoint: {pipeline.checkpoint} is of an earlier run, and a socket cannot send its lines "
            "again; remove it, or give another with other results"
        )


def _last_version(pipeline: Pipeline) -> int | None:
    """The version that the last batch was matched with, which may be older than the newest."""
    log = Home(Path(pipeline.checkpoint or "") / HOME).log
    try:
        batches = log.batches()
        entry = log.find(batches[-1]) if batches else None
    except (OSError, PenstockError):
        return None
    return None if entry is None else entry.version


def _take(query: "StreamingQuery", tally: Tally) -> None:
    """Add up what a query has reported since."""
    last: Any = query.lastProgress
    if last is None:
        return
    # Spark keeps the last hundred.
    for report in query.recentProgress if tally.missed(last) else [last]:
        tally.add(report)


def _backlog(pipeline: Pipeline) -> Backlog | None:
    source = pipeline.source
    if not isinstance(source, Folder) or is_remote(source.path):
        return None
    return Backlog(Path(source.path), Path(pipeline.checkpoint or ""))


class _Ticker:
    """Calls something now and then, while something else is done."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_what: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                self._tick()
            except Exception:
                # The session has ended; that is told elsewhere.
                return
