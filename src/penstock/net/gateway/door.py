"""How many connections a gateway has: in all, from one address, and those that wait for a request.

A connection on which no request is under way makes room for a new one when there are too many, the one that
has waited longest first. So whoever opens thousands and says nothing keeps nobody out, and least of all a
check of the gateway's health.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from penstock.net.descriptors import DESCRIPTORS, RESERVED, Descriptors
from penstock.net.gateway.ports import GatewayLimits

HEALTH_RESERVED: Final = RESERVED // 2
"""Of the descriptors that are kept, those that not even a connection to the gateway takes."""


class Guest:
    """A connection, as far as the door is concerned."""

    __slots__ = ("address", "end", "is_limited")

    def __init__(self, address: str, end: Callable[[], object]) -> None:
        self.address = address
        self.end = end
        """Ends the connection at once."""
        self.is_limited = False
        """Whether there is only room for looks at the gateway's health."""


class Door:
    """Lets connections in, and has others make room for them."""

    def __init__(self, limits: GatewayLimits, descriptors: Descriptors = DESCRIPTORS) -> None:
        self._limits = limits
        self._descriptors = descriptors
        self._guests: dict[Guest, None] = {}
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[Guest, None] = {}
        """Those without a request, who has waited longest first."""

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._guests)

    def come(self, guest: Guest, number: int) -> bool:
        """A connection is made, on a socket of this number; return whether it may stay."""
        if self._descriptors.are_short(number):
            self._make_room()
            if self._descriptors.are_short(number, reserved=HEALTH_RESERVED):
                return False
        full = self._by_address[guest.address] >= self._limits.connections_per_address
        if full and not self._make_room(guest.address):
            return False
        guest.is_limited = len(self._guests) >= self._limits.connections and not self._make_room()
        if len(self._guests) >= self._limits.connections + HEALTH_RESERVED:
            return False
        self._guests[guest] = None
        self._by_address[guest.address] += 1
        self._waiting[guest] = None
        return True

    def waits(self, guest: Guest) -> None:
        """No request of this connection is under way."""
        if guest in self._guests and guest not in self._waiting:
            self._waiting[guest] = None

    def acts(self, guest: Guest) -> None:
        """A request of this connection is under way."""
        self._waiting.pop(guest, None)

    def leave(self, guest: Guest) -> None:
        """The connection is no more."""
        self._waiting.pop(guest, None)
        if guest in self._guests:
            del self._guests[guest]
            self._by_address[guest.address] -= 1
            if not self._by_address[guest.address]:
                del self._by_address[guest.address]

    def _make_room(self, address: str | None = None) -> bool:
        """End the connection that has waited longest, of one address or of all; whether there is one."""
        for guest in self._waiting:
            if address is None or guest.address == address:
                break
        else:
            return False
        self.leave(guest)
        guest.end()
        return True
