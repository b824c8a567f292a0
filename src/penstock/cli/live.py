"""Arguments and help of the commands for the live network."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive
from penstock.cli.live_clients import add_client_commands


def add_live_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock token`, and what a client does."""
    _add_token(commands)
    add_client_commands(commands)


def _add_token(commands: "Commands[argparse.ArgumentParser]") -> None:
    token = add_command(
        commands,
        "token",
        "print a token that says who somebody is and may do what, or make a secret to sign tokens with",
        "  penstock token --new-secret secret.txt\n"
        "  penstock token --secret-file secret.txt --subject alice --subscribe \"origin = 'JFK'\"\n"
        "  penstock token --secret-file secret.txt --subject feed --advertise true --events-per-second 1000\n"
        "  penstock token --secret-file secret.txt --subject ops --subscribe true --monitor --expires 30d\n"
        '  penstock token --private-key-file key.pem --algorithm ES256 --subject bob --subscribe "x > 1"\n'
        "\nWhat is not granted is not allowed: without --subscribe nothing can be subscribed to. The filter\n"
        "true grants everything. A token is as good as a password until it expires: it is printed once and\n"
        "kept nowhere. Brokers that take it have the same secret, or the public key that goes with the\n"
        "private one.\n",
    )
    keys = token.add_mutually_exclusive_group(required=True)
    keys.add_argument(
        "--new-secret",
        metavar="FILE",
        help="write a random secret here, for its owner alone to read, and end",
    )
    keys.add_argument("--secret-file", metavar="FILE", help="sign with the secret in this file (HS…)")
    keys.add_argument(
        "--private-key-file",
        metavar="FILE",
        help="sign with the private key in this file, in PEM (the others)",
    )
    token.add_argument(
        "--algorithm", metavar="NAME", help="HS256 (default), HS384, HS512, RS256, PS256, ES256, EdDSA, …"
    )
    token.add_argument("--subject", metavar="NAME", help="who the token is for")
    token.add_argument(
        "--subscribe",
        action="append",
        default=[],
        metavar="FILTER",
        help="grant subscriptions that this filter, in SQL, covers; repeat for more",
    )
    token.add_argument(
        "--advertise",
        action="append",
        default=[],
        metavar="FILTER",
        help="grant advertisements, and so events, that this filter covers; repeat for more",
    )
    token.add_argument("--monitor", action="store_true", help="grant a look at brokers, and tracing")
    token.add_argument(
        "--expires", type=_duration, default=3_600, metavar="TIME", help="90s, 15m, 1h (default), 30d"
    )
    for name, what in (
        ("--subscriptions", "subscriptions at a time"),
        ("--advertisements", "advertisements at a time"),
        ("--bytes-per-second", "bytes a second"),
        ("--events-per-second", "events a second"),
    ):
        token.add_argument(name, type=positive, default=0, metavar="N", help=f"at most so many {what}")
    token.add_argument("--audience", metavar="TEXT", help="for brokers that ask for this audience")
    token.add_argument("--issuer", metavar="TEXT", help="for brokers that ask for this issuer")
    token.set_defaults(run=command("cli.token", "run"))


def _duration(text: str) -> int:
    """Seconds, from a number and a unit."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    number, unit = text[:-1], text[-1:]
    if (
        unit not in units
        or not (number.isascii() and number.isdecimal())
        or len(number) > 9
        or not int(number)
    ):
        raise argparse.ArgumentTypeError(f"a time such as 90s, 15m, 1h or 30d is needed, not {text!r}")
    return int(number) * units[unit]
