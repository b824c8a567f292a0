"""Blocks of events: who gets them is who gets each event by itself."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from matching_cases import EVENT, PREDICATE
from penstock.broker.core import Broker
from penstock.broker.effects import Deliver, DeliverBlock, Effect, Refuse, RefuseBlock, Send, SendBlock
from penstock.broker.grants import Grants
from penstock.broker.needs import Found, Scan
from penstock.errors import EventError
from penstock.filters.expression import normalise
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.net.matching import EngineMatching
from penstock.routing.schemes.catalog import SCHEMES
from penstock.routing.schemes.scheme import Source
from penstock.wire.blocks import Block, Header
from penstock.wire.events import decode_event, encode_event
from penstock.wire.messages import Advertise, LinkDown, LinkUp, Publish, Subscribe, Sync, Unsubscribe

CLIENTS = ("c0", "c1", "c2")
NEIGHBOURS = ("n0", "n1")


class Brute(Scan):
    """Decodes each event and tries every filter. Numbers of filters that are gone are used again."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: list[Predicate | None] = []

    def add(self, predicate: Predicate) -> None:
        super().add(predicate)
        if None in self._numbers:
            self._numbers[self._numbers.index(None)] = predicate
        else:
            self._numbers.append(predicate)

    def remove(self, predicate: Predicate) -> None:
        super().remove(predicate)
        self._numbers[self._numbers.index(predicate)] = None

    def match_block(self, block: Block) -> Found:
        known = self._numbers
        found = [
            [n for n, predicate in enumerate(known) if predicate and predicate.matches(decode_event(event))]
            for event in block.events()
        ]
        offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return Found(offsets, np.array([n for row in found for n in row], np.int64), known)

    def holds(self, predicate: Predicate, block: Block) -> NDArray[np.bool_]:
        return np.array([predicate.matches(decode_event(event)) for event in block.events()], np.bool_)


MATCHINGS = {"brute": Brute, "engine": EngineMatching}


class Setting(NamedTuple):
    """What the links of a broker have said."""

    scheme: str
    advertisements: bool
    offered: dict[str, Predicate]
    wanted: dict[str, list[Predicate]]
    granted: dict[str, Grants]
    asked: dict[str, list[tuple[Predicate, bool]]]
    """By neighbours; and whether only of trees of this broker."""


PREDICATES = PREDICATE.map(normalise)
WIDE = st.one_of(PREDICATES, st.just(parse("true")), st.just(parse("x is not null")))
GRANTS = st.one_of(st.just(Grants()), st.just(Grants()), st.builds(lambda p: Grants(subscribe=p), PREDICATES))
SETTINGS = st.builds(
    Setting,
    st.sampled_from(sorted(SCHEMES)),
    st.booleans(),
    st.fixed_dictionaries(dict.fromkeys(CLIENTS, WIDE)),
    st.fixed_dictionaries({link: st.lists(WIDE, max_size=4) for link in CLIENTS}),
    st.fixed_dictionaries(dict.fromkeys(CLIENTS, GRANTS)),
    st.fixed_dictionaries(
        {link: st.lists(st.tuples(WIDE, st.booleans()), max_size=3) for link in NEIGHBOURS}
    ),
)


def filled(setting: Setting, matching: Any) -> Broker:
    """A broker whose links have said these things."""
    b = Broker("b", SCHEMES[setting.scheme], matching, advertisements=setting.advertisements)
    for link in CLIENTS:
        b.handle(LinkUp(client=True), link, 0)
        b.admit(link, f"origin of {link}", Grants())
        b.handle(Advertise("1", setting.offered[link]), link, 0)
    for link in NEIGHBOURS:
        b.handle(LinkUp(), link, 0)
        b.handle(Sync((0, 1), 0, (Advertise(f"{link}/0.1", parse("true")),), ()), link, 0)
    trees = [tree for tree, _branch in b.trees.items()]
    for link in NEIGHBOURS:
        asked = tuple(
            Subscribe(f"{link}-{n}", predicate, frozenset(t for t in trees if not ours or t.startswith("b/")))
            for n, (predicate, ours) in enumerate(setting.asked[link])
        )
        b.handle(Sync((0, 1), 0, (Advertise(f"{link}/0.1", parse("true")),), asked), link, 0)
    for link in CLIENTS:
        for key, predicate in enumerate(setting.wanted[link]):
            b.handle(Subscribe(key, predicate), link, 0)
        # After the fact, so that the table says one thing and the grants another.
        b.client(link).grants = setting.granted[link]
    return b


Gotten = dict[tuple[str, str], list[tuple[str, frozenset[int]]]]
"""What a link is given or refused: events with the keys, in order."""


