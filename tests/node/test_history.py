"""What was published lately, kept for those who could not be reached."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.node.history import BLOCK_BYTES, History, Kept
from penstock.node.links import Link
from penstock.wire.blocks import Block, Header
from penstock.wire.sessions import Session

LINK = Link("p", "s", Session(2**20), True, "p")


def block(number: int, tree: str = "t", size: int = 10) -> Block:
    return Block.of(Header(tree, "o"), [number], [bytes(size)])


def numbers(found: list[Kept]) -> list[int]:
    return [int(one.block.numbers[0]) for one in found]


def kept(keep: float, most: int, times: list[float], size: int = 10) -> History:
    """A history of events that were finished at these times."""
    history = History(keep, most)
    for number, at in enumerate(times, 1):
        history.keep(block(number, size=size), (LINK, number), at - 0.5)
        history.finish((LINK, number), at)
    return history


def test_what_was_finished_since_a_time_is_found_and_what_is_not_finished() -> None:
    history = kept(60.0, 2**20, [1.0, 2.0, 3.0, 4.0])
    history.keep(block(5), (LINK, 5), 4.5)
    history.keep(block(6, "other"), (LINK, 6), 4.5)
    assert numbers(history.since("t", 3.0)) == [3, 4, 5]
    assert numbers(history.since("t", 3.5)) == [4, 5]
    assert numbers(history.since("other", 0.0)) == [6]
    assert [one.published_at for one in history.since("t", 3.0)] == [2.5, 3.5, 4.5]
    assert history.dropped_since("t", 0.0) == 0


def test_events_that_are_sent_again_are_kept_once() -> None:
    history = History(60.0, 2**20)
    for at in (0.0, 0.7):
        history.keep(block(1), (LINK, 1), at)
    assert history.size == 10 + BLOCK_BYTES
    history.finish((LINK, 1), 1.0)
    history.finish((LINK, 1), 2.0)
    assert [one.published_at for one in history.since("t", 0.0)] == [0.0]


@given(
    st.lists(st.floats(0, 100), max_size=30).map(sorted),
    st.floats(1, 50),
    st.integers(1, 40),
    st.floats(0, 100),
)
def test_all_is_kept_or_counted_as_dropped(
    times: list[float], keep: float, blocks: int, since: float
) -> None:
    history = kept(keep, (10 + BLOCK_BYTES) * blocks, times)
    history.trim(100.0)
    found = numbers(history.since("t", since))
    wanted = [number for number, at in enumerate(times, 1) if at >= since]
    assert found == wanted[len(wanted) - len(found) :]
    assert history.size <= (10 + BLOCK_BYTES) * blocks
    # Seconds are counted as a whole, so that there may be some more.
    missing = len(wanted) - len(found)
    nearly = sum(since - 1 <= at < since for at in times)
    assert missing <= history.dropped_since("t", since) <= missing + nearly
    oldest = min((times[number - 1] for number in numbers(history.since("t", 0.0))), default=100.0)
    assert oldest >= 100.0 - keep


@given(
    st.lists(st.tuples(st.floats(0, 100), st.sampled_from("abc")), max_size=30).map(sorted),
    st.floats(1, 50),
    st.floats(0, 100),
)
def test_each_tree_has_its_own_events(given_: list[tuple[float, str]], keep: float, since: float) -> None:
    history = History(keep, 2**20)
    for number, (at, tree) in enumerate(given_, 1):
        history.keep(block(number, tree), (LINK, number), at)
        history.finish((LINK, number), at)
    now = given_[-1][0] if given_ else 0.0
    for tree in "abcd":
        assert numbers(history.since(tree, since)) == [
            number
            for number, (at, mine) in enumerate(given_, 1)
            if mine == tree and at >= max(since, now - keep)
        ]
