"""`penstock bench ladder`: the routing schemes of seed paper 000, section 4, from simple to merging.

Each scheme runs on the same overlay, clients, subscriptions and events, with and without advertisements, and
with and without locality of interest. The paper has no figures of its own here; it reports from Mühl and
others that covering and merging, advertisements and locality each make tables and traffic smaller, and this
command says by how much, and where they do not.

What the paper leaves open is ours, and is said in `penstock.workloads.scenes`. Locality is where clients are,
and nothing else; so every row of the table has to come to the same deliveries, and that is checked.
"""

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from penstock.bench import measures, printing, trial
from penstock.bench.trial import Advance, Measured
from penstock.workloads import scenes

RUNGS: Final = ("simple", "identity", "covering", "merging")
"""Each is meant to be lower than the one before."""

SCHEMES: Final = ("flooding", "simple", "identity", "lazy", "covering", "packing", "merging", "imperfect")

COLUMNS: Final[dict[str, Callable[[Measured], int]]] = {
    "subscribing": lambda row: row.subscribing,
    "unsubscribing": lambda row: row.unsubscribing,
    "advertising": lambda row: row.advertising,
    "control": lambda row: row.control,
    "frames": lambda row: row.control_frames,
    "entries": lambda row: row.entries_total,
    "largest": lambda row: row.entries_largest,
    "carried": lambda row: row.carried,
    "false": lambda row: row.false_positives,
    "matchings": lambda row: row.matched,
    "delivered": lambda row: row.delivered,
}

_WIDTH: Final = 126

_HEADINGS: Final = {"subscribing": "subscr.", "unsubscribing": "unsubscr.", "advertising": "advert."}

LEGEND: Final = """\
subscr., unsubscr.: messages between brokers about subscriptions while clients subscribe, and while a tenth \
of the subscriptions is taken back; advert.: about advertisements; control: all these; frames: as \
they are sent, a packed one as one; entries: of all tables at the end, largest: of the largest one; carried: \
publications from broker to broker; false: those that a broker got, and neither delivered nor passed on; \
matchings: events tried on a table."""

_TAKEN_BACK: Final = "what a new filter covers is taken back, in messages of its own"
_APART: Final = (
    "each filter that comes or goes changes its merger, and the next broker, to which that is another "
    "filter, groups anew"
)

WHY: Final = {
    ("covering", "matchings"): "a broker that knows only a covering filter cannot tell the next which of its "
    "filters match, so each broker has to match; where all filters are known, the first does it for all",
    ("covering", "subscribing"): _TAKEN_BACK,
    ("covering", "control"): _TAKEN_BACK,
    ("covering", "frames"): _TAKEN_BACK,
    ("covering", "unsubscribing"): "what a filter covered has to be asked for when it goes",
    ("merging", "subscribing"): _APART,
    ("merging", "unsubscribing"): _APART,
    ("merging", "control"): _APART,
    ("merging", "frames"): _APART,
}
"""Why a rung may be higher than the one before."""


class Half(msgspec.Struct, frozen=True, kw_only=True):
    """All schemes in one setting."""

    advertisements: bool
    locality: bool
    rows: list[Measured]

    @property
    def title(self) -> str:
        """The setting."""
        first, second = ("with" if on else "without" for on in (self.advertisements, self.locality))
        return f"{first} advertisements, {second} locality"


def run(options: argparse.Namespace, advance: Advance) -> int:
    """Measure all, and print tables, or JSON; draw if that is asked for."""
    subscriptions, events = sizes(options)
    halves = measure(options.brokers, subscriptions, events, options.seed, advance)
    if options.plots:
        plot(halves, Path(options.plots))
    if options.json:
        sys.stdout.write(msgspec.json.encode(document(halves, options)).decode() + "\n")
    else:
        _print(halves, options)
    return 0


def sizes(options: argparse.Namespace) -> tuple[int, int]:
    """How many subscriptions and events, with the scale."""
    return max(1, round(options.subscriptions * options.scale)), max(1, round(options.events * options.scale))


def steps(options: argparse.Namespace) -> int:
    """How often `run` says that it has come further."""
    subscriptions, events = sizes(options)
    each = subscriptions + round(subscriptions * scenes.LEAVE) + events
    return 4 * len(SCHEMES) * each


def measure(
    brokers: int, subscriptions: int, events: int, seed: int, advance: Advance = lambda _step: None
) -> list[Half]:
    """Run every scheme in every setting; all must come to the same deliveries."""
    halves = []
    for locality in (False, True):
        made = scenes.ladder(brokers, subscriptions, events, seed, locality=locality)
        for advertisements in (False, True):
            rows = [
                trial.run(made, scheme, advertisements=advertisements, advance=advance) for scheme in SCHEMES
            ]
            halves.append(Half(advertisements=advertisements, locality=locality, rows=rows))
    trial.check_same_deliveries(row for half in halves for row in half.rows)
    return halves


