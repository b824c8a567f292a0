"""`penstock.connect`: the way into the network."""

import os
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Literal

from penstock.errors import NetworkError
from penstock.net.addresses import parse_url
from penstock.net.client.client import Client
from penstock.net.sockets import TcpWay
from penstock.net.tls import client_context
from penstock.node.client.notices import Notice


class Connecting:
    """A client that is about to connect: to be awaited, or entered with `async with`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def _open(self) -> Client:
        await self._client.open()
        return self._client

    async def __aenter__(self) -> Client:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()


def connect(
    url: str | Sequence[str] = "penstock://127.0.0.1:7400",
    *,
    name: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    when_slow: Literal["pause", "drop"] = "pause",
    reconnect: bool = True,
    timeout: float = 10.0,
    on_notice: Callable[[Notice], None] | None = None,
) -> Connecting:
    """Connect to a broker, or to the first of several that answers.

    Await it, or use it with `async with`. `name` is what the client is called in what brokers say of
    themselves. `token` says who it is, where brokers ask for that; `tls` is for penstocks://, with a
    certificate or an authority of its own (`penstock.net.tls.client_context`). `timeout` is for each try
    to connect, in seconds; with `reconnect=False` a lost connection ends the client. `when_slow`: what
    the broker is to do when this client takes events too slowly for too long: pause them, and say so, or
    drop the connection. After a lost connection it is made again, to another broker of the list if need
    be; `on_notice` is told.

    >>> async with penstock.connect("penstock://127.0.0.1:7400") as net:
    ...     async with await net.subscribe("dep_delay > 60") as late:
    ...         async for event in late:
    ...             print(event["flight"])
    """
    urls = [url] if isinstance(url, str) else list(url)
    if not urls:
        raise NetworkError("there is no broker to connect to: give at least one address")
    if when_slow not in ("pause", "drop"):
        raise NetworkError(f"when_slow={when_slow!r}: say 'pause' or 'drop'")
    addresses = [parse_url(one) for one in urls]
    if tls is None and any(address.tls for address in addresses):
        tls = client_context()
    client = Client(
        [TcpWay(address, tls) for address in addresses],
        name=name or f"{socket.gethostname()}-{os.getpid()}",
        token=token or "",
        when_slow=when_slow,
        reconnect=reconnect,
        timeout=timeout,
        on_notice=on_notice,
    )
    return Connecting(client)
