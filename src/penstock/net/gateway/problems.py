"""Errors as problem details (RFC 9457): a status, and one line that says what was wrong."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import (
    AccessError,
    EventError,
    FilterError,
    LimitError,
    NetworkError,
    PenstockError,
)
from penstock.net.gateway.formats import MalformedError, encode_json

PROBLEM_TYPE: Final = "application/problem+json"
_DETAIL_LENGTH_MAX: Final = 400
_EXTRA_HEADERS: Final = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}
_PYTHON_HINT: Final = "(unsupported='skip' "
_HINT: Final = "(unsupported=skip "
"""The same choice, as callers of the Python interface and as requests make it."""


class RefusedError(PenstockError):
    """A request that the gateway refuses, with the status to answer."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})


_STATUS_OF: Final[tuple[tuple[type[Exception], int], ...]] = (
    (MalformedError, 400),
    (FilterError, 400),
    (EventError, 422),
    (LimitError, 422),
    (AccessError, 403),
    (NetworkError, 503),
    (TimeoutError, 503),
    (PenstockError, 400),
)


def status_of(error: Exception) -> int:
    """The status that an error is answered with; 500 for one that nobody raised on purpose."""
    if isinstance(error, RefusedError):
        return error.status
    return next((status for kind, status in _STATUS_OF if isinstance(error, kind)), 500)


def detail_of(error: Exception) -> str:
    """One line of what was wrong. Of a mistake of the gateway's own it says nothing."""
    if status_of(error) == 500:
        return "the gateway made a mistake; its log says more"
    text = str(error) or "the broker did not answer in time; it may still do what was asked"
    text = text.replace(_PYTHON_HINT, _HINT)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _DETAIL_LENGTH_MAX else line[: _DETAIL_LENGTH_MAX - 1] + "…"


def describe(error: Exception) -> dict[str, object]:
    """An error as the members of a problem."""
    status = status_of(error)
    return {"title": HTTPStatus(status).phrase, "status": status, "detail": detail_of(error)}


def problem(error: Exception) -> Response:
    """An error as a response."""
    status = status_of(error)
    headers = dict(_EXTRA_HEADERS.get(status, {}))
    if isinstance(error, RefusedError):
        headers |= error.headers
    body = encode_json({"type": "about:blank", **describe(error)})
    return Response(body, status, headers, media_type=PROBLEM_TYPE)


async def on_error(_request: Request, error: Exception) -> Response:
    """Answer a request that has failed."""
    return problem(error)


async def on_http_error(_request: Request, error: Exception) -> Response:
    """Answer what the router has refused: an unknown path, a method that a path does not have."""
    if not isinstance(error, HTTPException):
        return problem(error)
    return problem(RefusedError(error.status_code, error.detail, error.headers))
