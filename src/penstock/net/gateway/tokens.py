"""Where a request carries its token: a header, never the URL, which ends up in logs and histories."""

import re
from typing import Final

from starlette.datastructures import Headers

from penstock.net.gateway.problems import RefusedError

SUBPROTOCOL: Final = "penstock.v1"
"""What a WebSocket speaks; a browser offers it beside its token, because one of its offers must be chosen."""

_BEARER_PREFIX: Final = "penstock.bearer."
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]{1,8192}=*")


def bearer_token(headers: Headers) -> str | None:
    """The token of `Authorization: Bearer …`, or None where there is no such header."""
    given = headers.getlist("authorization")
    if not given:
        return None
    scheme, _space, token = given[0].partition(" ")
    if len(given) > 1 or scheme.lower() != "bearer" or not _TOKEN.fullmatch(token.strip()):
        raise RefusedError(401, "say 'Authorization: Bearer' and one token")
    return token.strip()


def websocket_token(headers: Headers) -> tuple[str | None, str | None]:
    """The token of a WebSocket's handshake, and the subprotocol to answer.

    Browsers cannot set headers there, but they can offer subprotocols: `penstock.v1` and
    `penstock.bearer.<token>`. The one with the token is never sent back.
    """
    offered = [o.strip() for line in headers.getlist("sec-websocket-protocol") for o in line.split(",")]
    tokens = [o.removeprefix(_BEARER_PREFIX) for o in offered if o.startswith(_BEARER_PREFIX)]
    token = bearer_token(headers)
    if tokens and (token is not None or len(tokens) > 1 or not _TOKEN.fullmatch(tokens[0])):
        raise RefusedError(401, f"give one token, as a header or as '{_BEARER_PREFIX}<token>'")
    return tokens[0] if tokens else token, SUBPROTOCOL if SUBPROTOCOL in offered else None
