"""What a broker tells its clients that may have missed events, message by message."""

import pytest

from penstock.broker.effects import Behind, Effect, Missed, Send
from penstock.broker.local import LinkDown, LinkUp, Tick
from penstock.broker.needs import Scan
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.broker.publishers import Publisher
from penstock.broker.trees.reports import SILENT, reported
from penstock.broker.trees.trees import Trees
from penstock.filters.parsing import parse
from penstock.wire.messages import (
    Advertise,
    CatchUp,
    CaughtUp,
    Control,
    Felled,
    Message,
    Subscribe,
    Sync,
    Unadvertise,
)

KEEP, LEASE, LINGER = 60.0, 30.0, 2.0
SETTINGS = CoreSettings(lease=LEASE, keep=KEEP, linger=LINGER)

X, Y = Advertise("x", parse("x = 1"), 1), Advertise("y", parse("x = 2"), 1)


class Case:
    """A broker with a neighbour n, which answers at once what it is asked for."""

    def __init__(self) -> None:
        self.core = protocol_named("trees").make("b", Scan(), SETTINGS)
        self.now = 0.0
        self.session = 0
        self.number = 0
        self.behind: dict[str, float] = {}
        """What each client was told last: for how many seconds it is behind."""
        self.missed: list[tuple[str, int, str]] = []
        self.asked: dict[str, float] = {}
        """About how many of the last seconds the neighbour was asked, by tree."""
        self.tick(0.0)

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Behind):
                self.behind[effect.link] = effect.seconds
            elif isinstance(effect, Missed):
                self.missed.append((effect.link, effect.count, effect.reason))
            elif isinstance(effect, Send) and isinstance(effect.message, Control):
                for body in effect.message.bodies:
                    if isinstance(body, CatchUp):
                        self.asked[body.tree] = body.seconds
                        self.number += 1
                        answer = CaughtUp(body.tree, body.number)
                        self.say(Control((1, self.session), self.number, (answer,)), "n")

    def say(self, message: Message, link: str = "") -> None:
        self.take(self.core.handle(message, link, self.now))

    def tick(self, seconds: float) -> None:
        """Let time pass, second by second."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 1.0)
            self.say(Tick())
            if self.session:
                self.renew()

    def renew(self) -> None:
        """The neighbour is there."""
        self.number += 1
        self.say(Control((1, self.session), self.number, ()), "n")

    def meet(self, *there: Advertise, gone: tuple[Felled, ...] = (), knows_gone: bool = False) -> None:
        """The neighbour comes, and says which trees there are, and which no longer."""
        self.session, self.number = self.session + 1, 0
        self.say(LinkUp(), "n")
        self.say(Sync((1, self.session), 0, there, (), gone=gone, knows_gone=knows_gone), "n")

    def come(self, link: str, wanted: str, *, silent: float = 0.0) -> None:
        """A client comes, which has not heard its last broker for so long."""
        self.say(LinkUp(client=True), link)
        self.say(Subscribe("s", parse(wanted), seconds=silent), link)


def test_who_wants_nothing_of_a_tree_that_is_gone_is_not_behind_because_of_it() -> None:
    case = Case()
    case.meet(X, Y)
    case.come("c", "x = 1")
    case.come("d", "x = 2")
    case.tick(KEEP + 1.0)
    case.say(LinkDown(silent=1.0), "n")
    # Both are gone when the lease of the neighbour is over, and one comes back.
    case.tick(LEASE + 2.0)
    case.meet(Advertise(Y.tree, Y.filter, 2))
    case.tick(2.0)
    assert case.behind["c"] > 0
    assert case.behind["d"] == 0


@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_broker_that_has_just_started_is_told_what_its_clients_may_miss(is_told_first: bool) -> None:
    case = Case()
    gone = (Felled(X, 3.0),)
    if is_told_first:
        case.meet(Y, gone=gone, knows_gone=True)
    case.come("c", "x = 1", silent=5.0)
    case.come("d", "x = 2", silent=5.0)
    if not is_told_first:
        case.meet(Y, gone=gone, knows_gone=True)
    case.tick(8.0)
    assert case.behind["c"] >= 8.0
    assert case.behind["d"] == 0
    case.tick(3 * KEEP)
    # Nobody has said anything of it.
    assert case.missed == [("c", 0, "unreachable")]


def test_a_client_that_comes_is_behind_for_as_long_as_it_was_before() -> None:
    """Nobody has answered for what it missed before it came."""
    case = Case()
    case.meet(X, Y, knows_gone=True)
    case.tick(20.0)
    case.say(LinkDown(silent=1.0), "n")
    case.come("c", "x = 1", silent=10.0)
    for seconds in (6.0, 12.0, 40.0):
        case.tick(20.0 + seconds - case.now)
        assert case.behind["c"] == pytest.approx(10.0 + seconds, abs=0.1)


def test_a_broker_that_has_just_started_does_not_trust_others_that_have() -> None:
    case = Case()
    case.meet(Y)
    case.come("d", "x = 2", silent=5.0)
    case.tick(KEEP - 2.0)
    assert "d" not in case.behind
    case.tick(5.0)
    assert case.behind["d"] == 0


def test_what_a_neighbour_says_of_a_tree_that_can_be_reached_makes_nobody_miss_anything() -> None:
    case = Case()
    case.meet(X, gone=(Felled(X, 3.0),), knows_gone=True)
    case.come("c", "x = 1", silent=5.0)
    case.tick(8.0)
    assert case.behind["c"] == 0
    case.tick(4 * KEEP)
    assert case.missed == []


def test_a_report_of_a_tree_that_nobody_asks_for_counts() -> None:
    """A publisher was at a broker, at another that knew nobody here and ended, and is at a third one now."""
    case = Case()
    case.meet(Y)
    case.tick(KEEP + 1.0)
    # The client was away for ten seconds; the tree ended a second later than it left.
    ended = Felled(Advertise("x2", X.filter, 1, "p", 2, age=20.0), 9.0, unadvertised=True, ended=True)
    case.meet(Y, gone=(ended,), knows_gone=True)
    case.come("c", "x = 1", silent=10.0)
    acked = ((9.2, 3, 2),)
    case.meet(Y, Advertise("x3", X.filter, 1, "p", 3, acked), gone=(ended,), knows_gone=True)
    case.tick(3 * KEEP)
    assert case.missed == [("c", 3, "unreachable")]


def test_who_was_here_until_a_tree_was_unadvertised_misses_nothing_of_it() -> None:
    case = Case()
    case.meet(Y, Advertise("x2", X.filter, 1, "p", 2, age=5.0))
    case.tick(KEEP + 1.0)
    case.come("c", "x = 1", silent=10.0)
    assert case.asked["x2"] >= 10.0
    case.tick(2.0)
    case.number += 1
    case.say(Control((1, case.session), case.number, (Unadvertise("x2", used=True, ended=True),)), "n")
    case.number += 1
    acked = ((5.0, 3, 2),)
    case.say(Control((1, case.session), case.number, (Advertise("x3", X.filter, 1, "p", 3, acked),)), "n")
    case.tick(4 * KEEP)
    assert case.missed == []


@pytest.mark.parametrize(("away_for", "is_told"), [(10.0, True), (2.0, False)])
def test_what_a_broker_that_has_ended_kept_is_missed_by_who_was_away_before(
    away_for: float, *, is_told: bool
) -> None:
    case = Case()
    case.meet(Y)
    case.tick(KEEP + 1.0)
    ended = Felled(X, 3.0, unadvertised=True, ended=True)
    case.meet(Y, gone=(ended,), knows_gone=True)
    case.come("c", "x = 1", silent=away_for)
    case.tick(4 * KEEP)
    assert case.missed == ([("c", 0, "unreachable")] if is_told else [])


def test_what_is_due_soon_is_told_with_what_is_due() -> None:
    case = Case()
    case.meet(X, Y)
    case.tick(KEEP + 1.0)
    case.meet(gone=(Felled(X, 3.0), Felled(Y, 3.0)), knows_gone=True)
    case.come("c", "x = 1", silent=10.0)
    case.tick(8.0)
    case.say(Subscribe("t", parse("x = 2"), seconds=18.0), "c")
    case.tick(4 * KEEP)
    # Both at once: whatever carries effects out tells a client once for all that comes at a time.
    assert case.missed == [("c", 0, "unreachable")]


# What publishers report of a broker's own tree


def known(*planted: tuple[str, int, str, tuple[tuple[float, int, int], ...]]) -> Trees:
    """Silent trees: their names, turns and ways, and what was acknowledged, of one publisher."""
    trees = Trees()
    for name, turn, way, acked in planted:
        trees.plant(name, SILENT, 0, way, Publisher("p", turn, acked))
    return trees


def asked(trees: Trees) -> int | None:
    """What was missed since 10 of the first tree of a broker b, which is gone."""
    return reported(trees, "b/1.1", 10.0, LINGER, apart_since=-100.0)


def test_a_publisher_that_has_moved_on_says_how_many_events_may_be_missing() -> None:
    before = ("b/1.2", 1, "m", ())
    assert asked(known(before)) is None
    assert asked(known(before, ("n/1.2", 2, "n", ((11.0, 5, 1),)))) == 0
    assert asked(known(before, ("n/1.2", 2, "n", ((13.0, 5, 1),)))) == 5


def test_a_publisher_that_nobody_knew_of_counts_with_what_it_says() -> None:
    """It may have come while the broker could not be reached, and that had nobody to wait for."""
    assert asked(known(("n/1.2", 2, "n", ((11.0, 5, 1),)))) == 5
    assert asked(known(("n/1.2", 2, "n", ((9.0, 5, 1),)))) == 0


def test_what_was_acknowledged_at_other_brokers_is_not_missing() -> None:
    elsewhere = ("m/1.2", 1, "m", ())
    assert asked(known(elsewhere)) == 0
    assert asked(known(elsewhere, ("n/1.2", 2, "n", ((13.0, 5, 1),)))) == 0
    # In several turns, of which one may have been there.
    assert asked(known(elsewhere, ("n/1.2", 3, "n", ((13.0, 5, 0),)))) == 5


def test_a_publisher_that_cannot_be_reached_itself_may_have_been_there() -> None:
    trees = known(("m/1.2", 1, "m", ()))
    trees.orphan(["m/1.2"], 12.0)
    assert asked(trees) is None
    trees.fell("m/1.2", 12.0, unadvertised=False)
    assert asked(trees) is None
    # Had it gone there long before, that would have been heard.
    assert reported(trees, "b/1.1", 10.0, LINGER, apart_since=13.0) == 0


def test_a_publisher_that_left_before_the_broker_was_lost_has_nothing_to_say() -> None:
    trees = known(("b/1.2", 1, "m", ()))
    trees.fell("b/1.2", 9.0, unadvertised=True)
    assert asked(trees) == 0
    trees = known(("b/1.2", 1, "m", ()))
    trees.fell("b/1.2", 11.0, unadvertised=True)
    assert asked(trees) is None


def test_another_life_of_the_broker_is_another_broker() -> None:
    assert asked(known(("b/1.2", 1, "m", ()), ("b/2.2", 2, "n", ((11.0, 5, 1),)))) == 0


def test_nobody_misses_events_of_a_tree_from_before_it_was_there() -> None:
    case = Case()
    case.meet(Y)
    case.come("c", "x = 1")
    case.tick(KEEP + 1.0)
    case.meet(Y, Advertise(X.tree, X.filter, 1, age=4.0))
    # Four seconds, and what may have been under way: not all the time for which the client is there.
    assert 4.0 <= case.asked["x"] <= 7.0


@pytest.mark.parametrize("acked", [0, 5])
def test_a_client_that_comes_after_the_report_of_a_publisher_is_told_what_it_says(acked: int) -> None:
    """The broker has heard of the publisher's next broker, and lost the way to the one before, by then."""
    acked_there = ((1.0, acked, 1),) if acked else ()
    old = Advertise("x", parse("x = 1"), 1, "p", 1, age=100.0)
    first, again = (Advertise("z", parse("x = 1"), epoch, "p", 2, acked_there) for epoch in (1, 2))
    case = Case()
    case.meet(first, old)
    case.say(LinkDown(silent=0.0), "n")
    case.meet(again)
    case.come("c", "x = 1", silent=10.0)
    case.tick(4 * KEEP)
    assert [count for _link, count, _why in case.missed] == ([acked] if acked else [])
