"""The search for filters that cost a broker most: whatever it finds stays within the limits."""

from random import Random

import pytest
from hypothesis import settings

from penstock import parse
from penstock.errors import LimitError
from penstock.filters.languages import sql
from penstock.filters.work import Work
from penstock.model.limits import COVERING_WORK_MAX, EXPANSION_WORK_MAX
from penstock.workloads.worst import WORST
from worst_filters import LENGTH, cost_in_steps, expression, search

pytestmark = pytest.mark.property

_ONE_STEP = 5_000
"""What a single step too many may have been: it is counted as a whole before it is taken."""


@pytest.mark.parametrize("seed", range(3))
def test_no_text_of_a_few_hundred_characters_costs_more_than_the_limits(seed: int) -> None:
    # As many texts as other properties have examples.
    rounds = settings.default.max_examples if settings.default is not None else 100
    worst = search(Random(seed), cost_in_steps, lambda done: done >= rounds)
    assert worst
    for found in worst:
        operations = found.operations
        assert len(found.text) <= LENGTH
        assert operations["parse"] <= EXPANSION_WORK_MAX + _ONE_STEP, found
        assert operations.get("read again", 0) <= EXPANSION_WORK_MAX, found
        assert operations.get("covers", 0) <= COVERING_WORK_MAX, found
        assert operations.get("overlaps", 0) <= COVERING_WORK_MAX, found


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
