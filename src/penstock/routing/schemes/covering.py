"""Covering-based routing (seed paper 000, section 4.3), active and lazy (seed paper 002, section II), and
packed.

Only filters that no other covers are asked for. They are the roots of a covering table (a poset-derived
forest, or the Siena filters poset) of all that is wanted. When a root goes, those that it alone covered rise
in its place, and are asked for before it is taken back.

Active covering takes back what a new root covers; lazy covering leaves it where it is, and so asks for less
again when the root goes. Packing is active covering with all that one message leads to in one message.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from penstock.filters.predicate import Predicate
from penstock.routing.forest import PosetDerivedForest
from penstock.routing.offers import Offer, offer_covers, offer_shape
from penstock.routing.schemes.scheme import Difference, Scheme, Source, Steps, Wanted
from penstock.routing.table import Change, CoveringTable

MakeTable: TypeAlias = Callable[[], CoveringTable[Offer]]


def forest() -> CoveringTable[Offer]:
    """A forest of offers."""
    return PosetDerivedForest(covers=offer_covers, shape=offer_shape)


class Covering(Scheme):
    """Active covering: asks for the roots of what is wanted, and for nothing else."""

    def __init__(self, table: MakeTable = forest) -> None:
        super().__init__()
        self._wanted = Wanted()
        self._table = table()
        self._roots: set[Offer] = set()

    def put(self, source: Source, offer: Offer) -> Steps:  # noqa: D102
        return self._present(self._follow(self._wanted.put(source, offer)))

    def drop(self, source: Source) -> Steps:  # noqa: D102
        return self._present(self._follow(self._wanted.drop(source)))

    @property
    def tests(self) -> int:  # noqa: D102
        return self._table.tests

    def _follow(self, differences: list[Difference]) -> dict[Predicate, Offer | None]:
        """Change the table as what is wanted has changed; for each filter that this touched, what to ask."""
        touched: dict[Predicate, None] = {}
        for _name, was, now in differences:
            touched |= {offer.filter: None for offer in (was, now) if offer is not None}
            # What comes is put in before what goes is taken out: less rises only to fall again.
            if now is not None:
                self._note(self._table.add(now), touched)
            if was is not None:
                self._note(self._table.remove(was), touched)
        return {predicate: self._asking(predicate) for predicate in touched}

    def _note(self, change: Change[Offer], touched: dict[Predicate, None]) -> None:
        self._roots.difference_update(change.fallen)
        self._roots.update(change.risen)
        for offer in (*change.risen, *change.fallen):
            touched[offer.filter] = None

    def _asking(self, predicate: Predicate) -> Offer | None:
        """What to ask for with this filter: an offer, or nothing."""
        offer = self._wanted.of(predicate)
        return offer if offer in self._roots else None

    def _present(self, changes: Mapping[Predicate, Offer | None]) -> Steps:
        """Ask for the roots as they are now."""
        return self._settle(changes)


class Lazy(Covering):
    """Lazy covering: what has once been asked for stays so while it is wanted, covered or not."""

    def _asking(self, predicate: Predicate) -> Offer | None:
        offer = self._wanted.of(predicate)
        return offer if offer in self._roots or predicate in self.asked else None


class Packing(Covering):
    """Subscription packing: active covering, with all that a message leads to in one message."""

    packs = True
