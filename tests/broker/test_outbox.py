"""What neighbours are told, condensed: the state that it leads to is the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.trees.outbox import condensed
from penstock.filters.parsing import parse
from penstock.wire.messages import Body, Subscribe, Unsubscribe

KEYS = st.sampled_from("abcd")
FILTERS = st.sampled_from([parse(f"x > {n}") for n in range(4)])


@st.composite
def bodies(draw: st.DrawFn) -> list[Body]:
    found: list[Body] = []
    for _ in range(draw(st.integers(0, 12))):
        key = draw(KEYS)
        if draw(st.booleans()):
            replaced = [other for other in draw(st.lists(KEYS, max_size=2, unique=True)) if other != key]
            trees = frozenset(draw(st.lists(st.sampled_from("uvw"), max_size=3)))
            found.append(Subscribe(key, draw(FILTERS), trees, tuple(replaced)))
        else:
            found.append(Unsubscribe(key))
    return found


def told(messages: list[Body]) -> dict[object, object]:
    """What a neighbour knows in the end."""
    known: dict[object, object] = {}
    for body in messages:
        if isinstance(body, Subscribe):
            known[body.key] = body.filter, body.trees
            for key in body.replaces:
                known.pop(key, None)
        elif isinstance(body, Unsubscribe):
            known.pop(body.key, None)
    return known


@pytest.mark.property
@given(bodies())
def test_what_is_condensed_leads_to_the_same(messages: list[Body]) -> None:
    assert told(condensed(messages)) == told(messages)


def test_one_subscription_for_many_trees_is_told_once() -> None:
    asked = [
        Subscribe("k", parse("x > 1"), frozenset(f"t{n}" for n in range(count))) for count in range(1, 50)
    ]
    assert condensed([*asked]) == asked[-1:]
