"""`penstock bench lint`: the whole command `penstock lint` on a file of rules, in a process of its own.

The rules are those of `penstock.workloads.alerts`. Seconds are the processor time of that process, so other
programs on the machine hardly count; elapsed time stands beside them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from penstock.bench import measures, printing
from penstock.errors import PenstockError
from penstock.workloads import alerts

_WIDTH: Final = 100
_BAR: Final = 30 / 200_000
"""Seconds for each rule: 200,000 in half a minute."""


class Linted(msgspec.Struct, frozen=True, kw_only=True):
    """What checking so many rules took, and what was found."""

    rules: int
    seconds: float
    elapsed_seconds: float
    peak_gb: float
    found: dict[str, int]
    """How many findings of each level."""

    @property
    def rules_per_second(self) -> float:
        """By processor time."""
        return self.rules / self.seconds

    @property
    def bar(self) -> float:
        """Seconds that so many rules should take at most."""
        return _BAR * self.rules


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table, or JSON."""
    found = measure(max(1, round(options.rules * options.scale)), options.seed)
    if options.json:
        document = {
            "machine": measures.facts(),
            "seed": options.seed,
            **msgspec.to_builtins(found),
            "rules_per_second": found.rules_per_second,
        }
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return 0
    shown = printing.table(
        "penstock bench lint", (), ("rules", "seconds", "bar", "rules/s", "elapsed", "peak")
    )
    shown.add_row(
        f"{found.rules:,}",
        f"{found.seconds:,.1f} s",
        f"≤ {found.bar:,.1f} s",
        f"{found.rules_per_second:,.0f}",
        f"{found.elapsed_seconds:,.1f} s",
        f"{found.peak_gb:,.2f} GB",
    )
    console = printing.console(_WIDTH)
    console.print(shown)
    console.print("found: " + ", ".join(f"{count:,} {level}s" for level, count in found.found.items()))
    return 0


def measure(rules: int, seed: int) -> Linted:
    """Write so many rules to a file, and have them checked."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        given, report = Path(folder) / "rules.jsonl", Path(folder) / "report.json"
        encoder = msgspec.json.Encoder()
        with given.open("wb") as file:
            for number, text in enumerate(alerts.texts(rules, seed)):
                file.write(encoder.encode({"id": number, "filter": text}) + b"\n")
        command = [sys.executable, "-m", "penstock", "lint", str(given)]
        command += ["--format", "json", "--output", str(report), "--fail-on", "never"]
        started = time.perf_counter()
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:  # noqa: S603 - our own program
            told = process.stderr.read().decode() if process.stderr else ""
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        elapsed = time.perf_counter() - started
        if status:
            raise PenstockError(f"penstock lint failed: {told[-500:]}")
        counts = msgspec.json.decode(report.read_bytes())["counts"]
    return Linted(
        rules=rules,
        seconds=used.ru_utime + used.ru_stime,
        elapsed_seconds=elapsed,
        peak_gb=used.ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6),
        found=counts,
    )
