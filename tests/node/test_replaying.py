"""What is sent again comes whole, and no turn of the loop is long, however many trees there are."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from net_cases import events_frame, numbered
from node_cases import FakeTimer, FakeWorld
from penstock.broker.effects import Replay
from penstock.broker.grants import EVERYTHING
from penstock.broker.local import Replayed
from penstock.broker.needs import Scan
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.filters.parsing import parse
from penstock.model.names import Tree
from penstock.node.identity import Identity
from penstock.node.links import Link
from penstock.node.replaying import TURN_BLOCKS
from penstock.node.runtime import Runtime
from penstock.node.settings import Limits, Times
from penstock.wire.blocks import Block
from penstock.wire.frames import FrameReader, Kind
from penstock.wire.greetings import VERSION, Hello
from penstock.wire.messages import CatchUp, Control, Subscribe, Sync
from penstock.wire.requests import Offer, write_request
from penstock.wire.stamps import stamped

TREES = protocol_named("trees")
NOBODY = Identity(subject="", grants=EVERYTHING)
MS = 0.001


class Wire:
    """A connection that keeps what is written and will be acknowledged."""

    is_writable = True
    heard_at = 0.0

    def __init__(self) -> None:
        self.frames: list[tuple[Kind, bytes]] = []

    def write(self, frames: list[bytes]) -> None:
        for data in frames:
            self.frames += [
                (kind, bytes(payload))
                for kind, payload in FrameReader(2**30).feed(data)
                if kind in (Kind.EVENTS, Kind.MESSAGE)
            ]

    def close(self, code: str = "", reason: str = "") -> None:
        raise AssertionError(f"{code}: {reason}")


class World(FakeWorld):
    """Counts what is done in each turn of the loop.

    As on asyncio, a turn is all that was due when it began; what is asked for meanwhile comes in the next.
    """

    def __init__(self) -> None:
        super().__init__()
        self.used = 0.0
        self.done = 0
        self.turns: dict[tuple[float, int], list[float]] = {}
        """Of each turn, the blocks that were handled in it and the seconds that took."""
        self._generation = 0

    def cpu_time(self) -> float:
        return self.used

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> FakeTimer:
        generation = self._generation + 1

        def turn() -> None:
            done, used, self._generation = self.done, self.used, generation
            callback(*arguments)
            counted = self.turns.setdefault((self.now, generation), [0, 0.0])
            counted[0] += self.done - done
            counted[1] += self.used - used

        return super().call_later(seconds, turn)


class Case:
    """A publisher at a broker has published on trees; a neighbour that knew them comes back."""

    def __init__(self, trees: int, blocks: int = 0, *, size: int = 1, block_s: float = 0.0) -> None:
        """`block_s`: the time of a processor that it takes to send a block."""
        self.world = World()
        self.runtime = Runtime(
            TREES.make("b", Scan(), CoreSettings(lease=30.0, keep=60.0)),
            TREES.codec,
            Limits(),
            Times(),
            self.world,
        )
        self.wire = Wire()
        self.sent: list[Tree] = []
        """The tree of each block."""
        self.answered: list[Replayed] = []
        self._watch_core(block_s)
        hello = Hello(VERSION, "client", "p", "", "p:0", 0)
        self.publisher = self.runtime.add_client(hello, NOBODY, 0.0)
        for key in range(1, trees + 1):
            self._hear(
                self.publisher, numbered(Kind.MESSAGE, key, write_request(Offer(key, key, "true"))), 0.0
            )
        self._frame = trees
        for number in range(blocks):
            for key in range(1, trees + 1):
                self.publish(key, number + 1, at=10.0, size=size)
        self.trees = [tree for tree, _branch in self.runtime.core.trees.items()]  # type: ignore[attr-defined]

    def _watch_core(self, block_s: float) -> None:
        handle = self.runtime.core.handle

        def watched(message: Any, link: str, now: float) -> Any:
            if isinstance(message, Block) and message.header.replay:
                self.world.done += 1
                self.sent.append(message.header.tree)
                self.world.used += block_s
            elif isinstance(message, Replayed):
                self.answered.append(message)
            return handle(message, link, now)

        self.runtime.core.handle = watched  # type: ignore[method-assign]

    def _hear(self, link: Link, data: bytes, now: float) -> None:
        self.world.now = now
        for kind, payload in FrameReader(2**30).feed(data):
            self.runtime.on_frame(link, kind, payload, now)
        self.runtime.flush()

    def publish(self, key: int, number: int, at: float, size: int = 1) -> None:
        self._frame += 1
        event = {"x": number, "text": "x" * size}
        self._hear(self.publisher, events_frame(self._frame, str(key), event, first=number), at)

    def come_back(self, seconds: float, now: float) -> None:
        """The neighbour asks for what it missed of all trees."""
        self.neighbour = self.runtime.add_neighbour("n", "s", 1, now, dialed=False)
        self.neighbour.connection = self.wire
        wants = Subscribe("k", parse("true"), frozenset(self.trees))
        asked = tuple(CatchUp(tree, number, seconds) for number, tree in enumerate(self.trees, 1))
        for at, message in enumerate((Sync((1, 1), 0, (), (wants,)), Control((1, 1), 1, asked)), 1):
            data = numbered(Kind.MESSAGE, at, stamped(TREES.codec.write(message), now))
            self._hear(self.neighbour, data, now)

    def ask(self, seconds: float, number: int = 1) -> None:
        """The broker's own core asks, on behalf of nobody."""
        self.runtime.carry_out([Replay(tree, number, seconds) for tree in self.trees], self.world.now)

    def run(self, rounds: int = 1_000) -> None:
        """Go on until nothing is left to be sent; the neighbour acknowledges what has come."""
        for _ in range(rounds):
            turns = len(self.world.turns)
            self.acknowledge()
            self.world.run(0.05)
            if len(self.world.turns) == turns:
                return

    def acknowledge(self) -> None:
        if self.wire.frames:
            last = max(int.from_bytes(content[:8], "big") for _kind, content in self.wire.frames)
            self.neighbour.session.on_ack(last.to_bytes(8, "big"))
            self.runtime.flush()


