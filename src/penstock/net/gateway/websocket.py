"""A client connection as JSON messages over a WebSocket: an operation in, a reply and events out.

Messages are taken one after another: the reply to one comes before the next is read, so that a client that is
faster than the broker waits. Subscriptions and advertisements have ids that the client chooses.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from penstock.errors import NetworkError, PenstockError
from penstock.model.names import Id, check_id
from penstock.net.gateway.acting import acting, filter_text
from penstock.net.gateway.bodies import checked_ack, checked_unsupported, event_of
from penstock.net.gateway.cloudevents import to_structured
from penstock.net.gateway.context import Context
from penstock.net.gateway.formats import MalformedError, decode_json, encode_json
from penstock.net.gateway.ports import Advertisement, Connection, Subscription
from penstock.net.gateway.problems import RefusedError, describe, problem
from penstock.net.gateway.sse import address_of
from penstock.net.gateway.tokens import websocket_token
from penstock.net.gateway.waiting import cancelled

GOING_AWAY: Final = 1001
NOT_TEXT: Final = 1003
TOO_LARGE: Final = 1009
BROKER_GONE: Final = 1011


class Operation(msgspec.Struct, frozen=True):
    """What a message may ask for: its fields, which of them may be missing, what it does."""

    summary: str
    act: "Callable[[Socket, dict[str, Any]], Awaitable[None]]"
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


class _Interest(msgspec.Struct):
    subscription: Subscription
    pump: "asyncio.Task[None]"


async def serve(context: Context, websocket: WebSocket) -> None:
    """Serve one WebSocket to its end. The token is looked at before anything else is read."""
    try:
        token, subprotocol = websocket_token(websocket.headers)
        async with context.connection(token, "gateway-socket", address_of(websocket.scope)) as connection:
            await websocket.accept(subprotocol)
            await Socket(context, websocket, connection).run()
    except WebSocketDisconnect:
        return
    except (PenstockError, TimeoutError) as error:
        if websocket.application_state is WebSocketState.CONNECTING:
            await websocket.send_denial_response(problem(error))


class Socket:
    """One WebSocket that has been accepted, and what has been asked for over it."""

    def __init__(self, context: Context, websocket: WebSocket, connection: Connection) -> None:
        self._context = context
        self._limits = context.limits
        self._websocket = websocket
        self._connection = connection
        self._interests: dict[Id, _Interest] = {}
        self._advertisements: dict[Id, Advertisement] = {}
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Take messages until the client leaves, the broker does, or the gateway stops."""
        reader = asyncio.create_task(self._read())
        stop = asyncio.create_task(self._context.stopping.wait())
        try:
            await asyncio.wait((reader, stop, self._code), return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                await reader
            if not self._code.done():
                self._code.set_result(GOING_AWAY)
            async with asyncio.timeout(self._limits.send_s):
                await self._websocket.close(self._code.result())
        except (WebSocketDisconnect, TimeoutError, OSError, RuntimeError):
            # Gone already (which Starlette calls a RuntimeError), or it does not read what it is sent.
            pass
        finally:
            await cancelled(reader, stop, *(interest.pump for interest in self._interests.values()))

    async def _read(self) -> None:
        while not self._code.done():
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            text = message.get("text")
            if text is None:
                self._end(NOT_TEXT)
            elif len(text) > self._limits.message_bytes:
                self._end(TOO_LARGE)
            else:
                await self._take(text)

    def _end(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)

    async def _take(self, text: str) -> None:
        """Do what a message asks for, and reply."""
        identifier: object = None
        try:
            message = decode_json(text, "a message")
            if not isinstance(message, dict):
                raise MalformedError("a message is a JSON object")
            if "id" in message:
                identifier = check_id(message["id"])
            await _operation(message).act(self, message)
        except (PenstockError, TimeoutError) as error:
            await self._send({"op": "error", **_named(identifier), **describe(error)})
            if isinstance(error, NetworkError):
                self._end(BROKER_GONE)

    async def _ok(self, message: dict[str, Any]) -> None:
        await self._send({"op": "ok", **_named(message.get("id"))})

    async def _send(self, reply: dict[str, Any]) -> None:
        async with asyncio.timeout(self._limits.send_s):
            await self._websocket.send_text(encode_json(reply).decode())

    async def subscribe(self, message: dict[str, Any]) -> None:
        """Subscribe under a new id; events come after the reply."""
        identifier = self._new(message["id"], self._interests)
        text = filter_text(message["filter"], self._limits)
        async with acting(self._limits):
            subscription = await self._connection.subscribe(text)
        await self._ok(message)
        pump = asyncio.create_task(self._pump(identifier, subscription))
        self._interests[identifier] = _Interest(subscription, pump)

    async def change(self, message: dict[str, Any]) -> None:
        """Put another filter in the place of that of a subscription."""
        interest = _known(message["id"], self._interests, "subscription")
        text = filter_text(message["filter"], self._limits)
        async with acting(self._limits):
            await interest.subscription.change(text)
        await self._ok(message)

    async def unsubscribe(self, message: dict[str, Any]) -> None:
        """Give a subscription up; no event of it comes after the reply."""
        interest = _known(message["id"], self._interests, "subscription")
        del self._interests[message["id"]]
        await cancelled(interest.pump)
        async with acting(self._limits):
            await interest.subscription.unsubscribe()
        await self._ok(message)

    async def advertise(self, message: dict[str, Any]) -> None:
        """Advertise under a new id."""
        identifier = self._new(message["id"], self._advertisements)
        text = filter_text(message["filter"], self._limits)
        async with acting(self._limits):
            self._advertisements[identifier] = await self._connection.advertise(text)
        await self._ok(message)

    async def withdraw(self, message: dict[str, Any]) -> None:
        """Take an advertisement back."""
        advertisement = _known(message["id"], self._advertisements, "advertisement")
        del self._advertisements[message["id"]]
        async with acting(self._limits):
            await advertisement.withdraw()
        await self._ok(message)

    async def publish(self, message: dict[str, Any]) -> None:
        """Publish an event; the reply comes when the broker has acknowledged it."""
        event = event_of(message["event"], checked_unsupported(message.get("unsupported", "refuse")))
        ack = checked_ack(message.get("ack", "accepted"))
        async with acting(self._limits):
            await self._connection.publish_many([event], ack=ack)
        self._context.accepted += 1
        await self._ok(message)

    def _new(self, identifier: Id, known: dict[Id, Any]) -> Id:
        if identifier in known:
            raise MalformedError(f"the id {identifier!r:.60} is in use")
        limit = self._limits.subscriptions_per_socket
        if len(known) >= limit:
            raise RefusedError(
                429, f"a socket has at most {limit:,} subscriptions and as many advertisements"
            )
        return identifier

    async def _pump(self, identifier: Id, subscription: Subscription) -> None:
        """Send the events of a subscription; that it ends by itself means that the broker has gone."""
        broker = self._context.connector.broker
        try:
            async for delivery in subscription:
                document = to_structured(delivery.event, broker, delivery.origin, delivery.number)
                await self._send({"op": "event", "id": identifier, "event": document})
            ended = NetworkError("the broker has ended the subscription")
            await self._send({"op": "error", "id": identifier, **describe(ended)})
        except (PenstockError, WebSocketDisconnect, TimeoutError, OSError, RuntimeError):
            pass
        self._end(BROKER_GONE)


def _named(identifier: object) -> dict[str, object]:
    return {} if identifier is None else {"id": identifier}


def _known(identifier: Id, known: dict[Id, Any], what: str) -> Any:
    if identifier not in known:
        raise MalformedError(f"there is no {what} {identifier!r:.60}")
    return known[identifier]


def _operation(message: dict[str, Any]) -> Operation:
    """The operation that a message asks for, its fields checked."""
    name = message.get("op")
    operation = OPERATIONS.get(name) if isinstance(name, str) else None
    if operation is None:
        raise MalformedError(f"'op' is one of {', '.join(OPERATIONS)}")
    missing = [field for field in operation.required if field not in message]
    if missing:
        raise MalformedError(f"{name} needs {' and '.join(missing)}")
    extra = set(message) - {"op", *operation.required, *operation.optional}
    if extra:
        raise MalformedError(f"{name} does not take {min(extra)!r:.60}")
    return operation


OPERATIONS: Final[dict[str, Operation]] = {
    "subscribe": Operation("Subscribe; events come as replies `event`.", Socket.subscribe, ("id", "filter")),
    "change": Operation("Change a subscription's filter, without a gap.", Socket.change, ("id", "filter")),
    "unsubscribe": Operation("Give a subscription up.", Socket.unsubscribe, ("id",)),
    "publish": Operation(
        "Publish a plain event or a CloudEvent; with unsupported: skip, what has no family is left out.",
        Socket.publish,
        ("event",),
        ("id", "unsupported", "ack"),
    ),
    "advertise": Operation("Say what will be published.", Socket.advertise, ("id", "filter")),
    "withdraw": Operation("Take an advertisement back.", Socket.withdraw, ("id",)),
}
