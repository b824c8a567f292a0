"""`penstock broker` and `penstock network`: live brokers, until a signal ends them."""

import argparse
import re
import sys
from typing import Any, Final

from penstock.cli.logs import logged_to_stderr
from penstock.cli.signals import left_to_a_loop
from penstock.errors import InputError
from penstock.net.config import COMMAND_LINE, BrokerConfig, example, load_broker, load_network
from penstock.net.serve import run

_FLAGS: Final = {
    "name": "--name",
    "listen": "--listen",
    "peers": "--peer",
    "peer_names": "--peer-name",
    "protocol": "--protocol",
    "scheme": "--scheme",
    "advertisements": "--no-advertisements",
    "allow_anonymous": "--allow-anonymous",
    "peer_secret_file": "--peer-secret",
    "gateway.listen": "--gateway",
    "tokens.secret_file": "--token-secret",
    "tls.cert": "--tls-cert",
    "tls.key": "--tls-key",
    "tls.ca": "--tls-ca",
}
"""The flags of settings."""

_KEY: Final = re.compile(
    r"(?<![\w./'-])(?:(?:tls|gateway)\.(?:cert|key|ca)|tokens\.secret_file|allow_anonymous = true)"
    r"(?![\w./':-])"
)
"""A setting that a message names; a file may be called so too, but is quoted then, or in front of a colon."""


def run_broker(options: argparse.Namespace) -> int:
    """Run one broker, or show its settings."""
    if options.example:
        sys.stdout.write(example())
        return 0
    try:
        config = load_broker(options.config, overrides(options))
    except InputError as error:
        raise InputError(in_flags(str(error))) from None
    return _run([config], options.log_level)


def run_network(options: argparse.Namespace) -> int:
    """Run the brokers of a file."""
    return _run(load_network(options.file), options.log_level)


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that flags give, shaped as in a file."""
    given = {
        "name": options.name,
        "listen": options.listen,
        "peers": options.peer,
        "peer_names": options.peer_name,
        "protocol": options.protocol,
        "scheme": options.scheme,
        "advertisements": False if options.no_advertisements else None,
        "allow_anonymous": True if options.allow_anonymous else None,
        "peer_secret_file": options.peer_secret,
        "gateway": {"listen": "" if options.gateway == "none" else options.gateway},
        "tokens": {"secret_file": options.token_secret},
        "tls": {"cert": options.tls_cert, "key": options.tls_key, "ca": options.tls_ca},
    }
    return _without_none(given)


def in_flags(mistake: str) -> str:
    """A mistake in a flag in words of flags; one in a file stays as it is."""
    begin = f"{COMMAND_LINE}: "
    if not mistake.startswith(begin):
        return mistake
    key, colon, what = mistake.removeprefix(begin).partition(": ")
    flag = _FLAGS.get(key.partition("[")[0])
    if flag is None:
        return mistake
    told = _KEY.sub(lambda found: _FLAGS.get(found[0].partition(" ")[0], found[0]), what)
    only_in_files = [found for found in _KEY.findall(what) if found.partition(" ")[0] not in _FLAGS]
    return f"{flag}{colon}{told}{' in a file (--config FILE)' if only_in_files else ''}"


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
