"""What somebody can do to a gateway who only has its address: each attack, and what bounds it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from gateway_cases import FakeBroker, Rights, app_of, ask, get, serving
from penstock.filters.parsing import parse
from penstock.net.descriptors import Descriptors
from penstock.net.gateway.door import HEALTH_RESERVED, Door, Guest
from penstock.net.gateway.ports import GatewayLimits

LIMITS = GatewayLimits()


class Stranger:
    """A connection to a gateway that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def come(cls, url: str) -> "Stranger":
        host, _colon, port = url.removeprefix("http://").rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def say(self, *lines: str, body: bytes = b"") -> None:
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    async def answers(self) -> list[int]:
        """The statuses of all answers until the connection ends."""
        try:
            text = await self.reader.read()
        except ConnectionError:
            return []
        return [int(part[:3]) for part in text.decode().split("HTTP/1.1 ")[1:]]

    async def answer(self) -> int:
        """The status of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])

    async def __aenter__(self) -> "Stranger":
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


# Requests that two servers read in two ways


def test_a_request_that_says_its_length_in_two_ways_is_refused_and_nothing_after_it_is_read() -> None:
    async def run() -> None:
        broker = FakeBroker()
        async with serving(broker) as url, await Stranger.come(url) as stranger:
            inner = b'{"x": 1}'
            hidden = (
                b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(inner), inner)
            )
            body = b"0\r\n\r\n" + hidden
            stranger.say(
                "POST /events HTTP/1.1",
                "Host: localhost",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                "Transfer-Encoding: chunked",
                body=body,
            )
            assert await stranger.answers() == [400]
            assert broker.events == []

    asyncio.run(run())


def test_a_head_that_is_too_long_is_refused_also_when_it_comes_in_one_read() -> None:
    # Without a socket, it is all there at once.
    app = app_of(FakeBroker())
    assert get(app, "/healthz", {"x": "x" * LIMITS.head_bytes}).status_code == 431
    half = "x" * (LIMITS.head_bytes // 2)
    assert get(app, f"/healthz?{half}", {"x": half}).status_code == 431
    assert get(app, "/healthz", {"x": half}).status_code == 200


def test_too_many_short_headers_are_refused_also_when_they_come_in_one_read() -> None:
    app = app_of(FakeBroker())
    assert get(app, "/healthz", {f"x{n}": "" for n in range(LIMITS.headers)}).status_code == 431


# Who is known first


NASTY = "not (" + " or ".join(f"(x = {n} and y = {n})" for n in range(12)) + ")"
NOTHING = Rights(parse("false"), parse("false"))


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("bad", 401), ("nothing", 403)])
def test_a_filter_over_http_is_not_parsed_before_its_sender_is_known_and_has_something_granted(
    token: str | None, status: int
) -> None:
    broker = FakeBroker(tokens={"nothing": NOTHING}, ends_at_once=True)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    for accept in ("text/event-stream", "application/cloudevents+json"):
        response = asyncio.run(
            ask(
                app_of(broker),
                "GET",
                "/events",
                params={"filter": NASTY},
                headers={**headers, "accept": accept},
            )
        )
        assert response.status_code == status
    assert not broker.parsed
    assert not broker.connections


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("bad", 401), ("nothing", 403)])
def test_a_body_is_not_read_before_its_sender_is_known_and_has_something_granted(
    token: str | None, status: int
) -> None:
    async def run() -> int:
        async def body() -> AsyncIterator[bytes]:
            raise AssertionError("the body is read")
            yield b""

        headers = {"content-type": "application/json"}
        headers |= {} if token is None else {"authorization": f"Bearer {token}"}
        app = app_of(FakeBroker(tokens={"nothing": NOTHING}))
        return (await ask(app, "POST", "/events", content=body(), headers=headers)).status_code

    assert asyncio.run(run()) == status


def test_what_somebody_without_a_token_asks_is_counted_to_the_address() -> None:
    broker = FakeBroker(ends_at_once=True)
    assert get(app_of(broker), "/events?filter=x%3D1").status_code == 200
    assert broker.addresses == ["127.0.0.1"]


# Connections that say nothing, or never finish


REQUEST = "GET /healthz HTTP/1.1"
HOST = "Host: localhost"


@pytest.mark.parametrize(
    "said",
    [b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\nx:"],
    ids=["nothing", "half a line", "half a head"],
)
def test_a_connection_that_makes_no_request_in_time_is_ended(said: bytes) -> None:
    async def run() -> None:
        async with (
            serving(FakeBroker(), limits=GatewayLimits(head_s=0.05)) as url,
            await Stranger.come(url) as stranger,
        ):
            stranger.writer.write(said)
            assert await stranger.answers() == []

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_connection_that_goes_on_with_nothing_after_an_answer_is_ended() -> None:
    async def run() -> None:
        async with (
            serving(FakeBroker(), limits=GatewayLimits(head_s=0.05)) as url,
            await Stranger.come(url) as stranger,
        ):
            stranger.say("POST /healthz HTTP/1.1", HOST, "Content-Length: 100000")
            assert await stranger.answer() == 405
            # Each byte of the body puts off the server's own timeout.
            with contextlib.suppress(ConnectionError):
                while not stranger.reader.at_eof():
                    stranger.writer.write(b"x")
                    await asyncio.sleep(0.01)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.001):
                            await stranger.reader.read(1000)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_stream_and_a_slow_answer_are_no_silence() -> None:
    async def run() -> None:
        broker = FakeBroker()
        limits = GatewayLimits(head_s=0.05, heartbeat_s=0.02)
        async with serving(broker, limits=limits) as url, await Stranger.come(url) as stranger:
            stranger.say("GET /events?filter=x%3D1 HTTP/1.1", HOST)
            assert await stranger.answer() == 200
            heard = b""
            while heard.count(b": alive") < 10:
                heard += await stranger.reader.read(1000)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_silent_connections_do_not_take_health_checks_with_them() -> None:
    async def run() -> None:
        limits = GatewayLimits(connections=20, connections_per_address=100)
        async with serving(FakeBroker(), limits=limits) as url, contextlib.AsyncExitStack() as stack:
            for _ in range(50):
                await stack.enter_async_context(await Stranger.come(url))
            for _ in range(3):
                async with httpx.AsyncClient(base_url=url) as client:
                    assert (await client.get("/healthz")).status_code == 200
                    assert (await client.get("/events?filter=(")).status_code == 400

    asyncio.run(asyncio.wait_for(run(), 60))


def test_where_streams_take_all_connections_there_is_room_for_health_checks_only() -> None:
    async def run() -> None:
        limits = GatewayLimits(connections=5)
        async with serving(FakeBroker(), limits=limits) as url, contextlib.AsyncExitStack() as stack:
            for _ in range(5):
                stranger = await stack.enter_async_context(await Stranger.come(url))
                stranger.say("GET /events?filter=x%3D1 HTTP/1.1", HOST)
                assert await stranger.answer() == 200
            async with httpx.AsyncClient(base_url=url) as client:
                paths = ("/healthz", "/readyz", "/metrics", "/topology", "/docs")
                assert [(await client.get(path)).status_code for path in paths] == [200] * 3 + [503] * 2

    asyncio.run(asyncio.wait_for(run(), 60))


# The door, by itself


def descriptors(limit: int) -> Descriptors:
    return Descriptors(lambda: limit, lambda: 0.0)


def guests(door: Door, count: int, address: str = "a", number: int = 10) -> tuple[list[Guest], list[int]]:
    """Connections that come one after another; and which of them were ended."""
    ended: list[int] = []

    def end(at: int) -> Callable[[], None]:
        return lambda: ended.append(at)

    made = [Guest(address, end(at)) for at in range(count)]
    for guest in made:
        door.come(guest, number)
    return made, ended


def test_who_has_waited_longest_makes_room() -> None:
    door = Door(GatewayLimits(connections=3), descriptors(1_000))
    made, ended = guests(door, 3)
    door.acts(made[0])
    door.acts(made[1])
    door.waits(made[0])
    assert door.come(Guest("b", lambda: None), 10)
    assert ended == [2]
    assert door.come(Guest("b", lambda: None), 10)
    assert ended == [2, 0]
    assert door.connections == 3


def test_one_address_has_so_many_connections_and_makes_room_for_its_own_only() -> None:
    door = Door(GatewayLimits(connections_per_address=3), descriptors(1_000))
    others, ended_others = guests(door, 2, "b")
    made, ended = guests(door, 4)
    assert (ended, ended_others) == ([0], [])
    for guest in made[1:]:
        door.acts(guest)
    assert not door.come(Guest("a", lambda: None), 10)
    assert door.come(Guest("b", lambda: None), 10)
    door.leave(made[1])
    assert door.come(Guest("a", lambda: None), 10)
    door.leave(others[0])
    door.leave(others[0])
    assert door.connections == 5


def test_where_all_are_busy_new_ones_are_let_in_for_health_checks_so_many_of_them() -> None:
    door = Door(GatewayLimits(connections=2), descriptors(10_000))
    made, ended = guests(door, 2)
    for guest in made:
        door.acts(guest)
    late = [Guest("b", lambda: None) for _ in range(HEALTH_RESERVED)]
    for guest in late:
        assert door.come(guest, 10)
        assert guest.is_limited
        door.acts(guest)
    assert not door.come(Guest("b", lambda: None), 10)
    assert ended == []


def test_when_descriptors_run_out_that_is_logged_and_the_silent_make_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door = Door(GatewayLimits(), descriptors(256))
    _made, ended = guests(door, 3, number=191)
    assert ended == []
    assert caplog.records == []
    assert door.come(Guest("b", lambda: None), 192)
    assert ended == [0]
    assert not door.come(Guest("b", lambda: None), 224)
    assert ended == [0, 1]
    (record,) = caplog.records
    assert "nearly all of the 256 file descriptors" in record.getMessage()
