"""Event flooding: nothing is asked of anybody; every event goes to every broker.

Over every link, too: each broker passes on the copy that came the way its tree goes, and drops the others.
"""

from penstock.routing.offers import Offer
from penstock.routing.schemes.scheme import NO_STEPS, Scheme, Source, Steps


class Flooding(Scheme):
    """Asks for nothing."""

    floods = True

    def put(self, source: Source, offer: Offer) -> Steps:  # noqa: D102 - as in Scheme
        return NO_STEPS

    def drop(self, source: Source) -> Steps:  # noqa: D102
        return NO_STEPS
