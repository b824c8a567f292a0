"""Benchmarks that take long: those who wait are told why, and how far it has come."""

import argparse

from penstock.cli.kernels import wait_for_kernels
from penstock.cli.progress import progress, telling


def filters(options: argparse.Namespace) -> int:
    """Parse, load and compare filters."""
    from penstock.bench.filters import run

    with telling("filters") as say:
        return run(options, say)


def matching(options: argparse.Namespace) -> int:
    """Run the scenarios; where kernels have to be compiled before, say so."""
    from penstock.bench.matching import run

    wait_for_kernels()
    return run(options)


def routing(options: argparse.Namespace) -> int:
    """Insert range filters into covering tables, with a progress bar."""
    from penstock.bench.routing import run

    return run(options, lambda what, total: progress(what, total, "rows"))


def ladder(options: argparse.Namespace) -> int:
    """Compare the routing schemes."""
    from penstock.bench.ladder import run, steps

    wait_for_kernels()
    with progress("ladder", steps(options), "rows") as advance:
        return run(options, advance)


def covering(options: argparse.Namespace) -> int:
    """Compare active, lazy and no covering."""
    from penstock.bench.covering import run, steps

    wait_for_kernels()
    with progress("covering", steps(options), "rows") as advance:
        return run(options, advance)


def network(options: argparse.Namespace) -> int:
    """Measure a broker and its clients, and others beside them."""
    from penstock.bench.network.command import run

    wait_for_kernels()
    return run(options)


def strangers(options: argparse.Namespace) -> int:
    """Measure round trips with and without clients that send expensive filters."""
    from penstock.bench.strangers.command import run

    wait_for_kernels()
    with telling("strangers") as say:
        return run(options, say)


def lint(options: argparse.Namespace) -> int:
    """Measure checking rules."""
    from penstock.bench.lint import run

    wait_for_kernels()
    with telling("lint") as say:
        say("checking a file of rules in a process of its own")
        return run(options)


def start(options: argparse.Namespace) -> int:
    """Measure fresh installations."""
    from penstock.bench.start.command import TRIALS, run

    options.only = options.only or TRIALS
    with telling("start") as say:
        return run(options, say)


def spark(options: argparse.Namespace) -> int:
    """Measure routing on Spark, and plain joins beside it."""
    from penstock.bench.spark.command import run

    wait_for_kernels()
    with telling("spark") as say:
        return run(options, say)
