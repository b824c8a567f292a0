"""A neighbour with very many subscriptions comes, and round trips of other clients go on meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from net_cases import config, run, serving
from penstock import connect
from penstock.net.server import Server

COUNT = 1_500


def test_round_trips_of_others_go_on_while_a_neighbour_tells_all_its_subscriptions() -> None:
    async def main() -> None:
        async with serving(config("relay")) as (relay,), _linked_to(relay) as far:
            many = await connect(far.urls[0], name="many")
            for begin in range(0, COUNT, 500):
                texts = (f"k = {n} and v > 1" for n in range(begin, begin + 500))
                await asyncio.gather(*(many.subscribe(text, callback=_ignore) for text in texts))
            other = await connect(relay.urls[0], name="other")
            await other.advertise("who = 'other' and k is null")
            back = await other.subscribe("who = 'other'")
            await other.publish({"who": "other"})
            await back.next(10)
            # Small slices, so that what is shown does not depend on how fast this machine is.
            intake = relay.node.runtime.intake
            intake.slice_bytes, intake.pause = 1_024, 0.02
            publisher = await connect(relay.urls[0], name="publisher")
            await publisher.advertise("k >= 0")
            between = 0
            while (known := relay.node.runtime.core.facts().subscriptions) < COUNT + 1:
                await other.publish({"who": "other"})
                await back.next(10)
                between += 1 < known < relay.node.runtime.core.facts().subscriptions
            assert between > 3
            # The state is whole.
            last = await many.subscribe(f"k = {COUNT - 1} and v > 0")
            await publisher.publish({"k": COUNT - 1, "v": 9})
            assert (await last.next(10))["v"] == 9
            for client in (many, other, publisher):
                await client.close()

    run(main)


@asynccontextmanager
async def _linked_to(server: Server) -> AsyncIterator[Server]:
    async with serving(config("far", peers=[server.urls[0]])) as (far,):
        yield far


def _ignore(_event: Any) -> None:
    pass
