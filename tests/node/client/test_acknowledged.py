"""What a publisher remembers of acknowledgements, held against a plain list of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.publishers import Publisher
from penstock.node.client.acknowledged import Acknowledged
from penstock.wire.messages import Advertise
from penstock.wire.requests import ACKED_MAX

Drawn = list[tuple[float, int, bool]]

acks = st.lists(st.tuples(st.floats(0, 150), st.integers(1, 9), st.booleans()), max_size=400)


def published(drawn: Drawn, now: float) -> tuple[Publisher, list[tuple[float, int, int]]]:
    """What a broker knows of acknowledgements, some seconds apart, and when they were, one by one.

    Now and then the publisher begins a new turn.
    """
    acknowledged, times, at, turn = Acknowledged(), list[tuple[float, int, int]](), 0.0, 1
    for seconds, count, is_new in drawn:
        at += seconds / 20
        turn += is_new
        acknowledged.note(count, at, turn)
        times.append((at, count, turn))
    message = Advertise("t", None, acked=acknowledged.ages(at + now))  # type: ignore[arg-type]
    assert len(message.acked) <= ACKED_MAX
    return Publisher.of(message, at + now), times


@pytest.mark.property
@given(acks, st.floats(0, 60), st.floats(0, 3_000))
def test_never_fewer_events_than_were_acknowledged_since_a_time(
    drawn: Drawn, later: float, since: float
) -> None:
    publisher, times = published(drawn, later)
    wanted = sum(count for at, count, _turn in times if at >= since)
    assert publisher.acked_since(since - 1e-6, (), 0.0) >= wanted


@pytest.mark.property
@given(acks, st.floats(0, 60), st.floats(0, 3_000), st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)))
def test_never_fewer_events_than_were_acknowledged_without_waiting(
    drawn: Drawn, later: float, since: float, waited: set[int], others: set[int]
) -> None:
    """In some turns a broker waited for two seconds, and of some it is known otherwise what was missed."""
    publisher, times = published(drawn, later)
    wanted = sum(
        count
        for at, count, turn in times
        if turn not in others and at >= (since + 2.0 if turn in waited else since)
    )
    assert publisher.acked_since(since - 1e-6, waited, 2.0, others) >= wanted


@pytest.mark.property
@given(acks, st.floats(0, 60))
def test_turns_are_told_apart(drawn: Drawn, later: float) -> None:
    """What was acknowledged in one turn is not counted for another."""
    publisher, times = published([(seconds, count, False) for seconds, count, _new in drawn], later)
    assert publisher.acked_since(-1.0, (), 0.0, {1}) == 0
    assert publisher.acked_since(-1.0, (), 0.0, {2}) >= sum(count for _at, count, _turn in times)


@pytest.mark.property
@given(acks, st.floats(0, 60))
def test_nothing_was_acknowledged_since_the_last_one(drawn: Drawn, later: float) -> None:
    publisher, times = published(drawn, later)
    last = times[-1][0] if times else 0.0
    assert publisher.acked_since(last + 1e-6, (), 0.0) == 0
    assert publisher.acked_since(0.0, (), 0.0) >= sum(count for _at, count, _turn in times)


def test_what_was_acknowledged_an_hour_ago_is_forgotten() -> None:
    acknowledged = Acknowledged()
    acknowledged.note(5, 0.0, 1)
    acknowledged.note(1, 4_000.0, 1)
    assert acknowledged.ages(4_001.0) == ((1.0, 1, 1),)
