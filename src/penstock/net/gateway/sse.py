"""A subscription as server-sent events: a line `id:`, a line `data:` with a CloudEvent, an empty line.

Comments in between are a sign of life. The stream ends when the client leaves, when it has had as many
events as it asked for, and when the gateway stops. Nothing is replayed: `Last-Event-ID` says nothing here.
"""

import asyncio
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.errors import NetworkError
from penstock.net.gateway.acting import acting
from penstock.net.gateway.cloudevents import event_id, to_structured
from penstock.net.gateway.context import Context
from penstock.net.gateway.formats import encode_json
from penstock.net.gateway.ports import Delivery, Subscription
from penstock.net.gateway.waiting import cancelled

STREAM_TYPE: Final = "text/event-stream"
_FIRST: Final = b": subscribed\nretry: 1000\n\n"
_HEARTBEAT: Final = b": alive\n\n"


def frame(delivery: Delivery, broker: str) -> bytes:
    """One event of the stream. JSON has no line breaks, and an id none either."""
    document = to_structured(delivery.event, broker, delivery.origin, delivery.number)
    name = event_id(delivery.origin, delivery.number).encode()
    return b"id: " + name + b"\ndata: " + encode_json(document) + b"\n\n"


class EventStream(Response):
    """The response that subscribes when it starts, and lasts until the stream ends."""

    media_type = STREAM_TYPE

    def __init__(self, context: Context, token: str | None, text: str, count: int | None) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._context = context
        self._token = token
        self._text = text
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Subscribe, stream, and leave nothing behind. A refusal is raised before the response begins."""
        context = self._context
        async with context.connection(self._token, "gateway-stream", address_of(scope)) as connection:
            async with acting(context.limits):
                subscription = await connection.subscribe(self._text)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send(send, _FIRST)
            is_heard = await self._stream(subscription, receive, send)
        if is_heard:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, subscription: Subscription, receive: Receive, send: Send) -> bool:
        """Send events and signs of life until the end; whether the client still listens then."""
        pump = asyncio.create_task(self._pump(subscription, send))
        gone = asyncio.create_task(until_gone(receive))
        stop = asyncio.create_task(self._context.stopping.wait())
        try:
            while True:
                done, _waiting = await asyncio.wait(
                    (pump, gone, stop),
                    timeout=self._context.limits.heartbeat_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if done:
                    break
                await self._send(send, _HEARTBEAT)
            if pump in done:
                await pump
            return gone not in done
        except (NetworkError, TimeoutError, OSError):
            # The broker has gone, or the client, or it does not read; it may come again.
            return False
        finally:
            await cancelled(pump, gone, stop)

    async def _pump(self, subscription: Subscription, send: Send) -> None:
        broker, left = self._context.connector.broker, self._count
        async for delivery in subscription:
            await self._send(send, frame(delivery, broker))
            if left is not None:
                left -= 1
                if not left:
                    return

    async def _send(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(self._context.limits.send_s):
            await send({"type": "http.response.body", "body": body, "more_body": True})


def address_of(scope: Scope) -> str:
    """Where a request comes from; "" if that is not known."""
    client = scope.get("client")
    return str(client[0]) if client else ""


async def until_gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
