"""`penstock bench filters`: parsing, loading and comparing filters, on one core.

Each line names the bar that the project sets itself. Machines differ and are noisy: compare the lines of
one run with one another, and runs on one machine.
"""

import argparse
import gc
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers, overlaps
from penstock.workloads.filters import json_form, simple_sql

_TEXTS = 100_000
_PAIRS = 20_000
_BATCH = 10


Item = TypeVar("Item")


class Result(msgspec.Struct, frozen=True):
    """One line of the benchmark."""

    name: str
    measured: float
    unit: str
    bar: float
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether the bar is reached."""
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar


_Trial = tuple[str, Callable[[], Result]]
_Relation = Callable[[Predicate, Predicate], bool]


def run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Run all and print a table, or JSON."""
    results = measure(options.count, options.seed, say)
    if options.json:
        plain = [{**msgspec.structs.asdict(result), "met": result.met} for result in results]
        document = {"python": platform.python_version(), "machine": platform.machine(), "results": plain}
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        _print(results)
    return 0


def measure(count: int, seed: int, say: Callable[[str], None] = lambda _what: None) -> list[Result]:
    """Measure everything: `count` filters for the bulk load, a seed for all that is random."""
    trials = _trials(count, seed, say)
    results: list[Result] = []
    for at, (what, trial) in enumerate(trials, 1):
        say(f"{what} ({at} of {len(trials)})")
        results.append(trial())
    return results


def _trials(count: int, seed: int, say: Callable[[str], None]) -> list[_Trial]:
    """What is measured, and how."""
    say("drawing filters")
    texts = list(islice(simple_sql(seed), min(_TEXTS, count)))
    one = [text for text in texts if " and " not in text]
    predicates = [parse(text) for text in texts]
    printed = [predicate.to_json() for predicate in predicates]
    pairs = list(pairwise(predicates[: _PAIRS + 1]))
    narrower = [(f, parse(f"({g}) and extra = 1")) for g, f in zip(texts, predicates, strict=False)][:_PAIRS]

    def rate(name: str, work: Callable[[Item], object], items: list[Item], bar: float) -> _Trial:
        return name, lambda: _rate(name, work, items, bar)

    def median(name: str, relation: _Relation, pairs: list[tuple[Predicate, Predicate]]) -> _Trial:
        return name, lambda: _median(name, relation, pairs, 10.0)

    return [
        rate("parse SQL, 1 constraint", parse, one, 50_000),
        rate("parse SQL, 1 to 4 constraints", parse, texts, 50_000),
        rate("print SQL", Predicate.to_sql, predicates, 20_000),
        rate("parse JSON form", lambda text: parse(text, "json"), printed, 17_000),
        (f"load {count:,} filters in JSON form", lambda: _bulk(count, seed)),
        median("covers, random pairs (mostly false)", covers, pairs),
        median("covers, pairs that do cover", covers, narrower),
        median("overlaps, random pairs", overlaps, pairs),
    ]


def _rate(name: str, work: Callable[[Item], object], items: list[Item], bar: float) -> Result:
    """How many items a second: the best of three passes, as others on the machine only slow it down."""
    passes = []
    for _ in range(3):
        started = time.perf_counter()
        for item in items:
            work(item)
        passes.append(time.perf_counter() - started)
    return Result(name, len(items) / min(passes), "/s", bar, at_least=True)


def _bulk(count: int, seed: int) -> Result:
    """Load a file of filters in the JSON form, keeping them all."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "filters.jsonl"
        with path.open("wb") as file:
            encoder = msgspec.json.Encoder()
            for made in islice(json_form(seed), count):
                file.write(encoder.encode(made) + b"\n")
        gc.collect()
        started = time.perf_counter()
        with path.open("rb") as file:
            loaded = [parse(line, "json") for line in file]
        elapsed = time.perf_counter() - started
    if len(loaded) != count:
        raise AssertionError(f"loaded {len(loaded)} of {count} filters")
    # The bar is for a million; fewer have to be as quick each.
    return Result(
        f"load {count:,} filters in JSON form", elapsed, "s", 60 * count / 1_000_000, at_least=False
    )


def _median(
    name: str,
    relation: _Relation,
    pairs: Iterable[tuple[Predicate, Predicate]],
    bar: float,
) -> Result:
    """Microseconds of one call, at the median over pairs; each pair is timed over a few calls."""
    times = []
    for f, g in pairs:
        started = time.perf_counter()
        for _ in range(_BATCH):
            relation(f, g)
        times.append((time.perf_counter() - started) / _BATCH)
    return Result(name, statistics.median(times) * 1e6, "µs", bar, at_least=False)


def _print(results: list[Result]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title="penstock bench filters", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("what")
    for heading in ("measured", "bar", "of the bar"):
        table.add_column(heading, justify="right")
    for result in results:
        sign = "≥" if result.at_least else "≤"
        digits = 0 if result.unit == "/s" else 2
        ratio = result.measured / result.bar
        table.add_row(
            result.name,
            f"{result.measured:,.{digits}f} {result.unit}",
            f"{sign} {result.bar:,.{digits}f} {result.unit}",
            f"{ratio:.2f} × {'' if result.met else '(missed)'}".strip(),
        )
    (Console() if sys.stdout.isatty() else Console(width=100)).print(table)
