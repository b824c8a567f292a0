"""What holds for every request and every response, whatever its endpoint.

Web pages may use the gateway only when their origin is configured: a browser names it, and a program that
is no browser names none. A gateway that listens on a loopback address answers only to names of that
address, so that a page cannot reach it by having its own name point there (DNS rebinding).
"""

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.problems import RefusedError, problem

_ALLOWED_HEADERS: Final = "authorization, content-type, last-event-id"
LIMITED: Final = "penstock.limited"
"""In the state of a request: whether its connection is only let in for looks at the gateway's health."""
HEALTH_PATHS: Final = ("/healthz", "/readyz", "/metrics")
"""What is answered however many connections there are."""
_HEADER_BYTES: Final = 4
"""Bytes of a header beside its name and value: a colon, a space and the line's end."""
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Guard:
    """An ASGI application around another: refuses foreign hosts and origins, and bad heads; adds headers."""

    def __init__(self, app: ASGIApp, listen: str, origins: Sequence[str], limits: GatewayLimits) -> None:
        self._app = app
        self._limits = limits
        self._origins = frozenset(origins)
        host = urlsplit(listen).hostname or ""
        names = {urlsplit(origin).hostname for origin in origins}
        self._hosts = names | {"localhost"} if is_loopback(host) and "*" not in origins else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        origin = origins[0] if origins else None
        outward = self._with_headers(send, origin)
        try:
            self._check_head(scope, headers)
            self._check_room(scope)
            self._check_host(headers.getlist("host"))
            self._check_origin(origins)
        except RefusedError as error:
            await problem(error)(scope, receive, self._with_headers(send, None))
            return
        if scope["type"] == "http" and scope["method"] == "OPTIONS" and origin is not None:
            await Response(status_code=204)(scope, receive, outward)
            return
        await self._app(scope, receive, outward)

    def _check_head(self, scope: Scope, headers: Headers) -> None:
        """Refuse a head that is too long, or that says in two ways where its body ends.

        A server knows a long head only while it is incomplete; one that comes in a single read is measured
        here. Of two lengths, a proxy in front may take the one and this gateway the other: what is left over
        then counts as the next request, of somebody else (RFC 9112, section 6.1).
        """
        size = len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
        size += sum(len(name) + len(value) + _HEADER_BYTES for name, value in headers.raw)
        if size > self._limits.head_bytes:
            what = f"the request's line and headers have at most {self._limits.head_bytes:,} bytes"
            raise RefusedError(431, what, {"Connection": "close"})
        if len(headers.raw) > self._limits.headers:
            what = f"a request has at most {self._limits.headers:,} headers"
            raise RefusedError(431, what, {"Connection": "close"})
        if "transfer-encoding" in headers and "content-length" in headers:
            what = "say Content-Length or Transfer-Encoding, not both"
            raise RefusedError(400, what, {"Connection": "close"})

    def _check_room(self, scope: Scope) -> None:
        """Where there is no room for another connection, there still is for a look at the health."""
        if scope.get("state", {}).get(LIMITED) and scope["path"] not in HEALTH_PATHS:
            what = f"there are already {self._limits.connections:,} connections open"
            raise RefusedError(503, what, {"Connection": "close"})

    def _check_host(self, given: list[str]) -> None:
        if self._hosts is None:
            return
        try:
            host = urlsplit(f"//{given[0]}").hostname or "" if len(given) == 1 else ""
        except ValueError:
            host = ""
        if host not in self._hosts and not _is_address(host):
            raise RefusedError(403, "this gateway answers to localhost and addresses, not to another name")

    def _check_origin(self, given: list[str]) -> None:
        if not given or "*" in self._origins:
            return
        if len(given) > 1 or given[0] not in self._origins:
            raise RefusedError(
                403, "pages of this origin may not use the gateway: it is not among its origins"
            )

    def _with_headers(self, send: Send, origin: str | None) -> Send:
        """A `send` that completes the headers of the response."""

        async def completed(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.add_vary_header("Origin")
                if origin is not None:
                    headers["Access-Control-Allow-Origin"] = "*" if "*" in self._origins else origin
                    headers["Access-Control-Allow-Methods"] = "GET, POST"
                    headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
                    headers["Access-Control-Max-Age"] = "600"
            await send(message)

        return completed


def is_loopback(host: str) -> bool:
    """Whether a host's name or address means this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
