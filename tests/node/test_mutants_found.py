"""What mutation testing (`make mutants`) found that nothing else noticed: failures on chosen moments."""

from typing import Any

import pytest

from net_cases import events_frame, numbered
from node_cases import FakeWorld
from penstock.broker.core import Core
from penstock.broker.effects import Replay
from penstock.broker.grants import EVERYTHING
from penstock.broker.local import LinkUp
from penstock.broker.needs import Scan
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.broker.trees.broker import Broker
from penstock.filters.parsing import parse
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.node.admission import Admission
from penstock.node.client.notices import Notice
from penstock.node.connection import FrameConnection
from penstock.node.hub import Hub
from penstock.node.identity import Identity
from penstock.node.links import Link, LinkPhase
from penstock.node.runtime import Runtime
from penstock.node.settings import Limits, Times
from penstock.sim.clients import Client
from penstock.sim.links import LinkModel
from penstock.sim.observers import Observer
from penstock.sim.whole.clients import WholeClient
from penstock.sim.whole.network import WholeNetwork
from penstock.wire.codec import Returned
from penstock.wire.frames import FrameReader, Kind, frame
from penstock.wire.greetings import VERSION, Hello, write_hello
from penstock.wire.messages import Advertise, Control, Publish, Subscribe, Sync, Unadvertise
from penstock.wire.requests import Notify, Offer, read_answer, write_request
from penstock.wire.sessions import Stage
from penstock.wire.stamps import stamped

TREES = protocol_named("trees")
EVERYBODY = Identity(subject="", grants=EVERYTHING)
ALL = parse("true")


def reached(core: Core) -> list[str | None]:
    """The paths to the trees that a broker knows."""
    assert isinstance(core, Broker)
    return [branch.way for _tree, branch in core.trees.items()]


# Whole networks, with failures at chosen moments


