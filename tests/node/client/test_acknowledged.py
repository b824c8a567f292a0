"""What a publisher remembers of acknowledgements, held against a plain list of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.trees.publishers import Publisher
from penstock.node.client.acknowledged import Acknowledged
from penstock.wire.messages import Advertise
from penstock.wire.requests import ACKED_MAX

acks = st.lists(st.tuples(st.floats(0, 150), st.integers(1, 9)), max_size=400)


def published(drawn: list[tuple[float, int]], now: float) -> tuple[Publisher, list[tuple[float, int]]]:
    """What a broker knows of acknowledgements, some seconds apart, and when they were, one by one."""
    acknowledged, times, at = Acknowledged(), list[tuple[float, int]](), 0.0
    for seconds, count in drawn:
        at += seconds / 20
        acknowledged.note(count, at)
        times.append((at, count))
    message = Advertise("t", None, acked=acknowledged.ages(at + now))  # type: ignore[arg-type]
    assert len(message.acked) <= ACKED_MAX
    return Publisher.of(message, at + now), times


@pytest.mark.property
@given(acks, st.floats(0, 60), st.floats(0, 3_000))
def test_never_fewer_events_than_were_acknowledged_since_a_time(
    drawn: list[tuple[float, int]], later: float, since: float
) -> None:
    publisher, times = published(drawn, later)
    assert publisher.acked_since(since - 1e-6) >= sum(count for at, count in times if at >= since)


@pytest.mark.property
@given(acks, st.floats(0, 60))
def test_nothing_was_acknowledged_since_the_last_one(drawn: list[tuple[float, int]], later: float) -> None:
    publisher, times = published(drawn, later)
    last = times[-1][0] if times else 0.0
    assert publisher.acked_since(last + 1e-6) == 0
    assert publisher.acked_since(0.0) >= sum(count for _at, count in times)


def test_what_was_acknowledged_an_hour_ago_is_forgotten() -> None:
    acknowledged = Acknowledged()
    acknowledged.note(5, 0.0)
    acknowledged.note(1, 4_000.0)
    assert acknowledged.ages(4_001.0) == ((1.0, 1),)
