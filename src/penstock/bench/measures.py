"""Measuring the matcher: time, memory, growth, compiling, changes while matching, and starting.

Others on a machine disturb; so all times are medians, after a warm-up with events that are not measured.
"""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from penstock.bench import loads
from penstock.bench.loads import Load
from penstock.bench.scenario import (
    ChurnScenario,
    CompileScenario,
    GrowthScenario,
    Input,
    MatchScenario,
    StartScenario,
)
from penstock.filters.filter import Filter
from penstock.matching.matcher import Matcher
from penstock.matching.matches import Matches
from penstock.workloads import forwarding

Progress = Callable[[str], None]

_TINY: Final = 3_000
"""Filters that are compiled, and events that are matched, only to have kernels compiled."""

_IMPORT: Final = "import penstock"
_LOAD: Final = """
import sys
from penstock.matching.matcher import Matcher
import msgspec
matcher = Matcher.load(sys.argv[1])
matcher.match(msgspec.json.decode(sys.argv[2]))
"""
_COMPILE: Final = """
import sys
from penstock.matching.matcher import Matcher
import msgspec
from pathlib import Path
matcher = Matcher(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[tuple[int, str]]))
matcher.match(msgspec.json.decode(sys.argv[2]))
"""


class Point(msgspec.Struct, frozen=True):
    """What a matcher of some size did."""

    filters: int
    constraints: int
    us_per_event: float
    matches_per_event: float
    bytes_per_constraint: float
    seconds_to_compile: float
    """From the Arrow table; without learning from events."""
    events: int
    """Measured, over all passes."""


class Churn(msgspec.Struct, frozen=True):
    """Matching without and with changes meanwhile."""

    us_before: float
    us_during: float
    changes_per_second: float
    changes: int
    seconds: float


class Start(msgspec.Struct, frozen=True):
    """Seconds of processes, less those of one that does nothing (`bare`)."""

    bare: float
    imported: float
    loaded: float
    compiled: float


def matcher_of(load: Load) -> tuple[Matcher, float]:
    """A matcher with the load's filters, and how many seconds compiling took."""
    table = load.table()
    started = time.perf_counter()
    matcher = Matcher()
    matcher.warns = False
    matcher.add_constraints(table)
    return matcher, time.perf_counter() - started


def settled(load: Load, kind: Input, warm_up: int) -> tuple[Matcher, float]:
    """A matcher that has seen the events of the warm-up, has learnt from them and has nothing left to do."""
    matcher, seconds = matcher_of(load)
    # Taught before it matches: matching would have it learn in the background, while we measure.
    matcher.learn(loads.events_as(load, "dicts" if kind == "json" else kind, 0, warm_up))
    match(matcher, loads.events_as(load, kind, 0, warm_up))
    matcher.compact()
    return matcher, seconds


def match(matcher: Matcher, events: Any) -> Matches:
    """Match events in whatever form they come."""
    return matcher.match_json(events) if isinstance(events, bytes) else matcher.match_batch(events)


def measure_match(
    load: Load, scenario: MatchScenario | GrowthScenario, progress: Progress
) -> tuple[Point, Matcher]:
    """Time batches on a settled matcher."""
    timed = _Timed(load, scenario, progress)
    progress(f"matching {scenario.events:,} events {scenario.passes} times")
    for _ in range(scenario.passes):
        timed.run()
    return timed.point(), timed.matcher


