"""Arguments and help of `penstock demo`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive


def add_demo_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock demo`."""
    demo = add_command(
        commands,
        "demo",
        "match a year of New York flights, then send them through a network of which a broker is killed, "
        "with a pipeline on Spark beside it",
        "  penstock demo\n"
        "  penstock demo --no-pipeline\n"
        "  penstock demo --only network\n"
        "  penstock demo --only matching --flights 10000\n"
        "\nThe network is one of broker processes on this machine's loopback interface, and ends with the\n"
        "command. All that arrives is held against what every filter, tried on every flight, says: if there\n"
        "is a difference that the killed broker does not excuse, it is told, and the exit status is 1.\n"
        "\nThe pipeline is a Spark of its own, which subscribes to all flights and routes them to a hundred\n"
        "subscriptions, in batches of a second, to Parquet files; half-way another subscription is added.\n"
        "It needs penstock[spark], with Java or what that brings along; without it the rest runs alone.\n",
    )
    demo.add_argument(
        "--only",
        choices=("matching", "network", "pipeline"),
        help="only this part, the pipeline with nobody else at the network (default: matching, then network "
        "and pipeline side by side)",
    )
    demo.add_argument("--no-pipeline", action="store_true", help="leave the pipeline out")
    demo.add_argument(
        "--flights",
        type=positive,
        metavar="N",
        help="only the first N flights (default: the year for matching, 30000 for the network)",
    )
    demo.add_argument(
        "--brokers", type=positive, default=7, metavar="N", help="brokers of the network, 5 to 20 (7)"
    )
    demo.set_defaults(run=command("cli.demo", "run"))
