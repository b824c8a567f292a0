"""Who somebody is, and what that one may do."""

import msgspec

from penstock.broker.grants import Grants
from penstock.broker.quotas import NO_QUOTAS, Quotas


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who somebody is, what that one may do, and until when (seconds since the epoch; None: for ever)."""

    subject: str
    grants: Grants
    quotas: Quotas = NO_QUOTAS
    expires_at: float | None = None
