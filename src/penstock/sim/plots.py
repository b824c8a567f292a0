"""Plots of a simulation: queues over time, delays, table sizes by broker, traffic by kind."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from penstock.errors import InputError, MissingExtraError
from penstock.sim.results import Result, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        figure = Figure((6, 4.5))
        axes = figure.subplots()
        draw(axes, result, series)
        axes.grid(alpha=0.25)
        figure.tight_layout()
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=120)
    return paths


def _draw_queues(axes: "Axes", result: Result, series: Series) -> None:
    times = [sample.at_s for sample in series.queues]
    axes.plot(times, [sample.longest for sample in series.queues], label="longest")
    axes.plot(times, [sample.mean for sample in series.queues], label="mean of all brokers")
    _label(axes, result, "time (s)", "messages in the queue")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")


def _draw_delays(axes: "Axes", result: Result, series: Series) -> None:
    ordered = sorted(series.delays_s)
    shares = [(number + 1) / len(ordered) for number in range(len(ordered))]
    axes.plot([seconds * 1000 for seconds in ordered], shares)
    _label(axes, result, "delay from publishing to delivery (ms)", "share of deliveries")
    axes.set_ylim(0, 1)


def _draw_tables(axes: "Axes", result: Result, _series: Series) -> None:
    sizes = result.subscription_tables.by_broker
    numbers = sorted(sizes.values(), reverse=True)
    axes.bar(range(len(numbers)), numbers, width=1.0, edgecolor="white", linewidth=0.5)
    _label(axes, result, "brokers, the largest table first", "subscriptions in the table")


def _draw_traffic(axes: "Axes", result: Result, _series: Series) -> None:
    phases = (("setting up", result.setting_up.traffic), ("running", result.running.traffic))
    kinds = list({kind: None for _name, traffic in phases for kind in traffic})
    for number, (name, traffic) in enumerate(phases):
        places = [place + (number - 0.5) * 0.4 for place in range(len(kinds))]
        axes.barh(places, [traffic.get(kind, 0) for kind in kinds], height=0.4, label=name)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.invert_yaxis()
    # Publications are often a thousand times as many as the rest, which is what one wants to see too.
    axes.set_xscale("symlog")
    _label(axes, result, "messages between brokers", "")
    axes.legend(fontsize="small")


def _label(axes: "Axes", result: Result, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(f"{result.title}: {result.scheme}", fontsize="medium")


_PLOTS: Final[dict[str, Callable[["Axes", Result, Series], None]]] = {
    "queues": _draw_queues,
    "delays": _draw_delays,
    "tables": _draw_tables,
    "traffic": _draw_traffic,
}
