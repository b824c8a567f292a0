"""How large the networks of plans are that are drawn from seeds: nearly all small, a few large.

Small networks find most mistakes soonest, and are cut short soonest. What only shows among many brokers and
clients needs large ones, which take as long as a hundred small ones. Which seeds are large is drawn apart
from everything else, so that the other seeds have the plans that they always had.
"""

from random import Random
from typing import Final, NamedTuple

_ONE_IN: Final = 400
"""So many seeds is one large of: all of them together take about a quarter more time at most."""

_SMALL_EVERY: Final = 10
"""These seeds are small: plans on plain links are played under every scheme and protocol there."""


class Size(NamedTuple):
    """How many brokers and clients."""

    brokers: int
    clients: int


def large(seed: int, links: str) -> Size | None:
    """The size of a seed's network if it is a large one."""
    random = Random(f"large network {seed}")
    if random.randrange(_ONE_IN) or seed % _SMALL_EVERY == 0:
        return None
    if links == "reliable":
        # Clients are whole nodes with sessions and timers.
        return Size(random.randint(10, 40), random.randint(20, 100))
    return Size(random.randint(15, 60), random.randint(50, 300))
