"""What was measured, as tables with the goals beside, or for machines."""

import sys
from typing import Final

import msgspec

from penstock.bench import measures, printing
from penstock.bench.spark.covering import Covered
from penstock.bench.spark.covering import document as document_of_covering
from penstock.bench.spark.memory import Weight
from penstock.bench.spark.trial import Choices, Join, Size, Start

_WIDTH: Final = 132
_MB: Final = 1e6
RATE: Final = 500_000
"""Events a second, at up to `RATE_FILTERS` filters."""
RATE_FILTERS: Final = 100_000
OVERHEAD: Final = 1.3
FASTER: Final = 100
EVENTS_GROWTH: Final = 2.2
"""Twice the events take twice the time: a tenth is for noise."""
FILTERS_GROWTH: Final = 1.2


class Report(msgspec.Struct, kw_only=True):
    """All figures of a run, as they come."""

    choices: Choices
    version: str = ""
    start: Start | None = None
    sizes: list[Size] = []
    joins: list[Join] = []


class Goal(msgspec.Struct, frozen=True):
    """A goal, and whether it was met."""

    what: str
    goal: str
    figure: str
    met: bool


def goals(report: Report) -> list[Goal]:
    """The goals that what was measured can meet or miss."""
    found = []
    for size in report.sizes:
        named = f"{size.filters:,} filters"
        if size.filters <= RATE_FILTERS:
            rate = size.events_per_second
            found.append(Goal(f"{named}: events/s", f"at least {RATE:,}", f"{rate:,.0f}", rate >= RATE))
        for what, goal, figure in (
            ("time ÷ (nothing + bare engine)", OVERHEAD, size.overhead),
            (f"{size.events // 2:,} → {size.events:,} events", EVENTS_GROWTH, size.events_growth),
            (f"{size.half_filters:,} → {size.filters:,} filters", FILTERS_GROWTH, size.filters_growth),
        ):
            found.append(Goal(f"{named}: {what}", f"at most {goal} ×", f"{figure:.2f} ×", figure <= goal))
    for join in report.joins:
        if join.name == "expressions" and join.ratio is not None:
            what = f"join on expressions ÷ route, both on {join.events:,} events × {join.filters:,} filters"
            found.append(Goal(what, f"at least {FASTER} ×", f"{join.ratio:,.0f} ×", join.ratio >= FASTER))
    return found


def write_covering_json(found: list[Covered]) -> None:
    """Posets, for machines."""
    plain = {"machine": measures.facts(), "posets": document_of_covering(found)}
    sys.stdout.write(msgspec.json.encode(plain).decode() + "\n")


def show_covering(found: list[Covered]) -> None:
    """Posets, as a table."""
    figures = (
        "count",
        "blocks",
        "parsing",
        "comparing",
        "ordering",
        "seconds",
        "goal",
        "links",
        "roots",
        "depth",
    )
    shown = printing.table("penstock bench spark --covering", ("rules",), figures)
    for one in found:
        seconds = (one.parsing_seconds, one.comparing_seconds, one.ordering_seconds, one.seconds)
        shown.add_row(
            one.rules,
            f"{one.count:,}",
            f"{one.blocks}",
            *(f"{figure:,.1f} s" for figure in seconds),
            f"≤ {one.goal_seconds:,.1f} s",
            *(f"{figure:,}" for figure in (one.links, one.roots, one.depth)),
        )
    printing.console(_WIDTH).print(shown)


def agrees(report: Report) -> bool:
    """Whether all found the same."""
    return all(size.agrees for size in report.sizes) and all(join.agrees for join in report.joins)


def document(report: Report) -> dict[str, object]:
    """All that was measured, for machines."""
    sizes, joins = (
        [{**msgspec.to_builtins(one), **{name: getattr(one, name) for name in names}} for one in rows]
        for rows, names in (
            (
                report.sizes,
                (
                    "events_per_second",
                    "matches_per_event",
                    "overhead",
                    "events_growth",
                    "filters_growth",
                    "pairs_per_second",
                ),
            ),
            (report.joins, ("pairs_per_second", "ratio")),
        )
    )
    return {
        "machine": {**measures.facts(), "pyspark": report.version},
        "choices": msgspec.to_builtins(report.choices),
        "start": msgspec.to_builtins(report.start),
        "sizes": sizes,
        "joins": joins,
        "goals": msgspec.to_builtins(goals(report)),
        "notes": notes(report),
    }


