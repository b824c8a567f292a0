"""What came of torture, round by round."""

from collections.abc import Sequence

import msgspec

from penstock.net.torture.check import Verdict
from penstock.net.torture.faults import KINDS, Fault
from penstock.net.torture.figures import ALL, CALM, Figures
from penstock.net.torture.networks import SUBSCRIBERS, Network


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
    topology: str = "mesh"
    """Or "all": one after the other."""
    subscribers: int = SUBSCRIBERS
    faults_per_round: int | None = None
    """None: one to three."""
    keep_going: bool = False

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
        if self.topology != "mesh":
            text += f" --topology {self.topology}"
        if self.subscribers != SUBSCRIBERS:
            text += f" --subscribers {self.subscribers}"
        if self.faults_per_round is not None:
            text += f" --faults-per-round {self.faults_per_round}"
        if self.keep_going:
            text += " --keep-going"
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
    lost: int
    told: int
    given_up: int
    unacknowledged: int
    duplicates: int
    unwanted: int
    missed_notices: int
    missed_in_vain: int
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
        names = [name for name in Totals.__struct_fields__ if name in Verdict.__struct_fields__]
        return Totals(
            faults=sum(len(row.faults) for row in self.rows),
            slowest_recovery_s=max((row.recovery_s or 0.0 for row in self.rows), default=0.0),
            **{name: sum(getattr(verdict, name) for verdict in verdicts) for name in names},
        )

    @property
    def table(self) -> dict[str, Figures]:
        """Figures of all rounds by kind of fault, and last of all events."""
        found = {kind: Figures() for kind in (*KINDS, CALM, ALL)}
        for row in self.rows:
            for kind, figures in row.verdict.rows.items():
                found[kind].add(figures)
        return {kind: figures for kind, figures in found.items() if figures != Figures()}

    def join(self, other: "Report", name: str) -> None:
        """Take in the report of another network."""
        self.links += other.links
        self.rows += [msgspec.structs.replace(row, name=f"{name}, {row.name}") for row in other.rows]
        self.wrong += [f"{name}: {text}" for text in other.wrong]
        self.seconds += other.seconds

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
    if fault.side:
        where = "+".join(f"b{broker}" for broker in fault.side)
    return f"{fault.kind} {where} {fault.length:.1f} s"


def describe_all(network: Network, faults: Sequence[Fault]) -> list[str]:
    """Faults in a few words each."""
    return [describe(network, fault) for fault in faults]
