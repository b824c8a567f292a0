"""The table of endpoints as an OpenAPI 3.1 document.

WebSockets have no place in OpenAPI: their operations stand under `x-websockets`.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from penstock import __version__
from penstock.net.gateway.problems import PROBLEM_TYPE
from penstock.net.gateway.schemas import SCHEMAS, ref
from penstock.net.gateway.tokens import SUBPROTOCOL
from penstock.net.gateway.websocket import OPERATIONS

if TYPE_CHECKING:
    from penstock.net.gateway.table import Endpoint

_RIGHTS: Final = {"": (), "token": (401, 403), "monitor": (401, 403)}
_ALWAYS: Final = (403,)
"""An origin or a host that is foreign, at any endpoint."""


def openapi_document(endpoints: "Iterable[Endpoint]", broker: str) -> dict[str, Any]:
    """The document, for the gateway of one broker."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Penstock gateway of {broker}",
            "version": __version__,
            "description": "Events in and out over HTTP. Errors are problem details, with one line of why.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        "x-websockets": {"/ws": _websocket()},
    }


def _operation(endpoint: "Endpoint") -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, reply in endpoint.replies.items():
        responses[str(status)] = {"description": reply.description}
        if reply.media:
            shapes = {reply.media: reply.schema or {}, **reply.others}
            content = {media: {"schema": schema} for media, schema in shapes.items()}
            responses[str(status)]["content"] = content
    for status in sorted({*endpoint.errors, *_RIGHTS[endpoint.needs], *_ALWAYS}):
        content = {PROBLEM_TYPE: {"schema": ref("Problem")}}
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.handler.__name__.strip("_"),
        "responses": responses,
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.parameters:
        operation["parameters"] = [
            {
                "name": parameter.name,
                "in": parameter.place,
                "required": parameter.required,
                "description": parameter.description,
                "schema": parameter.schema,
            }
            for parameter in endpoint.parameters
        ]
    if endpoint.bodies:
        content = {media: {"schema": schema} for media, schema in endpoint.bodies.items()}
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.needs:
        # Either is enough: a token is needed only where the broker requires one.
        operation["security"] = [{}, {"token": []}]
    return operation


def _websocket() -> dict[str, Any]:
    return {
        "summary": "A client connection as JSON messages",
        "description": (
            f"Offer the subprotocol {SUBPROTOCOL}; a browser offers penstock.bearer.<token> beside it. "
            "Replies are messages with op ok, error or event."
        ),
        "operations": {
            name: {
                "summary": operation.summary,
                "required": list(operation.required),
                "optional": list(operation.optional),
            }
            for name, operation in OPERATIONS.items()
        },
    }
