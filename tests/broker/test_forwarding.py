"""Who gets an event: as brute force says, whether events come one by one or in a block, also in circles."""

import gc
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching_cases import EVENT, PREDICATE
from penstock.broker.core import Core
from penstock.broker.effects import Deliver, Effect, Refuse, Send
from penstock.broker.grants import Grants
from penstock.broker.local import LinkDown, LinkUp
from penstock.broker.needs import Matching, Scan
from penstock.broker.protocols import PROTOCOLS, CoreSettings, protocol_named
from penstock.broker.trees.broker import Broker
from penstock.errors import EventError
from penstock.filters.expression import normalise
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.net.matching import EngineMatching
from penstock.routing.schemes.catalog import SCHEMES
from penstock.routing.schemes.scheme import Source
from penstock.sim.matching import SharedMatching
from penstock.wire.blocks import Block, Header
from penstock.wire.events import decode_event, encode_event
from penstock.wire.messages import Advertise, Events, Message, Publish, Subscribe, Sync, Unsubscribe
from penstock.workloads.topologies import topology

CLIENTS = ("c0", "c1", "c2")
NEIGHBOURS = ("n0", "n1")
MATCHINGS: dict[str, Callable[[], Matching]] = {
    "scan": Scan,
    "engine": EngineMatching,
    "shared": SharedMatching,
}
FORMS = ("one by one", "block")


# Events in either form


def packed(events: Sequence[dict[str, Any]], header: Header, numbers: Sequence[int] | None = None) -> Block:
    encoded = [encode_event(Event(event)) for event in events]
    return Block.of(header, numbers or range(1, len(events) + 1), encoded)


def formed(
    form: str, events: Sequence[dict[str, Any]], header: Header, numbers: Sequence[int] | None = None
) -> list[Events]:
    """The events as messages: each by itself, or all in a block that has been bytes."""
    if form == "block":
        return [Block.decode(memoryview(packed(events, header, numbers).encode()))]
    return [Publish(Event(e), header, n) for n, e in zip(numbers or range(1, 99), events, strict=False)]


def handled(
    core: Core,
    form: str,
    events: Sequence[dict[str, Any]],
    header: Header,
    link: str,
    numbers: Sequence[int] | None = None,
) -> list[Effect]:
    """What comes of events that come to a node."""
    messages = formed(form, events, header, numbers)
    return [effect for message in messages for effect in core.handle(message, link, 0)]


def events_in(effect: Effect) -> Events | None:
    if isinstance(effect, Deliver):
        return effect.events
    if isinstance(effect, Send):
        return effect.message if isinstance(effect.message, Publish | Block) else None
    return effect.events if isinstance(effect, Refuse) else None


def one_by_one(events: Events) -> list[tuple[int, Event, frozenset[object] | None]]:
    """The number of each event, itself, and the keys of subscriptions that it comes with."""
    if isinstance(events, Publish):
        keys = None if events.keys is None else frozenset(events.keys)
        assert keys is None or len(keys) == len(events.keys or ()) > 0
        return [(events.numbers, events.event, keys)]
    decoded = [decode_event(data) for data in events.events()]
    own: list[frozenset[object] | None] = [None] * len(events)
    if events.keys is not None and events.key_offsets is not None:
        lists = [events.keys.tolist()[at:end] for at, end in pairwise(events.key_offsets.tolist())]
        assert all(len(set(one)) == len(one) > 0 for one in lists)
        own = [frozenset(one) for one in lists]
    return list(zip(events.numbers.tolist(), decoded, own, strict=True))


Gotten = dict[tuple[str, str], list[tuple[int, str, frozenset[object] | None]]]
"""What a link is given, sent or refused: numbers, events and keys, in order."""


def gotten(effects: Iterable[Effect]) -> Gotten:
    found: Gotten = defaultdict(list)
    for effect in effects:
        events = events_in(effect)
        if events is not None:
            what = type(effect).__name__
            told = [(number, repr(event), keys) for number, event, keys in one_by_one(events)]
            if isinstance(effect, Refuse):
                told = [(number, event, None) for number, event, _keys in told]
            found[what, effect.link] += told  # type: ignore[union-attr]
    return dict(found)


# One broker


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
EVENTS = st.lists(EVENT, min_size=1, max_size=6)
LINKS = st.sampled_from(CLIENTS + NEIGHBOURS)


def filled(setting: Setting, matching: Matching) -> Broker:
    """A broker whose links have said these things."""
    b = Broker("b", SCHEMES[setting.scheme], matching, advertisements=setting.advertisements)
    for link in CLIENTS:
        b.handle(LinkUp(client=True, origin=f"origin of {link}"), link, 0)
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


