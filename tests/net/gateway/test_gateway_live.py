"""The gateway of a real broker, over a socket: what its own document says, and an event from end to end."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok

import penstock
from live_commands import running
from net_cases import config, run, serving
from patience import HANGS
from penstock.net.config import GatewayConfig
from penstock.node.settings import Times


@pytest.fixture(scope="module")
def gateway(warm_kernels: None) -> Iterator[str]:
    listen = ("--listen", "penstock://127.0.0.1:0", "--gateway", "http://127.0.0.1:0")
    with running("broker", "--name", "g", *listen) as broker:
        # A first one may have to compile its kernels, which takes minutes.
        assert broker.out.get(timeout=HANGS).startswith("g listening on ")
        yield broker.line().rpartition(" ")[2]


def test_a_live_gateway_does_what_its_document_says(gateway: str) -> None:
    schema = schemathesis.openapi.from_url(f"{gateway}/openapi.json", config=SchemathesisConfig())
    tried = set()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        # Streams of events do not end by themselves; they are tried in test_streams.
        if (operation.method.upper(), operation.path) == ("GET", "/events"):
            continue
        tried.add((operation.method.upper(), operation.path))

        @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            case.call_and_validate(excluded_checks=[schemathesis.checks.positive_data_acceptance])

        check()
    assert {("POST", "/events"), ("GET", "/metrics"), ("GET", "/topology")} <= tried


def test_an_event_goes_in_by_http_and_comes_out_by_a_stream(gateway: str) -> None:
    event = {"specversion": "1.0", "id": "7", "source": "/s", "type": "t", "data": {"n": 1}}
    with httpx.Client(base_url=gateway, timeout=HANGS) as http:
        with http.stream("GET", "/events", params={"filter": "type = 't'", "count": 1}) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": subscribed"
            sent = http.post("/events", json=event, headers={"content-type": "application/cloudevents+json"})
            assert (sent.status_code, sent.json()) == (202, {"accepted": 1})
            (data,) = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert json.loads(data) == event
        names = http.get("/metrics").text
        assert "penstock_" in names
        assert http.get("/topology").json()["name"] == "g"


def test_a_reader_that_never_acknowledges_does_not_hold_up_requests() -> None:
    async def main() -> None:
        live = config(gateway=GatewayConfig(listen="http://127.0.0.1:0"), times=Times(patience=10_000.0))
        async with (
            serving(live) as (server,),
            await penstock.connect(server.urls[0], name="idle") as net,
            await net.subscribe("n > 0", ack="manual") as sub,
            httpx.AsyncClient(base_url=str(server.gateway_url), timeout=HANGS) as http,
        ):
            for n in (1, 2):
                assert (await http.post("/events", json={"n": n})).status_code == 202
            assert (await http.post("/events", params={"ack": "taken"}, json={"n": 3})).status_code == 202
            assert (await http.post("/events", params={"ack": "all"}, json={"n": 4})).status_code == 400
            assert [(await sub.next(HANGS))["n"] for _ in range(3)] == [1, 2, 3]

    run(main)
