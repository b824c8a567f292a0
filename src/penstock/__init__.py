"""Penstock: a content-based network for Python.

The rooms, from the ground up; imports point down only:

errors      every error, under `PenstockError`
model       values, events, names, limits
filters     constraint, filter, predicate; covers, overlaps, merge; the languages
matching    the matcher and other engines: which filters match an event
routing     tables of subscriptions, and the schemes that say which of them neighbours need
wire        what brokers and clients say, as bytes
broker      the broker: messages in, effects out
sim         the same under a virtual clock
net         the same on sockets; the client
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
from penstock.model.schema import Schema
from penstock.model.values import Family, Time

if TYPE_CHECKING:
    from penstock.matching.matcher import Matcher
    from penstock.matching.matches import Matches
    from penstock.net.client.client import Client
    from penstock.net.client.connecting import connect
    from penstock.net.client.sync import connect_sync

__version__ = "0.1.0"

__all__ = [
    "Client",
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
    "Schema",
    "Time",
    "ValueCounts",
    "connect",
    "connect_sync",
    "covers",
    "identical",
    "merge",
    "overlaps",
    "parse",
]


_LATER = {
    "Matcher": "penstock.matching.matcher",
    "Matches": "penstock.matching.matches",
    "Client": "penstock.net.client.client",
    "connect": "penstock.net.client.connecting",
    "connect_sync": "penstock.net.client.sync",
}


def __getattr__(name: str) -> object:
    """Import the engine and the client when they are first asked for: they need what parsing does not."""
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is, also what has not been asked for yet: shells complete by it."""
    known = (name for name in globals() if name != "TYPE_CHECKING" and (name[0] != "_" or name[:2] == "__"))
    return sorted({*known, *__all__})
