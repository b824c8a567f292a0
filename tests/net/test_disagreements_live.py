"""Brokers say which subscriptions cannot match: by a schema at once, else when events have come."""

import asyncio
import json
import logging
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import penstock
from net_cases import config, run, serving, token, until, with_tokens
from patience import HANGS
from penstock.errors import FilterError, InputError
from penstock.net.client.subscriptions import Subscription
from penstock.net.config import GatewayConfig, load_broker
from penstock.net.server import Server
from penstock.node.client.notices import Notice
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
                    # So few events do not yet say that an attribute is never there, or never a number.
                    await server.look()
                    assert server.status()["disagreements"]["counts"] == {}
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
                "1 of 1 event has a string in 'amount', but in the schema it is number",
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


RARE = [{"amount": n, "country": "US", "rare": 1} for n in range(2000)]


async def looked(*servers: Server) -> list[dict[str, Any]]:
    """What brokers say after two looks: what nobody advertises has to last."""
    for _ in range(2):
        for server in servers:
            await server.look()
    return [server.status()["disagreements"] for server in servers]


@asynccontextmanager
async def two(**more: Any) -> AsyncIterator[tuple[Server, Server]]:
    """Two brokers with a link between them."""
    async with (
        serving(config("b1", **more)) as (b1,),
        serving(config("b2", peers=[b1.urls[0]], **more)) as (b2,),
    ):
        await until(lambda: [link["state"] for link in b2.status()["links"]] == ["up"])
        yield b1, b2


async def taken(sub: Subscription, count: int) -> None:
    for _ in range(count):
        await sub.next(HANGS)


@pytest.mark.parametrize("protocol", ["trees", "flood"])
@pytest.mark.parametrize("advertisements", [True, False])
def test_events_from_another_broker_that_match_something_do_not_show_what_events_are_like(
    protocol: str, advertisements: bool
) -> None:
    async def main() -> None:
        async with (
            two(protocol=protocol, advertisements=advertisements) as (b1, b2),
            await penstock.connect(b2.urls[0]) as ann,
            await ann.subscribe("rare > 5"),
            await ann.subscribe("country > 7 and amount < 0"),
            await ann.subscribe("amount >= 1000") as most,
            await penstock.connect(b1.urls[0]) as bob,
        ):
            await bob.publish_many(RARE)
            await bob.publish_many([{"amount": 1000 + n} for n in range(2000)])
            await taken(most, 3000)
            # Events with `rare` match nothing at b2, and need not come there.
            first, second = await looked(b1, b2)
            assert not any("'rare'" in text for text in (*first["texts"], *second["texts"]))
            # Who sees all that is published knows; under flood only the broker of the subscription has it.
            knows, other = (second, first) if protocol == "flood" else (first, second)
            assert knows["counts"] == {"family": 1}
            assert "country > 7" in knows["texts"][0]
            assert other["counts"] == {}

    run(main)


def test_a_broker_with_publishers_of_its_own_does_not_judge_what_others_may_publish() -> None:
    async def main() -> None:
        async with (
            two() as (b1, b2),
            await penstock.connect(b2.urls[0]) as ann,
            await ann.subscribe("rare > 5"),
            await ann.subscribe("rare > 5 and amount < 0"),
            await ann.subscribe("country > 7 and amount < 0"),
            await penstock.connect(b1.urls[0]) as bob,
        ):
            await bob.advertise("amount >= 0 and rare >= 0")
            await ann.publish_many([{"amount": n, "country": "US"} for n in range(2000)])
            await until(lambda: b2.status()["table"]["trees"] == 2)
            _first, second = await looked(b1, b2)
            # What no advertisement elsewhere overlaps is judged.
            assert second["counts"] == {"family": 1, "unknown": 1}
            assert "1 rule (amount < 0 and rare > 5)" in second["texts"][1]
            await bob.advertise("true")
            await until(lambda: b2.status()["table"]["trees"] == 3)
            _first, second = await looked(b1, b2)
            assert second["counts"] == {}

    run(main)


