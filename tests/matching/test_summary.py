"""How often each rule matched: counts agree with counting match by match."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Matcher
from penstock.matching.summary import TOP
from penstock.model.names import Id

pytestmark = pytest.mark.usefixtures("warm_kernels")

RULES: dict[Id, str] = {
    "x": "x > 1",
    "y": "y = 'a' or x = 0",
    7: "x between 0 and 5",
    "7": "x is null",
    "no": "zzz = 1",
}


@given(
    st.lists(
        st.lists(
            st.one_of(
                st.none(),
                st.fixed_dictionaries({"x": st.integers(-1, 7)}),
                st.fixed_dictionaries({"y": st.sampled_from("ab")}),
            ),
            max_size=6,
        ),
        max_size=4,
    )
)
def test_hits_are_those_of_counting_match_by_match(batches: Sequence[list[dict[str, object] | None]]) -> None:
    matcher = Matcher(RULES)
    found = [matcher.match_batch(events) for events in batches]
    summary = matcher.summary(found)
    expected = Counter(key for matches in found for ids in matches for key in ids)
    assert dict(summary.by_rule) == {key: expected[key] for key in RULES}
    assert summary.hits == sum(expected.values())
    assert summary.matched == sum(1 for matches in found for ids in matches if ids)
    assert summary.events == sum(map(len, batches))
    assert set(summary.never) == set(RULES) - set(expected)
    hits = [count for _key, count in summary.by_rule]
    assert hits == sorted(hits, reverse=True)
    assert summary.noisiest(2) == [pair for pair in summary.by_rule[:2] if pair[1]]


def test_batches_before_and_after_a_change_are_counted_together() -> None:
    matcher = Matcher((n, f"x = {n}") for n in range(200))
    first = matcher.match_batch([{"x": 5}, {"x": 150}])
    matcher.remove_many(range(100))
    matcher.add("new", "x = 150")
    matcher.compact()
    second = matcher.match_batch([{"x": 150}, {"x": 5}])
    summary = matcher.summary([first, second])
    # What has been removed since is there for its hits alone.
    assert summary.noisiest(3) == [(150, 2), (5, 1), ("new", 1)]
    assert len(summary.by_rule) == 102
    assert 6 not in dict(summary.by_rule)
    assert (summary.events, summary.matched, summary.hits) == (4, 3, 4)


def test_one_batch_need_not_be_in_a_list() -> None:
    matcher = Matcher({"a": "x > 1"})
    assert matcher.summary(matcher.match_batch([{"x": 2}])).by_rule == (("a", 1),)
    assert matcher.summary([]).by_rule == (("a", 0),)


def test_it_is_told_in_few_lines() -> None:
    rules = {f"rule-{n}": f"x >= {n}" for n in range(50)} | {f"never-{n:02}": f"y = {n}" for n in range(30)}
    matcher = Matcher(rules)
    text = str(matcher.summary(matcher.match_batch([{"x": n} for n in range(1_000)])))
    lines = text.split("\n")
    assert lines[:2] == [
        "1,000 events: 1,000 matched (100.0 %), 48,775 hits",
        "80 rules: 50 matched, 30 never",
    ]
    assert "  rule-0   1,000 (100.0 %)" in lines
    assert "  rule-19    981 (98.1 %)" in lines
    assert lines[-4:] == [
        "  … and 10 more",
        "",
        "rules and events disagree:",
        "  none of 1,000 events has 'y', which 30 rules (never-00, never-01, never-02, …) name",
    ]
    assert len(lines) == 2 + 2 + TOP + 2 + TOP + 1 + 3
    shown = Matcher({"<b>": "x > 1"})
    assert "&lt;b&gt;" in shown.summary(shown.match_batch([{"x": 2}]))._repr_html_()
    assert str(Matcher().summary([])) == "0 events: 0 matched, 0 hits\n0 rules: 0 matched, 0 never"
