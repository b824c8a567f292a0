"""Identity-based routing (seed paper 000, section 4.2): each different filter is asked for once.

Filters are the same if their canonical forms are: `penstock.filters` makes equal what matches the same
events, but for some disjunctions over several attributes, which are then asked for twice.
"""

from penstock.routing.offers import Offer
from penstock.routing.schemes.scheme import Scheme, Source, Steps, Wanted


class Identity(Scheme):
    """Asks once for what several want."""

    knows_all = True

    def __init__(self) -> None:
        super().__init__()
        self._wanted = Wanted()

    def put(self, source: Source, offer: Offer) -> Steps:  # noqa: D102
        return self._settle({f: now for f, _was, now in self._wanted.put(source, offer)})

    def drop(self, source: Source) -> Steps:  # noqa: D102
        return self._settle({f: now for f, _was, now in self._wanted.drop(source)})
