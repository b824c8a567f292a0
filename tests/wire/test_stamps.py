"""Stamps: how long messages of a neighbour have waited, by clocks that agree in nothing but their pace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.flood.messages import Apart
from penstock.errors import WireError
from penstock.filters.parsing import parse
from penstock.wire.messages import Advertise, CatchUp, Control, Sync, Unreachable
from penstock.wire.stamps import Transit, stamped, unstamped

SECONDS = st.floats(0, 30)


def test_a_message_says_when_it_was_sent() -> None:
    at, content = unstamped(memoryview(stamped(b"abc", 12.5)))
    assert (at, bytes(content)) == (12.5, b"abc")


@pytest.mark.parametrize("content", [b"", b"1234567", stamped(b"", float("nan")), stamped(b"", float("inf"))])
def test_what_does_not_say_when_it_was_sent_is_refused(content: bytes) -> None:
    with pytest.raises(WireError):
        unstamped(memoryview(content))


@given(st.floats(-1e6, 1e6), st.lists(st.tuples(st.floats(0.1, 20), st.floats(0, 15)), max_size=60))
def test_what_a_message_waited_is_never_put_too_low(offset: float, sent: list[tuple[float, float]]) -> None:
    transit, now = Transit(), 0.0
    # The first one takes no longer than the line does.
    assert transit.waited(offset, 0.0) == 0
    for gap, wait in sent:
        now += gap + wait
        waited = transit.waited(now - wait + offset, now)
        # By no more than the quickest of the last minutes waited, which here is anything.
        assert waited <= wait + 1e-6
        if now < 100:
            assert waited == pytest.approx(wait, abs=1e-6)


def test_clocks_that_drift_apart_are_no_wait_for_long() -> None:
    transit = Transit()
    # A second is 1.01 seconds over there; after a day the clocks differ by minutes.
    waits = [transit.waited(now * 0.99, float(now)) for now in range(0, 86_400, 5)]
    assert max(waits) < 2.5


def test_what_is_said_of_the_last_seconds_is_about_more_of_them_in_a_message_that_waited() -> None:
    advertise = Advertise("u", parse("x > 1"), 1, age=5.0)
    older = Advertise("u", parse("x > 1"), 1, age=15.0)
    said = Control((1, 1), 7, (Unreachable("t", 2.0), CatchUp("t", 3, 4.0), CatchUp("u", 4, 0.0), advertise))
    assert said.aged(10.0) == Control(
        (1, 1), 7, (Unreachable("t", 12.0), CatchUp("t", 3, 14.0), CatchUp("u", 4, 0.0), older)
    )
    assert Sync((1, 1), 7, advertisements=(advertise,), subscriptions=()).aged(10.0).advertisements == (
        older,
    )
    assert Apart("n", (1, 2), 3.0).aged(10.0) == Apart("n", (1, 2), 13.0)
