"""`penstock torture`: real brokers, real faults, and what came of them."""

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

import penstock
from penstock.cli.arguments import EXIT_FAILED
from penstock.cli.files import why
from penstock.cli.progress import telling
from penstock.errors import InputError
from penstock.net.torture.clients import Connect
from penstock.net.torture.faults import KINDS
from penstock.net.torture.figures import ALL, CALM, Figures
from penstock.net.torture.networks import TOPOLOGIES, draw_network
from penstock.net.torture.overlay import Overlay
from penstock.net.torture.report import Options, Report
from penstock.net.torture.run import Say, Torture
from penstock.net.torture.runners import Apart
from penstock.routing.schemes.catalog import scheme_named


def run(options: argparse.Namespace) -> int:
    """Torture a network, and print what came of it."""
    asked = Options(
        seed=options.seed,
        rounds=options.rounds,
        seconds=float(options.seconds),
        brokers=options.brokers,
        events=options.events,
        faults=_kinds(options.faults),
        single_homed=options.single_homed,
        scheme=options.scheme,
        topology=options.topology,
        subscribers=options.subscribers,
        faults_per_round=options.faults_per_round,
        keep_going=options.keep_going,
    )
    # It warns of each write to a connection that is lost, of which there are many here.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    with _folder(options.keep_logs) as folder, telling(f"torture, seed {asked.seed}") as say:
        report = _torture_all(asked, folder, say)
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(as_dict(report)) + b"\n")
    else:
        _print(report, options.keep_logs)
    return 0 if report.is_right else EXIT_FAILED


def as_dict(report: Report) -> dict[str, Any]:
    """A report for machines."""
    rows = [{**msgspec.to_builtins(row), "wrong": row.wrong} for row in report.rows]
    more = {"rows": rows, "table": report.table, "totals": report.totals, "right": report.is_right}
    return {**msgspec.to_builtins(report), **msgspec.to_builtins(more)}


def _kinds(text: str | None) -> tuple[str, ...]:
    if text is None:
        return KINDS
    if text.strip() == "none":
        return ()
    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"--faults: there is no {kind!r:.40}; say none, or some of {','.join(KINDS)}")
    return tuple(dict.fromkeys(kinds))


@contextmanager
def _folder(kept: str | None) -> Iterator[Path]:
    """Where logs go: for good, or until we end."""
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="penstock-torture-") as name:
            yield Path(name)
        return
    folder = Path(kept)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{kept}: cannot be made: {why(error)}") from None
    yield folder


def _torture_all(options: Options, folder: Path, say: Say) -> Report:
    """Torture the network that is asked for, or one of each topology."""
    if options.topology != "all":
        return _torture(options, folder, say)
    report = Report(options)
    for topology in TOPOLOGIES:
        own = folder / topology
        own.mkdir(exist_ok=True)
        one = msgspec.structs.replace(options, topology=topology)
        report.join(_torture(one, own, partial(_say, say, topology)), topology)
        if not report.is_right and not options.keep_going:
            break
    return report


def _say(say: Say, topology: str, text: str) -> None:
    say(f"{topology}, {text}")


def _torture(options: Options, folder: Path, say: Say) -> Report:
    network = draw_network(
        options.seed,
        options.brokers,
        topology=options.topology,
        subscribers=options.subscribers,
        single_homed=options.single_homed,
    )
    scheme_named(options.scheme)
    overlay = Overlay(network, folder, options.scheme)
    connect = cast(Connect, penstock.connect)

    async def suffer() -> Report:
        torture = Torture(options, overlay, connect, network, runner=Apart)
        try:
            return await torture.run(say)
        finally:
            (folder / "clients.log").write_text("".join(f"{note}\n" for note in torture.records.notes))

    try:
        return asyncio.run(suffer())
    finally:
        # Whatever happened to the event loop: no process stays behind.
        overlay.end()


