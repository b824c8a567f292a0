"""What came of torture, round by round."""

from collections.abc import Sequence

import msgspec

from penstock.net.torture.check import Verdict
from penstock.net.torture.plan import KINDS, Fault, Network


class Options(msgspec.Struct, frozen=True):
    """What was asked for."""

    seed: int = 1
    rounds: int = 9
    seconds: float = 12.0
    brokers: int = 7
    events: int = 2000
    faults: tuple[str, ...] = KINDS
    single_homed: bool = False
    scheme: str = "covering"

    @property
    def command(self) -> str:
        """To do the same again."""
        text = (
            f"penstock torture --seed {self.seed} --rounds {self.rounds} --seconds {self.seconds:g} "
            f"--brokers {self.brokers} --events {self.events}"
        )
        if set(self.faults) != set(KINDS):
            text += f" --faults {','.join(self.faults) or 'none'}"
        if self.scheme != "covering":
            text += f" --scheme {self.scheme}"
        return f"{text} --single-homed" if self.single_homed else text


class Row(msgspec.Struct):
    """A round."""

    name: str
    faults: list[str]
    verdict: Verdict
    recovery_s: float | None = None
    """From when all was mended until probes came everywhere; None if they did not."""

    kinds: list[str] = []
    """The kinds of its faults."""

    failed: list[str] = []
    """What did not come about at all."""

    @property
    def wrong(self) -> list[str]:
        """What was violated."""
        return self.failed + self.verdict.wrong


class Totals(msgspec.Struct, frozen=True):
    """Figures of all rounds together."""

    faults: int
    published: int
    expected: int
    """Deliveries that were checked for."""
    got: int
    late: int
    lost_apart: int
    unsure: int
    duplicates: int
    slowest_recovery_s: float


class Report(msgspec.Struct):
    """All rounds."""

    options: Options
    links: int = 0
    rows: list[Row] = []
    wrong: list[str] = []
    """Violations that belong to no round: broken subscriptions, brokers that crashed."""
    seconds: float = 0.0

    @property
    def never_drawn(self) -> list[str]:
        """The kinds of faults that were asked for, and that no round has."""
        drawn = {kind for row in self.rows for kind in row.kinds}
        return [kind for kind in self.options.faults if kind not in drawn]

    @property
    def totals(self) -> Totals:
        """All rounds together."""
        verdicts = [row.verdict for row in self.rows]
        return Totals(
            faults=sum(len(row.faults) for row in self.rows),
            published=sum(verdict.published for verdict in verdicts),
            expected=sum(verdict.expected for verdict in verdicts),
            got=sum(verdict.got for verdict in verdicts),
            late=sum(verdict.late for verdict in verdicts),
            lost_apart=sum(verdict.lost_apart for verdict in verdicts),
            unsure=sum(verdict.unsure for verdict in verdicts),
            duplicates=sum(verdict.duplicates for verdict in verdicts),
            slowest_recovery_s=max((row.recovery_s or 0.0 for row in self.rows), default=0.0),
        )

    @property
    def is_right(self) -> bool:
        """Whether nothing was violated."""
        return not self.wrong and not any(row.wrong for row in self.rows)


def describe(network: Network, fault: Fault) -> str:
    """A fault in a few words."""
    if fault.on == "broker":
        where = f"b{fault.target}"
    elif fault.on == "network":
        where = "everywhere"
    elif fault.on == "client":
        where = network.clients[fault.target].name
    else:
        where = "-".join(f"b{broker}" for broker in network.links[fault.target])
    return f"{fault.kind} {where} {fault.length:.1f} s"


def describe_all(network: Network, faults: Sequence[Fault]) -> list[str]:
    """Faults in a few words each."""
    return [describe(network, fault) for fault in faults]