@pytest.mark.parametrize(("trees", "blocks"), [(150, 4), (600, 1), (1, 600)])
def test_no_turn_of_the_loop_sends_more_however_many_trees_there_are(trees: int, blocks: int) -> None:
    case = Case(trees, blocks)
    case.come_back(20.0, 15.0)
    case.run()
    assert max(done for done, _used in case.world.turns.values()) <= TURN_BLOCKS
    assert case.world.done == trees * blocks
    assert len(case.answered) == trees
    # All of it goes to the neighbour.
    assert case.runtime.counts["events_out"] == trees * blocks


@pytest.mark.parametrize("trees", [1, 150])
def test_no_turn_of_the_loop_takes_longer_than_a_few_milliseconds(trees: int) -> None:
    case = Case(trees, 300 // trees, block_s=0.8 * MS)
    case.come_back(20.0, 15.0)
    case.run()
    assert case.world.done == 300
    # Two milliseconds, and what was begun then.
    assert max(used for _done, used in case.world.turns.values()) < 2.81 * MS


def test_no_turn_of_the_loop_sends_more_bytes_than_can_be_written_soon() -> None:
    case = Case(40, 2, size=100_000)
    case.come_back(20.0, 15.0)
    case.run()
    assert case.world.done == 80
    assert max(done for done, _used in case.world.turns.values()) <= 3


def test_trees_take_turns_and_who_asks_meanwhile_is_answered_too() -> None:
    case = Case(100, 10)
    case.come_back(20.0, 15.0)
    case.world.run(0.0)
    assert set(case.sent[:100]) == set(case.trees)
    assert case.answered == []
    case.ask(20.0, number=1_000)
    case.run()
    assert sorted((one.tree, one.number == 1_000) for one in case.answered) == [
        (tree, again) for tree in sorted(case.trees) for again in (False, True)
    ]


def test_a_question_that_has_to_wait_is_about_the_time_before_it_was_asked() -> None:
    """Events that were published 11 s before it are sent again, though its turn comes 60 s later."""
    case = Case(1, 1)
    case.come_back(20.0, 15.0)
    # The neighbour does not acknowledge: until it does, nothing else of that tree is sent.
    case.world.run(1.0)
    assert case.world.done == 1
    case.world.run(5.0)
    case.ask(11.0, number=2)
    case.world.run(60.0)
    assert case.world.done == 1
    case.run()
    assert case.world.done == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=40), st.integers(0, 50))
def test_exactly_what_was_published_since_then_is_sent_again(
    published: list[tuple[int, int]], seconds: int
) -> None:
    case = Case(6)
    at, times = 10.0, []
    for number, (tree, apart) in enumerate(published, 1):
        at += apart / 10
        case.publish(tree + 1, number, at=at)
        times.append(at)
    case.world.now = now = at + 1.0
    case.ask(float(seconds))
    case.run()
    # As brute force has it, but for the slack, within which it may be sent as well.
    least = sum(time >= now - seconds for time in times) if seconds else 0
    most = sum(time >= now - 1.01 * seconds - 3.1 for time in times) if seconds else 0
    assert least <= case.world.done <= most
    assert len(case.answered) == 6
