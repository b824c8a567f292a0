"""Other engines on the same filters and events, side by side with the matcher.

Each is given a time budget. It begins with a thousand filters and goes on with ten times as many as long as
that can be expected to fit; what is reported is the largest number that it came to, with the matcher's own
time at the same number. Its answers are compared with the matcher's.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.bench import joins
from penstock.bench.loads import ForwardingLoad, Load
from penstock.bench.measures import Point, Progress, match, measure_match
from penstock.bench.scenario import MatchScenario
from penstock.filters.predicate import Predicate
from penstock.matching.counting import Batch, CountingTable
from penstock.matching.matcher import Matcher
from penstock.matching.reference import ReferenceMatcher
from penstock.matching.selectivity import SelectivityTable

_SMALLEST: Final = 1_000
_TINY: Final = 100
_STEP: Final = 10
_FIRST: Final = 16
"""Events of the first batch, whose answers are compared."""

_BATCH_SECONDS: Final = 1.0
"""A batch takes no longer than about this: joins keep all that they have found so far in memory."""

_LARGER: Final = 4
"""How many times as many events the next batch has that is tried."""


class Comparison(msgspec.Struct, frozen=True):
    """What another engine did; or, in `note`, why it did not, or not with all filters."""

    scenario: str
    engine: str
    filters: int = 0
    events: int = 0
    batch: int = 0
    us_per_event: float = 0.0
    matcher_us_per_event: float = 0.0
    """The matcher's own, with as many filters."""
    agrees: bool = True
    """Whether the answers that were compared were the same."""
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times as long as the matcher it took."""
        return self.us_per_event / self.matcher_us_per_event if self.matcher_us_per_event else 0.0


class Engine(Protocol):
    """What each engine can do: be built from a load, prepare events, match them."""

    name: str

    def prepare(self, begin: int, end: int) -> Any:
        """Some events as the engine wants them; not timed."""

    def match(self, events: Any) -> pa.Table:
        """A table of columns event, counted from 0, and id, which here is always the number of it."""


class PlainPython:
    """Every filter is tried on every event, in Python."""

    name = "plain Python"

    def __init__(self, load: Load) -> None:
        self._load = load
        keys = _numbers_of_ids(load).tolist()
        pairs = ((key, Predicate((load.filter(i),))) for i, key in enumerate(keys))
        self._matcher: ReferenceMatcher[int] = ReferenceMatcher(pairs)

    def prepare(self, begin: int, end: int) -> Any:
        """Dicts."""
        return self._load.dicts(begin, end)

    def match(self, events: Any) -> pa.Table:
        """One event after another."""
        found = [self._matcher.match(event) for event in events]
        ids = np.array([key for keys in found for key in keys], np.int64)
        return _table(np.cumsum([0, *map(len, found)]), ids)


class Counting:
    """The paper's counting algorithm."""

    name = "paper: counting"

    def __init__(self, load: Load) -> None:
        if not isinstance(load, ForwardingLoad):
            raise TypeError("the paper's engines know only the paper's operators")
        self._load = load
        names, words = forwarding_names()
        self._table = CountingTable.build(load.filters, load.interfaces(), names, words)

    def prepare(self, begin: int, end: int) -> Batch:
        """Messages laid out for the kernel."""
        return self._table.batch(self._load.some_messages(begin, end))

    def match(self, events: Batch) -> pa.Table:
        """All at once."""
        return _table(*self._table.forward_many(events))


class Selectivity(Counting):
    """The paper's counting algorithm with its selectivity table."""

    name = "paper: selectivity"

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._selectivity = SelectivityTable(self._table)

    def match(self, events: Batch) -> pa.Table:
        """All at once."""
        return _table(*self._selectivity.forward_many(events))


def forwarding_names() -> tuple[list[str], list[str]]:
    """The names and the words of the paper's workload."""
    from penstock.workloads import forwarding

    return forwarding.names(), forwarding.words()


def engines_for(load: Load) -> list[Callable[[Load], Engine]]:
    """The engines that can match a load."""
    papers: list[Callable[[Load], Engine]] = (
        [Counting, Selectivity] if isinstance(load, ForwardingLoad) else []
    )
    return [*papers, PlainPython, joins.DuckDB, joins.Polars]


