"""The answers to requests. What each endpoint is called, takes and gives stands in `table`."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.net.gateway.acting import parsed
from penstock.net.gateway.bodies import read_events
from penstock.net.gateway.context import Context
from penstock.net.gateway.formats import encode_json
from penstock.net.gateway.metrics import metrics_text
from penstock.net.gateway.problems import RefusedError
from penstock.net.gateway.sse import EventStream
from penstock.net.gateway.tokens import bearer_token

JSON_TYPE = "application/json"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNT_MAX = 10**9


async def publish(context: Context, request: Request) -> Response:
    """Publish the events of the body; answered when the broker has acknowledged them."""
    token = bearer_token(request.headers)
    events = await read_events(request, context.limits)
    if events:
        await context.publishers.publish(token, events)
    context.accepted += len(events)
    return Response(encode_json({"accepted": len(events)}), 202, media_type=JSON_TYPE)


async def stream(context: Context, request: Request) -> Response:
    """The events that match a filter, as they come."""
    token = bearer_token(request.headers)
    given = request.query_params.multi_items()
    names = [name for name, _value in given]
    if "access_token" in names:
        raise RefusedError(400, "a token is not taken from the URL: say 'Authorization: Bearer'")
    unknown = set(names) - {"filter", "count"}
    if unknown or len(set(names)) < len(names) or "filter" not in names:
        raise RefusedError(400, "say 'filter' once, and perhaps 'count'")
    asked = dict(given)
    count = _count(asked["count"]) if "count" in asked else None
    return EventStream(context, token, await parsed(asked["filter"], context.limits), count)


async def health(_context: Context, _request: Request) -> Response:
    """The process lives."""
    return Response(encode_json({"status": "ok"}), media_type=JSON_TYPE)


async def readiness(context: Context, _request: Request) -> Response:
    """The broker takes clients."""
    if context.stopping.is_set() or not context.connector.is_ready():
        raise RefusedError(503, "the broker is starting, or draining")
    return Response(encode_json({"status": "ready"}), media_type=JSON_TYPE)


async def metrics(context: Context, _request: Request) -> Response:
    """The status for Prometheus."""
    return Response(metrics_text(context), headers={"Content-Type": METRICS_TYPE})


async def topology(context: Context, _request: Request) -> Response:
    """The status as it is."""
    return Response(encode_json(context.connector.status()), media_type=JSON_TYPE)


async def home(_context: Context, _request: Request) -> Response:
    """To the documentation."""
    return RedirectResponse("/docs")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= COUNT_MAX):
        raise RefusedError(400, f"'count' is a number from 1 to {COUNT_MAX:,}")
    return int(text)