def _print(report: Report, kept: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console() if sys.stdout.isatty() else Console(width=150)
    options = report.options
    shape = "each topology" if options.topology == "all" else options.topology
    title = f"penstock torture: {shape}, {options.brokers} brokers, {report.links} links, seed {options.seed}"
    rounds = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    rounds.add_column("round")
    rounds.add_column("faults")
    for heading in ("events", "wanted", "got", "late", "lost", "told", "twice", "recovery\ns"):
        rounds.add_column(heading, justify="right")
    for row in report.rows:
        v = row.verdict
        figures = (v.published, v.expected, v.got, v.late, v.lost, v.told + v.given_up, v.duplicates)
        rounds.add_row(
            row.name,
            "\n".join(row.faults) or "none",
            *(f"{figure:,}" for figure in figures),
            "" if row.recovery_s is None else f"{row.recovery_s:.1f}",
        )
    console.print(rounds)
    kinds = Table(title="by kind of fault", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    kinds.add_column("events under way during")
    for heading in _FIGURES:
        kinds.add_column(heading, justify="right")
    for kind, cells in table(report):
        kinds.add_row(kind, *cells, style="bold" if kind == _NAMES[ALL] else "")
    console.print(kinds)
    for line in told(report, kept):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


_FIGURES = (
    "faults",
    "wanted",
    "lost",
    "told",
    "late",
    "longest\ngap s",
    "longest\nack s",
)
_NAMES = {ALL: "all of it", CALM: "no fault"}


def table(report: Report) -> Iterator[tuple[str, list[str]]]:
    """A row for each kind of fault, and one for all events."""
    for kind, f in report.table.items():
        counts = (f.faults, f.wanted, f.lost, f.told, f.late)
        seconds = (f.longest_gap_s, f.longest_ack_s)
        cells = [*(f"{count:,}" for count in counts), *(f"{second:.1f}" for second in seconds)]
        yield _NAMES.get(kind, kind), cells


def told(report: Report, kept: str | None) -> Iterator[str]:
    """What there is to say of all of it."""
    totals = report.totals
    longest = report.table.get(ALL, Figures())
    yield (
        f"{_counted(totals.faults, 'fault')}, {_counted(totals.published, 'event')} published, "
        f"{_counted(totals.expected, 'deliver', 'y', 'ies')} wanted: {totals.got:,} arrived, "
        f"{totals.late:,} of them late; {totals.lost:,} lost, {totals.told + totals.given_up:,} told, "
        f"{totals.duplicates:,} twice, {totals.unwanted:,} unwanted."
    )
    yield (
        f"Longest gap {longest.longest_gap_s:.1f} s, longest acknowledgement {longest.longest_ack_s:.1f} s, "
        f"slowest recovery {totals.slowest_recovery_s:.1f} s. Clients were told `missed` "
        f"{_counted(totals.missed_notices, 'time')}, {totals.missed_in_vain:,} of them in vain."
    )
    if totals.given_up:
        yield f"Of {_counted(totals.given_up, 'deliver', 'y', 'ies')} the publisher was told (`lost`)."
    if set(report.options.faults) != set(KINDS) and (never := report.never_drawn):
        rounds = _counted(report.options.rounds, "round")
        yield f"Never drawn in {rounds}: {', '.join(never)}; say more --rounds, or another --seed."
    if totals.unacknowledged:
        yield f"{_counted(totals.unacknowledged, 'event')} never acknowledged."
    if report.is_right:
        yield f"Nothing was violated, in {report.seconds:,.0f} s."
        return
    yield "Violated:"
    for row in report.rows:
        yield from (f"  {row.name}: {text}" for text in row.wrong)
    yield from (f"  {text}" for text in report.wrong)
    yield f"to draw the same plan again: {report.options.command}"
    if kept is None:
        yield "With --keep-logs FOLDER, what brokers print and what clients notice is kept."
    else:
        yield f"What brokers printed and what clients noticed is in {kept}."


def _counted(count: int, noun: str, one: str = "", more: str = "s") -> str:
    return f"{count:,} {noun}{one if count == 1 else more}"
