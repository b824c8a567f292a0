"""The client against real brokers: what it promises when connections are lost, and when they are not."""

import asyncio
from typing import Any

import msgspec
import pytest

import penstock
from clause_cases import independent
from net_cases import config, run, serving, until
from patience import HANGS
from penstock.errors import EventError, FilterError, LimitError, NetworkError, PenstockError
from penstock.net.client.client import Client
from penstock.net.client.subscriptions import Received, Subscription
from penstock.net.server import Server
from penstock.node.client.notices import Notice
from penstock.node.settings import Limits, Times

QUICK = Times(resume=1.0, grace=0.5, settle=0.2, linger=20.0)


def cut(server: Server, name: str) -> None:
    """The connection of a client breaks."""
    for link in server.node.runtime.links.values():
        if link.peer == name and link.connection is not None:
            link.connection.abort()  # type: ignore[attr-defined]


def state(server: Server, name: str) -> Any:
    return next((client for client in server.status()["clients"] if client["name"] == name), None)


async def numbers(sub: Subscription, count: int) -> list[object]:
    return [(await sub.next(HANGS))["n"] for _ in range(count)]


def events(begin: int, end: int, **more: Any) -> list[dict[str, Any]]:
    return [{"n": n, **more} for n in range(begin, end)]


class Notices(list[Notice]):
    def kinds(self) -> list[str]:
        return [notice.kind for notice in self]

    def of(self, kind: str) -> list[Notice]:
        return [notice for notice in self if notice.kind == kind]


# Without trouble


def test_what_is_published_comes_in_order_to_whoever_wants_it() -> None:
    async def main() -> None:
        async with (
            serving(config()) as (server,),
            await penstock.connect(server.urls[0], name="p") as net,
            await net.subscribe("n >= 2") as sub,
        ):
            assert net.broker == "b"
            assert net.is_connected
            # Nothing was advertised: everything is.
            await net.publish({"n": 1})
            await net.publish({"n": 2})
            assert await net.publish_many(events(3, 6)) == 3
            got = [await sub.next(HANGS) for _ in range(4)]
            assert [event["n"] for event in got] == [2, 3, 4, 5]
            assert [event.number for event in got] == [2, 3, 4, 5]
            assert {event.origin for event in got} == {got[0].origin}
            assert [(event.late, event.hops) for event in got] == [(False, 1)] * 4
            assert dict(got[0]) == {"n": 2}
            assert state(server, "p")["advertisements"] == 1

    run(main)


def test_a_callback_is_given_what_comes() -> None:
    async def main() -> None:
        got: list[object] = []

        async def take(event: Received) -> None:
            got.append(event["n"])

        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            sub = await net.subscribe("n > 0", callback=take)
            await net.publish_many(events(0, 4))
            await sub.drain()
            assert got == [1, 2, 3]

    run(main)


def test_an_event_that_two_subscriptions_want_comes_by_both() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            one, two = await net.subscribe("n > 0"), await net.subscribe("n > 1")
            await net.publish_many(events(0, 3))
            assert await numbers(one, 2) == [1, 2]
            assert await numbers(two, 1) == [2]
            assert server.status()["counts"]["delivered"] == 2

    run(main)


def test_a_filter_is_changed_in_place_without_a_gap() -> None:
    async def main() -> None:
        async with (
            serving(config()) as (server,),
            await penstock.connect(server.urls[0]) as net,
            await penstock.connect(server.urls[0]) as publisher,
        ):
            sub = await net.subscribe("n >= 0 and a = 1")
            publishing = asyncio.create_task(_publish_slowly(publisher, 300))
            for text in ("n >= 0", "n > -1", "n >= 0 and a = 1", "a = 1"):
                await sub.change(text)
                await asyncio.sleep(0.02)
            await publishing
            assert await numbers(sub, 300) == list(range(300))
            await sub.change("n > 1000")
            await publisher.publish_many([{"n": 5, "a": 1}, {"n": 1001}])
            assert await numbers(sub, 1) == [1001]
            assert sub.pending == 0

    run(main)


async def _publish_slowly(net: Client, count: int) -> None:
    for event in events(0, count, a=1):
        await net.publish(event)


