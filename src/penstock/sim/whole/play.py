"""Playing a plan on whole nodes: the verbs of plain plans, and those about processes and bytes."""

from collections import Counter
from typing import Any, Final

from penstock.broker.publishers import ANSWERED_KEEPS
from penstock.node.settings import Limits
from penstock.sim import faults
from penstock.sim.checkers.catalog import checkers_for_whole, the
from penstock.sim.checkers.checker import Checker
from penstock.sim.checkers.contract import Kept
from penstock.sim.play import Outcome, Player
from penstock.sim.whole.brokers import errors_logged
from penstock.sim.whole.burdens import NEVER
from penstock.sim.whole.draw import longest
from penstock.sim.whole.hostile import ATTACKS
from penstock.sim.whole.network import WholeNetwork

_WINDOW_MIN: Final = 2**16
"""The smallest window that can be set, for plans whose events are to fill it."""


_LONG_PAUSE: Final = "pause, longer than every timeout"
_QUICK_RESTART: Final = "crash, restarted within resume"
_LONG_OUTAGE: Final = "outage, longer than keep"

KINDS: Final = (
    _LONG_PAUSE,
    "stall",
    "flip",
    _QUICK_RESTART,
    _LONG_OUTAGE,
    "split",
    "drain",
    NEVER,
    *(f"hostile client, {kind}" for kind in ATTACKS),
)
"""Kinds of faults that are shown even where they have not come up."""


class WholePlay(Player):
    """Plays one plan."""

    _network: WholeNetwork

    def _new_network(self) -> WholeNetwork:
        plan = self._plan
        errors_logged()
        self.settling = 3 * plan.times.lease + ANSWERED_KEEPS * plan.times.kept + 15.0
        self.rest = plan.times.lease
        return WholeNetwork(
            plan.protocol,
            plan.scheme,
            advertisements=plan.advertisements,
            seed=plan.seed,
            times=plan.times,
            limits=Limits(window_bytes=_WINDOW_MIN) if plan.pad else None,
            # Of the same seed, so that a plan says all.
            is_sliced=plan.seed % 3 == 0,
        )

    def _new_checkers(self) -> dict[str, Checker]:
        found = checkers_for_whole(self._network)
        self._kept = the(Kept, found.values())
        return found

    def _add_client(self, number: int) -> None:
        plan = self._plan
        others = plan.others[number] if number < len(plan.others) else ()
        self._network.add_client(
            f"c{number}",
            f"b{plan.homes[number]}",
            [f"b{other}" for other in others],
            is_gateway=number in plan.gateways,
        )

    def run(self) -> Outcome:
        """Play all steps."""
        outcome = super().run()
        outcome.checked += self._kept.checked
        outcome.excused = {why: count for why, count in self._kept.excused.items() if count}
        outcome.missed, outcome.missed_in_vain = dict(self._kept.missed), dict(self._kept.missed_in_vain)
        outcome.missed_with_count = dict(self._kept.missed_with_count)
        outcome.faults_by_kind = self._counted()
        return outcome

    def _counted(self) -> dict[str, int]:
        """Faults by their kinds, and what clients did that others must not notice; all of `KINDS`."""
        network, times = self._network, self._plan.times
        counted = Counter({"split": network.splits})
        for fault in (*network.timeline.faults, *network.burdens.faults):
            counted[fault.kind] += 1
            lasted = fault.ended - fault.began
            if fault.kind == "pause" and lasted > longest(times):
                counted[_LONG_PAUSE] += 1
            elif fault.kind == "crash" and lasted < times.resume:
                counted[_QUICK_RESTART] += 1
            elif fault.kind in ("cut", "crash", "vanish") and lasted > times.keep:
                counted[_LONG_OUTAGE] += 1
        return dict(counted)

    def _publish(self, client: int, event: dict[str, Any]) -> None:
        pad = {"pad": "x" * self._plan.pad} if self._plan.pad else {}
        super()._publish(client, {**event, **pad})

    def _found(self) -> list[str]:
        """What checkers find wrong, and what brokers logged as an error."""
        return super()._found() + [f"Exception: {text}" for text in errors_logged()]

    # Faults: those of plain plans are as in Player

    def _vanish(self, broker: int) -> None:
        self._fault(faults.vanish(self._network, f"b{broker}"))

    def _unplug(self, client: int, broker: int) -> None:
        self._fault(faults.unplug(self._network, f"c{client}", f"b{broker}"))

    def _plug(self, client: int, broker: int) -> None:
        self._fault(faults.plug(self._network, f"c{client}", f"b{broker}"))

    def _pause(self, name: str) -> None:
        self._fault(faults.pause(self._network, name))

    def _continue(self, name: str) -> None:
        self._fault(faults.go_on(self._network, name))

    def _sever(self, a: str, b: str) -> None:
        self._fault(faults.sever(self._network, a, b))

    def _stall(self, a: str, b: str) -> None:
        self._fault(faults.stall(self._network, a, b))

    def _flow(self, a: str, b: str) -> None:
        self._fault(faults.flow(self._network, a, b))

    def _flip(self, a: str, b: str) -> None:
        self._fault(faults.flip(self._network, a, b))

    def _latency(self, a: str, b: str, seconds: float) -> None:
        self._fault(faults.slow(self._network, a, b, seconds))

    def _lag(self, client: int, seconds: float) -> None:
        self._fault(faults.lag(self._network, f"c{client}", seconds))

    def _exit(self, client: int) -> None:
        self._fault(faults.leave_for_good(self._network, f"c{client}"))

    def _manual(self, client: int, share: float, seconds: float) -> None:
        self._fault(faults.manual(self._network, f"c{client}", share, seconds))

    def _auto(self, client: int) -> None:
        self._fault(faults.auto(self._network, f"c{client}"))

    def _attack(self, broker: int, kind: str) -> None:
        self._fault(faults.attack(self._network, f"b{broker}", kind))

    def _drain(self, broker: int, seconds: float) -> None:
        self._fault(faults.drain(self._network, f"b{broker}", seconds))

    def _mend(self) -> None:
        # No fault, but what was under way may still come.
        self._rests = False
        faults.mend(self._network)
        if self._plan.pad:
            # Windows are small: who never acknowledges would be sent nothing at rest.
            for client in self._network.clients:
                faults.auto(self._network, client)
