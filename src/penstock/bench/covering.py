"""`penstock bench covering`: table II of seed paper 002, in counts instead of seconds.

The paper (section V.A.1) sends 42,000 subscriptions and 200,000 publications through 49 brokers under active
covering, lazy covering and none, without unsubscriptions, and gives the time that brokers spend on
subscriptions (matching them against advertisements, and detecting covering), unsubscriptions and
publications. Machines and engines differ; what is compared here is what that time is spent on.

*None* is `simple`: every subscription by itself, as PADRES keeps them without covering. Under `identity` the
same filter would be kept once, which is already a covering of sorts. The overlay and the subscriptions, which
the paper does not give, are said in `penstock.workloads.scenes`, fixed before anything was measured.

Dividing the paper's seconds by its milliseconds a message gives the messages behind table II, as far as
rounding goes: PAPER.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.bench import measures, printing, trial
from penstock.bench.trial import Advance, Measured
from penstock.routing.offers import Offer
from penstock.routing.schemes.covering import Covering
from penstock.routing.schemes.scheme import Source
from penstock.workloads.scenes import CORE, Scene, core_and_edges

if TYPE_CHECKING:
    from rich.console import Console

SCHEMES: Final = {"active": "covering", "lazy": "lazy", "none": "simple"}


_WIDTH: Final = 126


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table: something counted under each scheme, and the paper's figures of it, if any."""

    what: str
    figures: tuple[float, float, float]
    paper: tuple[float, float, float] | None = None
    unit: str = ""

    @property
    def ratios(self) -> tuple[float, float] | None:
        """Active and lazy, each over none."""
        return _ratios(self.figures)

    @property
    def paper_ratios(self) -> tuple[float, float] | None:
        """The same for the paper."""
        return None if self.paper is None else _ratios(self.paper)


PAPER: Final[dict[str, tuple[float, float, float]]] = {
    "subscription messages": (14.5 / 0.81e-3, 28.8 / 1.6e-3, 33.7 / 1.6e-3),
    "unsubscription messages": (11.7 / 1.4e-3, 0, 0),
    "covering tests": (216, 486, 0),
    "table entries met by publications": (600, 1240, 1580),
}
"""Active, lazy, none: messages, as seconds over seconds a message; and seconds, where the paper's cost is
what is counted here: detecting covering, and matching publications."""

PAPER_TREE_SHARE: Final = 0.113
"""Seed paper 004: matching operations that are left where only the first broker matches."""


class Degree(msgspec.Struct, frozen=True):
    """How far subscriptions cover each other, all of them in one table."""

    subscriptions: int
    different: int
    roots: int

    @property
    def covered(self) -> float:
        """The share that some other one covers, or that is the same as one before it."""
        return 1 - self.roots / self.subscriptions


def run(options: argparse.Namespace, advance: Advance) -> int:
    """Measure all, and print a table, or JSON."""
    subscriptions, publications = sizes(options)
    made = core_and_edges(subscriptions, publications, options.seed)
    rows = measure(made, advance)
    lines = list(table(rows))
    how = degree(made)
    if options.json:
        sys.stdout.write(msgspec.json.encode(document(rows, lines, how, options)).decode() + "\n")
    else:
        _print(rows, lines, how, options)
    return 0


def sizes(options: argparse.Namespace) -> tuple[int, int]:
    """How many subscriptions and publications, with the scale."""
    return (
        max(1, round(options.subscriptions * options.scale)),
        max(1, round(options.publications * options.scale)),
    )


def steps(options: argparse.Namespace) -> int:
    """How often `run` says that it has come further."""
    return len(SCHEMES) * sum(sizes(options))


def measure(made: Scene, advance: Advance = lambda _step: None) -> list[Measured]:
    """Active, lazy and none; all must come to the same deliveries."""
    rows = [trial.run(made, scheme, advertisements=True, advance=advance) for scheme in SCHEMES.values()]
    trial.check_same_deliveries(rows)
    return rows


def degree(made: Scene) -> Degree:
    """How far the subscriptions of a scene cover each other."""
    scheme = Covering()
    for number, (_client, predicate) in enumerate(made.subscriptions):
        scheme.put(Source("", number), Offer(predicate, frozenset({""})))
    different = len({predicate for _client, predicate in made.subscriptions})
    return Degree(len(made.subscriptions), different, len(scheme.asked))


