"""Arguments and help of `penstock bench start`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive


def add_start_bench(kinds: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock bench start`."""
    start = add_command(
        kinds,
        "start",
        "measure the time to the first answer on a fresh installation, and on one with compiled kernels",
        "  penstock bench start --only tiny --only broker\n"
        "  penstock bench start --wheel dist/penstock-0.1.0-py3-none-any.whl\n"
        "  penstock bench start --venv --wheel dist/penstock-0.1.0-py3-none-any.whl\n"
        "  penstock bench start --rules 1000 --events 10000 --json > start.json\n"
        "\nPenstock is installed into empty folders for it. It takes minutes and needs a quiet machine.\n"
        "The exit status is 1 if a small job takes longer than its bar.\n",
    )
    start.add_argument(
        "--only",
        action="append",
        choices=("tiny", "large", "broker", "spark"),
        metavar="TRIAL",
        help="this trial: tiny, large, broker or spark; repeat for more (default: all)",
    )
    start.add_argument("--wheel", metavar="FILE", help="install this wheel (default: Penstock as it is here)")
    start.add_argument(
        "--venv",
        action="store_true",
        help="have pip install the wheel into new virtual environments, with its dependencies",
    )
    start.add_argument(
        "--rules", type=positive, default=10_000, metavar="N", help="of the large trial (10000)"
    )
    start.add_argument(
        "--events", type=positive, default=100_000, metavar="N", help="of the large trial (100000)"
    )
    start.add_argument("--json", action="store_true", help="print the results as JSON")
    start.set_defaults(run=command("cli.bench", "start"))
