"""How the gateway calls the broker: with a bound on the time, and with errors that say whose they are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.errors import AccessError, LimitError
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.problems import RefusedError


@asynccontextmanager
async def acting(limits: GatewayLimits) -> AsyncIterator[None]:
    """Around a call of the broker: what exceeds a limit there is a quota, not a bad request."""
    try:
        async with asyncio.timeout(limits.act_s):
            yield
    except LimitError as error:
        raise RefusedError(429, str(error)) from None


@asynccontextmanager
async def connecting(limits: GatewayLimits) -> AsyncIterator[None]:
    """Around an attempt to connect: who is refused there is not known, rather than not allowed."""
    try:
        async with acting(limits):
            yield
    except AccessError as error:
        raise RefusedError(401, str(error)) from None


def filter_text(given: object, limits: GatewayLimits) -> str:
    """The text of a filter, as the broker is to parse it."""
    if not isinstance(given, str):
        raise RefusedError(400, "a filter is text")
    if len(given) > limits.filter_length:
        raise RefusedError(400, f"a filter has at most {limits.filter_length:,} characters here")
    return given
