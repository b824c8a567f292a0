"""Links that go on, or begin anew: what was asked for stays."""

from node_cases import FakeWorld
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.broker.trees.broker import Broker
from penstock.filters.parsing import as_predicate
from penstock.net.matching import EngineMatching
from penstock.node.links import Link, LinkPhase
from penstock.node.runtime import Runtime
from penstock.node.settings import Limits, Times
from penstock.wire.frames import Kind
from penstock.wire.greetings import write_refused
from penstock.wire.messages import Message, Subscribe, Sync
from penstock.wire.stamps import stamped

TREES = protocol_named("trees")
WANTED = Subscribe("k", as_predicate("x > 1"), frozenset({"t"}))


class Neighbour:
    """A broker with one neighbour, which has asked for something."""

    def __init__(self) -> None:
        core = TREES.make("b", EngineMatching(), CoreSettings())
        assert isinstance(core, Broker)
        self.broker = core
        self.runtime = Runtime(core, TREES.codec, Limits(), Times(), FakeWorld())
        self.number = 0
        self.link = self.join("s1")
        self.say(Sync((0, 1), 0, (), (WANTED,)))

    def join(self, session: str) -> Link:
        self.number = 0
        self.link = self.runtime.add_neighbour("n", session, 0, 0.0, dialed=False)
        return self.link

    def say(self, message: Message) -> None:
        self.number += 1
        payload = self.number.to_bytes(8, "big") + stamped(TREES.codec.write(message), 0.0)
        self.runtime.on_frame(self.link, Kind.MESSAGE, memoryview(payload), 0.0)

    @property
    def wants(self) -> int:
        return len(self.broker.table)


def test_what_a_neighbour_asked_for_stays_until_it_says_it_anew() -> None:
    case = Neighbour()
    old = case.link
    assert case.wants == 1
    case.join("s2")
    assert old.phase is LinkPhase.GONE
    assert case.wants == 1
    case.say(Sync((0, 2), 0, (), ()))
    assert case.wants == 0


def test_what_a_neighbour_asked_for_stays_for_a_while_when_it_ends_the_connection() -> None:
    case = Neighbour()
    refusal = write_refused("protocol", "a mistake")
    case.runtime.on_frame(case.link, Kind.REFUSED, memoryview(refusal)[12:], 1.0)
    assert case.link.phase is LinkPhase.AWAY
    case.runtime.tick(1.0 + Times().grace)
    assert case.wants == 1
    case.runtime.tick(1.1 + Times().grace)
    assert case.wants == 0
    assert "n" not in case.runtime.links
