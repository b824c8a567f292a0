"""The search for filters that cost a broker most: whatever it finds stays within the limits."""

from collections.abc import Callable
from itertools import islice
from random import Random

import pytest
from hypothesis import settings

from penstock import covers, parse
from penstock.errors import LimitError
from penstock.filters import patterns
from penstock.filters.languages import sql
from penstock.filters.work import Work
from penstock.model.limits import REQUEST_LENGTH_MAX
from penstock.workloads.worst import REFUSED, WORST, worst_filters
from worst_filters import BUDGETS, LENGTH, cost_in_steps, expression, over_budget, search

pytestmark = pytest.mark.property


@pytest.mark.parametrize("seed", range(3))
def test_no_text_of_a_few_hundred_characters_costs_more_than_the_limits(seed: int) -> None:
    # As many texts as other properties have examples.
    rounds = settings.default.max_examples if settings.default is not None else 100
    worst = search(Random(seed), cost_in_steps, lambda done: done >= rounds)
    assert worst
    for found in worst:
        assert len(found.text) <= LENGTH
        for name, most in BUDGETS.items():
            assert found.operations.get(name, 0) <= most, found


@pytest.mark.parametrize("seed", [7, 8])
def test_whatever_is_read_is_read_again_in_canonical_form(seed: int) -> None:
    random = Random(seed)
    for _ in range(settings.default.max_examples if settings.default is not None else 100):
        try:
            predicate = parse(expression(random, random.choice((200, 500, 1_500, 4_000))))
        except LimitError:
            continue
        text = predicate.to_sql()
        assert parse(text) == predicate
        assert parse(text).to_sql() == text


@pytest.mark.parametrize("text", WORST)
def test_whoever_keeps_the_pace_changes_nothing(text: str) -> None:
    called: list[None] = []
    assert parse(text, request=True, pace=lambda: called.append(None)) == parse(text, request=True)
    assert called


def test_whoever_keeps_the_pace_is_called_all_along() -> None:
    called: list[None] = []
    work = Work.for_request(len(WORST[0]), lambda: called.append(None))
    sql.parse(WORST[0], work)
    # Trials are counted to the work that they are for once they are done, and pace themselves.
    assert work.spent // 200 <= len(called) <= 2 * (work.spent // 100) + 2


@pytest.mark.parametrize("text", REFUSED)
def test_what_takes_long_to_refuse_is_refused(text: str) -> None:
    with pytest.raises(LimitError):
        parse(text, request=True)


def test_the_worst_filters_are_as_long_as_a_request_may_be_and_no_longer() -> None:
    lengths = [len(text) for text in islice(worst_filters(), 1_000)]
    assert REQUEST_LENGTH_MAX - 256 < max(lengths) <= REQUEST_LENGTH_MAX


_COMPARED = 20_000
"""Pairs of patterns that a relation compares at most: it took over 40,000 when that was not counted."""


@pytest.mark.parametrize("text", [text for text in WORST if len(text) <= 1_500])
def test_a_relation_compares_no_more_patterns_than_its_steps_allow(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cutting one filter out of another once took 0.3 s, for 30,000 steps, with texts of 600 characters."""
    compared = 0

    def counted(run: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
        def counting(a: str, b: str) -> bool:
            nonlocal compared
            compared += 1
            return run(a, b)

        return counting

    for name in ("covers", "disjoint"):
        monkeypatch.setattr(patterns, name, counted(getattr(patterns, name)))
    here, opposite = parse(text, request=True), parse(f"not ({text})")
    for pair in ((here, opposite), (opposite, here)):
        compared = 0
        covers(*pair)
        assert compared <= _COMPARED
    assert over_budget(text, [opposite]) == []