def one_by_one(effects: Iterable[Effect]) -> Gotten:
    found: Gotten = defaultdict(list)
    for effect in effects:
        if isinstance(effect, Deliver):
            keys = frozenset(effect.subscriptions)
            found["deliver", effect.link].append((repr(effect.publish.event), keys))  # type: ignore[arg-type]
        elif isinstance(effect, Send):
            assert isinstance(effect.message, Publish)
            found["send", effect.link].append((repr(effect.message.event), frozenset()))
    return found


def by_block(effects: Iterable[Effect]) -> Gotten:
    found: Gotten = defaultdict(list)
    for effect in effects:
        assert isinstance(effect, DeliverBlock | SendBlock | RefuseBlock)
        events = [repr(decode_event(event)) for event in effect.block.events()]
        if isinstance(effect, DeliverBlock):
            assert effect.block.keys is not None
            assert effect.block.key_offsets is not None
            keys = effect.block.keys.tolist()
            own = [keys[at:end] for at, end in pairwise(effect.block.key_offsets.tolist())]
            assert all(len(set(one)) == len(one) > 0 for one in own)
            found["deliver", effect.link] += zip(events, map(frozenset, own), strict=True)
        elif isinstance(effect, SendBlock):
            assert effect.block.keys is None
            found["send", effect.link] += [(event, frozenset()) for event in events]
    return found


def packed(events: Sequence[dict[str, Any]], header: Header, numbers: Sequence[int] | None = None) -> Block:
    encoded = [encode_event(Event(event)) for event in events]
    return Block.of(header, numbers or range(1, len(events) + 1), encoded)


@pytest.mark.property
@pytest.mark.parametrize("matching", MATCHINGS)
@given(
    setting=SETTINGS,
    events=st.lists(EVENT, min_size=1, max_size=6),
    link=st.sampled_from(CLIENTS + NEIGHBOURS),
)
def test_a_block_goes_where_each_of_its_events_would_go(
    matching: str, setting: Setting, events: list[dict[str, Any]], link: str
) -> None:
    plain, blocks = filled(setting, Scan()), filled(setting, MATCHINGS[matching]())
    is_client = link in CLIENTS
    tree = "" if is_client else f"{link}/0.1"
    expected: list[Effect] = []
    for number, event in enumerate(events, 1):
        expected += plain.handle(Publish(Event(event), tree, number), link, 0)
    block = packed(events, Header("1" if is_client else tree, "somebody"))
    effects = blocks.handle_block(Block.decode(memoryview(block.encode())), link, 0)
    assert by_block(effects) == one_by_one(expected)
    refused = sum(isinstance(effect, Refuse) for effect in expected)
    assert refused == sum(len(effect.block) for effect in effects if isinstance(effect, RefuseBlock))
    # Each link is written to once, whatever the block contains.
    assert len({(type(effect), effect.link) for effect in effects}) == len(effects)


CHANGES = st.one_of(
    st.builds(Subscribe, st.integers(0, 3), WIDE),
    st.builds(Subscribe, st.integers(0, 3), WIDE),
    st.builds(Unsubscribe, st.integers(0, 3)),
    st.builds(Advertise, st.just("1"), WIDE),
    st.builds(LinkDown),
)


@pytest.mark.property
@pytest.mark.parametrize("matching", MATCHINGS)
@given(
    setting=SETTINGS,
    steps=st.lists(
        st.tuples(st.sampled_from(CLIENTS), CHANGES, st.lists(EVENT, min_size=1, max_size=3)), max_size=6
    ),
)
def test_it_stays_so_while_clients_change_what_they_want(
    matching: str, setting: Setting, steps: list[tuple[str, Any, list[dict[str, Any]]]]
) -> None:
    plain, blocks = filled(setting, Scan()), filled(setting, MATCHINGS[matching]())
    number = 1
    for link, change, events in steps:
        for b in (plain, blocks):
            b.handle(change, link, 0)
            if isinstance(change, LinkDown):
                # It comes back, and wants something else.
                b.handle(LinkUp(client=True), link, 0)
                b.handle(Subscribe(1, parse("x is not null")), link, 0)
        expected: list[Effect] = []
        for at, event in enumerate(events):
            expected += plain.handle(Publish(Event(event), "n0/0.1", number + at), "n0", 0)
        numbers = range(number, number + len(events))
        block = packed(events, Header("n0/0.1", "somebody"), numbers)
        assert by_block(blocks.handle_block(block, "n0", 0)) == one_by_one(expected)
        number += len(events)


