"""The protocol `flood` on sockets: the same clients, sessions and custody, and no trees."""

import pytest

import penstock
from net_cases import Complaints, config, run, serving, until
from penstock.errors import InputError
from penstock.net.config import BrokerConfig
from penstock.net.server import Server


def flooding(name: str, *peers: Server) -> BrokerConfig:
    return config(name, protocol="flood", peers=[peer.urls[0] for peer in peers])


def test_events_reach_who_wants_them_once_over_a_ring() -> None:
    async def main() -> None:
        async with (
            serving(flooding("a")) as (a,),
            serving(flooding("b", a)) as (b,),
            serving(flooding("c", a, b)) as (c,),
        ):
            await until(lambda: all(len(server.status()["links"]) == 2 for server in (a, b, c)))
            async with (
                penstock.connect(a.urls[0]) as publisher,
                penstock.connect(b.urls[0]) as one,
                penstock.connect(c.urls[0]) as other,
                await one.subscribe("x >= 5") as some,
                await other.subscribe("x >= 0") as everything,
            ):
                await publisher.publish_many([{"x": x} for x in range(10)])
                assert [(await some.next())["x"] for _ in range(5)] == list(range(5, 10))
                assert [(await everything.next())["x"] for _ in range(10)] == list(range(10))
                assert some.pending == everything.pending == 0
            assert c.status()["counts"]["duplicates"] or b.status()["counts"]["duplicates"]
            assert a.status()["protocol"] == "flood"
            assert a.status()["table"]["trees"] == 0

    run(main)


def test_a_broker_of_another_protocol_is_refused() -> None:
    async def main() -> None:
        with Complaints():
            async with serving(config("a")) as (a,), serving(flooding("b", a)) as (b,):
                await until(lambda: "protocol" in b.status()["peers"][0]["error"])
                assert b.status()["peers"][0]["error"] == "this broker runs the protocol 'trees', not 'flood'"
                assert not a.status()["links"]

    run(main)


def test_a_protocol_that_is_not_there_is_an_error_before_anything_starts() -> None:
    from penstock.net.config import load_broker

    with pytest.raises(InputError, match="no protocol 'floods'; perhaps flood"):
        load_broker(None, {"name": "b", "protocol": "floods"})
