"""`penstock bench matching`: the matcher on the scenarios of `scenarios`, beside other engines.

Each line names the bar that the project sets itself. Machines differ and are noisy: compare the lines of
one run with one another, and runs on one machine.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.bench import figures, loads, measures
from penstock.bench.measures import Churn, Point, Start
from penstock.bench.others import Comparison, compare
from penstock.bench.scenario import (
    Bar,
    ChurnScenario,
    CompileScenario,
    FiguresScenario,
    GrowthScenario,
    MatchScenario,
    Scenario,
    StartScenario,
    TextsScenario,
    scaled,
    scenarios,
)
from penstock.bench.texts import Texts, measure_texts
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from rich.console import Console

Progress = Callable[[str], None]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One figure and its bar."""

    scenario: str
    what: str
    measured: float
    unit: str
    bar: float
    goal: float | None
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether the bar is reached."""
        return self._reaches(self.bar)

    @property
    def goal_met(self) -> bool:
        """Whether the goal is reached, where there is one."""
        return self.goal is not None and self._reaches(self.goal)

    def _reaches(self, mark: float) -> bool:
        return self.measured >= mark if self.at_least else self.measured <= mark


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All that a scenario has shown."""

    scenario: str
    title: str
    filters: int
    seconds: float
    """How long measuring took."""
    results: list[Result] = []
    points: list[Point] = []
    comparisons: list[Comparison] = []
    churn: Churn | None = None
    start: Start | None = None
    texts: Texts | None = None
    drawn: figures.Result | None = None
    """The points of the paper's figures."""


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    seed: int | None = None
    """In place of the scenarios' own."""
    scale: float = 1.0
    others: bool = True
    budget_seconds: float = 20.0
    """For each of the other engines in each scenario."""

    @property
    def judges(self) -> bool:
        """Whether bars are met or missed: with fewer filters than they are for, all are."""
        return self.scale >= 1


def run(options: argparse.Namespace) -> int:
    """Run the scenarios asked for, and print a table, or JSON."""
    known = scenarios()
    for name in options.scenario:
        if name not in known:
            raise InputError(f"there is no scenario {name!r:.80}; there are {', '.join(known)}")
    choices = Choices(
        seed=options.seed, scale=options.scale, others=not options.no_others, budget_seconds=options.budget
    )
    # The paper's figures take minutes, and are of use only where they are drawn.
    names = options.scenario or [name for name in known if name != "figures" or options.plots]
    outcomes: list[Outcome] = []
    try:
        for name in dict.fromkeys(names):
            outcomes.append(_measure_apart(known[name], choices))  # noqa: PERF401 - keeps what came before an error
    finally:
        # Also when a later scenario fails or is interrupted: these minutes shall not be lost.
        _report(outcomes, choices, options)
    return 0


