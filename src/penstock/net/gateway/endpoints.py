"""The answers to requests. What each endpoint is called, takes and gives stands in `table`."""

import re

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.net.gateway.acting import filter_text
from penstock.net.gateway.bodies import (
    BATCH_TYPE,
    STRUCTURED_TYPE,
    checked_ack,
    checked_unsupported,
    read_events,
)
from penstock.net.gateway.context import Context
from penstock.net.gateway.formats import encode_json
from penstock.net.gateway.metrics import metrics_text
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.problems import RefusedError
from penstock.net.gateway.receiving import (
    BATCH_COUNT,
    BINARY,
    WAIT_MAX_S,
    WAIT_S,
    EventAnswer,
    Wanted,
    accepted_type,
)
from penstock.net.gateway.sse import STREAM_TYPE, EventStream
from penstock.net.gateway.tokens import bearer_token

JSON_TYPE = "application/json"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNT_MAX = 10**9
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,20})?(e-[0-9]{1,3})?")


async def publish(context: Context, request: Request) -> Response:
    """Publish the events of the body; answered when the broker has acknowledged them."""
    token = bearer_token(request.headers)
    context.check(token, "advertise")
    unknown = set(request.query_params) - {"unsupported", "ack"}
    if unknown:
        raise RefusedError(400, f"{min(unknown)!r:.40} is not known here: say 'ack' or 'unsupported'")
    unsupported = checked_unsupported(_once(request, "unsupported", "refuse"))
    ack = checked_ack(_once(request, "ack", "accepted"))
    events = await read_events(request, context.limits, unsupported)
    if events:
        await context.publishers.publish(token, events, ack)
    context.accepted += len(events)
    return Response(encode_json({"accepted": len(events)}), 202, media_type=JSON_TYPE)


def _once(request: Request, name: str, default: str) -> str:
    """What a request says under a name."""
    given = request.query_params.getlist(name)
    if len(given) > 1:
        raise RefusedError(400, f"say '{name}' once")
    return given[0] if given else default


async def stream(context: Context, request: Request) -> Response:
    """The events that match a filter: as they come, or the next of them."""
    token = bearer_token(request.headers)
    context.check(token, "subscribe")
    given = request.query_params.multi_items()
    names = [name for name, _value in given]
    if "access_token" in names:
        raise RefusedError(400, "a token is not taken from the URL: say 'Authorization: Bearer'")
    if "filter" not in names:
        raise RefusedError(400, "give filter=…, a filter as in SQL's WHERE (URL-encoded)")
    if set(names) - {"filter", "count", "mode", "wait"} or len(set(names)) < len(names):
        raise RefusedError(400, "say 'filter' once, and perhaps 'count', 'mode' and 'wait'")
    asked = dict(given)
    count = _count(asked["count"]) if "count" in asked else None
    form = _form(asked.get("mode"), request)
    wanted = None if form == STREAM_TYPE else _wanted(form, count, asked.get("wait"), context.limits)
    if wanted is None and "wait" in asked:
        raise RefusedError(400, f"'wait' is not for streams: say mode=binary, or accept {STRUCTURED_TYPE}")
    text = filter_text(asked["filter"], context.limits)
    if wanted is None:
        return EventStream(context, token, text, count)
    return EventAnswer(context, token, text, wanted)


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


def _form(mode: str | None, request: Request) -> str:
    """The form of the answer, by the mode or else by the header Accept."""
    if mode is None:
        return accepted_type(",".join(request.headers.getlist("accept")))
    if mode != BINARY:
        raise RefusedError(400, f"'mode' is {BINARY}; for the others say Accept")
    return BINARY


def _wanted(form: str, count: int | None, wait: str | None, limits: GatewayLimits) -> Wanted:
    """What is asked for where the answer is no stream."""
    most = limits.batch_events if form == BATCH_TYPE else 1
    if count is not None and count > most:
        raise RefusedError(400, f"'count' is at most {most:,} here")
    if count is None:
        count = min(BATCH_COUNT, most)
    return Wanted(form, count, WAIT_S if wait is None else _wait(wait))


def _wait(text: str) -> float:
    if not (_NUMBER.fullmatch(text) and float(text) <= WAIT_MAX_S):
        raise RefusedError(400, f"'wait' is a number of seconds from 0 to {WAIT_MAX_S}")
    return float(text)
