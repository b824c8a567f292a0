"""Penstock: a content-based network for Python.

The rooms, from the ground up; imports point down only:

errors      every error, under `PenstockError`
model       values, events, names, limits
filters     constraint, filter, predicate; covers, overlaps, merge; the languages
matching    engines that say which filters match an event
workloads   sample data and seeded generators
bench       benchmarks
cli         the program `penstock`

What stands in `__all__` is the public interface; everything else may change.
"""

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

__version__ = "0.1.0"

__all__ = [
    "Constraint",
    "Event",
    "Family",
    "Filter",
    "Histogram",
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
