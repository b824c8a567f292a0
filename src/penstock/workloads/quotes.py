"""Stock quotes, and subscriptions to them, from a seed.

A quote has a symbol, a price and a volume, both integers from 0 to 999. A subscription names a symbol, and a
range of prices or (every other one) ranges of prices and volumes.

The routing papers say little of their subscriptions: seed paper 004 (section 5) that they are for stock
quotes and follow Zipf's law, seed paper 000 (section 7.2) that they are ranges on one or two attributes. The
rest is ours, chosen so that identical, covering and mergeable filters all occur, as Zipf's law would have it:

- symbols of subscriptions follow Zipf's law (exponent 1); quotes do not: each symbol is quoted equally often;
- ranges lie on a grid, anywhere on it; their widths are as likely to be between one and two steps as between
  ten and twenty (log-uniform): many are narrow, few are wide, and there is no width that they cluster at.
"""

from bisect import bisect
from itertools import accumulate
from random import Random
from typing import Final

from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.model.events import Event

DOMAIN: Final = 1_000
"""Prices and volumes are integers below this."""


class Quotes:
    """Draws subscriptions and quotes. `steps` is how fine the grid of ranges is."""

    def __init__(self, symbols: int, steps: int, seed: int) -> None:
        self.symbols = symbols
        self._steps = steps
        self._random = Random(f"quotes {symbols} {steps} {seed}")
        self._popular = list(accumulate(1 / rank for rank in range(1, symbols + 1)))

    def symbol(self) -> int:
        """A symbol, by its popularity: 0 is the most popular."""
        return bisect(self._popular, self._random.random() * self._popular[-1])

    def subscription(self, symbol: int) -> Predicate:
        """A subscription to quotes of this symbol."""
        constraints = [Constraint("symbol", "=", name_of(symbol)), self._range("price")]
        if self._random.random() < 0.5:
            constraints.append(self._range("volume"))
        return Predicate([Filter(constraints)])

    def quote(self, symbol: int, low: int = 0, high: int = DOMAIN - 1) -> Event:
        """A quote of a symbol, with a price between these."""
        random = self._random
        price, volume = random.randint(low, high), random.randrange(DOMAIN)
        return Event({"symbol": name_of(symbol), "price": price, "volume": volume})

    def _range(self, attribute: str) -> Constraint:
        steps, random = self._steps, self._random
        # The logarithm of the width is uniform; what comes out as wider than the grid is the whole of it.
        width = min(steps, int((steps + 1) ** random.random()))
        low = random.randint(0, steps - width)
        ends = (low * DOMAIN // steps, (low + width) * DOMAIN // steps - 1)
        return Constraint(attribute, "between", ends)


def name_of(symbol: int) -> str:
    """What a symbol is called."""
    return f"S{symbol:03}"
