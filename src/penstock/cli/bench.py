"""Benchmarks that say how far they are, or that kernels have to be compiled first."""

import argparse

from penstock.cli.kernels import note_if_cold


def matching(options: argparse.Namespace) -> int:
    """Run the scenarios; where kernels have to be compiled before, say so."""
    from penstock.bench.matching import run

    note_if_cold()
    return run(options)


def routing(options: argparse.Namespace) -> int:
    """Insert range filters into covering tables, with a progress bar."""
    from penstock.bench.routing import run
    from penstock.cli.progress import progress

    return run(options, lambda what, total: progress(what, total, "rows"))
