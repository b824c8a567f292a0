"""What a client takes: every event once for each of its subscriptions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.node.client.intake import Intake

BLOCKS = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=8, unique=True).map(sorted), max_size=12)


@given(BLOCKS)
def test_events_are_new_once_and_late_after_later_ones(blocks: list[list[int]]) -> None:
    intake, came = Intake(), set[int]()
    for numbers in blocks:
        new, late = intake.take("o", np.array(numbers, np.int64))
        assert new.tolist() == [number not in came for number in numbers]
        assert late.tolist() == [number < max(came, default=0) for number in numbers]
        came.update(numbers)


@given(st.lists(st.integers(1, 40)))
def test_one_by_one_it_is_the_same_as_by_the_block(numbers: list[int]) -> None:
    single, blocks = Intake(), Intake()
    for number in numbers:
        new, late = blocks.take("o", np.array([number], np.int64))
        assert single.take("o", number) == (bool(new[0]), bool(late[0]))


def test_origins_are_apart() -> None:
    intake = Intake()
    assert intake.take("o", 5) == (True, False)
    assert intake.take("p", 4) == (True, False)
    assert intake.take("o", 4) == (True, True)


def test_while_restating_an_event_is_due_once_for_each_subscription() -> None:
    intake = Intake()
    intake.is_restating = True
    new, _late = intake.take("o", 1)
    assert intake.is_due("o", 1, "x", is_new=new)
    intake.is_restating = False
    for key, is_due in (("x", False), ("y", True), ("y", False)):
        new, _late = intake.take("o", 1)
        assert intake.is_due("o", 1, key, is_new=new) == is_due


def test_else_an_event_that_came_is_due_for_nobody() -> None:
    intake = Intake()
    new, _late = intake.take("o", 1)
    assert intake.is_due("o", 1, "x", is_new=new)
    new, _late = intake.take("o", 1)
    assert not intake.is_due("o", 1, "y", is_new=new)
