"""What concerns very many subscriptions is done in slices, and comes to the same as if done at once."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.effects import Deliver, Effect, Send, Wake
from penstock.broker.local import LinkDown, LinkUp, Woken
from penstock.broker.needs import Scan
from penstock.broker.trees.broker import Broker
from penstock.filters.parsing import parse
from penstock.model.events import Event
from penstock.routing.schemes.catalog import scheme_named
from penstock.wire.blocks import Header
from penstock.wire.messages import (
    Advertise,
    Alive,
    CatchUp,
    Control,
    Message,
    Publish,
    Resync,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
)

LINKS = ("n", "m", "o")
CLIENTS = ("c", "d")
FILTERS = [parse(text) for text in ("x > 1", "x > 2", "x > 1 and y = 1", "y = 1", "true", "x < 9")]


class Neighbours:
    """A broker, and what its neighbours have been told: each change as it came."""

    def __init__(self, slice_size: int, scheme: str = "covering") -> None:
        self.broker = Broker(
            "b", scheme_named(scheme), Scan(), condenses=True, keep=60.0, linger=2.0, slice_size=slice_size
        )
        self.numbers = dict.fromkeys(LINKS, 0)
        self.told: dict[str, dict[Any, Subscribe]] = {}
        self.bodies: dict[str, list[Message]] = {link: [] for link in LINKS}
        self.is_owing = False

    def say(self, message: Message, link: str, now: float) -> None:
        self._take(self.broker.handle(message, link, now), now)

    def control(self, link: str, *bodies: Any, now: float) -> None:
        self.numbers[link] += 1
        self.say(Control((1, 1), self.numbers[link], bodies), link, now)

    def up(self, link: str, now: float) -> None:
        self.told[link] = {}
        self.say(LinkUp(), link, now)
        self.numbers[link] = 0
        self.say(Sync((1, 1), 0, (), ()), link, now)

    def sync(self, link: str, subscriptions: list[Subscribe], parts: int, now: float) -> None:
        """A neighbour says all that it asks for, in so many parts."""
        size = -(-len(subscriptions) // parts) or 1
        for part in range(parts):
            some = tuple(subscriptions[part * size : (part + 1) * size])
            self.say(Sync((1, 1), self.numbers[link], (), some, part, part < parts - 1), link, now)

    def again(self, link: str, now: float) -> None:
        self.say(LinkDown(), link, now)
        self.up(link, now)

    def leave(self, client: str, now: float) -> None:
        """A client leaves, and another one comes under the same name."""
        self.say(LinkDown(), client, now)
        self.say(LinkUp(client=True), client, now)

    def _take(self, effects: list[Effect], now: float) -> None:
        self.is_owing = any(isinstance(effect, Wake) and effect.at <= now for effect in effects)
        for effect in effects:
            if not isinstance(effect, Send):
                continue
            if isinstance(effect.message, Sync):
                self.told[effect.link] = {each.key: each for each in effect.message.subscriptions}
            elif isinstance(effect.message, Control):
                for body in effect.message.bodies:
                    self.bodies[effect.link].append(body)
                    self._change(self.told[effect.link], body)

    @staticmethod
    def _change(told: dict[Any, Subscribe], body: Message) -> None:
        if isinstance(body, Subscribe):
            told[body.key] = Subscribe(body.key, body.filter, body.trees)
            for key in body.replaces:
                told.pop(key, None)
        elif isinstance(body, Unsubscribe):
            told.pop(body.key, None)

    def wake(self, now: float) -> None:
        self.say(Woken(), "", now)

    def rest(self, now: float) -> None:
        """Go on until nothing is owed."""
        for _ in range(10_000):
            self.wake(now)
            if not self.is_owing:
                return
        raise AssertionError("it never ends")

    @property
    def state(self) -> Any:
        asked = {link: dict(scheme.asked) for link, scheme in self.broker.schemes.items()}
        return dict(self.broker.table.entries()), asked, self.told


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("advertise"), st.sampled_from(LINKS), st.integers(0, 3), st.integers(0, 5)),
        st.tuples(st.just("unadvertise"), st.sampled_from(LINKS), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("subscribe"), st.sampled_from(LINKS), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.just("unsubscribe"), st.sampled_from(LINKS), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("want"), st.sampled_from(CLIENTS), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.just("unwant"), st.sampled_from(CLIENTS), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("leave"), st.sampled_from(CLIENTS), st.just(0), st.just(0)),
        st.tuples(st.just("down"), st.sampled_from(LINKS), st.just(0), st.just(0)),
        st.tuples(st.just("sync"), st.sampled_from(LINKS), st.integers(0, 5), st.integers(0, 5)),
    ),
    max_size=25,
)


def take(case: Neighbours, step: tuple[str, str, int, int], at: int, now: float) -> None:
    """Have something happen."""
    kind, link, number, which = step
    f = FILTERS[which]
    trees = frozenset(f"t{n}" for n in range(number % 4 + 1))
    steps: dict[str, Callable[[], None]] = {
        "advertise": lambda: case.control(link, Advertise(f"t{number}", f, at), now=now),
        "unadvertise": lambda: case.control(link, Unadvertise(f"t{number}"), now=now),
        "subscribe": lambda: case.control(link, Subscribe(f"{link}{number}", f, trees), now=now),
        "unsubscribe": lambda: case.control(link, Unsubscribe(f"{link}{number}"), now=now),
        "want": lambda: case.say(Subscribe(number, f), link, now),
        "unwant": lambda: case.say(Unsubscribe(number), link, now),
        "leave": lambda: case.leave(link, now),
        "down": lambda: case.again(link, now),
        "sync": lambda: case.sync(
            link, [Subscribe(f"{link}{n}", f, trees) for n in range(number)], which + 1, now
        ),
    }
    steps[kind]()


def delivered(case: Neighbours, event: Publish, now: float) -> dict[str, list[Any]]:
    """Which clients get an event that a neighbour sends, under which keys; it goes to nobody else."""
    effects = case.broker.handle(event, "n", now)
    assert all(effect.link in LINKS for effect in effects if isinstance(effect, Send))
    return {e.link: sorted(e.events.keys or ()) for e in effects if isinstance(e, Deliver)}


@given(STEPS, st.integers(1, 3), st.data())
def test_slices_come_to_the_same_as_all_at_once_whatever_happens_between_them(
    steps: list[tuple[str, str, int, int]], size: int, data: st.DataObject
) -> None:
    whole, sliced = Neighbours(10**9), Neighbours(size)
    for case in (whole, sliced):
        for link in LINKS:
            case.up(link, 0.0)
        for client in CLIENTS:
            case.say(LinkUp(client=True), client, 0.0)
    for at, step in enumerate(steps, 1):
        for case in (whole, sliced):
            take(case, step, at, float(at))
        for _ in range(data.draw(st.integers(0, 3))):
            sliced.wake(float(at))
        # Whatever is left to be done, clients get what they want, and nobody else anything.
        event = Publish(Event({"x": 3, "y": 1}), Header("t0", "p/1"), at)
        assert delivered(sliced, event, float(at)) == delivered(whole, event, float(at))
    for case in (whole, sliced):
        case.rest(1_000.0)
    assert sliced.state == whole.state
    assert not sliced.broker.table.departed


@given(st.integers(1, 40), st.integers(1, 7))
def test_a_question_for_what_was_missed_goes_behind_the_subscriptions_that_it_is_for(
    count: int, size: int
) -> None:
    case = Neighbours(size, scheme="simple")
    case.up("n", 0.0)
    case.say(LinkUp(client=True), "c", 0.0)
    for number in range(count):
        case.say(Subscribe(number, parse(f"x = {number}")), "c", 1.0)
    case.control("n", Advertise("t", parse("true"), 1), now=2.0)
    case.rest(3.0)
    kinds = [type(body) for body in case.bodies["n"]]
    assert kinds.count(Subscribe) == count
    assert kinds.index(CatchUp) > max(at for at, kind in enumerate(kinds) if kind is Subscribe)
    (asked,) = [body for body in case.bodies["n"] if isinstance(body, CatchUp)]
    # Since the client came, also if the question had to wait.
    assert asked.seconds >= 2.0


def test_a_neighbour_is_told_much_in_messages_of_bounded_length() -> None:
    case = Neighbours(10)
    for link in ("n", "m"):
        case.up(link, 0.0)
    case.control("n", Advertise("t", parse("true"), 1), now=1.0)
    subscriptions = [Subscribe(f"k{i}", parse(f"x = {i}"), frozenset(["t"])) for i in range(95)]
    effects = case.broker.handle(Control((1, 1), 1, tuple(subscriptions)), "m", 2.0)
    told = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Control)]
    assert [len(message.bodies) for message in told] == [10] * 9 + [5]


@given(st.integers(0, 30), st.integers(1, 7))
def test_a_broker_says_all_again_in_parts_that_come_to_the_same(count: int, size: int) -> None:
    case = Neighbours(size, scheme="simple")
    case.up("n", 0.0)
    case.say(LinkUp(client=True), "c", 0.0)
    case.control("n", Advertise("t", parse("true"), 1), now=1.0)
    for number in range(count):
        case.say(Subscribe(number, parse(f"x = {number}")), "c", 1.0)
    case.rest(2.0)
    effects = case.broker.handle(Resync(), "n", 3.0)
    parts = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Sync)]
    assert all(len(part.subscriptions) <= size for part in parts)
    other = Neighbours(size)
    other.told["n"] = {}
    other.say(LinkUp(), "n", 0.0)
    other.say(Sync((0, 0), 0, (), (Subscribe("old", parse("x = 1"), frozenset(["t"])),)), "n", 1.0)
    for part in parts:
        other.say(part, "n", 3.0)
    assert len(other.broker.table.items("n")) == count
    assert "old" not in dict(other.broker.table.items("n"))


def test_a_part_that_is_missing_is_noticed_whichever_it_is() -> None:
    def parts_of(number: int) -> list[Sync]:
        some = [Subscribe(f"k{n}", parse(f"x = {n}"), frozenset(["t"])) for n in range(3)]
        return [Sync((2, 1), number, (), (each,), part, part < 2) for part, each in enumerate(some)]

    for missing in range(3):
        case = Neighbours(10)
        case.up("n", 0.0)
        asked = []
        for part in [part for part in parts_of(5) if part.part != missing]:
            asked += case.broker.handle(part, "n", 1.0)
        asked += case.broker.handle(Alive((2, 1), 5), "n", 2.0)
        assert Send("n", Resync()) in asked
        for part in parts_of(5):
            case.broker.handle(part, "n", 3.0)
        assert case.broker.handle(Alive((2, 1), 5), "n", 4.0) == []
        assert sorted(key for key, _entry in case.broker.table.items("n")) == ["k0", "k1", "k2"]


@pytest.mark.parametrize("how", ["down", "sync"])
def test_what_a_neighbour_no_longer_asks_for_is_forgotten_in_slices(how: str) -> None:
    case = Neighbours(10)
    case.up("n", 0.0)
    wanted = [Subscribe(f"k{n}", parse(f"x = {n}"), frozenset(["t"])) for n in range(95)]
    case.control("n", *wanted, now=1.0)
    if how == "down":
        case.say(LinkDown(), "n", 2.0)
    else:
        case.sync("n", [], 1, 2.0)
    # To forget one counts for several of a slice.
    assert len(case.broker.table.items("n")) == 92
    if how == "sync":
        # What is asked for anew meanwhile stays.
        case.control("n", *wanted[:5], now=3.0)
    case.rest(4.0)
    assert len(case.broker.table.items("n")) == (5 if how == "sync" else 0)


def bound_to_many(size: int, trees: int) -> Neighbours:
    """A broker with a client, and a neighbour that advertises very much."""
    case = Neighbours(size)
    case.up("n", 0.0)
    case.say(LinkUp(client=True), "c", 0.0)
    for number in range(trees):
        case.control("n", Advertise(f"t{number}", parse("true"), 1, age=60.0), now=1.0)
    case.rest(2.0)
    return case


@pytest.mark.parametrize(("size", "trees"), [(1, 6), (128, 300)])
def test_what_a_client_missed_is_asked_for_though_its_filter_changes_before_it_is_bound(
    size: int, trees: int
) -> None:
    case = bound_to_many(size, trees)
    case.say(Subscribe(1, FILTERS[0], seconds=10.0), "c", 3.0)
    case.say(Subscribe(1, FILTERS[1]), "c", 3.0)
    case.rest(3.0)
    asked = [body for body in case.bodies["n"] if isinstance(body, CatchUp)]
    assert {body.tree for body in asked} == {f"t{number}" for number in range(trees)}
    assert all(body.seconds >= 10 for body in asked)


@pytest.mark.parametrize(("size", "trees"), [(1, 6), (128, 300)])
def test_a_neighbour_is_always_asked_for_what_a_filter_that_changes_twice_wants(
    size: int, trees: int
) -> None:
    case = bound_to_many(size, trees)
    case.say(Subscribe(1, FILTERS[0]), "c", 3.0)
    case.rest(3.0)
    case.say(Subscribe(1, FILTERS[1]), "c", 4.0)
    case.say(Subscribe(1, FILTERS[0]), "c", 4.0)
    for _ in range(3 * trees):
        assert case.told["n"]
        case.wake(4.0)
    assert [each.filter for each in case.told["n"].values()] == [FILTERS[0]]
    assert len(case.broker.table) == 1


def test_a_subscription_does_not_wait_until_trees_that_come_are_bound() -> None:
    case = bound_to_many(2, 3)
    for number in range(50):
        case.say(Subscribe(number, parse(f"x = {number}")), "c", 3.0)
    case.rest(3.0)
    for number in range(20):
        case.control("n", Advertise(f"new{number}", parse("y = 1"), 1), now=4.0)
    case.say(Subscribe(99, parse("x = 99")), "c", 5.0)
    for _ in range(60):
        case.wake(5.0)
    assert any(each.filter == parse("x = 99") for each in case.told["n"].values())
    assert case.is_owing


def test_a_client_that_has_left_gets_nothing_while_its_subscriptions_are_forgotten() -> None:
    case = bound_to_many(1, 1)
    for number in range(10):
        case.say(Subscribe(number, parse(f"x > {-number}")), "c", 3.0)
    case.rest(3.0)
    case.say(LinkDown(), "c", 4.0)
    event = Publish(Event({"x": 3}), Header("t0", "p/1"), 1)
    assert len(case.broker.table) == 9
    assert case.broker.handle(event, "n", 4.0) == []
    case.rest(5.0)
    assert not len(case.broker.table)
    assert not case.broker.table.departed
    assert case.told["n"] == {}


def test_a_subscription_is_bound_to_no_tree_that_it_does_not_overlap() -> None:
    case = bound_to_many(1, 0)
    for number in range(4):
        case.say(Subscribe(number, parse(f"x = {number}")), "c", 1.0)
    case.control("n", Advertise("t", parse("x < 2"), 1), now=2.0)
    case.rest(3.0)
    assert {each.filter for each in case.told["n"].values()} == {parse("x = 0"), parse("x = 1")}
