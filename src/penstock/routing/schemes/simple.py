"""Simple routing (seed paper 000, section 4.1): every subscription goes to every broker, by itself.

In the paper it is the pair of filter and neighbour that is known once; here it is the subscription, so that
its unsubscription takes away its own entry and no other's.
"""

from penstock.routing.offers import Offer
from penstock.routing.schemes.scheme import Scheme, Source, Steps, Wanted


class Simple(Scheme):
    """Asks for each subscription by itself."""

    knows_all = True

    def __init__(self) -> None:
        super().__init__()
        self._wanted = Wanted(by_subscription=True)

    def put(self, source: Source, offer: Offer) -> Steps:  # noqa: D102
        return self._settle({key: now for key, _was, now in self._wanted.put(source, offer)})

    def drop(self, source: Source) -> Steps:  # noqa: D102
        return self._settle({key: now for key, _was, now in self._wanted.drop(source)})
