"""Arguments and help of the commands that simulate networks."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive


def add_network_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock sim` and `penstock check`."""
    _add_sim(commands)
    _add_check(commands)


def _add_sim(commands: "Commands[argparse.ArgumentParser]") -> None:
    sim = add_command(
        commands,
        "sim",
        "simulate a network of brokers as a scenario says, and print what it costs",
        "  penstock sim --list\n"
        "  penstock sim plain\n"
        "  penstock sim plain --scheme merging --json\n"
        "  penstock sim plain --protocol flood\n"
        "  penstock sim plain --print > mine.toml\n"
        "  penstock sim mine.toml --seed 7 --trace trace.jsonl --plot figures\n"
        "\nA scenario is a TOML file: topology, links, service times, clients, workload, scheme and faults.\n"
        "Those that come with the program are examples to copy. Checkers look on, and a table says what\n"
        "they found. The exit status is 1 if one failed, or if at rest an event came to somebody who did\n"
        "not want it, or did not come to somebody who did. Where links still lose or reorder messages in\n"
        "the end, nothing is known of that: a note says so, and checkers that need rest are skipped.\n",
    )
    sim.add_argument("scenario", nargs="?", metavar="FILE", help="a scenario, or the name of one in --list")
    sim.add_argument(
        "--list", action="store_true", help="name and describe the scenarios that come with the program"
    )
    sim.add_argument("--print", action="store_true", help="print the scenario itself, to copy and change")
    sim.add_argument("--seed", type=int, metavar="N", help="another seed than the scenario's")
    sim.add_argument("--scheme", metavar="NAME", help="another routing scheme than the scenario's")
    sim.add_argument(
        "--protocol", metavar="NAME", help="another protocol than the scenario's: trees, flood or module:NAME"
    )
    sim.add_argument("--json", action="store_true", help="print the results as JSON")
    sim.add_argument(
        "--trace",
        metavar="FILE",
        help="write a JSON line for each message handled or lost, each delivery and fault",
    )
    sim.add_argument(
        "--plot",
        metavar="FOLDER",
        help="draw queues, waits, deliveries, delays, table sizes and traffic here",
    )
    sim.set_defaults(run=command("cli.sim", "run"))


def _add_check(commands: "Commands[argparse.ArgumentParser]") -> None:
    check = add_command(
        commands,
        "check",
        "run whole brokers and clients under random faults, and hold them to the delivery contract",
        "  penstock check --seeds 1000\n"
        "  penstock check --seeds 10000 --from 50000 --jobs 8 --json\n"
        "  penstock check --seeds 500 --scheme merging\n"
        "  penstock check --seeds 500 --protocol flood\n"
        "  penstock check --seeds 500 --links plain\n"
        "  penstock check --seed 137\n"
        "  penstock check --seed 137 --save plan.json\n"
        "  penstock check --replay plan.json --trace trace.jsonl\n"
        "\nWith reliable links, the default, brokers and clients run as they do on sockets, with sessions,\n"
        "custody and failover, under virtual time; faults cut, stall and corrupt connections, and kill and\n"
        "pause processes. With plain links, only brokers run, on links that lose, repeat and reorder\n"
        "messages.\n"
        "\nThe same seed gives the same run. A seed that fails is told with what was wrong, the command\n"
        "that replays it and the shortest plan found that fails in the same way; exit status 1.\n",
    )
    which = check.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=positive, metavar="N", help="so many seeds (default: 1000)")
    which.add_argument("--seed", type=int, metavar="N", help="only this one")
    which.add_argument("--replay", metavar="FILE", help="only this plan, which --save wrote")
    check.add_argument("--from", dest="first", type=int, metavar="N", help="the first seed (default: 0)")
    check.add_argument(
        "--links",
        choices=("reliable", "plain"),
        help="connections as bytes between whole nodes, or messages between brokers (default: reliable)",
    )
    check.add_argument(
        "--scheme", metavar="NAME", help="only under this scheme (default: one by seed, now and then all)"
    )
    check.add_argument(
        "--protocol",
        metavar="NAME",
        help="only this protocol, or one of your own as package.module:NAME (default: one by seed)",
    )
    check.add_argument(
        "--jobs", type=positive, metavar="N", help="use so many processes (default: as many as cores)"
    )
    check.add_argument("--no-shrink", action="store_true", help="show plans that fail as they are")
    check.add_argument("--save", metavar="FILE", help="write the plan of the first seed that fails, as JSON")
    check.add_argument(
        "--trace",
        metavar="FILE",
        help="with --seed or --replay: a JSON line for each message handled or lost, delivery and fault",
    )
    check.add_argument("--json", action="store_true", help="print the results as JSON")
    check.set_defaults(run=command("cli.check", "run"))
