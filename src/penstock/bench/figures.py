"""Figures 7, 8 and 9 of Carzaniga and Wolf, "Fast Forwarding for Content-Based Networking" (2002), again.

`measure` builds tables of the paper's workload and times the paper's algorithm on them: by the number of
constraints (figure 7), by filters per interface (8), by pre-processing rounds (9). `plot` draws the result. A
table is built once for all numbers of rounds. As in the paper, 100 messages are averaged; as others on a
machine only slow it down, the best of some passes counts.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.matching.counting import CountingTable
from penstock.matching.paper_table import Messages
from penstock.matching.selectivity import ROUNDS, SelectivityTable
from penstock.workloads import forwarding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Progress = Callable[[str], None]

ONE_EACH: Final = 0
"""Stands for as many interfaces as filters."""

_FILTER_SIZE: Final = 5
"""Constraints of a filter, on average."""


class Scale(msgspec.Struct, frozen=True):
    """What to measure: numbers of constraints, filters per interface, rounds.

    `ratio_constraints` is the table size of figure 8, `round_constraints` are the two of figure 9.
    """

    constraints: Sequence[int] = (1_000, 10_000, 100_000, 500_000, 1_000_000, 2_000_000, 3_500_000, 5_000_000)
    interfaces: Sequence[int] = (10, 20, 50, 100)
    ratio_constraints: int = 5_000_000
    ratios: Sequence[int] = (1, 2, 3, 5, 10, 20, 50, 100, 1_000, 10_000, 100_000)
    round_constraints: Sequence[int] = (1_000_000, 5_000_000)
    rounds: Sequence[int] = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    messages: int = 100
    passes: int = 7


FULL: Final = Scale()
"""As far as the paper goes: some minutes."""

QUICK: Final = Scale(
    constraints=(1_000, 10_000, 100_000),
    ratio_constraints=100_000,
    ratios=(1, 2, 5, 10, 100, 1_000),
    round_constraints=(20_000, 100_000),
    rounds=(0, 1, 5, 10, 20, 50, 100),
    passes=5,
)
"""Seconds; too small for the selectivity table to gain much."""


class Timing(msgspec.Struct, frozen=True):
    """One measured point. `interfaces` counts those that the table has."""

    constraints: int
    filters: int
    interfaces: int
    rounds: int
    ms_per_message: float
    matches_per_message: float
    bytes_per_constraint: float


class Result(msgspec.Struct, frozen=True):
    """The points of the figures.

    `by_constraints` has a series for each number of interfaces, `ONE_EACH` among them.
    """

    by_constraints: dict[int, list[Timing]]
    by_ratio: list[Timing]
    by_rounds: list[list[Timing]]


def measure(scale: Scale = FULL, *, seed: int = 1, progress: Progress = lambda _what: None) -> Result:
    """Measure all three figures."""
    messages = forwarding.messages(scale.messages, seed)
    _warm_up(messages)
    by_constraints: dict[int, list[Timing]] = {number: [] for number in (*scale.interfaces, ONE_EACH)}
    for constraints in scale.constraints:
        filters = max(constraints // _FILTER_SIZE, 1)
        for number, series in by_constraints.items():
            if number <= filters:
                progress(f"figure 7: {constraints:,} constraints, {_series_name(number)}")
                series.extend(_timings(filters, number or filters, (0, ROUNDS), messages, scale.passes, seed))
    by_ratio = []
    filters = scale.ratio_constraints // _FILTER_SIZE
    for ratio in scale.ratios:
        progress(f"figure 8: {ratio:,} filters per interface")
        number = max(filters // ratio, 1)
        by_ratio.extend(_timings(filters, number, (0, ROUNDS), messages, scale.passes, seed))
    by_rounds = []
    for constraints in scale.round_constraints:
        progress(f"figure 9: {constraints:,} constraints")
        filters = constraints // _FILTER_SIZE
        by_rounds.append(_timings(filters, filters, scale.rounds, messages, scale.passes, seed))
    return Result(by_constraints, by_ratio, by_rounds)


def _warm_up(messages: Messages) -> None:
    """Have the kernels compiled before anything is timed."""
    _timings(100, 100, (0, ROUNDS), messages, 1, 0)


def _timings(
    filters: int, number_of_interfaces: int, rounds: Sequence[int], messages: Messages, passes: int, seed: int
) -> list[Timing]:
    """Build a table and time the messages on it, for each number of rounds.

    Passes go round about the numbers of rounds, so that what disturbs the machine disturbs them alike.
    """
    made = forwarding.filters(filters, seed)
    interfaces = forwarding.interfaces(filters, number_of_interfaces, seed)
    counting = CountingTable.build(made, interfaces, forwarding.names(), forwarding.words())
    selectivity = SelectivityTable(counting)
    batch = counting.batch(messages)
    best = dict.fromkeys(rounds, float("inf"))
    matches = 0
    for number in rounds:
        matches = len(selectivity.forward_many(batch, number)[1])
    for _ in range(passes):
        for number in rounds:
            started = time.perf_counter()
            selectivity.forward_many(batch, number)
            best[number] = min(best[number], time.perf_counter() - started)
    count, constraints = len(batch.offsets) - 1, len(made.attribute)
    return [
        Timing(
            constraints=constraints,
            filters=filters,
            interfaces=number_of_interfaces,
            rounds=number,
            ms_per_message=best[number] * 1_000 / count,
            matches_per_message=matches / count,
            bytes_per_constraint=counting.nbytes / constraints,
        )
        for number in rounds
    ]


def plot(result: Result, folder: Path) -> list[Path]:
    """Write figure7.png, figure8.png and figure9.png into a folder; return their paths."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    seven, eight, nine = Figure((11, 4.5)), Figure((6, 4.5)), Figure((6, 4.5))
    _draw_by_constraints(seven, result)
    _draw_by_ratio(eight.subplots(), result.by_ratio)
    _draw_by_rounds(nine.subplots(), result.by_rounds)
    paths = []
    for number, figure in ((7, seven), (8, eight), (9, nine)):
        figure.tight_layout()
        paths.append(folder / f"figure{number}.png")
        figure.savefig(paths[-1], dpi=120)
    return paths


