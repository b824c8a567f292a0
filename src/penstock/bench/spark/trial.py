"""All that is measured on a session, size by size. Kinds of measurement take turns: noise hits all alike."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.bench.spark import plain, workload
from penstock.bench.spark.bare import Engine
from penstock.bench.spark.memory import Weight, weights
from penstock.bench.spark.workload import Rows
from penstock.spark import Table, route, save_table
from penstock.spark.events import attributes_of
from penstock.spark.shipping import mapped
from penstock.spark.workers import Task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure."""

    events: int
    filters: tuple[int, ...]
    repeats: int = 3
    budget: float = 60
    master: str = "local[2]"
    seed: int = 1


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is paid once, whatever is routed."""

    session_seconds: float
    first_python_seconds: float
    """A first job with Python workers, of no work."""
    workers: list[Weight]
    """What they hold then."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A table of some size. Seconds are medians."""

    filters: int
    events: int
    values: int
    matches: int
    table_bytes: int
    save_seconds: float
    first_seconds: float
    """The first job with the table, on few events."""
    again_seconds: float
    """The same job once more."""
    nothing_seconds: float
    bare_seconds: float
    route_seconds: float
    half_events_seconds: float
    half_filters_seconds: float
    half_filters: int
    workers: list[Weight]
    agrees: bool
    """Whether the bare engine found as many matches."""

    @property
    def events_per_second(self) -> float:
        """What `route` does."""
        return self.events / self.route_seconds

    @property
    def matches_per_event(self) -> float:
        """On average."""
        return self.matches / self.events

    @property
    def overhead(self) -> float:
        """The time as a multiple of that of doing nothing plus that of the bare engine."""
        return self.route_seconds / (self.nothing_seconds + self.bare_seconds)

    @property
    def events_growth(self) -> float:
        """What twice the events cost."""
        return self.route_seconds / self.half_events_seconds

    @property
    def filters_growth(self) -> float:
        """What twice the filters cost."""
        return self.route_seconds / self.half_filters_seconds

    @property
    def pairs_per_second(self) -> float:
        """Events times filters."""
        return self.events * self.filters / self.route_seconds


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """A plain join at the largest size that it finished, and `route` at the same."""

    name: str
    filters: int
    events: int
    join_seconds: float | None
    """None where it finished no size within its budget."""
    route_seconds: float
    matches: int
    agrees: bool

    @property
    def pairs_per_second(self) -> float:
        """Events times filters, by the join."""
        return self.events * self.filters / self.join_seconds if self.join_seconds else 0.0

    @property
    def ratio(self) -> float | None:
        """How many times as long as `route` it took on the same rows."""
        return self.join_seconds / self.route_seconds if self.join_seconds else None


