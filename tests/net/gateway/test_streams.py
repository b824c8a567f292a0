"""Streams and WebSockets over real sockets: events come, nothing is left behind."""

import asyncio
import contextlib
import json
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trustme
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from gateway_cases import FakeBroker, FakeConfig, FakeDelivery, Rights, serving
from patience import HANGS
from penstock.errors import NetworkError
from penstock.filters.parsing import parse
from penstock.model.events import Event
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.server import Gateway

Socket = ClientConnection


def delivery(number: int = 1, **attributes: object) -> FakeDelivery:
    return FakeDelivery(Event(attributes), "p", number)


async def until(condition: Any) -> None:
    """Wait for something that is about to happen; a test that hangs says where."""
    async with asyncio.timeout(HANGS):
        while not condition():
            await asyncio.sleep(0.005)


def ws(url: str, **options: Any) -> connect:
    return connect(url.replace("http", "ws", 1) + "/ws", compression=None, **options)


async def say(socket: Socket, **message: object) -> dict[str, Any]:
    """Send a message, and take the reply to it."""
    await socket.send(json.dumps(message))
    return await hear(socket)


async def hear(socket: Socket) -> dict[str, Any]:
    async with asyncio.timeout(HANGS):
        reply: dict[str, Any] = json.loads(await socket.recv())
    return reply


