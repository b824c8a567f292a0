"""The classes of hole that brokers have been found to have, each with the tests that it is closed."""

import ast
import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trustme

import penstock
from net_cases import (
    Complaints,
    Raw,
    config,
    events_frame,
    hello,
    numbered,
    run,
    serving,
    token,
    until,
    with_tokens,
)
from patience import HANGS
from penstock.errors import AccessError, FilterError, NetworkError, PenstockError
from penstock.filters import parsing
from penstock.filters.languages import literals
from penstock.filters.predicate import Predicate
from penstock.net.client.client import Client
from penstock.net.client.connecting import connect
from penstock.net.config import GatewayConfig, TLSConfig
from penstock.net.server import Server
from penstock.node import asking
from penstock.node import runtime as runtimes
from penstock.node.settings import Times
from penstock.wire import blocks, codec, sessions
from penstock.wire.frames import HELLO_BYTES_MAX, Kind, frame
from penstock.wire.greetings import Welcome, read_refused, read_welcome, write_welcome
from penstock.wire.requests import Ask, Bye, Denied, Done, Offer, Rejected, Want, read_answer, write_request

RESUMES = Times(resume=0.5, grace=0.5, join=0.01)


async def greeted(server: Server, **more: Any) -> Raw:
    """A connection that has been let in."""
    raw = await Raw.open(server)
    raw.say(hello(**more))
    heard = await raw.hear()
    assert heard is not None
    assert heard[0] is Kind.WELCOME, heard
    return raw


async def refusal(raw: Raw) -> str:
    """The code with which a connection is ended."""
    for kind, payload in await raw.hear_all():
        if kind is Kind.REFUSED:
            return read_refused(memoryview(payload)).code
        assert kind is not Kind.WELCOME
    return "closed"


async def answer(raw: Raw) -> object:
    while (heard := await raw.hear()) is not None:
        if heard[0] is Kind.MESSAGE:
            return read_answer(memoryview(heard[1])[8:])
    return None


def _wanting(text: str, number: int) -> Want:
    return Want(number, 1, text)


async def check_serves(server: Server, **more: Any) -> None:
    """Others can still publish and subscribe."""
    async with await penstock.connect(server.urls[0], **more) as net, await net.subscribe("check = 1") as sub:
        await asyncio.gather(net.publish({"check": 1}), sub.next(HANGS))


# Filters that burn CPU


def test_a_pattern_with_many_wildcards_does_not_hold_up_a_broker() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            pattern = "%a" * 400 + "%b"
            async with await net.subscribe(f"s like '{pattern}'") as sub:
                await net.publish({"s": "a" * 200_000})
                await net.publish({"s": "a" * 200_000 + "b"})
                event = await sub.next(HANGS)
                assert event["s"] == "a" * 200_000 + "b"

    run(main)