def higher_rungs(half: Half) -> list[tuple[str, str, int, int]]:
    """Where a rung is higher than the one before: its scheme, the column, and both figures."""
    rows = {row.scheme: row for row in half.rows}
    return [
        (above, column, figure(rows[above]), figure(rows[below]))
        for below, above in pairwise(RUNGS)
        for column, figure in COLUMNS.items()
        if figure(rows[above]) > figure(rows[below])
    ]


def tree_share(row: Measured) -> float:
    """The share of matching operations that are left where only the first broker matches."""
    return row.matched / row.handled


def document(halves: list[Half], options: argparse.Namespace) -> dict[str, object]:
    """All that was measured, for machines."""
    subscriptions, events = sizes(options)
    return {
        "machine": measures.facts(),
        "brokers": options.brokers,
        "subscriptions": subscriptions,
        "events": events,
        "seed": options.seed,
        "settings": [
            {
                "advertisements": half.advertisements,
                "locality": half.locality,
                "rows": [
                    {
                        "scheme": row.scheme,
                        **{name: figure(row) for name, figure in COLUMNS.items()},
                        "tree_share": tree_share(row),
                        "tests": row.tests,
                        "messages": row.messages,
                        "trees": row.trees,
                    }
                    for row in half.rows
                ],
                "higher": [
                    {"scheme": scheme, "column": column, "figure": figure, "before": before}
                    for scheme, column, figure, before in higher_rungs(half)
                ],
            }
            for half in halves
        ],
    }


def _print(halves: list[Half], options: argparse.Namespace) -> None:
    subscriptions, events = sizes(options)
    table = printing.table(
        f"penstock bench ladder: {options.brokers} brokers, {subscriptions:,} subscriptions, "
        f"{events:,} events, seed {options.seed}",
        ("adv.", "local", "scheme"),
        [_HEADINGS.get(column, column) for column in COLUMNS],
    )
    for half in halves:
        table.add_section()
        setting = ["yes" if on else "no" for on in (half.advertisements, half.locality)]
        for row in half.rows:
            name = row.scheme if row.scheme in RUNGS else f"[dim]{row.scheme}[/dim]"
            table.add_row(*setting, name, *(f"{figure(row):,}" for figure in COLUMNS.values()))
    console = printing.console(_WIDTH)
    console.print(table)
    console.print(LEGEND)
    console.print(f"Of the entries, {halves[0].rows[0].own:,} are of brokers' own clients, in every row.")
    _print_remarks(console.print, halves)


def _print_remarks(say: Callable[[str], None], halves: list[Half]) -> None:
    """Where a rung is higher than the one before; and what tree identifiers spare."""
    found: dict[tuple[str, str], list[str]] = {}
    for half in halves:
        for scheme, column, figure, before in higher_rungs(half):
            found.setdefault((scheme, column), []).append(f"{half.title} {figure:,} after {before:,}")
    for (scheme, column), where in found.items():
        why = f": {WHY[scheme, column]}" if (scheme, column) in WHY else ""
        say(f"Not lower: {scheme} in {column}{why} ({'; '.join(where)}).")
    if not found:
        say("Each rung is as low as the one before, or lower, in every column.")
    for half in halves:
        if half.advertisements:
            row = next(row for row in half.rows if row.scheme == "identity")
            say(
                f"{half.title}: with tree identifiers and identity, {row.matched:,} of {row.handled:,} "
                f"matching operations are left, {tree_share(row):.1%} (Li and others: 11.3 %)."
            )


def plot(halves: list[Half], folder: Path) -> Path:
    """Draw ladder.png: control messages, table entries and publications carried, by rung and setting."""
    from matplotlib.figure import Figure

    drawn = ("control", "entries", "carried")
    titles = ("control messages (log)", "table entries (log)", "publications carried")
    figure = Figure((12, 4.6))
    axes_of = dict(zip(drawn, figure.subplots(1, len(drawn)), strict=True))
    width = 0.8 / len(halves)
    for at, half in enumerate(halves):
        rows = {row.scheme: row for row in half.rows}
        places = [place + (at - (len(halves) - 1) / 2) * width for place in range(len(SCHEMES))]
        for column, axes in axes_of.items():
            heights = [COLUMNS[column](rows[scheme]) for scheme in SCHEMES]
            axes.bar(places, heights, width, label=half.title, color=f"C{at}")
    for axes, title in zip(axes_of.values(), titles, strict=True):
        axes.set_title(title, fontsize="medium")
        axes.set_xticks(range(len(SCHEMES)), SCHEMES, rotation=40, ha="right", fontsize="small")
        # Advertisements make more than ten times fewer, which a linear axis hides.
        axes.set_yscale("log" if "log" in title else "linear")
    handles, labels = axes_of["carried"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(halves), fontsize="small")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ladder.png"
    figure.savefig(path, dpi=120)
    return path
