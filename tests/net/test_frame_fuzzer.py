"""Frames that nobody should send: the broker survives them, and serves everybody else."""

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from net_cases import Complaints, Raw, config, events_frame, hello, numbered, run, serving
from patience import HANGS
from penstock.filters.parsing import parse
from penstock.net.server import Server
from penstock.node.settings import Times
from penstock.wire.codec import Returned
from penstock.wire.encoding import encode
from penstock.wire.frames import Kind, frame
from penstock.wire.messages import Advertise, Alive, Control, Lost, Resync, Subscribe, Sync, Unsubscribe
from penstock.wire.requests import Ask, Bye, Offer, Traced, Unoffer, Unwant, Want, write_request

TIMES = Times(linger=1.0, resume=0.3, grace=0.3, settle=0.1, ping=1.0, join=0.01)
EXAMPLES = 150
"""Connections that `make test` makes; the nightly run makes as many as its profile says."""

Draw = random.Random
"""Sequences are made of a number, so that a long run can be made again from what it prints."""


def _requests(draw: Draw) -> bytes:
    key = draw.choice((0, 1, 2, 2**32 - 1))
    text = draw.choice(("true", "x > 1", "x >", "s like '%a%a%'", "x in (1, 2)", "", "x = 1 or y = 2"))
    number = draw.randrange(5)
    return write_request(
        draw.choice(
            (
                Want(number, key, text),
                Unwant(number, key),
                Offer(number, key, text),
                Unoffer(number, key),
                Ask(number),
                Bye(number),
            )
        )
    )


def _spoken(draw: Draw) -> bytes:
    everything, some = parse("true"), parse("x > 1 or s like 'a%'")
    session = (draw.randrange(3), draw.randrange(3))
    number = draw.randrange(4)
    tree = draw.choice(("fuzz/0.1", "fuzz/0.2", "b/0.1", ""))
    bodies = (
        Advertise(tree, everything, draw.randrange(-1, 3)),
        Subscribe(draw.choice(("k", 7)), some, frozenset((tree,)), ("k",)),
        Unsubscribe("k"),
        Lost(draw.choice(("fuzz", "b", "z")), session, ((tree, number),)),
    )
    return encode(
        draw.choice(
            (
                Control(session, number, tuple(draw.choices(bodies, k=draw.randrange(4)))),
                Sync(session, number, bodies[:1], bodies[1:2]),
                Alive(session, number),
                Resync(),
                Returned(draw.randrange(4)),
                Traced("t", draw.choice((b"{}", b"{", b"\xff"))),
            )
        )
    )


def _frame(draw: Draw, number: int, is_broker: bool) -> bytes:
    kind = draw.randrange(10)
    if draw.random() < 0.05:
        is_broker = not is_broker
    if kind < 4:
        return numbered(Kind.MESSAGE, number, (_spoken if is_broker else _requests)(draw))
    if kind < 8:
        events = [
            {"x": draw.randrange(4), "s": "a" * draw.randrange(40)} for _ in range(draw.randrange(1, 4))
        ]
        tree = draw.choice(("fuzz/0.1", "fuzz/0.2", "b/0.1") if is_broker else ("0", "1", "2"))
        first = draw.choice((1, 2, 3, 2**40))
        return events_frame(number, tree, *events, trace=draw.choice(("", "", "t")), first=first)
    return draw.choice(
        (
            frame(Kind.ACK, draw.randrange(4).to_bytes(8, "big")),
            frame(Kind.PING),
            frame(Kind.PONG),
            hello(),
            frame(Kind.REFUSED, b"\x92\xa1a\xa1b"),
            frame(Kind.REFUSED, b"\x92\xa8draining\xa1b"),
            frame(draw.choice(list(Kind)), draw.randbytes(draw.randrange(40))),
            draw.randbytes(draw.randrange(1, 40)),
        )
    )


def _damaged(draw: Draw, data: bytes) -> bytes:
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(data) + 1)
        data = data[:at] + draw.randbytes(draw.randrange(3)) + data[at + draw.randrange(3) :]
    return data


def said_by(seed: int) -> tuple[list[bytes], bool]:
    """What a connection says, piece by piece, and whether it then waits for an answer or goes at once."""
    draw = Draw(seed)
    begin = draw.randrange(4)
    parts: list[bytes] = []
    if begin == 1:
        parts.append(hello(session=f"fuzz {draw.randrange(3)}:0", received=draw.randrange(3)))
    elif begin == 2:
        name = draw.choice(("fuzz", "fuzz", "z", "b"))
        parts.append(
            hello(
                role="broker",
                name=name,
                session=f"fuzz {draw.randrange(3)}",
                received=draw.randrange(3),
                incarnation=draw.randrange(3),
            )
        )
    elif begin == 3:
        parts.append(_damaged(draw, hello()))
    parts += [_frame(draw, number, begin == 2) for number in range(1, draw.randrange(2, 10))]
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        at = draw.randrange(len(parts))
        parts[at] = _damaged(draw, parts[at]) if draw.random() < 0.7 else parts[at] * 2
    return parts, draw.random() < 0.5


async def fuzz(server: Server, seed: int) -> None:
    """One connection that says what it should not."""
    parts, waits = said_by(seed)
    async with await Raw.open(server) as raw:
        # The broker may have ended it already.
        with suppress(OSError):
            for part in parts:
                raw.say(part)
                await asyncio.sleep(0)
            if waits:
                raw.writer.write_eof()
                await raw.hear_all()


async def check_serves(server: Server) -> None:
    """Somebody else can publish and subscribe, and gets what was published."""
    async with (
        await penstock.connect(server.urls[0]) as publisher,
        await penstock.connect(server.urls[0]) as reader,
        await reader.subscribe("check > 0") as sub,
    ):
        await publisher.advertise("check > 0")
        publishing = asyncio.ensure_future(publisher.publish_many([{"check": n} for n in (1, 2, 3)]))
        assert [(await sub.next(HANGS))["check"] for _ in range(3)] == [1, 2, 3]
        await publishing


def survives(seeds: list[int], *, together: bool = False) -> None:
    """Say all of it to one broker: by one connection after the other, or by all at the same time."""

    async def main() -> None:
        with Complaints() as complaints:
            async with serving(config(times=TIMES)) as (server,):
                if together:
                    await asyncio.gather(*(fuzz(server, seed) for seed in seeds))
                else:
                    for seed in seeds:
                        await fuzz(server, seed)
                await check_serves(server)
        assert complaints.records == []

    run(main)


def test_a_broker_survives_many_connections_one_after_the_other() -> None:
    survives(list(range(EXAMPLES)))


def test_a_broker_survives_many_connections_at_once() -> None:
    survives(list(range(1000, 1000 + EXAMPLES // 2)), together=True)


def _nightly_examples() -> int:
    """A thirtieth of what the profile says: each example is many connections."""
    known = settings.default
    return 5 if known is None else max(5, known.max_examples // 30)


@pytest.mark.property
@settings(max_examples=_nightly_examples())
@given(st.lists(st.integers(10_000, 10**9), min_size=1, max_size=6), st.booleans())
def test_a_broker_survives_whatever_comes(seeds: list[int], together: bool) -> None:
    survives(seeds, together=together)


def test_the_sequences_reach_every_kind_of_greeting() -> None:
    beginnings = {said_by(seed)[0][0][4:5] for seed in range(EXAMPLES)}
    assert beginnings > {bytes([kind]) for kind in (Kind.HELLO, Kind.MESSAGE, Kind.EVENTS)}
