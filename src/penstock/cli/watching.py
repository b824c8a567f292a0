"""What brokers say of themselves, asked again and again: of those that are down, why, until they are back."""

import argparse
import asyncio
from contextlib import suppress
from typing import Any, Final

import msgspec

from penstock.cli.connecting import tls_of, token_of, urls_of
from penstock.errors import AccessError, PenstockError
from penstock.net.client.client import Client
from penstock.net.client.connecting import connect

_ANSWER_S: Final = 2.0
_ONLY_ANSWER_S: Final = 10.0
"""Seconds that a broker may take to answer before it is taken for down: others wait to be shown; and where it
is asked only once."""

Status = dict[str, Any]


class Look(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was seen of a broker: its status, or why there is none."""

    url: str
    status: Status | None = None
    error: str = ""
    refused: bool = False
    """Whether it is there, and only does not tell."""


class Watch:
    """One broker, and the connection to it."""

    def __init__(self, url: str, options: argparse.Namespace, urls: list[str]) -> None:
        self.now = Look(url, error="not asked yet")
        self.before: Look | None = None
        """What was seen the last time but one, which rates are counted from."""
        self._url = url
        self._name = options.name or "penstock top"
        self._token = token_of(options)
        self._tls = tls_of(options, urls)
        self._patience = _ONLY_ANSWER_S if options.once else _ANSWER_S
        self._client: Client | None = None

    async def look(self) -> Look:
        """Ask the broker, which is connected to anew where that is necessary."""
        try:
            async with asyncio.timeout(self._patience):
                if self._client is None:
                    self._client = await connect(
                        self._url,
                        name=self._name,
                        token=self._token,
                        tls=self._tls,
                        reconnect=False,
                        timeout=self._patience,
                    )
                seen = Look(self._url, status=await self._client.status())
        except (PenstockError, TimeoutError) as error:
            await self.close()
            told = str(error) or f"no answer within {self._patience:g} s"
            refused = isinstance(error, AccessError)
            seen = Look(self._url, error=told.removeprefix(f"{self._url}: "), refused=refused)
        self.before, self.now = self.now, seen
        return seen

    async def close(self) -> None:
        """End the connection."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(PenstockError):
                await client.close()


class Watches:
    """All brokers that are named."""

    def __init__(self, options: argparse.Namespace) -> None:
        urls = urls_of(options)
        self.all = [Watch(url, options, urls) for url in urls]

    async def look(self) -> list[Look]:
        """Ask all of them at the same time."""
        return await asyncio.gather(*(watch.look() for watch in self.all))

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(watch.close() for watch in self.all))
