"""Arguments and help of `penstock bench strangers`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive, seconds


def add_strangers_bench(kinds: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock bench strangers`."""
    strangers = add_command(
        kinds,
        "strangers",
        "measure what clients that send expensive filters cost the others",
        "  penstock bench strangers --clients 20 --rounds 1 --seconds 2\n"
        "  penstock bench strangers --hostile 1\n"
        "  penstock bench strangers --json > strangers.json\n"
        "\nIt needs a quiet machine with two cores. Rounds without and with hostile clients take turns.\n",
    )
    strangers.add_argument("--clients", type=positive, default=99, metavar="N", help="ordinary clients (99)")
    strangers.add_argument(
        "--hostile",
        type=positive,
        default=1,
        metavar="N",
        help="clients that send the worst filters known, each as a subject of its own (1)",
    )
    strangers.add_argument(
        "--rate", type=positive, default=5, metavar="N", help="events a second of each ordinary client (5)"
    )
    strangers.add_argument("--seconds", type=seconds, default=8.0, metavar="S", help="length of a round (8)")
    strangers.add_argument("--rounds", type=positive, default=3, metavar="N", help="rounds of each kind (3)")
    strangers.add_argument("--json", action="store_true", help="print the results as JSON")
    strangers.set_defaults(run=command("cli.bench", "strangers"))
