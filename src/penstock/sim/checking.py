"""The checkers of a scenario: which of them look on, and what they found.

What must be so whatever links do is looked at from the beginning. What must be so only where links lose
nothing is looked at when the network is at rest, and only then; unless it is too large.
"""

from collections import Counter
from typing import Final

from penstock.sim.checkers.catalog import checkers_for, checkers_for_whole, the
from penstock.sim.checkers.delivered import Delivered, Recipients
from penstock.sim.checkers.silence import Silence
from penstock.sim.network import Network
from penstock.sim.results import Check
from penstock.sim.whole.network import WholeNetwork
from penstock.wire.messages import Publish

_EXAMPLES_MAX: Final = 3
"""So much of what a checker found is kept in words."""

_LOSSY: Final = "links lose or reorder messages"


class Checks:
    """Has checkers look on at a network."""

    def __init__(self, network: Network | WholeNetwork) -> None:
        self._network = network
        self._checkers = (
            checkers_for_whole(network)
            if isinstance(network, WholeNetwork)
            else checkers_for(network.protocol, network)
        )
        self._delivered = the(Delivered, self._checkers.values())
        self._silence = the(Silence, self._checkers.values())
        self._wrong: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {name: [] for name in self._checkers}
        self._skipped: dict[str, str] = {}
        for checker in self._checkers.values():
            if not checker.exact:
                network.observers.append(checker)

    def rest(self, seconds: float) -> None:
        """The network is at rest: say what is wrong with it, and whether it is silent for so long."""
        network = self._network
        lossy = network.is_lossy()
        if not lossy:
            self._silence.begin()
            network.run(network.now + seconds)
        for name, checker in self._checkers.items():
            why_not = _LOSSY if lossy and checker.exact else checker.why_not()
            if why_not:
                self._skipped[name] = why_not
                continue
            for text in checker.at_rest():
                self._wrong[name] += 1
                if len(self._examples[name]) < _EXAMPLES_MAX:
                    self._examples[name].append(text)

    def probe(self) -> None:
        """Events will be published at rest, each with those who must get it."""
        self._network.observers.append(self._delivered)

    def expect(self, publish: Publish, expected: Recipients) -> None:
        """An event was published at rest."""
        self._delivered.expect(publish, expected)

    def found(self) -> list[Check]:
        """What came of it all."""
        return [
            Check(
                name=name,
                outcome="failed" if self._wrong[name] else "skipped" if name in self._skipped else "held",
                why=self._skipped.get(name, ""),
                wrong=self._wrong[name],
                examples=self._examples[name],
            )
            for name in self._checkers
        ]