@asynccontextmanager
async def streaming(url: str, query: str) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of an event stream."""
    async with (
        httpx.AsyncClient(base_url=url, timeout=HANGS) as client,
        client.stream("GET", f"/events?{query}") as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield response.aiter_lines()


def test_a_stream_has_the_events_that_match_and_ends_after_the_count() -> None:
    async def run() -> list[str]:
        broker = FakeBroker()
        async with serving(broker) as url:
            async with streaming(url, "filter=x > 1&count=2") as lines:
                await until(lambda: broker.subscriptions)
                async with httpx.AsyncClient(base_url=url) as client:
                    body = "\n".join(json.dumps({"x": x}) for x in range(4))
                    headers = {"content-type": "application/x-ndjson"}
                    assert (await client.post("/events", content=body, headers=headers)).status_code == 202
                found = [line async for line in lines]
            await until(lambda: not broker.subscriptions)
        assert not broker.open_connections()
        return found

    found = asyncio.run(run())
    data = [json.loads(line.removeprefix("data: ")) for line in found if line.startswith("data: ")]
    assert [event["data"] for event in data] == [{"x": 2}, {"x": 3}]
    ids = [line.removeprefix("id: ") for line in found if line.startswith("id: ")]
    assert ids == [event["id"] for event in data]


def test_a_stream_gives_signs_of_life() -> None:
    async def run() -> None:
        async with (
            serving(FakeBroker(), limits=GatewayLimits(heartbeat_s=0.01)) as url,
            streaming(url, "filter=true") as lines,
        ):
            seen = 0
            async for line in lines:
                seen += line == ": alive"
                if seen == 3:
                    break

    asyncio.run(run())


def test_a_stream_that_its_client_leaves_is_unsubscribed() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url:
            async with streaming(url, "filter=true"):
                await until(lambda: broker.subscriptions)
            await until(lambda: not broker.subscriptions)
            await until(lambda: not broker.open_connections())

    asyncio.run(run())


def test_streams_end_when_the_gateway_stops() -> None:
    async def run() -> None:
        broker = FakeBroker()
        gateway = Gateway(FakeConfig(), broker)
        url = await gateway.start()
        async with streaming(url, "filter=true") as lines, ws(url) as socket:
            await until(lambda: broker.subscriptions)
            assert (await say(socket, op="subscribe", id=1, filter="true"))["op"] == "ok"
            stopping = asyncio.create_task(gateway.stop())
            assert [line async for line in lines][-1] == ""
            with pytest.raises(ConnectionClosed) as ended:
                await socket.recv()
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == 1001
            await stopping
        assert not broker.open_connections()
        assert not broker.subscriptions
        await gateway.stop()

    asyncio.run(run())


def test_a_stream_ends_when_the_broker_ends_its_connection() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url, streaming(url, "filter=true") as lines:
            await until(lambda: broker.subscriptions)
            await broker.connections[0].close()
            assert [line async for line in lines][-1] == ""

    asyncio.run(run())


@pytest.mark.parametrize("is_socket", [False, True])
def test_a_client_that_does_not_read_is_cut_off(is_socket: bool) -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker, limits=GatewayLimits(send_s=0.05, grace_s=1)) as url:
            parts = urlsplit(url)
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            reader._limit = 1  # type: ignore[attr-defined]  # It reads nothing after the first bytes.
            if is_socket:
                await deaf_socket(writer)
            else:
                writer.write(f"GET /events?filter=true HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
            await until(lambda: broker.subscriptions)
            for number in range(50):
                broker.publish(delivery(number, x="y" * 10**6))
            await until(lambda: not broker.subscriptions)
            await until(lambda: not broker.open_connections())
            writer.transport.abort()

    asyncio.run(run())


async def deaf_socket(writer: asyncio.StreamWriter) -> None:
    """Shake hands, subscribe to everything, and hear nothing."""
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    head = "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    writer.write(f"{head}{key}\r\n".encode())
    message = json.dumps({"op": "subscribe", "id": 1, "filter": "true"}).encode()
    masked = bytes([0x81, 0x80 | len(message), 0, 0, 0, 0]) + message
    await asyncio.sleep(0.2)
    writer.write(masked)


def test_a_request_that_takes_longer_than_the_grace_is_cancelled_when_the_gateway_stops() -> None:
    async def run() -> None:
        broker = FakeBroker()
        broker.gate.clear()
        gateway = Gateway(FakeConfig(), broker, GatewayLimits(grace_s=1))
        async with httpx.AsyncClient(base_url=await gateway.start(), timeout=HANGS) as client:
            stuck = asyncio.create_task(client.post("/events", json={"x": 1}))
            await until(lambda: broker.connections)
            async with asyncio.timeout(HANGS):
                await gateway.stop()
            with contextlib.suppress(httpx.TransportError):
                assert (await stuck).status_code == 500
        assert not broker.events
        assert not broker.open_connections()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_streams_and_sockets_have_a_limit() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker, limits=GatewayLimits(streams=1)) as url, streaming(url, "filter=true"):
            async with httpx.AsyncClient(base_url=url) as client:
                assert (await client.get("/events?filter=true")).status_code == 503
            with pytest.raises(InvalidStatus) as refused:
                await ws(url)
            assert refused.value.response.status_code == 503

    asyncio.run(run())


def test_a_socket_subscribes_changes_and_unsubscribes() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url, ws(url) as socket:
            assert await say(socket, op="subscribe", id="s1", filter="x > 1") == {"op": "ok", "id": "s1"}
            broker.publish(delivery(1, x=1))
            broker.publish(delivery(2, x=2))
            heard = await hear(socket)
            assert (heard["op"], heard["id"], heard["event"]["id"]) == ("event", "s1", "p/2")
            assert heard["event"]["data"] == {"x": 2}
            assert await say(socket, op="change", id="s1", filter="x > 2") == {"op": "ok", "id": "s1"}
            broker.publish(delivery(3, x=2))
            broker.publish(delivery(4, x=3))
            assert (await hear(socket))["event"]["data"] == {"x": 3}
            assert await say(socket, op="unsubscribe", id="s1") == {"op": "ok", "id": "s1"}
            assert not broker.subscriptions

    asyncio.run(run())


def test_a_socket_leaves_out_what_has_no_family_where_that_is_asked_for() -> None:
    async def run() -> list[Event]:
        broker = FakeBroker()
        async with serving(broker) as url, ws(url) as socket:
            event = {"x": 1, "y": 2**64, "z": None}
            assert (await say(socket, op="publish", event=event))["status"] == 422
            assert (await say(socket, op="publish", event=event, unsupported=[]))["status"] == 400
            assert await say(socket, op="publish", event=event, unsupported="skip") == {"op": "ok"}
        return broker.events

    assert asyncio.run(run()) == [Event({"x": 1})]


def test_a_socket_publishes_plain_events_and_cloudevents_and_advertises() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url, ws(url) as socket:
            assert await say(socket, op="advertise", id=1, filter="x = 1") == {"op": "ok", "id": 1}
            assert await say(socket, op="publish", event={"x": 1}) == {"op": "ok"}
            cloudevent = {"specversion": "1.0", "id": "a", "source": "s", "type": "t", "data": {"x": 1}}
            assert await say(socket, op="publish", event=cloudevent, id="e") == {"op": "ok", "id": "e"}
            assert [dict(event).get("x", event.get("data.x")) for event in broker.events] == [1, 1]
            assert await say(socket, op="withdraw", id=1) == {"op": "ok", "id": 1}
            assert not broker.advertisements

    asyncio.run(run())


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ("[" * 50_000, 400),
        ('{"op": "dance"}', 400),
        ('{"op": ["subscribe"]}', 400),
        ('{"op": "subscribe", "id": "s"}', 400),
        ('{"op": "subscribe", "id": null, "filter": "true"}', 400),
        ('{"op": "subscribe", "id": {}, "filter": "true"}', 400),
        ('{"op": "subscribe", "id": "s", "filter": 5}', 400),
        ('{"op": "subscribe", "id": "s", "filter": "x ="}', 400),
        ('{"op": "subscribe", "id": "s", "filter": "true", "extra": 1}', 400),
        ('{"op": "change", "id": "nobody", "filter": "true"}', 400),
        ('{"op": "unsubscribe", "id": "nobody"}', 400),
        ('{"op": "withdraw", "id": "nobody"}', 400),
        ('{"op": "publish", "event": 5}', 400),
        ('{"op": "publish", "event": {"specversion": "1.0"}}', 400),
        ('{"op": "publish", "event": {"x": 18446744073709551616}}', 422),
        ('{"op": "subscribe", "id": "s", "filter": "true"}', 403),
        ('{"op": "advertise", "id": "s", "filter": "true"}', 403),
        ('{"op": "publish", "event": {"x": 2}}', 403),
    ],
)
def test_a_bad_message_is_answered_and_the_socket_stays(message: str, status: int) -> None:
    async def run() -> None:
        only = parse("x = 1")
        broker = FakeBroker(tokens={"t": Rights(subscribe=only, advertise=only)})
        headers = {"Authorization": "Bearer t"}
        async with serving(broker) as url, ws(url, additional_headers=headers) as socket:
            await socket.send(message)
            reply = await hear(socket)
            assert (reply["op"], reply["status"]) == ("error", status)
            assert (await say(socket, op="publish", event={"x": 1}))["op"] == "ok"

    asyncio.run(run())


def test_a_socket_has_so_many_subscriptions_and_each_id_once() -> None:
    async def run() -> None:
        broker = FakeBroker()
        limits = GatewayLimits(subscriptions_per_socket=1)
        async with serving(broker, limits=limits) as url, ws(url) as socket:
            assert (await say(socket, op="subscribe", id=1, filter="true"))["op"] == "ok"
            again = await say(socket, op="subscribe", id=1, filter="true")
            assert (again["op"], again["id"], again["status"]) == ("error", 1, 400)
            assert (await say(socket, op="subscribe", id=2, filter="true"))["status"] == 429
            assert len(broker.subscriptions) == 1

    asyncio.run(run())


@pytest.mark.parametrize(("message", "code"), [(b"bytes", 1003), ("x" * 101, 1009)])
def test_a_message_that_is_bytes_or_too_large_ends_the_socket(message: str | bytes, code: int) -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker, limits=GatewayLimits(message_bytes=100)) as url, ws(url) as socket:
            await socket.send(message)
            with pytest.raises(ConnectionClosed) as ended:
                await hear(socket)
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == code
            await until(lambda: not broker.open_connections())

    asyncio.run(run())


def test_a_socket_ends_when_the_broker_ends_its_connection() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url, ws(url) as socket:
            await say(socket, op="subscribe", id=1, filter="true")
            await broker.connections[0].close()
            assert (await hear(socket))["status"] == 503
            with pytest.raises(ConnectionClosed) as ended:
                await hear(socket)
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == 1011

    asyncio.run(run())


def test_a_socket_that_its_client_leaves_is_unsubscribed() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url:
            async with ws(url) as socket:
                await say(socket, op="subscribe", id=1, filter="true")
            await until(lambda: not broker.subscriptions)
            async with ws(url) as socket:
                await say(socket, op="subscribe", id=1, filter="true")
                socket.transport.abort()
                await until(lambda: not broker.subscriptions)

    asyncio.run(run())


def test_a_browser_gives_its_token_as_a_subprotocol_that_is_not_sent_back() -> None:
    async def run() -> None:
        broker = FakeBroker(tokens={"alice": Rights()})
        async with serving(broker) as url:
            offers = [Subprotocol("penstock.v1"), Subprotocol("penstock.bearer.alice")]
            async with ws(url, subprotocols=offers) as socket:
                assert socket.subprotocol == "penstock.v1"
                assert (await say(socket, op="publish", event={"x": 1}))["op"] == "ok"
            for bad in (["penstock.bearer.bob"], ["penstock.bearer.a", "penstock.bearer.b"], []):
                with pytest.raises(InvalidStatus) as refused:
                    await ws(url, subprotocols=[Subprotocol(offer) for offer in bad] or None)
                assert refused.value.response.status_code == 401
                assert refused.value.response.headers["x-content-type-options"] == "nosniff"

    asyncio.run(run())


def test_a_page_of_a_foreign_origin_may_not_open_a_socket() -> None:
    async def run() -> None:
        broker = FakeBroker()
        config = FakeConfig(origins=["https://app.example"])
        async with serving(broker, config) as url:
            async with ws(url, origin=Origin("https://app.example")):
                pass
            with pytest.raises(InvalidStatus) as refused:
                await ws(url, origin=Origin("https://evil.example"))
            assert refused.value.response.status_code == 403
            assert len(broker.connections) == 1

    asyncio.run(run())


def test_compressed_messages_are_not_negotiated() -> None:
    async def run() -> None:
        async with (
            serving(FakeBroker()) as url,
            connect(url.replace("http", "ws", 1) + "/ws", compression="deflate") as socket,
        ):
            assert not socket.protocol.extensions

    asyncio.run(run())


def test_signals_stay_whose_they_were() -> None:
    async def run() -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        async with serving(FakeBroker()):
            assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

    asyncio.run(run())


def test_a_port_that_is_taken_is_a_network_error() -> None:
    async def run() -> None:
        async with serving(FakeBroker()) as url:
            with pytest.raises(NetworkError) as caught:
                await Gateway(FakeConfig(listen=url), FakeBroker()).start()
            assert str(caught.value) == (
                f"the gateway cannot listen on 127.0.0.1 port {urlsplit(url).port}: address already in use; "
                "give another port, --gateway http://127.0.0.1:PORT, or do without: --gateway none"
            )

    asyncio.run(run())


def test_https_needs_a_certificate_and_serves_with_it(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(cert)
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def run() -> None:
        with pytest.raises(NetworkError, match="certificate"):
            await Gateway(FakeConfig("https://127.0.0.1:0"), FakeBroker()).start()
        with pytest.raises(NetworkError, match="cannot start"):
            await Gateway(
                FakeConfig("https://127.0.0.1:0", cert=str(key), key=str(key)), FakeBroker()
            ).start()
        config = FakeConfig("https://127.0.0.1:0", cert=str(cert), key=str(key))
        async with serving(FakeBroker(), config) as url, httpx.AsyncClient(verify=context) as client:
            assert url.startswith("https://127.0.0.1:")
            assert (await client.get(f"{url}/healthz")).json() == {"status": "ok"}

    asyncio.run(run())
