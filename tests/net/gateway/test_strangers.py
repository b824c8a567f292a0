"""What somebody can do to a gateway who only has its address: each attack, and what bounds it."""

import asyncio
import contextlib

from gateway_cases import FakeBroker, app_of, get, serving
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
