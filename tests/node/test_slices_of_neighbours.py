"""What neighbours send is taken in slices: in the order of each link, and others have a turn in between."""

from hypothesis import given
from hypothesis import strategies as st

from node_cases import FakeWorld
from penstock.errors import WireError
from penstock.node.intake import Intake
from penstock.node.links import Link
from penstock.wire.frames import Kind
from penstock.wire.sessions import Session


class Taker:
    """Notes what is handled, and when; `bad` is what cannot be understood."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.handled: list[tuple[str, int, float]] = []
        self.given_up: list[str] = []
        self.intake = Intake(self, world)

    def take_message(self, link: Link, number: int, content: memoryview, now: float) -> None:
        if bytes(content) == b"bad":
            raise WireError("bad")
        self.handled.append((link.name, number, self.world.now))

    def take_events(self, link: Link, number: int, content: memoryview, now: float) -> None:
        self.handled.append((link.name, number, self.world.now))

    def give_up(self, link: Link, now: float) -> None:
        self.given_up.append(link.name)
        self.intake.forget(link)

    def flush(self) -> None:
        pass

    def numbers(self, name: str) -> list[int]:
        return [number for link, number, _at in self.handled if link == name]


def made(slice_bytes: int, pause: float = 0.01) -> tuple[Taker, dict[str, Link]]:
    world = FakeWorld()
    taker = Taker(world)
    taker.intake.slice_bytes, taker.intake.pause = slice_bytes, pause
    return taker, {name: Link(name, "", Session(2**62), False, name) for name in "nm"}


FRAMES = st.lists(
    st.tuples(
        st.sampled_from("nm"),
        st.sampled_from([Kind.MESSAGE, Kind.EVENTS]),
        st.integers(1, 40),
        st.sampled_from([0.0, 0.005, 0.05]),
    ),
    max_size=40,
)


@given(FRAMES, st.integers(1, 50))
def test_each_link_keeps_its_order_and_nothing_is_left(
    frames: list[tuple[str, Kind, int, float]], size: int
) -> None:
    taker, links = made(size)
    for number, (name, kind, length, pause) in enumerate(frames):
        taker.intake.take(links[name], kind, number, memoryview(bytes(length)), taker.world.now)
        taker.world.run(pause)
    taker.world.run(10)
    for name in "nm":
        assert taker.numbers(name) == [n for n, frame in enumerate(frames) if frame[0] == name]
        assert not links[name].inbox


def test_a_large_state_does_not_keep_another_link_or_its_events_waiting() -> None:
    taker, links = made(100)
    for number in range(50):
        taker.intake.take(links["n"], Kind.MESSAGE, number, memoryview(bytes(100)), taker.world.now)
    taker.intake.take(links["n"], Kind.EVENTS, 50, memoryview(b"e"), taker.world.now)
    taker.intake.take(links["m"], Kind.EVENTS, 0, memoryview(b"e"), taker.world.now)
    assert taker.numbers("m") == [0]
    assert taker.numbers("n") == [0]
    taker.intake.take(links["m"], Kind.MESSAGE, 1, memoryview(bytes(100)), taker.world.now)
    taker.world.run(0.05)
    # Links take turns. What comes behind a state that waits waits for it.
    assert taker.numbers("m") == [0, 1]
    assert 2 <= len(taker.numbers("n")) < 50
    taker.world.run(1)
    assert taker.numbers("n") == list(range(51))


def test_what_is_wrong_with_a_frame_that_waited_ends_its_link_and_nothing_else() -> None:
    taker, links = made(1)
    for number, content in enumerate((b"good", b"bad", b"good")):
        taker.intake.take(links["n"], Kind.MESSAGE, number, memoryview(content), taker.world.now)
    taker.intake.take(links["m"], Kind.MESSAGE, 0, memoryview(b"good"), taker.world.now)
    taker.world.run(1)
    assert taker.given_up == ["n"]
    assert taker.numbers("n") == [0]
    assert taker.numbers("m") == [0]


def test_a_link_that_is_over_takes_what_waits_with_it() -> None:
    taker, links = made(1)
    for number in range(5):
        taker.intake.take(links["n"], Kind.MESSAGE, number, memoryview(b"good"), taker.world.now)
    taker.intake.forget(links["n"])
    taker.world.run(1)
    assert taker.numbers("n") == [0]
