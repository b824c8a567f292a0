"""`penstock demo`: a year of New York flights, a hundred subscriptions, and who gets what."""

import argparse
import sys
import time
from collections import Counter

from penstock.cli.progress import progress
from penstock.filters.parsing import parse
from penstock.matching.reference import ReferenceMatcher
from penstock.model.arrow import events_from_arrow
from penstock.model.events import Event
from penstock.workloads.flights import Subscription, load_flights, subscriptions

_BATCH = 8_192
_WIDE = 110
"""From so many columns on there is room for an example of each subscription."""


def run(options: argparse.Namespace) -> int:
    """Match the flights and print a table: each subscriber, what it asked for, what it got."""
    table = load_flights()
    if options.flights is not None:
        table = table.slice(0, min(options.flights, table.num_rows))
    sample = list(subscriptions())
    matcher = ReferenceMatcher((one.id, parse(one.filter)) for one in sample)
    counts: Counter[str] = Counter()
    latest: dict[str, Event] = {}
    reached = 0
    started = time.perf_counter()
    with progress("flights", table.num_rows, "rows") as advance:
        for batch in table.to_batches(max_chunksize=_BATCH):
            for event in events_from_arrow(batch):
                if event is None:
                    continue
                ids = matcher.match(event)
                reached += bool(ids)
                for found in ids:
                    counts[found] += 1
                    if found not in latest or latest[found]["time_hour"] <= event["time_hour"]:  # type: ignore[operator]
                        latest[found] = event
            advance(batch.num_rows)
    elapsed = time.perf_counter() - started
    _print_table(sample, counts, latest)
    _print_summary(table.num_rows, len(sample), counts.total(), reached, elapsed)
    return 0


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


def _print_summary(flights: int, wanted: int, deliveries: int, reached: int, elapsed: float) -> None:
    sys.stdout.write(
        f"{flights:,} flights against {wanted} subscriptions: {deliveries:,} deliveries; "
        f"{reached:,} flights reached somebody, {flights - reached:,} nobody.\n"
        f"Took {elapsed:.1f} s with the reference matcher, which tries every filter on every event.\n"
    )
