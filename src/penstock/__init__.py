"""Penstock: a content-based network for Python.

The rooms, from the ground up; imports point down only:

errors      every error, under `PenstockError`
model       values, events, names, limits
filters     constraint, filter, predicate; covers, overlaps, merge; the languages
matching    the matcher and other engines: which filters match an event
workloads   sample data and seeded generators
bench       benchmarks of filters and of matching
cli         the program `penstock`

What stands in `__all__` is the public interface; everything else may change.
"""

from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.filters.constraint import Constraint
from penstock.filters.estimate import Histogram, ValueCounts
from penstock.filters.filter import Filter
from penstock.filters.merging import Merge, merge
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers, identical, overlaps
from penstock.model.events import Event
from penstock.model.values import Family, Time

if TYPE_CHECKING:
    from penstock.matching.matcher import Matcher
    from penstock.matching.matches import Matches

__version__ = "0.1.0"

__all__ = [
    "Constraint",
    "Event",
    "Family",
    "Filter",
    "Histogram",
    "Matcher",
    "Matches",
    "Merge",
    "PenstockError",
    "Predicate",
    "Time",
    "ValueCounts",
    "covers",
    "identical",
    "merge",
    "overlaps",
    "parse",
]


def __getattr__(name: str) -> object:
    """Import the engine when it is first asked for: it needs NumPy, which parsing does not."""
    if name == "Matcher":
        from penstock.matching.matcher import Matcher

        return Matcher
    if name == "Matches":
        from penstock.matching.matches import Matches

        return Matches
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
