"""The OpenAPI document as a page: no script, nothing from elsewhere, every text escaped."""

import base64
import hashlib
from html import escape
from typing import Any, Final

from starlette.responses import HTMLResponse, Response

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "code{font:14px ui-monospace,monospace}h2{border-top:1px solid #ccc;padding-top:1rem}"
    "table{border-collapse:collapse}td{padding:.15rem 1rem .15rem 0;vertical-align:top}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}a{color:#8bf}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"


def documentation_page(document: dict[str, Any]) -> Response:
    """The page of an OpenAPI document."""
    info = document["info"]
    parts = [
        f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])} ",
        f"Version {escape(info['version'])}; also as <a href='/openapi.json'>OpenAPI</a>.</p>",
    ]
    for path, methods in document["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in methods.items()]
    parts += [_websocket(path, described) for path, described in document["x-websockets"].items()]
    head = f"<meta charset='utf-8'><title>{escape(info['title'])}</title><style>{_STYLE}</style>"
    page = f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>"
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    text = f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p>{escape(operation['summary'])}. "
    text += f"{escape(operation.get('description', ''))}</p>"
    text += _rows("Parameters", [(p["name"], p["description"]) for p in operation.get("parameters", ())])
    bodies = operation.get("requestBody", {}).get("content", {})
    text += _rows("Bodies", [(media, _shape(content)) for media, content in bodies.items()])
    replies = operation["responses"].items()
    rows = [
        (f"{status} {', '.join(reply.get('content', ()))}", reply["description"]) for status, reply in replies
    ]
    return text + _rows("Replies", rows)


def _websocket(path: str, described: dict[str, Any]) -> str:
    text = f"<h2><code>WebSocket {escape(path)}</code></h2><p>{escape(described['summary'])}. "
    text += f"{escape(described['description'])}</p>"
    rows = [
        (f"{name}: {', '.join(operation['required'])}", operation["summary"])
        for name, operation in described["operations"].items()
    ]
    return text + _rows("Messages", rows)


def _rows(title: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    cells = (f"<tr><td><code>{escape(left)}</code></td><td>{escape(right)}</td></tr>" for left, right in rows)
    return f"<h3>{escape(title)}</h3><table>{''.join(cells)}</table>"


def _shape(content: dict[str, Any]) -> str:
    return str(content["schema"].get("$ref", "")).rpartition("/")[2] or "text or bytes"