class _Timed:
    """A settled matcher, and how long it takes."""

    def __init__(self, load: Load, scenario: MatchScenario | GrowthScenario, progress: Progress) -> None:
        self._load, self._scenario = load, scenario
        progress("warming up")
        # Kernels may have to be compiled first.
        settled(load.first(min(_TINY, load.workload.filters)), scenario.input, min(_TINY, scenario.warm_up))
        progress(f"compiling {load.workload.filters:,} filters")
        self.matcher, self._seconds = settled(load, scenario.input, scenario.warm_up)
        self._batches = batches_of(load, scenario.input, scenario.warm_up, scenario.events, scenario.batch)
        self._times: list[float] = []

    def run(self) -> None:
        """Match all batches once."""
        self._times += [us_per_event(self.matcher, events, count) for events, count in self._batches]

    def point(self) -> Point:
        """What was measured."""
        load, scenario = self._load, self._scenario
        matches = sum(len(match(self.matcher, events).numbers) for events, _ in self._batches)
        return Point(
            filters=load.workload.filters,
            constraints=load.constraints,
            us_per_event=statistics.median(self._times),
            matches_per_event=matches / scenario.events,
            bytes_per_constraint=self.matcher.stats(top=0).bytes / load.constraints,
            seconds_to_compile=self._seconds,
            events=scenario.events * scenario.passes,
        )


def batches_of(load: Load, kind: Input, begin: int, count: int, size: int) -> list[tuple[Any, int]]:
    """The events to measure in batches, with the number of events of each."""
    ends = [min(at + size, begin + count) for at in range(begin, begin + count, size)]
    starts = range(begin, begin + count, size)
    return [(loads.events_as(load, kind, at, end), end - at) for at, end in zip(starts, ends, strict=True)]


def us_per_event(matcher: Matcher, events: Any, count: int) -> float:
    """The time of one batch."""
    started = time.perf_counter()
    match(matcher, events)
    return (time.perf_counter() - started) / count * 1e6


def measure_growth(scenario: GrowthScenario, seed: int, progress: Progress) -> list[Point]:
    """A point for each size, measured in turn: no machine is always as quick."""
    timed = []
    for filters in scenario.sizes:
        load = loads.make(scenario.workload.grown(filters), scenario.warm_up + scenario.events, seed)
        timed.append(_Timed(load, scenario, progress))
    for number in range(scenario.passes):
        progress(f"matching {scenario.events:,} events with each, pass {number + 1} of {scenario.passes}")
        for one in timed:
            one.run()
    return [one.point() for one in timed]


def measure_compile(scenario: CompileScenario, seed: int, progress: Progress) -> float:
    """Seconds from the Arrow table to the end of the first batch, which has to wait for all compiling."""
    load = loads.make(scenario.workload, scenario.batch, seed)
    progress("warming up")
    events = loads.events_as(load, scenario.input, 0, scenario.batch)
    match(matcher_of(load.first(min(_TINY, scenario.workload.filters)))[0], events)
    table = load.table()
    passes = []
    for number in range(scenario.passes):
        progress(f"compiling {scenario.workload.filters:,} filters, pass {number + 1} of {scenario.passes}")
        started = time.perf_counter()
        matcher = Matcher()
        matcher.warns = False
        matcher.add_constraints(table)
        match(matcher, events)
        passes.append(time.perf_counter() - started)
    return statistics.median(passes)


def measure_churn(scenario: ChurnScenario, seed: int, progress: Progress) -> Churn:
    """Match, then match while another thread adds and removes; in turn, as no machine is always as quick."""
    load = loads.make(scenario.workload, scenario.warm_up + scenario.events, seed)
    progress(f"compiling {scenario.workload.filters:,} filters")
    matcher, _ = settled(load, scenario.input, scenario.warm_up)
    batches = batches_of(load, scenario.input, scenario.warm_up, scenario.events, scenario.batch)
    changes = _Changes(matcher, scenario, _groups(scenario, seed))
    changes.begin()
    before: list[float] = []
    during: list[float] = []
    for number in range(scenario.rounds):
        progress(f"matching without changes, then with them, round {number + 1} of {scenario.rounds}")
        matcher.compact()
        before += _match_for(matcher, batches, scenario.seconds / scenario.rounds)
        changes.stop.clear()
        thread = threading.Thread(target=changes.run, name="penstock-bench-changes")
        thread.start()
        try:
            during += _match_for(matcher, batches, scenario.seconds / scenario.rounds)
        finally:
            changes.stop.set()
            thread.join()
        if changes.failure is not None:
            raise changes.failure
    return Churn(
        us_before=statistics.median(before),
        us_during=statistics.median(during),
        changes_per_second=changes.done / changes.seconds,
        changes=changes.done,
        seconds=changes.seconds,
    )


