"""Hostile clients: what they send ends their own connection, and gets them nothing."""

from collections.abc import Iterator
from typing import ClassVar, Final

from penstock.sim.checkers.contract import WholeChecker
from penstock.sim.whole.hostile import Hostile

_IN_TIME: Final = 1.0
"""Seconds by which a connection may end later than it has to: brokers look at the time now and then."""


class Strangers(WholeChecker):
    """Who breaks the protocol is cut off, and who has no rights gets nothing."""

    holds: ClassVar[tuple[str, ...]] = (
        "A client that breaks the protocol loses its connection, and nobody else notices.",
        "A client without rights gets nothing.",
    )

    def at_rest(self) -> Iterator[str]:
        """Say who was let on, or given something."""
        burdens = self.network.burdens
        judged, burdens.hostile = burdens.hostile, []
        for hostile in judged:
            yield from (f"{hostile.name} ({hostile.kind}) {text}" for text in hostile.wrong)
            yield from self._not_ended(hostile)

    def _not_ended(self, hostile: Hostile) -> Iterator[str]:
        began, within = hostile.began_at, hostile.within
        if began is None or within is None:
            return
        due = began + within + _IN_TIME
        if hostile.ended_at is not None and hostile.ended_at <= due:
            return
        if not any(hostile.broker in fault.about for fault in self.network.timeline.during(began, due)):
            yield f"{hostile.broker} did not end the connection of {hostile.name} ({hostile.kind}) in time"