def test_bad_input_is_told_before_anything_is_sent() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            with pytest.raises(FilterError):
                await net.subscribe("n >")
            with pytest.raises(FilterError):
                await net.advertise("n >")
            with pytest.raises(EventError):
                await net.publish({"n": [b"1"]})
            with pytest.raises(PenstockError, match="say 'auto' or 'manual'"):
                await net.subscribe("n > 1", ack="never")  # type: ignore[arg-type]
            with pytest.raises(PenstockError, match="needs an advertisement"):
                net.publish_nowait({"n": 1})
            assert server.status()["clients"][0]["subscriptions"] == 0

    run(main)


def test_publish_nowait_and_flush() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            sub = await net.subscribe("n >= 0")
            await net.advertise("n >= 0")
            waiting = [net.publish_nowait(event) for event in events(0, 100)]
            assert not waiting[0].done()
            await net.flush()
            assert all(future.done() for future in waiting)
            assert await numbers(sub, 100) == list(range(100))
            with pytest.raises(penstock.errors.AccessError):
                await net.publish_nowait({"n": -1})

    run(main)


def test_an_advertisement_that_is_withdrawn_is_no_longer_published_under() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            ad = await net.advertise("n > 1")
            await net.publish({"n": 2})
            await ad.withdraw()
            assert server.status()["clients"][0]["advertisements"] == 0
            with pytest.raises(penstock.errors.AccessError):
                await net.publish({"n": 2}, advertisement=ad)

    run(main)


def test_what_is_acknowledged_by_hand_is_waited_for() -> None:
    async def main() -> None:
        async with (
            serving(config()) as (server,),
            await penstock.connect(server.urls[0], name="p") as publisher,
            await penstock.connect(server.urls[0], name="q") as net,
        ):
            sub = await net.subscribe("n >= 0", ack="manual")
            publishing = asyncio.create_task(publisher.publish_many(events(0, 2), ack="handled"))
            first, second = await sub.next(HANGS), await sub.next(HANGS)
            await first.ack()
            # An answer to something that was asked later: what was acknowledged would have been there before.
            await publisher.status()
            assert not publishing.done()
            await second.ack()
            await second.ack()
            async with asyncio.timeout(HANGS):
                await publishing

    run(main)


def test_a_reader_that_never_acknowledges_holds_only_publishers_that_want_to_know_it_has() -> None:
    async def main() -> None:
        endless = Times(patience=10_000.0)
        async with (
            serving(config(times=endless)) as (server,),
            await penstock.connect(server.urls[0], name="p") as publisher,
            await penstock.connect(server.urls[0], name="q") as net,
        ):
            sub = await net.subscribe("n >= 0", ack="manual")
            handled = publisher.publish(events(0, 1)[0], ack="handled")
            publishing = asyncio.create_task(handled)
            held = await sub.next(HANGS)
            async with asyncio.timeout(HANGS):
                await publisher.publish({"n": 1})
                await publisher.publish({"n": 2}, ack="taken")
                assert await publisher.publish_many(events(3, 5)) == 2
                await publisher.publish_nowait({"n": 5})
            assert not publishing.done()
            assert await numbers(sub, 5) == [1, 2, 3, 4, 5]
            await held.ack()
            async with asyncio.timeout(HANGS):
                await publishing

    run(main)


def test_what_an_acknowledgement_is_to_mean_is_one_of_three_words() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            with pytest.raises(PenstockError, match="say 'accepted', 'taken' or 'handled'"):
                await net.publish({"n": 1}, ack="all")  # type: ignore[arg-type]

    run(main)


def test_drain_takes_what_waits_and_closes() -> None:
    async def main() -> None:
        async with serving(config()) as (server,):
            net = await penstock.connect(server.urls[0])
            sub = await net.subscribe("n >= 0")
            await net.publish_many(events(0, 10))
            await net.drain()
            assert [event["n"] async for event in sub] == list(range(10))
            assert not net.is_connected
            with pytest.raises(NetworkError, match="closed"):
                await net.publish({"n": 1})
            await until(lambda: server.status()["clients"] == [])
            assert server.status()["table"]["subscriptions"] == 0

    run(main)


