"""What clients may have missed, told once for all that is found out at a time.

Several trees that are lost, or several answers, would be a notice each.
"""

from typing import TYPE_CHECKING

from penstock.broker.effects import UNKNOWN, Missed
from penstock.node.links import Link

if TYPE_CHECKING:
    from penstock.node.runtime import Runtime


class Telling:
    """Gathers what each client is told, until time has passed or the client is to know more."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._gathered: dict[Link, list[Missed]] = {}

    def gather(self, link: Link, missed: Missed) -> None:
        """Have a client told, within a tick."""
        self._gathered.setdefault(link, []).append(missed)

    def tell(self, link: Link) -> None:
        """Tell one client what there is to tell."""
        found = self._gathered.pop(link, [])
        if not found:
            return
        counts = [one.count for one in found]
        count = UNKNOWN if UNKNOWN in counts else sum(counts)
        reasons = {one.reason for one in found}
        # Of two reasons the worse one.
        all_of_it = Missed(link.name, count, "unreachable" if "unreachable" in reasons else "expired")
        self._runtime.notify(link, "missed", all_of_it.text, count)

    def tell_all(self) -> None:
        """Tell everybody."""
        for link in list(self._gathered):
            self.tell(link)

    def forget(self, link: Link) -> None:
        """A client is gone."""
        self._gathered.pop(link, None)
