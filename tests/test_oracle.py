"""The oracle that every judge of deliveries asks, against counting by hand."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.oracle import Finding, Ledger, Tally

NAMES = st.tuples(st.sampled_from("pq"), st.integers(1, 6))
WANTED = st.dictionaries(NAMES, st.frozensets(st.sampled_from("xyz")), max_size=8)
DELIVERIES = st.lists(st.tuples(st.sampled_from("xyz"), NAMES, st.booleans()), max_size=20)


@pytest.mark.property
@given(WANTED, DELIVERIES)
def test_counts_are_those_of_counting_by_hand(
    wanted: dict[tuple[str, int], frozenset[str]], deliveries: list[tuple[str, tuple[str, int], bool]]
) -> None:
    ledger = Ledger()
    for name, whom in wanted.items():
        ledger.publish(name, whom)
    for who, name, late in deliveries:
        ledger.deliver(who, name, late=late)
    tally, found = ledger.judge()
    times = Counter((name, who) for who, name, _late in deliveries if name in wanted)
    assert tally.published == len(wanted)
    assert tally.expected == sum(map(len, wanted.values()))
    assert tally.delivered == len(deliveries)
    assert tally.missed == sum((name, who) not in times for name in wanted for who in wanted[name])
    assert tally.unwanted == sum(who not in wanted[name] for name, who in times)
    assert tally.twice == times.total() - len(times)
    assert tally.unknown == sum(name not in wanted for _who, name, _late in deliveries)
    assert tally.is_right == (not found)
    assert Counter(finding.sort for finding in found) == Counter(
        {
            sort: getattr(tally, sort)
            for sort in ("missed", "unwanted", "twice", "unknown", "disordered")
            if getattr(tally, sort)
        }
    )


def test_order_is_wrong_unless_what_is_late_says_so() -> None:
    ledger = Ledger()
    for number in (1, 2, 3, 4):
        ledger.publish(("p", number), ["x"])
    ledger.deliver("x", ("p", 2))
    ledger.deliver("x", ("p", 1), late=True)
    ledger.deliver("x", ("p", 4), late=True)
    ledger.deliver("x", ("p", 3))
    tally, found = ledger.judge()
    assert found == [Finding("disordered", ("p", 4), "x"), Finding("disordered", ("p", 3), "x", after=4)]
    assert (tally.late, tally.disordered) == (2, 2)


def test_what_may_be_missing_is_counted_apart() -> None:
    ledger = Ledger()
    ledger.publish(("p", 1), ["x", "y"])
    tally, found = ledger.judge(lambda _name, who: who == "y")
    assert found == [Finding("missed", ("p", 1), "x")]
    assert (tally.missed, tally.excused) == (1, 1)
    assert ledger.judge() == (Tally(), [])
