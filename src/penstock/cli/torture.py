"""`penstock torture`: real brokers, real faults, and what came of them."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

import penstock
from penstock.cli.arguments import EXIT_FAILED
from penstock.cli.files import why
from penstock.cli.progress import telling
from penstock.errors import InputError
from penstock.net.torture.clients import Connect
from penstock.net.torture.overlay import Overlay
from penstock.net.torture.plan import KINDS, draw_network
from penstock.net.torture.report import Options, Report
from penstock.net.torture.run import Say, Torture
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
    )
    with _folder(options.keep_logs) as folder, telling(f"torture, seed {asked.seed}") as say:
        report = _torture(asked, folder, say)
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(as_dict(report)) + b"\n")
    else:
        _print(report, options.keep_logs)
    return 0 if report.is_right else EXIT_FAILED


def as_dict(report: Report) -> dict[str, Any]:
    """A report for machines."""
    rows = [{**msgspec.to_builtins(row), "wrong": row.wrong} for row in report.rows]
    totals = msgspec.to_builtins(report.totals)
    return {**msgspec.to_builtins(report), "rows": rows, "totals": totals, "right": report.is_right}


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


def _torture(options: Options, folder: Path, say: Say) -> Report:
    network = draw_network(options.seed, options.brokers, single_homed=options.single_homed)
    scheme_named(options.scheme)
    overlay = Overlay(network, folder, options.scheme)
    connect = cast(Connect, penstock.connect)

    async def suffer() -> Report:
        torture = Torture(options, overlay, connect, network)
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
    title = f"penstock torture: {options.brokers} brokers, {report.links} links, seed {options.seed}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("round")
    table.add_column("faults")
    for heading in ("events", "expected", "got", "late", "lost when\nseparated", "twice", "recovery\ns"):
        table.add_column(heading, justify="right")
    for row in report.rows:
        verdict = row.verdict
        figures = (verdict.published, verdict.expected, verdict.got, verdict.late)
        more = (verdict.lost_apart, verdict.duplicates)
        table.add_row(
            row.name,
            "\n".join(row.faults) or "none",
            *(f"{figure:,}" for figure in (*figures, *more)),
            "" if row.recovery_s is None else f"{row.recovery_s:.1f}",
        )
    console.print(table)
    for line in told(report, kept):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def told(report: Report, kept: str | None) -> Iterator[str]:
    """What there is to say of all of it."""
    totals = report.totals
    yield (
        f"{_counted(totals.faults, 'fault')}, {_counted(totals.published, 'event')} published, "
        f"{_counted(totals.expected, 'deliver', 'y', 'ies')} checked: {totals.got:,} came, "
        f"{totals.late:,} of them late, {totals.duplicates:,} twice; "
        f"{totals.lost_apart:,} were lost between clients that were separated. The slowest recovery took "
        f"{totals.slowest_recovery_s:.1f} s."
    )
    if set(report.options.faults) != set(KINDS) and (never := report.never_drawn):
        rounds = _counted(report.options.rounds, "round")
        yield f"Never drawn in {rounds}: {', '.join(never)}; say more --rounds, or another --seed."
    if totals.unsure:
        yield f"{_counted(totals.unsure, 'event')} never acknowledged."
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
