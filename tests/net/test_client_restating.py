"""A client that goes to another broker tells it what it wants; events may come in between."""

import asyncio

import numpy as np

from penstock.model.events import Event
from penstock.net.client.client import Client
from penstock.net.client.subscriptions import Subscription
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.frames import FrameReader
from penstock.wire.greetings import Welcome
from penstock.wire.requests import Done, Want, read_request
from penstock.wire.sessions import Session


def block(number: int, *keys: int) -> Block:
    one = Block.of(Header("t", "o"), [number], [encode_event(Event({"n": number}))])
    return one.with_keys(np.array(keys, np.int64), np.array([0, len(keys)], np.int64))


class Case:
    """A client with two subscriptions that has just been welcomed by another broker."""

    def __init__(self) -> None:
        self.client = Client(
            [], name="c", token="", when_slow="pause", reconnect=True, timeout=1.0, on_notice=None
        )
        self.core = self.client._core
        self.subscriptions = [Subscription(self.client, key, "true", "auto", 9, None) for key in (1, 2)]
        for one in self.subscriptions:
            number = self.core.subscribe(one.key, one.filter, one, lambda: None, lambda _error: None)
            self.core.answered(Done(number))
        session = self.core.line.session = Session(2**20)
        self.core.begin(session, Welcome("b", 1, False, 0, 2**20, 2**20, ""), 0.0)
        sent = FrameReader(2**20).feed(b"".join(session.sendable()))
        self.wants = [read_request(payload[8:]) for _kind, payload in sent]

    @property
    def pending(self) -> list[int]:
        return [one.pending for one in self.subscriptions]

    def receive(self, number: int, *keys: int) -> None:
        self.core.receive(1, block(number, *keys))

    def answer(self, want: object) -> None:
        assert isinstance(want, Want)
        self.core.answered(Done(want.request))


def test_an_event_that_came_for_some_subscriptions_comes_for_the_others_later_and_for_none_twice() -> None:
    async def go() -> None:
        case = Case()
        case.answer(case.wants[0])
        case.receive(1, 1)
        assert case.pending == [1, 0]
        case.answer(case.wants[1])
        for _again in range(2):
            case.receive(1, 1, 2)
            assert case.pending == [1, 1]

    asyncio.run(go())


def test_what_comes_after_all_is_said_comes_once() -> None:
    async def go() -> None:
        case = Case()
        for want in case.wants:
            case.answer(want)
        case.receive(1, 1)
        case.receive(1, 1, 2)
        assert case.pending == [1, 0]

    asyncio.run(go())
