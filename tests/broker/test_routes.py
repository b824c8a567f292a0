"""Routes: where events go that match filters."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.needs import Found
from penstock.broker.routes import Routes

LINKS = ("north", "south", "ana")
TARGETS = st.lists(
    st.lists(st.tuples(st.sampled_from(LINKS), st.integers(0, 5)), max_size=4), min_size=1, max_size=6
)


@pytest.mark.property
@given(TARGETS, st.data())
def test_a_single_event_goes_where_it_goes_in_a_block(
    targets: list[list[tuple[str, int]]], data: st.DataObject
) -> None:
    numbers = st.lists(st.integers(0, len(targets) - 1), unique=True, max_size=len(targets))
    block = data.draw(st.lists(numbers, min_size=1, max_size=4))
    offsets = np.array([0, *accumulate(map(len, block))], np.int64)
    found = Found(offsets, np.array([n for row in block for n in row], np.int64), [None] * len(targets))
    routes = Routes(targets.__getitem__)
    by_event: list[dict[str, list[int]]] = [{} for _ in block]
    for link, events, keys in routes.wanting(found):
        for event, key in zip(events.tolist(), keys.tolist(), strict=True):
            by_event[event].setdefault(link, []).append(key)
    assert [routes.wanting_one(row) for row in block] == by_event