def _measure_apart(scenario: Scenario, choices: Choices) -> Outcome:
    """Run one scenario in a process of its own.

    What another left behind would be measured, too: memory in pieces that no longer make large pages costs
    small tables a third of their rate.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure_for, args=(theirs, scenario, choices), daemon=True)
    process.start()
    theirs.close()
    try:
        found: Outcome | BaseException = ours.recv()
    except EOFError:
        raise PenstockError(f"{scenario.name}: the process that measured it has ended") from None
    finally:
        process.terminate()
        process.join()
    if isinstance(found, BaseException):
        raise found
    return found


def _measure_for(parent: "Connection", scenario: Scenario, choices: Choices) -> None:
    # Ctrl-C is the parent's to tell of.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        parent.send(measure(scenario, choices, _say))
    except Exception as error:
        parent.send(error)


def _report(outcomes: list[Outcome], choices: Choices, options: argparse.Namespace) -> None:
    if options.plots:
        for path in plot(outcomes, Path(options.plots)):
            _say(f"wrote {path}")
    if options.json:
        sys.stdout.write(msgspec.json.encode(document(outcomes, choices)).decode() + "\n")
    else:
        _print(outcomes, choices)


def measure(scenario: Scenario, choices: Choices, progress: Progress = lambda _what: None) -> Outcome:
    """Run one scenario."""
    started = time.perf_counter()
    scenario = scaled(scenario, choices.scale)
    seed = scenario.seed if choices.seed is None else choices.seed

    def say(what: str) -> None:
        progress(f"{scenario.name}: {what}")

    found = _measure(scenario, seed, choices, say)
    return msgspec.structs.replace(found, seconds=time.perf_counter() - started)


def _measure(scenario: Scenario, seed: int, choices: Choices, say: Progress) -> Outcome:
    """Dispatch on what is to be measured."""
    plain = Outcome(scenario=scenario.name, title=scenario.title, filters=0, seconds=0.0)
    if not isinstance(scenario, FiguresScenario):
        plain = msgspec.structs.replace(plain, filters=scenario.workload.filters)
    if isinstance(scenario, MatchScenario):
        load = loads.make(scenario.workload, scenario.warm_up + scenario.events, seed)
        point, matcher = measures.measure_match(load, scenario, say)
        others = (
            compare(load, scenario, point, matcher, choices.budget_seconds, say) if choices.others else []
        )
        found = {
            "time": point.us_per_event,
            "rate": 1e6 / point.us_per_event,
            "memory": point.bytes_per_constraint,
            "matches": point.matches_per_event,
        }
        return _with(plain, scenario, found, points=[point], comparisons=others)
    if isinstance(scenario, GrowthScenario):
        points = measures.measure_growth(scenario, seed, say)
        growth = {"growth": points[-1].us_per_event / points[0].us_per_event}
        return _with(plain, scenario, growth, points=points, filters=scenario.sizes[-1])
    if isinstance(scenario, CompileScenario):
        return _with(plain, scenario, {"compile": measures.measure_compile(scenario, seed, say)})
    if isinstance(scenario, ChurnScenario):
        churn = measures.measure_churn(scenario, seed, say)
        found = {
            "changes": churn.changes_per_second,
            "slowdown": churn.us_during / churn.us_before,
            "before": churn.us_before,
            "during": churn.us_during,
        }
        return _with(plain, scenario, found, churn=churn)
    if isinstance(scenario, TextsScenario):
        loaded = measure_texts(scenario, seed, say)
        figures_of = (loaded.seconds, loaded.ratio, loaded.match_ms, loaded.peak_gb)
        return _with(plain, scenario, dict(zip(scenario.figures, figures_of, strict=True)), texts=loaded)
    if isinstance(scenario, StartScenario):
        start = measures.measure_start(scenario, seed, say)
        seconds = (start.imported, start.loaded, start.compiled)
        return _with(plain, scenario, dict(zip(scenario.figures, seconds, strict=True)), start=start)
    drawn = figures.measure(figures_scale(choices.scale), seed=seed, progress=say)
    return msgspec.structs.replace(plain, drawn=drawn)


def _with(plain: Outcome, scenario: Scenario, found: dict[str, float], **more: object) -> Outcome:
    """The outcome with what was found, and how that compares with the bars."""
    results = [_result(scenario.name, bar, found[bar.what]) for bar in scenario.bars]
    return msgspec.structs.replace(plain, results=results, **more)


def _result(scenario: str, bar: Bar, measured: float) -> Result:
    return Result(
        scenario=scenario,
        what=bar.what,
        measured=measured,
        unit=bar.unit,
        bar=bar.bar,
        goal=bar.goal,
        at_least=bar.at_least,
    )


def figures_scale(scale: float) -> figures.Scale:
    """What to measure for the paper's figures, with fewer constraints."""
    full = figures.FULL
    if scale >= 1:
        return full
    sizes = [max(1_000, round(constraints * scale)) for constraints in full.constraints]
    largest = sizes[-1]
    return msgspec.structs.replace(
        full,
        constraints=sorted(set(sizes)),
        ratio_constraints=largest,
        ratios=[ratio for ratio in full.ratios if ratio * 50 <= largest],
        round_constraints=sorted({max(1_000, round(c * scale)) for c in full.round_constraints}),
        interfaces=[number for number in full.interfaces if number * 5 <= sizes[0]],
    )


def plot(outcomes: list[Outcome], folder: Path) -> list[Path]:
    """Draw growth.png and figure7.png to figure9.png, as far as they were measured."""
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        if len(outcome.points) > 1:
            paths.append(folder / f"{outcome.scenario}.png")
            draw_growth(outcome, paths[-1])
        if outcome.drawn is not None:
            paths += figures.plot(outcome.drawn, folder)
    return paths