def test_excluded_pairs_are_kept_from_broker_to_broker() -> None:
    async def main() -> None:
        async with serving(config("a")) as (a,), serving(config("b", peers=a.urls)) as (b,):
            await until(lambda: b.is_ready and a.status()["links"])
            async with await penstock.connect(a.urls[0]) as here, await penstock.connect(b.urls[0]) as there:
                await here.advertise("true")
                # As a disjunction of filters: 2 to the power of 40.
                sub = await there.subscribe(independent(40))
                await until(lambda: a.status()["table"]["subscriptions"])
                good: dict[str, Any] = {f"{name}{i}": i for name in "ab" for i in range(2, 42)}
                good["region"] = "eu"
                good |= {"a0": 1, "b0": 0, "a1": 0, "b1": 1}
                bad = [good | {"b0": 1}, good | {"region": "us"}, {"region": "eu"}]
                for n, event in enumerate([good, *bad, good]):
                    await here.publish(event | {"n": n})
                assert await numbers(sub, 2) == [0, 4]

    run(main)


def test_the_way_of_an_event_is_reported() -> None:
    async def main() -> None:
        async with serving(config("a")) as (a,), serving(config("b", peers=a.urls)) as (b,):
            await until(lambda: b.is_ready and a.status()["links"])
            async with await penstock.connect(a.urls[0]) as here, await penstock.connect(b.urls[0]) as there:
                await here.advertise("true")
                await there.subscribe("n > 0")
                await until(lambda: a.status()["table"]["subscriptions"])
                report = await here.trace({"n": 1})
                assert (report["broker"], report["delivered"]) == ("a", 0)
                (sent,) = report["sent_to"]
                assert (sent["link"], sent["report"]["broker"], sent["report"]["delivered"]) == ("b", "b", 1)

    run(main)


def test_the_face_without_asyncio_has_the_same_verbs() -> None:
    async def main() -> None:
        async with serving(config()) as (server,):

            def synchronous() -> list[object]:
                with penstock.connect_sync(server.urls[0]) as net, net.subscribe("n > 0") as sub:
                    ad = net.advertise("n >= 0")
                    net.publish({"n": 0}, advertisement=ad)
                    net.publish_many(events(1, 4))
                    found: list[object] = [sub.next(HANGS)["n"] for _ in range(3)]
                    sub.change("n > 5")
                    net.publish_many([{"n": 5}, {"n": 6}])
                    for event in sub:
                        found.append(event["n"])
                        break
                    assert net.status()["name"] == "b"
                    with pytest.raises(FilterError):
                        net.subscribe("n >")
                    with pytest.raises(TimeoutError):
                        sub.next(0.01)
                    return found

            assert await asyncio.to_thread(synchronous) == [1, 2, 3, 6]

    run(main)


def test_nobody_there_and_no_broker_there_are_told_apart() -> None:
    async def main() -> None:
        with pytest.raises(NetworkError, match=r"penstock://127\.0\.0\.1:1"):
            await penstock.connect("penstock://127.0.0.1:1")
        with pytest.raises(NetworkError, match="at least one"):
            await penstock.connect([])
        mute = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
        async with mute:
            port = mute.sockets[0].getsockname()[1]
            with pytest.raises(NetworkError, match="closed before any answer"):
                await penstock.connect(f"penstock://127.0.0.1:{port}")

    run(main)


# Frames that are too long


def test_an_event_that_no_frame_has_room_for_is_refused_and_the_connection_stays() -> None:
    async def main() -> None:
        limits = Limits(frame_bytes=2**16)
        async with serving(config(limits=limits)) as (server,), await penstock.connect(server.urls[0]) as net:
            sub = await net.subscribe("n >= 0")
            with pytest.raises(LimitError, match="frame_bytes"):
                await net.publish({"n": 1, "s": "x" * 70_000})
            with pytest.raises(LimitError, match="frame_bytes"):
                await net.trace({"n": 1, "s": "x" * 70_000})
            # And blocks are as short as the broker wants them.
            await net.publish_many(events(0, 300, s="x" * 1000))
            await net.publish_many(events(300, 303, s="x" * 60_000))
            assert await numbers(sub, 303) == list(range(303))

    run(main)


