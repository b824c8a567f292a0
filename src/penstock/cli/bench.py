"""`penstock bench matching`, for those who run it first."""

import argparse

from penstock.cli.kernels import note_if_cold


def matching(options: argparse.Namespace) -> int:
    """Run the scenarios; where kernels have to be compiled before, say so."""
    from penstock.bench.matching import run

    note_if_cold()
    return run(options)
