"""The range filters of Salo 2010, section 7.2: x in [a, b], or x in [a, b] and y in [c, d], from a seed.

The paper names three distributions of the subscription space (Gaussian, Zipf, uniform) and nothing more. Open
are the domain, the parameters, and what is distributed. Here both ends of a range are drawn from the
distribution, independently, and put in order; attributes are independent of one another.

uniform    integers from 0 to 999 999
gaussian   mean 500 000, standard deviation 125 000, rounded and kept within the domain
zipf       rank r of 1 to 10 000 with probability in proportion to 1/r; the value is the rank, so that ranges
           crowd at the low end, share ends, and are often equal
"""

from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate, of_canonical

Distribution = Literal["gaussian", "zipf", "uniform"]
DISTRIBUTIONS: Final[tuple[Distribution, ...]] = get_args(Distribution)
ATTRIBUTES: Final = ("x", "y")
DOMAIN: Final = 1_000_000
DEVIATION: Final = DOMAIN / 8
RANKS: Final = 10_000


class RangeFilters(NamedTuple):
    """Filters: row i has the ends, both included, of filter i's range on each attribute."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]


def filters(count: int, seed: int, distribution: Distribution, dimensions: int = 2) -> RangeFilters:
    """So many random range filters of one or two dimensions."""
    if dimensions not in (1, 2):
        raise ValueError(f"range filters have 1 or 2 dimensions, not {dimensions}")
    random = np.random.default_rng([seed, DISTRIBUTIONS.index(distribution), dimensions])
    shape = (count, dimensions, 2)
    if distribution == "uniform":
        ends = random.integers(0, DOMAIN, shape)
    elif distribution == "gaussian":
        drawn = random.normal(DOMAIN / 2, DEVIATION, shape)
        ends = np.clip(np.rint(drawn), 0, DOMAIN - 1).astype(np.int64)
    else:
        weights = np.cumsum(1 / np.arange(1, RANKS + 1))
        ends = np.searchsorted(weights, random.random(shape) * weights[-1], side="right") + 1
    return RangeFilters(ends.min(axis=2), ends.max(axis=2))


def as_predicates(ranges: RangeFilters) -> list[Predicate]:
    """The filters as predicates of the algebra, some of them perhaps equal."""
    made = []
    for lows, highs in zip(ranges.low.tolist(), ranges.high.tolist(), strict=True):
        ends = zip(ATTRIBUTES, lows, highs, strict=False)
        made.append(of_canonical((Filter(Constraint(name, "between", (a, b)) for name, a, b in ends),)))
    return made
