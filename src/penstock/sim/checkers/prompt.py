"""How long others are kept waiting: publishers by readers, subscribers by other clients, a broker that ends.

Nothing that a reader or a hostile client does is a fault that excuses anything. What fails between brokers,
or on the side of whoever waits, takes the time that it lasts, and that in which the network gets over it.
"""

from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

from penstock.model.names import Key
from penstock.node.runtime import TICK
from penstock.node.settings import Limits
from penstock.sim.checkers.contract import Sent, WholeChecker
from penstock.sim.clients import Client
from penstock.sim.whole.clients import WholeClient
from penstock.sim.whole.network import WholeNetwork
from penstock.sim.whole.timeline import Fault
from penstock.wire.messages import Publish
from penstock.wire.sessions import Stage

_ON_THE_WAY: Final = 3.0
"""Seconds that events and acknowledgements take through a network in which some lines are slow."""

_ANSWERED: Final = 1.0
"""Seconds in which a request is answered."""

_FAILOVER: Final = 12.0
"""Seconds in which a client has left a broker that does not answer, and is connected to the next."""

_JUST: Final = 0.5
"""Seconds by which a broker's clock may be wrong about the time in which it drains."""

_PINGS: Final = 3
_NEIGHBOURS: Final = 3
"""Pings without an answer, and how many times `patience`, after which a neighbour is given up."""


class _Asked(NamedTuple):
    """A subscription that was answered."""

    client: WholeClient
    key: Key
    at: float
    answered_at: float


