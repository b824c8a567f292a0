"""What nodes that flood know of who publishes where, and what they make of a node that died."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.clients import Client, Clients
from penstock.broker.effects import UNKNOWN, Behind, Send
from penstock.broker.flood.losses import Losses
from penstock.broker.flood.messages import Ended, Life, Missing, Publishes, Whereabouts
from penstock.broker.flood.whereabouts import Register
from penstock.broker.local import LinkDown, LinkUp, Tick
from penstock.broker.needs import Scan
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.broker.publishers import ANSWERED_KEEPS, Publisher
from penstock.filters.parsing import parse
from penstock.wire.messages import Message, Subscribe

KEEP, LINGER = 60.0, 4.0
DEAD = ("x", 1)

statements = st.builds(
    Publishes,
    st.sampled_from(["p", "q"]),
    st.integers(1, 4),
    st.builds(Life, st.sampled_from(["x", "y"]), st.integers(1, 2), st.integers(1, 9), st.just(0.0)),
    st.lists(st.tuples(st.floats(0, 50), st.integers(1, 5), st.integers(0, 4)), max_size=2).map(tuple),
    st.booleans(),
)


def register(node: str = "z") -> Register:
    return Register(node, 1, KEEP)


def whereabouts(said: Publishes) -> Whereabouts:
    return Whereabouts((said.life,), (said,))


@pytest.mark.property
@given(st.lists(statements, unique_by=(lambda s: (s.origin, s.version), lambda s: s.life)), st.data())
def test_what_is_known_does_not_depend_on_the_order_of_statements(
    said: list[Publishes], data: st.DataObject
) -> None:
    """In any order, repeated, or all at once from a neighbour that has them."""
    one, other, third = register("one"), register("other"), register("third")
    for message in said:
        one.learn(whereabouts(message), 100.0)
    for message in data.draw(st.permutations(said + said[:3])):
        other.learn(whereabouts(message), 100.0)
    for everything in one.all(100.0):
        third.learn(everything, 100.0)
    # What was said before counts too: where a publisher was in earlier turns is known to who heard of it.
    for known in (one, other, third):
        assert known.learn(Whereabouts((), tuple(said)), 100.0) is None
    latest = {s.origin: s for s in sorted(said, key=lambda s: s.version)}
    for life in (DEAD, ("y", 1)):
        for known in (one, other, third):
            left_for_long = all(s.left for s in latest.values())
            answer = known.missed(life, 200.0, 300.0, LINGER)
            # Nobody has said anything since: whoever had not left is yet to be heard of.
            assert (answer is None) == (not left_for_long)


def test_a_publisher_that_is_there_has_answered_and_nothing_was_acknowledged() -> None:
    known = register()
    known.learn(whereabouts(Publishes("p", 1, Life("x", 1, 1))), 0.0)
    assert known.missed(DEAD, 10.0, 20.0, LINGER) is None
    known.learn(whereabouts(Publishes("p", 2, Life("y", 1, 1))), 21.0)
    assert known.missed(DEAD, 10.0, 20.0, LINGER) == 0


@pytest.mark.parametrize(("acked_at", "missed"), [(9.0, 0), (13.0, 0), (14.5, 7)])
def test_what_the_dead_acknowledged_counts_once_it_waited_for_nobody(acked_at: float, missed: int) -> None:
    known = register()
    known.learn(whereabouts(Publishes("p", 1, Life("x", 1, 1))), 0.0)
    acked = ((21.0 - acked_at, 7, 1),)
    known.learn(whereabouts(Publishes("p", 2, Life("y", 1, 1), acked)), 21.0)
    assert known.missed(DEAD, 10.0, 20.0, LINGER) == missed


def test_what_others_acknowledged_that_are_still_there_is_theirs_to_send_again() -> None:
    known = register()
    known.learn(whereabouts(Publishes("p", 1, Life("y", 1, 1))), 0.0)
    acked = ((5.0, 7, 1),)
    known.learn(whereabouts(Publishes("p", 2, Life("w", 1, 1), acked)), 21.0)
    assert known.missed(DEAD, 10.0, 20.0, LINGER) == 7
    known.learn(Whereabouts((Life("y", 1, 2),)), 22.0)
    assert known.missed(DEAD, 10.0, 20.0, LINGER) == 0


def test_with_too_many_publishers_nobody_claims_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.flood.whereabouts._PUBLISHERS_MAX", 2)
    known = register()
    for number, origin in enumerate("pqr", 1):
        known.learn(whereabouts(Publishes(origin, 1, Life("y", 1, number))), 30.0)
    assert known.missed(DEAD, 10.0, 20.0, LINGER) is None


def test_publishers_that_left_long_ago_are_forgotten() -> None:
    known = register()
    known.come(Publisher("p", 1), 0.0)
    assert known.leave("q", 0.0) is None
    left = known.leave("p", 1.0)
    assert left is not None
    assert left.publishers[0].left
    known.forget(2.0)
    assert [m.publishers for m in known.all(2.0)] != [()]
    known.forget(1_000.0)
    assert [m.publishers for m in known.all(1_000.0)] == [()]


class Node:
    """A node with two clients, at 0 s; one wants something."""

    def __init__(self) -> None:
        self.register, self.clients = register(), Clients()
        for link in ("reader", "idle"):
            self.clients[link] = Client()
        self.clients["reader"].subscriptions[1] = "1"
        self.losses = Losses(self.register, self.clients, keep=KEEP, linger=LINGER)

    def told(self, now: float) -> list[tuple[str, int]]:
        found = list(self.losses.on_tick(now))
        assert {one.reason for one in found} <= {"unreachable"}
        return [(one.link, one.count) for one in found]

    def end(self, seconds: float, now: float) -> None:
        self.losses.open(Ended(*DEAD, "y", (1, 1), seconds), now)


def test_clients_are_told_once_how_many_events_were_missed() -> None:
    node = Node()
    node.register.learn(whereabouts(Publishes("p", 1, Life("x", 1, 1))), 0.0)
    node.end(10.0, 20.0)
    assert (node.told(20.0), node.losses.since("reader")) == ([], 10.0)
    node.register.learn(whereabouts(Publishes("p", 2, Life("y", 1, 1), ((3.0, 7, 1),))), 21.0)
    assert node.told(22.0) == [("reader", 7)]
    assert (node.told(23.0), node.losses.since("reader")) == ([], float("inf"))
    # It is remembered for those who come later, and who have missed more.
    node.clients["late"] = Client()
    node.clients["late"].subscriptions[1] = "1"
    node.clients["late"].came_at = 30.0
    node.losses.come("late", 5.0, 30.0)
    assert node.told(31.0) == [("late", 7)]


def test_where_a_publisher_does_not_turn_up_clients_are_told_in_the_end() -> None:
    node = Node()
    node.register.learn(whereabouts(Publishes("p", 1, Life("x", 1, 1))), 0.0)
    node.end(10.0, 20.0)
    assert node.told(139.0) == []
    assert node.told(141.0) == [("reader", UNKNOWN)]
    assert node.told(142.0) == []
    assert len(list(node.losses.all(142.0))) == 1
    node.told(400.0)
    assert list(node.losses.all(400.0)) == []


def test_a_node_that_is_there_after_all_has_lost_nothing() -> None:
    node = Node()
    node.register.learn(whereabouts(Publishes("p", 1, Life("x", 1, 1))), 0.0)
    node.end(10.0, 20.0)
    node.register.learn(Whereabouts((Life("x", 1, 2),)), 25.0)
    assert node.told(400.0) == []
    assert list(node.losses.all(400.0)) == []


@pytest.mark.parametrize(("neighbours", "until"), [(["y"], KEEP), ([], ANSWERED_KEEPS * KEEP)])
def test_clients_know_when_nothing_is_missing_any_more(neighbours: list[str], until: float) -> None:
    """A node that has met nobody since it was started does not know who is missing."""
    node = protocol_named("flood").make("x", Scan(), CoreSettings(keep=KEEP, linger=LINGER))
    for neighbour in neighbours:
        node.handle(LinkUp(), neighbour, 0.0)
    node.handle(LinkUp(client=True), "reader", 0.0)
    node.handle(Subscribe(1, parse("x = 1"), seconds=20.0), "reader", 0.0)

    def said(now: float) -> list[float]:
        return [one.seconds for one in node.handle(Tick(), "", now) if isinstance(one, Behind)]

    assert said(until - 1.0) == [until - 1.0 + 20.0]
    assert said(until + 1.0) == [0.0]
    assert said(until + 2.0) == []


def test_who_published_what_a_node_took_with_it_has_not_missed_it() -> None:
    node = Node()
    node.clients["writer"] = writer = Client("p")
    writer.subscriptions[1], writer.advertisements["1"] = "1", ""
    node.register.learn(whereabouts(Publishes("p/1", 1, Life("x", 1, 1))), 0.0)
    node.end(10.0, 20.0)
    node.register.learn(whereabouts(Publishes("p/1", 2, Life("y", 1, 1), ((3.0, 7, 1),))), 21.0)
    assert node.told(22.0) == [("reader", 7)]


# Lives that nobody has noticed the end of


class Came(Node):
    """A node to which the reader comes at 0 s; it may have missed events since -20 s."""

    def __init__(self) -> None:
        super().__init__()
        self.losses.come("reader", -20.0, 0.0)

    def learn(self, *acked: tuple[float, int, int], at: float = 1.0, home: str = "y", turn: int = 2) -> None:
        """A publisher is at a node, and reports when events were acknowledged."""
        ages = tuple((at - when, count, of) for when, count, of in acked)
        self.register.learn(whereabouts(Publishes("p", turn, Life(home, 1, turn), ages)), at)


def test_a_client_that_came_is_told_what_publishers_report_of_lives_that_nobody_has_heard_of() -> None:
    node = Came()
    node.learn((-5.0, 7, 1))
    # Those who have heard of it, and may be able to send it, have this time to say so.
    assert node.told(KEEP - 1.0) == []
    assert node.told(KEEP) == [("reader", 7)]
    assert node.told(KEEP + 1.0) == []
    node.learn((-2.0, 9, 2), (-5.0, 7, 1), at=KEEP + 2.0, home="w", turn=3)
    assert node.told(KEEP + 3.0) == []


@pytest.mark.parametrize(
    ("acked", "missed"),
    [
        # Before the client was away; while a node waited for it; as the first life waits, or an unknown one.
        ([(-21.0, 7, 1)], False),
        ([(-21.0, 7, 5), (-17.0, 7, 5)], False),
        ([(-17.0, 7, 1)], False),
        ([(-17.0, 7, 5)], True),
        ([(-21.0, 7, 5), (-15.0, 7, 5)], True),
    ],
)
def test_what_a_node_waited_with_for_who_was_away_was_not_missed(
    acked: list[tuple[float, int, int]], missed: bool
) -> None:
    node = Came()
    node.learn(*acked, turn=6)
    assert bool(node.told(KEEP)) == missed


def test_what_is_kept_by_a_node_that_others_have_heard_of_is_not_lost() -> None:
    """It sends it again. A neighbour that comes says where the publisher was in earlier turns."""
    neighbour, node = register("y"), Came()
    neighbour.learn(whereabouts(Publishes("p", 1, Life("x", 1, 1))), -50.0)
    neighbour.learn(whereabouts(Publishes("p", 2, Life("w", 1, 1), ((6.0, 7, 1),))), 1.0)
    for message in neighbour.all(2.0):
        node.register.learn(message, 2.0)
    assert node.told(KEEP) == []
    # It has begun anew, and nobody has noticed that its earlier life is over.
    node.register.learn(Whereabouts((Life("x", 2, 3),)), KEEP + 1.0)
    assert node.told(KEEP + 2.0) == [("reader", 7)]


@pytest.mark.parametrize("seconds", [30.0, 10.0])
def test_a_client_is_not_told_of_the_same_by_both_who_noticed_and_who_reports(seconds: float) -> None:
    """Nobody was noticed to be gone for as long as the client, or for less."""
    node = Came()
    node.register.learn(whereabouts(Publishes("p", 1, Life("x", 1, 1))), -50.0)
    node.losses.open(Ended(*DEAD, "y", (1, 1), seconds), 1.0)
    node.learn((-1.0, 7, 1), at=2.0)
    assert node.told(2.0) == [("reader", 7)]
    # What was noticed is remembered for a time that ends before this does.
    node.register.learn(Whereabouts((Life("x", 2, 3),)), 50.0)
    node.losses.miss_unheard("reader", -20.0, 50.0)
    assert [told for at in range(60, 600, 10) for told in node.told(float(at))] == []


def test_what_a_client_has_published_itself_it_has_not_missed() -> None:
    node = Came()
    node.clients["reader"].origin = "p"
    ages = ((6.0, 7, 1),)
    node.register.learn(whereabouts(Publishes("p/1", 2, Life("y", 1, 1), ages)), 1.0)
    assert node.told(KEEP) == []


# What other nodes are missing


def test_clients_know_what_another_node_is_missing() -> None:
    node = protocol_named("flood").make("x", Scan(), CoreSettings(keep=KEEP, linger=LINGER))
    for link, is_client in (("y", False), ("z", False), ("reader", True)):
        node.handle(LinkUp(client=is_client), link, 0.0)

    def said(message: Message, link: str, now: float) -> tuple[list[float], list[str]]:
        effects = node.handle(message, link, now)
        behind = [one.seconds for one in effects if isinstance(one, Behind)]
        return behind, [one.link for one in effects if isinstance(one, Send)]

    missing = Missing("far", (1, 5), 20.0)
    assert said(missing, "y", 1_000.0) == ([20.0], ["z"])
    # It has come another way, too.
    assert said(missing, "z", 1_001.0) == ([], [])
    assert said(Missing("far", (1, 4), None), "z", 1_002.0) == ([], [])
    assert said(Missing("far", (1, 6), None), "y", 1_003.0) == ([0.0], ["z"])
    assert said(Missing("far", (1, 7), 0.0), "y", 1_004.0) == ([], ["z"])
    assert said(Tick(), "", 1_005.0)[0] == [1.0]
    # Its next life does not know it, and it may never come back.
    assert said(Missing("far", (2, 1), None), "y", 1_006.0) == ([2.0], ["z"])
    assert said(Tick(), "", 1_007.0 + ANSWERED_KEEPS * KEEP)[0] == [0.0]


def test_a_node_says_what_it_is_missing_when_a_neighbour_goes_and_for_as_long_as_that_lasts() -> None:
    node = protocol_named("flood").make("x", Scan(), CoreSettings(keep=KEEP, linger=LINGER))
    for link in ("y", "z"):
        node.handle(LinkUp(), link, 0.0)
    node.handle(Missing("far", (1, 5), 20.0), "y", 1_000.0)

    def said(message: Message, link: str, now: float) -> list[tuple[str, str, float | None]]:
        sent = [one for one in node.handle(message, link, now) if isinstance(one, Send)]
        missing = [(one.link, one.message) for one in sent if isinstance(one.message, Missing)]
        return [(link, message.node, message.seconds) for link, message in missing]

    assert said(LinkDown(silent=3.0), "y", 1_000.0) == [("z", "x", 3.0)]
    assert said(Tick(), "", 1_001.0) == []
    assert said(Tick(), "", 1_000.0 + KEEP) == [("z", "x", KEEP + 3.0)]
    # Who comes is told what others have said, too.
    again = 1_001.0 + KEEP
    came = said(LinkUp(), "y", again)
    assert came == [("y", "far", KEEP + 21.0), ("y", "x", KEEP + 4.0), ("z", "x", KEEP + 4.0)]
    assert said(Tick(), "", again + KEEP + 1.0) == [("y", "x", None), ("z", "x", None)]
    assert said(Tick(), "", again + 3 * KEEP) == []


def test_what_a_node_was_missing_that_goes_is_missing_here() -> None:
    node = protocol_named("flood").make("x", Scan(), CoreSettings(keep=KEEP, linger=LINGER))
    for link in ("y", "z"):
        node.handle(LinkUp(), link, 0.0)
    node.handle(Missing("y", (1, 5), 20.0), "y", 1_000.0)
    sent = [one for one in node.handle(LinkDown(silent=3.0), "y", 1_001.0) if isinstance(one, Send)]
    assert [one.message.seconds for one in sent if isinstance(one.message, Missing)] == [21.0]
