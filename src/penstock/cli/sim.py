"""`penstock sim`: a scenario, simulated, and what it cost."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.protocols import protocol_named
from penstock.cli.arguments import EXIT_FAILED
from penstock.cli.files import whole_output, why
from penstock.cli.kernels import wait_for_kernels
from penstock.cli.progress import progress
from penstock.errors import InputError
from penstock.sim.calibrate import calibrate
from penstock.sim.plots import plot, prepare
from penstock.sim.results import KIND_NAMES, Deliveries, Result, Series
from penstock.sim.scenario import Scenario, check, description, load, read, shipped, shipped_texts
from penstock.sim.simulate import SLICES, Simulation, may_need_engine
from penstock.sim.trace import Trace

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def run(options: argparse.Namespace) -> int:
    """Simulate a scenario and print the results."""
    if options.list:
        _list(as_json=options.json)
        return 0
    if options.scenario is None:
        raise InputError("say which scenario: a file, or a name that penstock sim --list prints")
    if options.print:
        sys.stdout.write(read(options.scenario)[0])
        return 0
    scenario = _chosen(options)
    if options.plot is not None:
        prepare(Path(options.plot))
    simulated: tuple[Result, Series] | None = None
    unwritten: OSError | None = None
    try:
        with ExitStack() as stack:
            trace = None
            if options.trace is not None:
                trace = Trace(stack.enter_context(whole_output(options.trace)))
            simulated = _simulate(options.scenario, scenario, trace)
    except OSError as error:
        if simulated is None:
            raise
        # The trace has not come to its place; the results are not to go with it.
        unwritten = error
    result, series = simulated
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    else:
        _print(result)
    if options.plot is not None:
        # Should plots fail, the results have been told.
        sys.stdout.flush()
        plot(result, series, Path(options.plot))
    if unwritten is not None:
        raise InputError(f"{options.trace}: cannot be written: {why(unwritten)}")
    return 0 if result.is_right else EXIT_FAILED


def _simulate(name: str, scenario: Scenario, trace: Trace | None) -> tuple[Result, Series]:
    if may_need_engine(scenario):
        wait_for_kernels()
    service = calibrate(scenario) if scenario.service.measured else None
    simulation = Simulation(scenario, name=name, service=service, trace=trace)
    with progress("simulating", SLICES, "rows") as advance:
        return simulation.run(advance)


def _chosen(options: argparse.Namespace) -> Scenario:
    """The scenario, with what was asked for otherwise."""
    scenario = load(options.scenario)
    if options.seed is not None:
        scenario = msgspec.structs.replace(scenario, seed=options.seed)
    if options.protocol is not None:
        protocol_named(options.protocol)
        scenario = msgspec.structs.replace(scenario, protocol=options.protocol)
    if options.scheme is not None:
        if scenario.scheme_name is None:
            raise InputError(f"--scheme: the protocol {scenario.protocol} has no routing schemes")
        scheme = msgspec.structs.replace(scenario.scheme, name=options.scheme)
        scenario = msgspec.structs.replace(scenario, scheme=scheme)
    # With another seed there may be other links, and faults that are on none.
    check(scenario, options.scenario)
    return scenario


def _console() -> "Console":
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=120)


def _table(title: str, *headings: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def _list(*, as_json: bool) -> None:
    from rich.text import Text

    known = shipped()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode({n: s.title for n, s in known.items()}) + b"\n")
        return
    table = _table("scenarios that come with the program", "name")
    table.add_column("what")
    for name, text in shipped_texts().items():
        # Descriptions have brackets now and then, which are not meant for the printer.
        table.add_row(name, Text(f"{known[name].title}\n{description(text)}"), end_section=True)
    console = _console()
    console.print(table)
    console.print("penstock sim NAME --print > mine.toml makes a copy to change.", highlight=False)


def _print(result: Result) -> None:
    console = _console()
    advertised = "with advertisements" if result.advertisements else "without advertisements"
    console.print(
        f"{result.title}; {result.topology}, {result.brokers:,} brokers, {result.links:,} links; "
        f"{result.scheme or result.protocol} {advertised}, {result.subscriptions:,} subscriptions, "
        f"seed {result.seed}",
        markup=False,
        highlight=False,
    )
    if any(result.service_us.values()):
        times = ", ".join(f"{kind} {us:,.1f}" for kind, us in result.service_us.items())
        how = "measured" if result.service_measured else "given"
        console.print(f"service times ({how}), µs: {times}", markup=False, highlight=False)
    if result.faults:
        faults = ", ".join(f"{kind} {count:,}" for kind, count in result.faults.items())
        console.print(f"brokers and links that faults changed: {faults}", markup=False, highlight=False)
    console.print(_traffic(result))
    console.print(_events(result))
    console.print(_state(result))
    console.print(_checks(result))
    for note in _notes(result):
        console.print(note, markup=False, highlight=False)


def _notes(result: Result) -> Iterator[str]:
    """What the figures do not say by themselves."""
    if result.while_running.missed or result.while_running.unwanted:
        yield (
            "While running, what is missed or unwanted is no mistake as such: an event that is under way "
            "while a subscription changes or something fails comes to those whom brokers knew of."
        )
    if not result.at_rest_exact:
        yield (
            "In the end, links still lose messages or reorder them, so that the figures at rest prove "
            "nothing; the exit status is 0 whatever they are."
        )
    elif not result.at_rest.is_right:
        yield "At rest, deliveries were not what brute force says."
    for found in result.checks:
        yield from (f"{found.name}: {example}" for example in found.examples)
        if found.wrong > len(found.examples):
            yield f"{found.name}: and {found.wrong - len(found.examples):,} more"


def _traffic(result: Result) -> "Table":
    table = _table("messages between brokers", "kind", "setting up", "running")
    before, after = result.setting_up, result.running
    for kind in {**after.traffic, **before.traffic}:
        table.add_row(
            KIND_NAMES.get(kind, kind), f"{before.traffic.get(kind, 0):,}", f"{after.traffic.get(kind, 0):,}"
        )
    table.add_section()
    table.add_row("in so many frames", f"{before.frames:,}", f"{after.frames:,}")
    table.add_row("messages lost on the way", f"{before.lost:,}", f"{after.lost:,}")
    table.add_row("handled by brokers, clients' too", f"{before.handled:,}", f"{after.handled:,}")
    return table


def _events(result: Result) -> "Table":
    table = _table("events, against brute force", "", "running", "at rest")
    phases: tuple[Deliveries, Deliveries] = (result.while_running, result.at_rest)
    rows = (
        ("published", [phase.published for phase in phases]),
        ("not published, the broker being down", [phase.unpublished for phase in phases]),
        ("deliveries expected", [phase.expected for phase in phases]),
        ("delivered", [phase.delivered for phase in phases]),
        ("late: after later ones of their publisher", [phase.late for phase in phases]),
        ("missed", [phase.missed for phase in phases]),
        ("unwanted", [phase.unwanted for phase in phases]),
        ("twice", [phase.twice for phase in phases]),
    )
    for what, figures in rows:
        table.add_row(what, *(f"{figure:,}" for figure in figures))
    return table


def _checks(result: Result) -> "Table":
    table = _table("checks", "checker")
    table.add_column("outcome")
    for found in result.checks:
        more = {"held": "", "skipped": f", {found.why}", "failed": f", {found.wrong:,} times"}
        table.add_row(found.name, f"{found.outcome}{more[found.outcome]}")
    return table


def _state(result: Result) -> "Table":
    table = _table("brokers, links and time", "", "", "")
    table.show_header = False
    subscriptions, advertisements = result.subscription_tables, result.advertisement_tables
    for what, sizes in (("subscription", subscriptions), ("advertisement", advertisements)):
        table.add_row(f"{what} tables, entries in all", f"{sizes.total:,}", "")
        uneven = len(set(sizes.by_broker.values())) > 1
        table.add_row("  the largest", f"{sizes.largest:,}", sizes.largest_broker if uneven else "all")
    table.add_row("queues: longest", f"{result.queues.longest:,}", result.queues.longest_broker)
    table.add_row("  mean", f"{result.queues.mean:,.2f}", "")
    if result.waits is not None:
        table.add_row(
            "waiting for bandwidth, ms: longest", f"{result.waits.longest_ms:,.1f}", result.waits.longest_link
        )
        table.add_row("  mean", f"{result.waits.mean_ms:,.2f}", "")
    if result.delays is not None:
        table.add_row("delays, ms: median", f"{result.delays.median_ms:,.1f}", "")
        table.add_row("  95 %", f"{result.delays.p95_ms:,.1f}", "")
        table.add_row("  longest", f"{result.delays.max_ms:,.1f}", "")
    table.add_row("events matched against a table", f"{result.events_matched:,}", "")
    table.add_row("covering tests", f"{result.covering_tests:,}", "")
    table.add_row("wall seconds: setting up", f"{result.setting_up.wall_s:,.1f}", "")
    table.add_row("  running", f"{result.running.wall_s:,.1f}", "")
    table.add_row("  in all, with the check at rest", f"{result.wall_s:,.1f}", "")
    table.add_row("messages handled a wall second, running", f"{result.handled_per_s:,.0f}", "")
    # Before anything is published there are only advertisements and subscriptions.
    control = result.setting_up.handled / max(result.setting_up.wall_s, 1e-9)
    table.add_row("  setting up (control traffic)", f"{control:,.0f}", "")
    return table
