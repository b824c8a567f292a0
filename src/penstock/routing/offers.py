"""What a broker may ask of a neighbour: a filter, on some of the trees that lead through it."""

from typing import NamedTuple

from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers
from penstock.routing.shape import Shape, loose_shape_of


class Offer(NamedTuple):
    """A filter, and the trees on which events that match it are wanted."""

    filter: Predicate
    trees: frozenset[str]


def offer_covers(f: Offer, g: Offer) -> bool:
    """Whether asking for `f` brings everything that asking for `g` would.

    Covering is between subscriptions with the same tree identifiers (seed paper 004, section 3.2); here:
    with at least the same ones.
    """
    return f.trees >= g.trees and covers(f.filter, g.filter)


def offer_shape(offer: Offer) -> Shape:
    """What is compared before two offers are. It says nothing of trees, so it never tells all."""
    return loose_shape_of(offer.filter)
