"""`penstock check`: brokers and clients under random faults, held to the delivery contract."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.broker.protocols import protocol_named
from penstock.cli.arguments import EXIT_FAILED, EXIT_INTERRUPTED
from penstock.cli.files import display, opened, placed, whole_output
from penstock.cli.pool import cores
from penstock.cli.processes import in_order
from penstock.cli.progress import progress
from penstock.errors import InputError
from penstock.filters.parsing import as_predicate
from penstock.routing.schemes.catalog import scheme_named
from penstock.sim.checkers.catalog import OF_PROTOCOLS, promises
from penstock.sim.explore import (
    Play,
    Verdict,
    check_plan,
    check_seed,
    check_seeds,
    failing_plan,
    shrink_failure,
)
from penstock.sim.plan import Plan, check
from penstock.sim.play import play
from penstock.sim.story import tell
from penstock.sim.trace import Trace
from penstock.sim.whole.play import KINDS

if TYPE_CHECKING:
    from rich.table import Table

_SEEDS: Final = 1000
_AT_ONCE: Final = 10
"""Seeds that a process gets at a time: of these, one is played under every scheme."""

_FAILURES_SHOWN: Final = 3
_WRONG_SHOWN: Final = 5


class Failure(msgspec.Struct, frozen=True):
    """A seed, or a plan, that failed."""

    seed: int
    wrong: list[str]
    command: str
    plan: Plan


class Report(msgspec.Struct):
    """What was checked and found."""

    totals: Verdict
    failures: list[Failure] = []
    seconds: float = 0.0
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        totals: dict[str, Any] = msgspec.to_builtins(self.totals)
        del totals["wrong"]
        return {
            **totals,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "failures": msgspec.to_builtins(self.failures),
        }


def run(options: argparse.Namespace) -> int:
    """Check seeds or a plan, and print what came of it."""
    _check(options)
    plan = None if options.replay is None else read_plan(options.replay)
    report = Report(Verdict())
    failed: list[Verdict] = []
    started = time.perf_counter()
    try:
        with _playing(options.trace) as playing:
            if plan is not None:
                verdicts = iter([check_plan(plan, playing)])
            elif options.seed is not None:
                verdicts = iter([check_seed(options.seed, playing, **_chosen(options))])
            else:
                verdicts = _check_many(options)
            for verdict in verdicts:
                report.totals.add(verdict)
                if verdict.wrong and len(failed) < _FAILURES_SHOWN:
                    failed.append(verdict)
    except KeyboardInterrupt:
        report.interrupted = True
    report.seconds = round(time.perf_counter() - started, 3)
    for verdict in failed:
        report.failures.append(_failure(verdict, options, report, plan))
    if options.save is not None:
        _save(options.save, report)
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(report.as_dict()) + b"\n")
    else:
        _print(report, options)
    if report.interrupted:
        sys.stderr.write("penstock: interrupted\n")
        return EXIT_INTERRUPTED
    return EXIT_FAILED if report.failures else 0


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    """What is asked for otherwise than by seed."""
    return {"scheme": options.scheme, "protocol": options.protocol, "links": options.links}


def _check(options: argparse.Namespace) -> None:
    if options.replay is not None and options.links is not None:
        raise InputError("--links is for seeds; a plan that --replay plays has its own")
    options.links = options.links or "reliable"
    one = options.seed is not None or options.replay is not None
    if one and options.first is not None:
        raise InputError("--from is for several seeds; it goes with --seeds")
    if options.scheme is not None:
        if options.replay is not None:
            raise InputError("--scheme is for seeds; a plan that --replay plays has its own")
        scheme_named(options.scheme)
    if options.protocol is not None:
        if options.replay is not None:
            raise InputError("--protocol is for seeds; a plan that --replay plays has its own")
        protocol = protocol_named(options.protocol)
        unknown = [name for name in protocol.checkers if name not in OF_PROTOCOLS]
        if unknown:
            known = ", ".join(OF_PROTOCOLS)
            raise InputError(f"--protocol: {protocol.name} names a checker {unknown[0]!r}; there are {known}")
        if options.scheme is not None and not protocol.schemes:
            raise InputError(f"--scheme: the protocol {protocol.name} has no routing schemes")
    if options.trace is not None and not one:
        raise InputError("--trace writes one run; say which with --seed or --replay")


def read_plan(path: str) -> Plan:
    """A plan from a file that --save wrote."""
    with opened(path) as file, placed(display(path)):
        plan = msgspec.json.decode(file.read(), type=Plan)
        check(plan)
        for step in plan.steps:
            if step.verb in ("advertise", "subscribe"):
                as_predicate(step.arguments[2])
        scheme_named(plan.scheme)
        protocol_named(plan.protocol)
    return plan


@contextmanager
def _playing(path: str | None) -> Iterator[Play]:
    """How plans are played: with a trace, if one is asked for."""
    if path is None:
        yield play
        return
    with whole_output(path) as write:
        yield partial(play, trace=Trace(write))


def _check_many(options: argparse.Namespace) -> Iterator[Verdict]:
    first, count = options.first or 0, options.seeds or _SEEDS
    parts = [range(at, min(at + _AT_ONCE, first + count)) for at in range(first, first + count, _AT_ONCE)]
    with progress("seeds", count, "rows") as advance:
        work = partial(check_seeds, **_chosen(options))
        for verdicts in in_order(work, parts, options.jobs or cores()):
            yield from verdicts
            advance(len(verdicts))


def _failure(verdict: Verdict, options: argparse.Namespace, report: Report, plan: Plan | None) -> Failure:
    """What there is to tell of a failing seed, with its plan cut short."""
    seed = verdict.failed[0]
    command = f"penstock check --seed {seed}"
    if options.links != "reliable":
        command += f" --links {options.links}"
    for option in ("protocol", "scheme"):
        if getattr(options, option) is not None:
            command += f" --{option} {getattr(options, option)}"
    if plan is not None:
        command = f"penstock check --replay {options.replay}"
    else:
        plan = failing_plan(seed, verdict.wrong, options.links, options.protocol)
    if not (options.no_shrink or report.interrupted):
        try:
            plan = shrink_failure(plan)
        except KeyboardInterrupt:
            report.interrupted = True
    # Clients and brokers of a plan that was cut short have other numbers.
    wrong = check_plan(plan).wrong or verdict.wrong
    return Failure(seed, wrong, command, plan)


def _save(path: str, report: Report) -> None:
    if not report.failures:
        sys.stderr.write(f"penstock: note: nothing failed, and {path} is not written\n")
        return
    with whole_output(path) as write:
        write(msgspec.json.format(msgspec.json.encode(report.failures[0].plan), indent=1) + b"\n")


def _print(report: Report, options: argparse.Namespace) -> None:
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=120)
    totals = report.totals
    table = _table("penstock check")
    for what, figure in (
        ("seeds", totals.seeds),
        ("runs", totals.runs),
        ("faults injected", totals.faults),
        *((f"  {kind}", count) for kind, count in sorted(_kinds(totals, options).items())),
        ("events published", totals.published),
        ("deliveries checked", totals.checked),
        *((f"  not made: {why}", count) for why, count in sorted(totals.excused.items()) if "," not in why),
        ("clients told `missed`", sum(totals.missed.values())),
        ("  in vain", sum(totals.missed_in_vain.values())),
        ("deliveries at rest", totals.deliveries),
        ("messages handled by brokers", totals.handled),
        ("failing seeds", len(totals.failed)),
    ):
        table.add_row(what, f"{figure:,}")
    table.add_row("seconds", f"{report.seconds:,.1f}")
    console.print(table)
    if totals.missed:
        console.print(_missed(totals))
    console.print(_promises(totals, options))
    for text in _told(report, options):
        # Filters have brackets, which are not meant for the printer.
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _table(title: str, *headings: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", show_header=bool(headings))
    for heading in headings or ("", ""):
        table.add_column(heading)
    if not headings:
        table.columns[1].justify = "right"
    return table


def _kinds(totals: Verdict, options: argparse.Namespace) -> dict[str, int]:
    """Faults by kind, also those kinds that have not come up."""
    some = totals.seeds > 1 and options.links == "reliable"
    return dict.fromkeys(KINDS, 0) | totals.faults_by_kind if some else totals.faults_by_kind


def _missed(totals: Verdict) -> "Table":
    """How often clients were told that they missed something, and after what."""
    found = totals.missed, totals.missed_in_vain, totals.missed_with_count
    table = _table("clients told `missed`", "after", "told", "in vain", "of these: with a number")
    for cause in sorted(totals.missed):
        table.add_row(cause, *(f"{counts.get(cause, 0):,}" for counts in found))
    return table


def _promises(totals: Verdict, options: argparse.Namespace) -> "Table":
    """Which sentence of the contract each checker holds."""
    table = _table("what was checked", "checker", "holds")
    protocol = None if options.protocol is None else protocol_named(options.protocol)
    for name, sentences in promises(whole=options.links == "reliable", protocol=protocol).items():
        table.add_row(name, "\n".join(sentences))
    return table


def _told(report: Report, options: argparse.Namespace) -> Iterator[str]:
    """What was wrong, for people."""
    for failure in report.failures:
        yield f"seed {failure.seed} failed:"
        yield from (f"  {text}" for text in failure.wrong[:_WRONG_SHOWN])
        if len(failure.wrong) > _WRONG_SHOWN:
            yield f"  and {len(failure.wrong) - _WRONG_SHOWN} more"
        yield f"to replay it: {failure.command}"
        yield f"the plan{'' if options.no_shrink else ', cut short'}:"
        yield from (f"  {line}" for line in tell(failure.plan))
        yield ""
    more = report.totals.failed[len(report.failures) :]
    if more:
        shown = ", ".join(map(str, more[:20]))
        yield f"more seeds that failed: {shown}{' …' if len(more) > 20 else ''}"
    if report.failures and options.save is not None:
        yield f"the first plan is in {options.save}; penstock check --replay {options.save} plays it"
