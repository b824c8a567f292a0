"""Holes that gateways have had elsewhere, each tried here."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from html.parser import HTMLParser

import httpx
import pytest

from gateway_cases import FakeBroker, FakeDelivery, app_of, ask, client_of, get, post, serving
from penstock.model.events import Event
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.sse import frame

SCRIPT = "<script>alert(1)</script>"
HARDENING = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate", "identity, gzip", "x-unknown"])
def test_a_decompression_bomb_is_refused_unopened(encoding: str) -> None:
    bomb = gzip.compress(bytes(10**7))
    broker = FakeBroker()
    response = post(app_of(broker), bomb, "application/json", {"content-encoding": encoding})
    assert response.status_code == 415
    assert response.headers["accept-encoding"] == "identity"


def test_an_oversized_body_is_refused_by_its_declared_length_alone() -> None:
    app = app_of(FakeBroker(), GatewayLimits(body_bytes=100))

    async def run() -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            raise AssertionError("the body is read")
            yield b""

        headers = {"content-type": "application/json", "content-length": "101"}
        return await ask(app, "POST", "/events", content=body(), headers=headers)

    assert asyncio.run(run()).status_code == 413


def test_an_oversized_body_is_refused_while_it_streams() -> None:
    app = app_of(FakeBroker(), GatewayLimits(body_bytes=100))
    sent = 0

    async def run() -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(1000):
                sent += 40
                yield b" " * 40

        return await ask(app, "POST", "/events", content=body(), headers={"content-type": "application/json"})

    assert asyncio.run(run()).status_code == 413
    assert sent <= 160


def test_a_body_that_trickles_is_given_up() -> None:
    app = app_of(FakeBroker(), GatewayLimits(read_s=0.01))

    async def run() -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        return await ask(app, "POST", "/events", content=body(), headers={"content-type": "application/json"})

    assert asyncio.run(run()).status_code == 408


@pytest.mark.parametrize("content_type", ["application/json", "application/cloudevents+json"])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"a":' * 500 + "1" + "}" * 500])
def test_deep_json_is_refused(content_type: str, text: str) -> None:
    assert post(app_of(FakeBroker()), text, content_type).status_code in (400, 422)


def test_numbers_of_thousands_of_digits_are_refused() -> None:
    for number in ("9" * 100_000, "1e999999999"):
        assert post(app_of(FakeBroker()), f'{{"x": {number}}}', "application/json").status_code in (400, 422)


def test_a_line_break_in_a_percent_encoded_header_is_refused() -> None:
    broker = FakeBroker()
    headers = {"ce-specversion": "1.0", "ce-id": "a", "ce-source": "s", "ce-type": "t%0d%0aSet-Cookie:%20a=b"}
    assert post(app_of(broker), "", None, headers).status_code == 400
    assert not broker.events


def test_headers_of_responses_repeat_nothing_of_the_request() -> None:
    app = app_of(FakeBroker(ends_at_once=True), origins=["https://app.example"])
    for path in ("/nothing%0d%0aX-Evil:1", "/events?filter=%0d%0aX-Evil:1", "/docs/"):
        response = get(app, path, {"origin": "https://app.example"})
        assert "x-evil" not in response.headers
        assert "location" not in response.headers
        assert not any("evil" in value.lower() for value in response.headers.values())


def test_an_id_with_line_breaks_cannot_forge_lines_of_a_stream() -> None:
    event = Event({"x": "a\n\ndata: forged", "specversion": "1.0\n"})
    lines = frame(FakeDelivery(event, "me\r\ndata: forged\n\n", 1), "b\n1").decode().split("\n")
    assert [line.partition(":")[0] for line in lines] == ["id", "data", "", ""]
    assert "\r" not in "".join(lines)


def test_script_in_an_event_is_never_markup() -> None:
    written = frame(FakeDelivery(Event({SCRIPT: SCRIPT}), SCRIPT, 1), SCRIPT)
    assert b"<" not in written
    assert json.loads(written.partition(b"data: ")[2])["data"] == {SCRIPT: SCRIPT}


def test_script_in_a_request_is_never_markup_in_the_answer() -> None:
    app = app_of(FakeBroker(ends_at_once=True))
    for response in (
        get(app, f"/events?filter={SCRIPT}"),
        post(app, json.dumps({SCRIPT: 2**64}), "application/json"),
        post(app, json.dumps({"x": 2**64}), SCRIPT),
    ):
        assert response.headers["content-type"] == "application/problem+json"
        assert "<" not in response.text


def test_script_in_a_brokers_name_is_text_on_the_page() -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: set[str] = set()
            self.addresses: list[str | None] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found.add(tag)
            self.addresses += [value for name, value in attrs if name in ("src", "href")]

    response = get(app_of(FakeBroker(broker=f"{SCRIPT}<img src=x>'\"")), "/docs")
    tags = Tags()
    tags.feed(response.text)
    assert not tags.found & {"script", "img", "link", "iframe"}
    assert tags.addresses == ["/openapi.json"]
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/docs",
        "/openapi.json",
        "/healthz",
        "/readyz",
        "/metrics",
        "/topology",
        "/nothing",
        "/events?filter=true",
    ],
)
def test_every_response_forbids_sniffing(path: str) -> None:
    response = get(app_of(FakeBroker(ends_at_once=True)), path)
    assert {name: response.headers[name] for name in HARDENING} == HARDENING
    assert "content-security-policy" in response.headers


def test_pages_of_foreign_origins_are_refused_everywhere() -> None:
    broker = FakeBroker(ends_at_once=True)
    app = app_of(broker, origins=["https://app.example"])
    for origin in ("https://evil.example", "null", "https://app.example.evil.example", "http://app.example"):
        for path in ("/events?filter=true", "/topology", "/healthz"):
            response = get(app, path, {"origin": origin})
            assert response.status_code == 403
            assert "access-control-allow-origin" not in response.headers
        assert post(app, '{"x": 1}', "application/json", {"origin": origin}).status_code == 403
    assert not broker.connections
    twice = [("origin", "https://app.example"), ("origin", "https://evil.example")]
    assert asyncio.run(ask(app, "GET", "/topology", headers=twice)).status_code == 403


def test_pages_of_configured_origins_are_let_in() -> None:
    app = app_of(FakeBroker(), origins=["https://app.example"])
    headers = {"origin": "https://app.example"}
    assert get(app, "/topology", headers).headers["access-control-allow-origin"] == "https://app.example"
    asking = {**headers, "access-control-request-method": "POST"}
    preflight = asyncio.run(ask(app, "OPTIONS", "/events", headers=asking))
    assert preflight.status_code == 204
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "content-type" in preflight.headers["access-control-allow-headers"]
    assert preflight.headers["vary"] == "Origin"
    anybody = app_of(FakeBroker(), origins=["*"])
    assert get(anybody, "/topology", headers).headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7480", 200),
        ("localhost", 200),
        ("[::1]:7480", 200),
        ("app.example", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
        ("[", 403),
    ],
)
def test_a_name_that_was_pointed_at_the_loopback_address_is_refused(host: str, status: int) -> None:
    app = app_of(FakeBroker(), listen="http://127.0.0.1:7480", origins=["https://app.example"])
    assert get(app, "/topology", {"host": host}).status_code == status


def test_a_gateway_on_a_public_address_answers_to_any_name() -> None:
    app = app_of(FakeBroker(), listen="http://0.0.0.0:7480")
    assert get(app, "/topology", {"host": "gateway.example"}).status_code == 200


def test_a_nasty_filter_does_not_hold_up_others() -> None:
    nasty = " and ".join(f"(a{i} = 1 or a{i + 1} = 2 or b = {i})" for i in range(200))

    async def run() -> None:
        async with client_of(app_of(FakeBroker(ends_at_once=True))) as client:
            slow = asyncio.create_task(client.get("/events", params={"filter": nasty}))
            await asyncio.sleep(0)
            others = [await client.get("/healthz") for _ in range(3)]
            assert [other.status_code for other in others] == [200] * 3
            assert not slow.done()
            assert (await slow).status_code == 200

    asyncio.run(run())


def test_too_many_headers_are_refused_before_the_application_sees_them() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url, httpx.AsyncClient(base_url=url) as client:
            headers = {f"x-{n}": "x" * 1_000 for n in range(1_000)}
            # The gateway closes while the client still sends, which may lose the answer.
            with contextlib.suppress(httpx.TransportError):
                assert (await client.post("/events", json={"x": 1}, headers=headers)).status_code == 400
            assert not broker.events
            assert (await client.post("/events", json={"x": 1})).status_code == 202

    asyncio.run(run())


def test_nobody_connects_to_the_broker_with_a_malformed_token() -> None:
    broker = FakeBroker()
    for value in (
        "Bearer",
        "Bearer ",
        "Bearer a b",
        "Bearer é",
        "Bearer a,b",
        "Token a",
        "Bearer " + "a" * 9000,
    ):
        headers = [("authorization", value.encode())]
        response = asyncio.run(ask(app_of(broker), "POST", "/events", json={"x": 1}, headers=headers))
        assert response.status_code == 401, value
    assert not broker.connections
