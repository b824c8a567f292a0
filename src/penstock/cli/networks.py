"""Arguments and help of the commands that simulate networks."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive


def add_network_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock check`."""
    _add_check(commands)


def _add_check(commands: "Commands[argparse.ArgumentParser]") -> None:
    check = add_command(
        commands,
        "check",
        "run random networks, workloads, schemes and faults, and check every delivery against brute force",
        "  penstock check --seeds 1000\n"
        "  penstock check --seeds 10000 --from 50000 --jobs 8 --json\n"
        "  penstock check --seed 137\n"
        "  penstock check --seed 137 --save plan.json\n"
        "  penstock check --replay plan.json --trace trace.jsonl\n"
        "\nThe same seed gives the same run. A seed that fails is told with what was wrong, the command\n"
        "that replays it and the shortest plan found that fails in the same way; the exit status is then 1.\n",
    )
    which = check.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=positive, metavar="N", help="so many seeds (default: 1000)")
    which.add_argument("--seed", type=int, metavar="N", help="only this one")
    which.add_argument("--replay", metavar="FILE", help="only this plan, which --save wrote")
    check.add_argument("--from", dest="first", type=int, metavar="N", help="the first seed (default: 0)")
    check.add_argument(
        "--jobs", type=positive, metavar="N", help="use so many processes (default: as many as cores)"
    )
    check.add_argument("--no-shrink", action="store_true", help="show plans that fail as they are")
    check.add_argument("--save", metavar="FILE", help="write the plan of the first seed that fails, as JSON")
    check.add_argument(
        "--trace",
        metavar="FILE",
        help="with --seed or --replay: write a JSON line for each message handled and each delivery",
    )
    check.add_argument("--json", action="store_true", help="print the results as JSON")
    check.set_defaults(run=command("cli.check", "run"))
