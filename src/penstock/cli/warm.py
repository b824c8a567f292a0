"""`penstock warm`: the kernels, before anybody waits for them."""

import argparse
import os
import sys
import time
from pathlib import Path

from penstock.cli.progress import telling
from penstock.errors import InputError
from penstock.matching.kernels.caching import folder


def run(_options: argparse.Namespace) -> int:
    """Compile all kernels that are not on disk."""
    began = time.perf_counter()
    where = _folder()
    _warm()
    sys.stdout.write(f"kernels are ready below {where}, after {time.perf_counter() - began:.1f} s\n")
    return 0


def _warm() -> None:
    from penstock.matching.compiling import compile_all
    from penstock.matching.warming import warm_all
    from penstock.net.matching import warm as warm_broker

    with telling("kernels") as say:
        compile_all(say)
        warm_all(say)
        say("brokers")
        warm_broker()


def _folder() -> Path:
    """The folder that kernels are kept in; an error where there is none, or not the one asked for."""
    where, wanted = folder(), os.environ.get("NUMBA_CACHE_DIR")
    if wanted and (where is None or not where.is_relative_to(wanted)):
        raise InputError(f"NUMBA_CACHE_DIR: {wanted} cannot be written")
    if where is None:
        raise InputError("there is no folder to keep kernels in; NUMBA_CACHE_DIR names one")
    return where
