"""No event went over a link twice in the same direction: there is no way in a circle for events."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from penstock.sim.checkers.checker import Checker
from penstock.sim.network import Network
from penstock.wire.messages import Events

_ALL_MAX: Final = 20_000
"""Of so many steps of events over links all are noted; then of one event in so many:"""
_ONE_IN: Final = 8

_REMEMBERED_MAX: Final = 500_000
"""Steps that are remembered, the last ones: what goes in a circle comes back soon."""

_RESTARTED: Final = ""


class Loops(Checker):
    """Notes which links each event went over, and looks through it at rest or when it is much.

    Most of what is simulated are events on links, so that noting them must cost little. Where there are many
    events, some are followed and the others not: a circle is one for all events of a tree.
    """

    holds: ClassVar[tuple[str, ...]] = ("No event goes over a link twice in the same direction.",)

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._noted: list[tuple[str, str, str, Any]] = []
        self._wrong: list[str] = []

    def on_carry(self, a: str, b: str, events: Events, now: float) -> None:  # noqa: D102 - as in Observer
        noted, numbers = self._noted, events.numbers
        if len(noted) > _ALL_MAX and type(numbers) is int and numbers % _ONE_IN:
            return
        noted.append((a, b, events.header.origin, numbers))
        if len(noted) > 2 * _REMEMBERED_MAX:
            self._look_through()
            del self._noted[:-_REMEMBERED_MAX]

    def on_fault(self, what: str, broker: str, link: str, about: dict[str, Any], now: float) -> None:  # noqa: D102
        if what == "Restart" and not about["state"]:
            # A broker that has lost its memory may pass an event on again.
            self._noted.append((broker, _RESTARTED, "", 0))

    def _look_through(self) -> None:
        carried: dict[str, set[tuple[str, str, int]]] = {}
        for a, b, origin, numbers in self._noted:
            if b == _RESTARTED:
                carried.pop(a, None)
                continue
            number = numbers if isinstance(numbers, int) else int(numbers[0])
            of_broker = carried.setdefault(a, set())
            if (b, origin, number) in of_broker:
                self._wrong.append(f"event {number} of {origin} went from {a} to {b} twice")
            of_broker.add((b, origin, number))

    def at_rest(self) -> Iterator[str]:  # noqa: D102
        self._look_through()
        yield from dict.fromkeys(self._wrong)
        self._noted, self._wrong = [], []