def table(rows: list[Measured]) -> Iterator[Line]:
    """The lines of the table: rows are active, lazy and none."""

    def line(what: str, figure: Callable[[Measured], float], unit: str = "") -> Line:
        active, lazy, none = map(figure, rows)
        return Line(what=what, figures=(active, lazy, none), paper=PAPER.get(what), unit=unit)

    yield line("subscription messages", lambda row: row.count(["Subscribe"]))
    yield line("unsubscription messages", lambda row: row.count(["Unsubscribe"]))
    yield line("covering tests", lambda row: row.tests)
    yield line("table entries", lambda row: row.entries_total)
    for core in CORE:
        yield line(f"  of {core}", lambda row, core=core: row.entries[core])  # type: ignore[misc]
    yield line("publications carried", lambda row: row.carried)
    yield line("matching operations, at every hop", lambda row: row.handled)
    yield line("matching operations, as made here", lambda row: row.matched)
    yield line("table entries met by publications", lambda row: row.entries_met)
    yield line("subscribing", lambda row: row.seconds["subscribing"], "s")
    yield line("publishing", lambda row: row.seconds["publishing"], "s")


def _ratios(figures: tuple[float, float, float]) -> tuple[float, float] | None:
    active, lazy, none = figures
    return (active / none, lazy / none) if none else None


def document(
    rows: list[Measured], lines: list[Line], how: Degree, options: argparse.Namespace
) -> dict[str, object]:
    """All that was measured, for machines."""
    subscriptions, publications = sizes(options)
    none = rows[-1]
    return {
        "machine": measures.facts(),
        "subscriptions": subscriptions,
        "publications": publications,
        "seed": options.seed,
        "different": how.different,
        "roots": how.roots,
        "covered": how.covered,
        "delivered": none.delivered,
        "tree_share": none.matched / none.handled,
        "paper_tree_share": PAPER_TREE_SHARE,
        "lines": [
            {**msgspec.to_builtins(line), "ratios": line.ratios, "paper_ratios": line.paper_ratios}
            for line in lines
        ],
    }


def _print(rows: list[Measured], lines: list[Line], how: Degree, options: argparse.Namespace) -> None:
    console = printing.console(_WIDTH)
    subscriptions, publications = sizes(options)
    console.print(
        f"{subscriptions:,} subscriptions, {how.different:,} different, {how.roots:,} that no other covers: "
        f"{how.covered:.1%} are covered. {publications:,} publications, {rows[0].delivered:,} deliveries."
    )
    _print_table(console, lines)
    none = rows[-1]
    console.print(
        "The paper's: messages are its seconds over its seconds a message; covering tests and entries met "
        "stand beside its seconds for detecting covering and for publications."
    )
    console.print(
        f"Tree identifiers: {none.matched:,} of {none.handled:,} matching operations are left where only the "
        f"first broker matches, {none.matched / none.handled:.1%} (Li and others: {PAPER_TREE_SHARE:.1%})."
    )


def _print_table(console: "Console", lines: list[Line]) -> None:
    headings = (*SCHEMES, "active/none", "lazy/none", "paper's", "paper's")
    shown = printing.table("penstock bench covering", [""], headings)
    for line in lines:
        shown.add_row(
            line.what,
            *(f"{figure:,.1f} {line.unit}" if line.unit else f"{figure:,.0f}" for figure in line.figures),
            *_shown(line.ratios),
            *_shown(line.paper_ratios),
        )
    console.print(shown)
    # Without covering there are no tests to compare with.
    for line in lines:
        if line.paper is not None and line.paper_ratios is None and line.figures[1]:
            active, lazy, _none = line.figures
            console.print(
                f"{line.what}: active/lazy {active / lazy:.2f}, "
                f"the paper's {line.paper[0] / line.paper[1]:.2f}."
            )


def _shown(ratios: tuple[float, float] | None) -> tuple[str, str]:
    return ("", "") if ratios is None else (f"{ratios[0]:.2f}", f"{ratios[1]:.2f}")
