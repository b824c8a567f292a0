"""What the commands of a client have in common: where the broker is, who the client is, how they end."""

import argparse
import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from penstock.cli.files import why
from penstock.cli.signals import left_to_a_loop
from penstock.errors import AccessError, FilterSyntaxError, InputError, printable
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.net.addresses import parse_url
from penstock.net.client.client import Advertisement, Client
from penstock.net.client.connecting import connect
from penstock.net.serve import loop_factory
from penstock.net.signals import heeded
from penstock.net.tls import client_context
from penstock.node.client.notices import Notice
from penstock.wire.greetings import TOKEN_LENGTH_MAX

URL_DEFAULT: Final = "penstock://127.0.0.1:7400"

OnNotice = Callable[[Notice], None]


def in_a_loop(work: Coroutine[Any, Any, int]) -> int:
    """Do something in an event loop; a signal cancels it, and is then a KeyboardInterrupt as elsewhere."""
    with left_to_a_loop(), asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(_until_a_signal(work))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _until_a_signal(work: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(work)

    def end() -> None:
        # Again for each signal: with the second, the farewell after the first is not waited for.
        task.cancel()

    with heeded(end):
        return await task


def urls_of(options: argparse.Namespace) -> list[str]:
    """The brokers that are named: by flags, by the environment, or the one on this machine."""
    given: list[str] = [*getattr(options, "urls", ()), *options.url]
    if not given:
        given = os.environ.get("PENSTOCK_URL", "").replace(",", " ").split()
    for url in given:
        parse_url(url)
    return given or [URL_DEFAULT]


def token_of(options: argparse.Namespace) -> str | None:
    """The token: of a flag, a file or the environment."""
    token: str | None = options.token
    source = "--token"
    if options.token_file is not None:
        source = options.token_file
        try:
            with Path(source).open("rb") as file:
                token = file.read(TOKEN_LENGTH_MAX + 2).decode("ascii")
        except OSError as error:
            raise InputError(f"{source}: {why(error)}") from None
        except UnicodeDecodeError:
            raise InputError(f"{source}: not a token, which has letters and digits only") from None
    elif token is None:
        source = "PENSTOCK_TOKEN"
        token = os.environ.get(source)
    if token is None:
        return None
    token = token.strip()
    if not token and source != "PENSTOCK_TOKEN":
        raise InputError(f"{source}: there is no token; penstock token prints one")
    if len(token) > TOKEN_LENGTH_MAX or not (token.isascii() and token.isprintable()):
        raise InputError(
            f"{source}: not a token, which is one line of at most {TOKEN_LENGTH_MAX:,} letters and digits"
        )
    return token or None


def tls_of(options: argparse.Namespace, urls: list[str]) -> ssl.SSLContext | None:
    """How encrypted connections are made; None where none is."""
    if any(parse_url(url).tls for url in urls):
        key = options.cert if options.key is None else options.key
        return client_context(options.ca, cert=options.cert, key=key)
    for flag in ("ca", "cert", "key"):
        if getattr(options, flag) is not None:
            raise InputError(f"--{flag} is for penstocks://, and {urls[0]} is not encrypted")
    return None


@asynccontextmanager
async def connected(options: argparse.Namespace, on_notice: OnNotice | None = None) -> AsyncIterator[Client]:
    """A client, as the flags say. What it is told about its connection is told on standard error."""
    urls = urls_of(options)
    client = await connect(
        urls,
        name=options.name,
        token=token_of(options),
        tls=tls_of(options, urls),
        on_notice=on_notice or (lambda notice: note(notice.text)),
    )
    async with client:
        yield client


async def advertised(client: Client, text: str | None, predicate: Predicate) -> Advertisement:
    """Advertise what is going to be published, which is everything if nothing else is said."""
    try:
        return await client.advertise(predicate)
    except AccessError as error:
        if text is None and "nothing is granted" not in str(error):
            raise AccessError(f"say with --advertise what the events are like: {error}") from None
        raise


def filter_of(what: str, text: str) -> Predicate:
    """Parse a filter; a mistake says which argument it is in."""
    try:
        return parse(text)
    except FilterSyntaxError as error:
        raise InputError(f"{what}: {error}") from None


def note(text: str) -> None:
    """Tell something that is no error, in one line on standard error."""
    say(f"note: {text}")


def say(text: str) -> None:
    """Tell something in one line on standard error."""
    sys.stderr.write(f"penstock: {printable(text)}\n")
    sys.stderr.flush()