def _match_for(matcher: Matcher, batches: list[tuple[Any, int]], seconds: float) -> list[float]:
    """Match batches for so long; for each the time of an event in microseconds."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        times += [us_per_event(matcher, events, count) for events, count in batches]
    return times


def _groups(scenario: ChurnScenario, seed: int) -> list[list[tuple[str, Filter]]]:
    """Groups of subscriptions, made before they are needed: twice as many as stand at a time."""
    count = max(2, 2 * scenario.standing // scenario.group)
    made = forwarding.filters(count * scenario.group, seed + 1)
    pairs = [(f"added-{i}", forwarding.as_filter(made, i)) for i in range(count * scenario.group)]
    return [pairs[at : at + scenario.group] for at in range(0, len(pairs), scenario.group)]


class _Changes:
    """Adds and removes groups at a given pace, until told to stop."""

    def __init__(
        self, matcher: Matcher, scenario: ChurnScenario, groups: list[list[tuple[str, Filter]]]
    ) -> None:
        self.stop = threading.Event()
        self.done = 0
        self.seconds = 0.0
        self.failure: BaseException | None = None
        self._matcher = matcher
        self._scenario = scenario
        self._groups = groups
        self._next = 0
        self._standing: deque[list[str]] = deque()

    def begin(self) -> None:
        """Add what shall stand, so that changes keep the number of filters."""
        for _ in range(max(1, self._scenario.standing // self._scenario.group)):
            self._add()
        # Kernels that only changes need may have to be compiled first.
        self._matcher.match_batch([{"x": 1}])
        self._matcher.compact()

    def run(self) -> None:
        """Change until told to stop; a thread's whole life."""
        started, done = time.perf_counter(), 0
        try:
            while not self.stop.is_set():
                self._add()
                self._matcher.remove_many(self._standing.popleft())
                done += 2 * self._scenario.group
                ahead = started + done / self._scenario.changes_per_second - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
        except BaseException as error:  # the thread that measures raises it
            self.failure = error
        self.done += done
        self.seconds += time.perf_counter() - started

    def _add(self) -> None:
        group = self._groups[self._next]
        self._next = (self._next + 1) % len(self._groups)
        self._matcher.add_many(group)
        self._standing.append([key for key, _ in group])


def measure_start(scenario: StartScenario, seed: int, progress: Progress) -> Start:
    """Time fresh processes of this interpreter."""
    load = loads.make(scenario.workload, 1, seed)
    (event,) = load.dicts(0, 1)
    text = msgspec.json.encode(event).decode()
    with tempfile.TemporaryDirectory() as folder:
        saved, written = Path(folder) / "matcher", Path(folder) / "filters.json"
        progress(f"saving a matcher of {scenario.workload.filters:,} filters")
        matcher_of(load)[0].save(saved)
        few = min(scenario.compiled, scenario.workload.filters)
        written.write_bytes(msgspec.json.encode([(i, str(load.filter(i))) for i in range(few)]))
        progress(f"starting processes, {scenario.passes} of each kind")
        bare = _wall(("pass",), scenario.passes)
        return Start(
            bare=bare,
            imported=_wall((_IMPORT,), scenario.passes) - bare,
            loaded=_wall((_LOAD, str(saved), text), scenario.passes) - bare,
            compiled=_wall((_COMPILE, str(written), text), scenario.passes) - bare,
        )


def _wall(program: tuple[str, ...], passes: int) -> float:
    """The median wall time of a program in a process of its own, after an untimed one."""
    times = []
    for _ in range(passes + 1):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", *program], check=True, stdin=subprocess.DEVNULL)  # noqa: S603
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def facts() -> dict[str, str | int]:
    """What the measurements were made on and with."""
    import os
    import platform
    from importlib.metadata import version

    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count() or 0,
        "numba": version("numba"),
        "numpy": version("numpy"),
        "pyarrow": pa.__version__,
    }
