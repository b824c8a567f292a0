"""All of the gateway as one ASGI application, made of the table of endpoints."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from penstock.errors import PenstockError
from penstock.net.gateway.context import Context
from penstock.net.gateway.guard import Guard
from penstock.net.gateway.problems import on_error, on_http_error
from penstock.net.gateway.table import ENDPOINTS, Endpoint
from penstock.net.gateway.tokens import bearer_token
from penstock.net.gateway.websocket import serve

WEBSOCKET_PATH = "/ws"


def build_app(context: Context, listen: str, origins: Sequence[str]) -> ASGIApp:
    """The application of one gateway."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    routes: list[BaseRoute] = [_route(context, path, methods) for path, methods in by_path.items()]

    async def socket(websocket: WebSocket) -> None:
        await serve(context, websocket)

    routes.append(WebSocketRoute(WEBSOCKET_PATH, socket))
    app = Starlette(
        routes=routes,
        exception_handlers={
            PenstockError: on_error,
            TimeoutError: on_error,
            HTTPException: on_http_error,
            Exception: on_error,
        },
    )
    # A redirect to the path with or without a slash would repeat whatever host the request names.
    app.router.redirect_slashes = False
    return Guard(app, listen, origins, context.limits)


def _route(context: Context, path: str, methods: list[Endpoint]) -> Route:
    """One route a path, so that a method that it does not have is answered with those that it has."""
    by_method = {endpoint.method: _handler(context, endpoint) for endpoint in methods}

    async def dispatch(request: Request) -> Response:
        return await by_method["GET" if request.method == "HEAD" else request.method](request)  # type: ignore[index]

    route = Route(path, dispatch, methods=list(by_method))
    if path == "/events" and route.methods is not None:
        route.methods.discard("HEAD")  # It would subscribe, and never end.
    return route


def _handler(context: Context, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        if endpoint.needs == "monitor":
            context.check_monitor(bearer_token(request.headers))
        return await endpoint.handler(context, request)

    return handle