# Lost connections


def test_a_lost_connection_loses_and_repeats_nothing() -> None:
    async def main() -> None:
        notices = Notices()
        async with (
            serving(config()) as (server,),
            await penstock.connect(server.urls[0], name="p") as publisher,
            await penstock.connect(server.urls[0], name="q", on_notice=notices.append) as net,
        ):
            sub = await net.subscribe("n >= 0")
            publishing = asyncio.create_task(_publish_slowly(publisher, 400))
            for _ in range(4):
                await asyncio.sleep(0.05)
                cut(server, "q")
                await asyncio.sleep(0.05)
                cut(server, "p")
            assert await numbers(sub, 400) == list(range(400))
            await publishing
            assert sub.pending == 0
            assert set(notices.kinds()) == {"disconnected", "reconnected"}
            assert server.status()["counts"]["rescued"] == 0

    run(main)


def test_what_waits_in_a_subscription_is_counted_beyond_its_queue_too() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            sub = await net.subscribe("n >= 0", queue=3)
            for n in range(8):
                await net.publish({"n": n})
            await until(lambda: sub.pending == 8)
            assert await numbers(sub, 2) == [0, 1]
            assert sub.pending == 6
            assert await numbers(sub, 6) == [2, 3, 4, 5, 6, 7]
            assert sub.pending == 0

    run(main)


def test_a_session_goes_on_though_much_was_under_way() -> None:
    async def main() -> None:
        async with (
            serving(config()) as (server,),
            await penstock.connect(server.urls[0], name="p") as publisher,
            await penstock.connect(server.urls[0], name="q") as net,
        ):
            sub = await net.subscribe("n >= 0", ack="manual")
            # More than a greeting may be long, in every frame that has to be sent again.
            publishing = asyncio.create_task(publisher.publish_many(events(0, 40, s="x" * 50_000)))
            await until(lambda: state(server, "q")["queue_bytes"] > 2**20)
            cut(server, "q")
            got = []
            for _ in range(40):
                event = await sub.next(HANGS)
                got.append(event["n"])
                await event.ack()
            assert got == list(range(40))
            async with asyncio.timeout(HANGS):
                await publishing

    run(main)


def test_after_a_broker_has_gone_its_clients_find_another_and_publish_again() -> None:
    async def main() -> None:
        notices = Notices()
        async with serving(config("a", times=QUICK)) as (a,), serving(config("b", times=QUICK)) as (b,):
            ways = [a.urls[0], b.urls[0]]
            async with (
                await penstock.connect(ways, name="p") as publisher,
                await penstock.connect(ways, name="q", on_notice=notices.append) as net,
            ):
                assert (publisher.broker, net.broker) == ("a", "a")
                sub = await net.subscribe("n >= 0", ack="manual")
                await publisher.advertise("n >= 0")
                publishing = asyncio.create_task(publisher.publish_many(events(0, 10)))
                held = [await sub.next(HANGS) for _ in range(10)]
                await a.close()
                await until(lambda: (publisher.broker, net.broker) == ("b", "b"))
                await until(lambda: b.status()["table"]["subscriptions"])
                assert "did not keep the session" in notices.of("reconnected")[-1].text
                # Nobody had acknowledged them; they come again, but have come already.
                async with asyncio.timeout(HANGS):
                    await publishing
                assert sub.pending == 0
                for event in held:
                    await event.ack()
                publishing = asyncio.create_task(publisher.publish_many(events(10, 12)))
                for n in (10, 11):
                    event = await sub.next(HANGS)
                    assert event["n"] == n
                    await event.ack()
                await publishing

    run(main)


