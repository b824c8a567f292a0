"""`penstock bench routing`: range filters into the poset-derived forest and the filters poset, on one core.

The workload is that of Salo 2010, section 7.2 (two-dimensional ranges, three distributions), with more
filters. The bar that the project sets itself is for the forest: 100,000 filters in a minute.
"""

import argparse
import gc
import platform
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from penstock.filters.predicate import Predicate
from penstock.routing.forest import PosetDerivedForest
from penstock.routing.poset import FiltersPoset
from penstock.workloads import range_filters

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

Table = PosetDerivedForest[Predicate] | FiltersPoset[Predicate, int]
TABLES: Final[dict[str, Callable[[], Table]]] = {"forest": PosetDerivedForest, "poset": FiltersPoset}

BAR_PER_SECOND: Final = 100_000 / 60
"""Filters that the forest takes in a second, at least."""

_STEP: Final = 500


class Result(msgspec.Struct, frozen=True):
    """One table, filled with the filters of one distribution.

    Of the pairs that the table had to look at, `tests` were tested in full, `decided` were covers by their
    shapes alone, `ruled_out` were none by their shapes alone. `entries` are fewer than `filters` where some
    filters are equal.
    """

    table: str
    distribution: str
    filters: int
    seconds: float
    tests: int
    decided: int
    ruled_out: int
    entries: int
    roots: int
    depth: int

    @property
    def per_second(self) -> float:
        """Filters inserted in a second."""
        return self.filters / self.seconds

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached; None where there is none."""
        return self.per_second >= BAR_PER_SECOND if self.table == "forest" else None


def run(options: argparse.Namespace, progress: Progress) -> int:
    """Run all and print a table, or JSON."""
    results = measure(options.count, options.seed, progress, options.table)
    if options.json:
        plain = [{**msgspec.structs.asdict(r), "per_second": r.per_second, "met": r.met} for r in results]
        document = {"python": platform.python_version(), "machine": platform.machine(), "results": plain}
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        _print(results)
    return 0


def measure(count: int, seed: int, progress: Progress, only: str | None = None) -> list[Result]:
    """Fill each table, or only one, with so many filters of each distribution."""
    results = []
    for distribution in range_filters.DISTRIBUTIONS:
        made = range_filters.as_predicates(range_filters.filters(count, seed, distribution))
        for name, table in TABLES.items():
            if only not in (None, name):
                continue
            with progress(f"{name}, {distribution}", count) as advance:
                results.append(_insert(name, table(), distribution, made, advance))
    return results


def _insert(
    name: str, table: Table, distribution: str, made: list[Predicate], advance: Callable[[int], None]
) -> Result:
    gc.collect()
    seconds = 0.0
    for start in range(0, len(made), _STEP):
        part = made[start : start + _STEP]
        started = time.perf_counter()
        for predicate in part:
            table.add(predicate)
        seconds += time.perf_counter() - started
        advance(len(part))
    counts = table.covering
    return Result(
        name,
        distribution,
        len(made),
        seconds,
        counts.tests,
        counts.decided,
        counts.ruled_out,
        len(table),
        len(table.roots()),
        table.depth(),
    )


def _print(results: list[Result]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title="penstock bench routing", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    grid.add_column("table")
    grid.add_column("ranges")
    headings = (
        "seconds",
        "filters/s",
        "bar",
        "tests",
        "covers by shape",
        "ruled out by shape",
        "roots",
        "depth",
    )
    for heading in headings:
        grid.add_column(heading, justify="right")
    for result in results:
        missed = " (missed)" if result.met is False else ""
        grid.add_row(
            result.table,
            result.distribution,
            f"{result.seconds:,.1f}",
            f"{result.per_second:,.0f}",
            "" if result.met is None else f"≥ {BAR_PER_SECOND:,.0f}{missed}",
            f"{result.tests:,}",
            f"{result.decided:,}",
            f"{result.ruled_out:,}",
            f"{result.roots:,}",
            f"{result.depth:,}",
        )
    (Console() if sys.stdout.isatty() else Console(width=120)).print(grid)
