"""All endpoints, once: the routes, the checks of rights and the documentation are made of this table."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.net.gateway import endpoints
from penstock.net.gateway.bodies import BATCH_TYPE, LINES_TYPE, PLAIN_TYPE, STRUCTURED_TYPE
from penstock.net.gateway.context import Context
from penstock.net.gateway.docs import documentation_page
from penstock.net.gateway.formats import encode_json
from penstock.net.gateway.openapi import openapi_document
from penstock.net.gateway.receiving import BATCH_COUNT, BINARY, WAIT_MAX_S, WAIT_S
from penstock.net.gateway.schemas import Schema, ref
from penstock.net.gateway.sse import STREAM_TYPE
from penstock.node.client.outlet import ACKS

Handler = Callable[[Context, Request], Awaitable[Response]]


class Parameter(msgspec.Struct, frozen=True):
    """Something that a request says beside its body."""

    name: str
    place: Literal["query", "header"]
    schema: Schema
    description: str
    required: bool = False


class Reply(msgspec.Struct, frozen=True):
    """What is answered with one status; `media` is empty where there is no body."""

    description: str
    media: str = ""
    schema: Schema | None = None
    others: dict[str, Schema] = {}
    """The other media types that it may have."""


class Endpoint(msgspec.Struct, frozen=True):
    """One method of one path. `needs` says which right a token must have, where tokens are required."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    summary: str
    replies: dict[int, Reply]
    errors: tuple[int, ...] = ()
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    bodies: dict[str, Schema] = {}
    needs: Literal["", "token", "monitor"] = ""


async def _openapi(context: Context, _request: Request) -> Response:
    return Response(encode_json(openapi_document(ENDPOINTS, context.connector.broker)), media_type=PLAIN_TYPE)


async def _docs(context: Context, _request: Request) -> Response:
    return documentation_page(openapi_document(ENDPOINTS, context.connector.broker))


_TEXT: Final[Schema] = {"type": "string"}
_STREAM: Final[Schema] = {"description": "Server-sent events: each has an id, and a CloudEvent as its data."}
"""Without a type: for some tools a stream is text, for others a list of objects."""
_CE_HEADERS: Final = tuple(
    Parameter(f"ce-{name}", "header", _TEXT, f"The CloudEvent's {name}, percent-encoded; for binary mode.")
    for name in ("specversion", "id", "source", "type", "subject", "time", "dataschema")
)

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/events",
        endpoints.publish,
        "Publish events",
        {202: Reply("The broker has acknowledged them.", PLAIN_TYPE, ref("Accepted"))},
        errors=(400, 408, 413, 415, 422, 429, 503),
        description=(
            "CloudEvents 1.0 in structured, batched or binary mode (any content type, with ce- headers), or "
            "plain events: one JSON object, or one a line. Bodies are not decompressed."
        ),
        parameters=(
            Parameter(
                "unsupported",
                "query",
                {"type": "string", "enum": ["refuse", "skip"]},
                "Whether what has no family (an integer beyond 64 bits) is refused or left out; refused "
                "unless said.",
            ),
            Parameter(
                "ack",
                "query",
                {"type": "string", "enum": list(ACKS)},
                "What to wait for: all brokers concerned have the events, all clients have, or all clients "
                "have acknowledged them; accepted unless said.",
            ),
            *_CE_HEADERS,
        ),
        bodies={
            PLAIN_TYPE: ref("Event"),
            STRUCTURED_TYPE: ref("CloudEvent"),
            BATCH_TYPE: ref("CloudEvents"),
            LINES_TYPE: _TEXT,
            "application/octet-stream": {},
        },
        needs="token",
    ),
    Endpoint(
        "GET",
        "/events",
        endpoints.stream,
        "Receive the events that match a filter",
        {
            200: Reply(
                "Server-sent events, where each `data:` is a CloudEvent; or one CloudEvent; or a batch. In "
                "binary mode the attributes are headers ce-, percent-encoded, and the body is the data.",
                STREAM_TYPE,
                _STREAM,
                {STRUCTURED_TYPE: ref("CloudEvent"), BATCH_TYPE: ref("CloudEvents"), "*/*": {}},
            ),
            204: Reply("No event came within `wait`."),
        },
        errors=(400, 406, 429, 503),
        description=(
            f"The header Accept says how: {STREAM_TYPE} (or */*, or none) is a stream, which lasts until the "
            f"client leaves or the gateway stops; {STRUCTURED_TYPE} is the next event; {BATCH_TYPE} is the "
            "next events, at least one. The subscription lives for the request only: nothing is replayed, "
            "and what is published between two requests comes to neither."
        ),
        parameters=(
            Parameter("filter", "query", _TEXT, "A filter: origin = 'JFK' and dep_delay > 60", required=True),
            Parameter(
                "count",
                "query",
                {"type": "integer", "minimum": 1, "maximum": endpoints.COUNT_MAX},
                f"End after so many events; of a batch at most so many, {BATCH_COUNT} unless said.",
            ),
            Parameter(
                "mode",
                "query",
                {"type": "string", "enum": [BINARY]},
                "The next event in binary mode, whatever Accept says.",
            ),
            Parameter(
                "wait",
                "query",
                {"type": "number", "minimum": 0, "maximum": WAIT_MAX_S},
                f"Seconds to wait for the first event, where the answer is no stream; {WAIT_S} unless said.",
            ),
        ),
        needs="token",
    ),
    Endpoint(
        "GET",
        "/metrics",
        endpoints.metrics,
        "The broker's counts and sizes",
        {200: Reply("Prometheus's text format.", "text/plain", _TEXT)},
        needs="monitor",
    ),
    Endpoint(
        "GET",
        "/topology",
        endpoints.topology,
        "What the broker says of itself and its links",
        {200: Reply("The status.", PLAIN_TYPE, ref("Status"))},
        needs="monitor",
    ),
    Endpoint(
        "GET",
        "/healthz",
        endpoints.health,
        "Whether the process lives",
        {200: Reply("It does.", PLAIN_TYPE, ref("Health"))},
    ),
    Endpoint(
        "GET",
        "/readyz",
        endpoints.readiness,
        "Whether the broker takes clients",
        {200: Reply("It does.", PLAIN_TYPE, ref("Health"))},
        errors=(503,),
    ),
    Endpoint(
        "GET",
        "/openapi.json",
        _openapi,
        "This interface as an OpenAPI document",
        {200: Reply("OpenAPI 3.1.", PLAIN_TYPE, {"type": "object"})},
    ),
    Endpoint("GET", "/docs", _docs, "This interface as a page", {200: Reply("A page.", "text/html", _TEXT)}),
    Endpoint("GET", "/", endpoints.home, "To the documentation", {307: Reply("It is at /docs.")}),
)
