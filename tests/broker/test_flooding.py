"""Blocks through the broker core: each event is passed on once, and once more each time it is sent again."""

import pytest

from penstock.broker.effects import Deliver, Send
from penstock.broker.local import LinkUp
from penstock.broker.trees.broker import Broker
from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.net.matching import EngineMatching
from penstock.routing.schemes.catalog import SCHEMES
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.messages import Advertise, Control, Subscribe, Sync


def broker(scheme: str) -> Broker:
    """Between n, which is the way to a tree, and m; with a client that wants everything."""
    b = Broker("b", SCHEMES[scheme], EngineMatching())
    b.handle(LinkUp(client=True), "q", 0)
    for link in ("m", "n"):
        b.handle(LinkUp(), link, 0)
    everything = as_predicate("true")
    b.handle(Sync((0, 1), 0, (Advertise("t", everything),), ()), "n", 0)
    b.handle(Sync((0, 1), 0, (), ()), "m", 0)
    b.handle(Control((0, 1), 1, (Subscribe("k", everything, frozenset({"t"})),)), "m", 0)
    b.handle(Subscribe(1, everything), "q", 0)
    return b


def went(b: Broker, link: str, *numbers: int, rescued: int = 0) -> dict[str, list[int]]:
    """Who is sent which of these events when they come over a link."""
    events = [encode_event(Event({"x": number})) for number in numbers]
    block = Block.of(Header("t", "o", rescued=rescued), numbers, events)
    sent = {}
    for effect in b.handle(block, link, 0):
        assert isinstance(effect, Send | Deliver)
        part = effect.message if isinstance(effect, Send) else effect.events
        assert isinstance(part, Block)
        sent[effect.link] = part.numbers.tolist()
    return sent


@pytest.mark.parametrize("scheme", ["covering", "flooding"])
def test_events_that_come_by_two_ways_are_passed_on_once_whichever_is_first(scheme: str) -> None:
    b = broker(scheme)
    assert went(b, "n", 1, 2)["q"] == [1, 2]
    assert went(b, "m", 1, 2) == {}
    assert went(b, "m", 3, 4)["q"] == [3, 4]
    assert went(b, "n", 3, 4) == {}
    assert went(b, "n", 4, 5) == {"m": [5], "q": [5]}


@pytest.mark.parametrize("scheme", ["covering", "flooding"])
def test_events_that_are_sent_again_are_passed_on_once_each_time(scheme: str) -> None:
    b = broker(scheme)
    assert went(b, "n", 1, 2) == {"m": [1, 2], "q": [1, 2]}
    for mark in (7, 8):
        assert went(b, "n", 1, 2, rescued=mark) == {"m": [1, 2], "q": [1, 2]}
        assert went(b, "n", 1, 2, rescued=mark) == {}
        assert went(b, "m", 1, 2, rescued=mark) == {}
