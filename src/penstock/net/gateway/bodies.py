"""From the body of a request to events, within bounds.

What the body is, the content type says, and the headers of a CloudEvent in binary mode. A body is never
decompressed: a small one could become a huge one.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from starlette.requests import ClientDisconnect, Request

from penstock.errors import PenstockError
from penstock.model.events import Event, Unsupported
from penstock.net.gateway.cloudevents import from_binary, from_structured, media_type
from penstock.net.gateway.formats import MalformedError, decode_json
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.problems import RefusedError, detail_of, status_of
from penstock.node.client.outlet import ACKS, Ack

STRUCTURED_TYPE: Final = "application/cloudevents+json"
BATCH_TYPE: Final = "application/cloudevents-batch+json"
PLAIN_TYPE: Final = "application/json"
LINES_TYPE: Final = "application/x-ndjson"
MEDIA_TYPES: Final = (STRUCTURED_TYPE, BATCH_TYPE, PLAIN_TYPE, LINES_TYPE)
_TURN: Final = 200
"""Events read before others have their turn."""


async def read_events(
    request: Request, limits: GatewayLimits, unsupported: Unsupported = "refuse"
) -> list[Event]:
    """The events of a request, in any of the forms that are taken."""
    encodings = {e.strip().lower() for e in ",".join(request.headers.getlist("content-encoding")).split(",")}
    if encodings - {"identity", ""}:
        detail = "send the body as it is: no Content-Encoding is taken"
        raise RefusedError(415, detail, {"Accept-Encoding": "identity"})
    content_type = _content_type(request)
    media = media_type(content_type)
    context = [(name.decode("latin-1").lower(), value) for name, value in request.headers.raw]
    context = [(name, value) for name, value in context if name.startswith("ce-")]
    is_binary = bool(context) and not media.startswith("application/cloudevents")
    if not is_binary and media not in MEDIA_TYPES:
        taken = ", ".join(MEDIA_TYPES)
        raise RefusedError(415, f"send {taken}, or a CloudEvent with ce- headers")
    body = await read_body(request, limits)
    if is_binary:
        return [from_binary(context, content_type, body, unsupported)]
    if media == STRUCTURED_TYPE:
        return [from_structured(decode_json(body), unsupported)]
    if media == PLAIN_TYPE:
        return [plain_event(decode_json(body), unsupported)]
    if media == BATCH_TYPE:
        read = partial(from_structured, unsupported=unsupported)
        return await _read_all(_batch(body), read, "event {} of the batch", limits)
    if body.count(b"\n") > 2 * limits.batch_events:
        raise RefusedError(413, f"a request has at most {limits.batch_events:,} events")
    read = partial(_line_event, unsupported=unsupported)
    return await _read_all(body.splitlines(), read, "line {}", limits)


async def read_body(request: Request, limits: GatewayLimits) -> bytes:
    """The body; refused as soon as it is known to be too large, before the rest is read."""
    too_large = RefusedError(413, f"a body has at most {limits.body_bytes:,} bytes", {"Connection": "close"})
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limits.body_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.read_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise too_large
    except TimeoutError:
        raise RefusedError(
            408, f"the body took longer than {limits.read_s:g} s", {"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise RefusedError(400, "the body is not complete") from None
    return bytes(body)


def event_of(document: object, unsupported: Unsupported = "refuse") -> Event:
    """An event from decoded JSON: a CloudEvent where it has `specversion`, a plain one otherwise."""
    if isinstance(document, dict) and "specversion" in document:
        return from_structured(document, unsupported)
    return plain_event(document, unsupported)


def plain_event(document: object, unsupported: Unsupported = "refuse") -> Event:
    """An event from decoded JSON that is its attributes."""
    if not isinstance(document, dict):
        raise MalformedError("an event is a JSON object")
    return Event(document, unsupported=unsupported)


def checked_ack(given: object) -> Ack:
    """What an acknowledgement is to mean, as a request says it."""
    for ack in ACKS:
        if given == ack:
            return ack
    raise RefusedError(400, f"'ack' is {', '.join(ACKS[:-1])} or {ACKS[-1]}")


def checked_unsupported(given: object) -> Unsupported:
    """What to do with values that have no family, as a request says it."""
    if given == "refuse":
        return "refuse"
    if given == "skip":
        return "skip"
    raise RefusedError(400, "'unsupported' is refuse or skip")


def _content_type(request: Request) -> str | None:
    given = request.headers.getlist("content-type")
    if len(given) > 1:
        raise RefusedError(400, "Content-Type is there twice")
    return given[0] if given else None


def _batch(body: bytes) -> list[object]:
    documents = decode_json(body)
    if not isinstance(documents, list):
        raise MalformedError("a batch is a JSON array of CloudEvents")
    return documents


def _line_event(line: object, unsupported: Unsupported) -> Event:
    return plain_event(decode_json(line if isinstance(line, bytes) else b"", "it"), unsupported)


async def _read_all(
    items: Sequence[object], read: Callable[[object], Event], place: str, limits: GatewayLimits
) -> list[Event]:
    """The events of several items, an empty line being none; an error says in which it is."""
    events: list[Event] = []
    for n, item in enumerate(items, start=1):
        if isinstance(item, bytes) and not item.strip():
            continue
        if len(events) >= limits.batch_events:
            raise RefusedError(413, f"a request has at most {limits.batch_events:,} events")
        try:
            events.append(read(item))
        except PenstockError as error:
            raise RefusedError(status_of(error), f"{place.format(n)}: {detail_of(error)}") from None
        if n % _TURN == 0:
            await asyncio.sleep(0)
    return events
