"""Arguments and help of the commands that run live brokers."""

import argparse
from typing import Final

from penstock.cli.arguments import Commands, add_command, command

LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def add_broker_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock broker` and `penstock network`."""
    _add_broker(commands)
    _add_network(commands)


def _add_broker(commands: "Commands[argparse.ArgumentParser]") -> None:
    broker = add_command(
        commands,
        "broker",
        "run a broker of a live network",
        "  penstock broker --name b1\n"
        "  penstock broker --name b2 --listen penstock://127.0.0.1:7401 --peer penstock://127.0.0.1:7400 \\\n"
        "      --gateway none\n"
        "  penstock broker --example > b3.toml\n"
        "  penstock broker --config b3.toml --log-level info\n"
        "  penstock broker --name b4 --listen penstocks://0.0.0.0:7400 --token-secret secret \\\n"
        "      --tls-cert b4.pem --tls-key b4.key\n"
        "\nOnce it listens it says where, a line for each address:\n"
        "  b1 listening on penstock://127.0.0.1:7400\n"
        "  b1 gateway on http://127.0.0.1:7480\n"
        "SIGTERM and Ctrl-C end it when it has delivered what it has taken, with status 0; a second one\n"
        "ends it at once. Status 1: it cannot listen there. Status 2: a mistake in the file or the flags.\n",
    )
    broker.add_argument("--example", action="store_true", help="print a file with all settings, explained")
    broker.add_argument("--config", metavar="FILE", help="read settings from here; flags override them")
    broker.add_argument("--name", metavar="NAME", help="what it is called; no other broker has the same name")
    broker.add_argument(
        "--listen",
        action="append",
        metavar="URL",
        help="penstock://HOST:PORT, or penstocks:// for TLS; port 0 is any free one; repeat for more "
        "(default: penstock://127.0.0.1:7400)",
    )
    broker.add_argument("--peer", action="append", metavar="URL", help="another broker; repeat for more")
    broker.add_argument(
        "--peer-name",
        action="append",
        metavar="NAME",
        help="a broker that may join, by its name; needed with --tls-ca, without --peer-secret; repeat for "
        "more, * is any",
    )
    broker.add_argument(
        "--protocol",
        metavar="NAME",
        help="trees, flood, or one of your own as package.module:NAME (default: trees)",
    )
    broker.add_argument("--scheme", metavar="NAME", help="the routing scheme (default: covering)")
    broker.add_argument(
        "--gateway",
        metavar="URL",
        help="http:// or https://HOST:PORT, or none (default: http://127.0.0.1:7480)",
    )
    broker.add_argument(
        "--no-advertisements",
        action="store_true",
        help="let subscriptions go everywhere, advertised or not; so all brokers of a network or none",
    )
    broker.add_argument(
        "--token-secret", metavar="FILE", help="let in only clients whose token is signed with this secret"
    )
    broker.add_argument(
        "--allow-anonymous",
        action="store_true",
        help="listen beyond this machine without tokens: whoever reaches it may read and publish everything",
    )
    broker.add_argument("--tls-cert", metavar="FILE", help="the broker's certificate, for penstocks://")
    broker.add_argument("--tls-key", metavar="FILE", help="its key, where that is not in the same file")
    broker.add_argument("--tls-ca", metavar="FILE", help="who vouches for other brokers")
    broker.add_argument("--peer-secret", metavar="FILE", help="a secret that brokers show each other")
    _add_log_level(broker)
    broker.set_defaults(run=command("cli.broker", "run_broker"))


def _add_network(commands: "Commands[argparse.ArgumentParser]") -> None:
    network = add_command(
        commands,
        "network",
        "run several brokers of a live network in one process",
        "  penstock network three.toml\n"
        "  penstock network three.toml --log-level info\n"
        "\nThe file has a [[broker]] table for each, with the settings that penstock broker --example\n"
        "shows, and in [defaults] what they have in common. The default gateway is the first broker's.\n",
    )
    network.add_argument("file", metavar="FILE", help="the brokers, as TOML")
    _add_log_level(network)
    network.set_defaults(run=command("cli.broker", "run_network"))


def _add_log_level(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        default="warning",
        help="what is told on standard error, a line each (default: warning)",
    )
