"""The gateway on a socket: uvicorn inside the loop that the broker runs in.

Signals are the broker's: uvicorn installs no handlers. It logs nothing of requests, trusts no `X-Forwarded-
For`, and does not take compressed WebSocket messages.
"""

import asyncio
import errno
import importlib.util
import os
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.errors import MissingExtraError, NetworkError
from penstock.net.gateway.ports import Connector, GatewayConfig, GatewayLimits

if TYPE_CHECKING:
    from penstock.net.gateway.running import Server

_NEEDED: Final = ("starlette", "uvicorn", "prometheus_client", "websockets")
DEFAULT_PORT: Final = 7480


class Gateway:
    """The HTTP face of one broker: `await start()`, and `await stop()` when the broker drains."""

    def __init__(
        self, config: GatewayConfig, connector: Connector, limits: GatewayLimits | None = None
    ) -> None:
        self._config = config
        self._connector = connector
        self._limits = limits or GatewayLimits()
        self._server: Server | None = None

    async def start(self) -> str:
        """Listen, and return the URL, with the port that it has become."""
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise MissingExtraError(f"the gateway needs {', '.join(missing)}: pip install 'penstock[server]'")
        from penstock.net.gateway.running import Server

        if self._server is not None:
            raise NetworkError("the gateway listens already")
        scheme, host, port = parse_listen(self._config.listen)
        if scheme == "https" and not (self._config.cert and self._config.key):
            raise NetworkError(
                f"{self._config.listen}: https needs a certificate and its key; name both files"
            )
        server = Server(self._config, self._connector, self._limits, is_tls=scheme == "https")
        listener = await _bound(host, port)
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}:{listener.getsockname()[1]}"
        try:
            await server.start(listener)
        except OSError as error:
            listener.close()
            raise NetworkError(f"the gateway cannot start on {url}: {error}") from error
        self._server = server
        return url

    async def stop(self) -> None:
        """End streams and sockets, answer what is under way, and close. Once stopped it stays so."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()


def parse_listen(url: str) -> tuple[str, str, int]:
    """The scheme, host and port of a URL to listen on."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        raise NetworkError(f"{url!r:.80} is no URL to listen on: {error}") from None
    if scheme not in ("http", "https") or not host or parts.path.strip("/") or parts.query:
        raise NetworkError(f"{url!r:.80} is no URL to listen on: write http://127.0.0.1:{DEFAULT_PORT}")
    return scheme, host, DEFAULT_PORT if port is None else port


async def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens on the first address of the host."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _kind, _protocol, _name, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise NetworkError(f"the gateway cannot listen on {host} port {port}: {_why(error)}") from None


def _why(error: OSError) -> str:
    """What the system says, once, and what helps where a port is taken."""
    if isinstance(error, socket.gaierror) or error.errno is None or error.errno not in errno.errorcode:
        return (error.strerror or str(error)).lower()
    hint = ""
    if error.errno == errno.EADDRINUSE:
        hint = "; give another port, --gateway http://127.0.0.1:PORT, or do without: --gateway none"
    return os.strerror(error.errno).lower() + hint
