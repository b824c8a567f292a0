"""Which events a client hands out: none twice for one subscription, whatever ways they come by."""

from collections import OrderedDict
from typing import Any, Final

from penstock.broker.seen import Seen
from penstock.model.names import Key

_REMEMBERED_MAX: Final = 2**20
"""Numbers of one origin that are remembered."""

_PARTIAL_MAX: Final = 65_536
"""Events of which it is remembered for which subscriptions they came."""


class Intake:
    """What has come. `take` an event or several of one origin, then ask for which subscriptions they are due.

    An event that has come usually came for all its subscriptions; but not while a broker was being told what
    they are (`is_restating`). Then it comes again, from whoever kept it for the broker before, and is due for
    those that it has not come for.
    """

    def __init__(self, remembered: int = _REMEMBERED_MAX) -> None:
        self.is_restating = False
        """Whether what comes may come for some subscriptions only, because not all have been said."""
        self._seen = Seen(remembered)
        self._partial: OrderedDict[tuple[str, int], set[Key]] = OrderedDict()

    def take(self, origin: str, numbers: Any) -> tuple[Any, Any]:
        """Take rising numbers of an origin: which are new, and which come after later ones.

        For an array, two arrays of booleans; for one number, two booleans.
        """
        new, top = self._seen.take(origin, numbers)
        return new, numbers < top

    def is_due(self, origin: str, number: int, key: Key, *, is_new: bool) -> bool:
        """Whether an event that was taken is to be handed out for a subscription. Ask once for each."""
        event = origin, number
        if is_new:
            if self.is_restating:
                self._partial.setdefault(event, set()).add(key)
                if len(self._partial) > _PARTIAL_MAX:
                    self._partial.popitem(last=False)
            return True
        came_for = self._partial.get(event)
        if came_for is None or key in came_for:
            return False
        came_for.add(key)
        return True