def by_brute_force(setting: Setting, events: Sequence[dict[str, Any]], link: str) -> Gotten:
    """Who must get events that come over a link, by trying every filter."""
    found: Gotten = defaultdict(list)
    ours = link in CLIENTS
    for number, attributes in enumerate(events, 1):
        event = Event(attributes)
        if ours and setting.advertisements and not setting.offered[link].matches(event):
            found["Refuse", link].append((number, repr(event), None))
            continue
        for client in CLIENTS:
            keys = frozenset(key for key, p in enumerate(setting.wanted[client]) if p.matches(event))
            if keys and setting.granted[client].may_receive(event):
                found["Deliver", client].append((number, repr(event), keys))
        for neighbour in NEIGHBOURS:
            asked = any(p.matches(event) and (ours or not only) for p, only in setting.asked[neighbour])
            if neighbour != link and (asked or setting.scheme == "flooding"):
                found["Send", neighbour].append((number, repr(event), None))
    return dict(found)


def header_of(link: str) -> Header:
    """What events come with: of clients the key of an advertisement, of neighbours a tree."""
    return Header("1", "") if link in CLIENTS else Header(f"{link}/0.1", "somebody")


@pytest.mark.property
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("matching", MATCHINGS)
@given(setting=SETTINGS, events=EVENTS, link=LINKS)
def test_events_go_to_whom_brute_force_says(
    matching: str, form: str, setting: Setting, events: list[dict[str, Any]], link: str
) -> None:
    b = filled(setting, MATCHINGS[matching]())
    effects = handled(b, form, events, header_of(link), link)
    assert gotten(effects) == by_brute_force(setting, events, link)
    if form == "block":
        # Each link is written to once, whatever the block contains.
        assert len({(type(effect), effect.link) for effect in effects}) == len(effects)  # type: ignore[union-attr]


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
def test_blocks_and_single_events_go_the_same_ways_while_clients_change_what_they_want(
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
        numbers = range(number, number + len(events))
        header = Header("n0/0.1", "somebody")
        expected = handled(plain, "one by one", events, header, "n0", numbers)
        assert gotten(handled(blocks, "block", events, header, "n0", numbers)) == gotten(expected)
        number += len(events)


@pytest.mark.property
@pytest.mark.parametrize("form", FORMS)
@given(setting=SETTINGS, events=EVENTS, link=LINKS)
def test_nobody_is_given_what_it_may_not_see_whatever_the_table_says(
    form: str, setting: Setting, events: list[dict[str, Any]], link: str
) -> None:
    b = filled(setting, Scan())
    for effect in handled(b, form, events, header_of(link), link):
        if isinstance(effect, Deliver):
            grants = setting.granted[effect.link]
            assert all(grants.may_receive(event) for _number, event, _keys in one_by_one(effect.events))


# Networks with circles


class Cores:
    """Nodes of a network, whose messages come in the order in which they were sent, each after a while."""

    def __init__(self, protocol: str, scheme: str, seed: int, *, advertisements: bool) -> None:
        self.random = Random(seed)
        made = protocol_named(protocol).make
        settings = CoreSettings(scheme=scheme, advertisements=advertisements)
        count = self.random.randint(2, 7)
        self.nodes = {f"b{n}": made(f"b{n}", Scan(), settings) for n in range(count)}
        self.homes = {f"c{n}": f"b{self.random.randrange(count)}" for n in range(5)}
        self.got: dict[str, list[tuple[int, str, frozenset[object] | None]]] = defaultdict(list)
        self.refused = 0
        self._links: dict[tuple[str, str], deque[Message | Block]] = {}
        for a, b in topology("general", count, seed, degree=3.0):
            for end, other in ((f"b{a}", f"b{b}"), (f"b{b}", f"b{a}")):
                self._links[end, other] = deque()
        for end, other in self._links:
            self.say(LinkUp(), end, other)
        for client, home in self.homes.items():
            self.say(LinkUp(client=True, origin=client), home, client)
        self.run()

    def say(self, message: Message | Block, node: str, link: str) -> None:
        for effect in self.nodes[node].handle(message, link, 0.0):
            if isinstance(effect, Send):
                self._links[node, effect.link].append(effect.message)
            elif isinstance(effect, Deliver):
                assert self.homes[effect.link] == node
                self.got[effect.link] += [
                    (n, repr(event), keys) for n, event, keys in one_by_one(effect.events)
                ]
            elif isinstance(effect, Refuse):
                self.refused += 0 if effect.events is None else len(effect.events)

    def run(self) -> None:
        """Until nothing is under way. Which link is next is left to chance: some ways are slow."""
        while busy := [link for link, messages in self._links.items() if messages]:
            sender, receiver = self.random.choice(busy)
            self.say(self._links[sender, receiver].popleft(), receiver, sender)


PLACES = st.sampled_from([f"c{n}" for n in range(5)])
WAYS = [(protocol, scheme) for protocol in PROTOCOLS for scheme in SCHEMES if protocol == "trees"] + [
    ("flood", "")
]


@pytest.mark.property
@pytest.mark.parametrize(("protocol", "scheme"), WAYS)
@pytest.mark.parametrize("form", FORMS)
@given(
    seed=st.integers(0, 10**6),
    advertisements=st.booleans(),
    offered=st.dictionaries(PLACES, WIDE, max_size=3),
    wanted=st.dictionaries(PLACES, st.lists(WIDE, min_size=1, max_size=3), max_size=4),
    events=EVENTS,
)
def test_in_any_network_events_come_once_to_whom_brute_force_says(
    protocol: str,
    scheme: str,
    form: str,
    seed: int,
    advertisements: bool,
    offered: dict[str, Predicate],
    wanted: dict[str, list[Predicate]],
    events: list[dict[str, Any]],
) -> None:
    cores = Cores(protocol, scheme, seed, advertisements=advertisements)
    for client, predicate in offered.items():
        cores.say(Advertise("1", predicate), cores.homes[client], client)
    cores.run()
    for client, predicates in wanted.items():
        for key, predicate in enumerate(predicates):
            cores.say(Subscribe(key, predicate), cores.homes[client], client)
    cores.run()
    for publisher in cores.homes:
        for message in formed(form, events, Header("1", "")):
            cores.say(message, cores.homes[publisher], publisher)
        cores.run()
        allowed = [
            (number, Event(event))
            for number, event in enumerate(events, 1)
            if not advertisements or (publisher in offered and offered[publisher].matches(Event(event)))
        ]
        expected = {
            client: [(number, repr(event), keys) for number, event in allowed if (keys := wants(p, event))]
            for client, p in wanted.items()
        }
        # Where events take one way they come in order; where they are flooded, some overtake others.
        floods = protocol == "flood" or scheme == "flooding"
        got = {client: sorted(told) if floods else told for client, told in cores.got.items()}
        assert got == {client: told for client, told in expected.items() if told}
        assert cores.refused == len(events) - len(allowed)
        cores.got, cores.refused = defaultdict(list), 0


def wants(predicates: list[Predicate], event: Event) -> frozenset[object]:
    return frozenset(key for key, predicate in enumerate(predicates) if predicate.matches(event))


# Cases


def simple(matching: Callable[[], Matching] = Scan, scheme: str = "covering", **more: Any) -> Broker:
    """A publisher p that offers x >= 0, a reader q of everything, and a neighbour n that wants it all."""
    b = Broker("b", SCHEMES[scheme], matching(), **more)
    for link in ("p", "q"):
        b.handle(LinkUp(client=True, origin=f"~{link}"), link, 0)
    b.handle(Advertise("7", parse("x >= 0")), "p", 0)
    b.handle(LinkUp(), "n", 0)
    b.handle(LinkUp(), "m", 0)
    offer = (Advertise("n/0.1", parse("true")),)
    trees = frozenset(tree for tree, _branch in b.trees.items())
    b.handle(Sync((0, 1), 0, offer, (Subscribe("k", parse("true"), trees),)), "n", 0)
    b.handle(Subscribe(5, parse("true")), "q", 0)
    return b


def got(effects: Iterable[Effect], link: str) -> list[object]:
    found: list[object] = []
    for effect in effects:
        events = events_in(effect)
        if isinstance(effect, Deliver | Send) and effect.link == link and events is not None:
            found += [event["x"] for _number, event, _keys in one_by_one(events)]
    return found


def refused(effects: Iterable[Effect]) -> list[tuple[str, int]]:
    """To whom, and the number of the event."""
    return [
        (effect.link, number)
        for effect in effects
        if isinstance(effect, Refuse) and effect.events is not None
        for number, _event, _keys in one_by_one(effect.events)
    ]


def headers(effects: Iterable[Effect]) -> dict[str, Header]:
    return {effect.link: events.header for effect in effects if (events := events_in(effect))}  # type: ignore[union-attr]


def xs(*numbers: int) -> list[dict[str, Any]]:
    return [{"x": number} for number in numbers]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_a_client_publishes_is_in_its_name_on_its_tree_and_has_passed_one_more_broker(form: str) -> None:
    b = simple()
    effects = handled(b, form, xs(1, 2), Header("7", "not me", hops=3), "p")
    (tree,) = (t for t in b.client("p").advertisements.values())
    assert headers(effects) == {link: Header(tree, "~p/7", hops=4) for link in ("n", "q")}


@pytest.mark.parametrize("scheme", ["covering", "flooding"])
def test_what_goes_in_a_circle_ends_though_it_is_rescued(form: str, scheme: str) -> None:
    b = simple(scheme=scheme)
    for hops in (254, 255):
        effects = handled(b, form, xs(1), Header("7", "o", hops=hops, rescued=hops + 1), "p")
        assert got(effects, "q") == [1]
        assert got(effects, "n") == ([1] if hops == 254 else [])
        assert {header.hops for header in headers(effects).values()} == {255}


def test_a_publisher_that_subscribes_has_its_own_events_too(form: str) -> None:
    b = simple()
    b.handle(Subscribe(9, parse("x > 1")), "p", 0)
    effects = handled(b, form, xs(1, 2), Header("7", ""), "p")
    assert got(effects, "p") == [2]
    assert got(effects, "q") == [1, 2]


def test_what_came_before_is_dropped_and_what_is_late_is_taken(form: str) -> None:
    b = simple()
    header = Header("7", "")
    assert got(handled(b, form, xs(1, 2, 5), header, "p", [1, 2, 5]), "q") == [1, 2, 5]
    assert handled(b, form, xs(1, 2, 5), header, "p", [1, 2, 5]) == []
    assert b.facts().duplicates == 3
    effects = handled(b, form, xs(2, 3, 4, 6), header, "p", [2, 3, 4, 6])
    assert got(effects, "q") == got(effects, "n") == [3, 4, 6]
    assert (b.facts().duplicates, b.facts().late) == (4, 2)


def test_what_came_in_one_form_is_known_in_the_other(form: str) -> None:
    b = simple()
    other = FORMS[1 - FORMS.index(form)]
    assert got(handled(b, form, xs(1, 3), Header("7", ""), "p", [1, 3]), "q") == [1, 3]
    assert got(handled(b, other, xs(1, 2, 3), Header("7", ""), "p"), "q") == [2]
    assert got(handled(b, form, xs(2, 4), Header("7", ""), "p", [2, 4]), "q") == [4]


def test_what_is_rescued_passes_though_it_came_before(form: str) -> None:
    b = simple()
    handled(b, form, xs(1, 2), Header("7", ""), "p")
    effects = handled(b, form, xs(1, 2), Header("7", "", rescued=9), "p")
    assert got(effects, "q") == got(effects, "n") == [1, 2]
    assert all(header.rescued for header in headers(effects).values())


def test_what_is_rescued_passes_once_under_each_mark(form: str) -> None:
    b = simple()
    for mark in (7, 8):
        assert got(handled(b, form, xs(1), Header("n/0.1", "o", rescued=mark), "n"), "q") == [1]
        assert handled(b, form, xs(1), Header("n/0.1", "o", rescued=mark), "n") == []


@pytest.mark.parametrize("mark", [0, 5])
def test_numbers_of_two_advertisements_are_not_mixed_up(form: str, mark: int) -> None:
    b = simple()
    b.handle(Advertise("8", parse("x >= 0")), "p", 0)
    assert got(handled(b, form, xs(1), Header("7", "", rescued=mark), "p"), "q") == [1]
    assert got(handled(b, form, xs(2), Header("8", "", rescued=mark), "p"), "q") == [2]


def test_what_was_not_advertised_is_refused_and_the_rest_passes(form: str) -> None:
    b = simple()
    effects = handled(b, form, xs(1, -1, 2, -2), Header("7", ""), "p", [3, 4, 6, 7])
    assert refused(effects) == [("p", 4), ("p", 7)]
    assert all("x >= 0" in effect.reason for effect in effects if isinstance(effect, Refuse))
    assert got(effects, "q") == got(effects, "n") == [1, 2]


@pytest.mark.parametrize("key", ["8", "", "b/0.1", "n/0.1"])
def test_a_client_cannot_publish_without_an_advertisement_nor_on_the_tree_of_another(
    form: str, key: str
) -> None:
    b = simple()
    (effect,) = handled(b, form, xs(1), Header(key, ""), "q")
    assert isinstance(effect, Refuse)
    assert "advertise before publishing" in effect.reason


def test_without_advertisements_the_grant_says_what_may_be_published(form: str) -> None:
    b = simple(advertisements=False)
    b.client("p").grants = Grants(advertise=parse("x > 1"))
    effects = handled(b, form, xs(1, 2), Header("7", ""), "p")
    assert refused(effects) == [("p", 1)]
    assert got(effects, "q") == [2]


@pytest.mark.parametrize("matching", MATCHINGS.values())
def test_what_a_client_may_not_see_is_withheld_and_counted(form: str, matching: Callable[[], Any]) -> None:
    b = simple(matching)
    b.client("q").grants = Grants(subscribe=parse("x > 1"))
    assert got(handled(b, form, xs(1, 2, 3), Header("7", ""), "p"), "q") == [2, 3]
    assert got(handled(b, form, xs(1), Header("n/0.1", "o"), "n"), "q") == []
    assert b.facts().withheld == 2


def test_events_from_nobody_go_nowhere_and_those_of_no_tree_go_back(form: str) -> None:
    b = simple()
    assert handled(b, form, xs(1), Header("n/0.1", "o"), "stranger") == []
    assert refused(handled(b, form, xs(1), Header("gone", "o"), "n")) == [("n", 1)]
    assert handled(b, form, xs(1), Header("gone", "o"), "") == []
    assert b.facts().unrouted == 2


@pytest.mark.parametrize("matching", MATCHINGS.values())
@pytest.mark.parametrize("link", ["p", "n"])
def test_bytes_that_are_no_event_are_an_error_and_change_nothing(
    matching: Callable[[], Any], link: str
) -> None:
    b = simple(matching)
    header = Header("7" if link == "p" else "n/0.1", "o")
    bad = Block.of(header, [1, 2], [encode_event(Event({"x": 1})), b"\x81\xa1x\xc0"])
    with pytest.raises(EventError):
        b.handle(bad, link, 0)
    assert got(handled(b, "block", xs(1, 2), header, link), "q") == [1, 2]


def test_flooding_takes_an_event_from_whichever_neighbour_has_it_first(form: str) -> None:
    b = simple(scheme="flooding")
    b.handle(Sync((0, 1), 0, (), ()), "m", 0)
    header = Header("n/0.1", "o")
    effects = handled(b, form, xs(1), header, "m")
    assert got(effects, "q") == [1]
    assert got(effects, "n") == [1]
    assert got(effects, "m") == []
    assert handled(b, form, xs(1), header, "n") == []


def test_a_single_event_that_came_before_is_not_matched_again() -> None:
    b = simple(scheme="flooding")
    header = Header("n/0.1", "o")
    for link in ("n", "m", "n"):
        handled(b, "one by one", xs(1), header, link)
    assert (b.facts().matched, b.facts().duplicates) == (1, 2)


def test_a_client_that_has_gone_gets_nothing_more(form: str) -> None:
    b = simple()
    b.handle(LinkDown(), "q", 0)
    effects = handled(b, form, xs(1), Header("7", ""), "p")
    assert {effect.link for effect in effects} == {"n"}  # type: ignore[union-attr]
    assert b.table.get(Source("q", "5")) is None


def test_what_a_neighbour_wanted_stays_for_a_while_and_ends_with_the_second_word(form: str) -> None:
    b = simple()
    b.handle(LinkDown(keep=True), "n", 0)
    assert got(handled(b, form, xs(1), Header("7", ""), "p"), "n") == [1]
    b.handle(LinkDown(), "n", 0)
    assert got(handled(b, form, xs(2), Header("7", ""), "p", [2]), "n") == []
    assert len(b.table) == 1


# What is left of publishers that have gone


def test_routes_of_a_tree_keep_nothing_of_the_blocks_that_passed() -> None:
    class Watched(EngineMatching):
        """Keeps an eye on what it found."""

        def __init__(self) -> None:
            super().__init__()
            self.found: list[weakref.ref[Any]] = []

        def match_block(self, block: Block) -> Any:
            found = super().match_block(block)
            self.found.append(weakref.ref(found.offsets))
            return found

    matching = Watched()
    core = protocol_named("trees").make("b", matching, CoreSettings())
    for n in range(20):
        core.handle(LinkUp(client=True, origin=f"o{n}"), f"c{n}", 0)
        core.handle(Advertise("1", parse("x >= 0")), f"c{n}", 0)
        handled(core, "block", [{"x": 1}] * 50, Header("1", ""), f"c{n}")
        core.handle(LinkDown(), f"c{n}", 0)
    gc.collect()
    assert len(matching.found) == 20
    assert not any(found() is not None for found in matching.found)