def gains(series: Sequence[Timing]) -> list[float]:
    """By how many percent each point is quicker than the series' point without rounds."""
    (plain,) = (timing.ms_per_message for timing in series if timing.rounds == 0)
    return [100 * (1 - timing.ms_per_message / plain) for timing in series]


def _draw_by_constraints(figure: "Figure", result: Result) -> None:
    centralized, distributed = figure.subplots(1, 2)
    for number, series in result.by_constraints.items():
        axes = centralized if number == ONE_EACH else distributed
        for rounds, style in ((0, "--"), (ROUNDS, "-")):
            points = [timing for timing in series if timing.rounds == rounds]
            axes.plot(
                [timing.constraints / 1e6 for timing in points],
                [timing.ms_per_message for timing in points],
                style,
                color="C0" if number == ONE_EACH else f"C{list(result.by_constraints).index(number)}",
                marker=".",
                label=f"{_series_name(number)}, r = {rounds}",
            )
    centralized.set_title("(a) centralized: one filter per interface")
    distributed.set_title("(b) distributed")
    for axes in (centralized, distributed):
        _label(axes, "constraints (millions)", "time per message (ms)")


def _draw_by_ratio(axes: "Axes", series: Sequence[Timing]) -> None:
    for rounds, style in ((0, "--"), (ROUNDS, "-")):
        points = [timing for timing in series if timing.rounds == rounds]
        ratios = [timing.filters / timing.interfaces for timing in points]
        axes.plot(
            ratios, [timing.ms_per_message for timing in points], style, marker=".", label=f"r = {rounds}"
        )
    axes.set_xscale("log")
    axes.set_title(f"{series[0].constraints:,} constraints")
    _label(axes, "filters per interface", "time per message (ms)")


def _draw_by_rounds(axes: "Axes", tables: Sequence[Sequence[Timing]]) -> None:
    for series in tables:
        rounds = [timing.rounds for timing in series]
        axes.plot(rounds, gains(series), marker=".", label=f"{series[0].constraints:,} constraints")
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_title("one filter per interface")
    _label(axes, "pre-processing rounds", "gain over counting (%)")


def _label(axes: "Axes", x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if x != "filters per interface":
        axes.set_xlim(left=0)
    if y.startswith("time"):
        axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")


def _series_name(number: int) -> str:
    return "I = F" if number == ONE_EACH else f"I = {number}"
