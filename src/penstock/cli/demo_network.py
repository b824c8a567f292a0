"""The network part of `penstock demo`: flights through an overlay of brokers; one is killed half-way.

What is published, what arrived and how far it travelled is printed as it happens, and in a table in the end.
Beside it, if it is wanted, a pipeline routes the same flights: see `demo_pipeline`.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.arguments import EXIT_FAILED
from penstock.cli.demo_play import Play
from penstock.cli.demo_scene import Flights, Scene, name
from penstock.cli.progress import telling
from penstock.model.events import Event

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cli.demo_pipeline import Pipeline

FLIGHTS_DEFAULT: Final = 30_000
"""January, and a little more."""

_WIDTH: Final = 140
"""Columns of a table in a pipe, which has no width of its own."""

_WIDE: Final = 110
"""From so many columns on there is room for filters."""

_POLL: Final = 0.1


def show(scene: Scene, table: "pa.Table", *, with_pipeline: bool = False) -> int:
    """Send flights through a network, and print what comes of it; the status is that of the program."""
    from penstock.net.matching import warm

    _introduce(scene)
    # Whatever happens: no process stays behind, and then no file.
    with ExitStack() as ends:
        folder = Path(
            ends.enter_context(
                tempfile.TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True)
            )
        )
        with telling("network") as say:
            say("loading kernels")
            # Here and now, or all brokers would compile them at the same time.
            warm()
            pipeline = _start_pipeline(folder, table, ends) if with_pipeline else None
            say("trying every filter on every flight, to know what must arrive")
            flights = Flights(scene, table)
        play = Play(scene, flights, folder)
        ends.callback(play.end_now)
        wrong = asyncio.run(_play(play, pipeline))
    if scene.subscribers:
        _print_table(play)
        _print_summary(play)
    if pipeline is not None:
        _write(*pipeline.summary(play.began))
    if wrong:
        _write("What must not be:", *(f"  {line}" for line in wrong))
        return EXIT_FAILED
    return 0


def _start_pipeline(folder: Path, table: "pa.Table", ends: ExitStack) -> "Pipeline":
    # With it comes the engine that its results are compared with.
    from penstock.cli.demo_pipeline import Pipeline

    pipeline = Pipeline(folder, table)
    ends.callback(pipeline.end_now)
    return pipeline


async def _play(play: Play, pipeline: "Pipeline | None") -> list[str]:
    """Go through all of it, and end everything; give what must not be."""
    try:
        with telling("network") as say:
            await play.start(say)
            if pipeline is not None:
                say("waiting for Spark to subscribe")
                await pipeline.subscribe([play.urls[home] for home in play.scene.pipeline])
            await play.settle()
        with _watching(play, pipeline):
            await _fly(play, pipeline)
        play.judge()
        # What crashed must be known before everybody is asked to end.
        wrong = list(play.wrong())
        if pipeline is not None:
            with telling("pipeline") as say:
                say("ending Spark")
                await pipeline.stop()
            wrong += pipeline.check(play.excused)
    finally:
        await play.leave()
    with telling("network") as say:
        say("ending brokers")
        return wrong + await play.end()


@contextmanager
def _watching(play: Play, pipeline: "Pipeline | None") -> Iterator[None]:
    """Tell what the pipeline does meanwhile."""
    if pipeline is None:
        yield
        return
    task = asyncio.get_running_loop().create_task(_watch(play, pipeline))
    try:
        yield
    finally:
        task.cancel()
        _tell_pipeline(play, pipeline, over=True)


async def _watch(play: Play, pipeline: "Pipeline") -> None:
    """Tell what the pipeline does, and have it change its table when the broker has been killed."""
    is_changed = False
    while True:
        _tell_pipeline(play, pipeline)
        if play.killed_at is not None and not is_changed:
            is_changed = True
            pipeline.add_version()
        await asyncio.sleep(_POLL)


def _tell_pipeline(play: Play, pipeline: "Pipeline", *, over: bool = False) -> None:
    now = play.clock()
    pipeline.take()
    for line in pipeline.progress.lines(now, over=over):
        _tell(now, f"pipeline: {line}")


async def _fly(play: Play, pipeline: "Pipeline | None") -> None:
    pids = ", ".join(f"{broker.name} {broker.pid}" for broker in play.brokers)
    _write(f"{len(play.brokers)} brokers run (processes {pids}).")
    if pipeline is not None and pipeline.progress.is_ready:
        home = name(play.scene.pipeline[0])
        _write(f"Spark runs (process {pipeline.pid}), and has subscribed to all flights at {home}.")
    count = len(play.flights)
    first = play.flights.most_wanted(range(max(1, count // 5)))
    last = play.flights.most_wanted(range(first + 1, count)) if count > 1 else None
    await _trace(play, first)
    rows = [row for row in range(count) if row not in (first, last)]
    await play.publish(rows, _tell)
    await play.arrived(_tell)
    if play.inboxes:
        _tell(play.last_delivery, f"the last of {play.delivered:,} deliveries, {play.late:,} of them late")
    if pipeline is not None:
        # So that there is something for it to route, if only the last flight.
        await pipeline.has_version(2)
    if last is not None:
        await _trace(play, last)
        await play.arrived(_tell)
    if pipeline is not None:
        await pipeline.arrived()


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
        expected = len(play.flights.wanted[at])
        figures = (expected, expected - inbox.missing, inbox.late, len(inbox.wrong["twice"]))
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
    tally = play.tally
    again = f"{tally.twice:,} twice" if tally.twice else "nothing twice"
    lost = tally.missed + tally.excused
    losses = (
        f"{lost:,} lost ({tally.excused:,} of them under way around the kill)" if lost else "nothing lost"
    )
    count = len(play.flights)
    _write(
        f"{count - play.traced:,} flights published and {play.traced} traced, "
        f"{tally.expected - lost:,} deliveries of {tally.expected:,} expected: {losses}, "
        f"{again}, {play.late:,} late; the slowest took {play.slowest:.1f} s.",
        f"From the first flight to the last delivery {play.seconds:.1f} s, at the demo's own pace: "
        f"{count / max(play.seconds, 0.001):,.0f} flights and "
        f"{play.delivered / max(play.seconds, 0.001):,.0f} deliveries a second.",
    )
