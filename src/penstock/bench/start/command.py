"""`penstock bench start`: every trial in an installation of its own, cold; then all in one, warm."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from penstock.bench import measures, printing
from penstock.bench.start import trials
from penstock.bench.start.installation import installed
from penstock.bench.start.trials import Figure, Trial
from penstock.errors import InputError, MissingExtraError

TRIALS: Final = ("tiny", "large", "broker", "spark")
BAR_S: Final = 3.0
"""Seconds to the first answer of a small job, at most."""

_BARRED: Final = ("tiny", "broker", "spark")
_WIDTH: Final = 110


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A trial: what it took without kernels, and with them."""

    name: str
    what: str
    cold: Figure
    warm: Figure


def run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Measure and print a table, or JSON; fail where answers differ."""
    if "spark" in options.only and find_spec("pyspark") is None:
        raise MissingExtraError(
            "the trial on Spark needs it: pip install 'penstock[spark]', or choose with --only"
        )
    wheel = None if options.wheel is None else Path(options.wheel)
    if wheel is not None and not wheel.is_file():
        raise InputError(f"{wheel}: no such file")
    rows, seconds = measure(options.only, options.rules, options.events, wheel, say)
    if options.json:
        document = {
            "machine": measures.facts(),
            "seconds_to_compile": seconds,
            "rows": [
                {
                    "name": row.name,
                    **{f"{when}_{what}_s": getattr(getattr(row, when), what) for when, what in _FIGURES},
                }
                for row in rows
            ],
        }
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        return 0
    table = printing.table(
        "seconds from the start of a process",
        ("trial",),
        ("cold: first answer", "cold: all", "warm: first answer", "warm: all"),
    )
    for row in rows:
        table.add_row(row.what, *(f"{getattr(getattr(row, when), what):.1f}" for when, what in _FIGURES))
    out = printing.console(_WIDTH)
    out.print(table)
    out.print(f"`penstock warm` compiles all kernels in {seconds:.1f} s on this machine.")
    for row in rows:
        if row.name in _BARRED:
            met = "at most" if row.cold.first <= BAR_S else "more than"
            out.print(f"{row.name}: the first answer takes {met} {BAR_S:g} s cold.")
    return 0


_FIGURES: Final = (("cold", "first"), ("cold", "all"), ("warm", "first"), ("warm", "all"))


def measure(
    only: Sequence[str], rules: int, events: int, wheel: Path | None, say: Callable[[str], None]
) -> tuple[list[Row], float]:
    """All trials, and the seconds that compiling all kernels takes."""
    known: dict[str, tuple[str, Trial]] = {
        "tiny": ("match 3 rules, 3 events", trials.tiny),
        "large": (f"match {rules:,} rules, {events:,} events", trials.large(rules, events)),
        "broker": ("broker: it listens, an event is delivered", trials.broker),
        "spark": ("Spark: route after its start, with its start", trials.spark),
    }
    cold: dict[str, Figure] = {}
    for name in only:
        say(f"{name}, cold")
        with installed(wheel) as fresh:
            cold[name] = known[name][1](fresh)
    rows = []
    with installed(wheel) as kept:
        say("compiling")
        began = time.perf_counter()
        kept.run("-m", "penstock", "warm")
        seconds = time.perf_counter() - began
        for name in only:
            say(f"{name}, warm")
            what, trial = known[name]
            warm = trial(kept)
            if warm.answer != cold[name].answer:
                raise InputError(f"{name}: the answers without kernels and with them differ")
            rows.append(Row(name=name, what=what, cold=cold[name], warm=warm))
    return rows, seconds