@pytest.mark.parametrize("how", ["a connection", "the gateway"])
def test_a_filter_that_takes_long_holds_up_nobody_but_who_sent_it(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, is_parsed = threading.Event(), threading.Event()
    before = parsing.parse

    def parse(text: str, *, request: bool, pace: Any = None) -> Predicate:
        if "nasty" in text:
            is_parsed.set()
            assert go_on.wait(HANGS)
        return before(text, request=request)

    monkeypatch.setattr(asking, "parse", parse)

    async def main() -> None:
        gateway = GatewayConfig(listen="http://127.0.0.1:0")
        async with (
            serving(config("b", gateway=gateway)) as (b,),
            httpx.AsyncClient(base_url=b.gateway_url or "", timeout=HANGS) as http,
            connect(b.urls) as eve,
            connect(b.urls) as ann,
        ):
            offered = await eve.advertise("x >= 0")
            nasty = "nasty = 1 or x = 1"
            asked: asyncio.Task[Any]
            if how == "a connection":
                asked = asyncio.create_task(eve.subscribe(nasty))
            else:
                params = {"filter": "nasty = 1 or x = 7", "count": "1"}
                asked = asyncio.create_task(http.get("/events", params=params))
            await until(is_parsed.is_set)
            # Everything else goes on meanwhile, also for who sent it.
            async with await ann.subscribe("x >= 0") as events:
                await eve.publish({"x": 1}, advertisement=offered)
                assert (await anext(aiter(events)))["x"] == 1
            assert (await http.get("/healthz")).status_code == 200
            assert not asked.done()
            go_on.set()
            if how == "the gateway":
                await until(lambda: b.status()["table"]["subscriptions"])
                await ann.publish({"x": 7})
            await asked

    try:
        run(main)
    finally:
        go_on.set()


def test_a_filter_that_cannot_be_passed_on_is_refused_and_links_between_brokers_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(literals, "TEXT_LENGTH_MAX", 2**18)

    async def main() -> None:
        names = "n" * 400
        # Short as text; in disjunctive form, as brokers say it to each other, longer than a filter may be.
        text = " and ".join(f'("{names}{n}" = 1 or "{names}x{n}" = 1)' for n in range(7))
        async with serving(config("a")) as (a,), serving(config("b", peers=a.urls)) as (b,):
            await until(lambda: a.status()["links"] and b.is_ready)
            with Complaints() as complaints:
                for request in (Want(1, 1, text), Offer(1, 1, text)):
                    async with await greeted(b) as raw:
                        raw.say(numbered(Kind.MESSAGE, 1, write_request(request)))
                        denied = await answer(raw)
                        assert isinstance(denied, Denied)
                        assert "the limit is" in denied.reason
                        raw.say(numbered(Kind.MESSAGE, 2, write_request(Bye(2))))
                        await raw.hear_all()
            assert complaints.records == []
            assert b.status()["table"]["subscriptions"] == 0
            async with await penstock.connect(a.urls[0]) as there, await penstock.connect(b.urls[0]) as here:
                ad = await here.advertise("true")
                sub = await there.subscribe("x > 1")
                await until(lambda: b.status()["table"]["subscriptions"] == 1)
                await here.publish({"x": 2}, advertisement=ad)
                assert (await sub.next(HANGS))["x"] == 2

    run(main)


# Identities interpolated into patterns


@pytest.mark.parametrize("subject", ["%", "_", "' or true", "*", "#", "' or 1=1 --", "{sub}", "true"])
def test_a_name_gets_nobody_more_than_is_granted(subject: str, tmp_path: Path) -> None:
    async def main() -> None:
        mine = token(subject, subscribe=["owner = 'me'"], advertise=["owner = 'me'"])
        async with (
            serving(with_tokens(tmp_path)) as (server,),
            await penstock.connect(server.urls[0], token=token("all", advertise=["true"])) as publisher,
            await penstock.connect(server.urls[0], token=mine, name=subject) as net,
        ):
            for text in ("true", "owner like '%'", "owner = 'you'", "x > 1"):
                with pytest.raises(AccessError):
                    await net.subscribe(text)
                with pytest.raises(AccessError):
                    await net.advertise(text)
            async with await net.subscribe("owner = 'me'") as sub:
                for owner in ("you", "%", subject, "me"):
                    await publisher.publish({"owner": owner})
                assert (await sub.next(HANGS))["owner"] == "me"
                assert sub.pending == 0

    run(main)


# An access check that one path forgets


def limited(**more: Any) -> str:
    return token("reader", subscribe=["x > 10"], advertise=["x < 5"], **more)


def test_subscribing_and_changing_in_place_are_checked_alike(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(with_tokens(tmp_path)) as (server,),
            await penstock.connect(server.urls[0], token=limited()) as net,
            await penstock.connect(server.urls[0], token=token("all", advertise=["true"])) as publisher,
        ):
            with pytest.raises(AccessError):
                await net.subscribe("x > 5")
            sub = await net.subscribe("x > 20")
            with pytest.raises(AccessError):
                await sub.change("x > 5")
            # What it had stays.
            await publisher.publish_many([{"x": 7}, {"x": 15}, {"x": 25}])
            assert (await sub.next(HANGS))["x"] == 25
            assert sub.pending == 0
            await sub.change("x > 10")
            await publisher.publish_many([{"x": 7}, {"x": 15}])
            assert (await sub.next(HANGS))["x"] == 15

    run(main)


def test_advertising_and_publishing_are_checked(tmp_path: Path) -> None:
    async def main() -> None:
        for advertisements in (True, False):
            everything = token("all", subscribe=["true"], advertise=["true"], monitor=True)
            async with (
                serving(with_tokens(tmp_path, advertisements=advertisements)) as (server,),
                await penstock.connect(server.urls[0], token=everything) as reader,
                await penstock.connect(server.urls[0], token=limited()) as net,
            ):
                sub = await reader.subscribe("true")
                with pytest.raises(AccessError):
                    await net.publish({"x": 7})
                with pytest.raises(AccessError):
                    await net.advertise("x < 6")
                await net.advertise("x < 5")
                with pytest.raises(AccessError):
                    await net.publish({"x": 7})
                with pytest.raises(AccessError):
                    await net.publish_many([{"x": 8}, {"y": 1}])
                await net.publish({"x": 1})
                assert (await sub.next(HANGS))["x"] == 1
                assert sub.pending == 0
                assert (await reader.status())["counts"]["delivered"] == 1

    run(main)


def test_status_and_traces_need_the_right_to_monitor(tmp_path: Path) -> None:
    async def main() -> None:
        everything = token("all", subscribe=["true"], advertise=["true"], monitor=True)
        async with (
            serving(with_tokens(tmp_path)) as (server,),
            await penstock.connect(server.urls[0], token=everything) as reader,
            await penstock.connect(server.urls[0], token=limited()) as net,
        ):
            sub = await reader.subscribe("true")
            with pytest.raises(AccessError, match="monitor"):
                await net.status()
            await net.advertise("x < 5")
            with pytest.raises(AccessError, match="monitor"):
                await asyncio.wait_for(net.trace({"x": 1}), HANGS)
            await net.publish({"x": 2})
            assert (await sub.next(HANGS))["x"] == 2
            assert sub.pending == 0
            assert (await reader.trace({"x": 3}))["delivered"] == 1

    run(main)


def test_a_session_is_gone_on_with_only_by_whoever_began_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(with_tokens(tmp_path)) as (server,):
            first = await greeted(server, token=token("alice", subscribe=["true"]), session="s:0")
            async with first, await Raw.open(server) as second:
                second.say(hello(token=token("mallory", subscribe=["true"]), session="s:0"))
                assert await refusal(second) == "access"
                async with await Raw.open(server) as third:
                    third.say(hello(token=token("mallory", subscribe=["true"]), session="s:1"))
                    assert await refusal(third) == "access"
                # And whoever has it keeps it.
                first.say(numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
                assert await answer(first) == Done(1)

    run(main)


def test_a_session_that_goes_on_has_the_grants_of_the_token_that_is_shown_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(with_tokens(tmp_path)) as (server,):
            first = await greeted(server, token=token("alice", subscribe=["true"]), session="s:0")
            first.say(numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
            assert await answer(first) == Done(1)
            await first.close()
            await until(lambda: server.status()["clients"][0]["state"] == "cut")
            async with await Raw.open(server) as second:
                second.say(hello(token=token("alice", subscribe=["x = 1"]), session="s:0", received=1))
                heard = await second.hear()
                assert heard is not None
                assert not read_welcome(memoryview(heard[1])).resumed
                assert server.status()["table"]["subscriptions"] == 0
                second.say(numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
                assert isinstance(await answer(second), Denied)

    run(main)


def test_a_session_that_goes_on_with_a_new_token_lasts_as_long_as_that(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(with_tokens(tmp_path)) as (server,):
            old, new = (token("alice", subscribe=["true"], now=at) for at in (None, None))
            first = await greeted(server, token=old, session="s:0")
            (link,) = server.node.runtime.links.values()
            await first.close()
            await until(lambda: link.connection is None)
            link.expires_at = 0.0
            async with await greeted(server, token=new, session="s:0") as second:
                assert link.expires_at > 0
                second.say(numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
                assert await answer(second) == Done(1)

    run(main)


def test_what_an_event_says_of_its_publisher_is_no_key_to_its_session() -> None:
    async def main() -> None:
        async with (
            serving(config()) as (server,),
            await penstock.connect(server.urls[0]) as publisher,
            await penstock.connect(server.urls[0]) as net,
        ):
            sub = await net.subscribe("true")
            await publisher.publish({"x": 1})
            event = await sub.next(HANGS)
            assert publisher._core.line.identity not in event.origin
            await publisher.publish({"x": 2})
            assert (await sub.next(HANGS)).origin == event.origin

    run(main)


def test_who_calls_itself_a_broker_is_not_let_in_for_that(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(with_tokens(tmp_path)) as (server,):
            for shown in ("", "x" * 40, token("all", subscribe=["true"], advertise=["true"], monitor=True)):
                async with await Raw.open(server) as raw:
                    raw.say(hello(role="broker", name="evil", token=shown))
                    assert await refusal(raw) == "access"
            assert server.status()["links"] == []

    run(main)


def test_a_broker_cannot_take_the_place_of_a_client_by_its_name() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await greeted(server, session="s:0") as victim:
            for name in ("client s:0", next(iter(server.node.runtime.links))):
                async with await Raw.open(server) as raw:
                    raw.say(hello(role="broker", name=name, session="s:0"))
                    await raw.hear()
            victim.say(numbered(Kind.MESSAGE, 1, write_request(Want(1, 1, "true"))))
            assert await answer(victim) == Done(1)

    run(main)


@pytest.mark.parametrize("key", ["x", "", "-1", "1_0", " 1", "１", "4294967296", "b/0.1", "1" * 900])
def test_events_under_what_is_no_key_of_an_advertisement_end_the_connection_quietly(key: str) -> None:
    async def main() -> None:
        with Complaints() as complaints:
            async with serving(config()) as (server,):
                async with await greeted(server) as raw:
                    raw.say(events_frame(1, key, {"x": 1}))
                    assert await refusal(raw) == "protocol"
                await check_serves(server)
        assert complaints.records == []

    run(main)


def test_a_rejection_is_told_before_the_acknowledgement_though_the_window_is_full() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await greeted(server) as raw:
            raw.say(numbered(Kind.MESSAGE, 1, write_request(Offer(1, 1, "x < 5"))))
            assert await answer(raw) == Done(1)
            (link,) = server.node.runtime.links.values()
            link.session.window = 0
            raw.say(events_frame(2, "1", {"x": 7}))
            raw.say(frame(Kind.PING))
            while (heard := await raw.hear()) is not None and heard[0] is not Kind.PONG:
                assert heard != (Kind.ACK, (2).to_bytes(8, "big"))
            link.session.window = 1000
            raw.say(frame(Kind.ACK, (1).to_bytes(8, "big")))
            rejected = await answer(raw)
            assert isinstance(rejected, Rejected)
            assert rejected.numbers == [1]
            raw.say(frame(Kind.ACK, (2).to_bytes(8, "big")))
            assert await raw.hear() == (Kind.ACK, (2).to_bytes(8, "big"))

    run(main)


# Parsing before authentication


@pytest.fixture
def nothing_else_is_parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The decoders that were called though nobody had been let in."""
    called: list[str] = []

    def spy(name: str) -> Callable[..., Any]:
        def fail(*_args: object) -> Any:
            called.append(name)
            raise AssertionError(name)

        return fail

    for name in ("read_request", "read_refused"):
        monkeypatch.setattr(runtimes, name, spy(name))
    monkeypatch.setattr(codec.Codec, "read", spy("Codec.read"))
    monkeypatch.setattr(blocks.Block, "decode", spy("Block.decode"))
    monkeypatch.setattr(sessions.Session, "take", spy("take"))
    monkeypatch.setattr(sessions.Session, "on_ack", spy("on_ack"))
    return called


FOLLOWING = (
    numbered(Kind.MESSAGE, 1, write_request(Ask(1)))
    + events_frame(2, "1", {"x": 1})
    + frame(Kind.ACK, bytes(8))
    + frame(Kind.REFUSED, b"\x92\xa1a\xa1b")
)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        hello(),
        hello(token="broken"),  # noqa: S106
        hello(token="a.b.c"),  # noqa: S106
        hello(token="\u0660" * 10),
        hello(token="." * 8000),
        hello(token="eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."),  # noqa: S106
        hello(version=2),
        hello(role="broker"),
        hello(role="broker", token="\u0660"),  # noqa: S106
        frame(Kind.HELLO, b""),
        frame(Kind.HELLO, b"\x98"),
        frame(Kind.HELLO, bytes(HELLO_BYTES_MAX)),
        frame(Kind.HELLO, b"\x91" * 16_000),
        frame(Kind.WELCOME, b"\x97"),
        frame(Kind.EVENTS, bytes(100)),
        frame(Kind.PING),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    ],
)
def test_nothing_is_looked_at_before_it_is_known_who_is_there(
    first: bytes, tmp_path: Path, nothing_else_is_parsed: list[str]
) -> None:
    async def main() -> None:
        with Complaints() as complaints:
            async with serving(with_tokens(tmp_path)) as (server,):
                async with await Raw.open(server) as raw:
                    raw.say(first, FOLLOWING)
                    assert await refusal(raw) in ("access", "protocol", "version", "closed")
                assert server.status()["clients"] == server.status()["links"] == []
        assert complaints.records == []
        assert nothing_else_is_parsed == []

    run(main)


def test_who_says_nothing_is_not_waited_for() -> None:
    async def main() -> None:
        async with (
            serving(config(times=Times(greet=0.1, join=0.01))) as (server,),
            await Raw.open(server) as silent,
            await Raw.open(server) as pinging,
            await Raw.open(server) as slow,
        ):
            pinging.say(frame(Kind.PING))
            slow.say(hello()[:10])
            assert [await refusal(raw) for raw in (silent, pinging, slow)] == ["protocol"] * 3

    run(main)


# Negative or huge lengths


def raw_block(sizes: object, *, header: object = ("1", "", 0, False, ""), length: int | None = None) -> bytes:
    head = msgspec.msgpack.encode((header, sizes))
    size = len(head) if length is None else length
    return numbered(Kind.EVENTS, 1, size.to_bytes(4, "big") + head + bytes(64))


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xff\xff\xff",
        b"\x80\x00\x00\x00",
        b"\x00\x00\x00\x00",
        b"\x01\x00\x00\x01\x05",
        frame(Kind.EVENTS),
        frame(Kind.MESSAGE, b"1234567"),
        numbered(Kind.EVENTS, 0, b"") + numbered(Kind.EVENTS, 2**64 - 1, b""),
        numbered(Kind.EVENTS, 5, b""),
        raw_block([-1, 1, None]),
        raw_block([2**63 - 1, 1, None]),
        raw_block([2**64 - 1, 1, None]),
        raw_block([65_537, 1, None]),
        raw_block([65_536, 1, None]),
        raw_block([1, -1, None]),
        raw_block([1, 1, -1]),
        raw_block([1, 1, 2**32 - 1]),
        raw_block([1, 1, None], length=2**32 - 1),
        raw_block([1, 1, None], header=("1", "", -1, False, "")),
        raw_block([1, 1, None], header=("1", "", 2**63, False, "")),
        frame(Kind.ACK, b"\xff" * 8),
        frame(Kind.ACK, b"\xff" * 9),
        frame(Kind.ACK),
        numbered(Kind.MESSAGE, 1, msgspec.msgpack.encode(["want", -1, -1, "x"])),
        numbered(Kind.MESSAGE, 1, msgspec.msgpack.encode(["want", 1, 2**40, "x"])),
        numbered(Kind.MESSAGE, 1, b"\xdd\xff\xff\xff\xff"),
        numbered(Kind.MESSAGE, 1, b"\x93\xa4want\x01\xdb\xff\xff\xff\xff"),
    ],
)
def test_lengths_and_counts_that_cannot_be_end_the_connection_and_nothing_else(said: bytes) -> None:
    async def main() -> None:
        with Complaints() as complaints:
            async with serving(config()) as (server,):
                async with await greeted(server) as raw:
                    raw.say(said)
                    assert await refusal(raw) == "protocol"
                await check_serves(server)
        assert complaints.records == []

    run(main)


@pytest.mark.parametrize(
    "event",
    [
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xdb\xff\xff\xff\xffa\x01",
        b"\xde\x10\x01" + b"".join(b"\xa4%04d\x01" % n for n in range(4097)),
        b"\x81\xda\x02\x01" + b"n" * 513 + b"\x01",
        b"\x81\xa1x\xc0",
        b"",
    ],
)
@pytest.mark.parametrize("key", ["1", "2"])
def test_events_beyond_the_limits_end_the_connection_and_nothing_else(event: bytes, key: str) -> None:
    from penstock.wire.blocks import Block, Header

    async def main() -> None:
        with Complaints() as complaints:
            async with serving(config()) as (server,):
                async with await greeted(server) as raw:
                    raw.say(numbered(Kind.MESSAGE, 1, write_request(Offer(1, 1, "true"))))
                    raw.say(numbered(Kind.MESSAGE, 2, write_request(Offer(2, 2, "x > 1"))))
                    block = Block.of(Header(key, ""), [1], [event])
                    raw.say(numbered(Kind.EVENTS, 3, block.encode()))
                    heard = await raw.hear_all()
                    assert heard[-1][0] is Kind.REFUSED
                    assert read_refused(memoryview(heard[-1][1])).code == "protocol"
                await check_serves(server)
        assert complaints.records == []

    run(main)


# Decompression bombs


@pytest.mark.parametrize("kind", [0, 9, 0x80 | Kind.EVENTS, 0x40 | Kind.MESSAGE, 255])
def test_there_is_no_compression_and_a_frame_that_claims_it_is_refused(kind: int) -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await greeted(server) as raw:
            raw.say(frame(kind, b"\x1f\x8b\x08" + bytes(97)))  # type: ignore[arg-type]
            assert await refusal(raw) == "protocol"

    run(main)


def test_nothing_that_reads_from_the_network_can_decompress() -> None:
    assert (
        imported("net", "wire", "broker") & {"zlib", "gzip", "bz2", "lzma", "zipfile", "tarfile", "zstandard"}
        == set()
    )


# Discovery that trusts whoever answers


class Certificates:
    """Brokers' certificates of one authority, and of another that nobody should trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authorities = {name: trustme.CA(organization_name=name) for name in ("ours", "theirs")}

    def config(self, name: str, *, authority: str = "ours", hosts: tuple[str, ...] = ()) -> TLSConfig:
        """For a broker of this name, which trusts ours."""
        issued = self._authorities[authority].issue_cert(*(hosts or (name, "127.0.0.1")))
        cert, ca = self._folder / f"{name}-{authority}.pem", self._folder / "ca.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(str(cert))
        self._authorities["ours"].cert_pem.write_to_path(str(ca))
        return TLSConfig(cert=str(cert), ca=str(ca))


TLS = ["penstocks://127.0.0.1:0"]


async def link_of(dialing: Server) -> dict[str, Any] | str:
    """The link that a dialer got, or why it did not."""

    def outcome() -> Any:
        (peer,) = dialing.status()["peers"]
        return next(iter(dialing.status()["links"]), None) or (
            peer["error"] if peer["error"] not in ("", "not tried yet") else None
        )

    await until(outcome)
    found: dict[str, Any] | str = outcome()
    return found


def test_brokers_with_certificates_of_one_authority_are_linked(tmp_path: Path) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        async with (
            serving(config("a", listen=TLS, tls=made.config("a"), peer_names=["b"])) as (a,),
            serving(config("b", listen=TLS, tls=made.config("b"), peers=a.urls)) as (b,),
        ):
            link = await link_of(b)
            assert isinstance(link, dict)
            assert link["peer"] == "a"

    run(main)


@pytest.mark.parametrize(
    ("authority", "hosts"),
    [("theirs", ()), ("ours", ("a", "elsewhere.example")), ("ours", ("z", "127.0.0.1"))],
    ids=["another authority", "another host", "another broker's name"],
)
def test_a_broker_does_not_take_whoever_answers_with_a_wrong_certificate(
    authority: str, hosts: tuple[str, ...], tmp_path: Path
) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        async with (
            serving(config("a", listen=TLS, tls=made.config("a", authority=authority, hosts=hosts))) as (a,),
            serving(config("b", listen=TLS, tls=made.config("b"), peers=a.urls)) as (b,),
        ):
            assert isinstance(await link_of(b), str)
            assert b.status()["links"] == []

    run(main)


def test_a_broker_is_not_taken_whose_certificate_has_another_name(tmp_path: Path) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        async with (
            serving(config("a", listen=TLS, tls=made.config("a"), peer_names=["b"])) as (a,),
            serving(config("b", listen=TLS, tls=made.config("b", hosts=("z",)), peers=a.urls)) as (b,),
        ):
            why = await link_of(b)
            assert isinstance(why, str)
            assert "not one of a broker called 'b'" in why
            assert a.status()["links"] == []

    run(main)


@pytest.mark.parametrize(
    ("names", "said"),
    [([], "a certificate alone does not let 'alice' join as a broker"), (["b"], "peer_names does not list")],
)
def test_a_certificate_of_a_client_does_not_let_its_holder_join_as_a_broker(
    names: list[str], said: str, tmp_path: Path
) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        async with (
            serving(config("a", listen=TLS, tls=made.config("a"), peer_names=names)) as (a,),
            serving(config("alice", listen=TLS, tls=made.config("alice"), peers=a.urls)) as (alice,),
        ):
            why = await link_of(alice)
            assert isinstance(why, str)
            assert said in why
            assert a.status()["links"] == []

    run(main)


@pytest.mark.parametrize("has", ["certificate", "secret", "both"])
def test_where_a_secret_and_certificates_are_set_a_broker_needs_both(has: str, tmp_path: Path) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        shared = secret(tmp_path, "right secret")
        listen = [*TLS, "penstock://127.0.0.1:0"]
        async with serving(config("a", listen=listen, tls=made.config("a"), peer_secret_file=shared)) as (a,):
            encrypted, plain = a.urls
            given: dict[str, dict[str, Any]] = {
                "certificate": {"peers": [encrypted], "tls": made.config("b")},
                "secret": {"peers": [plain], "peer_secret_file": shared},
                "both": {"peers": [encrypted], "tls": made.config("b"), "peer_secret_file": shared},
            }
            async with serving(config("b", **given[has])) as (b,):
                link = await link_of(b)
                assert isinstance(link, dict) is (has == "both"), link

    run(main)


def test_a_broker_that_answers_and_is_not_listed_is_not_taken(tmp_path: Path) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        async with (
            serving(config("a", listen=TLS, tls=made.config("a"), peer_names=["b"])) as (a,),
            serving(config("b", tls=made.config("b"), peers=a.urls, peer_names=["c"])) as (b,),
        ):
            why = await link_of(b)
            assert isinstance(why, str)
            assert "peer_names does not list a broker called 'a'" in why

    run(main)


def secret(folder: Path, text: str) -> str:
    path = folder / text
    path.write_text(text * 4)
    return str(path)


@pytest.mark.parametrize("theirs", [None, "other secret"])
def test_a_broker_without_the_shared_secret_is_refused(theirs: str | None, tmp_path: Path) -> None:
    async def main() -> None:
        shown = None if theirs is None else secret(tmp_path, theirs)
        async with (
            serving(config("a", peer_secret_file=secret(tmp_path, "right secret"))) as (a,),
            serving(config("b", peer_secret_file=shown, peers=a.urls)) as (b,),
        ):
            why = await link_of(b)
            assert isinstance(why, str)
            assert "secret" in why
            assert a.status()["links"] == b.status()["links"] == []

    run(main)


@pytest.mark.parametrize("proof", ["", "x" * 64, "\u0660", "right secret" * 4])
def test_what_is_no_proof_of_the_shared_secret_is_refused_from_both_sides(proof: str, tmp_path: Path) -> None:
    async def main() -> None:
        async def answer_anybody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(2**14)
            writer.write(write_welcome(Welcome("a", 1, False, 0, 2**20, 2**20, proof)))
            await reader.read()
            writer.close()

        shared = secret(tmp_path, "right secret")
        fake = await asyncio.start_server(answer_anybody, "127.0.0.1", 0)
        url = f"penstock://127.0.0.1:{fake.sockets[0].getsockname()[1]}"
        with Complaints() as complaints:
            async with fake, serving(config("b", peer_secret_file=shared, peers=[url])) as (b,):
                async with await Raw.open(b) as raw:
                    raw.say(hello(role="broker", name="a", token=proof))
                    assert await refusal(raw) == "access"
                why = await link_of(b)
                assert isinstance(why, str)
                assert "secret" in why
                assert b.status()["links"] == []
        assert complaints.records == []

    run(main)


def test_brokers_that_share_a_secret_are_linked(tmp_path: Path) -> None:
    async def main() -> None:
        shared = secret(tmp_path, "right secret")
        async with (
            serving(config("a", peer_secret_file=shared)) as (a,),
            serving(config("b", peer_secret_file=shared, peers=a.urls)) as (b,),
        ):
            assert isinstance(await link_of(b), dict)

    run(main)


def test_a_broker_is_not_linked_to_itself_nor_to_one_of_its_name() -> None:
    async def main() -> None:
        async with serving(config("a")) as (a,), serving(config("a", peers=a.urls)) as (b,):
            assert isinstance(await link_of(b), str)
            assert a.status()["links"] == b.status()["links"] == []

    run(main)


# Pickle or unsafe YAML


def imported(*rooms: str) -> set[str]:
    """The modules that are imported by these rooms of the package, by their first names."""
    found: set[str] = set()
    for room in rooms:
        for path in (Path(penstock.__file__).parent / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module is not None:
                    found.add(node.module.partition(".")[0])
    return found


def test_nothing_that_reads_from_the_network_can_make_objects_of_any_class() -> None:
    unsafe = {
        "pickle",
        "cPickle",
        "_pickle",
        "dill",
        "cloudpickle",
        "marshal",
        "shelve",
        "yaml",
        "joblib",
        "jsonpickle",
    }
    assert imported("net", "wire", "broker") & unsafe == set()


def test_nothing_that_reads_from_the_network_calls_eval() -> None:
    for room in ("net", "wire", "broker", "filters", "model"):
        for path in (Path(penstock.__file__).parent / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    assert node.func.id not in ("eval", "exec", "compile", "__import__"), path


# What one may take of a broker


def test_clients_that_come_and_go_do_not_pile_up() -> None:
    async def main() -> None:
        limits = config().limits
        async with serving(config(limits=msgspec.structs.replace(limits, clients=5))) as (server,):
            for number in range(20):
                raw = await greeted(server, session=f"s{number}:0")
                await raw.close()
                await until(lambda: all(c["state"] == "cut" for c in server.status()["clients"]))
            assert len(server.status()["clients"]) <= 5
            kept = [await greeted(server, session=f"t{number}:0") for number in range(5)]
            async with await Raw.open(server) as raw:
                raw.say(hello(session="one more:0"))
                assert await refusal(raw) == "busy"
            for raw in kept:
                await raw.close()

    run(main)


def test_requests_that_are_no_filters_are_denied_and_the_connection_stays() -> None:
    async def main() -> None:
        async with serving(config()) as (server,), await penstock.connect(server.urls[0]) as net:
            assert isinstance(net, Client)
            for text in ("x >", "(" * 5000, "x = '", "x in (" + "1," * 200_000 + "1)", "\0"):
                with pytest.raises((FilterError, PenstockError)):
                    await net._ask(partial(net._core.ask, partial(_wanting, text)))
            await net.subscribe("x > 1")

    run(main)


def test_a_client_that_does_not_know_the_authority_does_not_talk_to_a_broker(tmp_path: Path) -> None:
    async def main() -> None:
        made = Certificates(tmp_path)
        async with serving(config("a", listen=TLS, tls=made.config("a"))) as (a,):
            with pytest.raises(NetworkError, match="TLS"):
                await penstock.connect(a.urls[0])

    run(main)