def test_subscriptions_that_no_advertisement_overlaps_are_reported_where_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        notices: list[Notice] = []
        gateway = GatewayConfig(listen="http://127.0.0.1:0")
        async with (
            two(gateway=gateway) as (b1, b2),
            await penstock.connect(b2.urls[0], on_notice=notices.append) as ann,
            await ann.subscribe("country > 7") as sub,
            await ann.subscribe("country = 'DE'"),
            await ann.subscribe("country = 'FR' and amuont > 5"),
            await ann.subscribe("country = 'US' and amuont > 5"),
            await penstock.connect(b1.urls[0]) as bob,
        ):
            await bob.advertise("country = 'US' and amount is not null")
            await until(lambda: b2.status()["table"]["trees"] == 1)
            await b2.look()
            # A publisher may come a moment after those who wait for it.
            assert b2.status()["disagreements"]["counts"] == {}
            assert not notices
            with caplog.at_level(logging.WARNING):
                first, second = await looked(b1, b2)
                await looked(b1, b2)
            assert first["counts"] == {}
            assert second["counts"] == {"family": 1, "unadvertised": 2, "unknown": 1}
            assert second["texts"] == [
                "no publisher has advertised events that 2 rules "
                "(country = 'DE', amuont > 5 and country = 'FR') can match",
                "no advertisement names 'amuont', which 1 rule (amuont > 5 and country = 'FR') names; "
                "did you mean 'amount'?",
                "1 rule (country > 7) compares 'country' with a number, but in the advertisements it is "
                "a string: no event can match",
            ]
            assert [sum(text in r.getMessage() for r in caplog.records) for text in second["texts"]] == [
                1
            ] * 3
            await until(lambda: len(notices) == 4)
            assert {notice.kind for notice in notices} == {"disagreement"}
            assert (
                "country > 7: the filter compares 'country' with a number, but in the advertisements it is "
                "a string: no event can match"
            ) in [notice.text for notice in notices]
            async with httpx.AsyncClient() as web:
                metrics = (await web.get(f"{b2.gateway_url}/metrics")).text
                assert 'penstock_disagreements{problem="unadvertised"} 2.0' in metrics
            # What is changed, or advertised by now, is reported no more, also when the publisher leaves.
            await sub.change("country = 'US'")
            more = await bob.advertise("country = 'DE' or country = 'FR'")
            await until(lambda: b2.status()["table"]["trees"] == 2)
            assert (await looked(b2))[0]["counts"] == {}
            await more.withdraw()
            await until(lambda: b2.status()["table"]["trees"] == 1)
            assert (await looked(b2))[0]["counts"] == {}

    run(main)


def test_subscribers_are_told_once_of_their_own_subscriptions_only(tmp_path: Path) -> None:
    async def main() -> None:
        told: dict[str, list[str]] = {"ann": [], "bob": [], "eve": []}

        def noting(name: str) -> Any:
            return lambda notice: told[name].append(notice.text)

        narrow = token("eve", subscribe=["amuont > 5", "country > 7", "amount = -1"])
        every = {name: token(name, subscribe=["true"], advertise=["true"]) for name in told}
        async with (
            serving(with_tokens(tmp_path)) as (server,),
            await penstock.connect(server.urls[0], token=every["ann"], on_notice=noting("ann")) as ann,
            await penstock.connect(server.urls[0], token=every["bob"], on_notice=noting("bob")) as bob,
            await penstock.connect(server.urls[0], token=narrow, on_notice=noting("eve")) as eve,
            await ann.subscribe("amuont > 5"),
            await bob.subscribe("amount > 5"),
            await eve.subscribe("country > 7"),
        ):
            await ann.publish_many(RARE)
            for _ in range(3):
                await server.look()
            # A round trip behind the notices.
            for client in (ann, bob, eve):
                await client.subscribe("amount = -1")
            assert told == {
                "ann": [
                    "amuont > 5: none of 2,000 events has 'amuont', which the filter names; "
                    "did you mean 'amount'?"
                ],
                "bob": [],
                "eve": ["country > 7: nothing that is published goes with what the filter asks of 'country'"],
            }

    run(main)


def test_penstock_sub_prints_that_its_subscription_may_match_nothing() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            command = [sys.executable, "-m", "penstock", "sub", "amuont > 5", "--url", server.urls[0]]
            sub = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
            try:
                assert sub.stderr is not None
                assert b"subscribed" in await sub.stderr.readline()
                await net.publish_many(RARE)
                await looked(server)
                line = (await sub.stderr.readline()).decode()
                assert "amuont > 5: none of 2,000 events has 'amuont', which the filter names" in line
            finally:
                sub.terminate()
                await sub.communicate()

    run(main)
