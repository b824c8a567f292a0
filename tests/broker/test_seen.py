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
