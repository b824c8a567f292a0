"""`penstock broker` and `penstock network`: live brokers, until a signal ends them."""

import argparse
import sys
from typing import Any

from penstock.cli.logs import logged_to_stderr
from penstock.cli.signals import left_to_a_loop
from penstock.net.config import BrokerConfig, example, load_broker, load_network
from penstock.net.serve import run


def run_broker(options: argparse.Namespace) -> int:
    """Run one broker, or show its settings."""
    if options.example:
        sys.stdout.write(example())
        return 0
    return _run([load_broker(options.config, overrides(options))], options.log_level)


def run_network(options: argparse.Namespace) -> int:
    """Run the brokers of a file."""
    return _run(load_network(options.file), options.log_level)


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that flags give, shaped as in a file."""
    given = {
        "name": options.name,
        "listen": options.listen,
        "peers": options.peer,
        "scheme": options.scheme,
        "advertisements": False if options.no_advertisements else None,
        "peer_secret_file": options.peer_secret,
        "gateway": {"listen": "" if options.gateway == "none" else options.gateway},
        "tokens": {"secret_file": options.token_secret},
        "tls": {"cert": options.tls_cert, "key": options.tls_key, "ca": options.tls_ca},
    }
    return _without_none(given)


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    """The same without what was not given, and without tables of which nothing was."""
    kept = {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in given.items()
        if value is not None
    }
    return {key: value for key, value in kept.items() if value != {}}


def _run(configs: list[BrokerConfig], log_level: str) -> int:
    with logged_to_stderr(log_level), left_to_a_loop():
        return run(configs)
