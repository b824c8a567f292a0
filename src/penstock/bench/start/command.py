"""`penstock bench start`: every trial in an installation of its own, cold; then all in one, warm.

The exit status is 1 if a bar is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from penstock.bench import measures, printing
from penstock.bench.start import trials
from penstock.bench.start.installation import Installation, installed
from penstock.bench.start.trials import Figure, Trial
from penstock.errors import InputError, MissingExtraError

TRIALS: Final = ("tiny", "large", "broker", "spark")
BAR_S: Final = 3.0
"""Seconds to the first answer of a small job, at most."""

_BARRED: Final = ("tiny", "broker", "spark")
_WIDTH: Final = 110

_EXTRAS: Final = {"broker": "server", "spark": "spark"}
"""What pip installs besides for a trial."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A trial: what it took without kernels, and with them."""

    name: str
    what: str
    cold: Figure
    warm: Figure

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached, where there is one."""
        return self.cold.first <= BAR_S if self.name in _BARRED else None


def run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Measure and print a table, or JSON; fail where answers differ, or a bar is missed."""
    if "spark" in options.only and not options.venv and find_spec("pyspark") is None:
        raise MissingExtraError(
            "the trial on Spark needs it: pip install 'penstock[spark]', or choose with --only"
        )
    wheel = None if options.wheel is None else Path(options.wheel)
    if wheel is not None and not wheel.is_file():
        raise InputError(f"{wheel}: no such file")
    if options.venv and wheel is None:
        raise InputError("--venv installs a wheel: give --wheel FILE")
    extras = [_EXTRAS[name] for name in options.only if name in _EXTRAS] if options.venv else None
    install = partial(installed, wheel, extras)
    rows, seconds = measure(options.only, options.rules, options.events, install, say)
    status = int(any(row.met is False for row in rows))
    if options.json:
        document = {
            "machine": measures.facts(),
            "seconds_to_compile": seconds,
            "rows": [
                {
                    "name": row.name,
                    "met": row.met,
                    **{f"{when}_{what}_s": getattr(getattr(row, when), what) for when, what in _FIGURES},
                }
                for row in rows
            ],
        }
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        return status
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
        if row.met is not None:
            took, verdict = ("at most", "met") if row.met else ("more than", "missed")
            out.print(f"{row.name}: the first answer takes {took} {BAR_S:g} s cold ({verdict}).")
    return status


_FIGURES: Final = (("cold", "first"), ("cold", "all"), ("warm", "first"), ("warm", "all"))


def measure(
    only: Sequence[str],
    rules: int,
    events: int,
    install: Callable[[], AbstractContextManager[Installation]],
    say: Callable[[str], None],
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
        with install() as fresh:
            cold[name] = known[name][1](fresh)
    rows = []
    with install() as kept:
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