class Seen(Observer):
    """When which event was published, taken and acknowledged, and what clients were told."""

    def __init__(self) -> None:
        self.published: dict[tuple[str, int], int] = {}
        self.got: dict[str, list[int]] = {}
        self.got_at: dict[int, float] = {}
        self.settled_at: dict[int, float] = {}
        self.notices: list[tuple[str, str]] = []

    def on_publish(self, client: Client, publish: Publish, now: float) -> None:
        self.published[publish.name] = publish.event["x"]  # type: ignore[assignment]

    def on_deliver(
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        x = self.published[publish.name]
        self.got.setdefault(client.name, []).append(x)
        self.got_at[x] = now

    def on_settled(self, client: Client, name: tuple[str, int], error: Exception | None, now: float) -> None:
        assert error is None
        self.settled_at[self.published[name]] = now

    def on_notice(self, client: Client, notice: Notice, now: float) -> None:
        self.notices.append((client.name, notice.kind))


class Net:
    """Brokers and links, a publisher p and a subscriber s, both connected and known to all."""

    def __init__(
        self,
        links: list[str],
        *,
        p: list[str],
        s: list[str],
        latencies: dict[str, float] | None = None,
        **times: float,
    ) -> None:
        self.network = WholeNetwork(seed=1, times=Times(**{"lease": 6.0, **times}))
        self.seen = Seen()
        self.network.observers.append(self.seen)
        for name in sorted({broker for link in links for broker in link}):
            self.network.add_broker(name)
        for link in links:
            self.network.add_link(link[0], link[1], LinkModel(latency=(latencies or {}).get(link, 0.01)))
        self.p = self._client("p", p)
        self.p.waits_for = Stage.HANDLED
        self.s = self._client("s", s)
        self.run(2.0)
        self.network.advertise(self.p, "a", ALL)
        self.network.subscribe(self.s, "s", ALL)
        self.run(5.0)

    def _client(self, name: str, brokers: list[str]) -> WholeClient:
        return self.network.add_client(name, brokers[0], brokers[1:])

    def run(self, seconds: float) -> None:
        self.network.run(self.network.now + seconds)

    def publish(self, *values: int, apart: float = 0.0) -> None:
        for x in values:
            assert self.network.publish(self.p, Event({"x": x})) is not None
            self.run(apart)

    def all_came(self, count: int, client: str = "s") -> None:
        """Each event came once, and before it was acknowledged."""
        assert sorted(self.seen.got.get(client, [])) == list(range(1, count + 1))
        assert sorted(self.seen.settled_at) == list(range(1, count + 1))
        for x, at in self.seen.settled_at.items():
            assert at >= self.seen.got_at[x]


@pytest.mark.parametrize("line", ["pa", "ab", "bs"])
def test_a_line_that_breaks_for_a_moment_loses_nothing_whatever_was_under_way(line: str) -> None:
    net = Net(["ab"], p=["a"], s=["b"])
    for x in range(1, 31):
        began = net.network.now
        net.publish(x)
        net.run(0.001 * x)
        net.network.sever(line[0], line[1])
        net.run(1.2)
        assert net.seen.settled_at.get(x, 1e9) < began + 1.2
    net.all_came(30)
    assert {kind for _client, kind in net.seen.notices} <= {"disconnected", "reconnected"}


def test_what_was_for_a_link_that_is_cut_for_good_comes_another_way() -> None:
    # From p at a by b and d; d is where s is, and c is the way around the link between b and d.
    net = Net(["ab", "bd", "bc", "cd"], p=["a"], s=["d"])
    net.publish(1)
    net.run(0.015)
    net.network.cut("b", "d")
    for x in range(2, 12):
        net.publish(x)
        net.run(0.5)
    net.run(20.0)
    net.all_came(11)
    assert ("s", "missed") not in net.seen.notices


def test_what_was_sent_again_is_sent_again_when_the_other_way_is_cut_too() -> None:
    net = Net(["ad", "ab", "bd", "ac", "ce", "ed"], p=["a"], s=["d"])
    net.network.cut("a", "d")
    net.run(0.5)
    net.publish(1)
    net.run(3.3)
    net.network.cut("b", "d")
    net.run(30.0)
    net.all_came(1)


def test_another_path_is_asked_for_as_soon_as_one_is_lost() -> None:
    net = Net(["ab", "bd", "bc", "cd"], p=["a"], s=["d"], lease=30.0)
    net.network.cut("b", "d")
    net.run(3.0)
    net.publish(1)
    net.run(0.5)
    assert net.seen.got == {"s": [1]}


def test_another_path_is_asked_for_by_a_broker_that_asked_in_an_earlier_life_too() -> None:
    net = Net(["ab", "bc", "ac"], p=["a"], s=["b"], lease=30.0)
    for _ in range(3):
        net.network.cut("a", "b")
        net.run(10.0)
        net.network.heal("a", "b")
        net.network.cut("b", "c")
        net.run(10.0)
        net.network.heal("b", "c")
        net.run(10.0)
    net.network.crash("b")
    net.run(10.0)
    net.network.restart("b")
    net.run(20.0)
    (way,) = reached(net.network.broker("b"))
    assert way is not None
    net.network.cut("b", way)
    net.run(3.0)
    net.publish(1)
    net.run(0.5)
    assert net.seen.got == {"s": [1]}


def test_what_is_wanted_behind_a_broken_link_is_known_until_another_path_is_found() -> None:
    net = Net(["ab", "bd", "bc", "cd"], p=["a"], s=["d"], latencies={"bc": 0.03, "cd": 0.03})
    net.network.cut("b", "d")
    net.run(1.5)
    net.publish(*range(1, 251), apart=0.004)
    net.run(20.0)
    net.all_came(250)


def test_what_failed_for_one_is_sent_again_though_others_have_not_dealt_with_it_yet() -> None:
    net = Net(["ab", "bd", "bc", "cd"], p=["a"], s=["d"])
    slow = net.network.add_client("q", "b")
    net.network.subscribe(slow, "s", ALL)
    net.run(5.0)
    slow.lag = 8.0
    net.network.cut("b", "d")
    net.publish(1)
    net.run(30.0)
    net.all_came(1)
    net.all_came(1, "q")


def test_what_a_dead_broker_had_comes_by_the_others() -> None:
    net = Net(["ab", "bd", "ac", "cd"], p=["a"], s=["d"], latencies={"ac": 0.02, "cd": 0.02})
    net.publish(1)
    net.run(0.015)
    net.network.crash("b")
    net.publish(2)
    net.run(3.0)
    net.publish(3)
    net.run(20.0)
    net.all_came(3)


def test_what_is_published_again_at_a_broker_that_has_had_it_goes_on_to_those_who_have_not() -> None:
    net = Net(["ab", "ac", "bc"], p=["a", "c"], s=["b"], latencies={"ab": 0.012, "ac": 0.002, "bc": 0.02})
    near = net.network.add_client("q", "c")
    net.network.subscribe(near, "s", ALL)
    net.run(5.0)
    net.publish(1)
    net.run(0.01)
    assert net.seen.got == {"q": [1]}
    # The broker dies, and what it had sent to b is lost.
    net.network.crash("a", silent=True)
    net.run(30.0)
    net.all_came(1)
    net.all_came(1, "q")


def test_what_a_subscriber_has_not_taken_is_not_acknowledged() -> None:
    net = Net(["ab"], p=["a"], s=["b"])
    net.s.lag = 3.0
    net.publish(1)
    net.run(2.0)
    assert net.seen.got == {"s": [1]}
    assert not net.seen.settled_at
    net.run(2.0)
    assert list(net.seen.settled_at) == [1]


def test_an_event_is_not_acknowledged_because_a_later_one_is() -> None:
    net = Net(["ab"], p=["a"], s=["b"])
    net.s.lag = 3.0
    net.publish(1)
    net.run(0.5)
    net.s.lag = 0.0
    net.publish(2)
    net.run(1.0)
    assert list(net.seen.settled_at) == [2]
    net.run(2.0)
    assert list(net.seen.settled_at) == [2, 1]


@pytest.mark.parametrize("chain", [["ab"], ["ab", "bc", "cd", "de"]])
def test_publishers_wait_for_no_more_than_the_stage_they_ask_for(chain: list[str]) -> None:
    took = {}
    for stage in (Stage.ACCEPTED, Stage.TAKEN, Stage.HANDLED):
        net = Net(chain, p=["a"], s=[chain[-1][1]])
        # The program has its event, and keeps it for longer than anybody waits.
        net.s.lag = 60.0
        net.p.waits_for = stage
        began = net.network.now
        net.publish(1)
        net.run(15.0)
        took[stage] = net.seen.settled_at[1] - began
    assert took[Stage.ACCEPTED] < 1.0
    assert took[Stage.TAKEN] < 1.0
    assert took[Stage.HANDLED] > Times().patience


def test_a_reader_that_stands_still_holds_up_only_who_wants_to_know_that_it_has_taken_events() -> None:
    net = Net(["ab", "bc"], p=["a"], s=["c"])
    net.p.waits_for = Stage.ACCEPTED
    net.network.pause("s")
    net.publish(1)
    net.run(1.0)
    assert list(net.seen.settled_at) == [1]
    # From then on nobody waits even that long.
    began = net.network.now
    net.publish(2)
    net.run(1.0)
    assert net.seen.settled_at[2] - began < 0.1
    net.p.waits_for = Stage.TAKEN
    net.publish(3)
    net.run(1.0)
    assert list(net.seen.settled_at) == [1, 2]
    net.network.go_on("s")
    net.run(1.0)
    assert list(net.seen.settled_at) == [1, 2, 3]
    assert net.seen.got == {"s": [1, 2, 3]}


def test_nobody_waits_for_a_reader_that_has_been_given_up_at_another_broker() -> None:
    net = Net(["ab", "bc"], p=["a"], s=["c"])
    net.p.waits_for = Stage.HANDLED
    net.network.pause("s")
    net.publish(1)
    net.run(11.0)
    assert list(net.seen.settled_at) == [1]
    for number in (2, 3, 4):
        began = net.network.now
        net.publish(number)
        net.run(0.3)
        # It used to be the next look at who is slow: a quarter of a second for each.
        assert net.seen.settled_at[number] - began < 0.1
    net.network.go_on("s")
    net.run(3.0)
    assert net.seen.got == {"s": [1, 2, 3, 4]}
    # From then on it is waited for again.
    net.network.pause("s")
    net.publish(5)
    net.run(3.0)
    assert 5 not in net.seen.settled_at
    net.network.go_on("s")
    net.run(1.0)
    assert 5 in net.seen.settled_at


def test_what_was_accepted_arrives_though_its_publisher_left_and_a_broker_on_the_way_died() -> None:
    net = Net(["ab", "bd", "ac", "cd"], p=["a"], s=["d"], latencies={"ac": 0.02, "cd": 0.02})
    net.p.waits_for = Stage.ACCEPTED
    net.network.pause("s")
    net.publish(1)
    net.run(1.0)
    assert list(net.seen.settled_at) == [1]
    net.network.exit(net.p)
    net.network.crash("b")
    net.run(3.0)
    net.network.go_on("s")
    net.run(20.0)
    assert net.seen.got == {"s": [1]}


def test_what_all_filters_of_a_subscription_match_is_not_missed_when_it_changed_while_cut_off() -> None:
    net = Net(["ab"], p=["a"], s=["b"])
    net.network.cut("a", "b")
    net.run(0.5)
    net.publish(1, 2, 3)
    net.run(10.0)
    for text in ("x >= 2", "x >= 0 and x != 3"):
        net.network.subscribe(net.s, "s", parse(text))
        net.run(1.0)
    net.network.heal("a", "b")
    net.run(10.0)
    # It was subscribed to all of them when they were published, and to 1 and 2 in the end.
    assert net.seen.got == {"s": [1, 2]}


def test_a_subscription_that_was_narrow_before_gets_nothing_more_from_then() -> None:
    net = Net(["ab"], p=["a"], s=["b"])
    net.network.subscribe(net.s, "s", parse("x >= 2"))
    net.run(5.0)
    net.network.cut("a", "b")
    net.run(0.5)
    net.publish(1, 2)
    net.run(10.0)
    net.network.subscribe(net.s, "s", ALL)
    net.run(1.0)
    net.network.heal("a", "b")
    net.run(10.0)
    assert net.seen.got == {"s": [2]}


def test_a_new_client_does_not_get_what_another_had_not_acknowledged_before_it_came() -> None:
    # What is sent again after a failure was published before the new client subscribed.
    net = Net(["ab"], p=["a"], s=["b"])
    net.s.lag = 100.0
    net.publish(1)
    net.run(5.0)
    assert net.seen.got == {"s": [1]}
    net.network.exit(net.s)
    net.run(10.0)
    assert net.seen.got == {"s": [1]}


@pytest.mark.parametrize("changes", [7, 8, 12])
def test_however_often_a_filter_changed_while_cut_off_what_all_of_them_match_is_not_missed(
    changes: int,
) -> None:
    net = Net(["ab"], p=["a"], s=["b"])
    net.network.cut("a", "b")
    net.run(0.5)
    net.publish(100)
    net.run(10.0)
    for number in range(changes):
        net.network.subscribe(net.s, "s", parse(f"x >= {number}"))
        net.run(0.2)
    net.network.heal("a", "b")
    net.run(10.0)
    assert net.seen.got == {"s": [100]}


def test_what_was_accepted_is_sent_again_though_it_is_no_longer_advertised() -> None:
    net = Net(["ab", "ac", "bc"], p=["a"], s=["b", "c"])
    net.p.waits_for = Stage.ACCEPTED
    net.network.cut("s", "b")
    net.network.cut("s", "c")
    net.publish(1)
    net.run(1.0)
    assert list(net.seen.settled_at) == [1]
    net.network.advertise(net.p, "a", parse("x >= 1000"))
    net.run(0.1)
    net.network.crash("b")
    net.network.heal("s", "c")
    net.run(30.0)
    assert net.seen.got == {"s": [1]}
    assert ("p", "rejected") not in net.seen.notices


def test_however_many_ask_events_of_a_tree_are_sent_again_once_at_a_time() -> None:
    net = Net(["ab"], p=["a"], s=["b"])
    net.publish(*range(1, 41))
    net.run(1.0)
    node = net.network.nodes["a"].node
    assert node is not None
    runtime = node.runtime
    (tree,) = [name for name, _branch in runtime.core.core.trees.items()]  # type: ignore[attr-defined]
    now = node.runtime.world.time()
    runtime.carry_out([Replay(tree, 1_000, 30.0)], now)
    # What is under way is for those who have asked before it began; all others share the next.
    net.run(0.0)
    assert runtime.counts["replayed"] == 40
    for number in range(1, 50):
        runtime.carry_out([Replay(tree, 1_000 + number, 30.0)], now)
    net.run(1.0)
    assert runtime.counts["replayed"] == 2 * 40


def test_the_next_broker_knows_what_a_subscription_was_before_it_was_changed() -> None:
    net = Net(["ab", "ac"], p=["a"], s=["b", "c"])
    net.network.subscribe(net.s, "s", parse("x >= 2"))
    net.run(5.0)
    net.network.cut("s", "b")
    net.network.cut("s", "c")
    net.run(0.5)
    net.publish(1, 2, 3)
    net.run(3.0)
    net.network.heal("s", "b")
    net.run(0.3)
    net.network.subscribe(net.s, "s", parse("x <= 2"))
    net.run(0.2)
    net.network.cut("s", "b")
    net.network.heal("s", "c")
    net.run(20.0)
    # 1 is from before the change, and was not wanted then.
    assert 2 in net.seen.got["s"]
    assert 1 not in net.seen.got["s"]


# One broker, frame by frame


class Wire:
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        self.is_writable = True
        self.heard_at = 0.0
        self.frames: list[tuple[Kind, bytes]] = []

    def write(self, frames: list[bytes]) -> None:
        for data in frames:
            self.frames += [(kind, bytes(payload)) for kind, payload in FrameReader(2**30).feed(data)]

    def close(self, code: str = "", reason: str = "") -> None:
        pass

    def of(self, kind: Kind) -> list[tuple[int, memoryview]]:
        """The numbers and contents of all frames of a kind."""
        return [
            (int.from_bytes(p[:8], "big"), memoryview(p)[8:]) for known, p in self.frames if known is kind
        ]


class Case:
    """A broker with a publisher and a neighbour that wants everything."""

    def __init__(self, **times: float) -> None:
        core = TREES.make("b", Scan(), CoreSettings(lease=30.0))
        assert isinstance(core, Broker)
        self.world = FakeWorld()
        self.runtime = Runtime(core, TREES.codec, Limits(), Times(**times), self.world)
        now = self.world.now
        self.p = self.bound(
            self.runtime.add_client(Hello(VERSION, "client", "p", "", "p:0", 0), EVERYBODY, now)
        )
        self.hear(self.p, numbered(Kind.MESSAGE, 1, write_request(Offer(1, 1, "true"))))
        self.n = self.bound(self.runtime.add_neighbour("n", "s", 1, now, dialed=False))
        self.want(1)

    def want(self, session: int) -> None:
        """The neighbour says what it wants: everything."""
        core = self.runtime.core
        assert isinstance(core, Broker)
        trees = frozenset(tree for tree, _branch in core.trees.items())
        self.say(1, Sync((1, session), 0, (), (Subscribe("k", ALL, trees),)))

    def bound(self, link: Link) -> Link:
        link.connection = Wire()
        return link

    def wire(self, link: Link) -> Wire:
        assert isinstance(link.connection, Wire)
        return link.connection

    def hear(self, link: Link, data: bytes) -> None:
        for kind, payload in FrameReader(2**30).feed(data):
            self.runtime.on_frame(link, kind, payload, self.world.now)
        self.runtime.flush()

    def say(self, number: int, message: Any) -> None:
        self.hear(self.n, numbered(Kind.MESSAGE, number, stamped(TREES.codec.write(message), 0.0)))

    def tick(self, seconds: float) -> None:
        self.world.now += seconds
        self.runtime.tick(self.world.now)
        self.runtime.flush()


def test_events_are_sent_again_five_times_and_then_given_up_which_the_publisher_is_told() -> None:
    case = Case(settle=1.0)
    case.tick(1.5)
    case.hear(case.p, events_frame(2, "1", {"x": 1}))
    marks = set()
    for time in range(1, 7):
        sent = case.wire(case.n).of(Kind.EVENTS)
        assert len(sent) == time
        assert case.wire(case.p).of(Kind.ACK)[-1][0] == 1
        case.say(time + 1, Returned(sent[-1][0]))
        case.n.session.on_ack(sent[-1][0].to_bytes(8, "big"))
        case.tick(1.5)
        marks.add(sent[-1][1].tobytes())
    # Each time it was another frame, because brokers drop what came under the same mark.
    assert len(marks) == 6
    assert len(case.wire(case.n).of(Kind.EVENTS)) == 6
    told = [read_answer(content) for _number, content in case.wire(case.p).of(Kind.MESSAGE)]
    assert [(one.kind, one.count) for one in told if isinstance(one, Notify)] == [("lost", 1)]
    assert case.wire(case.p).of(Kind.ACK)[-1][0] == 2


def test_an_old_copy_does_not_bring_back_a_tree_that_is_gone() -> None:
    core = TREES.make("b", Scan(), CoreSettings(lease=30.0))
    for link in "mn":
        core.handle(LinkUp(), link, 0.0)
    core.handle(Sync((1, 1), 0, (Advertise("t", ALL, 3),), ()), "n", 0.0)
    core.handle(Sync((1, 1), 0, (), ()), "m", 0.0)
    assert reached(core) == ["n"]
    core.handle(Control((1, 1), 1, (Unadvertise("t"),)), "n", 1.0)
    core.handle(Control((1, 1), 1, (Advertise("t", ALL, 3),)), "m", 1.0)
    assert reached(core) == []


def test_paths_through_a_neighbour_that_has_lost_its_memory_are_asked_for_anew() -> None:
    core = TREES.make("b", Scan(), CoreSettings(lease=30.0))
    core.handle(LinkUp(), "n", 0.0)
    said = (Advertise("t", ALL, 3),)
    core.handle(Sync((1, 1), 0, said, ()), "n", 0.0)
    assert reached(core) == ["n"]
    # The same life says the same again, then another one does: its path may lead through here.
    core.handle(Sync((1, 1), 0, said, ()), "n", 1.0)
    assert reached(core) == ["n"]
    core.handle(Sync((2, 1), 0, said, ()), "n", 2.0)
    assert reached(core) == [None]


def test_what_a_neighbour_had_when_it_comes_with_a_new_session_is_sent_again() -> None:
    case = Case(settle=1.0)
    case.tick(1.5)
    case.hear(case.p, events_frame(2, "1", {"x": 1}))
    assert len(case.wire(case.n).of(Kind.EVENTS)) == 1
    case.n = case.bound(case.runtime.add_neighbour("n", "t", 1, case.world.now, dialed=False))
    case.runtime.flush()
    assert case.wire(case.p).of(Kind.ACK)[-1][0] == 1
    case.want(2)
    case.tick(1.5)
    assert len(case.wire(case.n).of(Kind.EVENTS)) == 1


def test_events_wait_until_a_new_neighbour_has_said_what_it_wants() -> None:
    case = Case(settle=1.0)
    case.tick(1.5)
    case.runtime.add_neighbour("m", "s", 1, case.world.now, dialed=False)
    case.hear(case.p, events_frame(2, "1", {"x": 1}))
    case.tick(0.9)
    assert not case.wire(case.n).of(Kind.EVENTS)
    case.tick(0.2)
    assert len(case.wire(case.n).of(Kind.EVENTS)) == 1


@pytest.mark.parametrize(("resume", "grace"), [(2.0, 6.0), (6.0, 2.0)])
def test_a_broken_link_is_given_up_after_resume_and_over_after_grace(resume: float, grace: float) -> None:
    case = Case(resume=resume, grace=grace)
    case.runtime.on_cut(case.n, case.world.now)
    phases = []
    for seconds in (resume - 0.5, 1.0, grace - 0.5, 1.0):
        case.tick(seconds)
        phases.append(case.n.phase)
    assert phases == [LinkPhase.CUT, LinkPhase.AWAY, LinkPhase.AWAY, LinkPhase.GONE]


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.is_closed = False
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


def hub_of(case: Case) -> Hub:
    return Hub("b", "trees", case.runtime, Admission(), 1, case.world)


def test_a_connection_that_another_takes_the_place_of_is_closed() -> None:
    case = Case()
    hub = hub_of(case)
    case.n.connection = None
    transports = [Transport(), Transport()]
    for transport in transports:
        connection = FrameConnection(hub, case.world)
        connection.connection_made(transport)
        hub.bind(connection, case.n, 2**20)
    assert [transport.is_closed for transport in transports] == [True, False]
    assert case.n.phase is LinkPhase.UP
    assert case.n.connection is connection


def test_a_damaged_frame_ends_a_connection_and_not_its_session() -> None:
    case = Case()
    hub, transport = hub_of(case), Transport()
    connection = FrameConnection(hub, case.world)
    connection.connection_made(transport)
    hub.bind(connection, case.n, 2**20)
    connection.data_received(frame(Kind.PONG))
    connection.data_received(frame(Kind.PONG)[:-1] + b"?")
    assert transport.is_closed
    # Nothing is refused, so that the other side goes on with the session.
    assert [kind for kind, _payload in FrameReader(2**20).feed(transport.written)] in ([], [Kind.ACK])
    connection.connection_lost()
    assert case.n.phase is LinkPhase.CUT


@pytest.mark.parametrize(("peer", "stays"), [("n", True), ("a", False)])
def test_of_two_connections_between_two_brokers_the_one_that_the_lesser_name_made_stays(
    peer: str, stays: bool
) -> None:
    case = Case()
    hub = hub_of(case)
    link = case.runtime.add_neighbour(peer, "s", 1, case.world.now, dialed=True)
    first = FrameConnection(hub, case.world)
    first.connection_made(Transport())
    hub.bind(first, link, 2**20)
    second, transport = hub.accept(), Transport()
    second.connection_made(transport)
    second.data_received(write_hello(Hello(VERSION, "broker", peer, "", "t", 0, 1, protocol="trees")))
    kind, _payload = FrameReader(2**20).feed(transport.written)[0]
    assert kind is (Kind.REFUSED if stays else Kind.WELCOME)
    assert (case.runtime.links[peer] is link) is stays
