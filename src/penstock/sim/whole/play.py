"""Playing a plan on whole nodes: the verbs of plain plans, and those about processes and bytes."""

from typing import Any, Final

from penstock.node.settings import Limits
from penstock.sim import faults
from penstock.sim.checkers.catalog import checkers_for_whole, the
from penstock.sim.checkers.checker import Checker
from penstock.sim.checkers.contract import Kept
from penstock.sim.play import Outcome, Player
from penstock.sim.whole.network import WholeNetwork, errors_logged

_WINDOW_MIN: Final = 2**16
"""The smallest window that can be set, for plans whose events are to fill it."""


class WholePlay(Player):
    """Plays one plan."""

    _network: WholeNetwork

    def _new_network(self) -> WholeNetwork:
        plan = self._plan
        errors_logged()
        self.settling = 3 * plan.times.lease + plan.times.keep + 15.0
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
        counted: dict[str, int] = {}
        for fault in self._network.timeline.faults:
            counted[fault.kind] = counted.get(fault.kind, 0) + 1
        outcome.faults_by_kind = counted
        return outcome

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

    def _mend(self) -> None:
        # No fault, but what was under way may still come.
        self._rests = False
        faults.mend(self._network)
