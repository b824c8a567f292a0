"""What clients do that others must not notice: readers hold events, strangers mean harm."""

from typing import TYPE_CHECKING, Final

from penstock.sim.whole.hostile import Hostile
from penstock.sim.whole.timeline import Timeline

if TYPE_CHECKING:
    from penstock.sim.whole.clients import WholeClient
    from penstock.sim.whole.network import WholeNetwork

NEVER: Final = "manual reader, never acknowledges"
_SOME: Final = "manual reader, late or some"
_SLOW: Final = "slow reader"


class Burdens(Timeline):
    """Who was a burden when. They are told to those who look on like faults, and excuse nothing."""

    def __init__(self, network: "WholeNetwork") -> None:
        super().__init__()
        self.hostile: list[Hostile] = []
        """Hostile clients that nobody has judged yet."""
        self._network = network
        self._attacks = 0

    def manual(self, client: "WholeClient", share: float, seconds: float) -> None:
        """A client acknowledges so large a share of events, so long after they came; the rest never."""
        self._network.tell_fault("Manual", client.name, share=share, seconds=seconds)
        self._end_manual(client)
        self.begin(_SOME if share else NEVER, (client.name,), self._network.now)
        client.hold(share, seconds)

    def auto(self, client: "WholeClient") -> int:
        """A client acknowledges all that it holds, and from now on what comes; return whether it held any."""
        if client.held_share is None:
            return 0
        self._network.tell_fault("Auto", client.name)
        self._end_manual(client)
        client.let_go()
        return 1

    def _end_manual(self, client: "WholeClient") -> None:
        # What it means to acknowledge it keeps until then.
        for kind in (NEVER, _SOME):
            self.end(kind, (client.name,), self._network.now + client.hold_seconds)

    def lag(self, client: "WholeClient", seconds: float) -> None:
        """A client acknowledges each event so long after it came."""
        self.end(_SLOW, (client.name,), self._network.now + client.lag)
        if seconds:
            self.begin(_SLOW, (client.name,), self._network.now)
        client.lag = seconds

    def attack(self, broker: str, kind: str) -> None:
        """A hostile client connects to a broker, does what it does, and goes."""
        network = self._network
        name = f"h{self._attacks}"
        self._attacks += 1
        network.tell_fault("Attack", broker, name, kind=kind)
        what, about = f"hostile client, {kind}", (name, broker)
        self.begin(what, about, network.now)
        hostile = Hostile(
            kind,
            name,
            broker,
            network.new_process(name),
            network,
            network.random,
            network.times,
            lambda: self.end(what, about, network.now),
            advertisements=network.settings.advertisements,
        )
        self.hostile.append(hostile)
        hostile.begin()
