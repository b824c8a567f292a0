"""At rest, nobody has anything to say: neighbours only tell each other that they are there."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from penstock.sim.checkers.checker import Checker
from penstock.sim.network import Network


class Silence(Checker):
    """Compares what has been said at two moments of rest."""

    holds: ClassVar[tuple[str, ...]] = ("At rest, brokers send nothing but renewals of leases.",)

    exact: ClassVar[bool] = True

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._before: Counter[str] | None = None

    def begin(self) -> None:
        """From now on there should be silence."""
        self._before = Counter(self.network.counts.carried)

    def at_rest(self) -> Iterator[str]:  # noqa: D102 - as in Checker
        if self._before is not None:
            counts = self.network.counts
            for kind, times in sorted((counts.carried - self._before).items()):
                if kind not in counts.renewing:
                    yield f"{kind} is said {times} times more"
        self._before = None
