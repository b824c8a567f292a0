"""Events as the answer to one request: the forms, who waits how long, what comes back."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import given

from gateway_cases import MINIMAL, FakeBroker, FakeDelivery, app_of, ask, cloudevents, get, serving
from patience import HANGS
from penstock.model.events import Event
from penstock.net.gateway.cloudevents import from_binary, from_structured, to_binary
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.receiving import accepted_type

STREAM = "text/event-stream"
ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def receive(
    events: list[Event], query: str, accept: str = "*/*", limits: GatewayLimits | None = None
) -> httpx.Response:
    """Ask, publish once the gateway has subscribed, and return the answer; nothing is left behind."""

    async def run() -> httpx.Response:
        broker = FakeBroker()
        request = ask(app_of(broker, limits), "GET", f"/events?{query}", headers={"accept": accept})
        asking = asyncio.create_task(request)
        async with asyncio.timeout(HANGS):
            while not broker.subscriptions and not asking.done():
                await asyncio.sleep(0)
            for number, event in enumerate(events, start=1):
                broker.publish(FakeDelivery(event, "p", number))
            response = await asking
        assert not broker.subscriptions
        assert not broker.open_connections()
        return response

    return asyncio.run(run())


def test_one_event_comes_in_structured_mode() -> None:
    events = [Event({"x": 1}), Event({**MINIMAL, "data": {"x": 2}}), Event({**MINIMAL, "data": {"x": 3}})]
    response = receive(events, "filter=data.x > 1", ONE)
    assert (response.status_code, response.headers["content-type"]) == (200, ONE)
    assert response.json() == {**MINIMAL, "data": {"x": 2}}


def test_one_event_comes_in_binary_mode() -> None:
    event = Event({**MINIMAL, "id": 'é "1" 100%', "n": 5, "is": True, "data": {"x": 2}})
    response = receive([event], "filter=true&mode=binary")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {"x": 2}
    found = {name: value for name, value in response.headers.items() if name.startswith("ce-")}
    assert found == {
        "ce-specversion": "1.0",
        "ce-id": "%C3%A9%20%221%22%20100%25",
        "ce-source": "/s",
        "ce-type": "t",
        "ce-n": "5",
        "ce-is": "true",
    }


def test_a_plain_event_is_wrapped_in_binary_mode_too() -> None:
    response = receive([Event({"a.b": 1})], "filter=true&mode=binary")
    assert (response.headers["ce-type"], response.json()) == ("penstock.event", {"a": {"b": 1}})


@pytest.mark.parametrize(
    ("attributes", "content_type", "body"),
    [
        ({"datacontenttype": "text/html", "data": "<b>é"}, "text/html", "<b>é".encode()),
        ({"datacontenttype": "image/png", "data_base64": "AAE="}, "image/png", b"\x00\x01"),
        ({"data_base64": "AAE="}, None, b"\x00\x01"),
        ({"data": "hi"}, "application/json", b'"hi"'),
        ({"datacontenttype": "a/b+json", "data": False}, "a/b+json", b"false"),
        ({"datacontenttype": 'text/x; a="é"', "data": "hi"}, 'text/x; a="%C3%A9"', b"hi"),
        ({}, None, b""),
    ],
)
def test_the_body_of_binary_mode_is_the_data(
    attributes: dict[str, object], content_type: str | None, body: bytes
) -> None:
    response = receive([Event({**MINIMAL, **attributes})], "filter=true&mode=binary")
    assert (response.headers.get("content-type"), response.content) == (content_type, body)
    assert "sandbox" in response.headers["content-security-policy"]


@pytest.mark.property
@given(cloudevents())
def test_what_binary_mode_gives_it_takes(document: dict[str, Any]) -> None:
    event = from_structured(document)
    headers, body = to_binary(event, "b1", "p", 1)
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    content_type = headers.pop("Content-Type", None)
    back = from_binary([(name, value.encode()) for name, value in headers.items()], content_type, body)
    for name in ("specversion", "id", "source", "type", "subject", "dataschema", "time"):
        assert back.get(name) == event.get(name)


def test_a_batch_is_what_is_there() -> None:
    response = receive([Event({"x": x}) for x in range(5)], "filter=x > 0&count=3", BATCH)
    assert (response.status_code, response.headers["content-type"]) == (200, BATCH)
    assert [document["data"] for document in response.json()] == [{"x": 1}, {"x": 2}, {"x": 3}]
    response = receive([Event({"x": 1})], "filter=true", BATCH)
    assert [document["data"] for document in response.json()] == [{"x": 1}]
    assert len(receive([Event({"x": x}) for x in range(101)], "filter=true", BATCH).json()) == 100


def test_a_batch_is_bounded_in_bytes() -> None:
    events = [Event({"x": "y" * 100}) for _ in range(5)]
    assert len(receive(events, "filter=true", BATCH, GatewayLimits(body_bytes=300)).json()) == 2


@pytest.mark.parametrize("accept", [ONE, BATCH])
@pytest.mark.parametrize("wait", ["0", "0.01", "1e-05"])
def test_none_in_time_is_no_content(accept: str, wait: str) -> None:
    response = receive([], f"filter=true&wait={wait}", accept)
    assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize(
    ("query", "accept", "detail"),
    [
        ("filter=true&wait=61", ONE, "from 0 to 60"),
        ("filter=true&wait=-1", ONE, "from 0 to 60"),
        ("filter=true&wait=nan", ONE, "from 0 to 60"),
        ("filter=true&wait=5", "*/*", "mode=binary"),
        ("filter=true&count=2", ONE, "at most 1 "),
        ("filter=true&count=10001", BATCH, "at most 10,000 "),
        ("filter=true&mode=structured", "*/*", "'mode' is binary"),
        ("count=1", "*/*", "give filter=…, a filter as in SQL's WHERE"),
    ],
)
def test_what_cannot_be_asked_for_is_said(query: str, accept: str, detail: str) -> None:
    response = receive([], query, accept)
    assert response.status_code == 400
    assert detail in response.json()["detail"]


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        ("", STREAM),
        ("*/*", STREAM),
        ("text/*", STREAM),
        ("text/html, */*;q=0.8", STREAM),
        ("application/*", ONE),
        (f"{ONE}, */*", ONE),
        (f"{ONE};q=0.5, {BATCH}", BATCH),
        (f"{ONE.upper()} ; charset=utf-8", ONE),
        (f"*/*, {STREAM};q=0", ONE),
    ],
)
def test_the_form_is_the_one_that_is_accepted(accept: str, found: str) -> None:
    assert accepted_type(accept) == found


def test_what_no_form_is_is_not_acceptable() -> None:
    response = get(app_of(FakeBroker()), "/events?filter=true", {"accept": "image/png"})
    assert response.status_code == 406
    assert ONE in response.json()["detail"]


def test_a_subscription_that_ends_is_an_error() -> None:
    async def run() -> httpx.Response:
        broker = FakeBroker()
        request = ask(app_of(broker), "GET", "/events?filter=true&mode=binary")
        asking = asyncio.create_task(request)
        while not broker.subscriptions:
            await asyncio.sleep(0)
        await broker.subscriptions[0].unsubscribe()
        return await asking

    assert asyncio.run(run()).status_code == 503


def test_who_leaves_is_unsubscribed() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url:
            async with httpx.AsyncClient(timeout=HANGS) as client:
                request = client.get(f"{url}/events?filter=true&mode=binary")
                asking = asyncio.create_task(request)
                while not broker.subscriptions:
                    await asyncio.sleep(0.005)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            async with asyncio.timeout(HANGS):
                while broker.open_connections():
                    await asyncio.sleep(0.005)

    asyncio.run(run())


def test_who_waits_when_the_gateway_stops_is_told() -> None:
    async def run() -> httpx.Response:
        broker = FakeBroker()
        async with httpx.AsyncClient(timeout=HANGS) as client:
            async with serving(broker) as url:
                request = client.get(f"{url}/events?filter=true&mode=binary")
                asking = asyncio.create_task(request)
                while not broker.subscriptions:
                    await asyncio.sleep(0.005)
            return await asking

    response = asyncio.run(run())
    assert response.status_code == 503
    assert json.loads(response.content)["detail"] == "the gateway is stopping"
