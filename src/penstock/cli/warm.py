"""`penstock warm`: the kernels, before anybody waits for them."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from penstock.cli.kernels import note_if_cold
from penstock.cli.main import main
from penstock.cli.progress import telling
from penstock.errors import InputError


def run(_options: argparse.Namespace) -> int:
    """Compile all kernels that are not on disk."""
    began = time.perf_counter()
    where = _folder()
    status = _warm()
    if status == 0:
        sys.stdout.write(f"kernels are ready below {where}, after {time.perf_counter() - began:.1f} s\n")
    return status


def _warm() -> int:
    note_if_cold(packed=True)
    from penstock.matching.warming import compile_all, warm_all
    from penstock.net.matching import warm as warm_broker

    with telling("kernels") as say:
        compile_all(say)
        warm_all(say)
        say("brokers")
        warm_broker()
        say("commands")
        return _match_a_line()


def _match_a_line() -> int:
    """Run `penstock match`, which writes lines with a kernel of its own."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        subscriptions, events = Path(folder) / "s.jsonl", Path(folder) / "e.jsonl"
        subscriptions.write_text('{"id": 1, "filter": "x = 1"}\n')
        events.write_text('{"x": 1}\n')
        files = ["--subscriptions", str(subscriptions), "--events", str(events)]
        return main(["match", *files, "--output", str(Path(folder) / "out.jsonl")])


def _folder() -> Path:
    """The folder below which Numba keeps kernels; an error where there is none, or not the one asked for."""
    try:
        from penstock.cli.lines import write_lines
        from penstock.matching.kernels.match import match
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        raise InputError("there is no folder to keep kernels in; NUMBA_CACHE_DIR names one") from None
    kernels: tuple[Any, ...] = (match, write_lines)
    where = Path(os.path.commonpath([kernel.stats.cache_path for kernel in kernels])).resolve()
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    if wanted and not where.is_relative_to(Path(wanted).resolve()):
        raise InputError(f"NUMBA_CACHE_DIR: {wanted} cannot be written")
    return where