def draw_growth(outcome: Outcome, path: Path) -> None:
    """Time by number of filters, with what linear growth would be."""
    from matplotlib.figure import Figure

    figure = Figure((6, 4.5))
    axes = figure.subplots()
    filters = [point.filters for point in outcome.points]
    times = [point.us_per_event for point in outcome.points]
    matches = sum(point.matches_per_event for point in outcome.points) / len(filters)
    axes.loglog(filters, times, marker="o", label=f"matcher, {matches:.1f} matches an event")
    linear = [times[0] * count / filters[0] for count in filters]
    axes.loglog(filters, linear, "--", color="grey", label="in proportion to filters")
    axes.set_xlabel("filters")
    axes.set_ylabel("time per event (µs)")
    axes.set_title(outcome.title, fontsize="medium")
    axes.grid(which="both", alpha=0.25)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def document(outcomes: list[Outcome], choices: Choices) -> dict[str, object]:
    """All that was measured, for machines."""
    plain = msgspec.to_builtins(outcomes)
    for made, outcome in zip(plain, outcomes, strict=True):
        for row, result in zip(made["results"], outcome.results, strict=True):
            judged = (result.met, result.goal_met) if choices.judges else (None, None)
            row.update(zip(("met", "goal_met"), judged, strict=True))
        for row, comparison in zip(made["comparisons"], outcome.comparisons, strict=True):
            row.update(ratio=comparison.ratio)
    return {"machine": measures.facts(), "scale": choices.scale, "scenarios": plain}


def _say(what: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{what}\n")


def _print(outcomes: list[Outcome], choices: Choices) -> None:
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(", ".join(f"{name} {value}" for name, value in measures.facts().items()), highlight=False)
    if choices.scale != 1:
        told = "" if choices.judges else ", so none is said to be met or missed"
        console.print(f"Filters are scaled by {choices.scale:g}; the bars are those of the full size{told}.")
    _print_results(console, outcomes, choices)
    _print_comparisons(
        console, [row for outcome in outcomes for row in outcome.comparisons], choices.budget_seconds
    )


def _print_results(console: "Console", outcomes: list[Outcome], choices: Choices) -> None:
    from rich import box
    from rich.table import Table

    table = Table(title="penstock bench matching", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for heading in ("scenario", "filters", "what"):
        table.add_column(heading, justify="right" if heading == "filters" else "left")
    for heading in ("measured", "bar", "goal", "of the bar"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for outcome in outcomes:
        for result in outcome.results:
            sign = "≥" if result.at_least else "≤"
            verdict = "goal met" if result.goal_met else "met" if result.met else "missed"
            verdict = verdict if choices.judges else ""
            table.add_row(
                outcome.scenario,
                f"{outcome.filters:,}",
                result.what,
                f"{_number(result.measured)} {result.unit}",
                f"{sign} {_number(result.bar)}",
                "" if result.goal is None else f"{sign} {_number(result.goal)}",
                f"{result.measured / result.bar:.2f} ×",
                verdict,
            )
    console.print(table)
    for outcome in outcomes:
        for point in outcome.points:
            console.print(
                f"{outcome.scenario}: {point.filters:,} filters, {point.constraints:,} constraints: "
                f"{point.us_per_event:.2f} µs/event, {point.matches_per_event:.1f} matches, "
                f"{point.bytes_per_constraint:.1f} bytes/constraint, compiled in "
                f"{point.seconds_to_compile:.1f} s",
                highlight=False,
            )
        if outcome.churn is not None:
            before, during = outcome.churn.us_before, outcome.churn.us_during
            console.print(
                f"{outcome.scenario}: {before:.2f} µs/event before, {during:.2f} during changes",
                highlight=False,
            )


def _print_comparisons(console: "Console", rows: list[Comparison], budget_seconds: float) -> None:
    from rich import box
    from rich.table import Table

    if not rows:
        return
    table = Table(title="other engines", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for heading in ("scenario", "engine"):
        table.add_column(heading)
    for heading in ("filters", "events", "µs/event", "matcher's", "ratio"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        note = row.note if row.agrees else f"answers differ! {row.note}"
        figures = (
            (_number(row.us_per_event), _number(row.matcher_us_per_event), f"{row.ratio:,.1f} ×")
            if row.filters
            else ("", "", "")
        )
        table.add_row(row.scenario, row.engine, f"{row.filters:,}", f"{row.events:,}", *figures, note)
    console.print(table)
    console.print("matcher's: its own time with as many filters; ratio: to that.")
    if any("scaled down" in row.note for row in rows):
        console.print(f"Scaled down: more filters would not fit into the budget of {budget_seconds:g} s.")


def _number(value: float) -> str:
    """Three digits or so."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
