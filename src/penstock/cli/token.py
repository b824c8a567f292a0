"""`penstock token`: tokens for the live network, and secrets to sign them with."""

import argparse
import os
import secrets
import sys
from pathlib import Path
from typing import Final

from penstock.broker.quotas import Quotas
from penstock.cli.files import why
from penstock.errors import InputError, PenstockError
from penstock.net.tokens import SECRETS, make_token, read_key

_RANDOM_BYTES: Final = 48
"""Written as 64 characters: enough for every algorithm that takes a secret."""


def run(options: argparse.Namespace) -> int:
    """Print a token, or make a secret."""
    if options.new_secret is not None:
        _new_secret(options)
        return 0
    if options.subject is None:
        raise InputError("say who the token is for: --subject NAME")
    path = options.secret_file if options.secret_file is not None else options.private_key_file
    algorithm = _algorithm(options)
    token = make_token(
        read_key(path),
        options.subject,
        expires_in=options.expires,
        algorithm=algorithm,
        subscribe=options.subscribe,
        advertise=options.advertise,
        monitor=options.monitor,
        quotas=Quotas(
            subscriptions=options.subscriptions,
            advertisements=options.advertisements,
            bytes_per_second=options.bytes_per_second,
            events_per_second=options.events_per_second,
        ),
        audience=options.audience,
        issuer=options.issuer,
    )
    sys.stdout.write(f"{token}\n")
    return 0


def _algorithm(options: argparse.Namespace) -> str:
    """The algorithm, which must be one for the kind of key that is given."""
    given: str | None = options.algorithm
    if options.secret_file is not None:
        if given is not None and given not in SECRETS:
            raise InputError(f"--algorithm {given} does not go with --secret-file: say {', '.join(SECRETS)}")
        return given or "HS256"
    if given is None or given in SECRETS:
        raise InputError("say --algorithm as goes with --private-key-file: RS256, PS256, ES256, EdDSA, …")
    return given


def _new_secret(options: argparse.Namespace) -> None:
    """Write a secret to a file that is not there yet: another one would end the tokens of the old."""
    path = options.new_secret
    if options.subject is not None or options.subscribe or options.advertise:
        raise InputError("--new-secret makes a secret and no token: give it alone, then --secret-file")
    try:
        # Exclusively, so that no link and no other file is written through; readable by nobody else ever.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path}: is there already, and a secret is not overwritten") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {why(error)}") from None
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{secrets.token_urlsafe(_RANDOM_BYTES)}\n")
    except OSError as error:
        Path(path).unlink(missing_ok=True)
        raise PenstockError(f"{path}: cannot be written: {why(error)}") from None
