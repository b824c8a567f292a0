"""What a user's mistake, or a hostile client, must not do to others."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from net_cases import Raw, config, hello, numbered, run, serving, until
from patience import HANGS
from penstock.broker.seen import Numbers
from penstock.errors import AccessError
from penstock.net.client.subscriptions import Received
from penstock.node.client.notices import Notice
from penstock.node.settings import Limits
from penstock.wire.blocks import Block, Header
from penstock.wire.frames import Kind
from penstock.wire.requests import Ask, write_request
from penstock.wire.sessions import Session


def test_of_events_published_together_only_the_one_that_is_refused_fails() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), penstock.connect(server.urls[0]) as net:
            await net.advertise("n >= 0")
            ended = await asyncio.gather(*(net.publish({"n": n}) for n in (5, -6, 7)), return_exceptions=True)
            assert [isinstance(one, AccessError) for one in ended] == [False, True, False]

    run(main)


def test_who_gives_up_waiting_for_an_event_gives_up_for_nobody_else() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), penstock.connect(server.urls[0]) as net:
            await net.advertise("true")
            impatient, patient = net.publish_nowait({"n": 1}), asyncio.create_task(net.publish({"n": 2}))
            impatient.cancel()
            await patient

    run(main)


def test_what_is_told_may_fail_and_the_client_still_comes_back() -> None:
    async def main() -> None:
        told: list[str] = []

        def on_notice(notice: Notice) -> None:
            told.append(notice.kind)
            raise RuntimeError("a mistake")

        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        async with (
            serving(config()) as (server,),
            penstock.connect(server.urls[0], on_notice=on_notice) as net,
        ):
            server.node.hub.close_all("", "")
            await until(lambda: "reconnected" in told)
            await net.publish({"n": 1})

    run(main)


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("ack", ["auto", "manual"])
def test_a_callback_that_fails_holds_up_nobody_and_is_told_at_the_end(kind: str, ack: Any) -> None:
    async def main() -> None:
        reported: list[dict[str, Any]] = []

        def plain(_event: Received) -> None:
            raise ValueError("a mistake")

        async def later(_event: Received) -> None:
            raise ValueError("a mistake")

        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        async with serving(config()) as (server,), penstock.connect(server.urls[0]) as net:
            callback: Any = plain if kind == "plain" else later
            sub = await net.subscribe("true", callback=callback, ack=ack, queue=2)
            await asyncio.wait_for(net.publish_many([{"n": n} for n in range(50)]), HANGS)
            with pytest.raises(ValueError, match="a mistake"):
                await sub.drain()
            assert "failed" in reported[0]["message"]

    run(main)


def test_subscriptions_and_advertisements_that_are_cancelled_leave_nothing() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), penstock.connect(server.urls[0]) as net:
            tasks = [asyncio.create_task(net.subscribe(f"n = {n}")) for n in range(5)]
            others = [asyncio.create_task(net.advertise(f"n = {n}")) for n in range(5)]
            await asyncio.sleep(0)
            for task in (*tasks, *others):
                task.cancel()
            await asyncio.gather(*tasks, *others, return_exceptions=True)
            await net.publish({"n": 1})
            table = server.status()["table"]
            assert (table["subscriptions"], table["trees"]) == (0, 1)

    run(main)


def test_a_huge_number_takes_no_room() -> None:
    numbers = Numbers()
    assert numbers.add(np.array([2**40])).all()
    assert not numbers.add(np.array([2**40])).any()
    assert numbers.add(np.array([2**40 - 5])).all()
    assert len(numbers._has) <= 256


def test_an_urgent_message_waits_neither_for_the_window_nor_for_what_came_before() -> None:
    session = Session(10)
    for text in (b"x" * 20, b"y" * 20):
        session.push_message(text)
    assert len(session.sendable()) == 1
    session.push_message(b"told", urgent=True)
    (frame,) = session.sendable()
    assert frame.endswith(b"told")
    assert session.is_waiting


def test_messages_are_counted_apart_from_events_until_they_are_acknowledged() -> None:
    session = Session(1000)
    session.push_block(Block.of(Header("1", ""), [1], [b"x" * 50]))
    session.push_message(b"abc", urgent=True)
    session.push_message(b"de")
    assert session.message_bytes == 5
    assert session.queued_bytes > 55
    session.sendable()
    session.on_ack((3).to_bytes(8, "big"))
    assert (session.message_bytes, session.queued_bytes) == (0, 0)


def test_who_asks_and_takes_no_answers_is_cut_off() -> None:
    async def main() -> None:
        async with (
            serving(config(limits=Limits(queue_bytes=2**16))) as (server,),
            await Raw.open(server) as raw,
        ):
            asks = (numbered(Kind.MESSAGE, n, write_request(Ask(n))) for n in range(1, 2_000))
            raw.say(hello(), *asks)
            heard = await asyncio.wait_for(raw.hear_all(), HANGS)
            assert heard[-1][0] is Kind.REFUSED
            assert sum(kind is Kind.MESSAGE for kind, _payload in heard) < 1_000

    run(main)


def test_a_broker_does_not_take_the_place_of_another_of_its_name() -> None:
    async def main() -> None:
        async with serving(config("hub")) as (hub,), serving(config("b", peers=hub.urls)) as (first,):
            await until(lambda: hub.status()["links"])
            async with serving(config("b", peers=hub.urls)) as (impostor,):
                await until(lambda: "called 'b'" in impostor.status()["peers"][0]["error"])
                assert impostor.status()["links"] == []
                assert [link["state"] for link in first.status()["links"]] == ["up"]

    run(main)


def test_who_advertises_nothing_publishes_under_what_is_granted(tmp_path: Path) -> None:
    from net_cases import SECRET, with_tokens
    from penstock.net.tokens import make_token

    token = make_token(
        SECRET.encode(), "ana", expires_in=60, advertise=["n >= 0"], subscribe=["true"], monitor=False
    )

    async def main() -> None:
        async with (
            serving(with_tokens(tmp_path)) as (server,),
            penstock.connect(server.urls[0], token=token) as net,
        ):
            await net.publish({"n": 1})
            with pytest.raises(AccessError):
                await net.publish({"n": -1})

    run(main)
