"""How large drawn networks are: a few large ones, and none among the seeds that tests name."""

import pytest

from penstock.sim.plan import draw
from penstock.sim.sizes import large
from penstock.sim.whole.draw import draw_whole
from penstock.sim.whole.outages import has_long_outages

SEEDS = range(20_000)

PLAIN = [(9, 7), (7, 2), (5, 4), (8, 7), (4, 4), (6, 1)]
WHOLE = [(1, 2), (2, 3), (3, 2), (1, 2), (2, 2), (6, 2)]

NAMED = (302_196, 200_662, 1_009_576, 1_009_135, 1_003_371, 1_003_644, 1_002_558, 7_700_005, *range(200))
"""Seeds that tests name, or begin with: their plans must stay what they were."""


@pytest.mark.parametrize("links", ["plain", "reliable"])
def test_few_seeds_are_large_and_none_that_a_test_names(links: str) -> None:
    sizes = [size for seed in SEEDS if (size := large(seed, links))]
    assert len(SEEDS) / 600 < len(sizes) < len(SEEDS) / 300
    assert not any(large(seed, links) for seed in NAMED)


def test_a_quarter_of_the_seeds_has_long_outages_and_none_that_a_test_names() -> None:
    assert 0.23 < sum(map(has_long_outages, SEEDS)) / len(SEEDS) < 0.27
    assert not any(map(has_long_outages, NAMED))


def test_large_plans_are_as_large_as_was_said() -> None:
    chosen = [seed for seed in SEEDS if large(seed, "plain")][:8]
    for seed in chosen:
        for plan, links in ((draw(seed), "plain"), (draw_whole(seed), "reliable")):
            size = large(seed, links)
            assert size is not None
            assert (plan.brokers, len(plan.homes)) == size
    assert max(size.brokers for seed in SEEDS if (size := large(seed, "plain"))) > 50
    assert max(size.clients for seed in SEEDS if (size := large(seed, "plain"))) > 250


def test_small_plans_stay_as_they_were() -> None:
    # As they were drawn before there were large ones.
    assert [(draw(seed).brokers, len(draw(seed).homes)) for seed in range(6)] == PLAIN
    assert [(draw_whole(seed).brokers, len(draw_whole(seed).homes)) for seed in range(6)] == WHOLE
