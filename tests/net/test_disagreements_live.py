"""Brokers say which subscriptions cannot match: by a schema at once, else when events have come."""

import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

import penstock
from net_cases import config, run, serving
from patience import HANGS
from penstock.errors import FilterError, InputError
from penstock.net.config import GatewayConfig, load_broker
from penstock.net.server import Server
from penstock.node.disagreements import TOLD_MAX

SCHEMA = '{"properties": {"amount": {"type": "number"}, "country": {"type": "string"}}}'


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "events.schema.json"
    path.write_text(SCHEMA)
    return str(path)


def refused(server: Server) -> int:
    count: int = server.status()["counts"]["refused"]
    return count


@pytest.mark.parametrize("plain", [True, False])
def test_what_does_not_fit_the_schema_is_refused_with_what_was_meant(schema: str, plain: bool) -> None:
    # What is not plain is parsed in a thread.
    more = "" if plain else " or country like '%x%'"

    async def main() -> None:
        async with serving(config(schema=schema)) as (server,), await penstock.connect(server.urls[0]) as net:
            with pytest.raises(FilterError, match="'amuont', which the filter names; did you mean"):
                await net.subscribe("amuont > 5" + more)
            with pytest.raises(FilterError, match="compares 'amount' with a string"):
                await net.advertise("amount = 'x'" + more)
            assert refused(server) == 2
            async with await net.subscribe("amount > 5" + more) as sub:
                with pytest.raises(FilterError, match="'Country'"):
                    await sub.change("Country = 'US'" + more)
                await net.publish({"amount": 7})
                assert dict(await sub.next(HANGS)) == {"amount": 7}

    run(main)


def test_the_gateway_refuses_it_as_a_bad_request(schema: str) -> None:
    async def main() -> None:
        gateway = GatewayConfig(listen="http://127.0.0.1:0")
        async with serving(config(schema=schema, gateway=gateway)) as (server,), httpx.AsyncClient() as web:
            answer = await web.get(f"{server.gateway_url}/events", params={"filter": "amuont > 5"})
            assert answer.status_code == 400
            assert "did you mean 'amount'?" in answer.text

    run(main)


def test_a_schema_that_cannot_be_read_is_a_mistake_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    for name, what in (
        ("bad.json", "has properties; this one has none"),
        ("none.json", "there is no such file"),
    ):
        (tmp_path / "b.toml").write_text(f'name = "b"\nschema = "{name}"\n')
        with pytest.raises(InputError, match=rf"b\.toml: schema: .*{what}"):
            load_broker(tmp_path / "b.toml")


def test_subscriptions_that_match_nothing_are_in_status_metrics_and_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        gateway = GatewayConfig(listen="http://127.0.0.1:0")
        async with (
            serving(config(gateway=gateway)) as (server,),
            await penstock.connect(server.urls[0]) as net,
            await net.subscribe("amuont > 5"),
            await net.subscribe("country > 7"),
            await net.subscribe("amount > 2500") as sub,
        ):
            assert server.status()["disagreements"] == {"counts": {}, "texts": []}
            for begin in range(0, 3000, 500):
                events = [{"amount": n, "country": "US"} for n in range(begin, begin + 500)]
                await net.publish_many(events)
                if not begin:
                    # So few events do not yet say that an attribute is never there.
                    await server.look()
                    assert server.status()["disagreements"]["counts"] == {"family": 1}
            await sub.next(HANGS)
            with caplog.at_level(logging.WARNING):
                await server.look()
                await server.look()
            told = server.status()["disagreements"]
            assert told["counts"] == {"family": 1, "unknown": 1}
            assert "which 1 rule (amuont > 5) names; did you mean 'amount'?" in told["texts"][0]
            assert "1 rule (country > 7) compares 'country' with a number" in told["texts"][1]
            assert sum("'amuont'" in record.getMessage() for record in caplog.records) == 1
            async with httpx.AsyncClient() as web:
                metrics = (await web.get(f"{server.gateway_url}/metrics")).text
                assert 'penstock_disagreements{problem="unknown"} 1.0' in metrics
                assert 'penstock_disagreements{problem="mixed"} 0.0' in metrics
                topology: dict[str, Any] = (await web.get(f"{server.gateway_url}/topology")).json()
                assert json.dumps(topology).count("did you mean") == 1

    run(main)


def test_an_iso_text_matches_a_time_where_the_schema_says_so_and_comes_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"properties": {"at": {"type": "string", "format": "date-time"}}}')

    async def main() -> None:
        gateway = GatewayConfig(listen="http://127.0.0.1:0")
        async with (
            serving(config(schema=str(path), gateway=gateway)) as (server,),
            await penstock.connect(server.urls[0]) as net,
            await net.subscribe("at > timestamp '2024-01-01'") as sub,
        ):
            await net.publish({"at": "2023-05-05"})
            await net.publish({"at": "2024-05-05T01:00:00+01:00"})
            assert dict(await sub.next(HANGS)) == {"at": "2024-05-05T01:00:00+01:00"}

    run(main)


def test_events_that_do_not_fit_the_schema_are_reported_and_delivered(schema: str) -> None:
    async def main() -> None:
        async with (
            serving(config(schema=schema)) as (server,),
            await penstock.connect(server.urls[0]) as net,
            await net.subscribe("amount is not null") as sub,
        ):
            await net.publish({"amount": "five", "amnt": 5})
            assert dict(await sub.next(HANGS)) == {"amount": "five", "amnt": 5}
            await server.look()
            told = server.status()["disagreements"]
            assert told["counts"] == {"misfit": 1, "unlisted": 1}
            assert told["texts"] == [
                "events have 'amnt', which the schema does not list; did you mean 'amount'?",
                "1 value of 'amount' has the family string, but in the schema it is number",
            ]

    run(main)


def test_no_more_are_told_and_logged_than_there_is_room_for(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            for n in range(TOLD_MAX + 5):
                await net.subscribe(f"a{n} > 5 and b = 1")
            await net.publish_many([{"b": n % 2} for n in range(3000)])
            await server.look()
            told = server.status()["disagreements"]
            assert told["counts"] == {"unknown": TOLD_MAX + 5}
            assert len(told["texts"]) == TOLD_MAX

    run(main)
