"""What a broker says of subscriptions that match nothing: in its status, in metrics, and in the log."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import printable
from penstock.filters.disagreements import Disagreement
from penstock.node.logs import LOG

TOLD_MAX: Final = 100
"""Disagreements that a status has in words; clients choose names of attributes, so there may be many."""

_LOGGED_MAX: Final = 1_000
"""Disagreements that are logged in the life of a broker, once each."""


class Disagreements:
    """The latest look at them. See the module."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: Sequence[Disagreement] = ()
        self._logged: set[tuple[str, str]] = set()

    def see(self, found: Sequence[Disagreement]) -> None:
        """Take what a look has found; log what is new."""
        self._found = found
        for one in found:
            key = one.attribute, one.problem
            if key not in self._logged and len(self._logged) < _LOGGED_MAX:
                self._logged.add(key)
                LOG.warning("%s: %s", self._name, printable(str(one)))

    def told(self) -> dict[str, Any]:
        """For the status: how many attributes by problem, and some in words."""
        return {
            "counts": dict(sorted(Counter(one.problem for one in self._found).items())),
            "texts": [printable(str(one)) for one in self._found[:TOLD_MAX]],
        }
