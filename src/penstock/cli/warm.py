"""`penstock warm`: the kernels, before anybody waits for them."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from penstock.cli.kernels import note_if_cold
from penstock.cli.main import main
from penstock.cli.progress import telling


def run(_options: argparse.Namespace) -> int:
    """Compile all kernels that are not on disk."""
    note_if_cold(packed=True)
    from penstock.matching.kernels.match import match
    from penstock.matching.warming import warm_all
    from penstock.net.matching import warm as warm_broker

    began = time.perf_counter()
    with telling("kernels") as say:
        warm_all(say)
        say("brokers")
        warm_broker()
        say("commands")
        status = _match_a_line()
    # Where Numba keeps them is for Numba to say.
    folder = getattr(getattr(match, "stats", None), "cache_path", None)
    where = f" in {folder}" if folder else ""
    sys.stdout.write(f"kernels are ready{where}, after {time.perf_counter() - began:.1f} s\n")
    return status


def _match_a_line() -> int:
    """Run `penstock match`, which writes lines with a kernel of its own."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        subscriptions, events = Path(folder) / "s.jsonl", Path(folder) / "e.jsonl"
        subscriptions.write_text('{"id": 1, "filter": "x = 1"}\n')
        events.write_text('{"x": 1}\n')
        files = ["--subscriptions", str(subscriptions), "--events", str(events)]
        return main(["match", *files, "--output", str(Path(folder) / "out.jsonl")])
