"""Plots of a simulation: queues, waiting for bandwidth and deliveries over time, delays, table sizes by
broker, traffic by kind.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from penstock.errors import InputError, MissingExtraError
from penstock.sim.results import KIND_NAMES, Result, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def prepare(folder: Path) -> None:
    """Make the folder, and find out whether plots can be drawn and written: to be called before a run."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("plots need matplotlib: pip install 'penstock[bench]'")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        what = (
            "not a folder" if isinstance(error, FileExistsError) else (error.strerror or str(error)).lower()
        )
        raise InputError(f"{folder}: plots cannot be written: {what}") from None


def plot(result: Result, series: Series, folder: Path) -> list[Path]:
    """Write a file for each plot into a folder that is prepared; return their paths."""
    from matplotlib.figure import Figure

    paths = []
    for name, draw in _PLOTS.items():
        figure = Figure((6.5, 4.5))
        axes = figure.subplots()
        draw(axes, result, series)
        figure.tight_layout()
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=120)
    return paths


def _draw_queues(axes: "Axes", result: Result, series: Series) -> None:
    title = "messages that wait at brokers"
    if not any(result.service_us.values()):
        _say(axes, result, title, "no queues: service times are zero")
        return
    times = [sample.at_s for sample in series.queues]
    axes.plot(times, [sample.longest for sample in series.queues], label="longest queue")
    axes.plot(times, [sample.mean for sample in series.queues], label="mean of all brokers")
    _label(axes, result, title, "time (s)", "messages in the queue")
    _count_in_wholes(axes.yaxis)
    _finish_times(axes, series)


def _draw_waits(axes: "Axes", result: Result, series: Series) -> None:
    title = "messages that wait for bandwidth"
    if result.waits is None:
        _say(axes, result, title, "no waiting: bandwidth has no limit")
        return
    times = [sample.at_s for sample in series.queues]
    axes.plot(times, [sample.wait_s * 1000 for sample in series.queues], label="busiest link")
    _label(axes, result, title, "time (s)", "wait until a message leaves (ms)")
    _finish_times(axes, series)


def _draw_deliveries(axes: "Axes", result: Result, series: Series) -> None:
    title = "deliveries, by when the event was published"
    some = series.deliveries[_TOGETHER - 1 :: _TOGETHER]
    if not result.while_running.expected:
        _say(axes, result, title, "no deliveries were expected")
        return
    span = some[0].at_s
    for field in ("expected", "missed"):
        figures = [getattr(part, field) for part in series.deliveries]
        sums = [sum(figures[at : at + _TOGETHER]) / span for at in range(0, len(figures), _TOGETHER)]
        axes.plot([part.at_s - span / 2 for part in some], sums, label=field)
    _label(axes, result, title, "time (s)", "deliveries a second")
    _finish_times(axes, series)


def _draw_delays(axes: "Axes", result: Result, series: Series) -> None:
    title = "delays of deliveries"
    if not series.delays_s:
        _say(axes, result, title, "nothing was delivered")
        return
    ordered = sorted(series.delays_s)
    shares = [(number + 1) / len(ordered) for number in range(len(ordered))]
    axes.plot([seconds * 1000 for seconds in ordered], shares)
    _label(axes, result, title, "delay from publishing to delivery (ms)", "share of deliveries")
    axes.set_ylim(0, 1)


def _draw_tables(axes: "Axes", result: Result, _series: Series) -> None:
    sizes = result.subscription_tables.by_broker
    numbers = sorted(sizes.values(), reverse=True)
    axes.bar(range(1, len(numbers) + 1), numbers, width=1.0, edgecolor="white", linewidth=0.5)
    _label(
        axes, result, "subscription tables", "brokers, the largest table first", "subscriptions in the table"
    )
    _count_in_wholes(axes.xaxis)
    _count_in_wholes(axes.yaxis)


def _draw_traffic(axes: "Axes", result: Result, _series: Series) -> None:
    phases = (("setting up", result.setting_up.traffic), ("running", result.running.traffic))
    kinds = list({kind: None for _name, traffic in phases for kind in traffic})
    for number, (name, traffic) in enumerate(phases):
        places = [place + (number - 0.5) * 0.4 for place in range(len(kinds))]
        axes.barh(places, [traffic.get(kind, 0) for kind in kinds], height=0.4, label=name)
    axes.set_yticks(range(len(kinds)), [KIND_NAMES.get(kind, kind) for kind in kinds])
    axes.invert_yaxis()
    # Publications are often a thousand times as many as the rest, which is what one wants to see too.
    axes.set_xscale("symlog")
    _label(axes, result, "messages between brokers, by kind", "messages", "")
    axes.legend(fontsize="small")


def _label(axes: "Axes", result: Result, title: str, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    axes.set_title(_title(result, title), fontsize="medium")


def _title(result: Result, title: str) -> str:
    return f"{title}\n{result.title}: {result.scheme}"


def _count_in_wholes(axis: "Axis") -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def _say(axes: "Axes", result: Result, title: str, why: str) -> None:
    """Why there is nothing to draw: an empty frame would be taken for a mistake."""
    axes.set_axis_off()
    axes.set_title(_title(result, title), fontsize="medium")
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes)


def _finish_times(axes: "Axes", series: Series) -> None:
    """Mark the faults in a plot over time, and put the legend."""
    for number, at in enumerate(sorted({at for at, _kind in series.faults})):
        axes.axvline(at, color="grey", linewidth=0.6, linestyle=":", label=None if number else "faults")
    for at, kind in series.faults[:_FAULTS_NAMED]:
        axes.text(
            at, 0.99, f" {kind}", rotation=90, fontsize=6, color="grey", ha="right", va="top",
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")


_TOGETHER: Final = 4
"""Slices of time that are drawn as one: in a single one there are few events."""

_FAULTS_NAMED: Final = 40
"""More would be a grey cloud."""

_PLOTS: Final[dict[str, Callable[["Axes", Result, Series], None]]] = {
    "queues": _draw_queues,
    "waits": _draw_waits,
    "deliveries": _draw_deliveries,
    "delays": _draw_delays,
    "tables": _draw_tables,
    "traffic": _draw_traffic,
}