def test_a_session_with_one_broker_is_not_gone_on_with_at_another_that_had_one_earlier() -> None:
    async def main() -> None:
        notices = Notices()
        times = msgspec.structs.replace(QUICK, resume=20.0)
        async with serving(config("a", times=times)) as (a,), serving(config("b", times=times)) as (b,):
            net = await penstock.connect([a.urls[0], b.urls[0]], name="q", on_notice=notices.append)
            async with net:
                sub = await net.subscribe("n >= 0")
                await net.publish_many(events(0, 5))
                # For a while, a takes nobody; its session with q stays.
                a.node.hub.is_draining = True
                cut(a, "q")
                await until(lambda: net.broker == "b")
                await net.publish_many(events(5, 7))
                a.node.hub.is_draining = False
                b.node.hub.is_draining = True
                cut(b, "q")
                await until(lambda: net.broker == "a")
                await net.publish_many(events(7, 20))
                assert await numbers(sub, 20) == list(range(20))
                assert sum("did not keep" in notice.text for notice in notices.of("reconnected")) == 2

    run(main)


def test_without_reconnection_a_lost_connection_is_an_error_for_everybody_who_waits() -> None:
    async def main() -> None:
        async with serving(config()) as (server,):
            net = await penstock.connect(server.urls[0], name="q", reconnect=False)
            sub = await net.subscribe("n >= 0")
            cut(server, "q")
            with pytest.raises(NetworkError, match="the connection to b is lost"):
                await sub.next(HANGS)
            with pytest.raises(NetworkError):
                await net.publish({"n": 1})
            with pytest.raises(NetworkError):
                await net.subscribe("n > 1")
            await net.close()

    run(main)


def test_clients_are_told_that_their_broker_ends() -> None:
    async def main() -> None:
        notices = Notices()
        async with serving(config()) as (server,):
            net = await penstock.connect(server.urls[0], on_notice=notices.append)
            await server.drain()
            await until(lambda: "disconnected" in notices.kinds())
            assert notices.kinds()[0] == "closing"
            await net.close()

    run(main)


# Slow readers


SLOW: dict[str, Any] = {"limits": Limits(window_bytes=2**16, queue_bytes=2**20), "times": Times(patience=0.5)}


def test_a_slow_reader_is_paused_told_so_and_goes_on() -> None:
    async def main() -> None:
        notices = Notices()
        async with (
            serving(config(**SLOW)) as (server,),
            await penstock.connect(server.urls[0], name="p") as publisher,
            await penstock.connect(server.urls[0], name="q", on_notice=notices.append) as net,
        ):
            sub = await net.subscribe("n >= 0", ack="manual")
            quick = await publisher.subscribe("n >= 0")
            # The rest is not held up for longer than the patience.
            for begin in range(0, 60, 10):
                publisher_ = publisher.publish_many(events(begin, begin + 10, s="x" * 10_000))
                waiting = asyncio.create_task(publisher_)
                assert await numbers(quick, 10) == list(range(begin, begin + 10))
                waiting.add_done_callback(lambda task: task.cancelled() or task.exception())
            await until(lambda: state(server, "q")["slow"])
            got = []
            while True:
                try:
                    event = await sub.next(2)
                except TimeoutError:
                    break
                got.append(event["n"])
                await event.ack()
            await until(lambda: notices.of("resumed"))
            assert notices.kinds().index("paused") < notices.kinds().index("resumed")
            (resumed,) = notices.of("resumed")
            assert got == sorted(got)
            assert len(got) + resumed.count == 60
            await publisher.flush()
            publishing = asyncio.create_task(publisher.publish({"n": 99}))
            event = await sub.next(HANGS)
            assert event["n"] == 99
            await event.ack()
            await publishing

    run(main)


def test_a_slow_reader_that_wants_it_so_is_dropped_and_told_so() -> None:
    async def main() -> None:
        notices = Notices()
        async with (
            serving(config(**SLOW)) as (server,),
            await penstock.connect(server.urls[0], name="p") as publisher,
        ):
            net = await penstock.connect(server.urls[0], name="q", when_slow="drop", on_notice=notices.append)
            sub = await net.subscribe("n >= 0", ack="manual")
            # What it had not taken is given up, and nobody waits for it any longer.
            async with asyncio.timeout(HANGS):
                await publisher.publish_many(events(0, 100, s="x" * 10_000))
            await until(lambda: notices.of("dropped"))
            assert state(server, "q") is None
            with pytest.raises(NetworkError):
                await numbers(sub, 101)
            await net.close()

    run(main)
