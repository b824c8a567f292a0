"""Events as the answer to one request: a CloudEvent in structured or binary mode, or a batch of them.

The subscription lives for the request only: what is published between two requests comes to neither.
"""

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.errors import NetworkError
from penstock.net.gateway.acting import acting
from penstock.net.gateway.bodies import BATCH_TYPE, STRUCTURED_TYPE
from penstock.net.gateway.cloudevents import to_binary, to_structured
from penstock.net.gateway.context import Context
from penstock.net.gateway.formats import encode_json
from penstock.net.gateway.ports import Delivery, Subscription
from penstock.net.gateway.problems import RefusedError
from penstock.net.gateway.sse import STREAM_TYPE, address_of, until_gone
from penstock.net.gateway.waiting import cancelled

BINARY: Final = "binary"
WAIT_S: Final = 30
WAIT_MAX_S: Final = 60
BATCH_COUNT: Final = 100
_OFFERED: Final = (STREAM_TYPE, STRUCTURED_TYPE, BATCH_TYPE)
_BINARY_HEADERS: Final = {
    # The type of the body is the publisher's choice: a browser is to show it as nothing that acts.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Access-Control-Expose-Headers": "*",
}


class Wanted(msgspec.Struct, frozen=True):
    """What a request asks for: a media type or `BINARY`, how many events at most, how long to wait."""

    form: str
    count: int
    wait_s: float


class EventAnswer(Response):
    """The response that subscribes, waits for an event, and is made of what came."""

    def __init__(self, context: Context, token: str | None, text: str, wanted: Wanted) -> None:
        super().__init__(status_code=204)
        self._context = context
        self._token = token
        self._text = text
        self._wanted = wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Subscribe, wait, answer. A refusal is raised before the response begins."""
        context = self._context
        async with context.connection(self._token, "gateway-request", address_of(scope)) as connection:
            async with acting(context.limits):
                subscription = await connection.subscribe(self._text)
            found = await self._found(subscription, receive)
        if found is not None:
            await self._answer(found)(scope, receive, send)

    async def _found(self, subscription: Subscription, receive: Receive) -> list[Delivery] | None:
        """The events that came in time; None when the client has left."""
        collect = asyncio.create_task(self._collect(subscription))
        gone = asyncio.create_task(until_gone(receive))
        stop = asyncio.create_task(self._context.stopping.wait())
        try:
            done, _waiting = await asyncio.wait((collect, gone, stop), return_when=asyncio.FIRST_COMPLETED)
            if collect in done:
                return await collect
            if gone in done:
                return None
            raise RefusedError(503, "the gateway is stopping")
        finally:
            await cancelled(collect, gone, stop)

    async def _collect(self, subscription: Subscription) -> list[Delivery]:
        """Wait for the first event; with it go those that are there already."""
        found: list[Delivery] = []
        try:
            async with asyncio.timeout(self._wanted.wait_s) as timer:
                async for delivery in subscription:
                    found.append(delivery)
                    if len(found) >= self._wanted.count:
                        return found
                    if len(found) == 1:
                        timer.reschedule(0)
        except TimeoutError:
            return found
        if not found:
            raise NetworkError("the broker has ended the subscription")
        return found

    def _answer(self, found: list[Delivery]) -> Response:
        if not found:
            return Response(status_code=204)
        broker, form = self._context.connector.broker, self._wanted.form
        first = found[0]
        if form == BINARY:
            headers, body = to_binary(first.event, broker, first.origin, first.number)
            return Response(body, headers={**headers, **_BINARY_HEADERS})
        if form == STRUCTURED_TYPE:
            document = to_structured(first.event, broker, first.origin, first.number)
            return Response(encode_json(document), media_type=STRUCTURED_TYPE)
        documents: list[bytes] = []
        room = self._context.limits.body_bytes
        for delivery in found:
            document = to_structured(delivery.event, broker, delivery.origin, delivery.number)
            documents.append(encode_json(document))
            room -= len(documents[-1])
            if room < 0:
                break
        return Response(b"[" + b",".join(documents) + b"]", media_type=BATCH_TYPE)


def accepted_type(accept: str) -> str:
    """The media type to answer with, of those that a stream of events has; the stream where any will do."""
    if not accept.strip():
        return STREAM_TYPE
    ranges = [_range(text) for text in accept.split(",") if text.strip()]
    best, best_rank = "", (0.0, 0)
    for offered in _OFFERED:
        fitting = [(how, quality) for name, quality in ranges if (how := _fit(name, offered))]
        how, quality = max(fitting, default=(0, 0.0))
        if quality > 0 and (quality, how) > best_rank:
            best, best_rank = offered, (quality, how)
    if not best:
        raise RefusedError(406, f"accept one of {', '.join(_OFFERED)}, or say mode=binary")
    return best


def _range(text: str) -> tuple[str, float]:
    """A media range and its quality; a quality that cannot be read is 1."""
    name, *parameters = text.split(";")
    quality = 1.0
    for parameter in parameters:
        key, _equals, value = parameter.partition("=")
        if key.strip().lower() == "q":
            digits = value.strip()
            quality = float(digits) if digits.isascii() and digits.replace(".", "", 1).isdigit() else 1.0
    return name.strip().lower(), quality


def _fit(name: str, offered: str) -> int:
    """How closely a media range names a type; 0 when it does not."""
    if name == offered:
        return 3
    if name == f"{offered.partition('/')[0]}/*":
        return 2
    return int(name == "*/*")
