"""Quotas and token buckets, held against brute force."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.quotas import BURST_S, NO_QUOTAS, Bucket, Meter, Quotas
from penstock.errors import InputError, PenstockError

START = 1000.0

steps = st.lists(
    st.tuples(st.integers(0, 40).map(lambda n: n / 8), st.integers(0, 60)), min_size=1, max_size=30
)
"""Pauses, and amounts after them."""

quotas = st.builds(
    Quotas,
    **dict.fromkeys(
        ("subscriptions", "advertisements", "bytes_per_second", "events_per_second"), st.integers(0, 3)
    ),
)


def let_through(
    bucket: Bucket, given_steps: list[tuple[float, int]], *, patient: bool
) -> list[tuple[float, int]]:
    """When what goes through: who is patient sends no more before the last has gone."""
    now, through = START, []
    for pause, amount in given_steps:
        now += pause
        at = now + bucket.take(amount, now)
        through.append((at, amount))
        now = at if patient else now
    return through


@pytest.mark.property
@given(st.integers(1, 20), st.integers(0, 60), steps, st.booleans())
def test_no_interval_has_more_than_the_rate_and_the_burst(
    rate: int, largest: int, given_steps: list[tuple[float, int]], patient: bool
) -> None:
    bucket = Bucket(rate, START, largest=largest)
    assert bucket.burst == max(rate * BURST_S, largest)
    through = let_through(bucket, given_steps, patient=patient)
    # An amount above the burst goes through by itself.
    burst = max(bucket.burst, *(amount for _at, amount in through))
    for first in range(len(through)):
        total = 0.0
        for at, amount in through[first:]:
            total += amount
            assert total <= rate * (at - through[first][0]) + burst + 1e-6


@pytest.mark.property
@given(st.integers(1, 20), steps, st.booleans())
def test_nothing_waits_longer_than_it_must(
    rate: int, given_steps: list[tuple[float, int]], patient: bool
) -> None:
    bucket = Bucket(rate, START, largest=60)
    now, before = START, list[tuple[float, int]]()
    for pause, amount in given_steps:
        now += pause
        # The earliest time at which no interval that ends here has too much, in the order of coming.
        earliest = max([now, *(at for at, _amount in before[-1:])])
        total = float(amount)
        for at, earlier in reversed(before):
            total += earlier
            earliest = max(earliest, at + (total - bucket.burst) / rate)
        at = now + bucket.take(amount, now)
        assert at == pytest.approx(earliest, abs=1e-6)
        before.append((at, amount))
        now = at if patient else now


def test_a_second_s_worth_may_come_at_once() -> None:
    bucket = Bucket(100, START)
    assert bucket.take(100, START) == 0
    assert bucket.take(50, START) == 0.5
    assert bucket.take(0, START + 0.5) == 0
    assert bucket.take(101, START + 100) == pytest.approx(0.01)


def test_without_a_rate_nothing_waits() -> None:
    bucket = Bucket(0, START)
    assert [bucket.take(10**12, START) for _ in range(3)] == [0, 0, 0]


def test_an_amount_above_the_burst_is_late_and_not_lost() -> None:
    bucket = Bucket(10, START)
    assert bucket.take(110, START) == 10
    assert bucket.take(1, START + 10) == pytest.approx(0.1)


def test_a_clock_that_goes_back_fills_nothing() -> None:
    bucket = Bucket(10, START)
    assert bucket.take(10, START) == 0
    assert bucket.take(10, START - 5) == 6
    assert bucket.take(0, START + 1) == 0


@pytest.mark.parametrize("amount", [-1, -math.inf, math.nan])
def test_an_amount_that_would_fill_the_bucket_is_refused(amount: float) -> None:
    bucket = Bucket(10, START)
    with pytest.raises(PenstockError, match="not negative"):
        bucket.take(amount, START)
    with pytest.raises(PenstockError, match="not negative"):
        Bucket(amount, START)
    assert bucket.take(10, START) == 0
    assert bucket.take(1, START) > 0


def test_a_meter_waits_for_the_slower_of_bytes_and_events() -> None:
    meter = Meter(Quotas(bytes_per_second=1000, events_per_second=10), START)
    assert meter.take(1000, 5, START) == 0
    assert meter.take(500, 5, START) == 0.5
    assert meter.take(0, 20, START + 0.5) == pytest.approx(1.5)
    assert Meter(NO_QUOTAS, START).take(10**9, 10**9, START) == 0
    assert Meter(Quotas(bytes_per_second=10), START, frame_bytes=100).take(100, 1, START) == 0


@pytest.mark.property
@given(quotas, quotas)
def test_two_quotas_together_allow_what_both_allow(a: Quotas, b: Quotas) -> None:
    both = a.tightest(b)
    assert both == b.tightest(a)
    assert a.tightest(NO_QUOTAS) == a
    for name in Quotas.__struct_fields__:
        for amount in range(5):
            allowed = [not getattr(q, name) or amount <= getattr(q, name) for q in (a, b, both)]
            assert allowed[2] is (allowed[0] and allowed[1])


@pytest.mark.parametrize("number", [-1, 1.5, True, "5", None, 2**63])
def test_a_quota_is_a_whole_number(number: object) -> None:
    with pytest.raises(InputError, match="the quota bytes_per_second is a whole number"):
        Quotas(bytes_per_second=number)  # type: ignore[arg-type]
