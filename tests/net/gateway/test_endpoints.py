"""The endpoints, without sockets: what they take, what they answer, who may ask."""

import asyncio
import json

import httpx
import pytest

from gateway_cases import FakeBroker, FakeConfig, Rights, app_of, ask, client_of, get, post
from penstock.errors import MissingExtraError, NetworkError
from penstock.filters.parsing import parse
from penstock.model.events import Event
from penstock.net.gateway import server
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.publishers import Publishers
from penstock.net.gateway.server import Gateway, parse_listen

MINIMAL = {"specversion": "1.0", "id": "a1", "source": "/s", "type": "t"}
BINARY = {f"ce-{name}": value for name, value in MINIMAL.items()}


def refused(response: httpx.Response, status: int) -> str:
    """The detail of a problem with this status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["status"] == status
    assert "\n" not in problem["detail"]
    return str(problem["detail"])


@pytest.mark.parametrize(
    ("content", "content_type", "headers", "events"),
    [
        ('{"origin": "JFK", "at": {"x": 1}}', "application/json", {}, [{"origin": "JFK", "at.x": 1}]),
        ('{"x": 1}\n\n{"x": 2}\r\n', "application/x-ndjson", {}, [{"x": 1}, {"x": 2}]),
        (json.dumps({**MINIMAL, "data": 5}), "application/cloudevents+json", {}, [{**MINIMAL, "data": 5}]),
        (json.dumps([MINIMAL, MINIMAL]), "application/cloudevents-batch+json", {}, [MINIMAL, MINIMAL]),
        ("[]", "application/cloudevents-batch+json; charset=utf-8", {}, []),
        ("hi", "text/plain", BINARY, [{**MINIMAL, "datacontenttype": "text/plain", "data": "hi"}]),
        ("", None, BINARY, [MINIMAL]),
        (
            '{"x": 1}',
            "application/json",
            {"CE-ID": "%C3%A9", **BINARY, "ce-id": "%C3%A9"},
            [{**MINIMAL, "id": "é", "datacontenttype": "application/json", "data.x": 1}],
        ),
    ],
)
def test_events_are_published_in_every_form(
    content: str, content_type: str | None, headers: dict[str, str], events: list[dict[str, object]]
) -> None:
    broker = FakeBroker()
    headers = {name.lower(): value for name, value in headers.items()}
    response = post(app_of(broker), content, content_type, headers)
    assert (response.status_code, response.json()) == (202, {"accepted": len(events)})
    assert broker.events == [Event(attributes) for attributes in events]


@pytest.mark.parametrize(
    ("content", "content_type", "headers", "status", "detail"),
    [
        ("{", "application/json", {}, 400, "not JSON"),
        ("", "application/json", {}, 400, "not JSON"),
        ("[1]", "application/json", {}, 400, "object"),
        (b'{"x": "\xff"}', "application/json", {}, 400, "not JSON"),
        ('{"x": 1}\n{"x": }', "application/x-ndjson", {}, 400, "line 2"),
        ("{}", "application/cloudevents+json", {}, 400, "'specversion'"),
        (json.dumps([MINIMAL, {}]), "application/cloudevents-batch+json", {}, 400, "event 2"),
        ("{}", "application/cloudevents-batch+json", {}, 400, "array"),
        ("x", "text/plain", {"ce-id": "a"}, 400, "'specversion'"),
        ('{"a": {"b": 18446744073709551616}}', "application/json", {}, 422, "'a.b': "),
        ('{"a": [18446744073709551616]}', "application/json", {}, 422, "(unsupported=skip leaves it out)"),
        ('{"x": 1}\n{"x": 18446744073709551616}', "application/x-ndjson", {}, 422, "line 2: 'x'"),
        (json.dumps({**MINIMAL, "data": [2**64]}), "application/cloudevents+json", {}, 422, "'data[]'"),
        ("[18446744073709551616]", "application/json", BINARY, 422, "'data[]'"),
        ('{"x": 99999999999999999999}', "application/json", {}, 422, "64-bit"),
        ("x", "text/plain", {}, 415, "ce- headers"),
        ("x", None, {}, 415, "ce- headers"),
        ("x", "application/cloudevents+avro", BINARY, 415, "application/cloudevents+json"),
        ("{}", "application/json", {"authorization": "Basic abc"}, 401, "Bearer"),
    ],
)
def test_bad_requests_are_answered_with_one_line_of_why(
    content: str | bytes, content_type: str | None, headers: dict[str, str], status: int, detail: str
) -> None:
    broker = FakeBroker()
    found = refused(post(app_of(broker), content, content_type, headers), status)
    assert detail in found
    assert "unsupported='" not in found
    assert not broker.events


def test_of_a_batch_with_a_bad_event_none_is_published() -> None:
    broker = FakeBroker()
    post(app_of(broker), '{"x": 1}\n{"x": 2}\n{"x": 18446744073709551616}', "application/x-ndjson")
    assert not broker.events


def test_a_batch_has_a_limit() -> None:
    app = app_of(FakeBroker(), GatewayLimits(batch_events=2))
    assert post(app, '{"x": 1}\n' * 2, "application/x-ndjson").status_code == 202
    refused(post(app, '{"x": 1}\n' * 3, "application/x-ndjson"), 413)
    refused(post(app, "\n" * 10, "application/x-ndjson"), 413)
    refused(post(app, json.dumps([MINIMAL] * 3), "application/cloudevents-batch+json"), 413)


def test_tokens_decide_at_the_broker() -> None:
    jfk = Rights(advertise=parse("origin = 'JFK'"), subscribe=parse("origin = 'JFK'"), monitor=False)
    app = app_of(FakeBroker(tokens={"alice": jfk, "admin": Rights()}, ends_at_once=True))
    alice, admin = {"authorization": "Bearer alice"}, {"authorization": "bearer admin"}

    def publish(headers: dict[str, str]) -> httpx.Response:
        return post(app, '{"origin": "LGA"}', "application/json", headers)

    assert refused(publish({}), 401)
    assert publish({}).headers["www-authenticate"] == "Bearer"
    refused(publish({"authorization": "Bearer bob"}), 401)
    refused(publish(alice), 403)
    assert publish(admin).status_code == 202
    refused(get(app, "/events?filter=true"), 401)
    refused(get(app, "/events?filter=true", alice), 403)
    assert get(app, "/events?filter=origin='JFK'", alice).status_code == 200
    for path in ("/metrics", "/topology"):
        refused(get(app, path), 401)
        refused(get(app, path, alice), 403)
        assert get(app, path, admin).status_code == 200
    for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert get(app, path).status_code == 200


@pytest.mark.parametrize(
    ("content", "content_type", "headers", "events"),
    [
        (
            '{"x": 1, "a": {"b": [18446744073709551616], "c": 2}}',
            "application/json",
            {},
            [{"x": 1, "a.c": 2}],
        ),
        ('{"x": 1, "y": 18446744073709551616}\n{"x": 2}', "application/x-ndjson", {}, [{"x": 1}, {"x": 2}]),
        (json.dumps({**MINIMAL, "data": 2**64}), "application/cloudevents+json", {}, [MINIMAL]),
        (
            json.dumps([{**MINIMAL, "data": {"x": 1, "y": 2**64}}]),
            "application/cloudevents-batch+json",
            {},
            [{**MINIMAL, "data.x": 1}],
        ),
        (
            "18446744073709551616",
            "application/json",
            BINARY,
            [{**MINIMAL, "datacontenttype": "application/json"}],
        ),
    ],
)
def test_what_has_no_family_is_left_out_where_that_is_asked_for(
    content: str, content_type: str, headers: dict[str, str], events: list[dict[str, object]]
) -> None:
    broker = FakeBroker()
    headers = {"content-type": content_type, **headers}
    for path in ("/events", "/events?unsupported=refuse"):
        refused(asyncio.run(ask(app_of(broker), "POST", path, content=content, headers=headers)), 422)
    path = "/events?unsupported=skip"
    response = asyncio.run(ask(app_of(broker), "POST", path, content=content, headers=headers))
    assert response.json() == {"accepted": len(events)}
    assert broker.events == [Event(attributes) for attributes in events]


@pytest.mark.parametrize(
    ("content", "content_type", "headers", "events"),
    [
        ('{"x": 1, "y": null}\n{}\n{"x": {"y": null}}', "application/x-ndjson", {}, [{"x": 1}, {}, {}]),
        (json.dumps({**MINIMAL, "data": {"a": None}}), "application/cloudevents+json", {}, [MINIMAL]),
        ("null", "application/json", BINARY, [{**MINIMAL, "datacontenttype": "application/json"}]),
        ('{"x": [1, {"y": [2]}, null], "z": []}', "application/json", {}, [{"x": [1, {"y": [2]}]}]),
        (
            json.dumps({**MINIMAL, "data": [1]}),
            "application/cloudevents+json",
            {},
            [{**MINIMAL, "data": [1]}],
        ),
    ],
)
def test_null_is_absence_and_lists_are_values(
    content: str, content_type: str, headers: dict[str, str], events: list[dict[str, object]]
) -> None:
    broker = FakeBroker()
    assert post(app_of(broker), content, content_type, headers).json() == {"accepted": len(events)}
    assert broker.events == [Event(attributes) for attributes in events]


@pytest.mark.parametrize("query", ["unsupported=", "unsupported=keep", "unsupported=skip&unsupported=skip"])
def test_what_to_do_with_the_unsupported_is_one_of_two_things(query: str) -> None:
    response = asyncio.run(ask(app_of(FakeBroker()), "POST", f"/events?{query}", json={"x": 1}))
    assert "'unsupported'" in refused(response, 400)


def test_a_token_in_the_url_is_refused() -> None:
    app = app_of(FakeBroker(ends_at_once=True))
    assert "URL" in refused(get(app, "/events?filter=true&access_token=x"), 400)


@pytest.mark.parametrize(
    "query",
    ["", "count=1", "filter=x%20%3D", "filter=true&count=0", "filter=true&count=x", "filter=true&a=1"],
)
def test_a_stream_needs_a_filter_and_takes_a_count(query: str) -> None:
    refused(get(app_of(FakeBroker(ends_at_once=True)), f"/events?{query}"), 400)


def test_a_filter_has_a_limit() -> None:
    app = app_of(FakeBroker(ends_at_once=True), GatewayLimits(filter_length=20))
    refused(get(app, "/events?filter=" + "x" * 21), 400)


def test_quotas_of_the_broker_are_too_many_requests() -> None:
    app = app_of(FakeBroker(quota=1))
    assert post(app, '{"x": 1}', "application/json").status_code == 202
    response = post(app, '{"x": 1}', "application/json")
    assert "events_per_second" in refused(response, 429)
    assert response.headers["retry-after"] == "1"


def test_a_broker_that_does_not_answer_is_unavailable() -> None:
    async def run() -> None:
        broker = FakeBroker()
        broker.gate.clear()
        app = app_of(broker, GatewayLimits(act_s=0.01))
        response = await ask(app, "POST", "/events", json={"x": 1})
        assert "did not answer in time" in refused(response, 503)

    asyncio.run(run())


def test_a_connection_that_has_ended_is_replaced() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with client_of(app_of(broker)) as client:
            assert (await client.post("/events", json={"x": 1})).status_code == 202
            await broker.connections[0].close()
            assert (await client.post("/events", json={"x": 2})).status_code == 202
        assert len(broker.connections) == 2

    asyncio.run(run())


def test_one_connection_a_token_publishes_for_many_requests() -> None:
    async def run() -> None:
        broker = FakeBroker(tokens={"a": Rights(), "b": Rights()})
        now = [0.0]
        publishers = Publishers(broker, GatewayLimits(publisher_age_s=10), lambda: now[0])
        event = Event({"x": 1})
        await asyncio.gather(*(publishers.publish(token, [event]) for token in "aabab"))
        assert len(broker.connections) == 2
        now[0] = 11
        await publishers.publish("a", [event])
        assert len(broker.connections) == 3
        assert len(broker.open_connections()) == 2
        await publishers.close()
        assert not broker.open_connections()

    asyncio.run(run())


def test_publishing_connections_have_a_limit_and_the_oldest_makes_room() -> None:
    async def run() -> None:
        broker = FakeBroker(tokens={token: Rights() for token in "abc"})
        now = iter(range(100))
        publishers = Publishers(broker, GatewayLimits(publishers=2), lambda: float(next(now)))
        for token in "abc":
            await publishers.publish(token, [Event({"x": 1})])
        assert [c.is_connected for c in broker.connections] == [False, True, True]
        broker.gate.clear()
        busy = [asyncio.create_task(publishers.publish(token, [Event({"x": 1})])) for token in "bc"]
        await asyncio.sleep(0)
        with pytest.raises(Exception, match="too many clients"):
            await publishers.publish("a", [Event({"x": 1})])
        broker.gate.set()
        await asyncio.gather(*busy)
        await publishers.close()

    asyncio.run(run())


def test_a_connection_in_use_is_closed_by_its_last_user() -> None:
    async def run() -> None:
        broker = FakeBroker()
        now = [0.0]
        publishers = Publishers(broker, GatewayLimits(publisher_age_s=10), lambda: now[0])
        broker.gate.clear()
        first = asyncio.create_task(publishers.publish(None, [Event({"x": 1})]))
        while not broker.connections:
            await asyncio.sleep(0)
        now[0] = 11
        second = asyncio.create_task(publishers.publish(None, [Event({"x": 2})]))
        while len(broker.connections) < 2:
            await asyncio.sleep(0)
        assert len(broker.open_connections()) == 2
        broker.gate.set()
        await asyncio.gather(first, second)
        assert [c.is_connected for c in broker.connections] == [False, True]
        await publishers.close()

    asyncio.run(run())


def test_ready_means_that_the_broker_takes_clients() -> None:
    broker = FakeBroker()
    assert get(app_of(broker), "/readyz").json() == {"status": "ready"}
    broker.ready = False
    refused(get(app_of(broker), "/readyz"), 503)
    assert get(app_of(broker), "/healthz").json() == {"status": "ok"}


def test_the_topology_is_the_status() -> None:
    broker = FakeBroker()
    assert get(app_of(broker), "/topology").json() == broker.status()


def test_metrics_are_made_of_the_status() -> None:
    link = {"state": "up", "queue_bytes": 5, "events_in": 2}
    broker = FakeBroker(
        links=[{"peer": 'b"2\n', **link}, {"peer": 'b"2\n', **link}, {"peer": "b3", "state": "cut"}]
    )
    app = app_of(broker)
    post(app, '{"x": 1}\n' * 3, "application/x-ndjson")
    lines = get(app, "/metrics").text.splitlines()
    assert 'penstock_broker_info{name="b1",scheme="covering",version="0.1.0"} 1.0' in lines
    assert "penstock_events_in_total 3.0" in lines
    assert "penstock_gateway_accepted_total 3.0" in lines
    assert "penstock_clients 1.0" in lines
    assert r'penstock_link_up{peer="b\"2\n"} 2.0' in lines
    assert r'penstock_link_queue_bytes{peer="b\"2\n"} 10.0' in lines
    assert 'penstock_link_events_in_total{peer="b3"} 0.0' in lines
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))


def test_the_root_leads_to_the_documentation() -> None:
    response = get(app_of(FakeBroker()), "/")
    assert (response.status_code, response.headers["location"]) == (307, "/docs")


def test_unknown_paths_and_methods_are_problems() -> None:
    app = app_of(FakeBroker())
    refused(get(app, "/nothing"), 404)
    refused(get(app, "/docs/"), 404)
    response = asyncio.run(ask(app, "PUT", "/events"))
    refused(response, 405)
    assert {m.strip() for m in response.headers["allow"].split(",")} == {"GET", "POST"}
    assert asyncio.run(ask(app, "HEAD", "/events")).status_code == 405
    assert asyncio.run(ask(app, "HEAD", "/healthz")).status_code == 200


def test_a_mistake_of_the_gateways_own_says_nothing_of_itself() -> None:
    class Broken(FakeBroker):
        def is_ready(self) -> bool:
            raise ZeroDivisionError("secret")

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app_of(Broken()), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/readyz")

    response = asyncio.run(run())
    assert "secret" not in refused(response, 500)
    assert response.headers["x-content-type-options"] == "nosniff"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_NEEDED", ("starlette", "no_such_package"))
    with pytest.raises(MissingExtraError, match=r"no_such_package: pip install 'penstock\[server\]'"):
        asyncio.run(Gateway(FakeConfig(), FakeBroker()).start())


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:7480", "ftp://x", "http://", "http://h:99999", "http://h/path"]
)
def test_a_url_that_cannot_be_listened_on_is_refused(url: str) -> None:
    with pytest.raises(NetworkError, match="URL"):
        parse_listen(url)


def test_the_default_port_is_the_gateways_own() -> None:
    assert parse_listen("http://[::1]") == ("http", "::1", 7480)
