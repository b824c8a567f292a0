"""At rest, nobody has anything to say: neighbours only tell each other that they are there."""

from collections import Counter
from collections.abc import Iterator

from penstock.sim.checkers.checker import Checker
from penstock.sim.network import Network


class Silence(Checker):
    """Compares what has been said at two moments of rest."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._before: Counter[str] | None = None

    def begin(self) -> None:
        """From now on there should be silence."""
        self._before = Counter(self.network.counts.carried)

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        if self._before is not None:
            said = self.network.counts.carried - self._before
            for kind, times in sorted(said.items()):
                if kind != "Alive":
                    yield f"{kind} is said {times} times more"
        self._before = None
