"""Arguments and help of `penstock bench lint`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive, scale


def add_lint_bench(kinds: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock bench lint`."""
    lint = add_command(
        kinds,
        "lint",
        "measure penstock lint on a file of rules: seconds, rules per second, peak memory",
        "  penstock bench lint --scale 0.2\n"
        "  penstock bench lint --scale 0.2 --json\n"
        "\nA million rules take some minutes; --scale 0.2 checks 200,000.\n",
    )
    lint.add_argument("--rules", type=positive, default=1_000_000, metavar="N", help="rules (1000000)")
    lint.add_argument("--scale", type=scale, default=1.0, metavar="F", help="take only this share (1)")
    lint.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the rules (1)")
    lint.add_argument("--json", action="store_true", help="print the results as JSON")
    lint.set_defaults(run=command("cli.bench", "lint"))
