"""What clients send, counted against their quotas."""

from typing import Final

from penstock.broker.quotas import Meter, Quotas
from penstock.node.identity import Identity

_METERS_MAX: Final = 10_000
"""Subjects whose use is remembered, those that came last."""


class Meters:
    """A meter for each subject, over all its connections and over reconnections; for each client without."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Quotas, Meter]] = {}

    def of(self, identity: Identity, now: float) -> Meter:
        """What counts what somebody sends."""
        known = self._known.pop(identity.subject, None) if identity.subject else None
        if known is None or known[0] != identity.quotas:
            known = identity.quotas, Meter(identity.quotas, now)
        if identity.subject:
            self._known[identity.subject] = known
            if len(self._known) > _METERS_MAX:
                del self._known[next(iter(self._known))]
        return known[1]
