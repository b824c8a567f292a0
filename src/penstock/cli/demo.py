"""`penstock demo`: a year of New York flights, a hundred subscriptions, and who gets what; then a network.

Between the two, a composite finds cancellations that follow delays.

Beside the network, a pipeline on Spark routes the flights that come out of it.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from penstock.cli.demo_scene import make_scene
from penstock.cli.kernels import wait_for_kernels
from penstock.cli.pool import cores
from penstock.cli.progress import progress
from penstock.errors import InputError, MissingExtraError
from penstock.filters.parsing import parse
from penstock.matching.ids import IdTable
from penstock.matching.matcher import Matcher
from penstock.matching.matches import Matches
from penstock.matching.reference import ReferenceMatcher
from penstock.model.arrow import events_from_arrow
from penstock.model.events import Event
from penstock.workloads.flights import Subscription, load_flights, subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 8_192
_COMPARED = 1_000
"""Flights that the reference matcher is tried on."""
_WIDE = 110
"""From so many columns on there is room for an example of each subscription."""


def run(options: argparse.Namespace) -> int:
    """Run the parts that are asked for, one after the other."""
    if options.only == "pipeline" and options.no_pipeline:
        raise InputError("--only pipeline and --no-pipeline leave nothing to run")
    scene = None if options.only == "matching" else make_scene(options.brokers)
    with_pipeline = options.only in (None, "pipeline") and not options.no_pipeline
    if with_pipeline:
        with_pipeline = _has_spark(is_wanted=options.only == "pipeline")
    if scene is not None and options.only == "pipeline":
        scene = replace(scene, subscribers=[])
    table = load_flights()
    if options.flights is not None:
        table = table.slice(0, min(options.flights, table.num_rows))
    wait_for_kernels()
    status = 0
    if options.only in (None, "matching"):
        from penstock.cli import demo_composite

        _match(table)
        status = demo_composite.show(table)
    if scene is None:
        return status
    # With the network comes all that it stands on, which matching alone does not need.
    from penstock.cli.demo_network import FLIGHTS_DEFAULT, show

    if options.only is None:
        sys.stdout.write("\n")
        sys.stdout.flush()
    flights = table.slice(0, options.flights or FLIGHTS_DEFAULT)
    return show(scene, flights, with_pipeline=with_pipeline) or status


def _has_spark(*, is_wanted: bool) -> bool:
    """Whether there is what the pipeline needs; if not, say so, or raise if it was asked for by name."""
    from penstock.cli.demo_pipeline import check_spark

    try:
        check_spark()
    except MissingExtraError as error:
        if is_wanted:
            raise
        sys.stderr.write(f"penstock: note: this runs without the pipeline: {error}\n")
        return False
    return True


def _match(table: "pa.Table") -> None:
    """Match the flights and print a table: each subscriber, what it asked for, what it got."""
    sample = list(subscriptions())
    matcher = Matcher((one.id, one.filter) for one in sample)
    matcher.match_batch(table.slice(0, 1))  # the first match loads the kernels, which takes longer
    tally = _Tally(table)
    with progress("flights", table.num_rows, "rows") as advance, ThreadPoolExecutor(cores()) as pool:
        started = time.perf_counter()
        for matches in pool.map(matcher.match_batch, table.to_batches(max_chunksize=_BATCH)):
            tally.add(matches)
            advance(len(matches))
        elapsed = time.perf_counter() - started
    _print_table(sample, *tally.by_id())
    _print_summary(table.num_rows, len(sample), tally, elapsed, _reference_speed(table, sample))


class _Tally:
    """How many flights each subscription got, and the last of them."""

    def __init__(self, table: "pa.Table") -> None:
        self._table = table
        # Of flights at the same time, the later row is the last.
        self._by_time = np.argsort(table.column("time_hour").to_numpy(), kind="stable")
        self._rank = np.empty(table.num_rows, np.int64)
        self._rank[self._by_time] = np.arange(table.num_rows)
        self._ids: IdTable | None = None
        self._rows = 0
        self.reached = 0
        self.counts: Counter[int] = Counter()
        self._latest: dict[int, int] = {}

    def add(self, matches: Matches) -> None:
        """Take note of what the next flights matched."""
        self._ids = matches.table
        found = np.diff(matches.offsets)
        rank = np.repeat(self._rank[self._rows : self._rows + len(matches)], found)
        latest = np.full(self._ids.count, -1, np.int64)
        np.maximum.at(latest, matches.numbers, rank)
        for number, count in enumerate(np.bincount(matches.numbers).tolist()):
            if count:
                self.counts[number] += count
                self._latest[number] = max(int(latest[number]), self._latest.get(number, -1))
        self.reached += int(np.count_nonzero(found))
        self._rows += len(matches)

    def by_id(self) -> tuple[Counter[str], dict[str, Event]]:
        """The counts, and the last flight of each subscription that got one."""
        counts: Counter[str] = Counter()
        latest: dict[str, Event] = {}
        for number, count in self.counts.items():
            name = str(self._ids.get(number)) if self._ids is not None else ""
            row = int(self._by_time[self._latest[number]])
            counts[name] = count
            latest[name] = next(event for event in events_from_arrow(self._table.slice(row, 1)) if event)
        return counts, latest


def _reference_speed(table: "pa.Table", sample: list[Subscription]) -> float:
    """How many flights a second the reference matcher manages, by the first few."""
    matcher = ReferenceMatcher((one.id, parse(one.filter)) for one in sample)
    events = [event for event in events_from_arrow(table.slice(0, _COMPARED)) if event]
    started = time.perf_counter()
    for event in events:
        matcher.match(event)
    return len(events) / (time.perf_counter() - started)


def _print_table(sample: list[Subscription], counts: Counter[str], latest: dict[str, Event]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    # A pipe has no width; a hundred and forty columns hold the filters without wrapping most of them.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    shown = Table(title="Who gets what", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    wide = console.width >= _WIDE
    shown.add_column("subscriber", style="bold", max_width=28 if wide else 20)
    shown.add_column("wants flights where", ratio=1, overflow="fold")
    shown.add_column("gets", justify="right", style="cyan")
    if wide:
        shown.add_column("the last of them", style="dim", no_wrap=True)
    by_subscriber: dict[str, list[Subscription]] = {}
    for one in sample:
        by_subscriber.setdefault(one.subscriber, []).append(one)
    for subscriber, wanted in by_subscriber.items():
        for at, one in enumerate(wanted):
            cells = [escape(subscriber) if at == 0 else "", escape(one.filter), f"{counts[one.id]:,}"]
            if wide:
                cells.append(_describe(latest.get(one.id)))
            shown.add_row(*cells, end_section=at == len(wanted) - 1)
    console.print(shown)


def _describe(event: Event | None) -> str:
    if event is None:
        return "none this year"
    flight = f"{event['carrier']}{event['flight']}"
    day = f"{event['month']:02}-{event['day']:02}"
    delay = event.get("dep_delay")
    state = "cancelled" if event.get("dep_time") is None else "" if delay is None else f"{delay:+} min"
    return f"{day} {flight:<6} {event['origin']}→{event['dest']} {state}".rstrip()


def _print_summary(flights: int, wanted: int, tally: _Tally, elapsed: float, reference: float) -> None:
    sys.stdout.write(
        f"{flights:,} flights against {wanted} subscriptions: {tally.counts.total():,} deliveries; "
        f"{tally.reached:,} flights reached somebody, {flights - tally.reached:,} nobody.\n"
        f"Matching took {elapsed:.2f} s: {_rounded(flights / elapsed)} flights a second. "
        f"The reference matcher, trying every filter on every event, manages {_rounded(reference)}.\n"
    )


def _rounded(number: float) -> str:
    """A number with two digits that count."""
    return f"{int(float(f'{number:.1e}')):,}"
