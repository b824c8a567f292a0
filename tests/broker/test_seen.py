"""Which events have come: against a set that remembers everything."""

from itertools import accumulate
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker import seen
from penstock.broker.seen import Numbers, Seen

MOST = 512


@st.composite
def runs(draw: st.DrawFn) -> list[list[int]]:
    """Blocks of rising numbers, most of them near those that came before, some far ahead or behind."""
    found: list[list[int]] = []
    top = 0
    for _ in range(draw(st.integers(1, 12))):
        near = st.integers(max(1, top - 700), top + 50)
        far = st.one_of(st.integers(1, top + 5000), st.integers(2**40, 2**40 + 2000))
        first = draw(st.one_of(near, near, near, far))
        steps = draw(st.lists(st.one_of(st.just(1), st.integers(1, 30)), max_size=20))
        numbers = list(accumulate(steps, initial=first))
        found.append(numbers)
        top = max(top, numbers[-1])
    return found


class Model:
    """All numbers that came. Of those below the last MOST nothing is remembered: they count as come."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.had: set[int] = set()
        self.top = 0

    def add(self, numbers: list[int]) -> list[bool]:
        self.top = max(self.top, numbers[-1])
        new = [n not in self.had and n > self.top - self.most for n in numbers]
        self.had.update(numbers)
        return new


@pytest.mark.property
@given(runs())
def test_numbers_are_new_once_and_never_when_they_are_too_old(blocks: list[list[int]]) -> None:
    numbers, model = Numbers(MOST), Model(MOST)
    for block in blocks:
        assert numbers.add(np.array(block, np.int64)).tolist() == model.add(block)
        assert numbers.top == model.top


@pytest.mark.property
@given(runs(), st.randoms(use_true_random=False), st.sampled_from([3, 40, 512]))
def test_numbers_may_come_one_by_one_or_in_blocks(
    blocks: list[list[int]], random: Random, recent_max: int
) -> None:
    numbers, model = Numbers(MOST), Model(MOST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "_RECENT_MAX", recent_max)
        patch.setattr(seen, "_FEW_MAX", 60)
        for block in blocks:
            if random.random() < 0.3:
                assert numbers.add(np.array(block, np.int64)).tolist() == model.add(block)
            else:
                some = random.sample(block, len(block)) if random.random() < 0.5 else block
                assert [numbers.add_one(n) for n in some] == [model.add([n])[0] for n in some]
            assert numbers.top == model.top


@pytest.mark.property
@given(runs(), st.randoms(use_true_random=False), st.sampled_from([10, 60]))
def test_what_is_folded_at_any_time_forgets_nothing(
    blocks: list[list[int]], random: Random, few_max: int
) -> None:
    numbers, model = Numbers(MOST), Model(MOST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "_FEW_MAX", few_max)
        patch.setattr(seen, "_ROOM_MIN", 0)
        for block in blocks:
            if random.random() < 0.7:
                numbers.fold()
            if random.random() < 0.5:
                assert numbers.add(np.array(block, np.int64)).tolist() == model.add(block)
            else:
                assert [numbers.add_one(n) for n in block] == [model.add([n])[0] for n in block]
            assert numbers.top == model.top


@pytest.mark.property
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 400)), max_size=60))
def test_origins_are_told_apart(given: list[tuple[str, int]]) -> None:
    known, models = Seen(MOST), {origin: Model(MOST) for origin in "abc"}
    for origin, number in given:
        assert known.add(origin, np.array([number])).tolist() == models[origin].add([number])
        assert known.top(origin) == models[origin].top
    assert known.top("d") == 0


def test_what_grows_forgets_nothing() -> None:
    numbers = Numbers(2**18)
    even = np.arange(2, 100_000, 2)
    for at in range(0, len(even), 100):
        assert numbers.add(even[at : at + 100]).all()
    assert not numbers.add(even).any()
    assert numbers.add(even - 1).all()
    assert not numbers.add(np.arange(1, 99_999)).any()


def test_what_comes_one_by_one_is_not_forgotten_either() -> None:
    numbers = Numbers(2**18)
    assert all(numbers.add_one(number) for number in range(2, 20_000, 2))
    assert not any(numbers.add_one(number) for number in range(2, 20_000, 2))
    assert all(numbers.add_one(number) for number in range(1, 20_000, 2))
    assert not any(numbers.add_one(number) for number in range(1, 20_000))


def test_a_huge_number_that_comes_by_itself_takes_no_room() -> None:
    numbers = Numbers()
    assert [numbers.add_one(n) for n in (5, 2**40, 2**40, 2**40 - 5, 2**40 - 5, 5)] == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert numbers.add_one(2**60)
    assert len(numbers._has) <= 256


def test_one_that_sends_little_takes_little_room() -> None:
    numbers = Numbers()
    numbers.add(np.arange(1, 101))
    assert len(numbers._has) <= 1024


def test_origins_that_were_not_heard_of_for_long_are_forgotten_first() -> None:
    known = Seen(MOST, origins=2)
    one = np.array([1])
    for origin in ("a", "b", "a", "c"):
        known.add(origin, one)
    assert (known.top("a"), known.top("b"), known.top("c")) == (1, 0, 1)
    assert not known.add("a", one).any()
    assert known.add("b", one).all()


def test_many_origins_that_are_heard_of_again_and_again_are_not_forgotten() -> None:
    known = Seen(MOST, origins=100)
    for number in range(1, 30):
        for origin in range(99):
            assert known.add(f"o{origin}", number)
        assert known.add("passing by" * number, 1)


# Publishers that come and go


def gone(known: Seen, publishers: int, events: int, step: int = 1) -> None:
    """Publishers that send events, and are not heard of again."""
    numbers = np.arange(1, events * step, step)
    for publisher in range(publishers):
        for block in np.array_split(numbers, 10):
            assert known.add(f"o{publisher}", block).all()


def test_publishers_that_come_and_go_leave_next_to_nothing() -> None:
    known = Seen()
    gone(known, 40, 150_000)
    assert known.room == 40 * 2**18
    known.fold_idle()
    known.fold_idle()
    # Each left a quarter of a megabyte, for good.
    assert known.room < 40 * 100
    for publisher in range(40):
        assert not known.add(f"o{publisher}", np.arange(100_000, 150_000)).any()
        assert known.add(f"o{publisher}", np.array([150_001])).all()


def test_publishers_of_whose_events_only_some_come_leave_a_bit_for_each() -> None:
    known = Seen()
    gone(known, 5, 70_000, step=2)
    known.fold_idle()
    known.fold_idle()
    assert known.room == 5 * 2**18 // 8
    assert not known.add("o3", np.arange(1, 140_000, 2)).any()
    assert known.add("o3", np.arange(2, 140_000, 2)).all()


def test_a_few_numbers_are_folded_too() -> None:
    known = Seen()
    gone(known, 3, 1_000)
    known.fold_idle()
    known.fold_idle()
    assert known.room < 3 * 100
    assert not known.add("o1", np.arange(1, 1_000)).any()


def test_who_is_heard_of_is_not_folded() -> None:
    known = Seen()
    gone(known, 2, 5_000)
    for number in range(5_000, 5_010):
        known.fold_idle()
        known.add("o1", np.array([number]))
    assert known._origins["o0"].is_folded
    assert not known._origins["o1"].is_folded


def test_numbers_of_all_origins_together_take_so_much_room_and_the_oldest_are_forgotten() -> None:
    known = Seen(unfolded_max=2**20, folded_max=2**16)
    gone(known, 20, 70_000, step=2)
    assert known._wide_bytes <= 2**20
    assert known._folded_bytes <= 2**16
    assert known.top("o0") == 0
    assert known.top("o19") == 139_999
    # Those that follow on each other take no room, and stay.
    steady = Seen(unfolded_max=2**20, folded_max=2**16)
    gone(steady, 100, 3_000)
    assert not steady.add("o0", np.arange(1, 3_000)).any()