@pytest.mark.property
@given(SETTINGS, st.lists(EVENT, min_size=1, max_size=6), st.sampled_from(CLIENTS + NEIGHBOURS))
def test_nobody_is_given_what_it_may_not_see_whatever_the_table_says(
    setting: Setting, events: list[dict[str, Any]], link: str
) -> None:
    b = filled(setting, Brute())
    tree = "1" if link in CLIENTS else f"{link}/0.1"
    delivered = 0
    for effect in b.handle_block(packed(events, Header(tree, "somebody")), link, 0):
        if isinstance(effect, DeliverBlock):
            delivered += 1
            grants = setting.granted[effect.link]
            assert all(grants.may_receive(decode_event(event)) for event in effect.block.events())


def simple(matching: Callable[[], Any] = Brute, scheme: str = "covering", **more: Any) -> Broker:
    """A publisher p that offers x >= 0, a reader q of everything, and a neighbour n that wants it all."""
    b = Broker("b", SCHEMES[scheme], matching(), **more)
    for link in ("p", "q"):
        b.handle(LinkUp(client=True), link, 0)
        b.admit(link, f"~{link}", Grants())
    b.handle(Advertise("7", parse("x >= 0")), "p", 0)
    b.handle(LinkUp(), "n", 0)
    b.handle(LinkUp(), "m", 0)
    offer = (Advertise("n/0.1", parse("true")),)
    trees = frozenset(tree for tree, _branch in b.trees.items())
    b.handle(Sync((0, 1), 0, offer, (Subscribe("k", parse("true"), trees),)), "n", 0)
    b.handle(Subscribe(5, parse("true")), "q", 0)
    return b


def xs(block: Block) -> list[object]:
    return [decode_event(event)["x"] for event in block.events()]


def got(effects: Iterable[Effect], link: str) -> list[object]:
    found: list[object] = []
    for effect in effects:
        if effect.link == link and isinstance(effect, DeliverBlock | SendBlock):
            found += xs(effect.block)
    return found


def events(*numbers: int) -> list[dict[str, Any]]:
    return [{"x": number} for number in numbers]


def test_a_block_of_a_client_is_in_its_name_on_its_tree_and_has_passed_one_more_broker() -> None:
    b = simple()
    effects = b.handle_block(packed(events(1, 2), Header("7", "not me", hops=3)), "p", 0)
    (tree,) = (t for t in b.client("p").advertisements.values())
    headers = {effect.link: effect.block.header for effect in effects}  # type: ignore[union-attr]
    assert headers == {link: Header(tree, "~p/7", hops=4) for link in ("n", "q")}


@pytest.mark.parametrize("scheme", ["covering", "flooding"])
def test_what_goes_in_a_circle_ends_though_it_is_rescued(scheme: str) -> None:
    b = simple(scheme=scheme)
    for hops in (254, 255):
        header = Header("7", "o", hops=hops, rescued=hops + 1)
        effects = b.handle_block(packed(events(1), header), "p", 0)
        assert got(effects, "q") == [1]
        assert got(effects, "n") == ([1] if hops == 254 else [])
        assert {effect.block.header.hops for effect in effects} == {255}  # type: ignore[union-attr]


def test_a_publisher_that_subscribes_has_its_own_events_too() -> None:
    b = simple()
    b.handle(Subscribe(9, parse("x > 1")), "p", 0)
    effects = b.handle_block(packed(events(1, 2), Header("7", "")), "p", 0)
    assert got(effects, "p") == [2]
    assert got(effects, "q") == [1, 2]


def test_what_came_before_is_dropped_and_what_is_late_is_taken() -> None:
    b = simple()
    assert b.relaying is not None
    header = Header("7", "")
    assert got(b.handle_block(packed(events(1, 2, 5), header, [1, 2, 5]), "p", 0), "q") == [1, 2, 5]
    assert b.handle_block(packed(events(1, 2, 5), header, [1, 2, 5]), "p", 0) == []
    assert b.relaying.duplicates == 3
    effects = b.handle_block(packed(events(2, 3, 4, 6), header, [2, 3, 4, 6]), "p", 0)
    assert got(effects, "q") == got(effects, "n") == [3, 4, 6]
    assert (b.relaying.duplicates, b.relaying.late) == (4, 2)


def test_what_is_rescued_passes_though_it_came_before() -> None:
    b = simple()
    b.handle_block(packed(events(1, 2), Header("7", "")), "p", 0)
    effects = b.handle_block(packed(events(1, 2), Header("7", "", rescued=9)), "p", 0)
    assert got(effects, "q") == got(effects, "n") == [1, 2]
    assert all(effect.block.header.rescued for effect in effects)  # type: ignore[union-attr]


@pytest.mark.parametrize("mark", [0, 5])
def test_numbers_of_two_advertisements_are_not_mixed_up(mark: int) -> None:
    b = simple()
    b.handle(Advertise("8", parse("x >= 0")), "p", 0)
    assert got(b.handle_block(packed(events(1), Header("7", "", rescued=mark)), "p", 0), "q") == [1]
    assert got(b.handle_block(packed(events(2), Header("8", "", rescued=mark)), "p", 0), "q") == [2]


