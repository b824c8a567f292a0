"""The client that the options ask for."""

import ssl
from collections.abc import Callable
from pathlib import Path

from penstock.errors import InputError
from penstock.net.addresses import parse_url
from penstock.net.client.connecting import Connecting, connect
from penstock.net.tls import client_context
from penstock.node.client.notices import Notice
from penstock.spark.source.options import Options


def connecting(
    options: Options, role: str, *, reconnect: bool, on_notice: Callable[[Notice], None] | None = None
) -> Connecting:
    """A client that is about to connect, in an event loop; `role` is for its name, where none is given."""
    return connect(
        options.url,
        name=options.name or f"spark-{role}",
        token=_token(options),
        tls=_tls(options),
        timeout=options.timeout,
        reconnect=reconnect,
        on_notice=on_notice,
    )


def _token(options: Options) -> str | None:
    if options.token_file is None:
        return options.token
    try:
        return Path(options.token_file).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a token"
        raise InputError(f"option('tokenFile'): {options.token_file}: {why}") from None


def _tls(options: Options) -> ssl.SSLContext | None:
    if any(parse_url(url).tls for url in options.url):
        key = options.cert if options.key is None else options.key
        return client_context(options.ca, cert=options.cert, key=key)
    if options.ca or options.cert or options.key:
        raise InputError(
            f"options ca, cert and key are for penstocks://, and {options.url[0]} is not encrypted"
        )
    return None
