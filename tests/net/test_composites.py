"""Composites at real brokers: what clients detect, whichever broker the events come through."""

import asyncio

import pytest

import penstock
from net_cases import config, run, serving
from patience import HANGS
from penstock.composites.language import parse
from penstock.errors import FilterError
from penstock.filters.parsing import as_predicate
from penstock.net.client.composites import filter_of

PAIR = (
    "select $c as carrier, late.n, gone.n as m "
    "from [delay > 60 and c = $c] as late then [gone and c = $c] as gone within 1 h"
)


def test_a_sequence_is_found_across_brokers() -> None:
    async def main() -> None:
        async with (
            serving(config("a")) as (a,),
            serving(config("b", peers=[a.urls[0]])) as (b,),
            await penstock.connect(a.urls[0]) as net,
            await penstock.connect(b.urls[0]) as other,
            await net.subscribe_composite(PAIR) as found,
        ):
            # The way from one broker to the other is there a moment after it is asked for.
            while not found.pending:
                await other.publish({"c": "", "delay": 75, "n": 0})
                await asyncio.sleep(0.01)
            await other.publish({"c": "UA", "delay": 75, "n": 1})
            await other.publish({"c": "AA", "gone": True, "n": 2})
            await other.publish({"c": "UA", "gone": True, "n": 3, "x": {"y": 1}})
            detected = await found.next(HANGS)
            assert detected == {"carrier": "UA", "late.n": 1, "m": 3}
            assert detected.events["gone"]["x.y"] == 1
            assert (found.pending, found.dropped) == (0, {})

    run(main)


def test_that_nothing_came_is_found_though_nothing_comes() -> None:
    async def main() -> None:
        async with (
            serving(config()) as (server,),
            await penstock.connect(server.urls[0]) as net,
            await net.subscribe_composite(
                "[ask = 1 and id = $id] as q then not [answer = 1 and id = $id] within 300 ms"
            ) as found,
        ):
            await net.publish({"ask": 1, "id": 1})
            await net.publish({"ask": 1, "id": 2})
            await net.publish({"answer": 1, "id": 1})
            assert (await found.next(HANGS))["q.id"] == 2
            with pytest.raises(TimeoutError):
                await found.next(0.5)

    run(main)


def test_without_asyncio_and_with_mistakes() -> None:
    async def main() -> None:
        async with serving(config()) as (server,):
            await asyncio.to_thread(plainly, server.urls[0])

    run(main)


def plainly(url: str) -> None:
    with penstock.connect_sync(url) as net:
        with pytest.raises(FilterError, match="needs a window"):
            net.subscribe_composite("[x = 1] then [x = 2]")
        with net.subscribe_composite("[x = 1] as a and [x = 2] as b within 1 h") as found:
            net.publish({"x": 2})
            net.publish({"x": 1})
            assert found.next(HANGS) == {"a.x": 1, "b.x": 2}
            assert found.dropped == {}


def test_only_events_of_its_atoms_are_asked_for() -> None:
    composite = parse("[x = 1 and k = $k] then not [x = 2] then [x = 3] within 1 s")
    assert filter_of(composite) == as_predicate("x = 1 and k is not null or x = 2 or x = 3")