def test_what_was_not_advertised_is_refused_and_the_rest_passes() -> None:
    b = simple()
    effects = b.handle_block(packed(events(1, -1, 2, -2), Header("7", ""), [3, 4, 6, 7]), "p", 0)
    refused = [effect for effect in effects if isinstance(effect, RefuseBlock)]
    assert [(effect.link, effect.block.numbers.tolist()) for effect in refused] == [("p", [4, 7])]
    assert "x >= 0" in refused[0].reason
    assert got(effects, "q") == got(effects, "n") == [1, 2]


@pytest.mark.parametrize("key", ["8", "", "b/0.1", "n/0.1"])
def test_a_client_cannot_publish_without_an_advertisement_nor_on_the_tree_of_another(key: str) -> None:
    b = simple()
    (refused,) = b.handle_block(packed(events(1), Header(key, "")), "q", 0)
    assert isinstance(refused, RefuseBlock)
    assert "advertise before publishing" in refused.reason


def test_without_advertisements_the_grant_says_what_may_be_published() -> None:
    b = simple(advertisements=False)
    b.client("p").grants = Grants(advertise=parse("x > 1"))
    effects = b.handle_block(packed(events(1, 2), Header("7", "")), "p", 0)
    (refused,) = (effect for effect in effects if isinstance(effect, RefuseBlock))
    assert xs(refused.block) == [1]
    assert got(effects, "q") == [2]


@pytest.mark.parametrize("matching", MATCHINGS.values())
def test_what_a_client_may_not_see_is_withheld_and_counted(matching: Callable[[], Any]) -> None:
    b = simple(matching)
    assert b.relaying is not None
    b.client("q").grants = Grants(subscribe=parse("x > 1"))
    assert got(b.handle_block(packed(events(1, 2, 3), Header("7", "")), "p", 0), "q") == [2, 3]
    assert got(b.handle_block(packed(events(1), Header("n/0.1", "o")), "n", 0), "q") == []
    assert b.relaying.withheld == 2


def test_events_from_nobody_and_of_no_tree_go_nowhere() -> None:
    b = simple()
    assert b.relaying is not None
    assert b.handle_block(packed(events(1), Header("n/0.1", "o")), "stranger", 0) == []
    assert b.handle_block(packed(events(1), Header("gone", "o")), "n", 0) == []
    assert b.relaying.unrouted == 1


@pytest.mark.parametrize("matching", MATCHINGS.values())
@pytest.mark.parametrize("link", ["p", "n"])
def test_bytes_that_are_no_event_are_an_error_and_change_nothing(
    matching: Callable[[], Any], link: str
) -> None:
    b = simple(matching)
    header = Header("7" if link == "p" else "n/0.1", "o")
    bad = Block.of(header, [1, 2], [encode_event(Event({"x": 1})), b"\x81\xa1x\xc0"])
    with pytest.raises(EventError):
        b.handle_block(bad, link, 0)
    assert got(b.handle_block(packed(events(1, 2), header), link, 0), "q") == [1, 2]


def test_flooding_takes_an_event_from_the_way_of_its_tree_though_a_copy_came_another_way_first() -> None:
    b = simple(scheme="flooding")
    b.handle(Sync((0, 1), 0, (), ()), "m", 0)
    header = Header("n/0.1", "o")
    # A neighbour that had it earlier than we did passes it on to everybody.
    assert b.handle_block(packed(events(1), header), "m", 0) == []
    effects = b.handle_block(packed(events(1), header), "n", 0)
    assert got(effects, "q") == [1]
    assert got(effects, "m") == [1]
    assert got(effects, "n") == []
    assert b.handle_block(packed(events(1), header), "n", 0) == []


def test_a_client_that_has_gone_gets_nothing_more() -> None:
    b = simple()
    b.handle(LinkDown(), "q", 0)
    effects = b.handle_block(packed(events(1), Header("7", "")), "p", 0)
    assert {effect.link for effect in effects} == {"n"}
    assert b.table.get(Source("q", "5")) is None


def test_what_a_neighbour_wanted_stays_for_a_while_and_ends_with_the_second_word() -> None:
    b = simple()
    b.handle(LinkDown(keep=True), "n", 0)
    kept = b.handle_block(packed(events(1), Header("7", "")), "p", 0)
    assert got(kept, "n") == [1]
    b.handle(LinkDown(), "n", 0)
    assert got(b.handle_block(packed(events(2), Header("7", ""), [2]), "p", 0), "n") == []
    assert len(b.table) == 1