def compare(
    load: Load, scenario: MatchScenario, own: Point, matcher: Matcher, budget: float, progress: Progress
) -> list[Comparison]:
    """Measure all other engines; `own` and `matcher` are the matcher at full size."""
    known = {own.filters: (own, matcher)}
    made = []
    for engine in engines_for(load):
        name: str = engine.name  # type: ignore[attr-defined]
        try:
            made.append(_compare(engine, name, load, scenario, known, budget, progress))
        except ImportError as error:
            note = f"not installed: pip install 'penstock[bench]' ({error})"
            made.append(Comparison(scenario.name, name, note=note))
    return made


def _compare(
    engine: Callable[[Load], Engine],
    name: str,
    load: Load,
    scenario: MatchScenario,
    known: dict[int, tuple[Point, Matcher]],
    budget: float,
    progress: Progress,
) -> Comparison:
    """Measure one engine at ever more filters."""
    everything = load.workload.filters
    # Kernels may have to be compiled first; no engine shall pay for that.
    tiny = engine(load.first(min(_TINY, everything)))
    tiny.match(tiny.prepare(0, 1))
    filters, started, left = min(_SMALLEST, everything), time.perf_counter(), budget
    while True:
        some = load if filters == everything else load.first(filters)
        progress(f"{name}: {filters:,} filters")
        begun = time.perf_counter()
        made = engine(some)
        first = made.prepare(scenario.warm_up, scenario.warm_up + _FIRST)
        answers = made.match(first)
        spent = time.perf_counter() - begun
        left = budget - (time.perf_counter() - started)
        following = min(filters * _STEP, everything)
        if filters == everything or spent * following / filters > left:
            break
        filters = following
    batch, us, events = _measure(made, scenario, max(left, 0.1 * budget))
    if filters not in known:
        progress(f"the matcher: {filters:,} filters")
        known[filters] = measure_match(some, scenario, lambda _what: None)
    point, matcher = known[filters]
    threads = getattr(made, "threads", 1)
    notes = ["scaled down"] * (filters < everything) + [f"{threads} threads"] * (threads > 1)
    return Comparison(
        scenario=scenario.name,
        engine=name,
        filters=filters,
        events=events,
        batch=batch,
        us_per_event=us,
        matcher_us_per_event=point.us_per_event,
        agrees=_sorted_pairs(answers) == _pairs_of_matcher(matcher, some, scenario),
        note=", ".join(notes),
    )


def _measure(engine: Engine, scenario: MatchScenario, seconds: float) -> tuple[int, float, int]:
    """The size of batches, the median time of an event, and how many events there were."""
    size = _batch_size(engine, scenario)
    begins = range(scenario.warm_up, scenario.warm_up + scenario.events - size + 1, size)
    times: list[float] = []
    end = time.perf_counter() + seconds
    for begin in begins:
        events = engine.prepare(begin, begin + size)
        started = time.perf_counter()
        engine.match(events)
        times.append((time.perf_counter() - started) / size * 1e6)
        if time.perf_counter() > end:
            break
    return size, statistics.median(times), len(times) * size


def _batch_size(engine: Engine, scenario: MatchScenario) -> int:
    """The scenario's, unless that takes too long: joins do part of their work once a batch."""
    most = min(scenario.batch, scenario.events)
    size = min(_FIRST, most)
    while size < most:
        events = engine.prepare(0, size)
        started = time.perf_counter()
        engine.match(events)
        if (time.perf_counter() - started) * _LARGER > _BATCH_SECONDS:
            break
        size = min(size * _LARGER, most)
    return size


def _pairs_of_matcher(matcher: Matcher, load: Load, scenario: MatchScenario) -> list[tuple[int, int]]:
    """What the matcher says of the events whose answers are compared."""
    found = match(matcher, load.dicts(scenario.warm_up, scenario.warm_up + _FIRST))
    number = dict(zip(load.ids().to_pylist(), _numbers_of_ids(load).tolist(), strict=True))
    return sorted((event, number[key]) for event, keys in enumerate(found) for key in keys)


def _sorted_pairs(answers: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(answers["event"].to_pylist(), answers["id"].to_pylist(), strict=True))


def _numbers_of_ids(load: Load) -> NDArray[Any]:
    """The number of each filter's id: ids may be text, which other engines need not be burdened with."""
    return load.interfaces() if isinstance(load, ForwardingLoad) else np.arange(load.workload.filters)


def _table(offsets: NDArray[Any], ids: NDArray[Any]) -> pa.Table:
    return pa.table({"event": np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), "id": ids})