class Prompt(WholeChecker):
    """Nobody is kept waiting by what others do."""

    holds: ClassVar[tuple[str, ...]] = (
        "No reader holds a publisher for longer than `patience`, plus `resume` for each reader that is lost.",
        "No reader holds up an event that only has to be accepted, as long as windows have room.",
        "A subscription is answered within a second, whatever other clients send.",
        "A broker that drains ends when all that it has taken is acknowledged, or after `drain`.",
    )

    def __init__(self, network: WholeNetwork) -> None:
        super().__init__(network)  # type: ignore[arg-type]
        self._sent: dict[tuple[str, int], Sent] = {}
        self._before: dict[tuple[str, int], int] = {}
        """How many events were not settled when one was published."""
        self._unsettled = 0
        self._asked: list[_Asked] = []
        self._windows_fill = network.limits.window_bytes < Limits().window_bytes
        times = network.times
        self._recovered = (
            _PINGS * times.ping + times.resume + times.grace + times.join + times.settle + _FAILOVER
        )
        """Seconds in which the network gets over a fault."""

    # Looking on

    def on_publish(self, client: Client, publish: Publish, now: float) -> None:  # noqa: D102
        assert isinstance(client, WholeClient)  # noqa: S101 - for the type checker
        self._sent[publish.name] = Sent(client, publish, now)
        self._before[publish.name] = self._unsettled
        self._unsettled += 1

    def on_settled(  # noqa: D102
        self, client: Client, name: tuple[str, int], error: Exception | None, now: float
    ) -> None:
        sent = self._sent.get(name)
        if sent is not None and sent.settled_at is None:
            sent.settled_at, sent.error = now, error
            self._unsettled -= 1

    def on_subscribed(self, client: Client, key: Key, now: float) -> None:  # noqa: D102
        assert isinstance(client, WholeClient)  # noqa: S101 - for the type checker
        at = client.asked_at.pop(key, None)
        # A request waits behind what its client has published, should a window of that not be acknowledged.
        if at is not None and not (self._windows_fill and self._waits(client, at)):
            self._asked.append(_Asked(client, key, at, now))

    def _waits(self, client: WholeClient, at: float) -> bool:
        """Whether events of a client were not settled at a time."""
        own = (sent for sent in self._sent.values() if sent.client is client and sent.at <= at)
        return any(sent.settled_at is None or sent.settled_at >= at for sent in own)

    # Judging

    def at_rest(self) -> Iterator[str]:
        """Say who was kept waiting since the network was last at rest."""
        for sent in self._sent.values():
            if sent.settled_at is not None and sent.error is None:
                yield from self._late(sent, sent.settled_at)
        for asked in self._asked:
            yield from self._unanswered(asked)
        yield from self._drains()
        self._sent.clear()
        self._before.clear()
        self._asked.clear()
        self._unsettled = 0

    def _late(self, sent: Sent, settled_at: float) -> Iterator[str]:
        took, bound = settled_at - sent.at, self.bound(sent, settled_at)
        if took > bound:
            yield f"{_called(sent)} was settled after {took:.1f} s, and should have been within {bound:.1f} s"

    def bound(self, sent: Sent, settled_at: float) -> float:
        """Seconds in which an event is to be settled, whatever readers do."""
        times, publisher = self.network.times, sent.client.name
        faults = list(self.network.timeline.during(sent.at, settled_at, self._recovered))
        lost = [fault for fault in faults if _is_of_reader(fault, publisher) and fault.ended >= sent.at]
        burdens = list(self.network.burdens.during(sent.at, settled_at))
        slow = times.patience if burdens or any(fault.kind in ("pause", "stall") for fault in lost) else 0.0
        if sent.client.waits_for is Stage.ACCEPTED and not self._windows_fill:
            slow, lost, burdens = 0.0, [], []
        # Hostile clients that want events are readers too, and go.
        gone = sum(burden.about[0][0] == "h" and burden.ended <= settled_at for burden in burdens)
        bound = 2 * times.settle + 2 * TICK + _ON_THE_WAY + slow
        bound += (len(lost) + gone) * (times.resume + times.settle + 2 * TICK + slow)
        for fault in faults:
            if not _is_of_reader(fault, publisher):
                lasted = min(fault.ended, settled_at) - max(fault.began, sent.at)
                bound += max(0.0, lasted) + self._recovered + slow
                if fault.kind in ("stall", "pause"):
                    bound += _NEIGHBOURS * times.patience
        if self._windows_fill:
            # A reader that goes on taking slows publishers down to its pace, as long as windows are full.
            bound += self._before[sent.name] * slow
        return bound

    def _unanswered(self, asked: _Asked) -> Iterator[str]:
        took = asked.answered_at - asked.at
        if took > _ANSWERED and not any(
            self.network.timeline.during(asked.at, asked.answered_at, self._recovered)
        ):
            yield f"{asked.client.name} was answered about {asked.key} after {took:.1f} s"

    def _drains(self) -> Iterator[str]:
        """Say of brokers that drained whether they did so for too long, or not for long enough."""
        timeline, times = self.network.timeline, self.network.times
        for fault in timeline.faults:
            if fault.kind != "drain":
                continue
            (broker,) = fault.about
            others = [
                other
                for other in timeline.during(fault.began, fault.ended, self._recovered)
                if other is not fault and other.began <= fault.ended and other.kind != "stop"
            ]
            took = fault.ended - fault.began
            if took > times.drain + _JUST and not any(broker in other.about for other in others):
                yield f"{broker} took {took:.1f} s to drain"
            if not others and took < times.drain - _JUST:
                yield from self._left(broker, fault)

    def _left(self, broker: str, drain: Fault) -> Iterator[str]:
        """Say which events a broker had taken when it began to drain, and had not acknowledged at its end."""
        for sent in self._sent.values():
            if (
                broker in sent.homes
                and sent.client.brokers_since(sent.at)[:1] == [broker]
                and drain.began - self._recovered < sent.at < drain.began - _JUST / 2
                and (sent.settled_at is None or sent.settled_at > drain.ended + _JUST)
            ):
                yield f"{broker} ended and had not acknowledged {_called(sent)}"


def _is_of_reader(fault: Fault, publisher: str) -> bool:
    """Whether a fault happened to a client other than the publisher, or to its connection."""
    return any(name[0] == "c" for name in fault.about) and publisher not in fault.about


def _called(sent: Sent) -> str:
    return f"{sent.event!s:.60} of {sent.client.name}, published at {sent.at:.3f},"
