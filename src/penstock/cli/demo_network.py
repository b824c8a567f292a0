"""The network part of `penstock demo`: flights through an overlay of brokers; one is killed half-way.

What is published, what arrived and how far it travelled is printed as it happens, and in a table in the end.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.arguments import EXIT_FAILED
from penstock.cli.demo_play import Play
from penstock.cli.demo_scene import Flights, Scene, name
from penstock.cli.progress import telling
from penstock.model.events import Event

if TYPE_CHECKING:
    import pyarrow as pa

FLIGHTS_DEFAULT: Final = 30_000
"""January, and a little more."""

_WIDTH: Final = 140
"""Columns of a table in a pipe, which has no width of its own."""

_WIDE: Final = 110
"""From so many columns on there is room for filters."""


def show(scene: Scene, table: "pa.Table") -> int:
    """Send flights through a network, and print what comes of it; the status is that of the program."""
    from penstock.net.matching import warm

    _introduce(scene)
    with telling("network") as say:
        say("loading kernels")
        # Here and now, or all brokers would compile them at the same time.
        warm()
        say("trying every filter on every flight, to know what must arrive")
        flights = Flights(scene, table)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        play = Play(scene, flights, Path(folder))
        try:
            wrong = asyncio.run(_play(play))
        finally:
            # Whatever happened to the event loop: no process stays behind.
            play.end_now()
    _print_table(play)
    _print_summary(play)
    if wrong:
        _write("What must not be:", *(f"  {line}" for line in wrong))
        return EXIT_FAILED
    return 0


async def _play(play: Play) -> list[str]:
    """Go through all of it, and end everything; give what must not be."""
    try:
        with telling("network") as say:
            await play.start(say)
        await _fly(play)
        # What crashed must be known before everybody is asked to end.
        wrong = list(play.wrong())
    finally:
        await play.leave()
    with telling("network") as say:
        say("ending brokers")
        return wrong + await play.end()


async def _fly(play: Play) -> None:
    pids = ", ".join(f"{broker.name} {broker.pid}" for broker in play.brokers)
    _write(f"{len(play.brokers)} brokers run (processes {pids}).")
    count = len(play.flights)
    first = play.flights.most_wanted(range(max(1, count // 5)))
    last = play.flights.most_wanted(range(first + 1, count)) if count > 1 else None
    await _trace(play, first)
    rows = [row for row in range(count) if row not in (first, last)]
    await play.publish(rows, _tell)
    await play.arrived(_tell, but=last)
    _tell(play.last_delivery, f"the last of {play.delivered:,} deliveries, {play.late:,} of them late")
    if last is not None:
        await _trace(play, last)
        await play.arrived(_tell)


async def _trace(play: Play, row: int) -> None:
    event = play.flights.events[row]
    report = await play.trace(row)
    way = "nobody reported its ways" if report is None else f"its ways: {_ways(report)}"
    _tell(play.clock(), f"flight {_flight(event)} is traced; {way}")


def _flight(event: Event) -> str:
    return f"{event['carrier']}{event['flight']} {event['origin']}→{event['dest']}"


def _ways(report: dict[str, Any]) -> str:
    """A tree in one line; subscribers that got the event stand as stars at their brokers."""
    here = f"{report['broker']}{'*' * report['delivered']}"
    further = [_ways(one["report"]) if one["report"] else one["link"] for one in report["sent_to"]]
    if not further:
        return here
    return f"{here} → {further[0] if len(further) == 1 else '(' + ', '.join(further) + ')'}"


def _write(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    # It is to be seen when it happens.
    sys.stdout.flush()


def _tell(at: float, text: str) -> None:
    _write(f"{at:6.1f} s  {text}")


def _introduce(scene: Scene) -> None:
    places = [f"{one.name} ({one.filter}) at {name(one.homes[0])}" for one in scene.publishers]
    _write(
        f"A network of {scene.brokers} brokers, each a process, linked in circles:",
        "",
        scene.picture(),
        f"Flights are published by {', and by '.join(places)}.",
        f"Half-way {name(scene.victim)} is killed. Ways are written b1 → (b2*, b3 → b4): from b1 to b2, "
        "where a subscriber gets the flight, and by b3 to b4.",
        "",
    )


def _print_table(play: Play) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    table = Table(title="What arrived", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("subscriber", style="bold")
    table.add_column("at", no_wrap=True)
    wide = console.width >= _WIDE
    if wide:
        table.add_column("wants flights where", ratio=1, overflow="fold")
    for heading in ("expected", "arrived", "late", "twice", "brokers on the\nway, before", "after\nthe kill"):
        table.add_column(heading, justify="right", style="cyan" if heading == "arrived" else "")
    for at, (one, inbox) in enumerate(zip(play.scene.subscribers, play.inboxes, strict=True)):
        figures = (len(play.flights.wanted[at]), len(inbox.rows), inbox.late, inbox.twice)
        table.add_row(
            escape(one.name),
            " → ".join(play.talked_to[at]),
            *([escape(one.filter)] if wide else []),
            *(f"{figure:,}" for figure in figures),
            *(_hops(hops) for hops in inbox.hops),
        )
    console.print()
    console.print(table)


def _hops(hops: Counter[int]) -> str:
    """The average and the most."""
    if not hops:
        return "–"
    return f"{sum(count * times for count, times in hops.items()) / hops.total():.1f}, max {max(hops)}"


def _print_summary(play: Play) -> None:
    expected = sum(map(len, play.flights.wanted))
    arrived = sum(len(inbox.rows) for inbox in play.inboxes)
    lost = expected - arrived
    twice = sum(inbox.twice for inbox in play.inboxes)
    again = f"{twice:,} twice" if twice else "nothing twice"
    excused = sum(play.excused(row) for inbox in play.inboxes for row in inbox.missing)
    losses = f"{lost:,} lost ({excused:,} of them under way around the kill)" if lost else "nothing lost"
    count = len(play.flights)
    _write(
        f"{count - play.traced:,} flights published and {play.traced} traced, "
        f"{arrived:,} deliveries of {expected:,} expected: {losses}, "
        f"{again}, {play.late:,} late; the slowest took {play.slowest:.1f} s.",
        f"From the first flight to the last delivery {play.seconds:.1f} s, at the demo's own pace: "
        f"{count / max(play.seconds, 0.001):,.0f} flights and "
        f"{play.delivered / max(play.seconds, 0.001):,.0f} deliveries a second.",
    )
