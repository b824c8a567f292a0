"""The interface of checkers."""

from collections.abc import Iterator
from typing import ClassVar

from penstock.sim.network import Network
from penstock.sim.observers import Observer


class Checker(Observer):
    """Looks on at a network, and says what is wrong."""

    holds: ClassVar[tuple[str, ...]] = ()
    """What it holds networks to: sentences of the delivery contract in docs/OPERATIONS.md, or its own."""
    exact: ClassVar[bool] = False
    """Whether what it says must be so only where links neither lose nor reorder messages."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def why_not(self) -> str:
        """Why it does not look at a network as large as this one; empty if it does."""
        return ""

    def at_rest(self) -> Iterator[str]:
        """Say what is wrong, now that nothing is under way; and begin anew."""
        return iter(())