def passed_on(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Nothing, done to each batch."""
    yield from batches


def do_nothing(events: "DataFrame") -> None:
    """Have Python workers take all rows and give them back."""
    consume(events.mapInArrow(passed_on, events.schema))


def consume(made: "DataFrame") -> None:
    """Compute all rows, and keep none."""
    made.write.format("noop").mode("overwrite").save()


def timed(work: Callable[[], object]) -> float:
    """The seconds that something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Trial:
    """A session, a folder with what is routed, and the engine beside it."""

    def __init__(
        self, session: "SparkSession", folder: Path, engine: Engine, choices: Choices, say: Say
    ) -> None:
        self._session = session
        self._folder = folder
        self._engine = engine
        self._choices = choices
        self._say = say
        self._tables: dict[Path, tuple[Table, float]] = {}

    def start(self, session_seconds: float) -> Start:
        """A first job, while nothing has been loaded yet."""
        self._say("starting Python workers")
        few = self._session.range(1000)
        seconds = timed(partial(do_nothing, few))
        return Start(
            session_seconds=session_seconds, first_python_seconds=seconds, workers=weights(few, None)
        )

    def size(self, filters: int) -> Size:
        """Measure a table of so many filters."""
        choices, say = self._choices, self._say
        values = workload.values_for(filters)
        files = self._files(values)
        events = workload.read_events(self._session, files)
        half_events = workload.read_events(self._session, files[: len(files) // 2])
        half = max(1, filters // 2)
        half_table, _ = self._table(half, values)
        table, save_seconds = self._table(filters, values)
        few = workload.read_events(self._session, files[:1]).limit(1000)
        say(f"{filters:,} filters: first job")
        first, again = (timed(partial(self._route, few, table)) for _ in range(2))
        say(f"{filters:,} filters: warming up on {choices.events:,} events")
        matches = self._matches(route(events, table))
        consume(route(half_events, half_table))
        do_nothing(events)
        agrees = self._engine.run(table.folders, files).matches == matches
        kinds: dict[str, Callable[[], float]] = {
            "nothing": lambda: timed(lambda: do_nothing(events)),
            "bare": lambda: self._engine.run(table.folders, files).seconds,
            "route": lambda: timed(lambda: self._route(events, table)),
            "half_events": lambda: timed(lambda: self._route(half_events, table)),
            "half_filters": lambda: timed(lambda: self._route(events, half_table)),
        }
        seconds = self._in_turn(kinds, f"{filters:,} filters")
        say(f"{filters:,} filters: memory")
        return Size(
            filters=filters,
            events=choices.events,
            values=values,
            matches=matches,
            table_bytes=table.nbytes,
            save_seconds=save_seconds,
            first_seconds=first,
            again_seconds=again,
            half_filters=half,
            workers=weights(half_events, _task(events, table)),
            agrees=agrees,
            **{f"{kind}_seconds": value for kind, value in seconds.items()},
        )

    def join(self, name: str, filters: int) -> Join:
        """Measure a plain join at the largest size that it finishes within the budget, and `route` too."""
        choices = self._choices
        values = workload.values_for(filters)
        files = self._files(values)
        table, _ = self._table(filters, values)
        columns = self._session.read.parquet(str(self._filters(filters, values)[1]))

        def some(count: int) -> "DataFrame":
            made = workload.first_events(self._session, files, count, self._folder)
            return workload.read_events(self._session, made)

        def measure(count: int) -> float | None:
            self._say(f"join {name}: {count:,} events × {filters:,} filters")
            joined = plain.JOINS[name](some(count), columns)
            return plain.within(self._session, choices.budget, lambda: consume(joined))

        found = plain.largest(measure, choices.events, choices.budget)
        events = some(found.events if found else 1)
        matches = self._matches(route(events, table))
        joined = plain.JOINS[name](events, columns)
        turns = self._in_turn({"route": lambda: timed(lambda: self._route(events, table))}, f"join {name}")
        return Join(
            name=name,
            filters=filters,
            events=found.events if found else 0,
            join_seconds=found.seconds if found else None,
            route_seconds=turns["route"],
            matches=matches,
            # Counting is as long again as the join itself; it decides whether the figures mean anything.
            agrees=found is None or joined.count() == matches,
        )

    def _in_turn(self, kinds: dict[str, Callable[[], float]], what: str) -> dict[str, float]:
        """The median seconds of each kind of measurement."""
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(self._choices.repeats):
            for kind, measure in kinds.items():
                named = kind.replace("_", " of ")
                self._say(f"{what}: {named}, {number + 1} of {self._choices.repeats}")
                found[kind].append(measure())
        return {kind: statistics.median(times) for kind, times in found.items()}

    def _route(self, events: "DataFrame", table: Table) -> None:
        consume(route(events, table))

    def _matches(self, routed: "DataFrame") -> int:
        row: Any = routed.selectExpr("coalesce(sum(size(ids)), 0) as matches").first()
        return int(row.matches)

    def _files(self, values: int) -> list[Path]:
        rows = Rows(self._choices.events, values, self._choices.seed)
        self._say(f"{rows.events:,} events of {values:,} codes")
        return workload.write_events(self._session, rows, self._folder)

    def _filters(self, filters: int, values: int) -> tuple[Path, Path]:
        return workload.write_filters(filters, values, self._choices.seed, self._folder)

    def _table(self, filters: int, values: int) -> tuple[Table, float]:
        """The filters compiled, and the seconds that this took from their text; once for each table."""
        folder = self._folder / "tables" / f"{filters}-{values}"
        if folder in self._tables:
            return self._tables[folder]
        texts = self._session.read.parquet(str(self._filters(filters, values)[0]))
        self._say(f"compiling {filters:,} filters")
        started = time.perf_counter()
        made = save_table(texts, folder)
        seconds = time.perf_counter() - started
        # Those of earlier runs, where the folder is kept.
        Table.prune(folder, keep=1)
        self._tables[folder] = made, seconds
        return self._tables[folder]


def _task(events: "DataFrame", table: Table) -> Task:
    """What workers do for `route`."""
    columns = tuple(dict.fromkeys(attribute.path[0] for attribute in attributes_of(events.schema)))
    return Task(mapped(table), 0, len(table.blocks), columns)