def notes(report: Report) -> list[str]:
    """What has to be known to read the figures."""
    choices = report.choices
    said = [
        f"Spark on {choices.master}; medians of {choices.repeats}, kinds of measurement in turn. Events: "
        "Parquet with six columns of codes, an id, a number and a time, made from seed "
        f"{choices.seed}; filters: SQL text with an equality, a list of three and one of two that must not "
        "be. Each number of filters has its own events, with as many codes as make about one match an event.",
        "nothing: a mapInArrow that passes all rows on. bare: match_batch alone, on the same rows of the "
        "same files, in as many processes as there are cores, the longest counts. route: from the call until "
        "all rows with their ids are computed (format noop).",
        "Half of the filters meet the same events, so that twice the filters are twice the matches too.",
        "Memory of Python workers, as they tell after matching: private is theirs alone; the table is mapped "
        "from files, shared by all workers of the machine, and part of resident. peak: of resident.",
    ]
    if report.joins:
        said.append(
            "Joins: a row for each match, at the most events that finish in "
            f"{choices.budget:g} s, once; route on the same rows. expressions: every pair is tried, as any "
            "filters need. by hand: joined on the equality and the list, which only filters of this form "
            "allow; at full size: pairs/s of route above to those of the join."
        )
    return said


def show(report: Report) -> None:
    """Print tables and notes."""
    console = printing.console(_WIDTH)
    facts = {**measures.facts(), "pyspark": report.version}
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    if report.start is not None:
        console.print(
            f"session {report.start.session_seconds:.1f} s, first Python job "
            f"{report.start.first_python_seconds:.1f} s"
        )
    if report.sizes:
        for made in (_rates(report), _setup(report), _memory(report)):
            console.print(made)
    if report.joins:
        console.print(_joins(report))
    table = printing.table("goals", ("what",), ("goal", "figure", ""))
    for goal in goals(report):
        table.add_row(goal.what, goal.goal, goal.figure, "met" if goal.met else "missed")
    console.print(table)
    if not agrees(report):
        console.print("NOT ALL FOUND THE SAME MATCHES: these figures mean nothing.")
    for note in notes(report):
        console.print(note, markup=False)


def write_json(report: Report) -> None:
    """Print all as JSON."""
    sys.stdout.write(msgspec.json.encode(document(report)).decode() + "\n")


def _rates(report: Report) -> object:
    figures = ("events", "matches/event", "nothing s", "bare s", "route s", "events/s", "overhead", "pairs/s")
    table = printing.table("penstock bench spark", ("filters",), (*figures, "2 × events", "2 × filters"))
    for size in report.sizes:
        table.add_row(
            f"{size.filters:,}",
            f"{size.events:,}",
            f"{size.matches_per_event:.2f}",
            *(f"{one:.2f}" for one in (size.nothing_seconds, size.bare_seconds, size.route_seconds)),
            f"{size.events_per_second:,.0f}",
            f"{size.overhead:.2f} ×",
            f"{size.pairs_per_second:.2g}",
            f"{size.events_growth:.2f} ×",
            f"{size.filters_growth:.2f} ×",
        )
    return table


def _setup(report: Report) -> object:
    figures = ("compile and save s", "table MB", "first job s", "again s")
    table = printing.table("set-up", ("filters",), figures)
    for size in report.sizes:
        seconds = (f"{one:.2f}" for one in (size.first_seconds, size.again_seconds))
        table.add_row(
            f"{size.filters:,}", f"{size.save_seconds:.1f}", f"{size.table_bytes / _MB:,.1f}", *seconds
        )
    return table


def _memory(report: Report) -> object:
    figures = ("workers", "resident MB", "private MB", "table mapped MB", "proportional MB", "peak MB")
    table = printing.table("memory per Python worker, the largest", ("filters",), figures)
    rows = [("none yet", report.start.workers if report.start else [])]
    rows += [(f"{size.filters:,}", size.workers) for size in report.sizes]
    for name, workers in rows:
        table.add_row(name, *_largest(workers))
    return table


def _largest(workers: list[Weight]) -> list[str]:
    if not workers:
        return ["not told", "", "", "", "", ""]
    names = ("resident", "private", "table", "proportional", "peak")
    return [
        f"{len(workers)}",
        *(f"{max(getattr(one, name) for one in workers) / _MB:,.1f}" for name in names),
    ]


def _joins(report: Report) -> object:
    figures = ("filters", "events", "matches", "join s", "join pairs/s", "route s", "ratio", "at full size")
    table = printing.table("plain joins, and route on the same rows", ("join",), figures)
    full = {size.filters: size.pairs_per_second for size in report.sizes}
    for join in report.joins:
        if join.join_seconds is None:
            table.add_row(join.name, f"{join.filters:,}", "none in time", "", "", "", "", "", "")
            continue
        at_full = full.get(join.filters)
        table.add_row(
            join.name,
            f"{join.filters:,}",
            f"{join.events:,}",
            f"{join.matches:,}",
            f"{join.join_seconds:.2f}",
            f"{join.pairs_per_second:.3g}",
            f"{join.route_seconds:.2f}",
            f"{join.ratio:,.3g} ×",
            "" if at_full is None else f"{at_full / join.pairs_per_second:,.3g} ×",
        )
    return table
